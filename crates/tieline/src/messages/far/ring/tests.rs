//! Tests of the ring between hosts: both ends in one process, with a link that takes as many puts as it is
//! told, and a peer that writes what it likes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use message_queue::lane::{Found, LaneError};
use shm::region::{Region, RegionOptions};
use shm::window::Window;

use super::super::forms::{CREDIT_AT, RING_AT, TAIL_AT, read, store};
use super::{Carrier, Gone, Incoming, Outgoing, Ring};

const KEYS: [u64; 2] = [0x1111, 0x2222];
const RING_BYTES: usize = 4096;

/// A way to a peer's memory.
pub(super) struct Way<'a> {
    memory: &'a Region,
    /// How many puts can be begun.
    room: Cell<usize>,
    /// Puts that were begun and have not arrived, if they wait.
    late: RefCell<VecDeque<(usize, Vec<u8>)>>,
    waits: Cell<bool>,
    is_gone: Cell<bool>,
}

impl<'a> Way<'a> {
    pub(super) fn new(memory: &'a Region) -> Self {
        let (late, waits, is_gone) = (RefCell::default(), Cell::new(false), Cell::new(false));
        Self { memory, room: Cell::new(usize::MAX), late, waits, is_gone }
    }

    /// The oldest put arrives, byte by byte, with a look after each.
    fn arrive(&self, mut look: impl FnMut()) -> bool {
        let Some((offset, bytes)) = self.late.borrow_mut().pop_front() else { return false };
        for (nth, byte) in bytes.iter().enumerate() {
            self.memory.window().store_u8(offset + nth, *byte).unwrap();
            look();
        }
        true
    }
}

impl Carrier for Way<'_> {
    fn try_put(&self, offset: usize, source: Window<'_>) -> Result<bool, Gone> {
        if self.is_gone.get() {
            return Err(Gone);
        }
        let Some(left) = self.room.get().checked_sub(1) else { return Ok(false) };
        self.room.set(left);
        let mut bytes = vec![0; source.len()];
        source.get(0, &mut bytes).unwrap();
        if self.waits.get() {
            self.late.borrow_mut().push_back((offset, bytes));
        } else {
            self.memory.window().put(offset, &bytes).unwrap();
        }
        Ok(true)
    }
}

pub(super) fn memory() -> [Region; 2] {
    [(); 2].map(|()| Region::create(&RegionOptions::new("ring", RING_AT + RING_BYTES)).unwrap())
}

/// A sender whose memory is the first, and a receiver whose memory is the second.
fn ends() -> (Outgoing, Incoming) {
    let ring = Ring::new(RING_BYTES as u64).unwrap();
    (Outgoing::new(ring, KEYS[1], KEYS[0]).unwrap(), Incoming::new(ring, KEYS[1]))
}

/// The other direction of the receiver, by which it gives room back.
fn back() -> Outgoing {
    Outgoing::new(Ring::new(RING_BYTES as u64).unwrap(), KEYS[0], KEYS[1]).unwrap()
}

pub(super) fn message(nth: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + nth * 31) as u8).collect()
}

fn send(out: &mut Outgoing, own: &Region, bytes: &[u8]) -> Result<(), LaneError> {
    out.send(&own.window(), bytes.len(), |record| record.put(0, bytes).unwrap())
}

fn take(inc: &mut Incoming, own: &Region) -> Result<Found<Vec<u8>>, LaneError> {
    inc.take_if(&own.window(), |record| {
        let mut bytes = vec![0; record.len()];
        record.get(0, &mut bytes).unwrap();
        Some(bytes)
    })
}

