//! The two segments of a pair of nodes.

use tieline::{Node, SegmentId};

use super::far;
use crate::{
    error::Result,
    patterns::{
        attach::{Connected, connected},
        pio::{End, Placement},
    },
};

/// Both directions between two nodes that this process is attached to.
#[derive(Debug)]
pub struct Duplex {
    /// Owned by the far node.
    pub there: Connected,
    /// Owned by the near node.
    pub back: Connected,
}

impl Duplex {
    /// Makes both segments and connects them crosswise.
    pub fn new([near, far]: &[Node; 2]) -> Result<Self> {
        Ok(Self {
            there: connected(far, near, far::SEGMENT_BYTES)?,
            back: connected(near, far, far::SEGMENT_BYTES)?,
        })
    }

    /// Lets other programs of the two nodes use the same memory: the ids of the far and of the near
    /// segment.
    pub fn share(&self) -> Result<[SegmentId; 2]> {
        let shared = |connected: &Connected| {
            connected.segment.share()?;
            connected.id()
        };
        Ok([shared(&self.there)?, shared(&self.back)?])
    }

    /// The near and the far end.
    pub fn ends(&self, placement: Placement) -> Result<(End<'_>, End<'_>)> {
        let near_there = self.there.map.window()?;
        let far_there = self.there.segment.window();
        Ok(match placement {
            Placement::Shared => (
                End { out: near_there, input: near_there, placement },
                End { out: far_there, input: far_there, placement },
            ),
            Placement::Own => (
                End { out: near_there, input: self.back.segment.window(), placement },
                End { out: self.back.map.window()?, input: far_there, placement },
            ),
        })
    }
}
