//! Checks that environment variables in documents are read by the code, and that those that are
//! read are documented.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::finding::Finding;
use crate::rust::{Kind, lex, without_tests};
use crate::tree::{Tree, is_test_path};

const RULE: &str = "environment";
const REFERENCE: &str = "docs/configuration.md";
const PREFIX: &str = concat!("TIELINE", "_");

/// Compares the two sets, names of the project's own variables only. What a C header defines is none.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let Some(reference) = tree.text(REFERENCE) else { return Ok(Vec::new()) };
    let mut findings = Vec::new();
    let everywhere: Vec<&str> = tree
        .files()
        .filter(|(path, _)| path.ends_with(".rs") || *path == "run")
        .map(|(_, text)| text)
        .collect();
    let in_headers: BTreeMap<&str, usize> =
        tree.files_ending(".h").flat_map(|(_, text)| names(text)).collect();
    for (path, text) in tree.files_ending(".md") {
        for (name, line) in names(text) {
            if !in_headers.contains_key(name) && !everywhere.iter().any(|text| names(text).contains_key(name))
            {
                let what = format!("`{name}` is read by nothing");
                findings.push(Finding::error(path, line, RULE, what, "correct the name, or remove it"));
            }
        }
    }
    let documented = names(reference);
    for (path, text) in tree.files_ending(".rs") {
        if !path.starts_with("crates/") || is_test_path(path) {
            continue;
        }
        for token in without_tests(&lex(text)).iter().filter(|token| token.kind == Kind::Literal) {
            let is_unknown = |name: &&str| !documented.contains_key(name) && !in_headers.contains_key(name);
            for name in names(token.text).into_keys().filter(is_unknown) {
                let what = format!("`{name}` is not documented");
                findings.push(Finding::error(
                    path,
                    token.line,
                    RULE,
                    what,
                    format!("describe it in {REFERENCE}"),
                ));
            }
        }
    }
    Ok(findings)
}

/// Each name with the first line on which it stands.
fn names(text: &str) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(PREFIX) {
            let rest = &line[at..];
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_uppercase() && !c.is_ascii_digit());
            let name = &rest[..end.unwrap_or(rest.len())];
            if name.len() > PREFIX.len() {
                names.entry(name).or_insert(number + 1);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn both_directions_are_found() {
        let (read, told) = (format!("const A: &str =\n \"{PREFIX}A\";"), format!("x\n`{PREFIX}B`"));
        let files = [("crates/a/src/lib.rs", &*read), (REFERENCE, &*told)];
        assert_eq!(places(check, &files), ["docs/configuration.md:2", "crates/a/src/lib.rs:2"]);
    }

    #[test]
    fn what_agrees_passes_and_tests_need_no_document() {
        let read = format!("const A: &str = \"{PREFIX}A\"; // {PREFIX}OLD\n");
        let (test, told) = (format!("\"{PREFIX}C\""), format!("`{PREFIX}A`, `{PREFIX}C`, `{PREFIX}…`"));
        let files = [("crates/a/src/lib.rs", &*read), ("tests/x.rs", &*test), (REFERENCE, &*told)];
        assert!(places(check, &files).is_empty());
    }
}
