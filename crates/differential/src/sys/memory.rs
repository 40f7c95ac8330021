//! Memory that the controller and every process of a program share.

use std::ffi::CString;
use std::os::fd::AsRawFd as _;

use anyhow::{Context as _, Result, bail};
use shm::sync::AtomicU32;

/// A shared mapping of a fixed size, whose addresses stay until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
    /// What the path leads to, in the process that made it; else -1.
    fd: i32,
}

// SAFETY: the mapping is never removed; words in it are reached as atomics, bytes by copies, and the protocol
// on it (a semaphore between writer and reader) orders the copies.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory, and the path under which a process of the same user opens it.
    ///
    /// # Errors
    ///
    /// No memory, or no descriptor left.
    pub fn create(len: usize) -> Result<(Self, String)> {
        // SAFETY: the name is a C string; a new descriptor is returned.
        let fd = unsafe { libc::memfd_create(c"differential".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error()).context("no memory for a lane (memfd_create)");
        }
        // SAFETY: `fd` is open.
        if unsafe { libc::ftruncate(fd, len as libc::off_t) } != 0 {
            return Err(std::io::Error::last_os_error()).context("no memory for a lane (ftruncate)");
        }
        let mapping = Self { fd, ..Self::map(fd, len)? };
        Ok((mapping, format!("/proc/{}/fd/{fd}", std::process::id())))
    }

    /// Opens memory that another process made. Leaves no descriptor behind.
    ///
    /// # Errors
    ///
    /// There is no such memory, or it is too small.
    pub fn open(path: &str, len: usize) -> Result<Self> {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("the controller's memory {path}"))?;
        if file.metadata()?.len() < len as u64 {
            bail!("{path} is too small: another version of this program?");
        }
        Self::map(file.as_raw_fd(), len)
    }

    fn map(fd: i32, len: usize) -> Result<Self> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("the shared memory cannot be mapped");
        }
        Ok(Self { base: base.cast(), len, fd: -1 })
    }

    /// Gives the memory back and closes the path. Copies of this stay valid, and see zeroes.
    pub fn discard(&self) {
        // SAFETY: the range is this mapping; its pages are replaced by zeroes. The descriptor is this
        // mapping's own.
        unsafe {
            libc::madvise(self.base.cast(), self.len, libc::MADV_REMOVE);
            libc::close(self.fd);
        }
    }

    /// The word at a multiple of four.
    #[must_use]
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len, "no word lies at {offset}");
        // SAFETY: in the mapping (just checked), aligned, never unmapped; all parties use it as an atomic.
        unsafe { &*self.base.add(offset).cast() }
    }

    /// Copies bytes in.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len, "{} bytes do not fit at {offset}", bytes.len());
        // SAFETY: in the mapping (just checked); a Rust slice does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(offset), bytes.len()) }
    }

    /// Copies bytes out.
    #[must_use]
    pub fn get(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len, "{len} bytes do not lie at {offset}");
        let mut bytes = vec![0; len];
        // SAFETY: in the mapping (just checked); the vector is new.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(offset), bytes.as_mut_ptr(), len) };
        bytes
    }

    /// The semaphore at this offset.
    #[must_use]
    pub fn semaphore(&self, offset: usize) -> Semaphore {
        assert!(offset.is_multiple_of(16) && offset + size_of::<libc::sem_t>() <= self.len);
        // SAFETY: in the mapping, which was just checked.
        Semaphore(unsafe { self.base.add(offset).cast() })
    }
}

/// A semaphore that processes share. Its waits lie in libc and in no function that a preload library
/// replaces.
#[derive(Debug, Clone, Copy)]
pub struct Semaphore(*mut libc::sem_t);

impl Semaphore {
    /// One of this process alone, in a place that outlives every use of it.
    pub(super) fn at(place: &mut libc::sem_t) -> Self {
        Self(place)
    }

    /// Makes it, with nothing in it.
    pub fn reset(&self) {
        // SAFETY: the place lies in a mapping that stays; nobody waits on it when a run begins.
        unsafe { libc::sem_init(self.0, 1, 0) };
    }

    /// Lets one waiter go on.
    pub fn post(&self) {
        // SAFETY: was made by `reset`, in a mapping that stays.
        unsafe { libc::sem_post(self.0) };
    }

    /// Waits at most so long; whether there was something. Signals do not end the wait.
    #[must_use]
    pub fn wait(&self, nanoseconds: u64) -> bool {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `until` is a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut until) };
        let sum = until.tv_nsec as u64 + nanoseconds;
        until.tv_sec += (sum / 1_000_000_000) as i64;
        until.tv_nsec = (sum % 1_000_000_000) as i64;
        loop {
            // SAFETY: the semaphore was made by `reset`; `until` lives.
            if unsafe { libc::sem_timedwait(self.0, &until) } == 0 {
                return true;
            }
            // SAFETY: this thread's errno.
            if unsafe { *super::errno_cell() } != libc::EINTR {
                return false;
            }
        }
    }
}

/// A path as C wants it; an empty one if it holds a zero byte.
#[must_use]
pub fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}
