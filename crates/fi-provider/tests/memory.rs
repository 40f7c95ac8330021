//! Operations on memory of other end points, as libfabric and a program see the provider: see `program`.
#![allow(clippy::unwrap_used)]

mod program;

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut, without_provenance_mut};

use fabric_sys::abi::*;
use fabric_sys::calls::*;
use fabric_sys::constants::*;
use program::{Program, bytes_of, counter, until};

const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
const FI_UINT8: u32 = 1;
const FI_ATOMIC_READ: u32 = 10;

/// Memory that is registered, with its key.
struct Registered {
    bytes: Vec<u8>,
    mr: *mut fid_mr,
    is_closed: Cell<bool>,
}

impl Registered {
    fn new(program: &Program, len: usize, access: u64, key: u64) -> Self {
        let mut bytes = vec![0; len];
        let mut mr = null_mut();
        let start = bytes.as_mut_ptr().cast();
        // SAFETY: the bytes live as long as the registration.
        let got =
            unsafe { fi_mr_reg(program.domain, start, len, access, 0, key, 0, &raw mut mr, null_mut()) };
        assert_eq!(got, 0);
        Self { bytes, mr, is_closed: Cell::new(false) }
    }

    fn close(&self) -> i32 {
        // SAFETY: a registration that is used no more if that succeeds.
        let closed = unsafe { (*(*self.mr.cast::<fid>()).ops).close.unwrap()(self.mr.cast()) };
        self.is_closed.set(closed == 0);
        closed
    }
}

/// Before its program, whose domain is not closed as long as it is there.
impl Drop for Registered {
    fn drop(&mut self) {
        if !self.is_closed.get() {
            assert_eq!(self.close(), 0);
        }
    }
}

fn context(number: usize) -> *mut c_void {
    without_provenance_mut(number)
}

/// Begins an operation as soon as there is room for it.
fn begin<const N: usize>(programs: &mut [Program; N], begin: impl Fn(&[Program; N]) -> isize) {
    loop {
        match begin(programs) {
            0 => return,
            again => assert_eq!(again, -(FI_EAGAIN as isize)),
        }
        programs.iter_mut().for_each(Program::progress);
    }
}

#[test]
fn bytes_of_every_length_are_written_and_read_where_they_belong() {
    let mut programs = Program::several::<2>();
    let lengths = [0, 1, 48, 4096, 4097, 16 << 10, (16 << 10) + 1, 100_000, 3 << 20];
    for to in [1_usize, 0] {
        let memory = Registered::new(&programs[to], 4 << 20, ALL, 40 + to as u64);
        let key = 40 + to as u64;
        for (number, len) in lengths.into_iter().enumerate() {
            let (bytes, address) = (bytes_of(number, len), 100 * number);
            // SAFETY: the bytes live until the completion.
            begin(&mut programs, |p| unsafe {
                let from = bytes.as_ptr().cast();
                fi_write(p[0].ep, from, len, null_mut(), to as u64, address as u64, key, context(1))
            });
            until(&mut programs, |p| p[0].good.len() == 1);
            assert!(memory.bytes[address..address + len] == bytes, "{len} bytes to {to}");
            assert!(memory.bytes[address + len..].iter().take(90).all(|byte| *byte == 0 || number > 0));
            let written = programs[0].good.pop().unwrap();
            assert_eq!((written.context, written.flags), (1, FI_RMA | FI_WRITE));
            let mut back = vec![0xdd; len];
            let into = back.as_mut_ptr();
            // SAFETY: likewise.
            begin(&mut programs, |p| unsafe {
                fi_read(p[0].ep, into.cast(), len, null_mut(), to as u64, address as u64, key, context(2))
            });
            until(&mut programs, |p| p[0].good.len() == 1);
            let read = programs[0].good.pop().unwrap();
            assert_eq!((read.context, read.flags, read.len), (2, FI_RMA | FI_READ, len));
            assert!(back == bytes, "{len} bytes from {to}");
        }
        assert!(programs.iter().all(|program| program.bad.is_empty()));
        assert_eq!(memory.close(), 0);
    }
}

