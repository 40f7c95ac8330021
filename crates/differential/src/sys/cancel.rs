//! Threads that are cancelled in a call, or just before it.
//!
//! A cancelled thread is unwound by force through the frames of its start function, so nothing there may have
//! a destructor.

use std::ffi::c_void;
use std::ptr::null_mut;

use shm::sync::{AtomicU32, Ordering};

use super::NOWHERE;
use super::memory::Semaphore;
use crate::program::call::{CancelAt, CancelHow};

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> i32;
    fn pthread_cancel(thread: libc::pthread_t) -> i32;
    fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
    fn pthread_setcanceltype(of: i32, old: *mut i32) -> i32;
    // Cancellation points, through which a thread is unwound.
    fn read(fd: i32, place: *mut c_void, len: usize) -> isize;
    fn write(fd: i32, place: *const c_void, len: usize) -> isize;
    fn recv(fd: i32, place: *mut c_void, len: usize, flags: i32) -> isize;
    fn recvmsg(fd: i32, message: *mut libc::msghdr, flags: i32) -> isize;
    fn send(fd: i32, place: *const c_void, len: usize, flags: i32) -> isize;
    fn accept4(fd: i32, address: *mut c_void, len: *mut c_void, flags: i32) -> i32;
    fn connect(fd: i32, address: *const c_void, len: libc::socklen_t) -> i32;
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: i32) -> i32;
    fn select(
        limit: i32,
        read: *mut c_void,
        write: *mut c_void,
        except: *mut c_void,
        time: *mut c_void,
    ) -> i32;
    fn epoll_wait(fd: i32, events: *mut libc::epoll_event, max: i32, timeout: i32) -> i32;
    fn close(fd: i32) -> i32;
}

/// glibc's numbers.
const ENABLED: i32 = 0;
const DISABLED: i32 = 1;
const ASYNCHRONOUS: i32 = 1;

/// Milliseconds after which a call that has not returned is taken for one that waits: one that is cancelled
/// in its middle gets as much as two ends take at most that meet within it.
const fn most_milliseconds(how: CancelHow) -> u32 {
    match how {
        CancelHow::Asynchronous => 250,
        _ => 1,
    }
}

/// What the thread is to do, and what it tells.
struct Plan {
    fd: i32,
    at: CancelAt,
    how: CancelHow,
    key: libc::pthread_key_t,
    ready: Semaphore,
    go: Semaphore,
    /// The call has returned: 1 + what, if that is none or positive; 0 if it has not.
    returned: AtomicU32,
    /// Whether what a thread leaves behind was taken away.
    cleaned: AtomicU32,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// By cancellation.
    pub cancelled: bool,
    /// What the call returned, if it did: a count or 0, or -1.
    pub returned: Option<i32>,
    /// Its destructors have run.
    pub cleaned: bool,
}

/// Has a thread make this call, cancels it, and waits for its end. Nothing if there is no thread to be had.
#[must_use]
pub fn cancel(fd: i32, at: CancelAt, how: CancelHow) -> Option<Ended> {
    // SAFETY: memory for semaphores, which are made before they are used.
    let mut places: [libc::sem_t; 2] = unsafe { std::mem::zeroed() };
    let [ready, go] = places.each_mut().map(Semaphore::at);
    ready.reset();
    go.reset();
    let mut key = 0;
    // SAFETY: the key lives; the destructor has the type that is wanted.
    if unsafe { libc::pthread_key_create(&mut key, Some(clean)) } != 0 {
        return None;
    }
    let plan = Plan { fd, at, how, key, ready, go, returned: AtomicU32::new(0), cleaned: AtomicU32::new(0) };
    let mut thread = 0;
    let argument = (&raw const plan).cast_mut().cast();
    // SAFETY: the plan lives until the thread has been joined.
    if unsafe { pthread_create(&mut thread, std::ptr::null(), body, argument) } != 0 {
        // SAFETY: the key was made above.
        unsafe { libc::pthread_key_delete(key) };
        return None;
    }
    while !plan.ready.wait(1_000_000_000) {}
    if how != CancelHow::Pending {
        // Time to reach the call and, if it does not wait, to return; with rings forced its two ends may meet
        // within it.
        for _ in 0..most_milliseconds(how) {
            let returned = plan.returned.load(Ordering::SeqCst) != 0;
            std::thread::sleep(std::time::Duration::from_millis(1));
            if returned {
                break;
            }
        }
    }
    let mut result = null_mut();
    // SAFETY: the thread was made above and is joined once.
    unsafe {
        pthread_cancel(thread);
        plan.go.post();
        libc::pthread_join(thread, &mut result);
        libc::pthread_key_delete(key);
    }
    let returned = plan.returned.load(Ordering::SeqCst);
    Some(Ended {
        cancelled: result as isize == -1,
        returned: (returned > 0).then(|| returned.cast_signed().wrapping_sub(2)),
        cleaned: plan.cleaned.load(Ordering::SeqCst) == 1,
    })
}

