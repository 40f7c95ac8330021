//! Segments of memory that the program has already.

use anyhow::Result;
use tieline_tests::{Cluster, Watchdog};

use crate::program::Program;

fn run(what: &'static str) -> Result<()> {
    let _watchdog = Watchdog::usual(what);
    let cluster = Cluster::up(1)?;
    Program::compile("register")?.run(&cluster, 0, &[what])
}

#[test]
fn memory_of_every_ordinary_kind_is_shared_and_given_back() -> Result<()> {
    run("kinds")
}

#[test]
fn what_cannot_be_registered_is_refused_with_its_own_error() -> Result<()> {
    run("refused")
}

#[test]
fn no_store_is_lost_while_memory_is_registered_and_given_back_a_thousand_times() -> Result<()> {
    run("under-fire")
}

#[test]
fn a_program_keeps_its_own_handler_of_faults() -> Result<()> {
    run("own-handler")
}
