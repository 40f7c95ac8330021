//! Handles stores that fault because their group has several copies, by carrying them out on all
//! copies.
//!
//! What is done in a handler neither locks, allocates nor calls anything that a signal may not
//! call. Common stores are emulated ([`store`], [`string`]), and the loop that they are in with
//! them ([`interpret`]); everything else that writes runs itself, on other addresses
//! ([`displaced`]).

use crate::code::Result;

#[cfg(target_arch = "x86_64")]
mod context;
#[cfg(target_arch = "x86_64")]
mod displaced;
#[cfg(target_arch = "x86_64")]
mod emulate;
#[cfg(target_arch = "x86_64")]
mod fallible;
#[cfg(target_arch = "x86_64")]
mod flags;
#[cfg(target_arch = "x86_64")]
mod handler;
#[cfg(target_arch = "x86_64")]
mod interpret;
#[cfg(target_arch = "x86_64")]
mod store;
#[cfg(target_arch = "x86_64")]
mod string;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

/// Makes this process take the faults of its stores. Once; later calls do nothing.
#[cfg(target_arch = "x86_64")]
pub(crate) fn install() -> Result<()> {
    handler::install()
}

/// On other processors the instructions are not decoded.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn install() -> Result<()> {
    let detail = "on this processor stores reach a group only while it has one member, and no segment of another host: use SCIMemCpy";
    Err(crate::code::Code::NOT_SUPPORTED.because(detail))
}

/// Calls `change` while no store runs elsewhere than in a handler, unless one does so now. All
/// signals but faults are blocked.
#[cfg(target_arch = "x86_64")]
pub(crate) fn without_displaced<R>(change: impl FnOnce() -> R) -> Option<R> {
    displaced::excluded(change)
}

/// No store is carried out.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn without_displaced<R>(change: impl FnOnce() -> R) -> Option<R> {
    Some(change())
}
