//! Collective operations of a group of message queues: barrier, broadcast, reduce, allreduce, allgather and
//! alltoall.
//!
//! **What it is for.** A [`Group`] is a list of end points in rank order. Each member calls the same
//! operation with its own [`MessageQueue`](message_queue::MessageQueue), and together they exchange the
//! messages. Each operation has an algorithm with few steps for short messages (*latency*) and one that
//! sends few bytes for long messages (*bandwidth*); [`CollectiveSettings`] says from which length and from
//! how many members on the second is used. An allreduce of a few bytes and members has a third: all send to
//! all.
//!
//! **Messages.** Groups have a kind of messages of their own ([`Space::Group`](message_queue::Space)), so no
//! receive of the program gets one, whatever it ignores. Bits 31 to 62 of their tags are the context of the
//! group, and bit 0 says that a member has given up.
//!
//! **What it must never do.** Receive a message of the program or of another group; return a result when a
//! member has called something else; wait without an end for a member whose death the message queue reports.
//!
//! **Not there yet.** Operations that go on in the background, blocks of different lengths, and switches that
//! were measured: most defaults are those of MPICH. Each message is copied once on either side.
//!
//! **Where to start reading.** [`Group`] in `group.rs` has the calls, `call.rs` what all of them do with the
//! queue, and `algorithms` a file for each operation. [`measured`] is what benchmarks run.
#![forbid(unsafe_code)]

mod algorithms;
mod blocks;
mod call;
mod error;
mod group;
pub mod measured;
pub mod operation;
mod settings;
mod signature;

pub use error::Error;
pub use group::{Group, MEMBERS_MAX};
pub use operation::Element;
pub use settings::{CollectiveSettings, Exchange, Switch};
pub use signature::{Algorithm, Kind, Signature};
