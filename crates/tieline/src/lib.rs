//! The Rust API: programs write straight into each other's memory.
//!
//! What it is for: a program attaches to its [`Node`], creates [`Segment`]s that others may reach, connects
//! to [`RemoteSegment`]s, and then loads, stores, copies ([`RemoteSegment::put`], [`DmaQueue`]) and rings
//! ([`Interrupt`]) without the node manager in between.
//!
//! What it must never do: allocate, lock or enter the kernel between two messages; crash, hang or lose a byte
//! because the other side is wrong, dead or hostile.
//!
//! Where to start reading: [`node`], then [`segment`] and [`remote`]; `examples/hello.rs` is a whole program.
//!
//! ```no_run
//! use std::time::Duration;
//! use tieline::{Node, NodeId, SegmentId};
//!
//! # fn main() -> tieline::Result<()> {
//! let node = Node::attach()?;
//! let segment = node.create_segment(SegmentId(7), 4096)?;
//! segment.make_available()?;
//!
//! let remote = node.connect_segment(NodeId::new(8)?, SegmentId(7), Duration::from_secs(5))?;
//! remote.put(0, b"hello")?;
//! remote.barrier()?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod attached;
pub mod dma;
pub mod error;
mod events;
mod fault;
pub mod group;
pub mod interrupt;
pub mod messages;
pub mod names;
mod network;
pub mod node;
pub mod options;
pub mod remote;
pub mod segment;
mod senders;
pub mod sequence;
mod spin;

pub use attached::AttachedSegment;
pub use dma::{Direction, DmaEntry, DmaQueue, DmaState, LocalMemory};
pub use error::{Error, Result};
pub use group::{Delivered, Group, GroupMember};
pub use interrupt::{DataInterrupt, Handler, Interrupt, RemoteDataInterrupt, RemoteInterrupt};
pub use messages::{MessageQueue, SharedMessageQueue};
pub use node::Node;
pub use options::{InterruptOptions, NodeOptions, SegmentOptions};
pub use remote::{PartialRemoteMap, ReducedRail, RemoteEvent, RemoteMap, RemoteSegment};
pub use segment::{Segment, SegmentEvent, SegmentMemory, SegmentState};
pub use sequence::{Sequence, SequenceStatus};

pub use link::{Capabilities, LinkError, Stores};
pub use proto::fault::{LinkChange, LinkFaults};
pub use proto::ids::{AdapterNo, BadNodeId, GroupId, InterruptNo, NodeId, PortNo, SegmentId};
pub use proto::wire::program::{Access, LossReason};
pub use shm::region::PageSize;
pub use shm::window::Window;
