//! The report as text: the steps, what is wrong, the verdict.

use std::fmt::Write;

use super::Report;

impl Report {
    /// For a terminal or a mail.
    pub fn render(&self) -> String {
        let mut text = format!("tieline verify: cluster `{}`\n\n", self.cluster);
        text.push_str(&self.status.render());
        text.push('\n');
        for step in &self.steps {
            let _ = writeln!(
                text,
                "{:<9} {:<12} {:>6.2} s  {}",
                step.name, step.verdict, step.duration_s, step.detail
            );
        }
        let problems = self.problems();
        if !problems.is_empty() {
            text.push_str("\nWhat is wrong:\n");
            for problem in problems {
                let _ = writeln!(text, "  {problem}");
            }
        }
        if !self.culprits.is_empty() {
            text.push_str("\nWho is to blame:\n");
            for culprit in &self.culprits {
                let _ = writeln!(text, "  {}", culprit.suspect);
                for evidence in &culprit.evidence {
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
        let _ = writeln!(text, "\nVERDICT: {} ({:.1} s)", self.verdict, self.duration_s);
        text
    }

    /// In one line, for a job's prolog.
    pub fn render_line(&self) -> String {
        let mut text = format!(
            "tieline health: {}: cluster `{}`, {} nodes, {} pairs, {:.1} s",
            self.verdict,
            self.cluster,
            self.status.nodes.len(),
            self.exchange.pairs.len(),
            self.duration_s
        );
        let blamed = self.culprits.iter().map(|culprit| culprit.suspect.to_string());
        text.push_str(&reason(&blamed.collect::<Vec<_>>(), &self.problems()));
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

/// The first of who is to blame, else of what is wrong, how many more there are of each, and where they stand.
fn reason(blamed: &[String], problems: &[String]) -> String {
    let Some(first) = blamed.first().or(problems.first()) else { return String::new() };
    let more = [
        (blamed.len().saturating_sub(1), "to blame"),
        (problems.len() - usize::from(blamed.is_empty()), "wrong"),
    ];
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
    fn the_reason_says_of_what_there_are_more() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let said = |blamed: &[&str], problems: &[&str]| reason(&texts(blamed), &texts(problems));
        assert_eq!(said(&[], &[]), "");
        assert_eq!(said(&["node 8"], &[]), ": node 8");
        assert_eq!(said(&[], &["node 8 is dead"]), ": node 8 is dead");
        let all = "; all: `tieline verify --running --quick`)";
        assert_eq!(
            said(&["node 8", "link 4-12"], &["x", "y"]),
            format!(": node 8 (1 more to blame, 2 more wrong{all}")
        );
        assert_eq!(said(&[], &["x", "y"]), format!(": x (1 more wrong{all}"));
    }
}
