//! Interposers of the C library's streams on descriptors, whose transfers no interposer sees.

use libc::{c_char, c_int, c_void};
use sockets_rules::layout::Note;

use crate::interposer::{Name, Slot, get_errno, interposers, set_errno};
use crate::rings::closing;
use crate::seen;

interposers! {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void, else core::ptr::null_mut(); |next| {
        seen::note(Note::Streamed);
        seen::unusual(fd);
        next(fd, mode)
    }
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void, else core::ptr::null_mut(); |next| {
        closes(stream, || next(path, mode, stream))
    }
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void, else core::ptr::null_mut(); |next| {
        closes(stream, || next(path, mode, stream))
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

/// Closes a stream, and its descriptor.
pub(crate) fn closes<T>(stream: *mut c_void, next: impl FnOnce() -> T) -> T {
    match descriptor(stream) {
        Some(fd) => closing::closes(fd, || {
            seen::closing(fd);
            next()
        }),
        None => next(),
    }
}

/// The descriptor of a stream, if it has one.
fn descriptor(stream: *mut c_void) -> Option<c_int> {
    static FILENO: Slot<unsafe extern "C-unwind" fn(*mut c_void) -> c_int> = Slot::new();
    const NAME: Name = Name::new(c"fileno");
    let fileno = FILENO.of_the_c_library(NAME).filter(|_| !stream.is_null())?;
    let errno = get_errno();
    // SAFETY: the program hands the stream to a function that looks into it just as this one does.
    let fd = unsafe { fileno(stream) };
    if fd < 0 && get_errno() != errno {
        set_errno(errno);
    }
    (fd >= 0).then_some(fd)
}
