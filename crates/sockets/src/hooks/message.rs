//! Calls that move messages, with what lies beside the bytes.

use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};

use crate::hook::hooks;
use crate::seen;

hooks! {
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, as libc::SYS_recvmsg, quick tcp hot 4; |next| {
        let result = next(fd, message, flags);
        if result >= 0 {
            // SAFETY: the kernel has just filled the message in.
            unsafe { seen::received(message) };
        }
        seen::input(fd, result);
        result
    }
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, as libc::SYS_sendmsg, quick any hot 5; |next| {
        // The message is not looked at: before the call it may be no address at all, and after it belongs to whoever was told.
        let result = next(fd, message, flags);
        seen::output(fd, result);
        result
    }
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec) -> c_int, as libc::SYS_recvmmsg, quick tcp; |next| {
        let result = next(fd, messages, count, flags, limit);
        for at in 0..result.max(0) as usize {
            // SAFETY: so many messages the kernel has just filled in.
            unsafe {
                let message = messages.add(at);
                seen::received(&raw const (*message).msg_hdr);
                seen::input(fd, (*message).msg_len as ssize_t);
            }
        }
        result
    }
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int, as libc::SYS_sendmmsg, quick any; |next| {
        let result = next(fd, messages, count, flags);
        // Of a connection the lengths are the caller's to look at; datagrams are not counted.
        for at in 0..if seen::is_connection(fd) { result.max(0) as usize } else { 0 } {
            // SAFETY: so many lengths the kernel has just written.
            unsafe { seen::output(fd, (*messages.add(at)).msg_len as ssize_t) };
        }
        result
    }
}
