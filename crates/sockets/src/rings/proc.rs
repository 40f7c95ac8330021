//! Reads from `/proc` what a descriptor refers to (proc(5)).

use libc::c_int;

use crate::{raw, state};

/// Room for the longest path and link that are asked for.
const ROOM: usize = 64;

/// Whether this descriptor of this process is an epoll.
pub(super) fn is_epoll(fd: c_int) -> bool {
    if !state::may_ask() {
        return false;
    }
    let mut path = Text::new();
    path.put(b"/proc/self/fd/").number(u64::from(fd.unsigned_abs()));
    path.links_to(Text::new().put(b"anon_inode:[eventpoll]"))
}

/// Whether this descriptor of a process is the socket of this inode. Who may not look into the process is
/// told no.
pub(super) fn is_socket(process: u32, number: u32, inode: u64) -> bool {
    let mut path = Text::new();
    path.put(b"/proc/").number(u64::from(process)).put(b"/fd/").number(u64::from(number));
    path.links_to(Text::new().put(b"socket:[").number(inode).put(b"]"))
}

/// Opens the memory with this name that a process has as this descriptor, to read it; nothing if it is
/// something else, or not on `device`, which all such memory is on. Who may not look into the process is told
/// no.
pub(super) fn open_memory(process: u32, number: u32, name: &[u8], device: u64) -> Option<c_int> {
    let mut path = Text::new();
    path.put(b"/proc/").number(u64::from(process)).put(b"/fd/").number(u64::from(number));
    if !path.links_to(Text::new().put(b"/memfd:").put(name).put(b" (deleted)")) {
        return None;
    }
    // A file may have such a name, too, and a file system of a program's own may never answer to being
    // opened: it is not asked before it is known what it is.
    let place = open(&path, libc::O_PATH)?;
    let found = if is_on(place, device) {
        let mut path = Text::new();
        path.put(b"/proc/self/fd/").number(u64::from(place.unsigned_abs()));
        open(&path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY)
    } else {
        None
    };
    // SAFETY: this library's own descriptor.
    unsafe { raw::call(libc::SYS_close, [place as usize, 0, 0, 0, 0, 0]) };
    found
}

pub(super) fn open(path: &Text, flags: c_int) -> Option<c_int> {
    let flags = (flags | libc::O_CLOEXEC) as usize;
    // SAFETY: a path that ends with 0; a new descriptor.
    let fd = unsafe { raw::call(libc::SYS_open, [path.as_ptr() as usize, flags, 0, 0, 0, 0]) };
    c_int::try_from(fd).ok().filter(|&fd| fd >= 0)
}

/// Whether a file is on this device, by what is known of it without asking its file system (statx(2)).
fn is_on(fd: c_int, device: u64) -> bool {
    let mut found = core::mem::MaybeUninit::<libc::statx>::zeroed();
    let flags = (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC) as usize;
    let arguments = [fd as usize, c"".as_ptr() as usize, flags, 0, found.as_mut_ptr() as usize, 0];
    // SAFETY: an empty name, and room for what is written.
    let result = unsafe { raw::call(libc::SYS_statx, arguments) };
    // SAFETY: numbers, for which zeroes are values, too.
    let found = unsafe { found.assume_init_ref() };
    result == 0 && libc::makedev(found.stx_dev_major, found.stx_dev_minor) == device
}

/// A short text; what does not fit is left out, and at least one 0 stands behind it.
pub(super) struct Text {
    bytes: [u8; ROOM],
    used: usize,
}

impl Text {
    pub(super) fn new() -> Self {
        Self { bytes: [0; ROOM], used: 0 }
    }

    pub(super) fn put(&mut self, more: &[u8]) -> &mut Self {
        for (place, byte) in self.bytes.iter_mut().take(ROOM - 1).skip(self.used).zip(more) {
            *place = *byte;
            self.used += 1;
        }
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        let (mut digit, mut rest) = (1_u64, number / 10);
        while rest > 0 {
            digit *= 10;
            rest /= 10;
        }
        while digit > 0 {
            self.put(&[b'0' + (number / digit % 10) as u8]);
            digit /= 10;
        }
        self
    }

    /// Where it begins; it ends with 0.
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Whether the path is a link to just this.
    fn links_to(&self, wanted: &Self) -> bool {
        let mut link = [0_u8; ROOM];
        let arguments = [self.bytes.as_ptr() as usize, link.as_mut_ptr() as usize, ROOM, 0, 0, 0];
        // SAFETY: a path that ends with 0, and room of the length that is said.
        let length = unsafe { raw::call(libc::SYS_readlink, arguments) };
        length == wanted.used as isize
            && link.iter().zip(wanted.bytes).take(wanted.used).all(|(&found, wanted)| found == wanted)
    }
}
