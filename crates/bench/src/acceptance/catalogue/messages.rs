//! The figures of message queues.

use super::{Entry, Kind, Messages, Needs, entry};
use crate::{patterns::messages::Load, verdict::Goal};

/// Compared with UCX's benchmark.
pub(super) const fn beside_ucx(id: &'static str, load: Load, goal: Goal) -> Entry {
    let what = match load {
        Load::Echo { .. } => "message queue: half round trip, receives of one tag",
        Load::Rate => "message queue: messages of 8 bytes in one direction, receives of one tag",
        Load::Stream { .. } => "message queue: bandwidth in one direction, the same few buffers again",
    };
    entry(id, Needs::Nothing, what, Kind::Messages(Messages { load, above_line: false, goal }))
}

/// Compared with one cache line there and back.
pub(super) const fn above_line(id: &'static str, size_bytes: u64, goal: Goal) -> Entry {
    let load = Load::Echo { size_bytes };
    let what = "message queue: half round trip, beside that of one cache line";
    entry(id, Needs::Nothing, what, Kind::Messages(Messages { load, above_line: true, goal }))
}
