//! The place where two ends meet, and what they send each other.

use libc::{c_int, c_void, cmsghdr, iovec, msghdr, ucred};

use super::address::Address;
use super::{close, diag};
use crate::rings::conn::{self, Conn};
use crate::rings::proc;
use crate::rings::words::{CAPACITY, MAGIC, REGION_BYTES};
use crate::sync::Ordering;
use crate::{raw, state};

/// A bound datagram socket.
pub(super) struct Meeting(c_int);

/// What an end says of itself, beside its region.
#[repr(C)]
#[derive(Clone, Copy)]
struct Words {
    magic: u64,
    cookie: u64,
    inode: u64,
    process: u64,
    /// Its descriptor of the connection.
    number: u64,
}

/// An abstract name: 2 bytes of family, a 0, a word, both addresses in hexadecimal digits, because the kernel lists such names as they are,
/// for programs that expect a text.
const WORD: &[u8] = b"\0tieline/2/";
const NAME: usize = 2 + WORD.len() + 2 * 36;

fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

fn name(of: Address, to: Address) -> [u8; NAME] {
    let mut name = [0_u8; NAME];
    let family = (libc::AF_UNIX as u16).to_ne_bytes();
    let parts: [&[u8]; 4] = [&of.ip, &of.port, &to.ip, &to.port];
    let digits = parts.iter().copied().flatten().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    let bytes = family.into_iter().chain(WORD.iter().copied()).chain(digits);
    for (place, byte) in name.iter_mut().zip(bytes) {
        *place = byte;
    }
    name
}

/// Numbers of this library's own descriptors begin at most so far below the limit.
const BELOW: u64 = 512;

impl Meeting {
    pub(super) fn of(fd: c_int) -> Self {
        Self(fd)
    }

    pub(super) fn number(&self) -> c_int {
        self.0
    }

    /// Binds the name of this end. None if somebody has it, or there is no room for a descriptor out of the program's way.
    pub(super) fn bind(own: Address, peer: Address) -> Option<Self> {
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as usize;
        // SAFETY: a new descriptor.
        let low = unsafe { raw::call(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0]) };
        let low = c_int::try_from(low).ok().filter(|&fd| fd >= 0)?;
        let above = lowest_own() as usize;
        // SAFETY: numbers only.
        let fd = unsafe {
            raw::call(libc::SYS_fcntl, [low as usize, libc::F_DUPFD_CLOEXEC as usize, above, 0, 0, 0])
        };
        close(low);
        let meeting = Self(c_int::try_from(fd).ok().filter(|&fd| fd >= 0)?);
        let yes: c_int = 1;
        let option = [libc::SOL_SOCKET as usize, libc::SO_PASSCRED as usize, (&raw const yes) as usize, 4, 0];
        let name = name(own, peer);
        // SAFETY: a number to read, and a name of the length that is said.
        let is_bound = unsafe {
            raw::call(
                libc::SYS_setsockopt,
                [meeting.0 as usize, option[0], option[1], option[2], option[3], 0],
            ) == 0
                && raw::call(libc::SYS_bind, [meeting.0 as usize, name.as_ptr() as usize, NAME, 0, 0, 0]) == 0
        };
        if is_bound {
            Some(meeting)
        } else {
            close(meeting.0);
            None
        }
    }

    /// Whether the other end is there already.
    pub(super) fn finds(&self, peer: Address, own: Address) -> bool {
        let name = name(peer, own);
        // SAFETY: a name of the length that is said.
        unsafe { raw::call(libc::SYS_connect, [self.0 as usize, name.as_ptr() as usize, NAME, 0, 0, 0]) == 0 }
    }

    /// Says to the end that was found who this one is, and sends the region, if it is to.
    pub(super) fn send(&self, fd: c_int, cookie: u64, region: Option<c_int>) -> Option<()> {
        let mut words = Words {
            magic: MAGIC,
            cookie,
            inode: inode(fd)?,
            process: u64::from(state::owner()),
            number: fd as u64,
        };
        let mut part = iovec { iov_base: (&raw mut words).cast(), iov_len: size_of::<Words>() };
        let mut control = Control::new();
        control.header = cmsghdr {
            cmsg_len: size_of::<cmsghdr>() + 4,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        control.data[0] = region.unwrap_or(-1);
        let beside = if region.is_some() { size_of::<cmsghdr>() + 8 } else { 0 };
        let message = envelope(&mut part, (&raw mut control).cast(), beside);
        let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
        // SAFETY: a message whose parts are all here.
        let sent = unsafe {
            raw::call(libc::SYS_sendmsg, [self.0 as usize, (&raw const message) as usize, flags, 0, 0, 0])
        };
        (sent == size_of::<Words>() as isize).then_some(())
    }

    /// The other end's message, if it has come.
    pub(super) fn receive(&self) -> Option<Letter> {
        let mut words = Words { magic: 0, cookie: 0, inode: 0, process: 0, number: 0 };
        let mut part = iovec { iov_base: (&raw mut words).cast(), iov_len: size_of::<Words>() };
        let mut control = [const { Control::new() }; 3];
        let room = size_of_val(&control);
        let mut message = envelope(&mut part, control.as_mut_ptr().cast(), room);
        let flags = (libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) as usize;
        // SAFETY: a message whose parts are all here.
        let got = unsafe {
            raw::call(libc::SYS_recvmsg, [self.0 as usize, (&raw mut message) as usize, flags, 0, 0, 0])
        };
        if got < 0 {
            return None;
        }
        let length = message.msg_controllen.min(room);
        // SAFETY: the kernel has written so many bytes there.
        let control = unsafe { core::slice::from_raw_parts(control.as_ptr().cast::<u8>(), length) };
        let is_whole = got == size_of::<Words>() as isize
            && message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
        Some(Letter::read(words, control, is_whole))
    }

    /// Takes no more, and throws away what has come: what closes the socket would close the descriptors in it, and may have to wait for
    /// that.
    pub(super) fn empty(&self) {
        // SAFETY: numbers only.
        unsafe { raw::call(libc::SYS_shutdown, [self.0 as usize, libc::SHUT_RD as usize, 0, 0, 0, 0]) };
        for _ in 0..MOST {
            let Some(letter) = self.receive() else { return };
            letter.close();
        }
    }
}

