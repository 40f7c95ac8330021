//! Keeps `pthread_cancel` out of the middle of calls of C libraries that are written in Rust.
//!
//! What it is for: a thread that was cancelled in the middle of a call would be unwound through Rust code
//! that holds locks, and the C library would end the whole program where that code catches panics. With these
//! functions the thread is cancelled when the call ends, as POSIX allows it for functions that are not in its
//! list of cancellation points (`pthreads(7)`).
//!
//! What it must never do: leave a thread's cancelability changed behind a call.
//!
//! Where to start reading: [`held_off`], for the functions that C programs call; [`without_points`], for what
//! such a function does seldom.
#![no_std]

use core::ffi::c_int;
use core::ptr::null_mut;

// Of glibc and musl.
const ENABLED: c_int = 0;
const DISABLED: c_int = 1;
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

// They unwind if the thread was cancelled meanwhile.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcanceltype(of: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// Runs the body of a function that C programs call; the thread is not cancelled in it. Neither this function
/// nor its caller, which must be `extern "C-unwind"`, may have anything to clean up: both are unwound,
/// without a look at their tables, if the thread is cancelled before or behind the body. The body catches its
/// own panics.
#[inline(always)]
pub fn held_off<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
    at_points_only(|| without_points(body))
}

/// The same of a body that makes no call of the C library in which a thread may be cancelled, or makes them
/// in [`without_points`] alone: to change the state costs some 20 ns.
#[inline(always)]
pub fn at_points_only<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
    let mut of = DEFERRED;
    // The signal of a thread that cancels this one may be on its way: its handler looks at the type alone.
    // SAFETY: the function is the C library's, and writes to a variable of this frame.
    unsafe { pthread_setcanceltype(DEFERRED, &raw mut of) };
    let value = body();
    if of == ASYNCHRONOUS {
        at_any_time();
    }
    value
}

/// The thread can be cancelled at any time again. Where it was cancelled meanwhile it ends here, and not as
/// its type is set: glibc 2.36 would give a thread that ends there no result.
#[cold]
#[inline(never)]
fn at_any_time() {
    // SAFETY: it may unwind, through frames that own nothing.
    unsafe { pthread_testcancel() };
    // SAFETY: as above.
    unsafe { pthread_setcanceltype(ASYNCHRONOUS, null_mut()) };
}

/// No call is one in which the thread is cancelled, until this is dropped: for threads that are cancelled in
/// certain calls only (their type is deferred).
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct NoPoints(c_int);

/// See [`NoPoints`].
#[inline]
pub fn no_points() -> NoPoints {
    let mut before = NoPoints(ENABLED);
    // SAFETY: the function is the C library's, and writes to a variable of this frame.
    unsafe { pthread_setcancelstate(DISABLED, &raw mut before.0) };
    before
}

impl Drop for NoPoints {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the function is the C library's. It does not unwind: the thread is cancelled in certain
        // calls only, and this is none of them.
        unsafe { pthread_setcancelstate(self.0, null_mut()) };
    }
}

/// No call in the body is one in which the thread is cancelled: see [`NoPoints`].
#[inline]
pub fn without_points<T>(body: impl FnOnce() -> T) -> T {
    let _before = no_points();
    body()
}
