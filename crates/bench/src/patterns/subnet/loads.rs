//! Bring-up, repairs, the change of master, and memory.

use std::{path::Path, sync::Arc, time::Instant};

use topology::{Graph, Kind, NodeIx};

use super::{Lab, Manager, failed, is_up, unaffected, uplink};
use crate::{error::Result, progress::Waiter};

/// Seconds, and what was seen.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The longest of the times.
    pub seconds: f64,
    /// In words.
    pub note: String,
}

/// From the start of `tieline fabric manage --once` to its end. Then the LFTs are read and checked.
pub fn bring_up(program: &Path, graph: &Graph, waiter: &Arc<dyn Waiter>) -> Result<Outcome> {
    let lab = Lab::start(program, graph, waiter)?;
    let begun = Instant::now();
    let manager = lab.manager(lab.host(0), &["--once"])?;
    let (_, up) = manager.until_up()?;
    while manager.process.next(super::LIMIT, waiter)?.is_some() {}
    let seconds = begun.elapsed().as_secs_f64();
    let (_, _, tables) = lab.checked(graph.link_count())?;
    let note = format!(
        "{} switches, {} LIDs, {} links; {} Sets of LFT blocks; read from the switches and checked afterwards",
        tables.switches().len(),
        up["lids"],
        up["links"],
        up["sets"]["lft_blocks"]
    );
    Ok(Outcome { seconds, note })
}

/// A fabric that a manager has brought up and goes on to manage.
fn managed(program: &Path, graph: &Graph, waiter: &Arc<dyn Waiter>) -> Result<(Lab, Manager)> {
    let lab = Lab::start(program, graph, waiter)?;
    let manager = lab.manager(lab.host(0), &[])?;
    manager.until_up()?;
    Ok((lab, manager))
}

/// Until the report of a repair, after a command to the server.
fn repaired(lab: &mut Lab, manager: &Manager, command: &str, links: usize) -> Result<(f64, u64)> {
    let begun = Instant::now();
    lab.tell(command)?;
    let (seconds, report) = manager.until_links(links, begun)?;
    Ok((seconds, report["changed_entries"].as_u64().unwrap_or(0)))
}

/// A cable of a leaf is pulled, and put back, so many times: the longest time until the last entry
/// is written. Entries of routes that the cable was not part of must not change.
pub fn one_link(
    program: &Path,
    graph: &Graph,
    times: usize,
    waiter: &Arc<dyn Waiter>,
) -> Result<Vec<Outcome>> {
    let (mut lab, manager) = managed(program, graph, waiter)?;
    let dead = uplink(graph).ok_or_else(|| failed("the fabric has no cable between switches"))?;
    let place = format!("{} {}", graph.name(graph.owner(dead)), graph.number(dead));
    let (all, mut outcomes) = (graph.link_count(), Vec::new());
    while outcomes.len() < times && (outcomes.is_empty() || !waiter.stop()) {
        let (down, entries) = repaired(&mut lab, &manager, &format!("unlink {place}"), all - 1)?;
        let (mut transport, found, after) = lab.checked(all - 1)?;
        let (up, _) = repaired(&mut lab, &manager, &format!("relink {place}"), all)?;
        // By the same routes as before: what is compared is numbered in the same way.
        let before = lab.tables(&mut transport, &found)?;
        let (changed, whole) = unaffected(&found.graph, &before, &after);
        if whole > 0 {
            return Err(failed(format!(
                "{whole} of {changed} changed entries belong to routes that the cable was not part of"
            )));
        }
        let note = format!(
            "down {down:.3} s, back {up:.3} s; {entries} entries changed, all of them of routes that the cable was part of"
        );
        outcomes.push(Outcome { seconds: down.max(up), note });
    }
    Ok(outcomes)
}

/// A switch without hosts and as far from them as any.
pub(super) fn spine(graph: &Graph) -> Option<NodeIx> {
    let switches = || graph.nodes_of(Kind::Switch);
    let near = |node: NodeIx| graph.cabled(node).any(|(_, far)| graph.kind(graph.owner(far)) == Kind::Host);
    let above_leaf = |node: NodeIx| graph.cabled(node).any(|(_, far)| near(graph.owner(far)));
    let top = switches().find(|node| !near(*node) && !above_leaf(*node));
    top.or_else(|| switches().find(|node| !near(*node)))
}

/// All cables of a switch of the top are pulled, and put back.
pub fn switch(program: &Path, graph: &Graph, times: usize, waiter: &Arc<dyn Waiter>) -> Result<Vec<Outcome>> {
    let (mut lab, manager) = managed(program, graph, waiter)?;
    let spine = spine(graph).ok_or_else(|| failed("the fabric has no switch without hosts"))?;
    let (name, cables) = (graph.name(spine).to_owned(), graph.cabled(spine).count());
    let (all, mut outcomes) = (graph.link_count(), Vec::new());
    while outcomes.len() < times && (outcomes.is_empty() || !waiter.stop()) {
        let (down, entries) = repaired(&mut lab, &manager, &format!("down {name}"), all - cables)?;
        let (up, _) = repaired(&mut lab, &manager, &format!("up {name}"), all)?;
        lab.checked(all)?;
        let note =
            format!("{name}, {cables} cables: dead {down:.3} s, back {up:.3} s; {entries} entries changed");
        outcomes.push(Outcome { seconds: down.max(up), note });
    }
    Ok(outcomes)
}

/// The master is killed: until the one in standby reports that it has brought the fabric up. It must
/// not write any LFT.
pub fn failover(program: &Path, graph: &Graph, tuned: bool, waiter: &Arc<dyn Waiter>) -> Result<Outcome> {
    let lab = Lab::start(program, graph, waiter)?;
    let intervals: &[&str] = if tuned { &["--poll", "100"] } else { &[] };
    let mut master = lab.manager(lab.host(0), &[&["--priority", "3"], intervals].concat())?;
    master.until_up()?;
    let standby = lab.manager(lab.host(5), &[&["--priority", "1"], intervals].concat())?;
    standby.until("it stood by", |line| line["event"] == "role" && line["state"] == "standby")?;
    let killed = Instant::now();
    master.process.kill();
    let (at, up) = standby.until("it took over", |line| line["event"] == "brought_up")?;
    is_up(&up)?;
    if up["sets"]["lft_blocks"] != 0 {
        return Err(failed(format!(
            "{} LFT blocks were written, and nothing had changed",
            up["sets"]["lft_blocks"]
        )));
    }
    lab.checked(graph.link_count())?;
    let note = format!("{} nodes; {} of PortInfo set, no LFT block", up["nodes"], up["sets"]["port_info"]);
    Ok(Outcome { seconds: at.duration_since(killed).as_secs_f64(), note })
}

/// The largest resident size of a manager, in bytes, after a bring-up and the repair of a cable.
pub fn memory(program: &Path, graph: &Graph, waiter: &Arc<dyn Waiter>) -> Result<f64> {
    let (mut lab, manager) = managed(program, graph, waiter)?;
    let dead = uplink(graph).ok_or_else(|| failed("the fabric has no cable between switches"))?;
    let place = format!("{} {}", graph.name(graph.owner(dead)), graph.number(dead));
    let all = graph.link_count();
    repaired(&mut lab, &manager, &format!("unlink {place}"), all - 1)?;
    repaired(&mut lab, &manager, &format!("relink {place}"), all)?;
    manager.peak()
}
