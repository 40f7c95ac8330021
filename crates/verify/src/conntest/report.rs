//! The load test's report: per instance and peer, in the layout of `sciconntest`, with the
//! suspects.

use std::fmt::Write;

use bench::noise::others::Load;
use serde::{Deserialize, Serialize};
use tieline::NodeId;

use super::ledger::Ledger;
use super::own_manager::ManagerOutage;
use crate::run::counted;
use crate::suspect::{Suspect, Suspected};
use crate::swap::Swaps;
use crate::verdict::Verdict;

/// Schema of the report.
pub const SCHEMA: &str = "tieline.conntest/1";

/// A peer came or went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// Nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Came, or went.
    pub here: bool,
    /// Why it went.
    pub why: String,
}

/// One peer, as one instance sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PeerReport {
    /// The node.
    pub node: NodeId,
    /// It answered at least once.
    pub found: bool,
    /// What was counted.
    pub ledger: Ledger,
    /// Its comings and goings.
    pub presence: Vec<Presence>,
    /// Why the session with its manager was lost during the test, the last time; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_lost: Option<String>,
    /// Why it cannot be reached, as the link or the managers say; absent if it only did not answer.
    #[serde(default)]
    pub unreachable: Option<String>,
    /// Why nothing could be exchanged.
    pub error: Option<String>,
}

/// One node's instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InstanceReport {
    /// The node.
    pub node: NodeId,
    /// Its host, where nodes of several hosts took part.
    #[serde(default)]
    pub host: Option<String>,
    /// Its peers, ascending.
    pub peers: Vec<PeerReport>,
    /// Times without the node's manager.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manager_outages: Vec<ManagerOutage>,
    /// Why it did not run.
    pub error: Option<String>,
}

/// A node that was stopped in order, and so took no part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The node.
    pub node: NodeId,
    /// Its host, if that is another one.
    pub host: Option<String>,
}

/// All instances of this program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConntestReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// All nodes were found, and nothing failed.
    pub verdict: Verdict,
    /// Ended early, by request: what is here is what was measured until then.
    pub partial: bool,
    /// That request came while the instances still waited for each other: an instance that was not found may
    /// have been about to answer.
    #[serde(default)]
    pub ended_while_meeting: bool,
    /// How many times the exchange was run.
    pub loops: u32,
    /// Longest block.
    pub block_bytes: u64,
    /// Shortest block.
    pub min_bytes: u64,
    /// Seconds of exchange.
    pub duration_s: f64,
    /// By node.
    pub instances: Vec<InstanceReport>,
    /// Nodes that were stopped in order. That is no failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<Stopped>,
    /// The suspects, if there are any.
    #[serde(rename = "culprits")]
    pub suspects: Vec<Suspected>,
    /// What other work took away meanwhile, if all instances ran in this program.
    #[serde(default)]
    pub load: Load,
}

impl PeerReport {
    /// What is wrong, in words; `None`: nothing.
    pub fn problem(&self) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(error.clone());
        }
        if !self.found {
            let why = self.unreachable.as_ref().map_or(String::new(), |why| format!(": {why}"));
            // Greetings that nobody could read.
            let corrupt = match self.ledger.corrupt {
                0 => String::new(),
                1 => ", 1 word corrupt".to_owned(),
                count => format!(", {count} words corrupt"),
            };
            return Some(format!("not found{why}{corrupt}"));
        }
        let ledger = &self.ledger;
        let mut parts = Vec::new();
        if ledger.failures > 0 {
            let longest_ms = ledger.longest_failure_ns as f64 / 1e6;
            parts.push(format!(
                "{}, the longest {longest_ms:.2} ms",
                counted(ledger.failures as usize, "outage")
            ));
        }
        for (count, what) in [
            (ledger.lost, ["put lost", "puts lost"]),
            (ledger.corrupt, ["block or word corrupt", "blocks or words corrupt"]),
            (ledger.out_of_order, ["block out of order", "blocks out of order"]),
        ] {
            if count > 0 {
                parts.push(format!("{count} {}", what[usize::from(count != 1)]));
            }
        }
        if let Some(why) = &self.session_lost {
            parts.push(format!("the session with node {}'s manager was lost ({why})", self.node));
        }
        (!parts.is_empty())
            .then(|| format!("{}; {} blocks were right", parts.join(", "), ledger.blocks_checked))
    }

    /// Nothing contradicts it but that answers took long: a process that has no processor gives none.
    fn was_only_late(&self) -> bool {
        let Ledger { failures, lost, corrupt, out_of_order, refused, .. } = self.ledger;
        let late = !self.found || failures > 0;
        let said_why = self.error.is_some()
            || self.unreachable.is_some()
            || self.presence.iter().any(|presence| !presence.here);
        late && !said_why && lost + corrupt + out_of_order + refused == 0
    }
}

