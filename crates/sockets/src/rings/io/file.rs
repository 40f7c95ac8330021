//! `sendfile` from a file to a connection that has a ring.

use libc::{c_int, off_t};

use super::write::{goes_to_kernel, plain, write};
use super::{with_errno, writes_unready};
use crate::hook::{get_errno, set_errno};
use crate::page::{self, Way};
use crate::raw;
use crate::rings::conn::{Conn, state};
use crate::rings::copy::Bytes;
use crate::rings::native::Native;
use crate::rings::reach;

/// Bytes of the file at a time.
const PIECE: usize = 8 << 10;

/// Sends bytes of a file that begin at a position; `native` is the program's own call. None: it is for the kernel, which will move bytes
/// that nobody sees.
pub(crate) fn send_file(
    conn: &'static Conn,
    fd: c_int,
    from: c_int,
    at: *mut off_t,
    length: usize,
    native: &mut Native<'_>,
) -> Option<isize> {
    if !conn.is(state::READY)
        && let Some(result) = writes_unready(conn, fd, native)
    {
        return Some(result);
    }
    if at.is_null() || length == 0 || !reach::is_writable(at.cast(), size_of::<off_t>()) {
        return None;
    }
    if goes_to_kernel(conn, fd) {
        return Some(plain(conn, native));
    }
    let errno = get_errno();
    // Room for what is read, which need not be anything before.
    let mut room = core::mem::MaybeUninit::<[u8; PIECE]>::uninit();
    let piece = room.as_mut_ptr().cast::<u8>();
    let mut sent = 0;
    while sent < length {
        // SAFETY: the program's own variable, which is there.
        let position = unsafe { at.read_unaligned() };
        let wanted = (length - sent).min(PIECE);
        // SAFETY: room for so many.
        let got = unsafe {
            raw::call(libc::SYS_pread64, [from as usize, piece as usize, wanted, position as usize, 0, 0])
        };
        if got < 0 && sent == 0 {
            // No file, or one that cannot be read: the kernel says what it thinks of it.
            return None;
        }
        let Ok(got) = usize::try_from(got) else { break };
        if got == 0 {
            break;
        }
        let mut rest = || {
            // SAFETY: what was read, and is not changed meanwhile.
            let sent = unsafe { raw::call(libc::SYS_write, [fd as usize, piece as usize, got, 0, 0, 0]) };
            if sent > 0 {
                page::kernel(conn.record(), Way::Out, sent as u64);
            }
            with_errno(sent)
        };
        let bytes = Bytes::flat(piece.cast(), got);
        let written = write(conn, fd, Some(&bytes), 0, &mut Native::of(&mut rest));
        if written < 0 && sent == 0 {
            return Some(written);
        }
        let written = usize::try_from(written).unwrap_or(0);
        sent += written;
        // SAFETY: as above.
        unsafe { at.write_unaligned(position + written as off_t) };
        if written < got {
            break;
        }
    }
    set_errno(errno);
    Some(sent as isize)
}
