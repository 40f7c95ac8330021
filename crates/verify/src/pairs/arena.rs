//! Attaches to all nodes, creates a segment on each, and connects every ordered pair.

use std::collections::BTreeMap;
use std::time::Duration;

use node_client::ClientError;
use serde::{Deserialize, Serialize};
use tieline::{Error, Node, NodeId, RemoteSegment, Segment, SegmentId, SegmentOptions};

use crate::late::is_only_late;
use crate::target::Target;

/// Where the bytes of bandwidth probes go; before it: a line for each peer.
pub(super) const BLOCK_BYTES: usize = 128 << 10;
const LINE_BYTES: usize = 128;
const IDENTITY_AT: usize = 0;
const LINES_AT: usize = 4096;
/// Segments of arenas have ids from here on; which one depends on the process, so that two tests do not meet.
const SEGMENT_BASE: u32 = 0x5c1d_0000;
/// The segments are there before anybody connects, so a second is long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Once more for so long where the managers have not answered at all: others may have had their processors.
const LONG_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A node with a program of ours on it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) node: NodeId,
    pub(super) segment: Segment,
    _local: Node,
}

/// Something that keeps a pair from being measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// From which node to which.
    pub pair: [NodeId; 2],
    /// What it is.
    pub why: String,
    /// The node that responded instead of the called one.
    pub answered_by: Option<NodeId>,
    /// It was only that no answer came in time, while the machine was busy with other work: no link or node
    /// is blamed for it.
    #[serde(default)]
    pub in_doubt: bool,
}

impl Obstacle {
    pub(super) const fn of(pair: [NodeId; 2], why: String) -> Self {
        Self { pair, why, answered_by: None, in_doubt: false }
    }
}

/// The seats and the connections between them.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) seats: Vec<Seat>,
    remotes: BTreeMap<(usize, usize), RemoteSegment>,
    pub(super) obstacles: Vec<Obstacle>,
}

/// Whose segment this is, as its owner wrote it.
fn identity(node: NodeId) -> [u8; 8] {
    u64::from(node.get()).to_le_bytes()
}

/// What two readings say alike: one of a link that corrupts may name anybody.
fn identity_at(remote: &RemoteSegment) -> tieline::Result<[u8; 8]> {
    let (mut last, mut found) = ([0; 8], [0; 8]);
    remote.get(IDENTITY_AT, &mut last)?;
    for _ in 0..8 {
        remote.get(IDENTITY_AT, &mut found)?;
        if found == last {
            break;
        }
        last = found;
    }
    Ok(found)
}

pub(super) fn line_at(peer_index: usize) -> usize {
    LINES_AT + peer_index * LINE_BYTES
}

pub(super) fn block_at(seats: usize) -> usize {
    line_at(seats).next_multiple_of(4096)
}

impl Arena {
    /// Attaches to every node of the target and connects every ordered pair. What cannot be had is an
    /// obstacle; an error is a node that cannot be attached to.
    pub(super) fn set_up(target: &Target, number: u32) -> Result<Self, String> {
        Self::set_up_for(target, number, &|_| true)
    }

    /// The same, with these pairs alone: one that is known to be down would only take its time.
    pub(super) fn set_up_for(
        target: &Target,
        number: u32,
        wanted: &dyn Fn([NodeId; 2]) -> bool,
    ) -> Result<Self, String> {
        let id = SegmentId(SEGMENT_BASE | (std::process::id() << 3 | number & 7) & 0xffff);
        let size = block_at(target.nodes.len()) + BLOCK_BYTES;
        let seats: Result<Vec<Seat>, String> = target
            .nodes
            .iter()
            .map(|node| seat(target, *node, id, size).map_err(|error| format!("node {node}: {error}")))
            .collect();
        let mut arena = Self { seats: seats?, remotes: BTreeMap::new(), obstacles: Vec::new() };
        for from in 0..arena.seats.len() {
            for to in (0..arena.seats.len()).filter(|to| *to != from) {
                if wanted(arena.nodes_of((from, to))) {
                    arena.connect(from, to, id);
                }
            }
        }
        Ok(arena)
    }

    fn connect(&mut self, from: usize, to: usize, id: SegmentId) {
        let (Some(near), Some(far)) = (self.seats.get(from), self.seats.get(to)) else { return };
        let pair = [near.node, far.node];
        let attempt = |patience| near._local.connect_segment(far.node, id, patience);
        let connected = match attempt(CONNECT_TIMEOUT) {
            Err(Error::Client(ClientError::TimedOut { .. })) => attempt(LONG_CONNECT_TIMEOUT),
            other => other,
        };
        let connected = connected.and_then(|remote| {
            let found = identity_at(&remote)?;
            Ok((remote, found))
        });
        match connected {
            Ok((remote, found)) if found == identity(far.node) => {
                self.remotes.insert((from, to), remote);
            }
            Ok((_, found)) => {
                let known = |id: &NodeId| self.seats.iter().any(|seat| seat.node == *id);
                let answered_by = u32::try_from(u64::from_le_bytes(found))
                    .ok()
                    .and_then(|id| NodeId::new(id).ok())
                    .filter(known);
                let who = answered_by.map_or_else(|| "an unknown node".into(), |node| format!("node {node}"));
                let why =
                    format!("as node {} it reaches {who}: the cables or the node IDs are swapped", far.node);
                self.obstacles.push(Obstacle { answered_by, ..Obstacle::of(pair, why) });
            }
            Err(error) => {
                // Whether the machine was busy is known when all is done.
                let in_doubt = is_only_late(&error);
                self.obstacles.push(Obstacle { in_doubt, ..Obstacle::of(pair, error.to_string()) });
            }
        }
    }

    pub(super) fn remote(&self, from: usize, to: usize) -> Option<&RemoteSegment> {
        self.remotes.get(&(from, to))
    }

    /// Ordered pairs that are connected in both directions.
    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        self.remotes.keys().copied().filter(|(from, to)| self.remotes.contains_key(&(*to, *from))).collect()
    }

    pub(super) fn nodes_of(&self, (from, to): (usize, usize)) -> [NodeId; 2] {
        [self.seats[from].node, self.seats[to].node]
    }
}

fn seat(target: &Target, node: NodeId, id: SegmentId, size: usize) -> tieline::Result<Seat> {
    let local = target.attach(node, "tieline-verify")?;
    let segment = local.create_segment_with(&SegmentOptions::new(size).id(id))?;
    segment.window().put(IDENTITY_AT, &identity(node))?;
    segment.make_available()?;
    Ok(Seat { node, segment, _local: local })
}
