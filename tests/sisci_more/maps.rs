//! Maps at a given address, and maps that cannot be written.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Result, ensure};
use tieline_tests::{Cluster, Watchdog};

use crate::program::{Program, Running};

#[test]
fn a_map_lies_at_the_address_that_is_asked_for_and_replaces_nothing() -> Result<()> {
    let _watchdog = Watchdog::usual("a_map_lies_at_the_address_that_is_asked_for_and_replaces_nothing");
    let cluster = Cluster::up(1)?;
    Program::compile("maps")?.run(&cluster, 0, &["fixed"])
}

#[test]
fn a_store_through_a_read_only_map_ends_the_program() -> Result<()> {
    let _watchdog = Watchdog::usual("a_store_through_a_read_only_map_ends_the_program");
    let cluster = Cluster::up(1)?;
    let program = Program::compile("maps")?;
    for side in ["read-only-local", "read-only-remote"] {
        let mut running = program.start(&cluster, 0, &[side])?;
        running.hear("storing")?;
        let status = running.wait()?;
        ensure!(status.signal() == Some(libc::SIGSEGV), "{side}: {status}");
    }
    Ok(())
}

/// Asks until the program sees this: the library's thread follows the link by and by.
fn see(looker: &mut Running, expected: &str) -> Result<()> {
    loop {
        looker.tell("look")?;
        if looker.line()? == expected {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn maps_of_their_own_follow_the_link_on_a_node_with_faults() -> Result<()> {
    let _watchdog = Watchdog::usual("maps_of_their_own_follow_the_link_on_a_node_with_faults");
    let cluster = Cluster::empty()?;
    let up = cluster.tieline(&["up", "--nodes", "2", "--faults"])?;
    ensure!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let program = Program::compile("maps")?;
    let mut server = program.start(&cluster, 1, &["serve"])?;
    server.hear("serving")?;
    let mut looker = program.start(&cluster, 0, &["look"])?;
    looker.hear("mapped")?;
    see(&mut looker, "77 77")?;
    let link = |what| -> Result<()> {
        let output = cluster.tieline(&["link", what, "4", "8"])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    link("down")?;
    see(&mut looker, "0 0")?;
    // Through the one map, into nothing: the other has another nothing.
    looker.tell("store")?;
    looker.hear("0 0")?;
    see(&mut looker, "99 0")?;
    link("up")?;
    see(&mut looker, "77 77")?;
    looker.tell("end")?;
    looker.hear("done")?;
    looker.end()?;
    server.tell("end")?;
    server.hear("done")?;
    server.end()
}
