//! What a process was started with, read before the language's runtime changes it.
//!
//! A descriptor of standard output that was closed at the start (`>&-` in a shell) is opened on `/dev/null`
//! by the runtime before `main`: what is printed then vanishes without an error. So it is asked before that,
//! where only the loader comes earlier. The signal of a broken pipe is ignored by then, which a program that
//! is executed would inherit.

use core::ffi::{CStr, c_char, c_int};

use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// A bit each for descriptors 0 to 2, set if it was closed.
static WERE_CLOSED: AtomicU32 = AtomicU32::new(0);
/// Whether SIGPIPE was ignored, as it is from `main` on.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// Whether one had come and was blocked: to ignore the signal took it away.
static PIPE_WAS_PENDING: AtomicBool = AtomicBool::new(false);

const STANDARD: [c_int; 3] = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];

/// Called by the loader before anything of the program runs, with arguments that do not matter here.
extern "C" fn look() {
    let mut closed = 0;
    for fd in STANDARD {
        // SAFETY: asks for the flags of a number, which need not be a descriptor: it writes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            closed |= 1 << fd;
        }
    }
    // Relaxed: there is one thread, and others are started after it.
    WERE_CLOSED.store(closed, Ordering::Relaxed);
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: changes nothing; the answer is written to room of its size, and was a valid value before.
    let ignored = unsafe {
        libc::sigaction(libc::SIGPIPE, core::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    };
    PIPE_WAS_IGNORED.store(ignored, Ordering::Relaxed);
    let mut waiting = core::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the answer is written to room of its size, and was a valid value before.
    let pending = unsafe {
        libc::sigpending(waiting.as_mut_ptr());
        libc::sigismember(waiting.as_ptr(), libc::SIGPIPE) == 1
    };
    PIPE_WAS_PENDING.store(pending, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions of this signature, which the loader calls once each; on
// x86-64 a function may be called with more arguments than it takes. `look` touches nothing that has to be
// set up first.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether this process was started without a standard output. Printed text is then lost.
#[must_use]
pub fn stdout_was_closed() -> bool {
    // Relaxed: written before there were threads.
    WERE_CLOSED.load(Ordering::Relaxed) & (1 << libc::STDOUT_FILENO) != 0
}

/// The environment as the kernel has it, also what is no `NAME=value`, which the language's library leaves
/// out.
///
/// As there, nobody may change it meanwhile in another thread, which is why a change of it is unsafe.
pub fn environment() -> impl Iterator<Item = &'static CStr> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, set before `main`, and changed only by what changes the environment.
    let mut at = unsafe { environ };
    core::iter::from_fn(move || {
        // SAFETY: null, where the environment was cleared, or within a list of texts that ends with a null
        // pointer, which is not gone past. The texts stay where the kernel or the C library put them, which
        // never frees one.
        unsafe {
            let text = at.as_ref().copied().filter(|text| !text.is_null())?;
            at = at.add(1);
            Some(CStr::from_ptr(text))
        }
    })
}

/// Becomes another program, which finds everything as this process found it: what the runtime changed before
/// `main` is changed back. Returns the error number if that cannot be done; the process is then good for
/// nothing but to say so, or to try another one.
///
/// `room` is for pointers to all arguments, all of the environment, and two more: `ENOMEM` if it is too
/// short.
pub fn execute(path: &CStr, arguments: &[&CStr], environment: &[&CStr], room: &mut [*const c_char]) -> c_int {
    let all = arguments.len() + environment.len() + 2;
    let Some((to_arguments, to_environment)) =
        room.get_mut(..all).map(|room| room.split_at_mut(arguments.len() + 1))
    else {
        return libc::ENOMEM;
    };
    for (room, texts) in [(&mut *to_arguments, arguments), (&mut *to_environment, environment)] {
        room.fill(core::ptr::null());
        room.iter_mut().zip(texts).for_each(|(place, text)| *place = text.as_ptr());
    }
    let closed = WERE_CLOSED.load(Ordering::Relaxed);
    for fd in STANDARD {
        if closed & (1 << fd) != 0 {
            // SAFETY: the runtime opened it, on the null device, and nothing of it is to reach the next
            // program.
            unsafe { libc::close(fd) };
        }
    }
    let restore = !PIPE_WAS_IGNORED.load(Ordering::Relaxed);
    if restore {
        // SAFETY: the default is what every process starts with. A signal that comes again is still blocked.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            if PIPE_WAS_PENDING.load(Ordering::Relaxed) {
                libc::kill(libc::getpid(), libc::SIGPIPE);
            }
        }
    }
    // SAFETY: texts that end with 0, in lists that end with a null pointer; all of them outlive the call. The
    // second reads this thread's own variable.
    let errno = unsafe {
        libc::execve(path.as_ptr(), to_arguments.as_ptr(), to_environment.as_ptr());
        *libc::__errno_location()
    };
    if restore {
        // SAFETY: as it was since `main`: what is said about the error must not end the process.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    }
    errno
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

    #[test]
    fn the_environment_is_the_one_that_everybody_sees() {
        let mut count = 0;
        for text in environment() {
            let text = text.to_str().unwrap();
            if let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) {
                assert_eq!(std::env::var(name).as_deref(), Ok(value));
                count += 1;
            }
        }
        assert_eq!(count, std::env::vars_os().count());
    }

    /// That one is started with what it is given is tested with programs: this process must live on.
    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let mut room = [core::ptr::null(); 3];
        assert_eq!(execute(c"/nowhere/x", &[c"x"], &[c"A=1"], &mut room), libc::ENOMEM);
        let mut room = [core::ptr::null(); 9];
        assert_eq!(execute(c"/nowhere/x", &[c"x"], &[c"A=1"], &mut room), libc::ENOENT);
    }
}
