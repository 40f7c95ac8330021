//! Interrupts: latched, counted signals from other programs to this one; plain, or with a message.
//!
//! A trigger is one atomic increment in memory that both sides map; the kernel is entered only if the
//! receiver sleeps. A trigger before the wait is not lost. Any program that may connect can also write the
//! count: a hostile peer can raise the interrupt at will or hide the triggers of others, nothing else. From
//! another host a trigger is a message, which a thread of the owner's program turns into such an increment,
//! or enters into the ring.

mod data;
mod handler;
mod inlet;
mod latch;
mod plain;
mod words;

pub use data::{DataInterrupt, RemoteDataInterrupt};
pub use handler::Handler;
pub(crate) use inlet::Inlet;
pub use plain::{Interrupt, RemoteInterrupt};
pub(crate) use words::OwnerWords;
