//! `io_uring`, set up and driven by `syscall()` alone, as programs without its library do: one request in a
//! ring of its own.

use std::mem::zeroed;

use shm::sync::{AtomicU32, Ordering};

use super::{Outcome, observed};
use crate::program::call::RingOp;

/// Requests that fit into the ring: the one, and its cancellation.
const ENTRIES: u32 = 4;
/// How long a request may take before it is taken back, in nanoseconds.
const LIMIT: i64 = 8_000_000;

/// Where the kernel says that things lie (`struct io_sqring_offsets`, `struct io_cqring_offsets`,
/// linux/io_uring.h).
#[repr(C)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    /// Of the submission ring: flags, dropped, array. Of the completion ring: overflow, entries, flags.
    rest: [u32; 3],
    reserved: u32,
    address: u64,
}

/// `struct io_uring_params`.
#[repr(C)]
struct Params {
    words: [u32; 10],
    submission: Offsets,
    completion: Offsets,
}

/// `struct io_uring_sqe`: one request.
#[repr(C)]
struct Request {
    op: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    len: u32,
    op_flags: u32,
    data: u64,
    rest: [u64; 3],
}

/// `struct io_uring_cqe`: one answer.
#[repr(C)]
#[derive(Clone, Copy)]
struct Answer {
    data: u64,
    result: i32,
    flags: u32,
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct Patience {
    mask: u64,
    mask_size: u32,
    least: u32,
    time: u64,
}

const OFFSET_RINGS: i64 = 0;
const OFFSET_REQUESTS: i64 = 0x1000_0000;
const GET_EVENTS: u32 = 1;
const EXTENDED: u32 = 8;
/// Numbers of requests (`enum io_uring_op`).
const POLL_ADD: u8 = 6;
const ACCEPT: u8 = 13;
const ASYNC_CANCEL: u8 = 14;
const CLOSE: u8 = 19;
const SEND: u8 = 26;
const RECV: u8 = 27;
const SOCKET: u8 = 45;

/// What came of a request.
#[derive(Debug)]
pub struct Rung {
    /// Of the set-up: the ring's number.
    pub setup: Outcome,
    /// Of the submission.
    pub enter: Option<Outcome>,
    /// The answer: as a call would return it, negative for an error. Nothing if it was taken back.
    pub result: Option<i32>,
}

/// Whether the kernel lets this process have a ring.
#[must_use]
pub fn is_allowed() -> bool {
    // SAFETY: zeroes ask for nothing special.
    let mut params: Params = unsafe { zeroed() };
    // SAFETY: the kernel fills the live structure.
    let setup = observed(|| unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &mut params) });
    setup.is_ok() && super::files::close(setup.fd()).is_ok()
}

/// Makes a ring, has it do one request, and closes it. `bytes` are sent, or filled.
#[must_use]
pub fn ring(op: RingOp, fd: i32, bytes: &mut [u8]) -> Rung {
    // SAFETY: zeroes ask for nothing special.
    let mut params: Params = unsafe { zeroed() };
    // SAFETY: the kernel fills the live structure.
    let setup = observed(|| unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &mut params) });
    let mut rung = Rung { setup, enter: None, result: None };
    if !setup.is_ok() {
        return rung;
    }
    if let Some(rings) = Rings::map(setup.fd(), &params) {
        rings.put(0, request(op, fd, bytes));
        rung.enter = Some(rings.enter(1));
        rung.result = rings.answer();
        if rung.result.is_none() {
            let back =
                Request { op: ASYNC_CANCEL, address: 1, data: 2, ..request(RingOp::Poll, -1, &mut []) };
            rings.put(1, back);
            // Its own answer, and that of what is taken back.
            let _ = rings.enter(2);
        }
    }
    let _ = super::files::close(setup.fd());
    rung
}

