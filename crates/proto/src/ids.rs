//! Identifiers of nodes, adapters, segments, interrupts and groups.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The broadcast group of the SISCI API; no node may have this id.
pub const BROADCAST_NODE_ID: u32 = 252;
/// Ids above this are refused, so that tables indexed by node stay small.
pub const MAX_NODE_ID: u32 = 16_384;

/// Number of a node: a positive multiple of 4 up to [`MAX_NODE_ID`], except [`BROADCAST_NODE_ID`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct NodeId(u32);

/// A number that is no node ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not a node ID: use a multiple of 4 from 4 to {MAX_NODE_ID}, except {BROADCAST_NODE_ID} (the broadcast group)"
)]
pub struct BadNodeId(pub u32);

impl NodeId {
    /// Checks and wraps a node number.
    pub const fn new(id: u32) -> Result<Self, BadNodeId> {
        if id == 0 || !id.is_multiple_of(4) || id == BROADCAST_NODE_ID || id > MAX_NODE_ID {
            return Err(BadNodeId(id));
        }
        Ok(Self(id))
    }

    /// The id of the `index`-th node (from 0) of a cluster that is numbered by default: 4, 8, … 248, 260, ….
    pub fn nth(index: usize) -> Result<Self, BadNodeId> {
        let plain = u32::try_from(index).ok().and_then(|i| i.checked_add(1)).and_then(|i| i.checked_mul(4));
        let plain = plain.ok_or(BadNodeId(u32::MAX))?;
        // 252 is the broadcast group and 256 is skipped with it: the next id after 248 is 260 by custom.
        Self::new(if plain >= BROADCAST_NODE_ID { plain + 8 } else { plain })
    }

    /// The plain number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for NodeId {
    type Error = BadNodeId;
    fn try_from(id: u32) -> Result<Self, BadNodeId> {
        Self::new(id)
    }
}

impl From<NodeId> for u32 {
    fn from(id: NodeId) -> Self {
        id.0
    }
}

impl FromStr for NodeId {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(number) => Self::new(number).map_err(|bad| bad.to_string()),
            // The same words, for what is not even a number of this size.
            Err(_) => Err(format!("`{text}`{}", BadNodeId(0).to_string().trim_start_matches('0'))),
        }
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Number of a segment, unique on its node.
    SegmentId
}
number! {
    /// Number of an adapter on its node, from 0.
    AdapterNo
}
number! {
    /// Number of an interrupt, unique on its node.
    InterruptNo
}
number! {
    /// Number of a multicast group, the same on all nodes.
    GroupId
}

number! {
    /// Number of a port of message queues, unique on its node.
    PortNo
}

/// What a directory entry is called: each kind is numbered apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SegmentKey {
    /// A segment that a program created under its own id.
    Segment(SegmentId),
    /// The copy that this node's member of a group holds. One member a node.
    GroupCopy(GroupId),
    /// The address of the message queue at a port.
    Port(PortNo),
}

impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(id) => write!(f, "segment {id}"),
            Self::GroupCopy(id) => write!(f, "copy of group {id}"),
            Self::Port(port) => write!(f, "message queue at port {port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_in_fours_past_the_broadcast_group() {
        let ids: Vec<u32> = (0..66).map(|index| NodeId::nth(index).unwrap().get()).collect();
        assert_eq!(ids[..3], [4, 8, 12]);
        assert_eq!(ids[60..65], [244, 248, 260, 264, 268]);
        assert!(NodeId::nth(usize::MAX).is_err());
        let most = NodeId::nth(4093).unwrap();
        assert_eq!(most.get(), MAX_NODE_ID);
        assert!(NodeId::nth(4094).is_err());
    }

    #[test]
    fn what_is_no_id_is_refused_with_the_rule() {
        for bad in [0, 1, 6, 252, MAX_NODE_ID + 4, u32::MAX] {
            assert_eq!(NodeId::new(bad), Err(BadNodeId(bad)));
        }
        assert_eq!(" 8 ".parse::<NodeId>().map(NodeId::get), Ok(8));
        assert_eq!(
            "-4".parse::<NodeId>().unwrap_err(),
            "`-4` is not a node ID: use a multiple of 4 from 4 to 16384, except 252 (the broadcast group)"
        );
        assert_eq!(
            "252".parse::<NodeId>().unwrap_err(),
            "252 is not a node ID: use a multiple of 4 from 4 to 16384, except 252 (the broadcast group)"
        );
    }
}
