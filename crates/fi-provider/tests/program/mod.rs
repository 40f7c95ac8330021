//! A program of libfabric's, as small as it can be: an end point and what belongs to it, through
//! `fi_prov_ini` and C's tables. Several of them may be in one process.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it")]

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use fabric_sys::abi::*;
use fabric_sys::calls::*;
use fabric_sys::constants::*;

pub(crate) const FI_DIRECTED_RECV: u64 = 1 << 59;
pub(crate) const FI_CQ_FORMAT_TAGGED: u32 = 4;
pub(crate) const FI_WAIT_SET: u32 = 2;
/// What the programs give their queues and counters as contexts.
pub(crate) const QUEUE: usize = 11;
pub(crate) const COUNTER: usize = 12;

/// How a program waits for a queue or a counter: the kind of its wait object, and the set if it is one.
#[derive(Clone, Copy)]
pub(crate) struct Waits(pub(crate) u32, pub(crate) *mut fid);

impl Waits {
    pub(crate) const NOT: Self = Self(0, null_mut());
    pub(crate) const FD: Self = Self(FI_WAIT_FD, null_mut());

    pub(crate) fn in_set(set: *mut fid) -> Self {
        Self(FI_WAIT_SET, set)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buffer: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

/// One process's worth of objects.
pub(crate) struct Program {
    pub(crate) fabric: *mut fid_fabric,
    pub(crate) domain: *mut fid_domain,
    pub(crate) av: *mut fid_av,
    pub(crate) cq: *mut fid_cq,
    pub(crate) ep: *mut fid_ep,
    pub(crate) name: [u8; 32],
    /// Completions that were read, good ones and errors.
    pub(crate) good: Vec<Entry>,
    pub(crate) bad: Vec<(usize, i32, usize)>,
    /// Counts received messages, in a program that does.
    pub(crate) received: Option<Counter>,
}

/// `struct fid_cntr`.
#[repr(C)]
struct CounterObject {
    fid: fid,
    ops: *const CounterOps,
}

#[repr(C)]
struct CounterOps {
    size: usize,
    read: unsafe extern "C" fn(*mut CounterObject) -> u64,
    readerr: unsafe extern "C" fn(*mut CounterObject) -> u64,
    add: unsafe extern "C" fn(*mut CounterObject, u64) -> i32,
    set: unsafe extern "C" fn(*mut CounterObject, u64) -> i32,
    wait: unsafe extern "C" fn(*mut CounterObject, u64, i32) -> i32,
    adderr: unsafe extern "C" fn(*mut CounterObject, u64) -> i32,
}

/// A counter.
pub(crate) struct Counter(*mut CounterObject);

/// A new counter in the program's domain.
pub(crate) fn counter(program: &Program) -> Counter {
    Counter::new(program.domain, Waits::NOT)
}

/// `struct fi_cntr_attr`.
#[repr(C)]
struct CounterAttr {
    events: u32,
    wait_obj: u32,
    wait_set: *mut fid,
    flags: u64,
}

impl Counter {
    fn new(domain: *mut fid_domain, waits: Waits) -> Self {
        type Open = unsafe extern "C" fn(
            *mut fid_domain,
            *mut CounterAttr,
            *mut *mut CounterObject,
            *mut c_void,
        ) -> i32;
        let mut counter = null_mut();
        let mut attr = CounterAttr { events: 0, wait_obj: waits.0, wait_set: waits.1, flags: 0 };
        let context = std::ptr::without_provenance_mut(COUNTER);
        // SAFETY: the table is the provider's, and the member has this type.
        unsafe {
            let open: Open = std::mem::transmute((*(*domain).ops).cntr_open);
            assert_eq!(open(domain, &raw mut attr, &raw mut counter, context), 0);
        }
        Self(counter)
    }

    pub(crate) fn fid(&self) -> *mut fid {
        self.0.cast()
    }

    pub(crate) fn read(&self) -> u64 {
        // SAFETY: an open counter.
        unsafe { ((*(*self.0).ops).read)(self.0) }
    }

    pub(crate) fn wait(&self, threshold: u64, timeout: i32) -> i32 {
        // SAFETY: likewise.
        unsafe { ((*(*self.0).ops).wait)(self.0, threshold, timeout) }
    }

    pub(crate) fn add(&self, value: u64) {
        // SAFETY: likewise.
        assert_eq!(unsafe { ((*(*self.0).ops).add)(self.0, value) }, 0);
    }

    pub(crate) fn add_error(&self, value: u64) {
        // SAFETY: likewise.
        assert_eq!(unsafe { ((*(*self.0).ops).adderr)(self.0, value) }, 0);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: used no more.
        unsafe { assert_eq!((*(*self.fid()).ops).close.unwrap()(self.fid()), 0) };
    }
}

pub(crate) fn provider() -> &'static tieline_fi::fi_provider {
    // SAFETY: the provider's own structure, which lives as long as the process.
    unsafe { &*tieline_fi::fi_prov_ini() }
}

/// What `fi_getinfo` answers to these hints.
pub(crate) fn info(hints: *const fi_info) -> Result<*mut fi_info, i32> {
    let mut info = null_mut();
    // SAFETY: as libfabric calls it.
    let got = unsafe { provider().getinfo.unwrap()(1 << 16 | 17, null(), null(), 0, hints, &raw mut info) };
    if got == 0 { Ok(info) } else { Err(got) }
}

impl Program {
    pub(crate) fn new() -> Self {
        Self::with(null(), Waits::NOT, None)
    }

