//! Peers that ask, answer and send what no end point of the provider would: they spoil their own pair alone.
#![allow(clippy::unwrap_used)]

mod program;

use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

use fabric_sys::abi::*;
use fabric_sys::calls::*;
use fabric_sys::constants::*;
use message_queue::completion::{Completion, Ended};
use message_queue::endpoint::{Mode, ReceiveRequest, SendRequest};
use message_queue::meet::Datagrams;
use message_queue::{Buffers, Endpoint, Fetch, Name, Settings, Space, Want};
use program::Program;

const WRITE: u8 = 0;
const WRITE_LONG: u8 = 1;
const READ: u8 = 2;
const ANSWER: u64 = 1 << 63;
const PAYLOAD: u64 = 1 << 62;

fn context(number: usize) -> *mut c_void {
    without_provenance_mut(number)
}

/// The head of a request (`engine::request`).
fn head(what: u8, id: u32, key: u64, address: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![what, 0, 0, 0];
    bytes.extend(id.to_le_bytes());
    for word in [key, address, len, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

/// A peer that has a way to a program's end point for operations on memory, and says there what it likes.
struct Peer {
    inner: Endpoint<Datagrams>,
    ends: Vec<Completion>,
    to: u32,
}

impl Peer {
    fn of(program: &mut Program, fetch: Fetch) -> Self {
        let settings =
            Settings { ring_bytes: 256 << 10, eager_max_bytes: 16 << 10, fetch, ..Settings::default() };
        let meeting = Datagrams::begin(Name::new().unwrap().second(), settings.ring_bytes).unwrap();
        let mut inner = Endpoint::with(meeting, settings);
        let (to, mut ends) = (inner.peer(Name::of_bytes(&program.name).unwrap().second()), Vec::new());
        while !inner.open_way(to, &mut ends).unwrap() {
            inner.progress(&mut ends);
            program.progress();
        }
        Self { inner, ends, to }
    }

    /// The program's number for it.
    fn address(&self, program: &Program) -> u64 {
        let (name, mut address) = (self.inner.name().first(), 0);
        // SAFETY: one address of the length of names.
        let inserted = unsafe {
            fi_av_insert(program.av, name.bytes().as_ptr().cast(), 1, &raw mut address, 0, null_mut())
        };
        assert_eq!(inserted, 1);
        address
    }

    /// Whether there was room.
    fn send(&mut self, tag: u64, data: Option<u64>, bytes: Vec<u8>) -> bool {
        let (to, space, mode) = (self.to, Space::Tagged, Mode::Standard);
        let send = SendRequest { to, space, tag, data, user: 0, mode, waits: false };
        self.inner.send(&send, Buffers::Owned(bytes), &mut self.ends).is_ok()
    }

    fn progress(&mut self) {
        self.inner.progress(&mut self.ends);
    }
}

/// Memory that peers may write, under key 7.
fn registered(program: &Program, bytes: &mut [u8]) -> *mut fid_mr {
    let (start, access, mut mr) = (bytes.as_mut_ptr().cast(), FI_REMOTE_READ | FI_REMOTE_WRITE, null_mut());
    // SAFETY: the callers keep the bytes until the registration is closed.
    let got =
        unsafe { fi_mr_reg(program.domain, start, bytes.len(), access, 0, 7, 0, &raw mut mr, null_mut()) };
    assert_eq!(got, 0);
    mr
}

fn close(mr: *mut fid_mr) -> i32 {
    // SAFETY: a registration, which is used no more if that succeeds.
    unsafe { (*(*mr.cast::<fid>()).ops).close.unwrap()(mr.cast()) }
}

fn write(program: &Program, from: &[u8], to: u64) -> isize {
    // SAFETY: the callers keep the bytes until the completion.
    unsafe { fi_write(program.ep, from.as_ptr().cast(), from.len(), null_mut(), to, 0, 1, context(1)) }
}

#[test]
fn answers_that_come_unasked_end_no_operation_twice_and_none_of_others() {
    let mut program = Program::new();
    let mut peer = Peer::of(&mut program, Fetch::Measured);
    for id in 0..4 {
        for _ in 0..200 {
            while !peer.send(ANSWER | id, Some(0), Vec::new()) {
                program.progress();
            }
        }
    }
    (0..100).for_each(|_| program.progress());
    let (to, bytes) = (peer.address(&program), vec![1; 4096]);
    // It takes nothing, so that its ring is full soon.
    let mut begun = 0;
    for _ in 0..300 {
        begun += usize::from(write(&program, &bytes, to) == 0);
        program.progress();
    }
    (0..300).for_each(|_| program.progress());
    assert!(program.good.len() <= begun, "{} of {begun}", program.good.len());
    program.good.clear();
    let [mut honest] = Program::several::<1>();
    let mut memory = vec![0; 4096];
    let start = memory.as_mut_ptr().cast();
    let mut mr = null_mut();
    // SAFETY: the memory lives until the registration is closed.
    let got =
        unsafe { fi_mr_reg(honest.domain, start, 4096, FI_REMOTE_WRITE, 0, 1, 0, &raw mut mr, null_mut()) };
    assert_eq!(got, 0);
    let mut address = 0;
    // SAFETY: one address of the length of names.
    unsafe { fi_av_insert(program.av, honest.name.as_ptr().cast(), 1, &raw mut address, 0, null_mut()) };
    while write(&program, &bytes, address) != 0 {
        program.progress();
        honest.progress();
    }
    while program.good.is_empty() {
        program.progress();
        honest.progress();
    }
    assert_eq!((program.bad.len(), &memory), (0, &bytes));
    assert_eq!(close(mr), 0);
}

#[test]
fn writes_without_bytes_fill_no_memory_and_hold_no_registration() {
    let mut program = Program::new();
    let mut memory = vec![0xee; 10_000];
    let mr = registered(&program, &mut memory);
    let mut peer = Peer::of(&mut program, Fetch::Measured);
    // More than it may have under way: those beyond are not even refused.
    const MOST: usize = 4096;
    for id in 0..3 * MOST as u32 {
        while !peer.send(0, None, head(WRITE_LONG, id, 7, 0, 5000)) {
            program.progress();
            peer.progress();
        }
    }
    (0..1000).for_each(|_| program.progress());
    assert_eq!(close(mr), 0);
    let anything = Want { source: None, tag: 0, ignore: u64::MAX };
    let mut answers = 0;
    for _ in 0..100_000 {
        program.progress();
        peer.progress();
        while let Some(claimed) = peer.inner.claim(Space::Tagged, &anything) {
            answers += 1;
            assert_eq!(claimed.envelope().data, Some(FI_EIO as u64));
            peer.inner.throw_away(claimed, &mut peer.ends);
        }
    }
    assert_eq!(answers, MOST);
    assert!(memory.iter().all(|byte| *byte == 0xee));
}

#[test]
fn short_reads_whose_bytes_nobody_takes_hold_no_registration_and_come_as_they_were() {
    let mut program = Program::new();
    let mut memory: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    let (was, mr) = (memory.clone(), registered(&program, &mut memory));
    let mut peer = Peer::of(&mut program, Fetch::Measured);
    // More than the ring to the peer holds.
    const LEN: usize = 16_000;
    let reads = 0..64;
    for id in reads.clone() {
        while !peer.send(0, None, head(READ, id, 7, u64::from(id), LEN as u64)) {
            program.progress();
        }
    }
    (0..1000).for_each(|_| program.progress());
    assert_eq!(close(mr), 0);
    memory.fill(0xee);
    for id in reads {
        let want = Want { source: None, tag: ANSWER | u64::from(id), ignore: 0 };
        let receive = ReceiveRequest { space: Space::Tagged, want, user: u64::from(id) };
        peer.inner.receive(&receive, Buffers::Owned(vec![0; LEN]), &mut peer.ends);
        let is_it = |end: &Completion| end.user == u64::from(id) && matches!(end.ended, Ended::Receive(_));
        let end = loop {
            program.progress();
            peer.progress();
            if let Some(at) = peer.ends.iter().position(is_it) {
                break peer.ends.remove(at);
            }
        };
        assert_eq!(end.error, None);
        assert!(end.buffers.into_owned().unwrap() == was[id as usize..id as usize + LEN], "read {id}");
    }
}

#[test]
fn a_long_write_has_not_ended_before_its_bytes_have_left() {
    let mut program = Program::new();
    let mut peer = Peer::of(&mut program, Fetch::InParts);
    let (to, bytes) = (peer.address(&program), vec![5; 1 << 20]);
    while write(&program, &bytes, to) != 0 {
        program.progress();
        peer.progress();
    }
    let payloads = Want { source: None, tag: PAYLOAD, ignore: 0xffff };
    let id = loop {
        program.progress();
        peer.progress();
        if let Some(found) = peer.inner.probe(Space::Tagged, &payloads) {
            break found.tag & 0xffff;
        }
    };
    assert!(peer.send(ANSWER | id, Some(0), Vec::new()));
    (0..1000).for_each(|_| program.progress());
    assert_eq!(program.good.len(), 0, "the peer can still fetch the bytes");
    let receive = ReceiveRequest { space: Space::Tagged, want: payloads, user: 1 };
    peer.inner.receive(&receive, Buffers::Owned(vec![0; 1 << 20]), &mut peer.ends);
    while program.good.is_empty() {
        program.progress();
        peer.progress();
    }
    let is_received = |end: &Completion| matches!(end.ended, Ended::Receive(Some(_))) && end.error.is_none();
    while !peer.ends.iter().any(is_received) {
        program.progress();
        peer.progress();
    }
    let got = peer.ends.drain(..).find(is_received).and_then(|end| end.buffers.into_owned());
    assert!(got == Some(bytes));
}

#[test]
fn requests_that_are_none_change_nothing_and_the_next_is_carried_out() {
    let mut program = Program::new();
    let mut memory = vec![0xee; 100];
    let mr = registered(&program, &mut memory);
    let mut peer = Peer::of(&mut program, Fetch::Measured);
    let with = |mut head: Vec<u8>, bytes: &[u8]| {
        head.extend(bytes);
        head
    };
    for request in [
        Vec::new(),
        vec![0xff; 48],
        head(WRITE, 1, 7, 0, 100)[..47].to_vec(),
        with(head(WRITE, 1, 7, 0, 100), &[1; 99]),
        with(head(WRITE, 1, 7, 1, 100), &[1; 100]),
        with(head(WRITE, 1, 8, 0, 100), &[1; 100]),
        with(head(READ, 1, 7, 0, u64::MAX), &[]),
        with(head(4, 1, 7, 0, 64), &[1; 63]),
        vec![0; 10_000],
        vec![0; 100_000],
    ] {
        while !peer.send(0, None, request.clone()) {
            program.progress();
            peer.progress();
        }
        (0..100).for_each(|_| program.progress());
    }
    assert!(memory.iter().all(|byte| *byte == 0xee));
    assert!(peer.send(0, None, with(head(WRITE, 1, 7, 4, 8), &[3; 8])));
    (0..100).for_each(|_| program.progress());
    assert_eq!(memory[4..12], [3; 8]);
    assert_eq!(close(mr), 0);
}
