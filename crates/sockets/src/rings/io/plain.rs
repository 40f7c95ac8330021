//! Writes of the program that go to the kernel although the connection has a ring.

use core::convert::Infallible;

use libc::c_int;
use stream::{Shared, Word, plain};

use crate::rings::conn::{Conn, Gone, Known, Use};
use crate::rings::flight::Flight;
use crate::rings::header::Header;
use crate::rings::native::Native;
use crate::sync::{Ordering, fence};

/// Acts as a user of the connection.
#[inline(always)]
pub(super) fn used<T>(known: Known, act: impl FnOnce(Use) -> T) -> Result<T, Gone> {
    let user = known.enter()?;
    let acted = act(user);
    user.leave();
    Ok(acted)
}

/// The same by a call of the program's, of which the kernel may first hear when the number is another
/// connection's.
#[inline(always)]
pub(super) fn used_plainly<T>(known: Known, fd: c_int, act: impl FnOnce() -> T) -> Result<T, Gone> {
    // Begun before the look whose number it is.
    let flight = Flight::over(fd);
    let acted = used(known, |_| act());
    flight.land();
    acted
}

/// A write that the kernel refuses.
pub(super) fn native_said(conn: &Conn, native: &mut Native<'_>) -> isize {
    let result = native.call();
    conn.said(result);
    result
}

/// A write of the program to the kernel, whatever the way was.
pub(super) fn plain(conn: &Conn, native: &mut Native<'_>) -> isize {
    plain_once(conn, native).unwrap_or_else(|| native_said(conn, native))
}

/// A write to the kernel without the lock; nobody opens the ring meanwhile. None: somebody has.
pub(super) fn plain_once(conn: &Conn, native: &mut Native<'_>) -> Option<isize> {
    let Some((own, _)) = conn.headers() else { return Some(native.call()) };
    let Ok(result) = plain::write(&mut WithoutLock(own), |_| {
        let held = own.writer.0.held.load(Ordering::Relaxed);
        let result = native.call();
        gave(own, held, result);
        conn.said(result);
        Ok(result)
    });
    result
}

/// A write to the kernel has returned this; before it, `held` said whether the kernel held back the end of
/// what it had.
#[inline(always)]
pub(super) fn gave(own: &Header, held: u64, result: isize) {
    if held != 0 && result > 0 {
        // Sent with what was held back, unless another thread has had the kernel hold back more since.
        let _ = own.writer.0.held.compare_exchange(held, 0, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// The words of a writing end, for a call that holds no lock.
pub(super) struct WithoutLock<'a>(pub(super) &'a Header);

impl Shared for WithoutLock<'_> {
    type Stop = Infallible;

    #[inline(always)]
    fn load(&mut self, word: Word) -> Result<u64, Infallible> {
        Ok(self.0.word(word).load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn store(&mut self, word: Word, value: u64) -> Result<(), Infallible> {
        self.0.word(word).store(value, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn increase(&mut self, count: Word) -> Result<(), Infallible> {
        self.0.word(count).fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn decrease(&mut self, count: Word) -> Result<(), Infallible> {
        self.0.word(count).fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn fence(&mut self) -> Result<(), Infallible> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}
