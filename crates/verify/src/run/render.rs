//! The result as text: the steps, the findings, the verdict.

use std::fmt::Write;
use std::path::Path;

use proto::wire::status::SessionState;
use serde_json::{Value, json};
use tieline::NodeId;

use super::{Report, SCHEMA, Step, links};
use crate::speed::SpeedReport;
use crate::verdict::Verdict;

impl Report {
    /// For a terminal or a mail.
    pub fn render(&self) -> String {
        let mut text = format!("tieline verify: cluster `{}`\n\n", self.cluster);
        text.push_str(&self.status.render());
        text.push('\n');
        for step in &self.steps {
            write_step(&mut text, step);
        }
        let problems = self.problems();
        if !problems.is_empty() {
            text.push_str("\nProblems:\n");
            for problem in problems {
                let _ = writeln!(text, "  {problem}");
            }
        }
        if !self.suspects.is_empty() {
            text.push_str("\nSuspects:\n");
            for suspected in &self.suspects {
                let _ = writeln!(text, "  {}", suspected.suspect);
                for evidence in &suspected.evidence {
                    let _ = writeln!(text, "    {evidence}");
                }
            }
        }
        if !self.advice.is_empty() {
            text.push_str("\nNext steps:\n");
            for advice in &self.advice {
                let _ = writeln!(text, "  {advice}");
            }
        }
        if let Some(links) = links::table(&self.status) {
            text.push('\n');
            text.push_str(&links);
        }
        for table in self.between_hosts.iter().flat_map(SpeedReport::tables) {
            text.push('\n');
            text.push_str(&table);
        }
        if let Some(latency) = &self.latency {
            text.push('\n');
            text.push_str(&latency.table());
        }
        if let Some(why) = &self.partial {
            let _ = writeln!(text, "\nPARTIAL: {why}");
        }
        // It is no reason for a failure.
        let and = if self.verdict == Verdict::Fail { "; speed was not judged" } else { "" };
        let why = self.busy.as_ref().map_or(String::new(), |busy| format!("{and}: {busy}"));
        let _ = writeln!(text, "\nVERDICT: {} ({:.1} s){why}", self.verdict, self.duration_s);
        text
    }

    /// In one line, for a job's prolog.
    pub fn render_line(&self) -> String {
        let nodes: Vec<_> = self.status.nodes.iter().map(|node| node.node).collect();
        let plan = self.cable.as_ref().and_then(|cable| cable.plan.path.as_deref());
        let mut text = format!(
            "tieline verify --health: {}: cluster `{}`, {}, {}{}, {:.1} s",
            self.verdict,
            self.cluster,
            compared(&nodes, plan),
            counted(self.exchange.pairs.len(), "pair"),
            self.sessions_with_others(),
            self.duration_s
        );
        let blamed = self.suspects.iter().map(|suspected| suspected.suspect.to_string());
        let mut problems = self.problems();
        // What is suspected without a problem of a node as such was found by a step.
        let found = open_step(self.verdict, &self.steps);
        if problems.is_empty() && !found.is_empty() {
            problems.push(found.trim_start_matches(": ").to_owned());
        }
        text.push_str(&reason(&blamed.collect::<Vec<_>>(), &problems));
        text.push('\n');
        text
    }

    /// How many sessions this host's nodes have with those of other hosts, if there are any.
    fn sessions_with_others(&self) -> String {
        let links = || self.status.links_here().flat_map(|(_, links)| links).filter(|link| link.other_host);
        let valid = links().filter(|link| link.session == SessionState::Valid).count();
        match links().count() {
            0 => String::new(),
            all => format!(", {valid} of {} with other hosts", counted(all, "session")),
        }
    }

    /// What is wrong with nodes as such, each with the node that it is about.
    fn problems(&self) -> Vec<String> {
        let mut problems = self.status.problems.clone();
        for node in &self.diag.nodes {
            let errors = node.findings.iter().filter(|finding| finding.level != crate::diag::Level::Note);
            problems.extend(errors.map(|finding| finding.text.clone()));
        }
        problems.extend(self.diag.disagreements.iter().cloned());
        problems
    }
}