unsafe extern "C" fn clean(plan: *mut c_void) {
    // SAFETY: what `body` stored: the plan, which lives until the thread is joined.
    unsafe { &*plan.cast::<Plan>() }.cleaned.fetch_add(1, Ordering::SeqCst);
}

/// Nothing in this frame has a destructor: it is left by force.
unsafe extern "C-unwind" fn body(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the plan lives until this thread is joined.
    let plan = unsafe { &*argument.cast::<Plan>() };
    let mut old = 0;
    // SAFETY: the key was made for this; both others take numbers.
    unsafe {
        libc::pthread_setspecific(plan.key, argument);
        pthread_setcancelstate(DISABLED, &mut old);
    }
    plan.ready.post();
    if plan.how == CancelHow::Pending {
        while !plan.go.wait(1_000_000_000) {}
    }
    // SAFETY: the call's places live in this frame or, for those that must fail, nowhere.
    let returned = unsafe {
        if plan.how == CancelHow::Asynchronous {
            pthread_setcanceltype(ASYNCHRONOUS, &mut old);
        }
        if plan.how != CancelHow::Disabled {
            pthread_setcancelstate(ENABLED, &mut old);
        }
        call(plan.fd, plan.at)
    };
    plan.returned.store((returned as i32).wrapping_add(2).cast_unsigned(), Ordering::SeqCst);
    null_mut()
}

/// The call in which it is cancelled.
unsafe fn call(fd: i32, at: CancelAt) -> isize {
    let mut bytes = [0x5a_u8; 8];
    let place = bytes.as_mut_ptr().cast::<c_void>();
    let mut part = libc::iovec { iov_base: place, iov_len: bytes.len() };
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: all places live in this frame.
    unsafe {
        match at {
            CancelAt::Read => read(fd, place, 8),
            CancelAt::Recv => recv(fd, place, 8, 0),
            CancelAt::Recvmsg => {
                let mut message: libc::msghdr = std::mem::zeroed();
                (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
                recvmsg(fd, &mut message, 0)
            }
            CancelAt::Write => write(fd, place, 8),
            CancelAt::Send => send(fd, place, 8, libc::MSG_NOSIGNAL),
            CancelAt::Accept => accept4(fd, null_mut(), null_mut(), 0) as isize,
            CancelAt::Connect => connect(fd, NOWHERE as *const c_void, 16) as isize,
            CancelAt::Poll => poll(&mut polled, 1, -1) as isize,
            CancelAt::Select => {
                let mut set: libc::fd_set = std::mem::zeroed();
                if (0..1024).contains(&fd) {
                    libc::FD_SET(fd, &mut set);
                }
                select(1024.min(fd + 1).max(0), (&raw mut set).cast(), null_mut(), null_mut(), null_mut())
                    as isize
            }
            CancelAt::Epoll => epoll_wait(fd, &mut event, 1, -1) as isize,
            CancelAt::Close => close(fd) as isize,
        }
    }
}
