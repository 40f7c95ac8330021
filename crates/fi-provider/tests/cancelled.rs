//! A thread of the program that is cancelled, but in no call of the provider: see `program`.
#![allow(clippy::unwrap_used)]

mod program;

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use fabric_sys::constants::*;
use program::{Program, Waits, bytes_of, send, until};

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

// The types of crate `libc` do not say that a thread may be unwound.
unsafe extern "C-unwind" {
    fn pthread_create(id: *mut libc::pthread_t, attr: *const c_void, start: Start, arg: *mut c_void)
    -> c_int;
    fn pthread_cancel(id: libc::pthread_t) -> c_int;
    fn pthread_testcancel();
}

/// How far the thread has come.
static STEP: AtomicU32 = AtomicU32::new(0);

/// Objects that are made, used and closed: meetings, messages by each way, waits that sleep, a peer that
/// ends.
fn all_calls() {
    let mut programs = [Program::counting(), Program::waiting(Waits::FD)];
    Program::make_known(&programs);
    for (number, len) in [8, 100, 100_000, 4 << 20].into_iter().enumerate() {
        let (bytes, mut buffer) = (bytes_of(number, len), vec![0; len]);
        programs[0].receive(1, number as u64, 0, &mut buffer, 1000 + number);
        send(&mut programs, 1, 0, number as u64, &bytes, number);
        until(&mut programs, |p| p[0].good.len() > number && p[1].good.len() > number);
        assert!(buffer == bytes);
    }
    // Long enough for a wait to sleep.
    let counter = programs[0].received.as_ref().unwrap();
    assert_eq!(counter.wait(counter.read() + 1, 50), -libc::ETIMEDOUT);
    let [mut stays, ends] = programs;
    drop(ends);
    let mut refused = 0;
    while refused != -(FI_ECONNREFUSED as isize) && stays.bad.is_empty() {
        refused = stays.try_send(1, 1, &[0; 8], 7);
        stays.progress();
    }
}

extern "C-unwind" fn thread(_: *mut c_void) -> *mut c_void {
    // SAFETY: this thread. It is to be cancelled at the next point.
    assert_eq!(unsafe { pthread_cancel(libc::pthread_self()) }, 0);
    all_calls();
    STEP.store(1, Ordering::Relaxed);
    // SAFETY: nothing of this frame needs to be cleaned up.
    unsafe { pthread_testcancel() };
    STEP.store(2, Ordering::Relaxed);
    null_mut()
}

#[test]
fn a_thread_is_cancelled_behind_the_calls_and_not_in_them() {
    let (mut id, mut ended) = (0, null_mut());
    // SAFETY: the thread is waited for.
    unsafe {
        assert_eq!(pthread_create(&raw mut id, null(), thread, null_mut()), 0);
        assert_eq!(libc::pthread_join(id, &raw mut ended), 0);
    }
    // PTHREAD_CANCELED of pthread.h.
    assert_eq!((STEP.load(Ordering::Relaxed), ended.addr()), (1, usize::MAX));
}