impl ConntestReport {
    pub(super) fn judge(&mut self) {
        self.blame(&Swaps::default());
        let ran = self.instances.iter().all(|instance| instance.error.is_none());
        let moved = self.bytes_checked() > 0 || self.instances.len() < 2;
        let fine = ran && self.suspects.is_empty() && !self.instances.is_empty();
        let late = self.instances.iter().flat_map(|instance| &instance.peers).any(PeerReport::was_only_late);
        // Ended early, by request, or late beside other work: what was not done has neither passed nor
        // failed.
        let open = self.partial || self.load.is_busy() && (late || !moved);
        self.verdict = match (fine, open || self.has_no_peer() || !self.nobody_else().is_empty()) {
            (true, true) => Verdict::Inconclusive,
            (true, false) if moved => Verdict::Pass,
            _ => Verdict::Fail,
        };
    }

    /// The peers of an only instance, if nothing keeps them from being reached, and none has an instance of
    /// its own: then nothing was tested, and nobody is to blame.
    fn nobody_else(&self) -> Vec<NodeId> {
        let [alone] = self.instances.as_slice() else { return Vec::new() };
        let is_missing =
            |peer: &PeerReport| !peer.found && peer.unreachable.is_none() && peer.error.is_none();
        if alone.peers.iter().all(is_missing) {
            alone.peers.iter().map(|peer| peer.node).collect()
        } else {
            Vec::new()
        }
    }

    /// No node has a peer to exchange data with.
    fn has_no_peer(&self) -> bool {
        self.instances.iter().all(|instance| instance.peers.is_empty())
    }

    /// Nodes whose managers ended or were restarted.
    fn without_manager(&self) -> Vec<Suspected> {
        let failed = self.instances.iter().filter(|instance| !instance.manager_outages.is_empty());
        let suspected = failed.map(|instance| Suspected {
            suspect: Suspect::Node(instance.node),
            evidence: instance
                .manager_outages
                .iter()
                .map(|one| format!("its manager {}", one.text(instance.node)))
                .collect(),
        });
        suspected.collect()
    }

    /// Names the suspects, where these cables are known to be swapped.
    pub fn blame(&mut self, swaps: &Swaps) {
        self.suspects = self.without_manager();
        if !self.nobody_else().is_empty() {
            return;
        }
        let nodes: Vec<NodeId> = self.instances.iter().map(|instance| instance.node).collect();
        let mut bad = Vec::new();
        for instance in &self.instances {
            for peer in &instance.peers {
                // Nobody is blamed for being late beside other work, or when the others did not wait.
                if (self.load.is_busy() || self.ended_while_meeting) && peer.was_only_late() {
                    continue;
                }
                if let Some(problem) = peer.problem() {
                    let pair = [instance.node.min(peer.node), instance.node.max(peer.node)];
                    bad.push((pair, format!("node {} sees: {problem}", instance.node)));
                }
            }
        }
        for pair in swaps.name(&nodes, bad) {
            match self.suspects.iter_mut().find(|known| known.suspect.explains(&pair.suspect)) {
                Some(node) => match pair.suspect {
                    Suspect::Link(_) => node
                        .evidence
                        .extend(pair.evidence.iter().map(|evidence| format!("{}: {evidence}", pair.suspect))),
                    // It names the links itself.
                    _ => node.evidence.extend(pair.evidence),
                },
                None => self.suspects.push(pair),
            }
        }
    }

