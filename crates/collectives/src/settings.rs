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

/// When an operation lets all members send to all (*exchange*): if it has at most `bytes_max` and the group
/// at most `members_max`. Then there is one step, where others have `log2 p`. That is worth the more messages
/// most where members share processors: each step costs a change of the running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes up to which it is used.
    pub bytes_max: usize,
    /// Members up to which it is used.
    pub members_max: usize,
}

impl Exchange {
    /// Never.
    pub const NEVER: Self = Self { bytes_max: 0, members_max: 0 };
    /// For all lengths and members.
    pub const ALWAYS: Self = Self { bytes_max: usize::MAX, members_max: usize::MAX };

    pub(crate) fn serves(&self, bytes: usize, members: usize) -> bool {
        bytes <= self.bytes_max && members <= self.members_max
    }
}

/// Choices of a group. All members must choose the same; a difference is
/// [`Mismatch`](crate::Error::Mismatch).
///
/// The defaults are those of MPICH (Thakur, Rabenseifner, Gropp 2005, and the defaults of its variables) but
/// for the exchange; only that was measured with this crate's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveSettings {
    /// Members from which on a barrier goes up and down a tree, with two messages a member in all, instead of
    /// by dissemination, with half the steps and more messages.
    pub barrier_tree_members: usize,
    /// Of a barrier, which has no bytes; where it serves, it goes before both.
    pub barrier_exchange: Exchange,
    /// Of a broadcast, by the bytes of the message.
    pub broadcast: Switch,
    /// Of a reduce, by the bytes of one member's values.
    pub reduce: Switch,
    /// Of an allreduce, by the bytes of one member's values.
    pub allreduce: Switch,
    /// The same; where it serves, it goes before `allreduce`.
    pub allreduce_exchange: Exchange,
    /// Of an allgather, by the bytes of the result.
    pub allgather: Switch,
    /// Of an alltoall, by the bytes from one member to one other.
    pub alltoall: Switch,
}

impl CollectiveSettings {
    /// All algorithms for short messages, for comparisons.
    pub const SHORT: Self = Self {
        barrier_tree_members: usize::MAX,
        barrier_exchange: Exchange::NEVER,
        broadcast: Switch::SHORT,
        reduce: Switch::SHORT,
        allreduce: Switch::SHORT,
        allreduce_exchange: Exchange::NEVER,
        allgather: Switch::SHORT,
        alltoall: Switch::SHORT,
    };
    /// All algorithms for long messages, for comparisons.
    pub const LONG: Self = Self {
        barrier_tree_members: 0,
        barrier_exchange: Exchange::NEVER,
        broadcast: Switch::LONG,
        reduce: Switch::LONG,
        allreduce: Switch::LONG,
        allreduce_exchange: Exchange::NEVER,
        allgather: Switch::LONG,
        alltoall: Switch::LONG,
    };
}

impl Default for CollectiveSettings {
    fn default() -> Self {
        Self {
            barrier_tree_members: 32,
            barrier_exchange: Exchange { bytes_max: 0, members_max: 8 },
            broadcast: Switch { bytes: 12 << 10, members: 8 },
            reduce: Switch { bytes: 2 << 10, members: 3 },
            allreduce: Switch { bytes: 2 << 10, members: 3 },
            allreduce_exchange: Exchange { bytes_max: 256, members_max: 8 },
            allgather: Switch { bytes: 80 << 10, members: 3 },
            alltoall: Switch { bytes: 256, members: 0 },
        }
    }
}