#[test]
fn what_is_not_registered_or_not_allowed_is_an_error_and_changes_nothing() {
    let mut programs = Program::several::<2>();
    let memory = Registered::new(&programs[1], 10_000, FI_REMOTE_READ, 7);
    for len in [8, 9_000] {
        let bytes = bytes_of(3, len);
        // A key that nobody has; behind the end; memory that may only be read.
        for (key, address, error) in
            [(8, 0, FI_ENOKEY), (7, 10_001 - len as u64, FI_EINVAL), (7, 0, libc::EACCES)]
        {
            // SAFETY: the bytes live until the completion.
            begin(&mut programs, |p| unsafe {
                fi_write(p[0].ep, bytes.as_ptr().cast(), len, null_mut(), 1, address, key, context(5))
            });
            until(&mut programs, |p| p[0].bad.len() == 1);
            assert_eq!((programs[0].bad[0].0, programs[0].bad[0].1), (5, error), "{len} {key} {address}");
            programs[0].bad.clear();
        }
        let mut back = vec![0xdd; len];
        let into = back.as_mut_ptr();
        // SAFETY: likewise.
        begin(&mut programs, |p| unsafe {
            fi_read(p[0].ep, into.cast(), len, null_mut(), 1, u64::MAX, 7, context(6))
        });
        until(&mut programs, |p| p[0].bad.len() == 1);
        assert_eq!(programs[0].bad.pop().map(|bad| (bad.0, bad.1)), Some((6, FI_EINVAL)));
        assert!(back.iter().all(|byte| *byte == 0xdd));
    }
    assert!(memory.bytes.iter().all(|byte| *byte == 0));
    assert_eq!(memory.close(), 0);
    // What was closed is memory no more.
    let mut back = [0; 8];
    let into = back.as_mut_ptr();
    // SAFETY: likewise.
    begin(&mut programs, |p| unsafe { fi_read(p[0].ep, into.cast(), 8, null_mut(), 1, 0, 7, context(6)) });
    until(&mut programs, |p| p[0].bad.len() == 1);
    assert_eq!(programs[0].bad[0].1, FI_ENOKEY);
}

#[test]
fn a_write_can_bring_a_word_for_the_owners_completion() {
    let mut programs = Program::several::<2>();
    let memory = Registered::new(&programs[1], 10_000, ALL, 7);
    for len in [16, 10_000] {
        let bytes = bytes_of(len, len);
        // SAFETY: a table of this provider, whose member has this type (fi_rma(3)); the bytes live on.
        begin(&mut programs, |p| unsafe {
            type WriteData = unsafe extern "C" fn(
                *mut fid_ep,
                *const c_void,
                usize,
                *mut c_void,
                u64,
                fi_addr_t,
                u64,
                u64,
                *mut c_void,
            ) -> isize;
            let call: WriteData = std::mem::transmute((*(*p[0].ep).rma).writedata);
            call(p[0].ep, bytes.as_ptr().cast(), len, null_mut(), 0xabc, 1, 0, 7, context(1))
        });
        until(&mut programs, |p| p[0].good.len() == 1 && p[1].good.len() == 1);
        let told = programs[1].good.pop().unwrap();
        assert_eq!((told.flags, told.data, told.len), (FI_RMA | FI_REMOTE_WRITE | 1 << 17, 0xabc, len));
        assert!(memory.bytes[..len] == bytes);
        programs[0].good.clear();
    }
}

#[test]
fn additions_of_several_programs_lose_none_and_what_was_there_comes_back() {
    const EACH: u64 = 2_000;
    let mut programs = Program::several::<4>();
    let memory = Registered::new(&programs[3], 64, ALL, 9);
    let one = 1_u64;
    let mut all = vec![0_u64; 3 * EACH as usize];
    for (at, result) in all.iter_mut().enumerate() {
        let result = (&raw mut *result).cast();
        // SAFETY: operand and result live until the completion.
        begin(&mut programs, |p| unsafe {
            let (ep, operand, none) = (p[at % 3].ep, (&raw const one).cast(), null_mut);
            fi_fetch_atomic(ep, operand, 1, none(), result, none(), 3, 8, 9, FI_UINT64, FI_SUM, none())
        });
    }
    until(&mut programs, |p| p[..3].iter().all(|program| program.good.len() == EACH as usize));
    assert_eq!(memory.bytes[8..16], (3 * EACH).to_ne_bytes());
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..3 * EACH), "each sum was there once");
    assert!(programs[0].good.iter().all(|entry| entry.flags == FI_ATOMIC | FI_READ));
}