/// Room for what lies beside a message.
#[repr(C, align(8))]
struct Control {
    header: cmsghdr,
    data: [c_int; 6],
}

impl Control {
    const fn new() -> Self {
        Self { header: cmsghdr { cmsg_len: 0, cmsg_level: 0, cmsg_type: 0 }, data: [0; 6] }
    }
}

fn envelope(part: &mut iovec, control: *mut c_void, length: usize) -> msghdr {
    // SAFETY: a message is numbers and pointers, for which 0 is a value.
    let mut message: msghdr = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = length;
    message
}

/// What has come.
pub(super) struct Letter {
    words: Words,
    sender: Option<ucred>,
    region: Option<c_int>,
    is_whole: bool,
}

impl Letter {
    fn read(words: Words, control: &[u8], is_whole: bool) -> Self {
        let mut letter = Self { words, sender: None, region: None, is_whole };
        let number = |at: usize| Some(i32::from_ne_bytes(*control.get(at..)?.first_chunk::<4>()?));
        let mut at = 0_usize;
        while let Some(length) = control.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let length = usize::from_ne_bytes(*length);
            let data = at + size_of::<cmsghdr>();
            if length < size_of::<cmsghdr>() || at.saturating_add(length) > control.len() {
                break;
            }
            match (number(at + 8), number(at + 12)) {
                (Some(libc::SOL_SOCKET), Some(libc::SCM_CREDENTIALS)) => {
                    if let (Some(pid), Some(uid), Some(gid)) =
                        (number(data), number(data + 4), number(data + 8))
                    {
                        letter.sender = Some(ucred { pid, uid: uid as u32, gid: gid as u32 });
                    }
                }
                (Some(libc::SOL_SOCKET), Some(libc::SCM_RIGHTS)) => {
                    let mut place = data;
                    while place + 4 <= at + length {
                        match (number(place), letter.region) {
                            (Some(fd), None) => letter.region = Some(fd),
                            (Some(fd), Some(_)) => {
                                letter.is_whole = false;
                                discard(fd);
                            }
                            _ => {}
                        }
                        place += 4;
                    }
                }
                _ => {}
            }
            match (at + length).checked_next_multiple_of(8) {
                Some(next) => at = next,
                None => break,
            }
        }
        letter
    }

    /// Whether it is from the opposite end of the connection, held by the same user.
    pub(super) fn is_from(&self, own: Address, peer: Address) -> bool {
        let (Some(sender), true) = (self.sender, self.is_whole && self.words.magic == MAGIC) else {
            return false;
        };
        // SAFETY: takes nothing, changes nothing.
        let user = unsafe { raw::call(libc::SYS_geteuid, [0; 6]) } as u32;
        let Some(opposite) = diag::opposite(own, peer) else { return false };
        sender.uid == user
            && opposite.user == user
            && opposite.cookie == self.words.cookie
            && u64::from(opposite.inode) == self.words.inode
            && opposite.info.is_some_and(|info| info.is_established())
            && self.is_holder(sender.pid)
    }

    /// Whether the sender, and not only somebody who knows of it, has the opposite end.
    fn is_holder(&self, sender: i32) -> bool {
        let Ok(number) = u32::try_from(self.words.number) else { return false };
        sender > 0 && proc::is_socket(sender.unsigned_abs(), number, self.words.inode)
    }

    pub(super) fn has_region(&self) -> bool {
        self.region.is_some()
    }

    /// Maps its region, if that is one that cannot be taken away.
    pub(super) fn maps(&self, conn: &'static Conn) -> bool {
        let Some(fd) = self.region else { return false };
        const SEALS: isize = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) as isize;
        // SAFETY: numbers only.
        let seals =
            unsafe { raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GET_SEALS as usize, 0, 0, 0, 0]) };
        let is_long = stat(fd).is_some_and(|stat| stat.st_size as usize == REGION_BYTES);
        if seals < 0 || seals & SEALS != SEALS || !is_long || !conn::map(&conn.peer, fd, false) {
            return false;
        }
        // SAFETY: mapped just now.
        let words = unsafe { &*conn.peer.load(Ordering::Relaxed) };
        words.magic.load(Ordering::Acquire) == MAGIC ^ CAPACITY
    }

    /// Number of its process; one that is no process's, if that means something else where it comes from.
    pub(super) fn process(&self) -> u32 {
        match self.sender {
            Some(sender) if u64::from(sender.pid as u32) == self.words.process && sender.pid > 0 => {
                sender.pid as u32
            }
            _ => u32::MAX,
        }
    }

    pub(super) fn close(&self) {
        if let Some(fd) = self.region {
            discard(fd);
        }
    }
}

