//! The C library's streams on descriptors. What goes through them no hook sees.

use libc::{c_char, c_int, c_void};
use sockets_rules::layout::Note;

use crate::hook::{Name, Slot, get_errno, hooks, set_errno};
use crate::seen;

hooks! {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void, else core::ptr::null_mut(); |next| {
        seen::note(Note::Streamed);
        seen::unusual(fd);
        next(fd, mode)
    }
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void, else core::ptr::null_mut(); |next| {
        closing(stream);
        next(path, mode, stream)
    }
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void, else core::ptr::null_mut(); |next| {
        closing(stream);
        next(path, mode, stream)
    }
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, else -1; |next| {
        seen::note(Note::Streamed);
        seen::unusual(fd);
        next(fd, format, arguments)
    }
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, else -1; |next| {
        seen::note(Note::Streamed);
        seen::unusual(fd);
        next(fd, flag, format, arguments)
    }
}

/// A stream is about to close its descriptor.
pub(crate) fn closing(stream: *mut c_void) {
    static FILENO: Slot<unsafe extern "C-unwind" fn(*mut c_void) -> c_int> = Slot::new();
    const NAME: Name = Name::new(c"fileno");
    let Some(fileno) = FILENO.of_the_c_library(NAME).filter(|_| !stream.is_null()) else { return };
    let errno = get_errno();
    // SAFETY: the program hands the stream to a function that looks into it just as this one does.
    let fd = unsafe { fileno(stream) };
    if fd >= 0 {
        seen::closing(fd);
    } else if get_errno() != errno {
        // A stream without a descriptor.
        set_errno(errno);
    }
}