#[test]
fn a_comparison_decides_whether_memory_is_changed() {
    let mut programs = Program::several::<2>();
    let memory = Registered::new(&programs[1], 64, ALL, 9);
    for (compare, wanted) in [(0_u64, 5_u64), (0, 5), (5, 5)] {
        let (operand, mut result) = (5_u64, 77_u64);
        let before = memory.bytes[..8].to_vec();
        let into = (&raw mut result).cast();
        // SAFETY: all live until the completion.
        begin(&mut programs, |p| unsafe {
            let (operand, compare) = ((&raw const operand).cast(), (&raw const compare).cast());
            let none = null_mut;
            fi_compare_atomic(
                p[0].ep,
                operand,
                1,
                none(),
                compare,
                none(),
                into,
                none(),
                1,
                0,
                9,
                FI_UINT64,
                FI_CSWAP,
                none(),
            )
        });
        until(&mut programs, |p| p[0].good.len() == 1);
        programs[0].good.clear();
        assert_eq!(
            (result.to_ne_bytes().to_vec(), memory.bytes[..8].to_vec()),
            (before, wanted.to_ne_bytes().to_vec())
        );
    }
    // Without operands: what there is is only read.
    let mut result = [0_u8; 4];
    let into = result.as_mut_ptr().cast();
    // SAFETY: likewise.
    begin(&mut programs, |p| unsafe {
        let none = null_mut;
        fi_fetch_atomic(p[0].ep, null(), 4, none(), into, none(), 1, 0, 9, FI_UINT8, FI_ATOMIC_READ, none())
    });
    until(&mut programs, |p| p[0].good.len() == 1);
    assert_eq!(result[..], memory.bytes[..4]);
}

#[test]
fn a_registration_that_a_peer_does_not_read_is_closed_and_read_as_it_was() {
    // The second is longer than what is copied for that.
    for (len, is_copied) in [(8 << 20, true), (65 << 20, false)] {
        let mut programs = Program::several::<2>();
        let mut memory = Registered::new(&programs[1], len, ALL, 9);
        let mut back = vec![0xdd_u8; len];
        let into = back.as_mut_ptr();
        // SAFETY: the memory lives until the completion.
        begin(&mut programs, |p| unsafe {
            fi_read(p[0].ep, into.cast(), len, null_mut(), 1, 0, 9, context(1))
        });
        // The owner has begun to answer, and the reader takes nothing.
        for _ in 0..50 {
            programs[1].progress();
        }
        assert_eq!(memory.close(), if is_copied { 0 } else { -libc::EBUSY });
        if is_copied {
            memory.bytes.fill(0x11);
        }
        until(&mut programs, |p| p[0].good.len() == 1);
        assert_eq!(back.iter().position(|byte| *byte != 0), None);
        if !is_copied {
            until(&mut programs, |_| memory.close() == 0);
        }
    }
}

#[test]
fn an_operation_waits_behind_no_messages_that_its_owner_does_not_receive() {
    let mut programs = Program::several::<2>();
    let memory = Registered::new(&programs[1], 100_000, ALL, 9);
    let message = bytes_of(1, 10_000);
    // Until neither the owner nor the ring takes any more.
    let mut refused = 0;
    while refused < 1000 {
        match programs[0].try_send(1, 5, &message, 0) {
            0 => refused = 0,
            again => assert_eq!(again, -(FI_EAGAIN as isize)),
        }
        refused += 1;
        programs.iter_mut().for_each(Program::progress);
    }
    programs[0].good.clear();
    for len in [8, 100_000] {
        let (bytes, mut back) = (bytes_of(len, len), vec![0; len]);
        let into = back.as_mut_ptr();
        // SAFETY: the bytes live until the completion.
        begin(&mut programs, |p| unsafe {
            fi_write(p[0].ep, bytes.as_ptr().cast(), len, null_mut(), 1, 0, 9, context(1))
        });
        until(&mut programs, |p| p[0].good.len() == 1);
        assert!(memory.bytes[..len] == bytes);
        // SAFETY: likewise.
        begin(&mut programs, |p| unsafe {
            fi_read(p[0].ep, into.cast(), len, null_mut(), 1, 0, 9, context(2))
        });
        until(&mut programs, |p| p[0].good.len() == 2);
        assert!(back == bytes);
        programs[0].good.clear();
    }
    assert!(programs.iter().all(|program| program.bad.is_empty()));
}

