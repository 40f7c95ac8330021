//! Blocks a program's signals in the library's threads.

use core::marker::PhantomData;

/// Faults of the very instruction that runs. They cannot be put off: a thread that blocks them is killed by
/// them, and the program's own crash report never printed.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// While it lives, this thread takes no signals but its own faults. A thread that is started meanwhile
/// inherits that for good: hold one around the start of every library thread, so that a program's signal
/// handlers run on the program's threads, and a signal that a program waits for is not swallowed.
#[derive(Debug)]
pub struct SignalsBlocked {
    before: libc::sigset_t,
    /// What was blocked belongs to the thread that blocked it: this type is not `Send`.
    _of_this_thread: PhantomData<*mut ()>,
}

impl SignalsBlocked {
    /// Blocks them. If the kernel refuses (it has no reason to), nothing is changed and nothing will be
    /// restored.
    #[must_use]
    pub fn here() -> Self {
        let mut before = current();
        let mut all = before;
        // SAFETY: both sets live on this stack, are initialised, and the calls only write into them.
        // pthread_sigmask leaves out the signals that the C library needs for itself, such as that of setuid.
        unsafe {
            libc::sigfillset(&raw mut all);
            for fault in FAULTS {
                libc::sigdelset(&raw mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        }
        Self { before, _of_this_thread: PhantomData }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled by `pthread_sigmask`, on this thread: the type is not `Send`. No old set
        // is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, core::ptr::null_mut()) };
    }
}

fn current() -> libc::sigset_t {
    // SAFETY: a sigset_t is plain integers, for which zeroes are valid.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set lives on this stack; with no new set (null) the call only writes the present mask into
    // it.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut set) };
    set
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn blocks(signal: libc::c_int) -> bool {
        let set = current();
        // SAFETY: the set is initialised and only read.
        unsafe { libc::sigismember(&raw const set, signal) == 1 }
    }

    #[test]
    fn a_thread_started_meanwhile_takes_no_signals_and_its_parent_does_again() {
        let child = {
            let _quiet = SignalsBlocked::here();
            assert!(blocks(libc::SIGTERM));
            std::thread::spawn(|| [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGCHLD].map(blocks))
        };
        assert_eq!(child.join().unwrap(), [true; 4]);
        assert!(![libc::SIGINT, libc::SIGTERM, libc::SIGUSR1].into_iter().any(blocks));
    }

    #[test]
    fn faults_and_what_the_library_of_c_needs_come_through() {
        let _quiet = SignalsBlocked::here();
        assert!(!FAULTS.into_iter().any(blocks));
        // 33 is SIGSETXID of glibc: with it blocked, setuid in any thread would never return.
        assert!(!blocks(33));
    }

    #[test]
    fn what_was_blocked_before_stays_blocked() {
        let _outer = SignalsBlocked::here();
        drop(SignalsBlocked::here());
        assert!(blocks(libc::SIGTERM));
    }
}
