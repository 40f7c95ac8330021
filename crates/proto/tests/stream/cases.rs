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
        kill: vec![],
        reset_on_death: false,
        overdue: false,
        timers: false,
        stops: false,
        buffered: true,
        may_abort: false,
        mutant: None,
    }
}

/// Searches, prints the size of what was searched, and fails with the way to the fault.
pub(crate) fn holds(case: &Case) {
    let searched = search(case, 4_000_000);
    println!("{}: {} states, {} steps", case.name, searched.states, searched.steps);
    if let Some(fault) = searched.fault {
        panic!("{}: {}\n{}", case.name, fault.what, fault.trace.join("\n"));
    }
}

use Op::{Close, RawRead, RawToEnd, RawWrite, Read, ReadToEnd, Renew, TryRead, TryWrite, Withdraw, Write};

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
    holds(&case("tries, stores delayed", &[&[TryWrite(2), TryWrite(2), Close]], &[&[ReadToEnd(2)]]));
}

#[test]
fn several_holders() {
    let one = [Write(1), Close];
    holds(&Case { buffered: false, ..case("two writers", &[&one, &[Write(2), Close]], &[&[ReadToEnd(2)]]) });
    holds(&Case {
        buffered: false,
        ..case("two readers", &[&[Write(2), Close]], &[&[ReadToEnd(1)], &[ReadToEnd(1)]])
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
        writers: vec![tries.to_vec(), vec![Write(1), Close]],
        ..base
    });
}

#[test]
fn a_reader_is_killed() {
    let base = case("killed reader", &[&[Write(4), Close]], &[&[ReadToEnd(1)]]);
    holds(&Case { buffered: false, kill: vec![1], ..base.clone() });
    holds(&Case {
        name: "one of two readers killed",
        buffered: false,
        timers: true,
        kill: vec![1],
        readers: vec![vec![ReadToEnd(1)], vec![ReadToEnd(1)]],
        writers: vec![vec![Write(2), Close]],
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
        name: "another holder reads before the cut",
        timers: false,
        overdue: false,
        writers: vec![vec![RawWrite(2), Write(2), Close]],
        readers: vec![vec![RawRead(1)], vec![ReadToEnd(2)]],
        ..base
    });
}
