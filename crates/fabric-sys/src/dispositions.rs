//! Restores the signal handlers of the process after libraries that may replace them were loaded.
//!
//! Libraries that libfabric brings along may take signals for themselves when they are loaded:
//! `libinfinipath`, which Debian's package needs, takes SIGINT, SIGTERM and four others, and ends the process
//! with status 1. Then no command could end in order.

use std::mem::MaybeUninit;
use std::ptr;

/// Signals that Linux has had from the start; those of real time begin with 32, and no library takes them.
const LAST: libc::c_int = 31;

/// What is done at each signal. Put back when dropped.
pub(crate) struct Kept {
    actions: Vec<(libc::c_int, libc::sigaction)>,
}

impl Kept {
    /// As it is now.
    pub(crate) fn now() -> Self {
        let actions = (1..=LAST).filter_map(|signal| {
            let mut action = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: nothing is changed, and the structure is written if that succeeds.
            let is_known = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } == 0;
            // SAFETY: it has succeeded.
            is_known.then(|| (signal, unsafe { action.assume_init() }))
        });
        Self { actions: actions.collect() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (signal, action) in &self.actions {
            // SAFETY: the action is one that this process had, whose handler is in memory that stays
            // (libraries are not unloaded here); SIGKILL and SIGSTOP are refused, which changes nothing.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::ONE_AT_A_TIME;

    fn handler(signal: libc::c_int) -> libc::sighandler_t {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: nothing is changed, and the structure is written.
        unsafe {
            assert_eq!(libc::sigaction(signal, ptr::null(), action.as_mut_ptr()), 0);
            action.assume_init().sa_sigaction
        }
    }

    #[test]
    fn what_is_changed_meanwhile_is_put_back() {
        let _nobody_loads = ONE_AT_A_TIME.lock().unwrap();
        let before = handler(libc::SIGWINCH);
        let kept = Kept::now();
        // SAFETY: to ignore a signal runs nothing.
        unsafe { libc::signal(libc::SIGWINCH, libc::SIG_IGN) };
        assert_eq!(handler(libc::SIGWINCH), libc::SIG_IGN);
        drop(kept);
        assert_eq!(handler(libc::SIGWINCH), before);
    }

    /// As far as this machine has the library, and what that needs.
    #[test]
    fn loading_the_library_takes_no_signal() {
        let all =
            || (1..=LAST).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGWINCH].contains(signal));
        // Another test may be loading it.
        let handlers = || {
            let _nobody_loads = ONE_AT_A_TIME.lock().unwrap();
            all().map(handler).collect::<Vec<_>>()
        };
        let before = handlers();
        if let Err(error) = crate::Library::load_from("libfabric.so.1") {
            return println!("skipped: {error}");
        }
        assert_eq!(handlers(), before);
    }
}
