//! The provider as libfabric and a program see it: through `fi_prov_ini` and C's tables, with several end
//! points in one process.
#![allow(clippy::unwrap_used)]

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use fabric_sys::abi::*;
use fabric_sys::calls::*;
use fabric_sys::constants::*;

const FI_DIRECTED_RECV: u64 = 1 << 59;
const FI_CQ_FORMAT_TAGGED: u32 = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry {
    context: usize,
    flags: u64,
    len: usize,
    buffer: usize,
    data: u64,
    tag: u64,
}

/// One process's worth of objects.
struct Program {
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    av: *mut fid_av,
    cq: *mut fid_cq,
    ep: *mut fid_ep,
    name: [u8; 32],
    /// Completions that were read, good ones and errors.
    good: Vec<Entry>,
    bad: Vec<(usize, i32, usize)>,
}

fn provider() -> &'static tieline_fi::fi_provider {
    // SAFETY: the provider's own structure, which lives as long as the process.
    unsafe { &*tieline_fi::fi_prov_ini() }
}

/// What `fi_getinfo` answers to these hints.
fn info(hints: *const fi_info) -> Result<*mut fi_info, i32> {
    let mut info = null_mut();
    // SAFETY: as libfabric calls it.
    let got = unsafe { provider().getinfo.unwrap()(1 << 16 | 17, null(), null(), 0, hints, &raw mut info) };
    if got == 0 { Ok(info) } else { Err(got) }
}

impl Program {
    fn new() -> Self {
        let info = info(null()).unwrap();
        let (mut fabric, mut domain, mut av, mut cq, mut ep) =
            (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
        let mut av_attr = fi_av_attr::zeroed();
        let mut cq_attr = fi_cq_attr { format: FI_CQ_FORMAT_TAGGED, ..fi_cq_attr::zeroed() };
        let mut name = [0; 32];
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
            assert_eq!(
                (*(*domain).ops).cq_open.unwrap()(domain, &raw mut cq_attr, &raw mut cq, null_mut()),
                0
            );
            assert_eq!((*(*domain).ops).endpoint.unwrap()(domain, info, &raw mut ep, null_mut()), 0);
            let ops = &*(*ep).fid.ops;
            assert_eq!(ops.bind.unwrap()(ep.cast(), av.cast(), 0), 0);
            assert_eq!(ops.bind.unwrap()(ep.cast(), cq.cast(), FI_SEND | FI_RECV), 0);
            // FI_EOPBADSTATE (fi_errno.h): nothing could arrive yet.
            let mut byte = 0_u8;
            let early = fi_trecv(ep, (&raw mut byte).cast(), 1, null_mut(), FI_ADDR_UNSPEC, 0, 0, null_mut());
            assert_eq!(early, -258);
            assert_eq!(ops.control.unwrap()(ep.cast(), FI_ENABLE, null_mut()), 0);
            let mut len = name.len();
            assert_eq!(fi_getname(ep, name.as_mut_ptr().cast(), &raw mut len), 0);
            assert_eq!(len, name.len());
        }
        Self { fabric, domain, av, cq, ep, name, good: Vec::new(), bad: Vec::new() }
    }

    /// So many programs that know each other: program `i` is address `i` of each.
    fn several<const N: usize>() -> [Self; N] {
        let programs = std::array::from_fn(|_| Self::new());
        for program in &programs {
            for (number, other) in programs.iter().enumerate() {
                let mut address = 0;
                // SAFETY: one address of the length of names.
                let inserted = unsafe {
                    fi_av_insert(program.av, other.name.as_ptr().cast(), 1, &raw mut address, 0, null_mut())
                };
                assert_eq!((inserted, address), (1, number as u64));
            }
        }
        programs
    }

