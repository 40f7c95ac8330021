//! Checks that links in documents have a target.

use anyhow::Result;

use crate::doc_commands::parse;
use crate::finding::Finding;
use crate::markdown::Document;
use crate::tree::Tree;

const RULE: &str = "links";

/// Names relative links without a target, and blocks that are not well formed.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, text) in tree.files_ending(".md") {
        let document = Document::read(text);
        for (line, target) in document.links() {
            if let Some(what) = broken(tree, path, target) {
                findings.push(Finding::error(
                    path,
                    line,
                    RULE,
                    what,
                    "correct the link, or write its target",
                ));
            }
        }
        for fence in document.fences.iter().filter(|fence| !fence.closed) {
            let what = "this block is never closed";
            findings.push(Finding::error(path, fence.line, RULE, what, "close it with the same marks"));
        }
        if let Err(bad) = parse::blocks(text) {
            findings.push(Finding::error(
                path,
                bad.line,
                "console",
                bad.what,
                "see docs/README.md for the format",
            ));
        }
    }
    Ok(findings)
}

/// What is wrong with this link of this file, if anything is.
fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = (if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) }) else {
        return Some(format!("`{target}` leads out of the repository"));
    };
    if !tree.exists(&path) {
        return Some(format!("there is no `{path}`"));
    }
    let text = tree.text(&path).filter(|_| path.ends_with(".md"))?;
    let has_anchor = anchor.is_empty() || Document::read(text).anchors().iter().any(|there| there == anchor);
    (!has_anchor).then(|| format!("`{path}` has no heading `#{anchor}`"))
}

/// The path from the root of what `file` means in the file `from`.
fn resolve(from: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn broken_links_are_found() {
        let text =
            "[a](b.md)\n[c](../../x)\n[d](a.md#nowhere)\n[e](#there)\n```console\nno command\n```\n```open";
        let files = [("docs/a.md", text)];
        let mut found = places(check, &files);
        found.sort();
        assert_eq!(
            found,
            ["docs/a.md:1", "docs/a.md:2", "docs/a.md:3", "docs/a.md:4", "docs/a.md:5", "docs/a.md:8"]
        );
    }

    #[test]
    fn good_links_pass() {
        let text = "# Here it is\n[a](../README.md) [b](adr/) [c](#here-it-is) [d](https://example.org/x) [e](./a.md#here-it-is)";
        let files = [("docs/a.md", text), ("README.md", "[f](docs/a.md)"), ("docs/adr/1.md", "")];
        assert!(places(check, &files).is_empty());
    }
}
