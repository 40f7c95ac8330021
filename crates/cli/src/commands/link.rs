//! `tieline link`: injects faults into links.

use shm::sync::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterDir;
use proto::wire::status::{LinkStatus, SessionState};
use serde_json::json;
use tieline::{LinkChange, LinkFaults, Node, NodeId};
use topology::counted;

use super::{cluster_dir, no_such_node, target, usage};
use crate::args::Common;
use crate::args::link::{Clear, Degrade, Ends, Flap, LinkAction};
use crate::exit::{Failure, Outcome, PASS};
use crate::interrupt::for_each_signal;
use crate::output::Output;

/// Schema of what is printed.
const SCHEMA: &str = "tieline.links/1";

/// A link as one of its ends sees it.
type Seen = (NodeId, LinkStatus);

pub(super) fn run(common: &Common, action: &LinkAction, output: Output) -> Outcome {
    // A mistake on the command line is one whether or not a cluster runs.
    check(action)?;
    let cluster = Cluster::of(common)?;
    match action {
        LinkAction::List => {}
        LinkAction::Down(ends) => cluster.on_both_ends(*ends, LinkChange::Down)?,
        LinkAction::Up(ends) => cluster.on_both_ends(*ends, LinkChange::Up)?,
        LinkAction::Flap(flap) => return cluster.flap(flap, output),
        LinkAction::Swap(ends) => cluster.swap(*ends)?,
        LinkAction::Degrade(degrade) => cluster.degrade(degrade)?,
        LinkAction::Clear(clear) => cluster.clear(clear)?,
    }
    let (links, silent) = cluster.links()?;
    let mentioned = |(node, link): &Seen| match action {
        LinkAction::Down(ends) | LinkAction::Up(ends) => is_between(*node, link.peer, *ends),
        LinkAction::Degrade(degrade) => is_between(*node, link.peer, degrade.ends),
        LinkAction::Swap(ends) => [ends.a, ends.b].contains(&link.peer),
        LinkAction::List | LinkAction::Flap(_) | LinkAction::Clear(_) => true,
    };
    let shown: Vec<Seen> = links.into_iter().filter(mentioned).collect();
    let entries = || {
        shown
            .iter()
            .map(|(node, link)| Ok(json!({ "node": node, "link": serde_json::to_value(link)? })))
            .collect::<Result<Vec<_>, serde_json::Error>>()
    };
    output.result(|| Ok(json!({ "schema": SCHEMA, "links": entries()? })), || table(&shown))?;
    // Of what was asked for, something is not known.
    silent.map_or(Ok(PASS), Err)
}

/// What the command line alone decides: the ends of a link differ, and the faults are possible.
fn check(action: &LinkAction) -> Result<(), Failure> {
    let ends = match action {
        LinkAction::Down(ends) | LinkAction::Up(ends) => Some(*ends),
        LinkAction::Flap(flap) => Some(flap.ends),
        LinkAction::Degrade(degrade) => {
            degrade.faults().check().map_err(usage)?;
            Some(degrade.ends)
        }
        LinkAction::Clear(Clear { a: Some(a), b: Some(b) }) => Some(Ends { a: *a, b: *b }),
        LinkAction::Swap(Ends { a, b }) if a == b => {
            return Err(usage(format!("node {a} cannot be swapped with itself: name two nodes")));
        }
        LinkAction::Swap(_) | LinkAction::List | LinkAction::Clear(_) => None,
    };
    match ends {
        Some(Ends { a, b }) if a == b => {
            Err(usage(format!("node {a} has no link to itself: name two nodes")))
        }
        _ => Ok(()),
    }
}

fn is_between(node: NodeId, peer: NodeId, ends: Ends) -> bool {
    (node, peer) == (ends.a, ends.b) || (node, peer) == (ends.b, ends.a)
}

fn table(links: &[Seen]) -> String {
    let mut text = format!(
        "{:>6} {:>6}  {:<10} {:>13} {:>15}  {:<24}  {}\n",
        "node", "peer", "state", "state changes", "total time down", "swapped", "faults"
    );
    for (node, link) in links {
        let state = match (link.taken_down, link.session) {
            (true, _) => "taken down",
            (false, SessionState::Valid) => "up",
            (false, _) => "no session",
        };
        let swapped = if link.partner == link.peer {
            "-".to_owned()
        } else {
            format!("leads to node {} instead", link.partner)
        };
        let faults = if link.faults.is_none() { "-".to_owned() } else { link.faults.to_string() };
        text += &format!(
            "{:>6} {:>6}  {state:<10} {:>13} {:>13.1} s  {swapped:<24}  {faults}\n",
            node.get(),
            link.peer.get(),
            link.generation,
            link.downtime_ns as f64 / 1e9,
        );
    }
    text
}

