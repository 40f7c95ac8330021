//! Which algorithm an operation takes.

/// When an operation takes the algorithm for long messages (*bandwidth*): if it has at least `bytes` and the
/// group at least `members`. Else it takes the one for short messages (*latency*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Bytes from which on the algorithm for long messages is used.
    pub bytes: usize,
    /// Members from which on it is used.
    pub members: usize,
}

impl Switch {
    /// The algorithm for long messages for all lengths and members.
    pub const LONG: Self = Self { bytes: 0, members: 0 };
    /// The algorithm for short messages for all lengths and members.
    pub const SHORT: Self = Self { bytes: usize::MAX, members: usize::MAX };

    pub(crate) fn is_long(&self, bytes: usize, members: usize) -> bool {
        bytes >= self.bytes && members >= self.members
    }
}

/// Choices of a group. All members must choose the same; a difference is
/// [`Mismatch`](crate::Error::Mismatch).
///
/// The defaults are those of MPICH (Thakur, Rabenseifner, Gropp 2005, and the defaults of its variables), and
/// were not measured with this crate's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveSettings {
    /// Members from which on a barrier goes up and down a tree, with two messages a member in all, instead of
    /// by dissemination, with half the steps and more messages.
    pub barrier_tree_members: usize,
    /// Of a broadcast, by the bytes of the message.
    pub broadcast: Switch,
    /// Of a reduce, by the bytes of one member's values.
    pub reduce: Switch,
    /// Of an allreduce, by the bytes of one member's values.
    pub allreduce: Switch,
    /// Of an allgather, by the bytes of the result.
    pub allgather: Switch,
    /// Of an alltoall, by the bytes from one member to one other.
    pub alltoall: Switch,
}

impl CollectiveSettings {
    /// All algorithms for short messages, for comparisons.
    pub const SHORT: Self = Self {
        barrier_tree_members: usize::MAX,
        broadcast: Switch::SHORT,
        reduce: Switch::SHORT,
        allreduce: Switch::SHORT,
        allgather: Switch::SHORT,
        alltoall: Switch::SHORT,
    };
    /// All algorithms for long messages, for comparisons.
    pub const LONG: Self = Self {
        barrier_tree_members: 0,
        broadcast: Switch::LONG,
        reduce: Switch::LONG,
        allreduce: Switch::LONG,
        allgather: Switch::LONG,
        alltoall: Switch::LONG,
    };
}

impl Default for CollectiveSettings {
    fn default() -> Self {
        Self {
            barrier_tree_members: 32,
            broadcast: Switch { bytes: 12 << 10, members: 8 },
            reduce: Switch { bytes: 2 << 10, members: 3 },
            allreduce: Switch { bytes: 2 << 10, members: 3 },
            allgather: Switch { bytes: 80 << 10, members: 3 },
            alltoall: Switch { bytes: 256, members: 0 },
        }
    }
}
