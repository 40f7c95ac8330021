//! Calls on descriptors as such (duplicate, close, mark), and descriptors that are no sockets.

use std::mem::zeroed;

use super::{Outcome, observed};

/// `close`.
pub fn close(fd: i32) -> Outcome {
    // SAFETY: the executor keeps no descriptor of its own that could be hit.
    observed(|| unsafe { libc::close(fd) })
}

/// `close_range`.
#[must_use]
pub fn close_range(first: u32, last: u32, flags: i32) -> Outcome {
    // SAFETY: as for `close`.
    observed(|| unsafe { libc::close_range(first, last, flags) })
}

/// `closefrom`.
pub fn closefrom(first: i32) {
    unsafe extern "C" {
        // glibc has it since 2.34; the libc crate does not.
        fn closefrom(first: i32);
    }
    // SAFETY: as for `close`.
    unsafe { closefrom(first) }
}

/// `dup`.
#[must_use]
pub fn dup(fd: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::dup(fd) })
}

/// `dup2`.
#[must_use]
pub fn dup2(fd: i32, onto: i32) -> Outcome {
    // SAFETY: as for `close`: what it closes is the program's.
    observed(|| unsafe { libc::dup2(fd, onto) })
}

/// `dup3`.
#[must_use]
pub fn dup3(fd: i32, onto: i32, flags: i32) -> Outcome {
    // SAFETY: as for `dup2`.
    observed(|| unsafe { libc::dup3(fd, onto, flags) })
}

/// `fcntl` with a number.
#[must_use]
pub fn fcntl(fd: i32, command: i32, argument: i32) -> Outcome {
    // SAFETY: only commands that take a number, or nothing, are passed.
    observed(|| unsafe { libc::fcntl(fd, command, argument) })
}

/// `ioctl` with a number that is read or written.
#[must_use]
pub fn ioctl(fd: i32, request: libc::c_ulong, value: &mut i32) -> Outcome {
    // SAFETY: the requests used (FIONBIO, FIOCLEX, FIONCLEX, FIONREAD) take an int or nothing.
    observed(|| unsafe { libc::ioctl(fd, request as _, std::ptr::from_mut(value)) })
}

/// `pipe2`.
#[must_use]
pub fn pipe(flags: i32) -> (Outcome, [i32; 2]) {
    let mut both = [-1; 2];
    // SAFETY: two descriptors fit into the array.
    let outcome = observed(|| unsafe { libc::pipe2(both.as_mut_ptr(), flags) });
    (outcome, both)
}

/// `eventfd`.
#[must_use]
pub fn eventfd(value: u32, flags: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::eventfd(value, flags) })
}

/// `memfd_create`.
#[must_use]
pub fn memfd() -> Outcome {
    // SAFETY: the name is a C string.
    observed(|| unsafe { libc::memfd_create(c"file".as_ptr(), 0) })
}

/// The kind of file behind a descriptor, as in `st_mode`.
#[must_use]
pub fn kind(fd: i32) -> Option<u32> {
    // SAFETY: a stat of zeroes is valid.
    let mut stat: libc::stat = unsafe { zeroed() };
    // SAFETY: the stat lives.
    let outcome = observed(|| unsafe { libc::fstat(fd, &mut stat) });
    outcome.is_ok().then_some(stat.st_mode & libc::S_IFMT)
}

/// `fdopen`, then write these bytes or read so many, then `fclose`.
#[must_use]
pub fn stdio(fd: i32, bytes: &[u8], read: usize) -> (Outcome, Vec<u8>) {
    let mode = if read > 0 { c"r" } else { c"w" };
    // SAFETY: the mode is a C string; a null result is checked.
    let file = unsafe { libc::fdopen(fd, mode.as_ptr()) };
    if file.is_null() {
        return (observed(|| -2_i32), Vec::new());
    }
    let mut got = vec![0; read];
    if read > 0 {
        // SAFETY: the buffer is as long as said; the file is open.
        let len = unsafe { libc::fread(got.as_mut_ptr().cast(), 1, read, file) };
        got.truncate(len);
    } else {
        // SAFETY: the bytes are as many as said; the file is open.
        let len = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), file) };
        got = len.to_string().into_bytes();
    }
    // SAFETY: the file is open, and is not used any more.
    let outcome = observed(|| unsafe { libc::fclose(file) });
    (outcome, got)
}

/// `dprintf` of a text.
#[must_use]
pub fn dprintf(fd: i32, text: &str) -> Outcome {
    unsafe extern "C" {
        fn dprintf(fd: i32, format: *const libc::c_char, ...) -> i32;
    }
    let text = super::memory::c_string(text);
    // SAFETY: the format takes one C string, which lives.
    observed(|| unsafe { dprintf(fd, c"%s".as_ptr(), text.as_ptr()) })
}