    /// Reads what has ended.
    fn progress(&mut self) {
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

    fn try_send(&self, to: u64, tag: u64, bytes: &[u8], context: usize) -> isize {
        let context = std::ptr::without_provenance_mut::<c_void>(context);
        // SAFETY: the callers keep the bytes until the completion.
        unsafe { fi_tsend(self.ep, bytes.as_ptr().cast(), bytes.len(), null_mut(), to, tag, context) }
    }

    fn receive(&self, from: u64, tag: u64, ignore: u64, buffer: &mut [u8], context: usize) {
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
            for fid in [
                self.ep.cast::<fid>(),
                self.cq.cast(),
                self.av.cast(),
                self.domain.cast(),
                self.fabric.cast(),
            ] {
                assert_eq!((*(*fid).ops).close.unwrap()(fid), 0);
            }
        }
    }
}

/// Lets all make progress until it is so.
fn until<const N: usize>(programs: &mut [Program; N], is_so: impl Fn(&[Program; N]) -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_so(programs) {
        programs.iter_mut().for_each(Program::progress);
        assert!(Instant::now() < limit, "it does not end");
    }
}

fn send<const N: usize>(
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

fn bytes_of(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ seed.wrapping_mul(77)) as u8).collect()
}

#[test]
fn messages_of_every_size_arrive_whole_expected_or_not() {
    let mut programs = Program::several::<2>();
    let sizes = [0, 1, 7, 8, 32, 33, 100, 4095, 16 << 10, (16 << 10) + 1, 100_000, 1 << 20, 4 << 20];
    for is_expected in [true, false] {
        for to in [1_usize, 0] {
            for (number, len) in sizes.into_iter().enumerate() {
                let bytes = bytes_of(number, len);
                let mut buffer = vec![0; len];
                let tag = number as u64;
                if is_expected {
                    programs[to].receive(0, tag, 0, &mut buffer, 1000 + number);
                }
                send(&mut programs, 0, to as u64, tag, &bytes, number);
                if !is_expected {
                    programs.iter_mut().for_each(Program::progress);
                    programs[to].receive(FI_ADDR_UNSPEC, tag, 0, &mut buffer, 1000 + number);
                }
                let has = |program: &Program, context: usize| {
                    program.good.iter().find(|entry| entry.context == context).copied()
                };
                until(&mut programs, |p| {
                    has(&p[0], number).is_some() && has(&p[to], 1000 + number).is_some()
                });
                let entry = has(&programs[to], 1000 + number).unwrap();
                assert_eq!((entry.len, entry.tag, entry.flags), (len, tag, FI_RECV | FI_TAGGED));
                assert!(buffer == bytes, "{len} bytes to {to}");
                programs.iter_mut().for_each(|program| program.good.clear());
                assert!(programs.iter().all(|program| program.bad.is_empty()));
            }
        }
    }
}

#[test]
fn none_overtakes_another_of_its_sender() {
    let mut programs = Program::several::<3>();
    // More than the rings hold, so that room is waited for, too; long and short in turn.
    let messages = 600;
    let len = |number: usize| [0, 8, 3000, 40_000][number % 4];
    let sent: Vec<Vec<u8>> = (0..messages).map(|number| bytes_of(number, len(number))).collect();
    let mut buffers: Vec<Vec<u8>> = (0..2 * messages).map(|_| vec![0; 40_000]).collect();
    for (number, bytes) in sent.iter().enumerate() {
        // Half of the receives are posted before, with wildcards: any source, or any tag of this source.
        if number % 2 == 0 {
            for source in [0, 1] {
                let at = 2 * number + source;
                let from = if number % 4 == 0 { source as u64 } else { FI_ADDR_UNSPEC };
                programs[2].receive(from, 9, u64::MAX, &mut buffers[at], at);
            }
        }
        for source in [0, 1] {
            send(&mut programs, source, 2, number as u64, bytes, 0);
        }
    }
    for at in 0..messages {
        let at = 2 * (2 * (at / 2) + 1) + at % 2;
        programs[2].receive(FI_ADDR_UNSPEC, 0, u64::MAX, &mut buffers[at], at);
    }
    until(&mut programs, |p| p[2].good.len() == 2 * messages);
    // In the order of posting: first those before, then those after.
    let order: Vec<usize> = (0..2 * messages)
        .filter(|at| at / 2 % 2 == 0)
        .chain((0..2 * messages).filter(|at| at / 2 % 2 == 1))
        .collect();
    // How often each message came; which sender it was is told by the order alone.
    let mut next = [0usize; 2];
    let mut counts = vec![0; messages];
    for at in order {
        let entry = programs[2].good.iter().find(|entry| entry.context == at).unwrap();
        let number = entry.tag as usize;
        assert_eq!(entry.len, len(number));
        assert!(buffers[at][..entry.len] == sent[number][..], "message {number}");
        // It is the next one of one of the two senders.
        let source = next.iter().position(|next| *next == number);
        let source = source.unwrap_or_else(|| panic!("message {number} when {next:?} were next"));
        next[source] += 1;
        counts[number] += 1;
    }
    assert!(counts.iter().all(|count| *count == 2));
}

