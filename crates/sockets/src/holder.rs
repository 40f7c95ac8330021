//! The names of processes in locks, which other holders of the connection read.
//!
//! A number of a process means something within one namespace of them only (pid_namespaces(7)). So a process
//! has its number there only if it is known to be in the same namespace as the process that has first used
//! rings, of which it is a child; any other name proves nothing of its holder, and is nobody else's.

use core::mem::MaybeUninit;

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{raw, state};

/// The name of this process, or 0: it is found out when it is first needed.
static HOLDER: AtomicU32 = AtomicU32::new(0);
/// Where numbers mean what they do here, plus 1; 0 is not known yet.
static HOME: AtomicU64 = AtomicU64::new(0);
/// In a name that is no number.
const NO_NUMBER: u32 = 1 << 31;

/// The name of this process; never 0.
#[inline(always)]
pub(crate) fn holder() -> u32 {
    let holder = HOLDER.load(Ordering::Relaxed);
    if holder == 0 { named() } else { holder }
}

/// Whether a name is the number of its process.
pub(crate) fn is_number(holder: u32) -> bool {
    holder & NO_NUMBER == 0
}

/// In the child of a fork.
pub(crate) fn forked() {
    HOLDER.store(0, Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn named() -> u32 {
    let here = namespace();
    // Inherited by the children of this process.
    let _ = HOME.compare_exchange(0, here.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
    let is_home = here != 0 && HOME.load(Ordering::Relaxed) == here.wrapping_add(1);
    let name = if is_home { state::owner() } else { NO_NUMBER | random() };
    // Another thread may have been faster.
    match HOLDER.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => name,
        Err(named) => named,
    }
}

/// The namespace of processes that this one is in (namespaces(7)); 0 if that cannot be told.
fn namespace() -> u64 {
    if !state::may_ask() {
        return 0;
    }
    let path = c"/proc/self/ns/pid".as_ptr() as usize;
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a path that ends with 0; room for what is written.
    let asked = unsafe { raw::call(libc::SYS_stat, [path, found.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: numbers, of which 0 is one.
    if asked == 0 { unsafe { found.assume_init() }.st_ino } else { 0 }
}

/// A number that no other process has, as far as one can tell.
fn random() -> u32 {
    let mut bytes = [0_u8; 4];
    if state::may_ask() {
        // SAFETY: room for what is written.
        unsafe { raw::call(libc::SYS_getrandom, [bytes.as_mut_ptr() as usize, bytes.len(), 1, 0, 0, 0]) };
    }
    u32::from_ne_bytes(bytes) ^ crate::rings::clock().0 as u32
}
