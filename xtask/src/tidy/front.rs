//! Checks that each crate's first doc comment says what it is for, what it must never do, and where
//! to start reading.

use anyhow::Result;

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "front";

/// Names crates whose first doc comment is missing or leaves one of these out.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in tree.packages()? {
        // A package with a library and a binary needs one front door only.
        let Some((path, text)) = package.roots(tree).into_iter().next() else { continue };
        let door = first_doc_comment(text).to_lowercase();
        let mut missing = |what: &str, next: &str| findings.push(Finding::error(&path, 1, RULE, what, next));
        if door.trim().is_empty() {
            missing("no doc comment at the start of the crate", "start it with `//!`: what it is for");
            continue;
        }
        if !door.contains("must never") {
            missing(
                "the crate's doc comment does not say what it must never do",
                "add `What it must never do: …`",
            );
        }
        if !door.contains("start reading") {
            missing("the crate's doc comment does not say where to start", "add `Where to start reading: …`");
        }
    }
    Ok(findings)
}

/// The `//!` lines before anything else.
fn first_doc_comment(text: &str) -> String {
    text.lines().map_while(|line| line.trim_start().strip_prefix("//!")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const A: (&str, &str) = ("crates/a/Cargo.toml", "[package]\nname = \"a\"");

    fn found(root: &str) -> usize {
        places(check, &[A, ("crates/a/src/lib.rs", root)]).len()
    }

    #[test]
    fn what_is_missing_is_found() {
        assert_eq!(found(""), 1);
        assert_eq!(found("// An ordinary comment.\n"), 1);
        assert_eq!(found("mod x;\n//! must never start reading"), 1);
        assert_eq!(found("//! For x."), 2);
        assert_eq!(found("//! For x.\n//! Where to start reading: y"), 1);
    }

    #[test]
    fn a_whole_one_passes() {
        assert_eq!(
            found("//! For x.\n//!\n//! What it must never do: y.\n//! Where to START reading: [`z`]."),
            0
        );
    }
}
