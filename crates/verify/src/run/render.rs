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
        let reasons: Vec<String> = blamed.chain(self.problems()).collect();
        if let Some((first, rest)) = reasons.split_first() {
            let _ = write!(text, ": {first}");
            if !rest.is_empty() {
                let _ = write!(text, " and {} more", rest.len());
            }
        }
        text.push('\n');
        text
    }

    /// What is wrong with nodes as such, each with the node that it is about. with the node or the pair that it is about.
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
