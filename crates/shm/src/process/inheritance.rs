//! Descriptors that programs which this process executes would inherit.

use core::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

/// Standard input, output and error, which a program expects.
const STANDARD: i32 = 3;

/// From now on no program that this process executes inherits any descriptor that is open now, but the
/// standard ones. Those of this process itself are closed at an execution anyway; what it has inherited from
/// whoever started it may not be.
///
/// # Errors
/// The error of the kernel: its list of this process's descriptors cannot be read.
pub fn pass_on_no_descriptor() -> Result<(), Errno> {
    let dir =
        openat(CWD, c"/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(dir.as_fd(), &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if number < STANDARD {
            continue;
        }
        // SAFETY: the number is not negative. Only a flag of the descriptor is set, and whether it is still
        // the one that was listed does not matter: it is to be set for every descriptor of this process, so
        // no owner of one relies on the opposite.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        match fcntl_setfd(fd, FdFlags::CLOEXEC) {
            // Another thread has closed it meanwhile.
            Ok(()) | Err(Errno::BADF) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::fcntl_getfd;

    #[test]
    fn an_inheritable_descriptor_is_not_passed_on_any_more() {
        let file = openat(CWD, c"/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
        assert!(!fcntl_getfd(&file).unwrap().contains(FdFlags::CLOEXEC));
        pass_on_no_descriptor().unwrap();
        assert!(fcntl_getfd(&file).unwrap().contains(FdFlags::CLOEXEC));
    }
}
