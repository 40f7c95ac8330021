//! The user of this process, and where that user's registry may lie.

use libc::c_int;

use super::close;
use crate::raw;
use crate::rings::proc::Text;
use crate::sync::{AtomicU64, Ordering};

/// The effective user. None if that number may stand for several: in a user namespace each user that it does
/// not map looks like the same one (`/proc/sys/kernel/overflowuid`, user_namespaces(7)), and so do their
/// files and connections.
pub(super) fn own() -> Option<u32> {
    // SAFETY: takes nothing, changes nothing.
    let user = unsafe { raw::call(libc::SYS_geteuid, [0; 6]) } as u32;
    if KNOWN.load(Ordering::Relaxed) == u64::from(user) + 1 {
        return Some(user);
    }
    let overflow = Numbers::of(c"/proc/sys/kernel/overflowuid").next()?;
    if overflow == u64::from(user) && !maps_everybody() {
        return None;
    }
    KNOWN.store(u64::from(user) + 1, Ordering::Relaxed);
    Some(user)
}

/// The user, plus 1, that was last found to be just one.
static KNOWN: AtomicU64 = AtomicU64::new(0);

/// The directories in which the registry may lie, best first. Where nobody but the user can make them, nobody
/// can take their place.
pub(super) fn directories(user: u32) -> [Text; 3] {
    let mut shared = Text::new();
    shared.put(b"/dev/shm/tieline-rings-").number(u64::from(user));
    let mut temporary = Text::new();
    temporary.put(b"/tmp/tieline-rings-").number(u64::from(user));
    let mut private = Text::new();
    if user == 0 {
        private.put(b"/run/tieline-rings");
    } else {
        private.put(b"/run/user/").number(u64::from(user)).put(b"/tieline-rings");
    }
    [private, shared, temporary]
}

/// Whether this process is in a user namespace in which each user keeps its number: the first, as a rule.
fn maps_everybody() -> bool {
    let mut words = Numbers::of(c"/proc/self/uid_map");
    words.next() == Some(0) && words.next() == Some(0) && words.next() == Some(u64::from(u32::MAX))
}

/// The numbers at the beginning of a file.
struct Numbers {
    bytes: [u8; 64],
    length: usize,
    at: usize,
}

impl Numbers {
    fn of(path: &core::ffi::CStr) -> Self {
        let mut numbers = Self { bytes: [0; 64], length: 0, at: 0 };
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
        // SAFETY: a path that ends with 0; a new descriptor.
        let fd = unsafe { raw::call(libc::SYS_open, [path.as_ptr() as usize, flags, 0, 0, 0, 0]) };
        let Some(fd) = c_int::try_from(fd).ok().filter(|&fd| fd >= 0) else { return numbers };
        // SAFETY: room of the length that is said.
        let read = unsafe {
            raw::call(libc::SYS_read, [fd as usize, numbers.bytes.as_mut_ptr() as usize, 64, 0, 0, 0])
        };
        close(fd);
        numbers.length = usize::try_from(read).unwrap_or(0).min(64);
        numbers
    }

    fn byte(&self) -> Option<u8> {
        self.bytes.get(..self.length)?.get(self.at).copied()
    }
}

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.byte().is_some_and(|byte| !byte.is_ascii_digit()) {
            self.at += 1;
        }
        let mut number = None;
        while let Some(digit) = self.byte().filter(u8::is_ascii_digit) {
            number = Some(number.unwrap_or(0_u64).wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        number
    }
}
