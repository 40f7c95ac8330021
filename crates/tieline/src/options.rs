//! Options for creating objects.

use std::path::PathBuf;

use proto::ids::{InterruptNo, NodeId, SegmentId};
use proto::wire::program::Access;
use shm::region::{PageSize, Reserve};

/// How to attach. The default: the only node of the cluster `default`, or what `TIELINE_NODE`,
/// `TIELINE_CLUSTER` and `TIELINE_RUNTIME_DIR` say.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// The node on this machine.
    pub node: Option<NodeId>,
    /// The cluster.
    pub cluster: Option<String>,
    /// Where its sockets are.
    pub runtime_dir: Option<PathBuf>,
    /// What `tieline status` calls this program; default: the name of its executable.
    pub name: Option<String>,
}

/// How to make a segment.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// Its id, or `None` for any free one.
    pub id: Option<SegmentId>,
    /// The size in bytes.
    pub size_bytes: usize,
    /// Size of the pages that back it.
    pub pages: PageSize,
    /// Keep it in memory (mlock).
    pub lock: bool,
    /// Place it on this NUMA node.
    pub numa_node: Option<u32>,
    /// When its memory is allocated: at once, so that a lack of it is an error and not a signal in the middle
    /// of a store; or, for the one that has a use for the memory later, [`Reserve::Lazy`].
    pub reserve: Reserve,
    /// The users that may connect besides this one.
    pub access: Access,
}

impl SegmentOptions {
    /// A segment of `size_bytes` with everything else by default.
    pub fn new(size_bytes: usize) -> Self {
        Self {
            id: None,
            size_bytes,
            pages: PageSize::Base,
            lock: false,
            numa_node: None,
            reserve: Reserve::Eager,
            access: Access::default(),
        }
    }

    /// With this id.
    #[must_use]
    pub fn id(mut self, id: SegmentId) -> Self {
        self.id = Some(id);
        self
    }
}

/// How to make an interrupt.
#[derive(Debug, Clone, Default)]
pub struct InterruptOptions {
    /// Its number, or `None` for any free one.
    pub number: Option<InterruptNo>,
    /// Provide a descriptor for poll, select and epoll.
    pub pollable: bool,
    /// The users that may connect besides this one.
    pub access: Access,
}
