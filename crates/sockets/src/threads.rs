//! Whether this process has one thread: what it alone changes then needs no locked instruction.
//!
//! The C library says so (`__libc_single_threaded`), and leaves its own locks out by that. It does not know of threads that a program makes by
//! itself. Those are known here from the call that makes them (`clone`, `syscall`), or, of a system call in assembly, from their own first use.

use core::arch::{asm, global_asm};

use crate::state;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

// Weak: C libraries before 2.32 of GNU, and others, do not say it.
global_asm!(".weak __libc_single_threaded");

/// The thread that has run the constructor, by [`state::thread`]; 0 before.
static FIRST: AtomicUsize = AtomicUsize::new(0);
/// Whether there is, or was, one of which the C library does not know.
static UNKNOWN: AtomicU32 = AtomicU32::new(0);

// Relaxed: a thread that is made knows what its maker did before.

/// The constructor runs.
pub(crate) fn begin() {
    FIRST.store(state::thread(), Ordering::Relaxed);
}

/// The program is about to make a thread past the C library.
pub(crate) fn makes_unknown() {
    UNKNOWN.store(1, Ordering::Relaxed);
}

/// Whether this thread is the only one, as far as is known.
#[inline(always)]
pub(crate) fn is_only() -> bool {
    if !is_only_to_the_c_library() || UNKNOWN.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let first = FIRST.load(Ordering::Relaxed);
    first == state::thread() || is_only_though(first)
}

/// It is not the thread that has run the constructor.
#[cold]
#[inline(never)]
fn is_only_though(first: usize) -> bool {
    if first != 0 {
        makes_unknown();
    }
    false
}

#[inline(always)]
fn is_only_to_the_c_library() -> bool {
    let known: *const u8;
    // SAFETY: reads the address of a symbol from the offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + __libc_single_threaded@GOTPCREL]", out(reg) known, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: the C library's variable, a byte; as long as it is not 0, only a call of this thread changes it.
    !known.is_null() && unsafe { known.read_volatile() } != 0
}
