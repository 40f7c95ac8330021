//! The connection test's report as text.

use std::fmt::Write;

use super::{CableReport, Kind, LinkReport, LinkState, Measured, RailReport};
use crate::run::counted;
use crate::verdict::Verdict;

impl CableReport {
    /// For a terminal or a mail. The last line is the result.
    pub fn render(&self) -> String {
        let plan = match &self.plan.path {
            Some(path) => format!("plan {}", path.display()),
            None => "no plan: every node linked with every other".to_owned(),
        };
        let mut text = format!(
            "tieline cable: cluster `{}`, {}, {plan} ({})\n\n",
            self.cluster,
            counted(self.nodes.len(), "node"),
            counted(self.plan.links.len(), "link")
        );
        let _ = writeln!(
            text,
            "{:>6} {:>7}  {:<10} {:<10} {:>10} {:>8}  {:<20} plan",
            "node", "adapter", "link", "state", "since", "partner", "partner's host"
        );
        for node in &self.nodes {
            if let Some(why) = &node.error {
                let host = node.host.as_ref().map(|host| format!(" (on {host})")).unwrap_or_default();
                let _ = writeln!(text, "{:>6}  does not respond: {why}{host}", node.node.get());
            }
            for link in &node.links {
                text.push_str(&line(node.node.get(), link));
                link.rails.iter().for_each(|rail| text.push_str(&rail_line(rail)));
            }
        }
        if !self.measured.is_empty() {
            text.push_str(&measured(&self.measured));
        }
        self.findings(&mut text);
        text
    }

    fn findings(&self, text: &mut String) {
        if !self.deviations.is_empty() || !self.doubts.is_empty() {
            text.push('\n');
        }
        for deviation in &self.deviations {
            let _ = writeln!(text, "[{}] {}", deviation.kind.name().to_uppercase(), deviation.text);
            let _ = writeln!(text, "    next: {}", deviation.next_step);
        }
        for doubt in &self.doubts {
            let _ = writeln!(text, "[IN DOUBT] {doubt}");
        }
        if self.partial {
            text.push_str("ended early: not everything was measured\n");
        }
        let _ = writeln!(text, "\n{}", self.counted());
        let result = match self.verdict {
            Verdict::Pass => "PASSED",
            Verdict::Fail => "FAILED",
            Verdict::Inconclusive => "INCONCLUSIVE",
        };
        let _ = writeln!(text, "TEST RESULT: *{result}*");
    }

    fn counted(&self) -> String {
        let count = |kind| self.deviations.iter().filter(|deviation| deviation.kind == kind).count();
        let kinds = [
            Kind::Missing,
            Kind::Swapped,
            Kind::Elsewhere,
            Kind::Adapter,
            Kind::Extra,
            Kind::Slow,
            Kind::Unmeasured,
        ];
        let some: Vec<String> = kinds
            .into_iter()
            .filter(|kind| count(*kind) > 0)
            .map(|kind| format!("{} {}", count(kind), kind.name()))
            .collect();
        let mut text = counted(self.deviations.len(), "deviation");
        if !some.is_empty() {
            let _ = write!(text, ": {}", some.join(", "));
        }
        if !self.doubts.is_empty() {
            let _ = write!(text, ", {} inconclusive", self.doubts.len());
        }
        text
    }
}

fn line(node: u32, link: &LinkReport) -> String {
    let [a, b] = link.link;
    // The responding node is known only where one responds.
    let partner = if link.state == LinkState::Up { link.partner.to_string() } else { "-".into() };
    let plan = match (link.problems.as_slice(), link.planned) {
        ([], true) => "as planned".to_owned(),
        ([], false) => "not in the plan".to_owned(),
        (problems, _) => {
            problems.iter().map(|kind| kind.name().to_uppercase()).collect::<Vec<_>>().join(", ")
        }
    };
    format!(
        "{node:>6} {:>7}  {:<10} {:<10} {:>8.1} s {partner:>8}  {:<20} {plan}\n",
        link.adapter.to_string(),
        format!("{a}-{b}"),
        link.state.name(),
        link.since_ns as f64 / 1e9,
        link.peer_host,
    )
}

/// Below the line of its link.
fn rail_line(rail: &RailReport) -> String {
    let there = rail.there.map_or_else(|| "no such rail there".to_owned(), |there| there.to_string());
    let reduced = rail.reduced.as_ref().map_or_else(String::new, |reduced| {
        let (count, seconds) =
            (counted(reduced.connections as usize, "connection"), reduced.since_ns as f64 / 1e9);
        format!(", not used by {count} for {seconds:.1} s ({})", reduced.why)
    });
    format!("{:>16}rail {}: {} - {there}{reduced}\n", "", rail.number, rail.here)
}

fn measured(all: &[Measured]) -> String {
    let mut text = format!(
        "\n{:>6} {:>6} {:>12} {:>13} {:>12}  verdict\n",
        "from", "to", "MB/s", "% of a copy", "half rtt ns"
    );
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
    for one in all {
        let verdict = match &one.error {
            Some(why) => format!("not measured: {why}"),
            None if one.checks.is_empty() => "no limits".to_owned(),
            None => Verdict::worst(one.checks.iter().map(|check| check.verdict)).to_string(),
        };
        let _ = writeln!(
            text,
            "{:>6} {:>6} {:>12} {:>13} {:>12}  {verdict}{}",
            one.pair[0].get(),
            one.pair[1].get(),
            show(one.bandwidth_mb_s),
            show(one.copy_percent),
            show(one.half_rtt_ns),
            if one.twice { ", measured twice" } else { "" }
        );
    }
    text
}
