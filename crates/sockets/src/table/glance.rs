//! A byte for each low descriptor number, beside the data that each interposer reads: most calls need no more
//! of the table.

use libc::c_int;

use super::{Entry, Kind, Word, entry, highest, holds};
use crate::sync::{Ordering, fence};
use crate::{cancel, rings, state};

/// A connection of TCP that has a record, or will have none, and no ring.
pub(crate) const SETTLED: u8 = 1;
/// No connection of TCP. Stubs know this number.
pub(crate) const NO_CONNECTION: u8 = 2;
/// A connection of TCP without a place among those that may have rings, whose uses are counted: when it has
/// been used for long, it may get one (see [`rings::late`]).
pub(crate) const COUNTED: u8 = 3;

/// What is known of a number; 0 is nothing.
#[inline(always)]
pub(crate) fn brief(fd: c_int) -> u8 {
    state::brief(fd).map_or(0, |brief| brief.load(Ordering::Relaxed))
}

/// What is known at a glance of a connection of which the next byte goes through the kernel.
pub(crate) enum Glance {
    /// Its bytes are counted in this record.
    Settled(u16),
    /// Its uses are counted, too.
    Counted,
}

/// Of any other number nothing is known at a glance.
#[inline(always)]
pub(crate) fn glance(fd: c_int) -> Option<Glance> {
    let brief = brief(fd);
    if !matches!(brief, SETTLED | COUNTED) || state::outside() {
        None
    } else if brief == COUNTED {
        rings::conn::of(fd).is_none().then_some(Glance::Counted)
    } else {
        entry(fd).map(|entry| Glance::Settled(Word::unpack(entry.word.load(Ordering::Relaxed)).record))
    }
}

/// Whether the next byte of a connection goes through the kernel, and its uses are counted. (A thread that is
/// stopped in [`keeps_counted`] may leave the byte so while the number gets a place.)
#[inline(always)]
pub(crate) fn is_counted(fd: c_int) -> bool {
    brief(fd) == COUNTED && !state::outside() && rings::conn::of(fd).is_none()
}

/// Keeps in the byte what the word says, if that still is so.
pub(super) fn keeps(fd: c_int, entry: &Entry, word: u64) {
    let value = match Word::unpack(word) {
        Word { kind: Kind::Unknown, .. } | Word { kind: Kind::Tcp, record: 0, .. } => 0,
        Word { kind: Kind::Tcp, .. } => SETTLED,
        _ => NO_CONNECTION,
    };
    keeps_as(fd, entry, word, value);
}

/// The same of a connection whose uses are counted from here on. A thread that is cancelled in a call would
/// leave it behind as one that is in progress, so such programs have the long way, which looks for that
/// first.
pub(super) fn keeps_counted(fd: c_int, entry: &Entry, word: u64) {
    if cancel::is_any() || rings::forced::is_on() {
        return;
    }
    keeps_as(fd, entry, word, COUNTED);
    // Behind the fence in there, as that in `gets_a_place`: one of the two sees the other.
    if rings::conn::of(fd).is_some() {
        empties(fd);
    }
}

fn keeps_as(fd: c_int, entry: &Entry, word: u64, value: u8) {
    let Some(brief) = state::brief(fd) else { return };
    brief.store(value, Ordering::Relaxed);
    // A thread that closes it changes the word first, and then looks at the byte: but for the moment in
    // between, one of the two sees the other, and then what the number is next is not noticed until it is
    // used for something new.
    fence(Ordering::SeqCst);
    if entry.word.load(Ordering::Relaxed) != word || !holds(Word::unpack(word)) {
        brief.store(0, Ordering::Relaxed);
    }
}

/// The number has got a place among the connections that may have rings. A write that found it counted has
/// counted itself before, so whoever opens the ring, behind a fence of its own, finds that write (see
/// [`rings::flight`]).
pub(crate) fn gets_a_place(fd: c_int) {
    fence(Ordering::SeqCst);
    empties(fd);
}

/// Nothing is known of the number at a glance.
pub(super) fn empties(fd: c_int) {
    if let Some(brief) = state::brief(fd)
        && brief.load(Ordering::Relaxed) != 0
    {
        brief.store(0, Ordering::Relaxed);
    }
}

/// Nor of any other.
pub(crate) fn empties_all() {
    for fd in 0..highest().min(state::BRIEF as u32) {
        empties(fd as c_int);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::page::Direction;
    use crate::table::{counted, doubt, forget, made, word};
    use crate::tests::{alone, connection};
    use crate::{raw, seen};

    #[test]
    fn a_connection_is_counted_until_it_gets_a_place_or_is_doubted() {
        let _alone = alone();
        state::started();
        let fd = 3_900;
        made(fd, Kind::Tcp);
        let entry = entry(fd).unwrap();
        let counts = || {
            keeps_counted(fd, entry, word(fd).pack());
            assert!(is_counted(fd));
        };
        counts();
        gets_a_place(fd);
        assert!(!is_counted(fd));
        counts();
        doubt();
        assert!(!is_counted(fd));
        // What was known before is not kept afterwards.
        keeps_counted(fd, entry, word(fd).pack());
        assert!(!is_counted(fd));
        made(fd, Kind::Tcp);
        let before = word(fd).pack();
        counts();
        forget(fd);
        assert!(!is_counted(fd));
        keeps_counted(fd, entry, before);
        assert_eq!(brief(fd), 0);
    }

    #[test]
    fn a_number_with_a_place_is_not_counted_whatever_the_byte_says() {
        let _alone = alone();
        state::started();
        assert!(rings::tables::make());
        let (near, _far) = connection();
        let fd = near.as_raw_fd();
        made(fd, Kind::Tcp);
        let cookie = raw::socket_option::<u64>(fd, libc::SO_COOKIE).unwrap();
        assert!(rings::conn::claim(fd, cookie, 0).is_ok());
        // As a thread leaves it that was stopped in `keeps_counted`.
        state::brief(fd).unwrap().store(COUNTED, Ordering::Relaxed);
        assert!(!is_counted(fd) && glance(fd).is_none() && !seen::closes_counted(fd));
        rings::conn::closing(fd);
        assert!(is_counted(fd) && matches!(glance(fd), Some(Glance::Counted)));
        forget(fd);
    }

    #[test]
    fn a_counted_connection_is_forgotten_when_it_is_closed_and_no_other_is() {
        let _alone = alone();
        state::started();
        let fd = 3_901;
        made(fd, Kind::Tcp);
        assert!(!seen::closes_counted(fd), "nothing is known of it at a glance");
        keeps_counted(fd, entry(fd).unwrap(), word(fd).pack());
        counted(fd, Direction::In, 5);
        assert_ne!(entry(fd).unwrap().cookie.load(Ordering::Relaxed), 0);
        let before = word(fd);
        assert!(seen::closes_counted(fd));
        let forgotten = Word { generation: before.generation.wrapping_add(1), ..Word::unpack(0) };
        assert_eq!((word(fd), brief(fd)), (forgotten, 0));
        assert_eq!(entry(fd).unwrap().cookie.load(Ordering::Relaxed), 0);
        assert!(!seen::closes_counted(fd));
    }
}
