//! A connection that both ends close between a reader's count of what the kernel holds and its look at what
//! was taken of it. With two readers at one end it happens: the other one has taken what made the kernel say
//! that there is something.

use stream::read::Read;
use stream::{Held, Outcome, Slept, Taken, Woken, Word, consent, path};

use Op::{Close, ReadToEnd, ReadWritten, ShutDown, TryRead, TryWrite, Write};

use crate::cases::{case, holds};
use crate::replay::{Call, Do, Running, Saw};
use crate::world::{Case, Op};

const CAPACITY: u64 = 65_536;
/// What went to the kernel before the ring was handed back, and all of it.
const BEFORE: u64 = 10_000;
const ALL: u64 = BEFORE + CAPACITY;

/// The writer hands back all of a full ring, shuts down and ends, once the reader has counted `first`. With
/// `is_dead` it died while it handed back, so that its words stay as they were.
fn read_behind(first: Held, is_dead: bool) -> (Outcome, u64) {
    let mut running = Running::new(Call::Reading(Read::new(CAPACITY, 100_000, false, true, 0)), 0);
    let (mut counted, mut closed, mut received) = (0, false, 0);
    let mut what = running.begin();
    for _ in 0..200 {
        let is_handed_back = closed && !is_dead;
        let saw = match what {
            Do::Done(outcome) => return (outcome, received),
            Do::Load(Word::Consent) => Saw::Value(consent::OPEN),
            Do::Load(Word::Revoke) => Saw::Value(u64::from(!is_handed_back)),
            Do::Load(Word::Path) => Saw::Value(if is_handed_back { path::SHUT } else { path::RING }),
            Do::Load(Word::Base) => Saw::Value(if is_handed_back { ALL } else { BEFORE }),
            Do::Load(Word::Tail) => Saw::Value(ALL),
            Do::Load(Word::SwitchOver) => Saw::Value(if is_handed_back { ALL } else { BEFORE }),
            Do::Load(_) => Saw::Value(0),
            Do::Count => {
                counted += 1;
                let all = if is_dead { 1 } else { CAPACITY };
                Saw::Held(if counted == 1 { first } else { Held::Bytes(all) })
            }
            Do::AskTaken if counted == 0 => Saw::Taken(Taken::Bytes(BEFORE)),
            Do::AskTaken => {
                closed = true;
                Saw::Taken(Taken::Closed { received: ALL + 1, unread: CAPACITY, otherwise: None })
            }
            Do::Receive { most } => {
                received += most;
                Saw::Received(most)
            }
            Do::Sleep(_) => Saw::Slept(Slept::Woken(Woken::Look)),
            _ => Saw::Nothing,
        };
        what = running.step(saw);
    }
    panic!("the call does not end: {what:?}");
}

#[test]
fn what_was_handed_back_before_the_end_is_read() {
    for first in [Held::Nothing, Held::Bytes(1)] {
        assert_eq!(read_behind(first, false), (Outcome::Moved(CAPACITY), CAPACITY), "{first:?}");
    }
}

#[test]
fn where_the_writer_died_over_it_the_connection_ends() {
    assert_eq!(read_behind(Held::Nothing, true), (Outcome::Corrupt, 0));
}

/// Both directions end while two readers, who may be of two processes, are at work: no byte is lost, and the
/// end comes behind all.
#[test]
fn two_readers_and_a_close() {
    let base = Case {
        buffered: false,
        closes: true,
        ..case("one reader, closed", &[&[Write(2), TryWrite(1), Close]], &[&[ReadToEnd(1)]])
    };
    holds(&base);
    holds(&Case {
        name: "two readers, closed",
        writers: vec![vec![TryWrite(2), ShutDown]],
        readers: vec![vec![ReadToEnd(1)], vec![ReadToEnd(1)]],
        ..base.clone()
    });
    holds(&Case {
        name: "two readers, one of which does not wait, closed",
        pipe: 1,
        writers: vec![vec![TryWrite(1), ShutDown]],
        readers: vec![vec![ReadToEnd(1)], vec![TryRead, TryRead]],
        ..base.clone()
    });
    holds(&Case {
        name: "closed, shut down beside another writer",
        hurries: true,
        pipe: 1,
        writers: vec![vec![TryWrite(2), ShutDown], vec![TryWrite(1)]],
        readers: vec![vec![TryRead, ReadWritten]],
        ..base.clone()
    });
    holds(&Case {
        name: "closed before everything is back",
        hurries: true,
        pipe: 1,
        writers: vec![vec![TryWrite(2), TryWrite(2), Close]],
        readers: vec![vec![TryRead, ReadWritten]],
        ..base
    });
}
