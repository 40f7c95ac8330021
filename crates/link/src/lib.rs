//! The operations of one node on the memory of another.
//!
//! What it is for: the trait [`Link`] (map, put/get, doorbell, state) with the implementations
//! [`shm`](shm_link) and [`injector`] (a link around a link that counts operations and injects faults), the
//! trait [`Directory`] that finds a segment, [`Stores`] that the owner carries out in their order, and the
//! state page in which a node manager shows its programs which links and imports still live.
//!
//! What it must never do: speak the control protocol, start a thread, or allocate between two messages.
//!
//! Where to start reading: [`link`](mod@link), then [`shm_link`]; [`page`] is independent of them.
#![forbid(unsafe_code)]

pub mod capability;
pub mod directory;
pub mod error;
pub mod injector;
pub mod link;
pub mod page;
pub mod shm_link;
pub mod stores;
mod uses;

pub use capability::Capabilities;
pub use directory::{Directory, Grant};
pub use error::LinkError;
pub use link::{Link, RemoteMemory};
pub use stores::Stores;
