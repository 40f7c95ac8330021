//! What a process was started with, looked at before the language's runtime changes it.
//!
//! A descriptor of standard output that was closed at the start (`>&-` in a shell) is opened on `/dev/null` by the runtime
//! before `main`: what is printed then vanishes without an error. So it is asked before that, where only the loader comes
//! earlier.

use crate::sync::{AtomicBool, Ordering};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the loader before anything of the program runs, with arguments that do not matter here.
extern "C" fn look() {
    // SAFETY: asks for the flags of a number, which need not be a descriptor: it writes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    // Relaxed: there is one thread, and others are started after it.
    STDOUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions of this signature, which the loader calls once each; on x86-64 a function
// may be called with more arguments than it takes. `look` touches nothing that has to be set up first.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether this process was started without a standard output. What is printed then reaches nobody.
#[must_use]
pub fn stdout_was_closed() -> bool {
    // Relaxed: written before there were threads.
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That a closed one is noticed is tested with a program, as it shows only at its start.
    #[test]
    fn the_output_of_a_test_is_open() {
        assert!(!stdout_was_closed());
        look();
        assert!(!stdout_was_closed());
    }
}