#[test]
fn records_of_all_lengths_come_in_order_round_and_round() {
    let [own, its] = memory();
    let ((mut out, mut inc), mut back) = (ends(), back());
    let (way, way_back) = (Way::new(&its), Way::new(&own));
    let longest = out.ring().max_record_bytes();
    assert_eq!(send(&mut out, &own, &vec![0; longest + 1]), Err(LaneError::TooLong));
    let lengths = [0, 1, 8, 15, 16, 17, 100, 1000, longest - 1, longest];
    let (mut sent, mut received) = (0, 0);
    while received < 5000 {
        while sent < 5000 {
            match send(&mut out, &own, &message(sent, lengths[sent * 13 % lengths.len()])) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error, LaneError::Full);
                    break;
                }
            }
            if sent.is_multiple_of(3) {
                assert_eq!(out.flush(&way), Ok(true));
            }
        }
        assert_eq!(out.flush(&way), Ok(true));
        // One that is left is shown again.
        assert_eq!(inc.take_if::<()>(&its.window(), |_| None), Ok(Found::Left));
        loop {
            let found = take(&mut inc, &its).unwrap();
            let is_idle = found == Found::Nothing;
            if let Some(taken) = inc.due(is_idle) {
                back.give_back(taken);
                assert_eq!(back.flush(&way_back), Ok(true));
            }
            let Found::Taken(bytes) = found else { break };
            assert!(bytes == message(received, lengths[received * 13 % lengths.len()]), "record {received}");
            received += 1;
        }
    }
    assert!(inc.is_empty(&its.window()) && !inc.knows_more());
}

#[test]
fn a_full_ring_goes_on_when_room_is_given_back_and_not_before() {
    let [own, its] = memory();
    let ((mut out, mut inc), mut back) = (ends(), back());
    let (way, way_back) = (Way::new(&its), Way::new(&own));
    let mut sent = 0;
    while send(&mut out, &own, &message(sent, 48)).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, RING_BYTES / 64);
    assert_eq!(out.flush(&way), Ok(true));
    assert_eq!(out.find_room(&own.window(), 0), Err(LaneError::Full));
    assert_eq!(take(&mut inc, &its), Ok(Found::Taken(message(0, 48))));
    // Who waits for room is told of little, once there is nothing else to do.
    assert_eq!((inc.due(false), inc.due(true)), (None, Some(64)));
    assert_eq!(send(&mut out, &own, b""), Err(LaneError::Full), "the receiver has not said so yet");
    back.give_back(64);
    assert_eq!(back.flush(&way_back), Ok(true));
    assert_eq!(send(&mut out, &own, &message(sent, 48)), Ok(()));
    assert_eq!(send(&mut out, &own, b""), Err(LaneError::Full));
    assert_eq!(out.flush(&way), Ok(true));
    for nth in 1..=sent {
        assert_eq!(take(&mut inc, &its), Ok(Found::Taken(message(nth, 48))), "{nth}");
    }
    assert_eq!(take(&mut inc, &its), Ok(Found::Nothing));
}

/// What is promised for several records is there for all of them, wherever they begin.
#[test]
fn room_that_was_found_is_there() {
    const RECORD: usize = 500;
    for before in (0..RING_BYTES - 64).step_by(16) {
        let [own, its] = memory();
        let ((mut out, mut inc), mut back) = (ends(), back());
        let (way, way_back) = (Way::new(&its), Way::new(&own));
        // Up to this place, and all of that is read.
        let mut left = before;
        while left > 0 {
            let len = left.min(1024);
            send(&mut out, &own, &message(0, len - 16)).unwrap();
            left -= len;
        }
        out.flush(&way).unwrap();
        while let Found::Taken(_) = take(&mut inc, &its).unwrap() {}
        back.give_back(before as u64);
        back.flush(&way_back).unwrap();
        assert_eq!(out.find_room(&own.window(), 3 * (RECORD + 72)), Ok(()), "{before}");
        for nth in 0..3 {
            assert_eq!(send(&mut out, &own, &message(nth, RECORD)), Ok(()), "{before}: record {nth}");
        }
        out.flush(&way).unwrap();
        for nth in 0..3 {
            assert_eq!(take(&mut inc, &its), Ok(Found::Taken(message(nth, RECORD))), "{before}");
        }
    }
    let ((mut out, _), [own, _]) = (ends(), memory());
    assert_eq!(out.find_room(&own.window(), RING_BYTES / 2), Err(LaneError::TooLong));
}

