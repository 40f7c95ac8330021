//! The standard descriptors of a program, which the library never uses.
//!
//! A program that has closed them, as daemons do, gets their numbers for whatever it opens next. If
//! that were a connection or the memory of a segment, a line that some other part of the program
//! prints would be written there.

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_getfd};

/// Standard input, output and error.
const STANDARD: std::ops::Range<i32> = 0..3;

/// Sees to it that what the library opens now gets a higher number: where a standard descriptor is
/// closed, `/dev/null` is opened, until the program opens or closes it as it likes. Programs that
/// are executed do not see it.
pub(crate) fn keep_off() {
    if STANDARD.clone().all(is_open) {
        return;
    }
    // The lowest free number is given out, so this ends when none of the three is free.
    while let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        if !STANDARD.contains(&std::os::fd::AsRawFd::as_raw_fd(&null)) {
            break;
        }
        // It is the program's from now on.
        std::mem::forget(null);
    }
}

fn is_open(number: i32) -> bool {
    // SAFETY: the call only checks whether there is such a descriptor, and does not keep it.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    fcntl_getfd(descriptor).map(|_: FdFlags| ()) != Err(rustix::io::Errno::BADF)
}
