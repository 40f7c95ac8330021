//! Observes a live fabric: the sweep, the forwarding tables and the counters become a [`Snapshot`].
//! Nothing is set.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use mad::header::Path;
use mad::values::NodeKind;
use mad::windowed::Limits;
use mad::{MadTransport, TransportError};
use topology::{Graph, Kind, NodeIx, counted};

use crate::counters::{self, Collected, Plan};
use crate::snapshot::{Concern, PortFacts, Snapshot};
use crate::sweep::{self, Found, SweepError};
use crate::vls::{self, VlMaps};
use crate::{names, tables};

/// Concerns that are kept word by word.
const MOST_CONCERNS: usize = 1_000;

/// What to examine.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Requests in flight, and how long each may take.
    pub limits: Limits,
    /// Read the counters.
    pub counters: bool,
    /// Read the tables.
    pub tables: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), counters: true, tables: true }
    }
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The sweep failed.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Datagrams can't be sent.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Where the sweep stood no cable leads on. A fabric of one node that would be judged is not what anybody
    /// asked for.
    #[error("{0} has no link: nothing beyond it can be seen. Check its cable, or observe from another port")]
    NoLink(String),
}

/// Where the sweep stood, in words, if no link leads on from there: not by the one port of a host, nor by any
/// port of a switch. A port that reported no state counts as one that may lead on.
fn unlinked(found: &Found) -> Option<String> {
    let (here, graph) = (NodeIx(0), &found.graph);
    let info = &found.node(here)?.info;
    if found.nodes.len() > 1 {
        return None;
    }
    let is_switch = info.kind() == NodeKind::SWITCH;
    let mut ways_out = graph.ports(here).filter(|port| {
        if is_switch { graph.number(*port) > 0 } else { graph.number(*port) == info.local_port() }
    });
    if !ways_out.all(|port| found.port(port).is_some_and(|it| !sweep::is_up(it))) {
        return None;
    }
    Some(vantage_point(graph, info.local_port()))
}

/// The place that the sweep starts from, in words: the first node, and for a host its port.
pub(crate) fn vantage_point(graph: &Graph, local_port: u8) -> String {
    let here = NodeIx(0);
    match graph.port(here, local_port).filter(|_| graph.kind(here) != Kind::Switch) {
        Some(port) => format!("This port ({})", names::place(graph, port)),
        None => format!("This switch ({})", names::label(graph, here)),
    }
}

/// What was seen, and with what the counters can be read again.
#[derive(Debug)]
pub struct Observed {
    /// The fabric.
    pub snapshot: Snapshot,
    /// For reading counters without looking for ports anew.
    pub plan: Plan,
    /// The directed route to each node.
    pub paths: Vec<Path>,
    /// Seconds: sweep, tables, counters.
    pub seconds: [f64; 3],
}

