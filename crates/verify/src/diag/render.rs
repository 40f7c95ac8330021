//! The classic layout of the static test, with this project's facts.

use std::fmt::{self, Display, Formatter};

use proto::wire::status::SessionState;

use super::{DiagReport, Level, NodeDiag};
use crate::status::session_name;
use crate::verdict::Verdict;

const WIDTH: usize = 80;

fn banner(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(f, "\n{:*^WIDTH$}\n", format!("  {text}  "))
}

fn fact(f: &mut Formatter<'_>, name: &str, value: impl Display) -> fmt::Result {
    writeln!(f, "            {name:<27}: {value}")
}

/// From here on all counters of the managers are printed.
const ALL_COUNTERS: u8 = 9;

/// A node's report, in as much detail as asked for.
struct Shown<'r>(&'r NodeDiag, u8);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(node, verbosity) = *self;
        writeln!(f, "{:=<WIDTH$}", "")?;
        writeln!(f, "  tieline static test --  node {}, tieline {}", node.node, env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "{:=<WIDTH$}", "")?;
        if verbosity == 0 {
            node.findings(f)?;
        } else {
            node.adapter_facts(f)?;
            node.link_facts(f)?;
            if verbosity >= ALL_COUNTERS {
                node.counters(f)?;
            }
            node.tests(f)?;
            node.topology(f)?;
        }
        writeln!(f, "\n----------------------------------")?;
        counts(f, |level| node.count(level))?;
        result(f, node.verdict)
    }
}

fn counts(f: &mut Formatter<'_>, count: impl Fn(Level) -> usize) -> fmt::Result {
    writeln!(f, "tieline diag discovered {} note(s).", count(Level::Note))?;
    writeln!(f, "tieline diag discovered {} warning(s).", count(Level::Warning))?;
    writeln!(f, "tieline diag discovered {} error(s).", count(Level::Error))
}

fn result(f: &mut Formatter<'_>, verdict: Verdict) -> fmt::Result {
    let result = if verdict == Verdict::Pass { "PASSED" } else { "FAILED" };
    writeln!(f, "TEST RESULT: *{result}*")
}

impl NodeDiag {
    fn adapter_facts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Number of configured local adapters found: {}\n", self.adapters().len())?;
        let Some(info) = &self.info else { return Ok(()) };
        for adapter in &info.adapters {
            writeln!(f, "Adapter {} > {:<27}: {}", adapter.number, "Type", adapter.kind)?;
            fact(f, "NodeId", info.node)?;
            fact(f, "Cluster", &info.cluster)?;
            fact(f, "Host", &info.host)?;
            fact(f, "Node manager", format_args!("tieline {}, pid {}", info.version, info.manager_pid))?;
            fact(f, "Capabilities", adapter.capabilities.join(", "))?;
            fact(f, "Number of links", self.links.len())?;
        }
        Ok(())
    }

    fn link_facts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.links.is_empty() {
            return Ok(());
        }
        banner(f, "LINK STATE")?;
        for link in &self.links {
            let state = if link.session == SessionState::Valid { "ENABLED" } else { "DISABLED" };
            fact(
                f,
                &format!("Link to node {}", link.peer),
                format_args!("{state}, partner on {}", link.peer_host),
            )?;
            fact(f, "  downtime", format_args!("{:.0} seconds", link.downtime_ns as f64 / 1e9))?;
            fact(f, "  changes of state", link.generation)?;
            let (came, missed) = (link.heartbeats_received, link.heartbeats_missed);
            fact(f, "  heartbeats", format_args!("{came} received, {missed} missed"))?;
        }
        Ok(())
    }

    fn tests(&self, f: &mut Formatter<'_>) -> fmt::Result {
        banner(f, &format!("TEST OF NODE {}", self.node))?;
        for test in &self.self_test {
            match &test.error {
                None => writeln!(f, "OK: {} of node {}.", test.name, self.node)?,
                Some(error) => writeln!(f, "FAILED: {} of node {}: {error}", test.name, self.node)?,
            }
        }
        self.findings(f)
    }

    fn counters(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(counters) = &self.counters else { return Ok(()) };
        banner(f, &format!("COUNTERS OF THE MANAGER OF NODE {}", self.node))?;
        for (name, value) in [
            ("requests", counters.requests),
            ("requests refused", counters.refusals),
            ("connections given out", counters.connections),
            ("programs that attached", counters.attaches),
            ("programs that died", counters.program_deaths),
            ("malformed messages", counters.protocol_errors),
            ("sessions lost", counters.sessions_lost),
        ] {
            fact(f, name, value)?;
        }
        Ok(())
    }

    fn findings(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let level = match finding.level {
                Level::Note => "[NOTE]",
                Level::Warning => "[WARN]",
                Level::Error => "[ERROR]",
            };
            writeln!(f, "{level} {}", finding.text)?;
        }
        Ok(())
    }

    fn topology(&self, f: &mut Formatter<'_>) -> fmt::Result {
        banner(f, &format!("TOPOLOGY SEEN FROM NODE {}", self.node))?;
        writeln!(f, "Adapters found: {}", self.nodes_seen.len())?;
        writeln!(f, "----- List of all nodes found:\n")?;
        let ids: Vec<String> = self.nodes_seen.iter().map(|node| format!("{:04}", node.get())).collect();
        writeln!(f, "Nodes detected:   {}", ids.join("  "))?;
        banner(f, &format!("SESSION STATUS FROM NODE {}", self.node))?;
        for link in &self.links {
            let why = link.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            writeln!(f, "Node {}: Session {}{why}", link.peer, session_name(link.session))?;
        }
        Ok(())
    }
}

impl DiagReport {
    /// As text. `verbosity` 0: only what is wrong; 9: all counters too. The last line is the result of the whole.
    pub fn render(&self, verbosity: u8) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|node| Shown(node, verbosity).to_string()).collect();
        let mut text = nodes.join("\n");
        // The result of the only node is that of the whole.
        if self.nodes.len() != 1 {
            text.push_str(&Whole(self).to_string());
        }
        text
    }
}

/// What closes the reports of several nodes.
struct Whole<'r>(&'r DiagReport);

impl Display for Whole<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        banner(f, "ALL NODES")?;
        for disagreement in &report.disagreements {
            writeln!(f, "[ERROR] {disagreement}")?;
        }
        let failed = report.failed();
        write!(f, "All nodes: {} tested, {} failed", report.nodes.len(), failed.len())?;
        if !failed.is_empty() {
            let ids: Vec<String> = failed.iter().map(ToString::to_string).collect();
            write!(f, " ({})", ids.join(", "))?;
        }
        writeln!(f, ", {} see another topology", report.disagreements.len())?;
        result(f, report.verdict)
    }
}
