//! Small cases, each with every interleaving.

use crate::search::search;
use crate::world::{Case, Op};

pub(crate) fn case(name: &'static str, writers: &[&[Op]], readers: &[&[Op]]) -> Case {
    let owned = |programs: &[&[Op]]| programs.iter().map(|program| program.to_vec()).collect();
    Case {
        name,
        ring: 2,
        pipe: 2,
        writers: owned(writers),
        readers: owned(readers),
        has_handler: false,
        kill: vec![],
        reset_on_death: false,
        overdue: false,
        timers: false,
        spurious: false,
        stops: false,
        hurries: false,
        resets: false,
        closes: false,
        is_asked: false,
        inline: 0,
        buffered: true,
        may_abort: false,
        mutant: None,
    }
}

/// A size of a case: the second one if the searches may take minutes and gigabytes
/// (`TIELINE_STREAM_SEARCH=large`).
pub(crate) fn small(usual: u32, large: u32) -> u32 {
    if std::env::var_os("TIELINE_STREAM_SEARCH").is_some_and(|value| value == "large") {
        large
    } else {
        usual
    }
}

/// Searches, prints the size of what was searched, and fails with the way to the fault.
pub(crate) fn holds(case: &Case) {
    // Delayed stores are the larger search of most cases.
    let case = &Case { buffered: case.buffered || small(0, 1) == 1, ..case.clone() };
    let searched = search(case, small(1_500_000, 30_000_000) as usize);
    println!("{}: {} states, {} steps", case.name, searched.states, searched.steps);
    if let Some(fault) = searched.fault {
        panic!("{}: {}\n{}", case.name, fault.what, fault.trace.join("\n"));
    }
}

use Op::{
    BeforeSleep, Close, Look, Park, Peek, Poll, RawRead, RawToEnd, RawWrite, Read, ReadAndStay, ReadAsleep,
    ReadParked, ReadToEnd, ReadWritten, Renew, Seen, ShutDown, TryAll, TryRead, TryWrite, Wake, Withdraw,
    Write, WriteHungUp,
};

#[test]
fn a_writer_that_waits() {
    holds(&case("three bytes one by one", &[&[Write(1), Write(1), Write(1), Close]], &[&[ReadToEnd(1)]]));
    holds(&case("more than the ring holds", &[&[Write(3), Close]], &[&[ReadToEnd(2)]]));
    holds(&Case { buffered: false, ..case("two laps", &[&[Write(5), Close]], &[&[ReadToEnd(2)]]) });
}

#[test]
fn a_writer_that_does_not_wait() {
    let tries = [TryWrite(1), TryWrite(2), TryWrite(1), Close];
    holds(&Case { buffered: false, ..case("tries", &[&tries], &[&[ReadToEnd(1)]]) });
    holds(&Case {
        buffered: false,
        ..case("tries on both sides", &[&tries], &[&[TryRead, TryRead, ReadToEnd(2)]])
    });
    let looks = [Look, Peek(2), Look, ReadToEnd(2)];
    holds(&Case { buffered: false, ..case("looks and peeks", &[&tries], &[&looks]) });
    holds(&case("tries, stores delayed", &[&[TryWrite(2), TryWrite(2), Close]], &[&[ReadToEnd(2)]]));
}

/// Small messages have a copy that the next writer changes while readers take it.
#[test]
fn messages_with_an_inline_copy() {
    let base =
        Case { inline: 2, ..case("inline copies", &[&[Write(2), Write(1), Close]], &[&[ReadToEnd(2)]]) };
    holds(&base);
    holds(&Case {
        name: "inline copies, and longer messages without",
        buffered: false,
        ring: 4,
        pipe: 1,
        writers: vec![vec![Write(1), Write(3), Close]],
        ..base.clone()
    });
    holds(&Case {
        name: "inline copies taken in parts",
        buffered: false,
        writers: vec![vec![TryWrite(2), Write(1), Close]],
        readers: vec![vec![TryRead, TryRead, ReadToEnd(2)]],
        ..base.clone()
    });
    holds(&Case {
        name: "inline copies of two writers, one of which is killed",
        buffered: false,
        kill: vec![0],
        ring: 1,
        pipe: 1,
        inline: 1,
        writers: vec![vec![TryWrite(1), Close], vec![TryWrite(1), Close]],
        ..base.clone()
    });
    holds(&Case {
        name: "inline copies, and a handler that writes",
        buffered: false,
        has_handler: true,
        inline: 1,
        writers: vec![vec![Write(1), BeforeSleep], vec![Write(1)]],
        readers: vec![vec![Read(1), Read(1)]],
        ..base
    });
}