/// The cluster's nodes, each attached to when it is needed.
struct Cluster {
    dir: ClusterDir,
    target: ::verify::Target,
}

impl Cluster {
    fn of(common: &Common) -> Result<Self, Failure> {
        let target = target(&Common { node: None, ..common.clone() })?;
        Ok(Self { dir: cluster_dir(common)?, target })
    }

    fn node(&self, node: NodeId) -> Result<Node, Failure> {
        if !self.target.nodes.contains(&node) {
            return Err(no_such_node(&self.dir, node, self.target.nodes.clone()));
        }
        Ok(self.target.attach(node, "tieline-link")?)
    }

    fn change(&self, node: NodeId, peer: NodeId, change: LinkChange) -> Result<(), Failure> {
        Ok(self.node(node)?.change_link(peer, change)?)
    }

    /// An end on another host learns of it from the manager of the end that is here.
    fn on_both_ends(&self, ends: Ends, change: LinkChange) -> Result<(), Failure> {
        let Ends { a, b } = ends;
        let is_elsewhere = [self.is_elsewhere(a, b)?, self.is_elsewhere(b, a)?];
        for ((node, peer), is_elsewhere) in [(a, b), (b, a)].into_iter().zip(is_elsewhere) {
            if !is_elsewhere {
                self.change(node, peer, change)?;
            }
        }
        Ok(())
    }

    /// Whether a node is on another host, as its peer says that is here.
    fn is_elsewhere(&self, node: NodeId, peer: NodeId) -> Result<bool, Failure> {
        let [is_here, is_peer_here] = [node, peer].map(|node| self.target.nodes.contains(&node));
        if is_here || !is_peer_here {
            return Ok(false);
        }
        let links = self.node(peer)?.status()?.links;
        Ok(links.iter().any(|link| link.peer == node && link.other_host))
    }

    /// Every node that connects to one of the two reaches the other from now on, or no longer.
    fn swap(&self, ends: Ends) -> Result<(), Failure> {
        let Ends { a, b } = ends;
        self.may_swap(ends)?;
        for end in [a, b] {
            self.node(end)?;
        }
        let callers: Vec<NodeId> =
            self.target.nodes.iter().copied().filter(|node| *node != a && *node != b).collect();
        if callers.is_empty() {
            return Err(usage(
                "swapping needs a third node that connects to both: start three with `tieline up --faults --nodes 3`",
            ));
        }
        for caller in callers {
            let swapped =
                self.node(caller)?.status()?.links.iter().any(|link| link.peer == a && link.partner == b);
            let leads_to = |other: NodeId| LinkChange::LeadsTo((!swapped).then_some(other));
            self.change(caller, a, leads_to(b))?;
            self.change(caller, b, leads_to(a))?;
        }
        Ok(())
    }

    /// Both directions get the faults, or neither does.
    fn degrade(&self, degrade: &Degrade) -> Result<(), Failure> {
        let faults = LinkChange::Faults(degrade.faults());
        let Ends { a, b } = degrade.ends;
        // Programs inject what they send, and the managers of other hosts are not asked to have it done
        // there.
        if self.is_elsewhere(a, b)? {
            return Err(usage(format!(
                "node {a} is on another host, where what it sends is degraded: run this command there, with --one-way"
            )));
        }
        if !degrade.one_way && self.is_elsewhere(b, a)? {
            return Err(usage(format!(
                "node {b} is on another host, where what it sends is degraded: add --one-way for what node {a} sends, and run `tieline \
                 link degrade {b} {a} … --one-way` on that host for the other direction"
            )));
        }
        if degrade.one_way {
            return self.change(a, b, faults);
        }
        // A node that is not there is an error before anything is changed.
        let (node, other) = (self.node(a)?, self.node(b)?);
        let link = node.status()?.links.into_iter().find(|link| link.peer == b);
        let before = link.map_or_else(LinkFaults::default, |link| link.faults);
        node.change_link(b, faults)?;
        let Err(error) = other.change_link(a, faults) else { return Ok(()) };
        let Failure { status, error } = Failure::from(error);
        let error = match node.change_link(b, LinkChange::Faults(before)) {
            Ok(()) => error.context(format!("link {a}-{b} was not changed")),
            Err(undo) => error.context(format!(
                "link {a}-{b} was changed in the direction from node {a} to node {b} alone, which could not be undone ({undo}): \
                 `tieline link clear {a} {b}` removes it when both managers run"
            )),
        };
        Err(Failure { status, error })
    }

