//! Exemptions: `tidy: allow(RULE): REASON` in a comment exempts its own line and the next.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "exemption";
/// In halves, so that this file holds no exemption.
const MARK: &str = concat!("tidy: ", "allow(");

struct Exemption<'t> {
    path: &'t str,
    line: usize,
    rule: &'t str,
    has_reason: bool,
    used: bool,
}

/// Removes the findings that are exempt, and adds the exemptions that are none.
pub(super) fn apply(tree: &Tree, findings: Vec<Finding>) -> Vec<Finding> {
    let mut exemptions: Vec<Exemption<'_>> = tree
        .files()
        .filter(|(path, _)| !path.ends_with(".md"))
        .flat_map(|(path, text)| read(path, text))
        .collect();
    let mut kept: Vec<Finding> = Vec::new();
    for finding in findings {
        let exemption = exemptions.iter_mut().find(|exemption| {
            exemption.path == finding.path
                && exemption.rule == finding.rule
                && (exemption.line == finding.line || exemption.line + 1 == finding.line)
        });
        match exemption {
            Some(exemption) => exemption.used = true,
            None => kept.push(finding),
        }
    }
    for exemption in exemptions {
        if !exemption.used {
            let what = format!("this line breaks no rule called `{}`", exemption.rule);
            kept.push(Finding::error(exemption.path, exemption.line, RULE, what, "remove the exemption"));
        } else if !exemption.has_reason {
            let next = "write the reason behind the bracket, after a colon";
            kept.push(Finding::error(exemption.path, exemption.line, RULE, "no reason is given", next));
        }
    }
    kept
}

fn read<'t>(path: &'t str, text: &'t str) -> impl Iterator<Item = Exemption<'t>> {
    text.lines().enumerate().filter_map(move |(number, line)| {
        let (_, rest) = line.split_once(MARK)?;
        let (rule, rest) = rest.split_once(')')?;
        // A description of the form itself stands in capitals.
        let is_name = rule.bytes().all(|byte| byte.is_ascii_lowercase());
        if !is_name {
            return None;
        }
        let has_reason = rest.strip_prefix(':').is_some_and(|reason| !reason.trim().is_empty());
        Some(Exemption { path, line: number + 1, rule, has_reason, used: false })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_at(lines: &[usize]) -> Vec<Finding> {
        lines.iter().map(|line| Finding::error("a.rs", *line, "unsafe", "x", "y")).collect()
    }

    fn left(text: &str, lines: &[usize]) -> Vec<(usize, &'static str)> {
        let tree = Tree::of(&[("a.rs", text)]);
        apply(&tree, findings_at(lines)).into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn an_exemption_covers_its_line_and_the_next() {
        let text = format!("\n// {MARK}unsafe): fork has no safe form\nfork()\nother()");
        assert_eq!(left(&text, &[2]), []);
        assert_eq!(left(&text, &[3]), []);
        assert_eq!(left(&text, &[3, 4]), [(4, "unsafe")]);
    }

    #[test]
    fn one_without_a_reason_or_without_need_is_a_finding() {
        assert_eq!(left(&format!("x // {MARK}unsafe)"), &[1]), [(1, RULE)]);
        assert_eq!(left(&format!("x // {MARK}words): because"), &[1]), [(1, "unsafe"), (1, RULE)]);
    }
}