/// A reading process that counts as asleep for longer than a call.
#[test]
fn a_parked_reader() {
    let base = Case {
        buffered: false,
        ..case("parked, and woken", &[&[Write(1), Write(1), Close]], &[&[Park, ReadParked(1), Wake, Read(1)]])
    };
    holds(&base);
    holds(&Case {
        name: "asleep, and parked since",
        writers: vec![vec![Write(1), Write(2), Write(1)]],
        readers: vec![vec![Read(1), ReadAsleep(1), ReadAndStay(1), ReadParked(1), Wake]],
        ..base.clone()
    });
    holds(&Case {
        name: "parked, and woken by another thread",
        ring: 1,
        pipe: 1,
        writers: vec![vec![Write(1), Write(1)]],
        readers: vec![vec![Read(1), Park, ReadParked(1)], vec![Wake]],
        ..base.clone()
    });
    holds(&Case {
        name: "parked and woken while another thread reads",
        ring: 1,
        pipe: 1,
        writers: vec![vec![Write(1), Write(1)]],
        readers: vec![vec![Park, Wake, Park], vec![ReadParked(1), ReadParked(1)]],
        ..base
    });
}

#[test]
fn several_holders() {
    let one = [Write(1), Close];
    let base = Case {
        buffered: false,
        ring: small(1, 2),
        pipe: small(1, 2),
        ..case("two writers", &[&one, &one], &[&[ReadToEnd(2)]])
    };
    holds(&base);
    holds(&Case {
        name: "one of two writers shuts down",
        writers: vec![vec![TryWrite(1), Close], vec![Write(1), ShutDown]],
        ..base.clone()
    });
    holds(&Case {
        name: "two readers",
        writers: vec![vec![Write(small(1, 2)), Close]],
        readers: vec![vec![ReadToEnd(1)], vec![ReadToEnd(1)]],
        ..base
    });
}

/// A signal handler writes to the connection that it interrupts a write on, between any two steps of that.
#[test]
fn a_handler_writes() {
    let base = Case {
        buffered: false,
        has_handler: true,
        ..case("a handler writes", &[&[Write(1), Close], &[Write(1), Close]], &[&[ReadToEnd(1)]])
    };
    // The one without a death is searched with the mutant that says nothing of the interruption.
    holds(&Case { name: "a handler writes, and is killed", kill: vec![0], ..base.clone() });
    holds(&Case {
        name: "a handler writes twice, without waiting",
        writers: vec![vec![TryWrite(2), BeforeSleep], vec![TryWrite(1), TryWrite(1)]],
        readers: vec![vec![TryRead, ReadWritten]],
        ..base.clone()
    });
    holds(&Case {
        name: "a handler shuts down",
        writers: vec![vec![Write(1), Close], vec![ShutDown]],
        readers: vec![vec![ReadToEnd(1)]],
        ..base
    });
}

#[test]
fn a_writer_is_killed() {
    let base = Case {
        buffered: false,
        kill: vec![0],
        ..case("killed writer", &[&[Write(3), Close]], &[&[ReadToEnd(1)]])
    };
    holds(&base);
    holds(&Case { name: "killed writer, reset", reset_on_death: true, ..base.clone() });
    let tries = [TryWrite(2), TryWrite(2), Close];
    holds(&Case { name: "killed while it hands back", writers: vec![tries.to_vec()], ..base.clone() });
    holds(&Case {
        name: "one of two writers killed",
        ring: 1,
        pipe: small(1, 2),
        writers: vec![vec![TryWrite(1), TryWrite(1), Close], vec![Close]],
        ..base
    });
}

#[test]
fn a_reader_is_killed() {
    let base = case("killed reader", &[&[Write(4), Close]], &[&[ReadToEnd(1)]]);
    holds(&Case { buffered: false, kill: vec![1], ..base.clone() });
    holds(&Case {
        name: "one of two readers killed",
        ring: small(1, 2),
        pipe: small(1, 2),
        buffered: false,
        kill: vec![1],
        readers: vec![vec![ReadToEnd(1)], vec![ReadToEnd(1)]],
        writers: vec![vec![Write(small(1, 2)), Close]],
        ..base
    });
}