/// Messages that a socket may hold.
const MOST: u32 = 4096;

/// Closes what somebody has sent. It may be anything: a connection, say, that is to linger until all was read.
fn discard(fd: c_int) {
    let not_at_all = libc::linger { l_onoff: 0, l_linger: 0 };
    let (value, length) = ((&raw const not_at_all) as usize, size_of::<libc::linger>());
    let option = [libc::SOL_SOCKET as usize, libc::SO_LINGER as usize];
    // SAFETY: the option's own value. What is no socket refuses it.
    unsafe { raw::call(libc::SYS_setsockopt, [fd as usize, option[0], option[1], value, length, 0]) };
    close(fd);
}

fn stat(fd: c_int) -> Option<libc::stat> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for what is written.
    let result = unsafe { raw::call(libc::SYS_fstat, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: the kernel has filled it in.
    if result == 0 { Some(unsafe { stat.assume_init() }) } else { None }
}

fn inode(fd: c_int) -> Option<u64> {
    stat(fd).map(|stat| stat.st_ino)
}

/// The lowest number that descriptors of this library may get.
fn lowest_own() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let arguments = [libc::RLIMIT_NOFILE as usize, (&raw mut limit) as usize, 0, 0, 0, 0];
    // SAFETY: writes the limit.
    unsafe { raw::call(libc::SYS_getrlimit, arguments) };
    limit.rlim_cur.min(1 << 20).saturating_sub(BELOW.min(limit.rlim_cur / 2))
}
