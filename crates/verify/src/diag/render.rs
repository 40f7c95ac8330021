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

impl Display for NodeDiag {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:=<WIDTH$}", "")?;
        writeln!(f, "  tieline static test --  node {}, tieline {}", self.node, env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "{:=<WIDTH$}", "")?;
        self.adapter_facts(f)?;
        self.link_facts(f)?;
        self.tests(f)?;
        self.topology(f)?;
        writeln!(f, "\n----------------------------------")?;
        writeln!(f, "tieline diag discovered {} note(s).", self.count(Level::Note))?;
        writeln!(f, "tieline diag discovered {} warning(s).", self.count(Level::Warning))?;
        writeln!(f, "tieline diag discovered {} error(s).", self.count(Level::Error))?;
        let result = if self.verdict == Verdict::Pass { "PASSED" } else { "FAILED" };
        writeln!(f, "TEST RESULT: *{result}*")
    }
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

impl Display for DiagReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            writeln!(f, "{node}")?;
        }
        for disagreement in &self.disagreements {
            writeln!(f, "[ERROR] {disagreement}")?;
        }
        Ok(())
    }
}
