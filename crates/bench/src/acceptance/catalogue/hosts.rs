//! The figures of the link between hosts.

use super::{Entry, Kind, Needs, Ofi, entry};
use crate::{patterns::ofi::Load, verdict::Goal};

/// Compared with a bare loop of libfabric's calls: what it may take longer, or the share of the
/// bandwidth.
pub(super) const fn between_hosts(id: &'static str, load: Load) -> Entry {
    let (what, goal) = match load {
        Load::Echo => (
            "link between hosts: half round trip of a doorbell and its answer, a program's fastest message",
            Goal::at_most(1.10),
        ),
        Load::Put => (
            "link between hosts: put of 8 bytes and barrier, after which it has arrived",
            Goal::at_most(1.10),
        ),
        Load::Stream { .. } => (
            "link between hosts: bandwidth of puts one after the other, with a barrier at the end",
            Goal::at_least(0.95),
        ),
        Load::TwoRails { .. } => {
            ("link between hosts: bandwidth of puts over two rails, beside one of them", Goal::at_least(1.9))
        }
        Load::Cut => (
            "link between hosts: bandwidth over the first of two rails from 0.1 s after the second was cut, beside a link over one",
            Goal::at_least(0.95),
        ),
        Load::Urgent => (
            "link between hosts: put of 64 bytes and its answer while two rails carry blocks, 99th percentile, beside a chunk",
            Goal::at_most(2.0),
        ),
    };
    entry(id, Needs::Nothing, what, Kind::Ofi(Ofi { load, goal }))
}
