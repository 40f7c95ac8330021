//! A provider of libfabric: programs that know only libfabric (Open MPI, MPICH, …) run over tieline
//! unmodified.
//!
//! **What it is for.** `libtieline-fi.so` is found by libfabric through `FI_PROVIDER_PATH` and answers
//! `fi_getinfo` with a provider named `tieline`: reliable datagrams (`FI_EP_RDM`) with tagged and untagged
//! messages, matched by source, tag and ignored bits as MPI needs it, and with reads, writes and atomic
//! operations on memory of peers. It is limited to the processes of one user on one machine; what it lacks is
//! answered with `-FI_ENOSYS`.
//!
//! **What it must never do.** Ask libfabric for anything while libfabric asks it for its provider (a lock is
//! held then); unwind into C; trust a peer's words: whatever a peer says of lengths, operations and memory is
//! checked before it is used.
//!
//! **Where to start reading.** [`info`] is what `fi_getinfo` is told. `objects` are the objects with C's
//! tables of functions; what they do is in `engine`: `engine::endpoint` turns it into operations of crate
//! `message-queue`, which matches, sends and receives, and `engine::endpoint::told` turns their ends into
//! completions. Operations on memory are messages, too, of an inner end point of their own:
//! `engine::request` and `engine::memory_lane`.

mod abi;
mod absent;
mod engine;
pub mod info;
mod objects;
mod trace;

use std::cell::UnsafeCell;

pub use abi::fi_provider;
use abi::version;
use fabric_sys::abi::fi_context;

/// The provider's name, as programs ask for it.
pub const NAME: &std::ffi::CStr = c"tieline";
/// The provider's own version.
pub(crate) const VERSION: u32 = version(0, 1);
/// The newest API whose structures and semantics were compared with what this crate does. A program that asks
/// for a newer one is not offered this provider; libfabric itself never refuses a provider that is newer than
/// it is.
pub(crate) const API: u32 = version(2, 6);

/// The structure that libfabric keeps, and writes `context` of.
struct Registered(UnsafeCell<fi_provider>);

// SAFETY: this crate only hands out its address; libfabric writes to it under its own lock, while it loads
// providers.
unsafe impl Sync for Registered {}

static PROVIDER: Registered = Registered(UnsafeCell::new(fi_provider {
    version: VERSION,
    fi_version: API,
    context: fi_context::zeroed(),
    name: NAME.as_ptr(),
    getinfo: Some(info::getinfo),
    fabric: Some(objects::fabric::open),
    cleanup: None,
}));

/// Called by libfabric once, after it has loaded the library.
// SAFETY: no other library of a process that loads providers has a function of this name in its global scope:
// each provider has its own, and libfabric looks it up in the library that it has just loaded.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    PROVIDER.0.get()
}