#[test]
fn a_consent_is_withdrawn() {
    let base = case("withdrawn", &[&[Write(2), Close]], &[&[Read(1), Withdraw, RawToEnd]]);
    holds(&base);
    let renewed = [Read(1), Withdraw, Renew, ReadToEnd(2)];
    holds(&Case {
        name: "withdrawn and renewed",
        buffered: false,
        readers: vec![renewed.to_vec()],
        writers: vec![vec![Write(2), Write(1), Close]],
        ..base.clone()
    });
    holds(&Case {
        name: "withdrawn, impatient",
        buffered: false,
        timers: true,
        may_abort: true,
        ..base.clone()
    });
    holds(&Case {
        name: "withdrawn, writer killed",
        buffered: false,
        kill: vec![0],
        may_abort: true,
        readers: vec![vec![Read(1), Withdraw, ReadToEnd(1)]],
        ..base.clone()
    });
    holds(&Case {
        name: "withdrawn, writer killed, read past the library",
        buffered: false,
        kill: vec![0],
        may_abort: true,
        ..base.clone()
    });
    let tries = [TryWrite(2), TryWrite(1), Close];
    holds(&Case {
        name: "withdrawn while the writer tries",
        buffered: false,
        may_abort: true,
        writers: vec![tries.to_vec()],
        ..base
    });
}

#[test]
fn one_of_two_readers_withdraws() {
    let base = case(
        "one of two withdraws",
        &[&[Write(small(1, 2)), Close]],
        &[&[Withdraw, RawToEnd], &[ReadToEnd(1)]],
    );
    holds(&Case { buffered: false, ring: small(1, 2), pipe: small(1, 2), ..base });
}

#[test]
fn who_is_not_seen() {
    let base = Case {
        buffered: false,
        timers: true,
        overdue: true,
        ..case("unseen reader", &[&[Write(3), Close]], &[&[Read(1), RawToEnd]])
    };
    holds(&base);
    holds(&Case {
        name: "unseen writer after a seen one",
        timers: false,
        overdue: false,
        writers: vec![vec![Write(2), RawWrite(1), Close]],
        readers: vec![vec![ReadToEnd(2)]],
        ..base.clone()
    });
    holds(&Case {
        name: "another holder reads before the switch-over offset",
        timers: false,
        overdue: false,
        writers: vec![vec![RawWrite(2), Write(2), Close]],
        readers: vec![vec![RawRead(1)], vec![ReadToEnd(2)]],
        ..base
    });
}

#[test]
fn wake_ups_for_no_reason_and_readers_that_stop() {
    let base = case("spurious wake-ups", &[&[Write(2), Write(1), Close]], &[&[ReadToEnd(2)]]);
    holds(&Case { buffered: false, spurious: true, ..base.clone() });
    let tries = [TryWrite(2), TryWrite(1), Write(1), Close];
    holds(&Case {
        name: "a reader that stops",
        buffered: false,
        stops: true,
        writers: vec![tries.to_vec()],
        ..base.clone()
    });
    holds(&Case {
        name: "two readers, one of them stops",
        buffered: false,
        stops: true,
        // Until it sleeps: one reader holds the lock, so nothing can go back to where the other sleeps.
        writers: vec![vec![Write(1), Write(1), BeforeSleep]],
        readers: vec![vec![Read(2)], vec![Look]],
        ..base.clone()
    });
    let half_closed = [Write(1), WriteHungUp(1), Write(1), Close];
    holds(&Case {
        name: "the other half is closed",
        buffered: false,
        writers: vec![half_closed.to_vec()],
        ..base
    });
}

#[test]
fn anybody_dies() {
    let write = [TryWrite(small(1, 2)), Close];
    let base = case("one of two and two dies", &[&write, &[Close]], &[&[ReadToEnd(1)], &[TryRead]]);
    holds(&Case { buffered: false, ring: 1, pipe: 1, kill: vec![0, 1, 2, 3], timers: true, ..base });
}

