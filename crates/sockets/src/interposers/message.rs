//! Interposers of calls that move messages with ancillary data.

use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};

use super::data::{gave, got, is_address};
use crate::interposer::{get_errno, interposers, set_errno, system};
use crate::rings::{Bytes, reach};
use crate::seen;

/// Messages of one call, at most: the kernel takes no more (`UIO_MAXIOV`).
const MAX_MESSAGES: usize = 1024;

/// The bytes of a message that has nothing else.
fn parts(message: *const msghdr) -> Option<Bytes> {
    if !reach::is_readable(message.cast(), size_of::<msghdr>()) {
        return None;
    }
    // SAFETY: the program's own message, which is there.
    let message = unsafe { message.as_ref()? };
    // SAFETY: as above.
    unsafe { Bytes::parts(message.msg_iov, message.msg_iovlen) }
}

/// The same of one that has nothing beside its bytes: what has is for the kernel to look at.
fn plain_parts(message: *const msghdr) -> Option<Bytes> {
    let bytes = parts(message)?;
    // SAFETY: the program's own message, which is there.
    let (control, name, length) =
        unsafe { ((*message).msg_controllen, (*message).msg_name, (*message).msg_namelen) };
    (control == 0 && is_address(name, length as usize)).then_some(bytes)
}

/// Counts what several messages have brought.
///
/// # Safety
/// The kernel has just filled in so many.
pub(crate) unsafe fn got_several(fd: c_int, messages: *const mmsghdr, count: c_int, flags: c_int) {
    if seen::takes(flags) && seen::may_be_connection(fd) {
        // SAFETY: the caller's promise.
        (0..count.max(0) as usize)
            .for_each(|at| seen::input(fd, unsafe { (*messages.add(at)).msg_len } as ssize_t));
    }
}

/// Counts what several messages have taken away. Of a connection the lengths are the caller's to look at;
/// datagrams are not counted.
///
/// # Safety
/// As [`got_several`].
pub(crate) unsafe fn gave_several(fd: c_int, messages: *const mmsghdr, count: c_int) {
    if seen::may_be_connection(fd) {
        // SAFETY: the caller's promise.
        (0..count.max(0) as usize)
            .for_each(|at| seen::output(fd, unsafe { (*messages.add(at)).msg_len } as ssize_t));
    }
}

/// Several messages are about to be sent: descriptors in them get another holder.
pub(crate) fn passing_several(fd: c_int, messages: *const mmsghdr, count: c_uint) {
    if seen::is_connection(fd) {
        return;
    }
    for at in 0..MAX_MESSAGES.min(count as usize) {
        // An address, which need not be one.
        if !seen::passing(messages.wrapping_add(at).cast()) {
            return;
        }
    }
}

/// Takes one message from the descriptor; `next` is the program's own call.
///
/// # Safety
/// `message` is what the call is given, and what the kernel fills in.
#[inline(always)]
unsafe fn received(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    let mut is_native = false;
    let result = got(
        fd,
        || parts(message),
        flags,
        || {
            is_native = true;
            next()
        },
    );
    if result >= 0 {
        if is_native {
            // SAFETY: the kernel has just filled the message in.
            unsafe { seen::received(message) };
        } else {
            // SAFETY: as the kernel does, where only bytes came.
            unsafe {
                (*message).msg_namelen = 0;
                (*message).msg_controllen = 0;
                (*message).msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
            }
        }
    }
    result
}

/// Takes several messages of a stream one after the other, as the kernel does; behind its end each is empty.
/// The number of messages, or -1 if the first was an error.
///
/// # Safety
/// As [`received`], of each.
unsafe fn received_one_by_one(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let waits_for_one = flags & libc::MSG_WAITFORONE != 0;
    let mut flags = flags & !libc::MSG_WAITFORONE;
    let count = (count as usize).min(MAX_MESSAGES);
    let errno = get_errno();
    // Behind the first message an error is not this call's.
    let ended = |at: usize| {
        if at == 0 {
            return -1;
        }
        set_errno(errno);
        at as c_int
    };
    for at in 0..count {
        let message = messages.wrapping_add(at);
        // Before anything is taken: the kernel refuses what is no memory, and nothing is lost.
        if !reach::is_readable(message.cast(), size_of::<mmsghdr>()) {
            set_errno(libc::EFAULT);
            return ended(at);
        }
        let header = message.cast::<msghdr>();
        let arguments = [fd as usize, header as usize, flags as usize];
        // SAFETY: the caller's promise.
        let result = unsafe { received(fd, header, flags, || system(libc::SYS_recvmsg, &arguments)) };
        if result < 0 {
            return ended(at);
        }
        // SAFETY: the header before it was there.
        unsafe { (*message).msg_len = result as c_uint };
        if waits_for_one {
            flags |= libc::MSG_DONTWAIT;
        }
    }
    count as c_int
}

/// Flags of a read of several messages that a ring knows.
const OF_A_RING: c_int =
    libc::MSG_DONTWAIT | libc::MSG_WAITFORONE | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;

/// Whether the kernel takes that as a limit of time, or as none.
fn is_limit(limit: *const timespec) -> bool {
    if limit.is_null() {
        return true;
    }
    // SAFETY: it can be read; the program's own, which need not be aligned.
    let its =
        reach::is_readable(limit.cast(), size_of::<timespec>()).then(|| unsafe { limit.read_unaligned() });
    its.is_some_and(|its| its.tv_sec >= 0 && (0..1_000_000_000).contains(&its.tv_nsec))
}

interposers! {
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, as libc::SYS_recvmsg, quick none hot 4; |next| {
        // SAFETY: the program's own message, which its own call fills in.
        unsafe { received(fd, message, flags, || next(fd, message, flags)) }
    }
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, as libc::SYS_sendmsg, quick none hot 5; |next| {
        // Never past this: any message of a UNIX socket may hand a connection on.
        if !seen::is_connection(fd) {
            let _ = seen::passing(message);
        }
        gave(fd, || plain_parts(message), flags, || next(fd, message, flags))
    }
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec) -> c_int, as libc::SYS_recvmmsg; |next| {
        let is_left = seen::is_left(fd);
        if !is_limit(limit) {
            // The kernel refuses it, and takes nothing.
            return next(fd, messages, count, flags, limit);
        }
        if is_left || flags & !OF_A_RING == 0 && seen::has_ring(fd) {
            // The kernel returns an error that is pending before it looks for bytes.
            if !is_left && let Some(error) = seen::takes_error(fd) {
                set_errno(error);
                return -1;
            }
            // The kernel looks at a limit of time behind the first message at the earliest, and fewer
            // messages are always right.
            let count = if limit.is_null() { count } else { count.min(1) };
            // SAFETY: the program's own messages, which its own call fills in.
            return unsafe { received_one_by_one(fd, messages, count, flags) };
        }
        seen::unusual(fd);
        let result = next(fd, messages, count, flags, limit);
        for at in 0..result.max(0) as usize {
            // SAFETY: so many messages the kernel has just filled in.
            unsafe { seen::received(&raw const (*messages.add(at)).msg_hdr) };
        }
        // SAFETY: as above.
        unsafe { got_several(fd, messages, result, flags) };
        result
    }
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int, as libc::SYS_sendmmsg; |next| {
        passing_several(fd, messages, count);
        seen::unusual(fd);
        let result = next(fd, messages, count, flags);
        // SAFETY: so many lengths the kernel has just written.
        unsafe { gave_several(fd, messages, result) };
        result
    }
}
