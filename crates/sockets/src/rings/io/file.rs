//! `sendfile` from a file to a connection that has a ring.

use libc::{c_int, off_t};

use super::plain::{plain, used_plainly};
use super::rest::goes_to_kernel;
use super::write::write;
use super::{with_errno, writes_unready};
use crate::interposer::{get_errno, set_errno};
use crate::raw;
use crate::rings::conn::{Known, state};
use crate::rings::copy::Bytes;
use crate::rings::native::Native;
use crate::rings::reach;

/// Bytes of the file at a time, in the room of this call, which may be on a small stack.
const PIECE: usize = 1 << 10;
/// Where there are more, and there is memory for them.
const LARGE_PIECE: usize = 64 << 10;

/// Memory of this call's own; none if there is none.
fn map() -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: a new mapping.
    let at = unsafe { raw::call(libc::SYS_mmap, [0, LARGE_PIECE, protection, flags, usize::MAX, 0]) };
    (at > 0).then_some(at as *mut u8)
}

/// Sends bytes of a file that begin at a position; `native` is the program's own call. None: it is for the
/// kernel, which will move bytes that nobody sees.
pub(crate) fn send_file(
    known: Known,
    fd: c_int,
    from: c_int,
    at: *mut off_t,
    length: usize,
    native: &mut Native<'_>,
) -> Option<isize> {
    let conn = known.conn;
    if !conn.is(state::READY)
        && let Some(result) = writes_unready(known, fd, native)
    {
        return Some(result);
    }
    if at.is_null() || length == 0 || !reach::is_writable(at.cast(), size_of::<off_t>()) {
        return None;
    }
    if goes_to_kernel(conn, fd) {
        // One that is closed by now is no connection.
        return used_plainly(known, fd, || plain(conn, native)).ok();
    }
    // Room for what is read, which need not be anything before.
    let mut room = core::mem::MaybeUninit::<[u8; PIECE]>::uninit();
    let Some(mapped) = (length > PIECE).then(map).flatten() else {
        return send_pieces(known, fd, from, at, length, (room.as_mut_ptr().cast(), PIECE));
    };
    let sent = send_pieces(known, fd, from, at, length, (mapped, LARGE_PIECE));
    // SAFETY: mapped above, and used by nobody any more.
    unsafe { raw::call(libc::SYS_munmap, [mapped as usize, LARGE_PIECE, 0, 0, 0, 0]) };
    sent
}

/// By pieces of so many bytes, in this room.
fn send_pieces(
    known: Known,
    fd: c_int,
    from: c_int,
    at: *mut off_t,
    length: usize,
    (piece, room): (*mut u8, usize),
) -> Option<isize> {
    let errno = get_errno();
    let mut sent = 0;
    while sent < length {
        // SAFETY: the program's own variable, which is there.
        let position = unsafe { at.read_unaligned() };
        let wanted = (length - sent).min(room);
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
            let send = || unsafe { raw::call(libc::SYS_write, [fd as usize, piece as usize, got, 0, 0, 0]) };
            with_errno(known.gives(send))
        };
        let bytes = Bytes::flat(piece.cast(), got);
        let Ok(written) = write(known, fd, Some(&bytes), 0, &mut Native::of(&mut rest)) else {
            // Closed meanwhile.
            return if sent == 0 { None } else { Some(sent as isize) };
        };
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
