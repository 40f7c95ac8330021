//! Segments that several programs of a node have as their own.

use anyhow::Result;
use tieline_tests::{Cluster, Watchdog};

use crate::program::{Program, Running};

/// One that has created the segment and shared it.
fn sharing(program: &Program, cluster: &Cluster) -> Result<Running> {
    let mut creator = program.start(cluster, 0, &["create"])?;
    creator.hear("created")?;
    creator.tell("share")?;
    creator.hear("shared")?;
    Ok(creator)
}

#[test]
fn two_programs_have_one_segment_until_its_creator_removes_it() -> Result<()> {
    let _watchdog = Watchdog::usual("share");
    let (cluster, program) = (Cluster::up(1)?, Program::compile("share")?);
    let mut creator = program.start(&cluster, 0, &["create"])?;
    creator.hear("created")?;
    let mut other = program.start(&cluster, 0, &["attach"])?;
    other.hear("not shared")?;
    creator.tell("share")?;
    creator.hear("shared")?;
    other.tell("attach")?;
    other.hear("used")?;
    creator.tell("look")?;
    creator.hear("busy")?;
    other.tell("wait")?;
    other.hear("waiting")?;
    creator.tell("remove")?;
    creator.hear("removed")?;
    other.hear("lost")?;
    other.hear("done")?;
    other.end()?;
    creator.tell("end")?;
    creator.hear("done")?;
    creator.end()
}

#[test]
fn the_death_of_the_creator_calls_back_who_is_attached() -> Result<()> {
    let _watchdog = Watchdog::usual("death of the creator");
    let (cluster, program) = (Cluster::up(1)?, Program::compile("share")?);
    let mut creator = sharing(&program, &cluster)?;
    let mut other = program.start(&cluster, 0, &["callback"])?;
    other.hear("attached")?;
    creator.kill()?;
    other.hear("called back")?;
    other.tell("end")?;
    other.hear("done")?;
    other.end()
}

#[test]
fn what_cannot_be_shared_is_refused() -> Result<()> {
    let _watchdog = Watchdog::usual("refused");
    Program::compile("share")?.run(&Cluster::up(1)?, 0, &["refused"])
}
