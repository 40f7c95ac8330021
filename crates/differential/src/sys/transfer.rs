//! Every call that moves bytes.

use std::mem::{size_of, zeroed};

use super::address::{Address, LARGEST, filled};
use super::{NOWHERE, Outcome, counted, observed};
use crate::program::call::{RecvBy, SendBy};

unsafe extern "C" {
    // What compilers put in place of read and recv with FORTIFY_SOURCE: the last length is the size of the
    // buffer.
    fn __read_chk(fd: i32, buffer: *mut libc::c_void, len: usize, room: usize) -> isize;
    fn __recv_chk(fd: i32, buffer: *mut libc::c_void, len: usize, room: usize, flags: i32) -> isize;
    fn __recvfrom_chk(
        fd: i32,
        buffer: *mut libc::c_void,
        len: usize,
        room: usize,
        flags: i32,
        address: *mut libc::sockaddr,
        address_len: *mut libc::socklen_t,
    ) -> isize;
}

/// What is sent, and how.
#[derive(Debug)]
pub struct Sending<'a> {
    /// The descriptor.
    pub fd: i32,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The function.
    pub by: SendBy,
    /// Its flags.
    pub flags: i32,
    /// The destination, for functions that take one.
    pub to: Option<&'a Address>,
    /// The bytes lie nowhere: the call must fail.
    pub bad: bool,
    /// Descriptors that go with it (`sendmsg` only).
    pub descriptors: &'a [i32],
}

/// So many parts a vector has.
const PARTS: usize = 3;
/// So many messages `sendmmsg` and `recvmmsg` move.
pub const MESSAGES: usize = 2;

/// Cuts a length in unequal parts, of which one may be empty.
fn parts(len: usize) -> [(usize, usize); PARTS] {
    let first = len / 3;
    let second = len / 2;
    [(0, first), (first, second - first), (second, len - second)]
}

fn vectors(base: *mut u8, len: usize) -> [libc::iovec; PARTS] {
    parts(len).map(|(at, len)| libc::iovec { iov_base: base.wrapping_add(at).cast(), iov_len: len })
}

/// Sends; for `sendmmsg` also the length that each message's entry was given.
#[must_use]
pub fn send(sending: &Sending<'_>) -> (Outcome, Vec<u32>) {
    let &Sending { fd, bytes, by, flags, to, bad, .. } = sending;
    let base = if bad { NOWHERE as *mut u8 } else { bytes.as_ptr().cast_mut() };
    let (place, len) = (base.cast::<libc::c_void>(), bytes.len());
    let (name, name_len) =
        to.map_or((std::ptr::null(), 0), |to| (to.0.as_ptr().cast(), to.0.len() as libc::socklen_t));
    let mut each = Vec::new();
    // SAFETY, of every call below: place and length are of one live slice, which is only read, or, with
    // `bad`, an address that is not mapped, which a correct callee refuses with EFAULT. The destination is a
    // live slice or null.
    let outcome = match by {
        // SAFETY: see above.
        SendBy::Write => counted(|| unsafe { libc::write(fd, place, len) }),
        // SAFETY: see above.
        SendBy::Raw => observed(|| unsafe { libc::syscall(libc::SYS_write, fd, place, len) }),
        SendBy::Writev => {
            let vectors = vectors(base, len);
            // SAFETY: see above; the vectors live and are as many as said.
            counted(|| unsafe { libc::writev(fd, vectors.as_ptr(), PARTS as i32) })
        }
        // SAFETY: see above.
        SendBy::Send => counted(|| unsafe { libc::send(fd, place, len, flags) }),
        // SAFETY: see above.
        SendBy::Sendto => counted(|| unsafe { libc::sendto(fd, place, len, flags, name, name_len) }),
        SendBy::Sendmsg => {
            let mut vectors = vectors(base, len);
            let mut control = control_with(sending.descriptors);
            let message = header(&mut vectors, &mut control, (name.cast_mut().cast(), name_len));
            // SAFETY: see above; everything that the header points to lives.
            counted(|| unsafe { libc::sendmsg(fd, &message, flags) })
        }
        SendBy::Sendmmsg => {
            let mut vectors: [_; MESSAGES] = std::array::from_fn(|_| vectors(base, len));
            let mut messages = vectors.each_mut().map(|vectors| libc::mmsghdr {
                msg_hdr: header(vectors, &mut [], (name.cast_mut().cast(), name_len)),
                msg_len: 0,
            });
            // SAFETY: see above; everything that the headers point to lives, and they are as many as said.
            let outcome =
                observed(|| unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), MESSAGES as u32, flags) });
            each.extend(messages.iter().take(outcome.count()).map(|message| message.msg_len));
            outcome
        }
    };
    (outcome, each)
}

