//! POSIX asynchronous input and output, which libc does in a thread of its own.

use std::mem::zeroed;
use std::ptr::{null, null_mut};

use super::{Outcome, observed};
use crate::program::call::AioBy;

/// Starts one operation, waits until it is over, and tells what starting it and the operation itself came to:
/// a count, or a negative error number.
#[must_use]
pub fn aio(fd: i32, by: AioBy, bytes: &mut [u8]) -> (Outcome, Option<i64>) {
    // SAFETY: zeroes are a control block without priority, offset and notification.
    let mut block: libc::aiocb = unsafe { zeroed() };
    block.aio_fildes = fd;
    block.aio_buf = bytes.as_mut_ptr().cast();
    block.aio_nbytes = bytes.len();
    block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
    block.aio_lio_opcode = if by == AioBy::ListRead { libc::LIO_READ } else { libc::LIO_WRITE };
    let place = &raw mut block;
    let started = observed(|| match by {
        // SAFETY: the block and its buffer live until the operation is over, which is waited for below.
        AioBy::Read => unsafe { libc::aio_read(place) },
        // SAFETY: as above.
        AioBy::Write => unsafe { libc::aio_write(place) },
        AioBy::ListRead | AioBy::ListWrite => {
            let list = [place];
            // SAFETY: as above; the list has one member.
            unsafe { libc::lio_listio(libc::LIO_WAIT, list.as_ptr(), 1, null_mut()) }
        }
    });
    let listed = matches!(by, AioBy::ListRead | AioBy::ListWrite);
    if !(started.is_ok() || listed && started.errno == Some(libc::EIO)) {
        return (started, None);
    }
    // SAFETY: the block was started; it is only asked for its state, and its result is taken once.
    let result = unsafe {
        while libc::aio_error(place) == libc::EINPROGRESS {
            let list = [place.cast_const()];
            libc::aio_suspend(list.as_ptr(), 1, null());
        }
        let error = libc::aio_error(place);
        let count = libc::aio_return(place) as i64;
        if error == 0 { count } else { -i64::from(error) }
    };
    (started, Some(result))
}
