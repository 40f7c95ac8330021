//! The calls themselves: the one place with unsafe code, and the only one that calls C.
//!
//! Everything goes through libc's dynamic symbols, so that a preloaded library is entered; no std input or
//! output is used in the executor. A function here takes slices and numbers and says what the call returned
//! and which errno it left.

pub mod address;
pub mod aio;
pub mod cancel;
pub mod files;
pub mod memory;
pub mod poll;
pub mod process;
pub mod ring;
pub mod scarce;
pub mod sockets;
pub mod transfer;
pub mod vfork;
pub mod wrong;

/// errno before each call. A call that succeeds must leave it alone.
const UNTOUCHED: i32 = 4242;
/// An address that is never mapped: the kernel refuses it, and so must a library before the kernel.
const NOWHERE: usize = 8;

/// What a call returned, and errno after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The value.
    pub ret: i64,
    /// errno, if the call changed it.
    pub errno: Option<i32>,
}

impl Outcome {
    /// Whether the call says that it worked.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self.ret >= 0
    }

    /// As a descriptor, or -1.
    #[must_use]
    pub fn fd(self) -> i32 {
        i32::try_from(self.ret).unwrap_or(-1)
    }

    /// How many bytes or entries it says were moved.
    #[must_use]
    pub fn count(self) -> usize {
        usize::try_from(self.ret).unwrap_or(0)
    }
}

fn errno_cell() -> *mut i32 {
    // SAFETY: has no precondition; the pointer is this thread's errno for as long as the thread lives.
    unsafe { libc::__errno_location() }
}

/// Makes a call between setting errno and reading it.
fn observed<T: Into<i64>>(call: impl FnOnce() -> T) -> Outcome {
    // SAFETY: the pointer is to this thread's errno.
    unsafe { *errno_cell() = UNTOUCHED };
    let ret = call().into();
    // SAFETY: as above.
    let errno = unsafe { *errno_cell() };
    Outcome { ret, errno: (errno != UNTOUCHED).then_some(errno) }
}

/// The same for calls that return a size.
fn counted(call: impl FnOnce() -> isize) -> Outcome {
    observed(|| call() as i64)
}
