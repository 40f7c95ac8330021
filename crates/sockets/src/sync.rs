//! Atomics of the table. Not those of crate `shm`: that crate has a constructor, which a library in a stranger's program must not
//! bring along, and nothing here is shared with a peer.

// tidy: allow(atomics): crate shm would bring its constructor into every program that the library is loaded into
use core::sync::atomic as of_the_core;

pub(crate) use of_the_core::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

use core::arch::{asm, global_asm};

// Weak: older C libraries, and others, do not say it.
global_asm!(".weak __libc_single_threaded");

/// Whether this process has one thread, as far as the C library knows (`__libc_single_threaded`, GNU C library 2.32 and newer). Threads that it
/// has not made do not count, as they do not for its own locks either.
#[inline(always)]
pub(crate) fn has_one_thread() -> bool {
    let known: *const u8;
    // SAFETY: reads the address of a symbol from the offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + __libc_single_threaded@GOTPCREL]", out(reg) known, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: the C library's variable, a byte; as long as it is not 0, only a call of this thread changes it.
    !known.is_null() && unsafe { known.read_volatile() } != 0
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_with_several_threads_is_not_one_with_one() {
        std::thread::spawn(|| assert!(!super::has_one_thread())).join().unwrap();
    }
}