/// Which nodes were tested, and against what: without a plan nobody misses a node that is stopped.
fn compared(nodes: &[NodeId], plan: Option<&Path>) -> String {
    /// More are not listed.
    const LISTED: usize = 12;
    let ids = match nodes {
        [first, .., last] if nodes.len() > LISTED => format!("{first} … {last}"),
        _ => nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let against = match plan {
        Some(plan) => format!("compared with {}", plan.display()),
        None => "those that run; no --plan".to_owned(),
    };
    format!("{} ({ids}; {against})", counted(nodes.len(), "node"))
}

/// A count with its noun, of a plural in -s.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The first step that came to this verdict, where it is no pass: a verdict needs a reason.
fn open_step(verdict: Verdict, steps: &[Step]) -> String {
    let step = steps.iter().find(|step| step.verdict == verdict && verdict != Verdict::Pass);
    step.map_or(String::new(), |step| {
        let detail = step.detail.strip_prefix(super::SKIPPED).unwrap_or(&step.detail);
        format!(": {} {detail}", step.name)
    })
}

/// What there is of a run that had to be ended before its steps were: those that were done, and why there are
/// not more.
pub fn render_unfinished(steps: &[Step]) -> String {
    let (verdict, why) = unfinished(steps);
    let mut text = String::new();
    for step in steps {
        write_step(&mut text, step);
    }
    let _ = writeln!(text, "\nPARTIAL: {why}\n\nVERDICT: {verdict}");
    text
}

/// The same as a document.
pub fn document_unfinished(steps: &[Step]) -> Value {
    let (verdict, why) = unfinished(steps);
    json!({ "schema": SCHEMA, "verdict": verdict, "partial": why, "steps": steps })
}

fn unfinished(steps: &[Step]) -> (Verdict, String) {
    let after = steps.last().map_or(String::new(), |step| format!(", in the step after `{}`", step.name));
    let worst = Verdict::worst(steps.iter().map(|step| step.verdict).chain([Verdict::Inconclusive]));
    (worst, format!("ended by a signal{after}: it did not end by itself in time"))
}

fn write_step(text: &mut String, step: &Step) {
    let _ =
        writeln!(text, "{:<9} {:<12} {:>6.2} s  {}", step.name, step.verdict, step.duration_s, step.detail);
}

/// The first suspect with the first of what is wrong, how many more there are of each, and which command
/// shows them.
fn reason(blamed: &[String], problems: &[String]) -> String {
    let first = match (blamed.first(), problems.first()) {
        (None, None) => return String::new(),
        (Some(suspect), Some(problem)) if !problem.contains(suspect.as_str()) => {
            format!("{suspect}: {problem}")
        }
        (_, Some(problem)) => problem.clone(),
        (Some(suspect), None) => suspect.clone(),
    };
    let more = [
        (blamed.len().saturating_sub(1), "more suspect"),
        (problems.len().saturating_sub(1), "more problem"),
    ];
    let more: Vec<String> =
        more.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what)).collect();
    if more.is_empty() {
        return format!(": {first}");
    }
    format!(": {first} ({}; all: `tieline verify --running --quick`)", more.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_a_forced_end_is_kept_and_has_not_passed() {
        let step = |name, verdict| Step {
            name,
            verdict,
            detail: "as it was".into(),
            duration_s: 1.0,
            load: Default::default(),
        };
        let steps = [step("up", Verdict::Pass), step("pairs", Verdict::Pass)];
        let text = render_unfinished(&steps);
        assert!(
            text.contains("pairs     PASS")
                && text.contains("PARTIAL: ended by a signal, in the step after `pairs`"),
            "{text}"
        );
        assert!(text.contains("VERDICT: INCONCLUSIVE"), "{text}");
        let document = document_unfinished(&[step("cable", Verdict::Fail)]);
        assert_eq!((&document["verdict"], &document["steps"][0]["name"]), (&json!("FAIL"), &json!("cable")));
        assert!(render_unfinished(&[]).contains("VERDICT: INCONCLUSIVE"));
    }

    #[test]
    fn a_line_of_health_says_what_was_compared_with_what() {
        let nodes = |count: usize| (0..count).map(|at| NodeId::nth(at).unwrap()).collect::<Vec<_>>();
        assert_eq!(compared(&nodes(2), None), "2 nodes (4, 8; those that run; no --plan)");
        let plan = Some(Path::new("p.toml"));
        assert_eq!(compared(&nodes(1), plan), "1 node (4; compared with p.toml)");
        assert_eq!(compared(&nodes(13), plan), "13 nodes (4 … 52; compared with p.toml)");
    }

    #[test]
    fn a_verdict_that_nobody_is_blamed_for_names_its_step() {
        let step = |name, verdict, detail: &str| Step {
            name,
            verdict,
            detail: detail.into(),
            duration_s: 1.0,
            load: Default::default(),
        };
        let steps = [
            step("status", Verdict::Pass, "1 nodes"),
            step("cable", Verdict::Inconclusive, "SKIPPED: needs two nodes"),
        ];
        assert_eq!(open_step(Verdict::Inconclusive, &steps), ": cable needs two nodes");
        assert_eq!(open_step(Verdict::Pass, &steps), "");
    }

    #[test]
    fn the_reason_says_of_what_there_are_more() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let said = |blamed: &[&str], problems: &[&str]| reason(&texts(blamed), &texts(problems));
        assert_eq!(said(&[], &[]), "");
        assert_eq!(said(&["node 8"], &[]), ": node 8");
        assert_eq!(said(&[], &["node 8 is dead"]), ": node 8 is dead");
        let all = "; all: `tieline verify --running --quick`)";
        assert_eq!(
            said(&["node 8", "link 4-12"], &["x", "y"]),
            format!(": node 8: x (1 more suspect, 1 more problem{all}")
        );
        assert_eq!(said(&["node 8"], &["node 8 is dead"]), ": node 8 is dead");
        assert_eq!(said(&[], &["x", "y", "z"]), format!(": x (2 more problems{all}"));
    }
}
