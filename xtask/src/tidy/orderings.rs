//! Checks that each Release ordering names its Acquire in a comment.

use anyhow::Result;

use crate::finding::Finding;
use crate::rust::{Kind, Token, lex, without_tests};
use crate::tree::{Tree, is_test_path};

const RULE: &str = "orderings";
/// How many lines above the word its comment may stand, and how many below (formatting may split a call).
const ABOVE: usize = 8;
const BELOW: usize = 1;

/// Names each `Release` and `AcqRel` in code that no comment nearby pairs with an Acquire.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, text) in tree.files_ending(".rs") {
        if !path.starts_with("crates/") || is_test_path(path) {
            continue;
        }
        let tokens = without_tests(&lex(text));
        for token in releases(&tokens) {
            if !named_near(&tokens, token.line) {
                let what = format!("`{}` whose Acquire no comment names", token.text);
                let next = format!(
                    "say within {ABOVE} lines above which Acquire reads it, and what that makes visible"
                );
                findings.push(Finding::error(path, token.line, RULE, what, next));
            }
        }
    }
    Ok(findings)
}

/// The words in code, not those in `use` lines, which order nothing.
fn releases<'a, 's>(tokens: &'a [Token<'s>]) -> impl Iterator<Item = &'a Token<'s>> {
    let mut in_use = false;
    tokens.iter().filter(move |token| {
        match (token.kind, token.text) {
            (Kind::Word, "use") => in_use = true,
            (Kind::Mark, ";") => in_use = false,
            _ => {}
        }
        token.kind == Kind::Word && matches!(token.text, "Release" | "AcqRel") && !in_use
    })
}

fn named_near(tokens: &[Token<'_>], line: usize) -> bool {
    tokens.iter().any(|token| {
        let last = token.line + token.text.matches('\n').count();
        token.kind == Kind::Comment
            && last + ABOVE >= line
            && token.line <= line + BELOW
            && token.text.to_ascii_lowercase().contains("acquire")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn a_release_alone_is_found() {
        let source = "use x::Ordering::{self, Release};\nfn f() { a.store(1, Release) }\n\n// the reader\nb.swap(1, Ordering::AcqRel);";
        assert_eq!(
            places(check, &[("crates/a/src/lib.rs", source)]),
            ["crates/a/src/lib.rs:2", "crates/a/src/lib.rs:5"]
        );
    }

    #[test]
    fn a_comment_far_above_is_no_comment() {
        let source = format!("// pairs with the Acquire in pop\n{}a.store(1, Release);", "\n".repeat(ABOVE));
        assert_eq!(places(check, &[("crates/a/src/lib.rs", &source)]).len(), 1);
    }

    #[test]
    fn a_named_one_passes_as_do_tests() {
        let source = "
            // Pairs with the acquire load in `pop`: the record is visible there.
            self.head.store(at, Ordering::Release);
            x.compare_exchange(a, b, Ordering::AcqRel, Ordering::Acquire) // Acquire: as in `y`
            #[cfg(test)] mod tests { fn f() { a.store(1, Release) } }";
        let files = [("crates/a/src/lib.rs", source), ("crates/a/tests/t.rs", "a.store(1, Release)")];
        assert!(places(check, &files).is_empty());
    }
}