/// What came in.
#[derive(Debug, Default)]
pub struct Received {
    /// The buffer, as long as was asked for: a callee must not write behind what it says it received.
    pub bytes: Vec<u8>,
    /// The sender, if the function tells.
    pub from: Option<Address>,
    /// Flags of the message, if the function tells.
    pub flags: Option<i32>,
    /// Descriptors that came with it.
    pub descriptors: Vec<i32>,
    /// Kinds of other control messages.
    pub others: Vec<(i32, i32)>,
    /// Lengths and flags of the messages of `recvmmsg`.
    pub each: Vec<(u32, i32)>,
}

/// What a buffer holds before it is filled.
pub const BLANK: u8 = 0xEE;

/// Receives. `control` is the room for control messages.
#[must_use]
pub fn receive(
    fd: i32,
    len: usize,
    by: RecvBy,
    flags: i32,
    bad: bool,
    control: usize,
) -> (Outcome, Received) {
    let rooms = if by == RecvBy::Recvmmsg { MESSAGES } else { 1 };
    let mut received = Received { bytes: vec![BLANK; len * rooms], ..Received::default() };
    let base = if bad { NOWHERE as *mut u8 } else { received.bytes.as_mut_ptr() };
    let place = base.cast::<libc::c_void>();
    let mut storage = [0_u8; LARGEST];
    let mut name_len = LARGEST as libc::socklen_t;
    let name: *mut libc::sockaddr = storage.as_mut_ptr().cast();
    let mut tells_sender = false;
    // SAFETY, of every call below: place and length are of one live buffer, or, with `bad`, an address that
    // is not mapped, which a correct callee refuses with EFAULT. The address has the room that its length
    // says.
    let outcome = match by {
        // SAFETY: see above.
        RecvBy::Read => counted(|| unsafe { libc::read(fd, place, len) }),
        // SAFETY: see above.
        RecvBy::ReadChk => counted(|| unsafe { __read_chk(fd, place, len, len) }),
        // SAFETY: see above.
        RecvBy::Raw => observed(|| unsafe { libc::syscall(libc::SYS_read, fd, place, len) }),
        RecvBy::Readv => {
            let vectors = vectors(base, len);
            // SAFETY: see above; the vectors live and are as many as said.
            counted(|| unsafe { libc::readv(fd, vectors.as_ptr(), PARTS as i32) })
        }
        // SAFETY: see above.
        RecvBy::Recv => counted(|| unsafe { libc::recv(fd, place, len, flags) }),
        // SAFETY: see above.
        RecvBy::RecvChk => counted(|| unsafe { __recv_chk(fd, place, len, len, flags) }),
        RecvBy::Recvfrom => {
            tells_sender = true;
            // SAFETY: see above.
            counted(|| unsafe { libc::recvfrom(fd, place, len, flags, name, &mut name_len) })
        }
        RecvBy::RecvfromChk => {
            tells_sender = true;
            // SAFETY: see above.
            counted(|| unsafe { __recvfrom_chk(fd, place, len, len, flags, name, &mut name_len) })
        }
        RecvBy::Recvmsg => {
            let mut vectors = vectors(base, len);
            let mut room = vec![0_u64; control.div_ceil(8)];
            let mut message = header(&mut vectors, &mut room, (name, name_len));
            message.msg_controllen = control as _;
            // SAFETY: see above; everything that the header points to lives.
            let outcome = counted(|| unsafe { libc::recvmsg(fd, &mut message, flags) });
            if outcome.is_ok() {
                tells_sender = true;
                name_len = message.msg_namelen;
                received.flags = Some(message.msg_flags);
                read_control(&message, &mut received);
            }
            outcome
        }
        RecvBy::Recvmmsg => {
            let mut vectors: [_; MESSAGES] =
                std::array::from_fn(|at| vectors(base.wrapping_add(at * len), len));
            let mut messages = vectors.each_mut().map(|vectors| libc::mmsghdr {
                msg_hdr: header(vectors, &mut [], (std::ptr::null_mut(), 0)),
                msg_len: 0,
            });
            // SAFETY: see above; everything that the headers point to lives, and they are as many as said.
            let outcome = observed(|| unsafe {
                libc::recvmmsg(fd, messages.as_mut_ptr(), MESSAGES as u32, flags, std::ptr::null_mut())
            });
            let got = messages.iter().take(outcome.count());
            received.each = got.map(|message| (message.msg_len, message.msg_hdr.msg_flags)).collect();
            outcome
        }
    };
    if tells_sender && outcome.is_ok() {
        received.from = Some(filled(&storage, name_len));
    }
    (outcome, received)
}

