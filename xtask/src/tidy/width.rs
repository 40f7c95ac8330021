//! Checks the width of prose: documents and comments are wrapped, so that they can be read beside code and in
//! a diff.

use anyhow::Result;

use crate::finding::Finding;
use crate::markdown::Document;
use crate::tree::Tree;

const RULE: &str = "width";
/// Characters of a line of a document.
const DOCUMENT_MAX: usize = 100;
/// Characters of a line of code, as `rustfmt.toml` has it; it leaves comments as they are.
const COMMENT_MAX: usize = 110;

/// Names lines of prose that are longer and could be broken.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut name = |path: &str, line: usize, text: &str, most: usize| {
        let what = format!("a line of {} characters (at most {most})", text.chars().count());
        findings.push(Finding::error(path, line, RULE, what, "wrap the paragraph"));
    };
    for (path, text) in tree.files_ending(".md") {
        for (line, text) in Document::read(text).prose {
            if is_prose(text) && is_too_long(text, DOCUMENT_MAX) {
                name(path, line, text, DOCUMENT_MAX);
            }
        }
    }
    for (path, text) in tree.files_ending(".rs") {
        for (number, line) in text.lines().enumerate() {
            if comment(line).is_some_and(is_prose) && is_too_long(line, COMMENT_MAX) {
                name(path, number + 1, line, COMMENT_MAX);
            }
        }
    }
    Ok(findings)
}

/// The text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']))
}

/// Tables, headings and HTML cannot be wrapped, nor the exemptions of these rules.
fn is_prose(text: &str) -> bool {
    let text = text.trim_start();
    !text.starts_with(['|', '#', '<']) && !text.starts_with("tidy:")
}

/// Whether a line is longer, and has a space outside of code spans and of links' targets where it could be
/// broken.
fn is_too_long(line: &str, most: usize) -> bool {
    if line.chars().count() <= most {
        return false;
    }
    let mut is_code = false;
    let text = line.trim_start().trim_start_matches(['/', '!', '-', ' ']);
    text.chars().any(|character| {
        is_code ^= character == '`';
        character == ' ' && !is_code
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn long_prose_is_named_and_what_cannot_be_wrapped_is_not() {
        let words = "word ".repeat(30);
        let document =
            format!("{words}\n\n| {words} |\n\n# {words}\n\n```sh\n{words}\n```\n\n- `{words}`\nshort\n");
        let code = format!("    /// {words}\n    let text = \"{words}\";\n//! | {words} |\n// {words}\n");
        assert_eq!(places(check, &[("a.md", &document), ("b.rs", &code)]), ["a.md:1", "b.rs:1", "b.rs:4"]);
    }

    #[test]
    fn characters_count_and_not_bytes() {
        let exact = format!("{} x\n", "é".repeat(DOCUMENT_MAX - 2));
        let long = format!("{} x\n", "é".repeat(DOCUMENT_MAX - 1));
        assert_eq!(places(check, &[("a.md", &exact), ("b.md", &long)]), ["b.md:1"]);
    }
}