    /// Bytes that were generated, moved and compared, all instances together.
    pub fn bytes_checked(&self) -> u64 {
        self.totals().bytes_checked
    }

    /// All counters together.
    pub fn totals(&self) -> Ledger {
        let mut all = Ledger::default();
        for peer in self.instances.iter().flat_map(|instance| &instance.peers) {
            all.add(&peer.ledger);
        }
        all
    }

    /// Outages of links and of managers.
    fn outages(&self) -> u64 {
        let managers: usize = self.instances.iter().map(|instance| instance.manager_outages.len()).sum();
        self.totals().failures.saturating_add(managers as u64)
    }

    /// Bytes a second.
    pub fn rate_bytes_per_s(&self) -> f64 {
        if self.duration_s > 0.0 { self.bytes_checked() as f64 / self.duration_s } else { 0.0 }
    }

    /// In one line.
    pub fn summary(&self) -> String {
        let totals = self.totals();
        let mut text = format!(
            "{:.1} MB checked at {:.2} GB/s, {}, {} lost, {} corrupt, {} out of order",
            totals.bytes_checked as f64 / 1e6,
            self.rate_bytes_per_s() / 1e9,
            counted(self.outages() as usize, "outage"),
            counted(totals.lost as usize, "put"),
            totals.corrupt,
            totals.out_of_order
        );
        if self.verdict == Verdict::Fail {
            text.push_str(": ");
            text.push_str(&self.reason());
        }
        if self.has_no_peer() && self.verdict == Verdict::Inconclusive {
            text.push_str(
                " (there is no peer to test: start another node with `tieline node start --node ID`)",
            );
        }
        if self.partial {
            text.push_str(" (partial: ended early)");
        }
        if let Some(reason) =
            self.load.reason().filter(|_| self.verdict == Verdict::Inconclusive && !self.partial)
        {
            text.push_str(&format!(" (the machine was busy: {reason})"));
        }
        text
    }

    /// Why it failed: thing, cause, next step.
    fn reason(&self) -> String {
        let not_run = self.instances.iter().find_map(|one| Some((one.node, one.error.as_ref()?)));
        match (not_run, self.suspects.first()) {
            (Some((node, error)), _) if error.contains("`tieline ") => {
                format!("node {node} did not run: {error}")
            }
            (Some((node, error)), _) => {
                format!("node {node} did not run: {error}: see `tieline diag --node {node}`")
            }
            (None, Some(first)) => first.reason(),
            (None, None) => {
                "no node exchanged anything with another: see `tieline status`, then run it again".to_owned()
            }
        }
    }

    /// A node that this only instance did not find, although nothing keeps it from being reached.
    fn without_instance(&self) -> Option<NodeId> {
        let [alone] = self.instances.as_slice() else { return None };
        alone.peers.iter().find(|peer| !peer.found && peer.unreachable.is_none()).map(|peer| peer.node)
    }

