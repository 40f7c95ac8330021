//! What is counted, and what becomes of it when a connection changes, ends, or gets another process.

use std::os::fd::AsRawFd;
use std::vec::Vec;

use sockets_rules::layout::{Reason, head, record};

use super::{alone, connection};
use crate::page::{self, Direction};
use crate::sync::{AtomicU32, Ordering};
use crate::table::{self, Kind};
use crate::{raw, rings, seen, state};

/// Bytes that came through the kernel, by reason: what is told of all, and what this record has not told.
fn by_reason(record: u16, reason: Reason) -> u64 {
    let at = page::place_of(record);
    let is_its = record::reason(page::number(at + record::DESCRIPTOR)) == reason as usize;
    let untold = page::number(at + record::KERNEL_IN) - page::number(at + record::TOLD_IN);
    page::number(head::of(reason as usize, head::KERNEL_IN)) + if is_its { untold } else { 0 }
}

#[test]
fn bytes_stand_with_the_reason_that_there_was_when_they_were_moved() {
    let _alone = alone();
    let (near, _far) = connection();
    let fd = near.as_raw_fd();
    for _ in 0..5 {
        seen::input(fd, 1);
    }
    let record = table::word(fd).record;
    let before =
        [Reason::WithoutRings, Reason::Alone, Reason::Memory].map(|reason| by_reason(record, reason));
    let since = |at: usize, reason| by_reason(record, reason) - before[at];
    page::kernel(record, Direction::In, 10);
    page::because(record, Reason::Alone);
    page::kernel(record, Direction::In, 200);
    page::because(record, Reason::Memory);
    page::kernel(record, Direction::In, 3000);
    let found = [since(0, Reason::WithoutRings), since(1, Reason::Alone), since(2, Reason::Memory)];
    assert_eq!(found, [10, 200, 3000]);
    seen::closing(fd);
    // One whose call comes back after that is counted all the same.
    page::kernel(record, Direction::In, 7);
    assert_eq!(since(2, Reason::Memory), 3007);
    page::release(record);
    assert_eq!(since(2, Reason::Memory), 3007);
}

#[test]
fn the_child_of_a_fork_counts_from_0_and_never_below() {
    let _alone = alone();
    let ends: Vec<_> = (0..3).map(|_| connection()).collect();
    let fds: Vec<i32> = ends.iter().map(|(near, _)| near.as_raw_fd()).collect();
    // Two that have records, one that is new.
    for (at, fd) in fds.iter().enumerate() {
        seen::made(*fd, Kind::Tcp);
        (0..if at < 2 { table::EARLY_USES + 1 } else { 2 }).for_each(|_| seen::input(*fd, 100));
    }
    let record = |at: usize| table::word(fds[at]).record;
    page::because(record(0), Reason::Alone);
    page::forked(state::slot());
    table::forked();
    let all = || {
        let numbers = [
            head::CONNECTIONS,
            head::UNRECORDED,
            head::of(0, head::KERNEL_IN),
            head::of(0, head::KERNEL_OUT),
        ];
        let reasons = Reason::ALL.map(|reason| page::number(head::of(reason as usize, head::BECAUSE)));
        (numbers.map(page::number), reasons)
    };
    assert_eq!(all(), ([0; 4], [0; 10]));
    // Another process, or this one, finds out more of what was inherited.
    page::because(record(0), Reason::NoOtherEnd);
    page::because(record(1), Reason::Inherited);
    assert_eq!(all(), ([0; 4], [0; 10]));
    // Used here: counted here, when they are closed; the new one at once.
    fds.iter().for_each(|fd| seen::input(*fd, 1));
    fds.iter().for_each(|fd| seen::closing(*fd));
    let (numbers, reasons) = all();
    assert_eq!(numbers[..2], [3, 0]);
    assert_eq!((reasons[8], reasons[3], reasons[4]), (1, 1, 1));
    assert_eq!(reasons.iter().sum::<u64>(), 3);
    let bytes: u64 = Reason::ALL.iter().map(|it| page::number(head::of(*it as usize, head::KERNEL_IN))).sum();
    assert_eq!(bytes, 3);
}

