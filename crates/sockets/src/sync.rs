//! Atomics of the sockets library, which must not bring along the constructor of crate `shm`.
//! Nothing here is shared with a peer.

// tidy: allow(atomics): crate shm would bring its constructor into every program that the library is loaded into
use core::sync::atomic as of_the_core;

pub(crate) use of_the_core::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
