//! Checks the length of files.

use anyhow::Result;

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "length";
/// From here on a file is named.
const WARN_ABOVE: usize = 500;
/// From here on it fails.
const FAIL_ABOVE: usize = 800;

/// Names Rust files that have grown too long.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, text) in tree.files_ending(".rs") {
        let lines = text.lines().count();
        if lines > WARN_ABOVE {
            let what = format!("{lines} lines (named above {WARN_ABOVE}, refused above {FAIL_ABOVE})");
            let finding =
                Finding::error(path, 1, RULE, what, "split it by purpose; tests may move to tests.rs");
            findings.push(if lines > FAIL_ABOVE { finding } else { finding.warning() });
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn long_files_are_named_and_very_long_ones_refused() {
        let lines = |count: usize| "x\n".repeat(count);
        let (fair, long, huge) = (lines(500), lines(501), lines(801));
        let tree = Tree::of(&[("a.rs", &fair), ("b.rs", &long), ("c.rs", &huge), ("d.md", &huge)]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|f| (f.path, f.severity)).collect();
        assert_eq!(found, [("b.rs".into(), Severity::Warning), ("c.rs".into(), Severity::Error)]);
    }
}