#[test]
fn a_program_that_computes_is_reached_if_it_wants_automatic_progress() {
    let mut programs = [Program::new(), Program::automatic()];
    Program::make_known(&programs);
    let memory = Registered::new(&programs[1], 100_000, ALL, 3);
    let mut back = vec![0; 100_000];
    let into = back.as_mut_ptr();
    // Only the first program calls libfabric: short and long ones, from a thread that sleeps in between.
    for (number, len) in [1, 100, 5_000, 100_000].into_iter().enumerate() {
        let bytes = bytes_of(number, len);
        // SAFETY: the bytes live until the completion.
        let began = unsafe {
            let from = bytes.as_ptr().cast();
            fi_write(programs[0].ep, from, len, null_mut(), 1, 0, 3, context(1))
        };
        assert_eq!(began, 0);
        while programs[0].good.is_empty() {
            programs[0].progress();
        }
        assert_eq!(programs[0].good.pop().map(|good| good.context), Some(1));
        // SAFETY: likewise.
        let began = unsafe { fi_read(programs[0].ep, into.cast(), len, null_mut(), 1, 0, 3, context(2)) };
        assert_eq!(began, 0);
        while programs[0].good.is_empty() {
            programs[0].progress();
        }
        assert_eq!(programs[0].good.pop().map(|good| good.context), Some(2));
        assert!(back[..len] == bytes, "{len} bytes");
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    // Its domain is not closed while something of it is left, and the thread goes on.
    let domain: *mut fid = programs[1].domain.cast();
    // SAFETY: a domain, which is used no more if that succeeds.
    assert_ne!(unsafe { (*(*domain).ops).close.unwrap()(domain) }, 0);
    let bytes = bytes_of(9, 64);
    // SAFETY: the bytes live until the completion.
    let began =
        unsafe { fi_write(programs[0].ep, bytes.as_ptr().cast(), 64, null_mut(), 1, 0, 3, context(3)) };
    assert_eq!(began, 0);
    while programs[0].good.is_empty() {
        programs[0].progress();
    }
    assert!(memory.bytes[..64] == bytes && programs[0].bad.is_empty());
}

#[test]
fn who_is_no_target_refuses_and_can_ask_for_operations_afterwards() {
    let caps = FI_TAGGED | FI_RMA | FI_READ | FI_WRITE;
    let mut programs = [Program::new(), Program::with_caps(caps)];
    Program::make_known(&programs);
    let (memory, bytes) = (Registered::new(&programs[0], 10_000, ALL, 9), bytes_of(1, 10_000));
    let not_accessible = Registered::new(&programs[1], 10_000, ALL, 9);
    let mut write = |from: usize| {
        // SAFETY: the bytes live until the completion.
        begin(&mut programs, |p| unsafe {
            let to = 1 - from as u64;
            fi_write(p[from].ep, bytes.as_ptr().cast(), 10_000, null_mut(), to, 0, 9, context(3))
        });
        until(&mut programs, |p| p[from].good.len() + p[from].bad.len() == 1);
        programs[from].good.clear();
        programs[from].bad.pop()
    };
    // It has nobody who could be asked.
    assert_eq!(write(0), Some((3, libc::ECONNREFUSED, 0)));
    assert_eq!(write(0), Some((3, libc::ECONNREFUSED, 0)));
    assert_eq!(write(1), None);
    // Now it has, who refuses.
    assert_eq!(write(0), Some((3, libc::EACCES, 0)));
    assert_eq!(write(1), None);
    assert!(memory.bytes == bytes && not_accessible.bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn what_peers_do_in_a_registration_is_counted_if_it_has_counters() {
    let mut programs = Program::several::<2>();
    let memory = Registered::new(&programs[1], 20_000, ALL, 9);
    let counters = [FI_REMOTE_READ, FI_REMOTE_WRITE].map(|access| {
        let counter = counter(&programs[1]);
        // SAFETY: the table is the provider's.
        unsafe {
            let bind = (*(*memory.mr.cast::<fid>()).ops).bind.unwrap();
            assert_eq!(bind(memory.mr.cast(), counter.fid(), access), 0);
        }
        counter
    });
    let mut bytes = bytes_of(1, 20_000);
    let at = bytes.as_mut_ptr();
    for len in [8, 20_000] {
        // SAFETY: the bytes live until the completion.
        begin(&mut programs, |p| unsafe {
            fi_write(p[0].ep, at.cast(), len, null_mut(), 1, 0, 9, context(1))
        });
    }
    // One that is refused is not counted.
    // SAFETY: likewise.
    begin(&mut programs, |p| unsafe {
        fi_write(p[0].ep, at.cast(), 9, null_mut(), 1, 19_992, 9, context(1))
    });
    until(&mut programs, |p| p[0].good.len() + p[0].bad.len() == 3);
    // SAFETY: likewise.
    begin(&mut programs, |p| unsafe { fi_read(p[0].ep, at.cast(), 20_000, null_mut(), 1, 0, 9, context(1)) });
    let counted = || [counters[0].read(), counters[1].read()];
    until(&mut programs, |p| p[0].good.len() == 3 && counted() == [1, 2]);
    // An atomic operation that brings back what was there reads and changes; one that only reads does not
    // change.
    for (op, reads, writes) in [(FI_SUM, 2, 3), (FI_ATOMIC_READ, 3, 3)] {
        let ended = programs[0].good.len() + 1;
        // SAFETY: likewise.
        begin(&mut programs, |p| unsafe {
            let operand = if op == FI_SUM { at.cast_const().cast() } else { null() };
            let (into, none) = (at.add(8).cast(), null_mut);
            fi_fetch_atomic(p[0].ep, operand, 1, none(), into, none(), 1, 0, 9, FI_UINT8, op, context(1))
        });
        until(&mut programs, |p| p[0].good.len() == ended && counted() == [reads, writes]);
    }
    assert_eq!(memory.close(), 0);
}

#[test]
fn reading_by_an_atomic_operation_needs_no_right_to_write_and_changes_nothing() {
    let mut programs = Program::several::<2>();
    let mut memory = Registered::new(&programs[1], 64, FI_REMOTE_READ, 9);
    memory.bytes[..8].copy_from_slice(b"unmoved!");
    let mut result = [0_u8; 8];
    let into = result.as_mut_ptr().cast();
    let mut fetch = |operation| {
        // SAFETY: all live until the completion.
        begin(&mut programs, |p| unsafe {
            let none = null_mut;
            let operands = b"12345678".as_ptr().cast();
            fi_fetch_atomic(p[0].ep, operands, 8, none(), into, none(), 1, 0, 9, FI_UINT8, operation, none())
        });
        until(&mut programs, |p| p[0].good.len() + p[0].bad.len() == 1);
        let is_good = programs[0].bad.is_empty();
        programs[0].good.clear();
        programs[0].bad.clear();
        is_good
    };
    assert!(fetch(FI_ATOMIC_READ));
    assert!(!fetch(FI_SUM));
    assert_eq!((&result, &memory.bytes[..8]), (b"unmoved!", &b"unmoved!"[..]));
}

#[test]
fn lists_of_other_lengths_than_the_target_are_refused() {
    /// `struct fi_msg_atomic` (`rdma/fi_atomic.h`).
    #[repr(C)]
    struct Message {
        msg_iov: *const fi_ioc,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: fi_addr_t,
        rma_iov: *const fi_rma_ioc,
        rma_iov_count: usize,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
        data: u64,
    }
    type WriteMessage = unsafe extern "C" fn(*mut fid_ep, *const Message, u64) -> isize;
    let mut programs = Program::several::<2>();
    let memory = Registered::new(&programs[1], 64, ALL, 9);
    let mut operands = [3_u64; 8];
    for (count, is_good) in [(8, true), (1, false), (0, false)] {
        let list = fi_ioc { addr: operands.as_mut_ptr().cast(), count };
        let target = fi_rma_ioc { addr: 0, count: 8, key: 9 };
        let message = Message {
            msg_iov: &raw const list,
            desc: null_mut(),
            iov_count: 1,
            addr: 1,
            rma_iov: &raw const target,
            rma_iov_count: 1,
            datatype: FI_UINT64,
            op: FI_SUM,
            context: null_mut(),
            data: 0,
        };
        // SAFETY: a table of this provider, whose member has this type; all lives until the completion.
        let call = |p: &[Program; 2]| unsafe {
            let call: WriteMessage = std::mem::transmute((*(*p[0].ep).atomic).writemsg);
            call(p[0].ep, &raw const message, 0)
        };
        if is_good {
            begin(&mut programs, call);
            until(&mut programs, |p| p[0].good.len() == 1);
        } else {
            assert_eq!(call(&programs), -(FI_EINVAL as isize));
        }
    }
    assert_eq!(memory.bytes, 3_u64.to_ne_bytes().repeat(8));
}