#[test]
fn what_cannot_be_put_now_goes_later_with_what_follows() {
    let [own, its] = memory();
    let (mut out, mut inc) = ends();
    let way = Way::new(&its);
    for room in [0, 1, 2] {
        way.room.set(room);
        send(&mut out, &own, &message(room, 300)).unwrap();
        let is_all = out.flush(&way).unwrap();
        assert_eq!(is_all, room == 2, "one put for the bytes, one for the place of their end");
        assert_eq!(matches!(take(&mut inc, &its), Ok(Found::Taken(_))), room == 2);
    }
    for nth in [1, 2] {
        assert_eq!(take(&mut inc, &its), Ok(Found::Taken(message(nth, 300))));
    }
    way.is_gone.set(true);
    send(&mut out, &own, b"late").unwrap();
    assert_eq!(out.flush(&way), Err(Gone));
    assert_eq!(take(&mut inc, &its), Ok(Found::Nothing));
}

/// Bytes arrive in the order of the puts; whoever looks in between finds whole records or nothing.
#[test]
fn half_a_put_is_never_taken_for_a_record() {
    let [own, its] = memory();
    let ((mut out, mut inc), way) = (ends(), Way::new(&its));
    way.waits.set(true);
    let (mut sent, mut received) = (0, 0);
    let mut back = back();
    for _ in 0..200 {
        while send(&mut out, &own, &message(sent, sent * 37 % 700)).is_ok() {
            sent += 1;
            out.flush(&way).unwrap();
        }
        out.flush(&way).unwrap();
        while way.arrive(|| {
            while let Found::Taken(bytes) = take(&mut inc, &its).unwrap() {
                assert!(bytes == message(received, received * 37 % 700), "record {received}");
                received += 1;
            }
        }) {}
        assert_eq!(received, sent);
        if let Some(taken) = inc.due(true) {
            back.give_back(taken);
            back.flush(&Way::new(&own)).unwrap();
        }
    }
    assert!(sent > 1000, "{sent}");
}

/// After a rail has failed under a put, nobody knows what has arrived.
#[test]
fn puts_in_doubt_are_put_again_and_nothing_comes_twice() {
    for lost in 0..12 {
        let [own, its] = memory();
        let ((mut out, mut inc), way) = (ends(), Way::new(&its));
        let mut received = 0;
        let mut take_all = |inc: &mut Incoming| {
            while let Found::Taken(bytes) = take(inc, &its).unwrap() {
                assert_eq!(bytes, message(received, 200));
                received += 1;
            }
            received
        };
        for nth in 0..3 {
            send(&mut out, &own, &message(nth, 200)).unwrap();
            out.flush(&way).unwrap();
        }
        take_all(&mut inc);
        way.waits.set(true);
        for nth in 3..8 {
            send(&mut out, &own, &message(nth, 200)).unwrap();
            out.flush(&way).unwrap();
        }
        // Some arrive, the others never do.
        for _ in 0..lost {
            way.arrive(|| ());
        }
        way.late.borrow_mut().clear();
        way.waits.set(false);
        take_all(&mut inc);
        out.put_again();
        assert_eq!(out.flush(&way), Ok(true));
        assert_eq!(take_all(&mut inc), 8, "{lost} have arrived");
    }
}

