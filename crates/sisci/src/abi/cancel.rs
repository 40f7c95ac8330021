//! Keeps `pthread_cancel` out of calls of this library. A thread that was cancelled in the middle of one
//! would be unwound through Rust code that holds locks, and the C library would end the whole program where
//! that code catches panics. The thread is cancelled when the call ends.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::far;

// Of glibc.
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

/// Runs the body of a call. Neither this function nor its caller may have anything to clean up: both are
/// unwound, without a look at their tables, if the thread is cancelled before or behind the body.
#[inline(always)]
pub(crate) fn held_off<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
    at_points_only(|| without_points(body))
}

/// The same of a body that makes no call in which a thread may be cancelled, unless it leads to another host:
/// to change the state costs some 20 ns.
#[inline(always)]
pub(crate) fn held_off_briefly<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
    at_points_only(|| if far::is_used() { without_points(body) } else { body() })
}

/// No call in the body is one in which the thread may be cancelled.
fn without_points<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
    let mut state = ENABLED;
    // SAFETY: the function is the C library's, and writes to a variable of this frame.
    unsafe { pthread_setcancelstate(DISABLED, &raw mut state) };
    let value = body();
    // SAFETY: as above. It does not unwind: by its type the thread ends in certain calls only.
    unsafe { pthread_setcancelstate(state, null_mut()) };
    value
}

/// The thread can't be cancelled at any time in the body.
#[inline(always)]
fn at_points_only<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
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