    /// For a terminal: the block of `sciconntest` for each instance, then the whole.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for instance in &self.instances {
            let host = instance.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
            let _ = writeln!(text, " Local node-id      : {}{host}", instance.node);
            if let Some(error) = &instance.error {
                let _ = writeln!(text, " did not run: {error}");
                continue;
            }
            instance.render_block(&mut text, self.loops);
        }
        for suspected in &self.suspects {
            let _ = writeln!(text, "suspect: {suspected}");
        }
        let absent = self.nobody_else();
        if !absent.is_empty() {
            let ids: Vec<String> = absent.iter().map(ToString::to_string).collect();
            let (nodes, have) = if absent.len() == 1 { ("node", "has") } else { ("nodes", "have") };
            let _ = writeln!(
                text,
                "no other node took part: {nodes} {} {have} no instance. Start each with `tieline conntest --node N`, or leave --node \
                 out",
                ids.join(", ")
            );
        } else if let Some(peer) = self.without_instance() {
            let _ = writeln!(
                text,
                "no instance answered on node {peer}: with --node each node needs one of its own; start it with `tieline conntest \
                 --node {peer}`, or leave --node out"
            );
        }
        for Stopped { node, host } in &self.stopped {
            let (on, there) = match host {
                Some(host) => (format!(" on {host}"), " there"),
                None => (String::new(), ""),
            };
            let _ = writeln!(
                text,
                "node {node}{on} was stopped and took no part: `tieline node start --node {node}` starts it{there}"
            );
        }
        let _ = writeln!(text, "conntest: {}", self.summary());
        let _ = writeln!(text, "CONNTEST RESULT: {}", self.verdict);
        text
    }
}

impl InstanceReport {
    fn render_block(&self, text: &mut String, loops: u32) {
        let found = self.peers.iter().filter(|peer| peer.found).count();
        let of_peer = |peer: &PeerReport| {
            let ledger = &peer.ledger;
            ledger.failures + ledger.lost + ledger.corrupt + ledger.out_of_order
        };
        let errors = self.manager_outages.len() as u64 + self.peers.iter().map(of_peer).sum::<u64>();
        let _ = writeln!(text, " SCICONNTEST_REPORT");
        let _ = writeln!(text, " NUM_TESTLOOPS_EXECUTED    {loops}");
        let _ = writeln!(text, " NUM_NODES_FOUND           {found}");
        let _ = writeln!(text, " NUM_ERRORS_DETECTED       {errors}");
        for outage in &self.manager_outages {
            let _ = writeln!(text, " manager of node {} : {}", self.node, outage.text(self.node));
        }
        for peer in &self.peers {
            let (node, ledger) = (peer.node, &peer.ledger);
            let _ = writeln!(text, " node {node} : {}", if peer.found { "Found" } else { "Not found" });
            let _ = writeln!(text, " node {node} : Number of failures : {}", ledger.failures);
            let longest_ms = ledger.longest_failure_ns as f64 / 1e6;
            let _ = writeln!(text, " node {node} : Longest failure    : {longest_ms:7.2} (ms)");
            let _ = writeln!(
                text,
                " node {node} : Bytes sent/checked : {} / {}",
                ledger.bytes_sent, ledger.bytes_checked
            );
            let (lost, corrupt, late) = (ledger.lost, ledger.corrupt, ledger.out_of_order);
            let _ = writeln!(
                text,
                " node {node} : Retries {}, lost {lost}, corrupt {corrupt}, out of order {late}",
                ledger.retries
            );
            for presence in peer.presence.iter().skip(1) {
                let at_s = presence.at_ns as f64 / 1e9;
                let _ = match presence.here {
                    true => writeln!(text, " node {node} : joined at {at_s:.1} s"),
                    false => {
                        writeln!(text, " node {node} : left at {at_s:.1} s ({})", in_words(&presence.why))
                    }
                };
            }
            if let Some(error) = &peer.error {
                let _ = writeln!(text, " node {node} : {error}");
            }
        }
        let _ = writeln!(text, " SCICONNTEST_REPORT_END\n");
    }
}

/// Why a peer left. The document has the names of [`tieline::LossReason`], which scripts compare.
fn in_words(why: &str) -> &str {
    match why {
        "Withdrawn" | "Removed" => "its program withdrew its memory",
        "OwnerDied" => "its program ended",
        "NodeLost" => "its node was stopped, or left the cluster",
        other => other,
    }
}

#[cfg(test)]
mod tests;
