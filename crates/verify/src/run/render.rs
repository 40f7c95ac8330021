//! The result as text: the steps, the findings, the verdict.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Report, SCHEMA, Step};
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
            text.push_str("\nWhat is wrong:\n");
            for problem in problems {
                let _ = writeln!(text, "  {problem}");
            }
        }
        if !self.suspects.is_empty() {
            text.push_str("\nWho is to blame:\n");
            for suspected in &self.suspects {
                let _ = writeln!(text, "  {}", suspected.suspect);
                for evidence in &suspected.evidence {
                    let _ = writeln!(text, "    {evidence}");
                }
            }
        }
        if !self.advice.is_empty() {
            text.push_str("\nWhat to do next:\n");
            for advice in &self.advice {
                let _ = writeln!(text, "  {advice}");
            }
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
        let mut text = format!(
            "tieline health: {}: cluster `{}`, {}, {}, {:.1} s",
            self.verdict,
            self.cluster,
            counted(self.status.nodes.len(), "node"),
            counted(self.exchange.pairs.len(), "pair"),
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

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The first step that came to this verdict, where it is no pass: a verdict without a reason helps nobody.
fn open_step(verdict: Verdict, steps: &[Step]) -> String {
    let step = steps.iter().find(|step| step.verdict == verdict && verdict != Verdict::Pass);
    step.map_or(String::new(), |step| {
        let detail = step.detail.strip_prefix(super::SKIPPED).unwrap_or(&step.detail);
        format!(": {} {detail}", step.name)
    })
}

/// What there is of a run that had to be ended before its steps were: those that were done, and why there are not more.
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

/// The first suspect with the first of what is wrong, how many more there are of each, and which command shows them.
fn reason(blamed: &[String], problems: &[String]) -> String {
    let first = match (blamed.first(), problems.first()) {
        (None, None) => return String::new(),
        (Some(suspect), Some(problem)) if !problem.contains(suspect.as_str()) => {
            format!("{suspect}: {problem}")
        }
        (_, Some(problem)) => problem.clone(),
        (Some(suspect), None) => suspect.clone(),
    };
    let more = [(blamed.len().saturating_sub(1), "to blame"), (problems.len().saturating_sub(1), "wrong")];
    let more: Vec<String> = more
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} more {what}"))
        .collect();
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
            format!(": node 8: x (1 more to blame, 1 more wrong{all}")
        );
        assert_eq!(said(&["node 8"], &["node 8 is dead"]), ": node 8 is dead");
        assert_eq!(said(&[], &["x", "y"]), format!(": x (1 more wrong{all}"));
    }
}
