//! Descriptors in messages: those that come are new here, those that go get another holder.

use libc::c_int;

use super::has_others;
use sockets_rules::layout::Note;

use crate::table;
use crate::{page, raw, rings, state};

/// A message was received: what descriptors came with it.
///
/// # Safety
/// The message must be one that the kernel has just filled in.
pub(crate) unsafe fn received(message: *const libc::msghdr) {
    // SAFETY: the caller's promise.
    if !state::outside() && unsafe { for_each_passed(message, table::forget) } {
        page::note(Note::Received);
    }
}

/// A message is about to be sent: descriptors in it get another holder. Whether there is a message.
pub(crate) fn passing(message: *const libc::msghdr) -> bool {
    if !(rings::conn::met() || rings::epoll::any_made())
        || state::outside()
        || !rings::reach::is_readable(message.cast(), size_of::<libc::msghdr>())
    {
        return false;
    }
    // SAFETY: it can be read; the program's own message, which need not be aligned.
    let message = unsafe { message.read_unaligned() };
    let (control, length) = (message.msg_control as usize, message.msg_controllen);
    // Nothing is known of that address: the kernel reads it.
    let mut at = 0_usize;
    while control != 0 && at.saturating_add(HEADER) <= length {
        let (mut bytes, mut kind) = ([0_u64], [0; 2]);
        let is_there = raw::peek_at(control + at, &mut bytes) && raw::peek_at(control + at + 8, &mut kind);
        let Some(end) = at.checked_add(bytes[0] as usize).filter(|&end| end <= length && end >= at + HEADER)
        else {
            break;
        };
        if !is_there {
            break;
        }
        if kind == [libc::SOL_SOCKET, libc::SCM_RIGHTS] {
            for place in (at + HEADER..end).step_by(size_of::<c_int>()) {
                let mut fd = [0];
                if raw::peek_at(control + place, &mut fd) {
                    has_others(fd[0]);
                }
            }
        }
        let Some(next) = end.checked_next_multiple_of(align_of::<usize>()) else { break };
        at = next;
    }
    true
}

/// Bytes of a header of control data (`struct cmsghdr`).
const HEADER: usize = size_of::<libc::cmsghdr>();

/// Calls `each` with the descriptors in a message; says whether there were any.
///
/// # Safety
/// The message's control data must be readable, to the length that it says.
unsafe fn for_each_passed(message: *const libc::msghdr, each: impl Fn(c_int)) -> bool {
    // SAFETY: the caller's promise.
    let (control, length) = unsafe { ((*message).msg_control.cast::<u8>(), (*message).msg_controllen) };
    if control.is_null() {
        return false;
    }
    let (mut at, mut any) = (0_usize, false);
    while at.saturating_add(HEADER) <= length {
        // SAFETY: the header lies within the control data; it need not be aligned.
        let header = unsafe { control.add(at).cast::<libc::cmsghdr>().read_unaligned() };
        let Some(end) = at.checked_add(header.cmsg_len) else { break };
        if header.cmsg_len < HEADER || end > length {
            break;
        }
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
            let mut place = at + HEADER;
            while place + size_of::<c_int>() <= end {
                // SAFETY: within this header's data.
                each(unsafe { control.add(place).cast::<c_int>().read_unaligned() });
                any = true;
                place += size_of::<c_int>();
            }
        }
        let Some(next) = end.checked_next_multiple_of(align_of::<usize>()) else { break };
        at = next;
    }
    any
}
