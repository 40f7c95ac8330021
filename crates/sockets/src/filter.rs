//! Whether the process was started with a filter of system calls (seccomp), which may end it for a
//! call that the program does not make.
//!
//! So it is found out with calls that the loader has made just before: a filter that forbids these lets no
//! program start.

use crate::raw;

/// More than `/proc/self/status` has before the line that is looked for, with names of any length and 64
/// groups or so; what stands behind that is not read, and then there is taken to be a filter.
const BYTES: usize = 4096;

/// What stands before the kind of filter, and the kind that is none.
const LINE: &[u8] = b"\nSeccomp:\t";
const NONE: &[u8] = b"\nSeccomp:\t0\n";

/// Whether there may be a filter: what can't be found out may be so.
#[cold]
#[inline(never)]
pub(crate) fn is_inherited() -> bool {
    let mut text = core::mem::MaybeUninit::<[u8; BYTES]>::uninit();
    let path = c"/proc/self/status".as_ptr() as usize;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: a path that ends with 0; a new descriptor, closed below.
    let fd = unsafe { raw::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path, flags, 0, 0, 0]) };
    if fd < 0 {
        return true;
    }
    // SAFETY: the kernel writes at most so many bytes to room that has them.
    let read =
        unsafe { raw::call(libc::SYS_read, [fd as usize, text.as_mut_ptr() as usize, BYTES, 0, 0, 0]) };
    // SAFETY: the descriptor is the one from above.
    unsafe { raw::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
    let length = usize::try_from(read).unwrap_or(0).min(BYTES);
    // SAFETY: so many bytes the kernel has written.
    let text = unsafe { core::slice::from_raw_parts(text.as_ptr().cast::<u8>(), length) };
    // A kernel that has no filters says nothing of them.
    !contains(text, NONE) && (contains(text, LINE) || length == BYTES)
}

/// Byte by byte: what compares slices would be the C library's.
fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.iter().zip(part).all(|(a, b)| a == b))
}