/// Who sleeps in the kernel is not woken by anybody: what is unread has to be there before.
#[test]
fn a_writer_that_sleeps() {
    let base = Case {
        buffered: false,
        ..case("unseen reader, sleeping writer", &[&[Write(3), BeforeSleep]], &[&[Read(1), RawRead(2)]])
    };
    holds(&base);
    holds(&Case {
        name: "a reader that polls, sleeping writer",
        writers: vec![vec![Write(1), Write(1), BeforeSleep]],
        readers: vec![vec![Poll, Read(1), Poll, TryRead]],
        ..base.clone()
    });
    // What it publishes while the reader goes to sleep does not fit into the kernel at once.
    holds(&Case {
        name: "more than the kernel takes, sleeping writer",
        pipe: 1,
        writers: vec![vec![Write(1), TryAll(2), BeforeSleep]],
        readers: vec![vec![Read(3)]],
        ..base.clone()
    });
    holds(&Case {
        name: "withdrawn from a sleeping writer",
        readers: vec![vec![Read(1), Withdraw, RawRead(2)]],
        ..base.clone()
    });
    holds(&Case {
        name: "withdrawn from a sleeping writer, all read",
        writers: vec![vec![Write(1), Write(1), BeforeSleep]],
        readers: vec![vec![Read(2), Withdraw]],
        ..base.clone()
    });
    holds(&Case {
        name: "withdrawn, and read in the library after an unseen write",
        writers: vec![vec![Write(1), Write(1), BeforeSleep, RawWrite(1)]],
        readers: vec![vec![Read(2), Withdraw, Read(1)]],
        ..base.clone()
    });
    holds(&Case {
        name: "withdrawn and renewed, writer sleeps between",
        writers: vec![vec![Write(2), BeforeSleep, Write(1), BeforeSleep]],
        readers: vec![vec![Read(1), Withdraw, Renew, Read(2)]],
        ..base
    });
}

#[test]
fn a_writer_that_never_comes_back() {
    let base = case("two readers, an idle writer", &[&[Write(1), Write(1)]], &[&[Read(1)], &[Read(1)]]);
    holds(&Case { buffered: false, ..base });
    let mixed = [RawWrite(1), Write(1), RawWrite(1), Close];
    let base = case("unseen writes before and after", &[&mixed], &[&[ReadToEnd(2)]]);
    holds(&Case { buffered: false, ..base });
}

/// What was written without waiting arrives without any further call of the writer.
#[test]
fn a_writer_that_tries_and_never_comes_back() {
    let tries = [TryWrite(2), TryWrite(2), TryWrite(2)];
    let base = Case { is_asked: true, ..case("tries, and no further call", &[&tries], &[&[ReadWritten]]) };
    holds(&Case { buffered: false, ..base.clone() });
    holds(&Case {
        name: "two try",
        buffered: false,
        writers: vec![tries[1..].into(), tries[2..].into()],
        ..base
    });
}

/// The kernel is full when the writer ends, and a reader that has left the ring comes late.
#[test]
fn an_end_before_everything_is_back() {
    let tries = [TryWrite(2), TryWrite(2), Close];
    let base = Case {
        buffered: false,
        hurries: true,
        timers: true,
        ring: 2,
        pipe: 1,
        ..case("closed before everything is back", &[&tries], &[&[ReadToEnd(1)]])
    };
    holds(&base);
    let twice = [TryWrite(2), TryWrite(2), ShutDown, ShutDown, Write(1)];
    holds(&Case { name: "shut down before, twice", writers: vec![twice.to_vec()], ..base.clone() });
    holds(&Case {
        name: "shut down before, twice, and a reader that stays in the library",
        writers: vec![twice.to_vec()],
        readers: vec![vec![TryRead, Seen, ReadToEnd(1)]],
        ..base.clone()
    });
    holds(&Case {
        name: "shut down before, twice, and a reader that leaves the library",
        may_abort: true,
        writers: vec![twice.to_vec()],
        readers: vec![vec![TryRead, Withdraw, RawToEnd]],
        ..base.clone()
    });
    holds(&Case {
        name: "closed before, one of two readers stays in the library",
        may_abort: true,
        writers: vec![vec![TryWrite(2), TryWrite(1), Close]],
        readers: vec![vec![TryRead, Seen, ReadToEnd(1)], vec![Withdraw]],
        ..base
    });
}
