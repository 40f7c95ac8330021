//! The static test's report in the classic layout, with this project's facts. Each level of detail
//! shows what the one below it does, and more:
//!
//! | level | adds |
//! |---|---|
//! | 0 | what was found, counted, and the result |
//! | 1 | facts of adapters, state and partner of links, tests, topology, sessions |
//! | 2 | since when links are as they are, and how often that changed |
//! | 3 | heartbeats of links |
//! | 4 | what is done to links on purpose |
//! | 5 | each capability of the adapters, and the age of their manager |
//! | 6 | how long each part of the tests took, on each link |
//! | 7 | attached programs |
//! | 8 | segments |
//! | 9 | counters of the manager |

#[cfg(test)]
mod golden;
mod links;
mod manager;

use std::fmt::{self, Display, Formatter};

use super::{DiagReport, Level, NodeDiag, System};
use crate::status::session_name;
use crate::verdict::Verdict;

const WIDTH: usize = 80;

/// From which level on something is shown.
mod level {
    pub(super) const FACTS: u8 = 1;
    pub(super) const HISTORY: u8 = 2;
    pub(super) const HEARTBEATS: u8 = 3;
    pub(super) const FAULTS: u8 = 4;
    pub(super) const CAPABILITIES: u8 = 5;
    pub(super) const DURATIONS: u8 = 6;
    pub(super) const PROGRAMS: u8 = 7;
    pub(super) const SEGMENTS: u8 = 8;
    pub(super) const COUNTERS: u8 = 9;
}

/// How a report is shown.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// In how much detail, 0 to 9.
    pub verbosity: u8,
    /// The name that the tool gives itself: `tieline diag`, or a classic name.
    pub tool: &'static str,
}

/// A heading between as many stars on both sides as fit, after so many empty lines.
fn banner(f: &mut Formatter<'_>, empty: usize, text: &str) -> fmt::Result {
    let stars = "*".repeat(WIDTH.saturating_sub(text.len() + 4) / 2);
    writeln!(f, "{}{stars}  {text}  {stars}\n", "\n".repeat(empty))
}

/// Empty lines before the sections of links and tests, and before what comes of them.
const BEFORE_SECTION: usize = 3;
const BEFORE_RESULT: usize = 1;

fn fact(f: &mut Formatter<'_>, name: &str, value: impl Display) -> fmt::Result {
    writeln!(f, "            {name:<27}: {value}")
}

/// A node's report.
struct Shown<'r> {
    report: &'r DiagReport,
    node: &'r NodeDiag,
    view: View,
}

impl Shown<'_> {
    fn shows(&self, level: u8) -> bool {
        self.view.verbosity >= level
    }

    /// The system of the node's host.
    fn system(&self) -> &System {
        self.node.system.as_ref().unwrap_or(&self.report.system)
    }

    /// As what the node's first adapter is known in headings.
    fn kind(&self) -> String {
        self.node.adapters().first().map_or_else(|| "SHM".to_owned(), |adapter| adapter.kind.to_uppercase())
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { node, view, .. } = self;
        writeln!(f, "{:=<WIDTH$}", "")?;
        writeln!(
            f,
            "  tieline static test --  {} version {} ( node {} )",
            view.tool,
            env!("CARGO_PKG_VERSION"),
            node.node
        )?;
        writeln!(f, "{:=<WIDTH$}", "")?;
        if self.shows(level::FACTS) {
            writeln!(f, "{} compiled in {} bit mode", view.tool, self.system().bits)?;
            self.adapters(f)?;
            self.links(f)?;
            self.manager(f)?;
            self.tests(f)?;
        }
        self.findings(f)?;
        if self.shows(level::FACTS) {
            self.topology(f)?;
        }
        writeln!(f, "\n----------------------------------")?;
        self.counts(f)?;
        result(f, node.verdict)
    }
}

fn result(f: &mut Formatter<'_>, verdict: Verdict) -> fmt::Result {
    let result = match verdict {
        Verdict::Pass => "PASSED",
        Verdict::Inconclusive => "INCONCLUSIVE",
        Verdict::Fail => "FAILED",
    };
    writeln!(f, "TEST RESULT: *{result}*")
}

/// What a part came to that did not pass.
const fn word(in_doubt: bool) -> &'static str {
    if in_doubt { "LATE" } else { "FAILED" }
}