#[test]
fn a_tag_of_holders_that_comes_again_makes_nothing_ones_own() {
    let _alone = alone();
    state::started();
    let fd = 60_003;
    seen::made(fd, Kind::Tcp);
    assert_eq!(table::word(fd).maker, state::holders());
    // Whichever number of forks.
    for _ in 0..1000 {
        state::shares_descriptors();
        assert_ne!(table::word(fd).maker, state::holders());
    }
    seen::closing(fd);
}

#[test]
fn an_epoch_that_comes_again_makes_nothing_known() {
    let _alone = alone();
    let fd = 60_004;
    seen::made(fd, Kind::Tcp);
    assert_eq!(table::kind(fd), Kind::Tcp);
    for lap in 0..3 {
        // As many doubts as that, at once, until shortly before they are counted from the beginning; and then
        // one by one.
        let left = u32::from(u16::MAX - state::epoch() as u16) - 3;
        state::next_epoch(left, 0);
        for doubt in 0..8 {
            table::doubt();
            assert_eq!(table::kind(fd), Kind::Unknown, "lap {lap}, doubt {doubt}");
        }
        let now = state::epoch() as u16;
        // What is made now is known until the next doubt, and unknown a whole lap on.
        seen::made(fd + 1, Kind::Tcp);
        state::next_epoch(u32::from(u16::MAX - now), 0);
        (0..=now).for_each(|_| table::doubt());
        assert_eq!(table::kind(fd + 1), Kind::Unknown, "lap {lap}");
    }
    seen::closing_range(fd as u32, fd as u32 + 1);
}

#[test]
fn what_another_thread_stores_stays_while_it_is_asked_whether_it_can_be_written() {
    let _alone = alone();
    state::started();
    static WORD: AtomicU32 = AtomicU32::new(0);
    static IS_OVER: AtomicU32 = AtomicU32::new(0);
    let at = WORD.as_ptr() as usize;
    std::thread::scope(|scope| {
        // Plain stores of this thread alone: each must find what the one before has left.
        let counts = scope.spawn(|| {
            let mut turn = WORD.load(Ordering::Relaxed);
            while IS_OVER.load(Ordering::Relaxed) == 0 {
                if WORD.load(Ordering::Relaxed) != turn {
                    return false;
                }
                turn = turn.wrapping_add(1);
                WORD.store(turn, Ordering::Relaxed);
            }
            true
        });
        for ask in 0..100_000 {
            // Each byte of it, also where a word would begin elsewhere.
            assert!(rings::reach::ask(at + ask % 4, (at >> 12) as u64, true));
        }
        IS_OVER.store(1, Ordering::Relaxed);
        assert!(counts.join().unwrap(), "a store was undone");
    });
}

#[test]
fn what_cannot_be_read_or_written_is_found_out() {
    let _alone = alone();
    state::started();
    let map = |protection: i32| {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: a new mapping.
        let at = unsafe { raw::call(libc::SYS_mmap, [0, 4096, protection as usize, flags, usize::MAX, 0]) };
        usize::try_from(at).unwrap()
    };
    for (protection, wanted) in [
        (libc::PROT_NONE, (false, false)),
        (libc::PROT_READ, (true, false)),
        (libc::PROT_READ | libc::PROT_WRITE, (true, true)),
    ] {
        let at = map(protection);
        let asked = |writes| rings::reach::ask(at + 4095, (at >> 12) as u64, writes);
        assert_eq!((asked(false), asked(true)), wanted, "{protection}");
        // Not unmapped yet: another test may map something there.
        // SAFETY: the mapping of above, of which nobody has anything.
        unsafe { raw::call(libc::SYS_mprotect, [at, 4096, libc::PROT_NONE as usize, 0, 0, 0]) };
        assert_eq!((asked(false), asked(true)), (false, false));
        // SAFETY: as above.
        unsafe { raw::call(libc::SYS_munmap, [at, 4096, 0, 0, 0, 0]) };
    }
}