fn request(op: RingOp, fd: i32, bytes: &mut [u8]) -> Request {
    // SAFETY: a request of zeroes asks for nothing.
    let mut request: Request = unsafe { zeroed() };
    (request.fd, request.data) = (fd, 1);
    let bytes_at = (bytes.as_mut_ptr() as u64, bytes.len() as u32);
    match op {
        RingOp::Send => {
            (request.op, request.op_flags) = (SEND, libc::MSG_NOSIGNAL as u32);
            (request.address, request.len) = bytes_at;
        }
        RingOp::Recv => (request.op, request.address, request.len) = (RECV, bytes_at.0, bytes_at.1),
        RingOp::Poll => (request.op, request.op_flags) = (POLL_ADD, (libc::POLLIN | libc::POLLRDHUP) as u32),
        RingOp::Accept => (request.op, request.op_flags) = (ACCEPT, libc::SOCK_CLOEXEC as u32),
        RingOp::Close => request.op = CLOSE,
        // Domain, type and protocol lie where others have descriptor, offset and length.
        RingOp::Socket => {
            (request.op, request.fd, request.offset) = (SOCKET, libc::AF_INET, libc::SOCK_STREAM as u64);
        }
    }
    request
}

/// Both rings and the requests, mapped.
struct Rings {
    fd: i32,
    base: *mut u8,
    len: usize,
    requests: *mut Request,
    submission_tail: usize,
    array: usize,
    completion: (usize, usize, usize),
}

impl Rings {
    fn map(fd: i32, params: &Params) -> Option<Self> {
        let (submission, completion) = (&params.submission, &params.completion);
        let array = submission.rest[2] as usize;
        // Word 0 and 1: how many fit into each.
        let of_submission = array + 4 * params.words[0] as usize;
        // The second word behind the head of the completion ring's offsets' rest is where answers lie.
        let answers = completion.rest[1] as usize;
        let of_completion = answers + size_of::<Answer>() * params.words[1] as usize;
        let len = of_submission.max(of_completion);
        let base = mapped(fd, len, OFFSET_RINGS)?;
        let Some(requests) = mapped(fd, size_of::<Request>() * ENTRIES as usize, OFFSET_REQUESTS) else {
            // SAFETY: the mapping made above.
            unsafe { libc::munmap(base.cast(), len) };
            return None;
        };
        Some(Self {
            fd,
            base,
            len,
            requests: requests.cast(),
            submission_tail: submission.tail as usize,
            array,
            completion: (completion.head as usize, completion.tail as usize, answers),
        })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: offsets come from the kernel, are aligned, and lie in the mapping, which lives as long as
        // this.
        unsafe { &*self.base.add(offset).cast() }
    }

    /// Puts the request into its place and the place into the ring.
    fn put(&self, at: u32, request: Request) {
        // SAFETY: `at` is below the number of entries; the kernel reads it only after the tail has moved.
        unsafe { self.requests.add(at as usize).write(request) };
        self.word(self.array + 4 * at as usize).store(at, Ordering::Relaxed);
        // The kernel's Acquire of the tail, in `io_uring_enter`, sees the request and its place.
        self.word(self.submission_tail).store(at + 1, Ordering::Release);
    }

    /// Submits one request and waits for so many answers.
    fn enter(&self, answers: u32) -> Outcome {
        let time = libc::timespec { tv_sec: 0, tv_nsec: LIMIT };
        let patience = Patience { mask: 0, mask_size: 8, least: 0, time: &raw const time as u64 };
        // SAFETY: the structure and the time that it points to live.
        observed(|| unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd,
                1,
                answers,
                GET_EVENTS | EXTENDED,
                &raw const patience,
                size_of::<Patience>(),
            )
        })
    }

    /// The first answer, if there is one.
    fn answer(&self) -> Option<i32> {
        let (head, tail, answers) = self.completion;
        let first = self.word(head).load(Ordering::Relaxed);
        if first == self.word(tail).load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the tail says that it is there; nothing was taken before, so it is the first one.
        let answer = unsafe { self.base.add(answers).cast::<Answer>().read() };
        // The kernel's Acquire of the head sees that the answer was read before its place is used again.
        self.word(head).store(first.wrapping_add(1), Ordering::Release);
        (answer.data == 1).then_some(answer.result)
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: the mappings made in `map`, which nobody uses after this.
        unsafe {
            libc::munmap(self.base.cast(), self.len);
            libc::munmap(self.requests.cast(), size_of::<Request>() * ENTRIES as usize);
        }
    }
}

fn mapped(fd: i32, len: usize, offset: i64) -> Option<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, offset) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}
