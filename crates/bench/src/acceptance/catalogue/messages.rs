//! The figures of message queues.

use super::{Beside, Entry, Kind, Memory, Messages, Needs, entry};
use crate::{
    patterns::{
        messages::{Implementation, Load},
        pt2pt::Access,
    },
    verdict::Goal,
};

pub(super) const UCX: Beside = Beside::Ucx;
pub(super) const OPEN_MPI: Beside = Beside::Mpi(Implementation::OpenMpi);
pub(super) const MPICH: Beside = Beside::Mpi(Implementation::Mpich);
pub(super) const ECHO_8B: Load = Load::Echo { size_bytes: 8 };
pub(super) const ECHO_1KIB: Load = Load::Echo { size_bytes: 1 << 10 };
pub(super) const ECHO_8KIB: Load = Load::Echo { size_bytes: 8 << 10 };
pub(super) const RATE: Load = Load::Rate { tags: 1 };
pub(super) const RATE_1000_TAGS: Load = Load::Rate { tags: 1000 };
pub(super) const HOT_64KIB: Load = Load::Stream { size_bytes: 64 << 10, is_cold: false };
pub(super) const COLD_64KIB: Load = Load::Stream { size_bytes: 64 << 10, is_cold: true };
pub(super) const HOT_1MIB: Load = Load::Stream { size_bytes: 1 << 20, is_cold: false };
pub(super) const COLD_1MIB: Load = Load::Stream { size_bytes: 1 << 20, is_cold: true };
pub(super) const HOT_4MIB: Load = Load::Stream { size_bytes: 4 << 20, is_cold: false };
pub(super) const COLD_4MIB: Load = Load::Stream { size_bytes: 4 << 20, is_cold: true };
pub(super) const ALLREDUCE_2: Load = Load::Allreduce { members: 2 };
pub(super) const ALLREDUCE_4: Load = Load::Allreduce { members: 4 };
pub(super) const ALLREDUCE_8: Load = Load::Allreduce { members: 8 };
pub(super) const FOUR_PAIRS: Load = Load::Pairs { pairs: 4 };

/// Open MPI over our provider of libfabric, beside its own transport.
pub(super) const fn over_provider(id: &'static str, load: Load, goal: Goal) -> Entry {
    let what = match load {
        Load::Echo { .. } => "Open MPI over the provider of libfabric: half round trip",
        _ => "Open MPI over the provider of libfabric: bandwidth in one direction",
    };
    entry(id, Needs::Nothing, what, Kind::Messages(Messages { load, beside: Beside::OpenMpiItself, goal }))
}

/// Our provider of libfabric by itself, beside libfabric's for one machine.
pub(super) const fn beside_shm(id: &'static str, load: Load, goal: Goal) -> Entry {
    let what = match load {
        Load::Echo { .. } => "provider of libfabric: half round trip of tagged messages",
        _ => "provider of libfabric: bandwidth of tagged messages in one direction",
    };
    entry(id, Needs::Nothing, what, Kind::Messages(Messages { load, beside: Beside::Shm, goal }))
}

/// Compared with a rival.
pub(super) const fn beside_rival(id: &'static str, beside: Beside, load: Load, goal: Goal) -> Entry {
    let what = match load {
        Load::Echo { .. } => "message queue: half round trip, receives of one tag",
        Load::Pairs { .. } => {
            "message queue: half round trip of 8 bytes, more processes than processors, mean of the pairs"
        }
        Load::Rate { tags: 1 } => "message queue: messages of 8 bytes in one direction, receives of one tag",
        Load::Rate { .. } => "message queue: messages of 8 bytes in one direction, a receive of each tag",
        Load::Stream { is_cold: false, .. } => {
            "message queue: bandwidth in one direction, from and to the same memory"
        }
        Load::Stream { .. } => "message queue: bandwidth in one direction, from and to 256 MiB in turn",
        Load::Allreduce { .. } => "message queue: a sum of a word of each process, on two processors",
    };
    entry(id, Needs::Nothing, what, Kind::Messages(Messages { load, beside, goal }))
}

/// An access to memory of another node, beside one of an MPI.
pub(super) const fn access(id: &'static str, is_put: bool, mpi: Implementation, goal: Goal) -> Entry {
    let what = if is_put {
        "put of 8 bytes into memory of another node, with a barrier behind each"
    } else {
        "get of 8 bytes out of memory of another node"
    };
    let access = Access { is_put, size_bytes: 8 };
    entry(id, Needs::Pair, what, Kind::Memory(Memory { access, mpi, goal }))
}

/// Compared with one cache line there and back.
pub(super) const fn above_line(id: &'static str, size_bytes: u64, goal: Goal) -> Entry {
    let load = Load::Echo { size_bytes };
    let what = "message queue: half round trip, beside that of one cache line";
    entry(id, Needs::Nothing, what, Kind::Messages(Messages { load, beside: Beside::Line, goal }))
}