#[test]
fn too_little_room_is_an_error_with_what_was_too_much() {
    let mut programs = Program::several::<2>();
    for (number, len) in [100, 1 << 20].into_iter().enumerate() {
        let bytes = bytes_of(number, len);
        let mut buffer = vec![0xdd; len];
        programs[1].receive(0, 3, 0, &mut buffer[..len / 4], 50 + number);
        send(&mut programs, 0, 1, 3, &bytes, number);
        until(&mut programs, |p| p[1].bad.len() == 1 && p[0].good.len() == 1);
        assert_eq!(programs[1].bad, [(50 + number, FI_ETRUNC, len - len / 4)]);
        assert!(buffer[..len / 4] == bytes[..len / 4] && buffer[len / 4..].iter().all(|byte| *byte == 0xdd));
        programs[1].bad.clear();
        programs[0].good.clear();
    }
}

#[test]
fn a_receive_that_is_cancelled_takes_nothing() {
    let mut programs = Program::several::<2>();
    let (mut first, mut second) = ([0; 8], [0; 8]);
    programs[1].receive(FI_ADDR_UNSPEC, 1, 0, &mut first, 11);
    programs[1].receive(FI_ADDR_UNSPEC, 1, 0, &mut second, 12);
    // SAFETY: a pointer of the program's that is only compared.
    let cancelled = unsafe {
        (*(*programs[1].ep).ops).cancel.unwrap()(programs[1].ep.cast(), std::ptr::without_provenance_mut(11))
    };
    assert_eq!(cancelled, 0);
    send(&mut programs, 0, 1, 1, b"to 12 !!", 0);
    until(&mut programs, |p| p[1].good.len() == 1 && p[1].bad.len() == 1);
    assert_eq!((programs[1].bad[0].0, programs[1].bad[0].1), (11, FI_ECANCELED));
    assert_eq!((programs[1].good[0].context, &second), (12, b"to 12 !!"));
}

#[test]
fn what_it_cannot_do_is_not_promised() {
    // SAFETY: zeroed structures, and a pointer between two that live as long.
    let with = |change: &dyn Fn(&mut fi_info, &mut fi_domain_attr, &mut fi_ep_attr)| unsafe {
        let (mut hints, mut domain, mut ep) =
            (std::mem::zeroed::<fi_info>(), fi_domain_attr::zeroed(), fi_ep_attr::zeroed());
        change(&mut hints, &mut domain, &mut ep);
        (hints.domain_attr, hints.ep_attr) = (&raw mut domain, &raw mut ep);
        info(&raw const hints).map(|info| (*info).caps)
    };
    assert!(with(&|hints, _, _| hints.caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM).is_ok());
    assert_eq!(with(&|hints, _, _| hints.caps = FI_TAGGED | FI_RMA), Err(-FI_ENODATA));
    assert_eq!(with(&|_, domain, _| domain.data_progress = FI_PROGRESS_AUTO), Err(-FI_ENODATA));
    assert_eq!(with(&|_, _, ep| ep.r#type = 1), Err(-FI_ENODATA));
    // Sources are matched only if that is asked for.
    assert_eq!(with(&|hints, _, _| hints.caps = FI_TAGGED).unwrap() & FI_DIRECTED_RECV, 0);
}
