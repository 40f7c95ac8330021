//! What `/proc` says that descriptors are (proc(5): a link whose text names it).

use libc::c_int;

use crate::raw;

/// Room for the longest path and link that are asked for.
const ROOM: usize = 64;

/// Whether this descriptor of this process is an epoll.
pub(super) fn is_epoll(fd: c_int) -> bool {
    let mut path = Text::new();
    path.put(b"/proc/self/fd/").number(u64::from(fd.unsigned_abs()));
    path.links_to(Text::new().put(b"anon_inode:[eventpoll]"))
}

/// Whether this descriptor of a process is the socket of this inode. Who may not look into the process is told no.
pub(super) fn is_socket(process: u32, number: u32, inode: u64) -> bool {
    let mut path = Text::new();
    path.put(b"/proc/").number(u64::from(process)).put(b"/fd/").number(u64::from(number));
    path.links_to(Text::new().put(b"socket:[").number(inode).put(b"]"))
}

/// Opens the memory with this name that a process has as this descriptor, to read it; nothing if it is something else. Who may not look into the
/// process is told no.
pub(super) fn open_memory(process: u32, number: u32, name: &[u8]) -> Option<c_int> {
    let mut path = Text::new();
    path.put(b"/proc/").number(u64::from(process)).put(b"/fd/").number(u64::from(number));
    if !path.links_to(Text::new().put(b"/memfd:").put(name).put(b" (deleted)")) {
        return None;
    }
    // What it is may have changed since: whatever it is, it is not waited for.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    // SAFETY: a path that ends with 0; a new descriptor.
    let fd = unsafe { raw::call(libc::SYS_open, [path.as_ptr() as usize, flags as usize, 0, 0, 0, 0]) };
    c_int::try_from(fd).ok().filter(|&fd| fd >= 0)
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
