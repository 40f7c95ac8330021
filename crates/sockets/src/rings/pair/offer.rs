//! An end's region, and the descriptor by which the other end opens it.
//!
//! The descriptor is open only until the other end has mapped the region, and only so many are at a time:
//! descriptors are the program's. Its number is one that the program has not been given, but may close or
//! replace all the same, seen or unseen: before it is closed here it is looked whether it still is the
//! region.

use libc::c_int;

use super::{close, stat};
use crate::raw;
use crate::rings::conn::{self, Conn};
use crate::rings::copy;
use crate::rings::header::{CAPACITY, Header, MAGIC, REGION_BYTES};
use crate::rings::own;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The most that are open at a time, also where there may be many descriptors.
const MOST: u64 = 128;
/// One in so many of the descriptors that there may be.
const SHARE: u64 = 16;

/// How many are open in this process.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// Whether any is.
pub(super) fn is_any() -> bool {
    OPEN.load(Ordering::Relaxed) != 0
}

/// The descriptor of a connection's region, while it is open.
pub(crate) struct Offer {
    /// Plus 1; 0 is none.
    number: AtomicU32,
    /// What tells it from whatever else has the number.
    inode: AtomicU64,
    device: AtomicU64,
}

/// Why there is no region.
pub(super) enum Refused {
    /// Others have to be done first.
    TooMany,
    /// The system gives none, or a limit of the program forbids it.
    NotHad,
}

impl Offer {
    /// The descriptor, if it is open.
    pub(super) fn number(&self) -> Option<u32> {
        self.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The device that such memory is on.
    pub(super) fn device(&self) -> u64 {
        self.device.load(Ordering::Relaxed)
    }

    /// Makes the region of a connection's end, whose other end has this cookie.
    pub(super) fn make(conn: &'static Conn, other: u64) -> Result<(), Refused> {
        // Who writes beyond this limit is ended by a signal (setrlimit(2)). It may have changed since the
        // last time.
        let limit = raw::limit(libc::RLIMIT_NOFILE);
        if raw::limit(libc::RLIMIT_FSIZE) < REGION_BYTES as u64 || limit < SHARE {
            return Err(Refused::NotHad);
        }
        if u64::from(OPEN.fetch_add(1, Ordering::Relaxed)) >= MOST.min(limit / SHARE) {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::TooMany);
        }
        copy::measure();
        let made = region(conn, other).and_then(|fd| Some((fd, stat(fd)?)));
        let Some((fd, stat)) = made else {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::NotHad);
        };
        conn.meeting.offer.inode.store(stat.st_ino, Ordering::Relaxed);
        conn.meeting.offer.device.store(stat.st_dev, Ordering::Relaxed);
        conn.meeting.offer.number.store(fd as u32 + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Nobody needs to open the region any more.
    pub(super) fn end(&self) {
        let Some(fd) = self.number.swap(0, Ordering::Relaxed).checked_sub(1) else { return };
        OPEN.fetch_sub(1, Ordering::Relaxed);
        let fd = fd as c_int;
        let is_it = stat(fd).is_some_and(|stat| {
            stat.st_ino == self.inode.load(Ordering::Relaxed)
                && stat.st_dev == self.device.load(Ordering::Relaxed)
        });
        if is_it {
            close(fd);
        }
    }

    /// Whether the descriptor is open and its number among these.
    pub(super) fn is_in(&self, first: c_int, last: c_int) -> bool {
        self.number().is_some_and(|number| (first..=last).contains(&(number as c_int)))
    }
}

/// A region in memory that nobody can shrink, and nobody but this end can write.
fn region(conn: &'static Conn, other: u64) -> Option<c_int> {
    let flags = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as usize;
    // SAFETY: a name that ends with 0; a new descriptor.
    let low =
        unsafe { raw::call(libc::SYS_memfd_create, [c"tieline-ring".as_ptr() as usize, flags, 0, 0, 0, 0]) };
    let low = c_int::try_from(low).ok().filter(|&fd| fd >= 0)?;
    let above = own::lowest() as usize;
    // SAFETY: numbers only; a new descriptor.
    let fd =
        unsafe { raw::call(libc::SYS_fcntl, [low as usize, libc::F_DUPFD_CLOEXEC as usize, above, 0, 0, 0]) };
    close(low);
    let fd = c_int::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    const SEALS: c_int =
        libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: numbers only.
    let is_long = raw::within_limit(|| unsafe {
        raw::call(libc::SYS_ftruncate, [fd as usize, REGION_BYTES, 0, 0, 0, 0])
    }) == 0;
    let is_made = is_long && conn::map(&conn.own, fd, true) && {
        // SAFETY: numbers only.
        unsafe {
            raw::call(libc::SYS_fcntl, [fd as usize, libc::F_ADD_SEALS as usize, SEALS as usize, 0, 0, 0])
                == 0
        }
    };
    // SAFETY: as in `Conn::headers`.
    let header: Option<&'static Header> = unsafe { conn.own.load(Ordering::Relaxed).as_ref() };
    let Some(header) = header.filter(|_| is_made) else {
        close(fd);
        return None;
    };
    header.reader.0.asleep.store(1, Ordering::Relaxed);
    header.cookie.store(conn.cookie.load(Ordering::Relaxed), Ordering::Relaxed);
    header.other.store(other, Ordering::Relaxed);
    // Pairs with the Acquire of who maps it.
    header.magic.store(MAGIC ^ CAPACITY, Ordering::Release);
    Some(fd)
}