impl Shown<'_> {
    fn counts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, level) in [("note", Level::Note), ("warning", Level::Warning), ("error", Level::Error)] {
            writeln!(f, "{} discovered {} {name}(s).", self.view.tool, self.node.count(level))?;
        }
        Ok(())
    }

    fn tests(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = self.node.node;
        for adapter in self.node.adapters() {
            banner(f, BEFORE_SECTION, &format!("TEST OF ADAPTER {}", adapter.number))?;
        }
        for left_out in &self.node.left_out {
            writeln!(f, "LEFT OUT: {left_out}.")?;
        }
        for test in &self.node.self_test {
            match &test.error {
                None => writeln!(f, "OK: {} of node {id}.", test.name)?,
                Some(error) => writeln!(f, "{}: {} of node {id}: {error}", word(test.in_doubt), test.name)?,
            }
        }
        for (number, link) in self.node.links.iter().enumerate() {
            let Some(test) = self.node.link_tests.iter().find(|test| test.peer == link.peer) else {
                continue;
            };
            if test.failures().next().is_none() {
                writeln!(f, "OK: Link {number} to node {} alive in adapter {}.", link.peer, link.adapter)?;
            }
            for (failure, in_doubt) in test.failures() {
                writeln!(f, "{}: Link {number} to node {}: {failure}", word(in_doubt), link.peer)?;
            }
        }
        if self.shows(level::DURATIONS) {
            self.durations(f)?;
        }
        for adapter in self.node.adapters() {
            if self.node.count(Level::Error) == 0 {
                writeln!(f, "==> Local adapter {} ok.", adapter.number)?;
            }
        }
        Ok(())
    }

    fn durations(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let own = self.node.self_test.iter().map(|part| (None, part));
        let of_links = self
            .node
            .link_tests
            .iter()
            .flat_map(|test| test.parts.iter().map(|part| (Some(test.peer), part)));
        fact(f, "Parts that were tried", own.clone().chain(of_links.clone()).count())?;
        for (peer, part) in own.chain(of_links) {
            let place = peer.map_or_else(|| "self test".to_owned(), |peer| format!("link to node {peer}"));
            fact(f, &part.name, format_args!("{:.1} us, {place}", part.duration_ns as f64 / 1e3))?;
        }
        Ok(())
    }

    fn findings(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for finding in &self.node.findings {
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
        let node = self.node;
        let adapter = node.adapters().first().map_or(0, |adapter| adapter.number.0);
        banner(f, BEFORE_RESULT, &format!("TOPOLOGY SEEN FROM ADAPTER {adapter}"))?;
        writeln!(f, "Adapters found: {}", node.nodes_seen.len())?;
        writeln!(f, "----- List of all nodes found:\n")?;
        let ids: String = node.nodes_seen.iter().map(|node| format!("{:04}  ", node.get())).collect();
        writeln!(f, "Nodes detected:   {}", ids.trim_end())?;
        banner(f, BEFORE_RESULT, &format!("SESSION STATUS FROM ADAPTER {adapter}"))?;
        let mut sessions: Vec<(tieline::NodeId, String)> = node
            .links
            .iter()
            .map(|link| {
                let why = link.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                (link.peer, format!("{}{why}", session_name(link.session)))
            })
            .collect();
        if node.info.is_some() {
            sessions.push((node.node, "valid".into()));
        }
        sessions.sort_by_key(|(node, _)| *node);
        sessions.iter().try_for_each(|(node, session)| writeln!(f, "Node {node}: Session {session}"))
    }
}

impl DiagReport {
    /// As text. The last line is the result of the whole.
    pub fn render(&self, view: View) -> String {
        let shown = |node| Shown { report: self, node, view }.to_string();
        let mut text = self.nodes.iter().map(shown).collect::<Vec<_>>().join("\n");
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
        banner(f, BEFORE_RESULT, "ALL NODES")?;
        for disagreement in &report.disagreements {
            writeln!(f, "[ERROR] {disagreement}")?;
        }
        let total = |level| report.nodes.iter().map(|node| node.count(level)).sum::<usize>();
        writeln!(
            f,
            "All findings: {} note(s), {} warning(s), {} error(s)",
            total(Level::Note),
            total(Level::Warning),
            total(Level::Error)
        )?;
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