/// A receiver whose peer writes what it likes into its memory.
fn broken(scribble: impl Fn(&Window<'_>)) -> Option<&'static str> {
    let [own, its] = memory();
    let ((mut out, mut inc), way) = (ends(), Way::new(&its));
    for nth in 0..3 {
        send(&mut out, &own, &message(nth, 200)).unwrap();
    }
    out.flush(&way).unwrap();
    assert!(matches!(take(&mut inc, &its), Ok(Found::Taken(_))));
    scribble(&its.window());
    loop {
        match take(&mut inc, &its) {
            Ok(Found::Taken(_)) => {}
            Ok(_) => return None,
            Err(LaneError::Broken(what)) => return Some(what),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn nonsense_of_a_peer_is_an_error_and_touches_nothing_else() {
    const SECOND: usize = RING_AT + 224;
    assert_eq!(broken(|_| ()), None);
    let end = |at: u64| move |its: &Window<'_>| store(its, TAIL_AT, at, KEYS[1]).unwrap();
    let word = |at: usize, value: u64| move |its: &Window<'_>| its.store_u64(at, value).unwrap();
    // The three known records come first where the end is looked at later.
    let impossible = Some("an impossible end of its records");
    for at in [0, 224, 672 + 4096 + 16, 680, u64::MAX - 15] {
        assert_eq!(broken(end(at)), impossible, "{at}");
    }
    // An end of another key, or half of one, is none.
    assert_eq!(broken(|its| store(its, TAIL_AT, 4096, KEYS[0]).unwrap()), None);
    assert_eq!(broken(word(TAIL_AT, 800)), None);
    // Bytes of an earlier round stand where a record is announced.
    let out_of_place = Some("a record that is not in its place");
    assert_eq!(broken(end(672 + 224)), out_of_place);
    assert_eq!(broken(word(SECOND, 224 ^ KEYS[0])), out_of_place);
    assert_eq!(broken(word(SECOND, (224 + 4096) ^ KEYS[1])), out_of_place);
    let too_long = Some("a record of an impossible length");
    for len in [448, 1024, 2032, 2033, 4096, 1 << 40, u64::MAX - 1, u64::MAX] {
        assert_eq!(broken(word(SECOND + 8, len)), too_long, "{len}");
    }
}

#[test]
fn a_place_of_reading_that_was_never_reached_is_an_error() {
    for (credit, is_wrong) in
        [(0, false), (64, false), (4096, false), (4112, true), (8, true), (1 << 60, true)]
    {
        let [own, its] = memory();
        let ((mut out, _), way) = (ends(), Way::new(&its));
        while send(&mut out, &own, &message(0, 48)).is_ok() {}
        out.flush(&way).unwrap();
        store(&own.window(), CREDIT_AT, credit, KEYS[0]).unwrap();
        let sent = send(&mut out, &own, b"more");
        assert_eq!(matches!(sent, Err(LaneError::Broken(_))), is_wrong, "{credit}: {sent:?}");
        assert_eq!(sent.is_ok(), !is_wrong && credit > 0, "{credit}: {sent:?}");
    }
    // It never goes back.
    let [own, its] = memory();
    let ((mut out, _), way) = (ends(), Way::new(&its));
    for credit in [2048, 1024] {
        while send(&mut out, &own, &message(0, 48)).is_ok() {}
        out.flush(&way).unwrap();
        store(&own.window(), CREDIT_AT, credit, KEYS[0]).unwrap();
    }
    assert!(matches!(send(&mut out, &own, b"more"), Err(LaneError::Broken(_))));
}

#[test]
fn the_first_flush_tells_the_peer_that_this_side_is_there() {
    let [_, its] = memory();
    let ((mut out, inc), way) = (ends(), Way::new(&its));
    assert_eq!(read::<1>(&its.window(), TAIL_AT, KEYS[1]), None);
    assert_eq!(out.flush(&way), Ok(true));
    assert_eq!(read::<1>(&its.window(), TAIL_AT, KEYS[1]), Some([0]));
    assert!(inc.is_empty(&its.window()));
}

/// The other side says how long its ring is, and this side has a mirror of it.
#[test]
fn a_peer_does_not_choose_how_much_memory_this_side_takes() {
    let ring = |bytes| Ring::new(bytes).unwrap();
    let of_peer = |bytes, own| Ring::of_peer(bytes, ring(own)).is_some();
    assert!(of_peer(4096, 1 << 18) && of_peer(64 << 20, 4096) && of_peer(1 << 30, 1 << 30));
    assert!(!of_peer(128 << 20, 64 << 20) && !of_peer(1 << 30, 4096));
    for bytes in [0, 1, 2048, 4097, u64::MAX, 1 << 31] {
        assert!(!of_peer(bytes, 1 << 30), "{bytes}");
    }
    // What is announced costs nothing until it is used.
    let allocated = |bytes| {
        let outgoing = Outgoing::new(ring(bytes), KEYS[1], KEYS[0]).unwrap();
        rustix::fs::fstat(outgoing.mirror.fd()).unwrap().st_blocks as u64 * 512
    };
    assert!(allocated(64 << 20) < 1 << 20);
    // One of a usual length is there at once: a lack of memory is found now, and not in the middle of a send.
    assert!(allocated(256 << 10) >= 256 << 10);
}
