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
        if let Some(latency) = &self.latency {
            text.push('\n');
            text.push_str(&latency.table());
        }
        let _ = writeln!(text, "\nVERDICT: {} ({:.1} s)", self.verdict, self.duration_s);
        text
    }

    /// Everything that is wrong, each with the node or the pair that it is about.
    fn problems(&self) -> Vec<String> {
        let mut problems = self.status.problems.clone();
        for node in &self.diag.nodes {
            let errors = node.findings.iter().filter(|finding| finding.level != crate::diag::Level::Note);
            problems.extend(errors.map(|finding| finding.text.clone()));
        }
        problems.extend(self.diag.disagreements.iter().cloned());
        for pair in self.exchange.failures() {
            let error = pair.error.as_deref().unwrap_or_default();
            problems.push(format!("from node {} to node {}: {error}", pair.from, pair.to));
        }
        let culprits = self.load.culprits.iter().chain(&self.pairs.culprits);
        problems.extend(culprits.map(ToString::to_string));
        problems
    }
}
