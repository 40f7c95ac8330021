//! A report as text.

use std::fmt::Write as _;

use topology::counted;

use super::{Report, Verdict, Weight};
use crate::counting::Counters;

/// Findings of one kind that are printed; `--json` has more.
const PRINTED: usize = 20;

/// For a terminal.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write(report, &mut text);
    text
}

fn write(report: &Report, out: &mut String) -> std::fmt::Result {
    let of = &report.summary;
    writeln!(out, "fabric: {}", of.source)?;
    let routers = if of.routers > 0 { format!(", {}", counted(of.routers, "router")) } else { String::new() };
    let (cas, switches) = (counted(of.hosts, "CA"), counted(of.switches, "switch"));
    writeln!(out, "{cas}, {switches}{routers}, {}", counted(of.links, "link"))?;
    let counts = |map: &std::collections::BTreeMap<String, usize>| {
        map.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    };
    if !of.rates.is_empty() {
        writeln!(out, "links: {}", counts(&of.rates))?;
    }
    if !of.states.is_empty() {
        writeln!(out, "ports with a link: {}", counts(&of.states))?;
    }
    writeln!(out, "shape: {} ({:.0} % sure)", of.shape, of.shape_confidence * 100.0)?;
    for against in of.shape_against.iter().take(3) {
        writeln!(out, "  against it: {against}")?;
    }
    if !of.managers.is_empty() {
        writeln!(out, "subnet manager (SM): {}", of.managers.join(", "))?;
    }
    match of.counted {
        Some(ports) => writeln!(out, "counters: of {}", counted(ports, "port"))?,
        None => writeln!(out, "counters: n/a, none were read")?,
    }
    match &report.routes {
        Some(routes) => writeln!(
            out,
            "forwarding tables (LFTs): {} of {} of a leaf switch and a destination LID routed, over at most {}; {}",
            routes.pairs - routes.lost - routes.cut,
            counted(routes.pairs, "pair"),
            counted(routes.most_switches, "switch"),
            routes.loop_text()
        )?,
        None => writeln!(out, "forwarding tables (LFTs): n/a, none were read")?,
    }
    match &report.changes {
        Some((since, 0)) => writeln!(out, "changes since {since}: none")?,
        Some((since, changes)) => writeln!(out, "changes since {since}: {changes}")?,
        None => {}
    }
    lists(report, out)?;
    findings(report, out)?;
    let word = match report.verdict {
        Verdict::Pass => "PASSED",
        Verdict::Fail => "FAILED",
        Verdict::Inconclusive => "INCONCLUSIVE",
    };
    writeln!(out, "RESULT: {word}")
}

fn lists(report: &Report, out: &mut String) -> std::fmt::Result {
    if let Some(route) = &report.route {
        let by = if route.by_tables {
            format!("by the LFTs, LID {}", route.lid)
        } else {
            "a shortest path over the cables, as no LFTs were read".to_owned()
        };
        writeln!(out, "\nroute from {} to {} ({by}):", route.from, route.to)?;
        for step in &route.steps {
            writeln!(out, "  {} -> {}  {}", step.out, step.into, step.rate)?;
        }
        if let Some(why) = &route.broken {
            writeln!(out, "  broken: {why}")?;
        }
    }
    if let Some(worst) = &report.worst {
        let since = if worst.since { ", since the earlier snapshot" } else { "" };
        writeln!(out, "\nports with the highest counters, {}{since}:", Counters::specified(worst.category))?;
        for (place, value) in &worst.ports {
            writeln!(out, "  {value:>12}  {place}")?;
        }
        if worst.ports.is_empty() {
            writeln!(out, "  no port has any")?;
        }
    }
    if let Some(nodes) = &report.nodes {
        writeln!(out, "\nnodes:")?;
        for node in nodes {
            let lids = node.lids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let lids = if lids.is_empty() { "-".to_owned() } else { lids };
            writeln!(
                out,
                "  {:<6} {} LID {lids:<6} {:>3} of {:>3} ports  {}",
                node.kind, node.guid, node.cabled, node.ports, node.name
            )?;
        }
    }
    if let Some(links) = &report.links {
        writeln!(out, "\nlinks:")?;
        for link in links {
            writeln!(out, "  {} -- {}  {}  {}", link.a, link.b, link.rate, link.state)?;
        }
    }
    Ok(())
}

fn findings(report: &Report, out: &mut String) -> std::fmt::Result {
    if report.findings.is_empty() {
        let of = &report.summary;
        let unread =
            [(of.counted.is_none(), "counters"), (report.routes.is_none(), "forwarding tables (LFTs)")];
        let unread: Vec<&str> = unread.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
        return match unread.is_empty() {
            true => writeln!(out, "\nnothing is wrong"),
            false => writeln!(out, "\nnothing is wrong in what was read; not checked: {}", unread.join(", ")),
        };
    }
    writeln!(out)?;
    let mut kinds: Vec<(Weight, &str)> =
        report.findings.iter().map(|finding| (finding.weight, finding.kind)).collect();
    kinds.dedup();
    kinds.sort_unstable();
    kinds.dedup();
    for (weight, kind) in kinds {
        let of_kind: Vec<_> = report
            .findings
            .iter()
            .filter(|finding| (finding.weight, finding.kind) == (weight, kind))
            .collect();
        let word = match weight {
            Weight::Failed => "FAILED",
            Weight::Open => "INCONCLUSIVE",
            Weight::Warning => "WARNING",
        };
        for finding in of_kind.iter().take(PRINTED) {
            writeln!(out, "{word} {}: {}", finding.word(), finding.text)?;
        }
        let all = report.counts.get(kind).copied().unwrap_or(0);
        if all > of_kind.len().min(PRINTED) as u64 && of_kind.len() >= PRINTED {
            writeln!(out, "{word} {}: {all} in all; --json lists more", of_kind[0].word())?;
        }
    }
    Ok(())
}
