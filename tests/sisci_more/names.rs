//! Nodes by name, and block transfers of SISCI 1.x.

use anyhow::Result;
use tieline_tests::{Cluster, Watchdog};

use crate::program::Program;

#[test]
fn a_program_that_looks_for_its_host_finds_the_peer_first_and_itself_last() -> Result<()> {
    let _watchdog = Watchdog::usual("nodes by name");
    let cluster = Cluster::up(2)?;
    let program = Program::compile("names")?;
    program.run(&cluster, 0, &["4", "8"])?;
    program.run(&cluster, 1, &["8", "4"])
}

#[test]
fn a_block_transfer_has_arrived_when_it_is_waited_for_and_calls_back_once() -> Result<()> {
    let _watchdog = Watchdog::usual("block transfers");
    let cluster = Cluster::up(1)?;
    Program::compile("blocks")?.run(&cluster, 0, &[])
}
