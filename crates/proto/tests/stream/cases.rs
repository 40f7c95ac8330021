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

#[test]
fn one_writer_that_waits() {
    holds(&case("write 3, one by one", &[&[Op::Write(3), Op::Close]], &[&[Op::ReadToEnd(1)]]));
}