    /// One whose queue has such a wait object.
    pub(crate) fn waiting(waits: Waits) -> Self {
        Self::with(null(), waits, None)
    }

    /// One that counts what it receives.
    pub(crate) fn counting() -> Self {
        Self::with(null(), Waits::NOT, Some(Waits::NOT))
    }

    /// The same with such wait objects of its queue and its counter.
    pub(crate) fn counting_with(of_queue: Waits, of_counter: Waits) -> Self {
        Self::with(null(), of_queue, Some(of_counter))
    }

    /// One that needs no more than these capabilities.
    pub(crate) fn with_caps(caps: u64) -> Self {
        // SAFETY: all zeroes are hints that wish for nothing.
        let hints = fi_info { caps: caps | FI_DIRECTED_RECV, ..unsafe { std::mem::zeroed() } };
        Self::with(&raw const hints, Waits::NOT, None)
    }

    /// One for which the provider makes progress by itself.
    pub(crate) fn automatic() -> Self {
        // SAFETY: all zeroes are attributes, and hints, that wish for nothing.
        let (mut domain_attr, mut hints) = unsafe { std::mem::zeroed::<(fi_domain_attr, fi_info)>() };
        domain_attr.data_progress = FI_PROGRESS_AUTO;
        hints.domain_attr = &raw mut domain_attr;
        Self::with(&raw const hints, Waits::NOT, None)
    }