/// Observes the fabric behind a transport. `tell` gets the progress; `stop` ends it.
///
/// # Errors
/// No local node, no link that leads on from there, or `stop` returned true.
pub fn observe<T: MadTransport + ?Sized>(
    transport: &mut T,
    source: &str,
    options: &Options,
    tell: &mut dyn FnMut(&str),
    stop: &dyn Fn() -> bool,
) -> Result<Observed, ObserveError> {
    let of_sweep = sweep::Options { limits: options.limits, ..sweep::Options::default() };
    let mut progress = |at: &sweep::Progress| {
        let (nodes, open) = (counted(at.nodes, "node"), counted(at.open, "request"));
        tell(&format!("sweep: {nodes}, {open} in flight"));
    };
    let found = sweep::sweep(transport, &of_sweep, &mut progress, stop)?;
    if let Some(here) = unlinked(&found) {
        return Err(ObserveError::NoLink(here));
    }
    let mut concerns: Vec<Concern> =
        found.anomalies.iter().map(|anomaly| Concern { grave: true, text: anomaly.to_string() }).collect();
    let mut seconds = [found.took.as_secs_f64(), 0.0, 0.0];
    let mut of_switches = None;
    let invented = found.anomalies.iter().any(|anomaly| matches!(anomaly, sweep::Anomaly::TooMany { .. }));
    if options.tables && invented {
        let text = "no forwarding tables (LFTs) were read: the fabric has more nodes than are swept";
        concerns.push(Concern { grave: false, text: text.to_owned() });
    } else if options.tables {
        tell("reading the forwarding tables (LFTs) of the switches");
        let begun = transport.now();
        let read = tables::read(transport, &found, options.limits, stop)?;
        seconds[1] = transport.now().saturating_sub(begun).as_secs_f64();
        concerns.extend(read.silent.iter().map(|switch| Concern {
            grave: true,
            text: format!("switch {} did not return its whole LFT", names::label(&found.graph, *switch)),
        }));
        if let Some(why) = &read.why_none {
            concerns.push(Concern {
                grave: false,
                text: format!("no forwarding tables (LFTs) were read: {why}"),
            });
        }
        of_switches = read.tables;
    }
    let mut plan = Plan::new(&found.graph);
    let paths: Vec<Path> = found.nodes.iter().map(|node| node.path).collect();
    let mut snapshot = Snapshot {
        taken: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        source: source.to_owned(),
        ports: found.ports.iter().map(|info| info.as_ref().map(PortFacts::of)).collect(),
        graph: found.graph,
        counters: None,
        uncounted: Vec::new(),
        tables: of_switches,
        vl_maps: VlMaps::new(),
        more_concerns: concerns.len().saturating_sub(MOST_CONCERNS) as u64 + found.more_anomalies,
        concerns,
    };
    snapshot.concerns.truncate(MOST_CONCERNS);
    if let Some(tables) = &snapshot.tables {
        snapshot.vl_maps = vls::read(transport, &snapshot, &paths, tables, options.limits, stop)?;
    }
    if options.counters {
        tell("reading the counters of all ports");
        let of_counters = counters::Options { limits: options.limits, extended: true };
        let collected = counters::collect(transport, &mut plan, &of_counters, stop)?;
        seconds[2] = collected.took.as_secs_f64();
        count(&mut snapshot, &collected);
    }
    if stop() {
        return Err(SweepError::Stopped(snapshot.graph.node_count()).into());
    }
    Ok(Observed { snapshot, plan, paths, seconds })
}

/// Puts what was collected into a snapshot.
pub fn count(snapshot: &mut Snapshot, collected: &Collected) {
    let readings: BTreeMap<_, _> =
        collected.readings.iter().map(|reading| (reading.port, reading.counters)).collect();
    snapshot.counters = Some(readings);
    snapshot.uncounted = collected.missing.iter().map(|(port, why)| (*port, why.to_string())).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Agents;
    use crate::agents::sim_port::SimPort;
    use mad::in_process::InProcess;
    use topology::build::{FatTree, fat_tree};

    /// An observation from the first host or switch, some cables of which were pulled.
    fn look_from(kind: Kind, pulled: impl Fn(u8) -> bool) -> Result<Observed, ObserveError> {
        let mut agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
        assert!(agents.bring_up());
        let here = agents.graph().nodes_of(kind).next().unwrap();
        let cables: Vec<_> = agents.graph().cabled(here).map(|(near, _)| near).collect();
        for cable in cables {
            assert!(!pulled(agents.graph().number(cable)) || agents.unlink(cable));
        }
        let port = agents.place(here).unwrap();
        let mut transport = InProcess::new(SimPort { agents, port });
        observe(&mut transport, "a test", &Options::default(), &mut |_| (), &|| false)
    }

    /// Without an active link there is no fabric to judge: everything in a plan would be missing.
    #[test]
    fn who_stands_behind_a_pulled_cable_is_told_so() {
        let said = |kind| look_from(kind, |_| true).unwrap_err().to_string();
        let host = "This port (host00000/1) has no link: nothing beyond it can be seen. ";
        assert!(said(Kind::Host).starts_with(host), "{}", said(Kind::Host));
        let switch = "This switch (leaf000) has no link: nothing beyond it can be seen. ";
        assert!(said(Kind::Switch).starts_with(switch), "{}", said(Kind::Switch));
        // One cable of several is enough.
        let seen = look_from(Kind::Switch, |number| number > 1).unwrap();
        assert!(seen.snapshot.graph.node_count() > 1);
        assert!(look_from(Kind::Host, |_| false).is_ok());
    }
}
