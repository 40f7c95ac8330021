//! Interposers of calls that move messages with ancillary data.

use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};

use super::data::{gave, got, is_address};
use crate::interposer::interposers;
use crate::rings::{Bytes, reach};
use crate::seen;

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

/// Counts what several messages have taken away. Of a connection the lengths are the caller's to look at; datagrams are not counted.
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
    /// The most that the kernel takes (`UIO_MAXIOV`).
    const MOST: usize = 1024;
    if seen::is_connection(fd) {
        return;
    }
    for at in 0..MOST.min(count as usize) {
        // An address, which need not be one.
        if !seen::passing(messages.wrapping_add(at).cast()) {
            return;
        }
    }
}

interposers! {
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, as libc::SYS_recvmsg, quick none hot 4; |next| {
        let mut is_native = false;
        let result = got(fd, || parts(message), flags, || {
            is_native = true;
            next(fd, message, flags)
        });
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
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, as libc::SYS_sendmsg, quick none hot 5; |next| {
        // Never past this: any message of a UNIX socket may hand a connection on.
        if !seen::is_connection(fd) {
            let _ = seen::passing(message);
        }
        gave(fd, || plain_parts(message), flags, || next(fd, message, flags))
    }
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec) -> c_int, as libc::SYS_recvmmsg; |next| {
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