    fn with(hints: *const fi_info, waits: Waits, counts: Option<Waits>) -> Self {
        let info = info(hints).unwrap();
        let (mut fabric, mut domain, mut av, mut cq, mut ep) =
            (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
        let mut av_attr = fi_av_attr::zeroed();
        let (wait_obj, wait_set) = (waits.0, waits.1.cast());
        let mut cq_attr =
            fi_cq_attr { format: FI_CQ_FORMAT_TAGGED, wait_obj, wait_set, ..fi_cq_attr::zeroed() };
        let context = std::ptr::without_provenance_mut(QUEUE);
        let mut name = [0; 32];
        let received;
        // SAFETY: the objects are used as the manual pages say.
        unsafe {
            assert_ne!((*info).caps & FI_DIRECTED_RECV, 0);
            let attr = (*info).fabric_attr;
            assert_eq!(provider().fabric.unwrap()(attr, &raw mut fabric, null_mut()), 0);
            assert_eq!((*(*fabric).ops).domain.unwrap()(fabric, info, &raw mut domain, null_mut()), 0);
            assert_eq!(
                (*(*domain).ops).av_open.unwrap()(domain, &raw mut av_attr, &raw mut av, null_mut()),
                0
            );
            assert_eq!((*(*domain).ops).cq_open.unwrap()(domain, &raw mut cq_attr, &raw mut cq, context), 0);
            assert_eq!((*(*domain).ops).endpoint.unwrap()(domain, info, &raw mut ep, null_mut()), 0);
            let ops = &*(*ep).fid.ops;
            assert_eq!(ops.bind.unwrap()(ep.cast(), av.cast(), 0), 0);
            assert_eq!(ops.bind.unwrap()(ep.cast(), cq.cast(), FI_SEND | FI_RECV), 0);
            received = counts.map(|waits| Counter::new(domain, waits));
            if let Some(counter) = &received {
                assert_eq!(ops.bind.unwrap()(ep.cast(), counter.fid(), FI_RECV), 0);
            }
            // FI_EOPBADSTATE (fi_errno.h): nothing could arrive yet.
            let mut byte = 0_u8;
            let early = fi_trecv(ep, (&raw mut byte).cast(), 1, null_mut(), FI_ADDR_UNSPEC, 0, 0, null_mut());
            assert_eq!(early, -258);
            assert_eq!(ops.control.unwrap()(ep.cast(), FI_ENABLE, null_mut()), 0);
            let mut len = name.len();
            assert_eq!(fi_getname(ep, name.as_mut_ptr().cast(), &raw mut len), 0);
            assert_eq!(len, name.len());
        }
        Self { fabric, domain, av, cq, ep, name, good: Vec::new(), bad: Vec::new(), received }
    }

    /// So many programs that know each other: program `i` is address `i` of each.
    pub(crate) fn several<const N: usize>() -> [Self; N] {
        let programs = std::array::from_fn(|_| Self::new());
        Self::make_known(&programs);
        programs
    }

    /// From now on program `i` is address `i` of each.
    pub(crate) fn make_known(programs: &[Self]) {
        for program in programs {
            for (number, other) in programs.iter().enumerate() {
                let mut address = 0;
                // SAFETY: one address of the length of names.
                let inserted = unsafe {
                    fi_av_insert(program.av, other.name.as_ptr().cast(), 1, &raw mut address, 0, null_mut())
                };
                assert_eq!((inserted, address), (1, number as u64));
            }
        }
    }

    /// Reads what has ended.
    pub(crate) fn progress(&mut self) {
        let mut entries = [Entry { context: 0, flags: 0, len: 0, buffer: 0, data: 0, tag: 0 }; 16];
        // SAFETY: the array has room for so many entries of the queue's form.
        let got = unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), entries.len()) };
        if got > 0 {
            self.good.extend(&entries[..got as usize]);
        } else if got == -(FI_EAVAIL as isize) {
            let mut error = fi_cq_err_entry::zeroed();
            // SAFETY: a place for an entry.
            assert_eq!(unsafe { fi_cq_readerr(self.cq, &raw mut error, 0) }, 1);
            self.bad.push((error.op_context.addr(), error.err, error.olen));
        } else {
            assert_eq!(got, -(FI_EAGAIN as isize));
        }
    }

    pub(crate) fn try_send(&self, to: u64, tag: u64, bytes: &[u8], context: usize) -> isize {
        let context = std::ptr::without_provenance_mut::<c_void>(context);
        // SAFETY: the callers keep the bytes until the completion.
        unsafe { fi_tsend(self.ep, bytes.as_ptr().cast(), bytes.len(), null_mut(), to, tag, context) }
    }

    pub(crate) fn receive(&self, from: u64, tag: u64, ignore: u64, buffer: &mut [u8], context: usize) {
        let context = std::ptr::without_provenance_mut::<c_void>(context);
        // SAFETY: the callers keep the buffer until the completion.
        let got = unsafe {
            fi_trecv(
                self.ep,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                null_mut(),
                from,
                tag,
                ignore,
                context,
            )
        };
        assert_eq!(got, 0);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: closed in the order that libfabric asks for, and used no more.
        unsafe {
            let ep = self.ep.cast::<fid>();
            assert_eq!((*(*ep).ops).close.unwrap()(ep), 0);
            self.received = None;
            for fid in [self.cq.cast::<fid>(), self.av.cast(), self.domain.cast(), self.fabric.cast()] {
                assert_eq!((*(*fid).ops).close.unwrap()(fid), 0);
            }
        }
    }
}

/// Lets all make progress until it is so.
pub(crate) fn until<const N: usize>(programs: &mut [Program; N], is_so: impl Fn(&[Program; N]) -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_so(programs) {
        programs.iter_mut().for_each(Program::progress);
        assert!(Instant::now() < limit, "it does not end");
    }
}

pub(crate) fn send<const N: usize>(
    programs: &mut [Program; N],
    from: usize,
    to: u64,
    tag: u64,
    bytes: &[u8],
    context: usize,
) {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        match programs[from].try_send(to, tag, bytes, context) {
            0 => return,
            again => assert_eq!(again, -(FI_EAGAIN as isize)),
        }
        programs.iter_mut().for_each(Program::progress);
        assert!(Instant::now() < limit, "no room");
    }
}

pub(crate) fn bytes_of(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ seed.wrapping_mul(77)) as u8).collect()
}

/// `fi_trywait`.
pub(crate) fn trywait(program: &Program, fid: *mut fid) -> i32 {
    let mut fids = [fid];
    // SAFETY: an array of one object.
    unsafe { (*(*program.fabric).ops).trywait.unwrap()(program.fabric, fids.as_mut_ptr(), 1) }
}

/// The descriptor of a queue, a counter or a wait set.
pub(crate) fn descriptor(fid: *mut fid) -> Result<i32, i32> {
    let mut fd = -1_i32;
    // SAFETY: an object of the provider's, and a place for the descriptor.
    let got = unsafe { (*(*fid).ops).control.unwrap()(fid, FI_GETWAIT, (&raw mut fd).cast()) };
    if got == 0 { Ok(fd) } else { Err(got) }
}

pub(crate) fn wait_readable(fd: i32) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 60_000) }, 1, "nobody has woken it");
}

/// What a thread of a test may have besides its own.
pub(crate) struct Shared<T>(pub(crate) T);

// SAFETY: the domains of the tests may be used by several threads at once, which is libfabric's default.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: likewise.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Closures capture all of it, by this.
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}