    /// Who connects to which node is changed at all nodes that connect, which may be on other hosts.
    fn may_swap(&self, ends: Ends) -> Result<(), Failure> {
        let Ends { a, b } = ends;
        for (node, peer) in [(a, b), (b, a)] {
            if self.is_elsewhere(node, peer)? {
                return Err(anyhow::anyhow!(
                    "link {a}-{b}: node {node} is on another host, and `swap` acts only on links within one host; nothing was \
                     changed: test with a link that is down instead, `tieline link down {a} {b}`"
                )
                .into());
            }
        }
        Ok(())
    }

    /// The links to clear, as their ends on this host see them.
    fn cleared(&self, clear: &Clear) -> Result<Vec<(NodeId, NodeId)>, Failure> {
        if let (Some(a), Some(b)) = (clear.a, clear.b) {
            let mut ends = Vec::new();
            for (node, peer) in [(a, b), (b, a)] {
                // An end on another host learns of it from the manager of the end that is here.
                if !self.is_elsewhere(node, peer)? {
                    ends.push((node, peer));
                }
            }
            return Ok(ends);
        }
        let nodes = &self.target.nodes;
        let mut pairs: Vec<_> =
            nodes.iter().flat_map(|a| nodes.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b).collect();
        for node in nodes {
            // A node that does not respond is an error when its links are cleared.
            let Ok(status) = self.node(*node).and_then(|node| Ok(node.status()?)) else { continue };
            let far = status.links.iter().filter(|link| link.other_host);
            pairs.extend(far.map(|link| (*node, link.peer)));
        }
        Ok(pairs)
    }

    fn clear(&self, clear: &Clear) -> Result<(), Failure> {
        for (a, b) in self.cleared(clear)? {
            let node = self.node(a)?;
            node.change_link(b, LinkChange::Up)?;
            if node.info().faults {
                node.change_link(b, LinkChange::Faults(LinkFaults::default()))?;
                node.change_link(b, LinkChange::LeadsTo(None))?;
            }
        }
        Ok(())
    }

    fn flap(&self, flap: &Flap, output: Output) -> Outcome {
        let stop = Arc::new(AtomicBool::new(false));
        let signalled = Arc::new(AtomicUsize::new(usize::from(PASS)));
        for_each_signal(|signal| {
            let status = 128 + signal.unsigned_abs() as usize;
            signal_hook::flag::register_usize(signal, Arc::clone(&signalled), status)?;
            signal_hook::flag::register(signal, Arc::clone(&stop)).map(drop)
        })?;
        let mut done = 0;
        for number in 1..=flap.count {
            self.on_both_ends(flap.ends, LinkChange::Down)?;
            output.progress(&format!("down, {number} of {}", flap.count));
            pause(flap.down, &stop);
            // Whatever happens, it is left up.
            self.on_both_ends(flap.ends, LinkChange::Up)?;
            done = number;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if number < flap.count {
                pause(flap.up, &stop);
            }
        }
        output.progress_done();
        let Ends { a, b } = flap.ends;
        let partial = done < flap.count;
        output.result(
            || Ok(json!({ "schema": "tieline.flap/1", "ends": [a, b], "times": done, "partial": partial })),
            || {
                let early = if partial { " (ended early)" } else { "" };
                format!("link {a}-{b} was down {}{early}, and is up\n", counted(done, "time"))
            },
        )?;
        // Ended by a signal, it ends with the signal's status.
        Ok(u8::try_from(signalled.load(Ordering::Relaxed)).unwrap_or(PASS))
    }

    /// The links of the nodes that answer, and why one does not.
    fn links(&self) -> Result<(Vec<Seen>, Option<Failure>), Failure> {
        let (mut all, mut silent) = (Vec::new(), None);
        for node in &self.target.nodes {
            match self.node(*node).and_then(|node| Ok(node.status()?)) {
                Ok(status) => all.extend(status.links.into_iter().map(|link| (*node, link))),
                Err(failure) => silent = Some(failure),
            }
        }
        match silent {
            Some(failure) if all.is_empty() => Err(failure),
            silent => Ok((all, silent)),
        }
    }
}

fn pause(ns: u64, stop: &AtomicBool) {
    let end = Instant::now() + Duration::from_nanos(ns);
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}
