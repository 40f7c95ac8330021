//! Time to connect to a segment and map it, against a fixed limit.

use std::time::Instant;

use tieline::{Node, Segment, SegmentOptions};

use super::attach::CONNECT_TIMEOUT;
use crate::{
    error::{BenchError, Result},
    run::Sides,
    stats::{Samples, order},
};

/// Connections of one reading.
pub const CONNECTS: usize = 10;
/// Size of the segment.
pub const SEGMENT_BYTES: usize = 1 << 20;

/// The time from the request until the memory is mapped, in µs. Disconnecting is not timed.
#[derive(Debug)]
pub struct ConnectSides<'a> {
    user: &'a Node,
    owner: &'a Node,
    segment: Segment,
    limit_us: f64,
    /// Every time, in ns.
    pub all: Samples,
}

impl<'a> ConnectSides<'a> {
    /// Connections of `user` to a segment of `owner`.
    pub fn new([user, owner]: &'a [Node; 2], limit_us: f64) -> Result<Self> {
        let segment = owner.create_segment_with(&SegmentOptions::new(SEGMENT_BYTES))?;
        segment.make_available()?;
        Ok(Self { user, owner, segment, limit_us, all: Samples::new(false)? })
    }
}

impl Sides for ConnectSides<'_> {
    fn ours(&mut self) -> Result<f64> {
        let Some(id) = self.segment.id() else {
            return Err(BenchError::Usage("a segment without an id".to_owned()));
        };
        let mut times = Vec::with_capacity(CONNECTS);
        for _ in 0..CONNECTS {
            let start = Instant::now();
            let remote = self.user.connect_segment(self.owner.id(), id, CONNECT_TIMEOUT)?;
            let map = remote.map()?;
            let ns = start.elapsed().as_nanos() as f64;
            self.all.record_ns(ns);
            times.push(ns / 1000.0);
            drop((map, remote));
        }
        Ok(order::median(&times).unwrap_or(f64::NAN))
    }

    fn reference(&mut self) -> Result<f64> {
        Ok(self.limit_us)
    }
}