/// A message header over these parts. What it points to must outlive it.
fn header(
    vectors: &mut [libc::iovec],
    control: &mut [u64],
    (name, name_len): (*mut libc::sockaddr, libc::socklen_t),
) -> libc::msghdr {
    // SAFETY: a msghdr of zeroes is valid: null pointers with length zero.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len() as _;
    if !control.is_empty() {
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(control) as _;
    }
    message.msg_name = name.cast();
    message.msg_namelen = name_len;
    message
}

/// A control message that carries these descriptors, with the alignment that it needs.
fn control_with(descriptors: &[i32]) -> Vec<u64> {
    if descriptors.is_empty() {
        return Vec::new();
    }
    let payload = size_of_val(descriptors) as u32;
    // SAFETY: both only compute.
    let (space, len) = unsafe { (libc::CMSG_SPACE(payload), libc::CMSG_LEN(payload)) };
    let mut bytes = vec![0_u8; (space as usize).next_multiple_of(8)];
    bytes[..size_of::<usize>()].copy_from_slice(&(len as usize).to_ne_bytes());
    bytes[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    bytes[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    for (at, fd) in descriptors.iter().enumerate() {
        bytes[16 + 4 * at..20 + 4 * at].copy_from_slice(&fd.to_ne_bytes());
    }
    bytes.chunks_exact(8).map(|chunk| u64::from_ne_bytes(std::array::from_fn(|at| chunk[at]))).collect()
}

fn read_control(message: &libc::msghdr, received: &mut Received) {
    // SAFETY: `message` was filled by recvmsg, and its control room lives.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return headers that lie within the control room.
        let head = unsafe { *next };
        // SAFETY: only computes.
        let start = unsafe { libc::CMSG_LEN(0) } as usize;
        let payload = (head.cmsg_len as usize).saturating_sub(start);
        if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
            for at in 0..payload / 4 {
                // SAFETY: within the payload, which the kernel keeps within the room.
                let fd = unsafe { libc::CMSG_DATA(next).cast::<i32>().add(at).read_unaligned() };
                received.descriptors.push(fd);
            }
        } else {
            received.others.push((head.cmsg_level, head.cmsg_type));
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
}

/// `sendfile`, from the beginning of `from`.
#[must_use]
pub fn sendfile(fd: i32, from: i32, len: usize) -> (Outcome, i64) {
    let mut offset: libc::off_t = 0;
    // SAFETY: the offset lives.
    let outcome = counted(|| unsafe { libc::sendfile(fd, from, &mut offset, len) });
    (outcome, offset)
}

/// `splice` without waiting.
#[must_use]
pub fn splice(from: i32, to: i32, len: usize) -> Outcome {
    let none = std::ptr::null_mut();
    // SAFETY: null offsets are allowed.
    counted(|| unsafe { libc::splice(from, none, to, none, len, libc::SPLICE_F_NONBLOCK) })
}
