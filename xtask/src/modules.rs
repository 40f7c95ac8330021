//! The list of modules in `docs/modules.md`, made from the first sentence of each module's doc comment.

use std::fmt::Write as _;

use anyhow::Result;

use crate::finding::Finding;
use crate::rust::{Kind, Token, lex, without_tests};
use crate::tree::{Package, Tree, is_test_path};

/// Where the list stands.
pub const DOCUMENT: &str = "docs/modules.md";
/// What writes it.
pub const COMMAND: &str = "cargo run -p xtask -- modules";

/// A module of a package, or its root.
struct Module<'t> {
    /// Relative to the root of the repository.
    path: &'t str,
    /// As code names it within its crate; empty: the crate itself.
    name: String,
    /// The first sentence of its doc comment; empty: it has none.
    purpose: String,
}

/// The whole text of the list: a section for each crate, with a line for each module that is no test.
pub fn document(tree: &Tree) -> Result<String> {
    let mut text = format!(
        "# Modules\n\n\
        The first sentence of each module's documentation, by crate; tests are left out.\n\
        `{COMMAND}` writes this page. To change a line, change the `//!`\n\
        comment at the top of the file. What the crates are for, and which may need which, is in\n\
        [ARCHITECTURE.md](../ARCHITECTURE.md).\n"
    );
    for package in packages(tree)? {
        let modules = modules(tree, &package);
        let root = modules.iter().find(|module| module.name.is_empty());
        let purpose = root.map_or("", |module| &module.purpose);
        write!(text, "\n## `{}`\n\n{}\n", package.name, wrapped(purpose))?;
        let mut rows = modules.iter().filter(|module| !module.name.is_empty()).peekable();
        if rows.peek().is_some() {
            text.push_str("\n| module | purpose |\n|---|---|\n");
        }
        for module in rows {
            writeln!(text, "| `{}` | {} |", module.name, module.purpose.replace('|', "\\|"))?;
        }
    }
    Ok(text)
}

/// In lines of 100 characters, as documents are.
fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in paragraph.split(' ') {
        let len = word.chars().count();
        if width > 0 {
            let is_next = width + 1 + len > 100;
            text.push(if is_next { '\n' } else { ' ' });
            width = if is_next { 0 } else { width + 1 };
        }
        text.push_str(word);
        width += len;
    }
    text
}

/// Modules that say nothing of themselves.
pub fn without_purpose(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in packages(tree)? {
        for module in modules(tree, &package).iter().filter(|module| module.purpose.is_empty()) {
            findings.push(Finding::error(
                module.path,
                1,
                "modules",
                "the module has no doc comment",
                "start the file with `//!` and one sentence: what the module is for",
            ));
        }
    }
    Ok(findings)
}

/// The packages whose modules are listed: those that hold more than tests.
fn packages(tree: &Tree) -> Result<Vec<Package>> {
    let mut packages = tree.packages()?;
    packages.retain(|package| !package.roots(tree).iter().any(|(path, _)| is_test_path(path)));
    Ok(packages)
}

fn modules<'t>(tree: &'t Tree, package: &Package) -> Vec<Module<'t>> {
    let sources = format!("{}/src/", package.folder);
    let has_library = tree.text(&format!("{sources}lib.rs")).is_some();
    let mut modules = Vec::new();
    for (path, text) in tree.files_ending(".rs") {
        let Some(inside) = path.strip_prefix(&sources).and_then(|inside| inside.strip_suffix(".rs")) else {
            continue;
        };
        if is_test_path(path) || is_only_tested(tree, &sources, inside) {
            continue;
        }
        let name = match inside {
            "lib" => String::new(),
            "main" if !has_library => String::new(),
            inside => inside.strip_suffix("/mod").unwrap_or(inside).replace('/', "::"),
        };
        modules.push(Module { path, name, purpose: purpose(text) });
    }
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    modules
}

/// The files that may declare this module declare it, or one above it, for tests alone.
fn is_only_tested(tree: &Tree, sources: &str, inside: &str) -> bool {
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    let (above, name) = inside.rsplit_once('/').unwrap_or(("", inside));
    let parents = match above {
        "" => vec![format!("{sources}lib.rs"), format!("{sources}main.rs")],
        above => vec![format!("{sources}{above}.rs"), format!("{sources}{above}/mod.rs")],
    };
    let is_declared_for_tests = parents.iter().filter_map(|parent| tree.text(parent)).any(|text| {
        let tokens = lex(text);
        declares(&tokens, name) && !declares(&without_tests(&tokens), name)
    });
    is_declared_for_tests || !above.is_empty() && is_only_tested(tree, sources, above)
}

/// There is a `mod NAME;` among the tokens.
fn declares(tokens: &[Token<'_>], name: &str) -> bool {
    tokens.windows(3).any(|three| {
        let [keyword, word, end] = three else { return false };
        keyword.kind == Kind::Word && keyword.text == "mod" && word.text == name && end.text == ";"
    })
}

/// The first sentence of a file's doc comment, on one line, without the brackets of links to items.
fn purpose(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> =
        lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
    without_links(first_sentence(&paragraph.join(" ")))
}

/// Up to the first full stop, question mark or exclamation mark behind which a new sentence begins.
fn first_sentence(paragraph: &str) -> &str {
    let ends = paragraph.match_indices(['.', '?', '!']).map(|(at, _)| at + 1);
    let end = ends.into_iter().find(|end| {
        let mut behind = paragraph[*end..].chars();
        behind.next() == Some(' ') && behind.next().is_some_and(|next| !next.is_lowercase())
    });
    &paragraph[..end.unwrap_or(paragraph.len())]
}

/// ``[`item`]`` and ``[`item`](path)`` become `` `item` ``: they lead somewhere in the documentation of code
/// alone.
fn without_links(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(at) = rest.find("[`") {
        let Some(end) = rest[at..].find("`]").map(|length| at + length + 1) else { break };
        text.push_str(&rest[..at]);
        text.push_str(&rest[at + 1..end]);
        rest = &rest[end + 1..];
        if let Some(target) = rest.strip_prefix('(').and_then(|target| target.find(')')) {
            rest = &rest[target + 2..];
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "[package]\nname = \"a\"");

    #[test]
    fn each_module_is_a_line_with_its_first_sentence() {
        let tree = Tree::of(&[
            MANIFEST,
            ("crates/a/src/lib.rs", "//! The crate.\n//!\n//! More.\nmod b;\n#[cfg(test)]\nmod t;\nmod e;"),
            ("crates/a/src/b.rs", "//! What `b` does,\n//! on two lines: x | y. And more.\n//!\n//! More."),
            ("crates/a/src/b/c.rs", "//! C."),
            ("crates/a/src/e/mod.rs", "//! E."),
            ("crates/a/src/t.rs", "//! Only tested."),
            ("crates/a/src/t/deep.rs", "//! Only tested, too."),
            ("crates/a/src/b/tests.rs", "//! Tests."),
            ("crates/a/tests/d.rs", "//! Tests."),
            ("crates/a/src/main.rs", "//! The command line."),
            ("tests/Cargo.toml", "[package]\nname = \"t\""),
            ("tests/src/lib.rs", "//! All of it is tests."),
        ]);
        let text = document(&tree).unwrap();
        let list = "## `a`\n\nThe crate.\n\n| module | purpose |\n|---|---|\n| `b` | What `b` does, on two lines: x \\| y. |\n\
            | `b::c` | C. |\n| `e` | E. |\n| `main` | The command line. |\n";
        assert!(text.ends_with(&format!("(../ARCHITECTURE.md).\n\n{list}")), "{text}");
    }

    #[test]
    fn a_program_alone_is_its_crate() {
        let tree = Tree::of(&[MANIFEST, ("crates/a/src/main.rs", "//! The program. It runs.\n")]);
        assert!(document(&tree).unwrap().ends_with("\n## `a`\n\nThe program.\n"));
    }

    #[test]
    fn a_sentence_ends_where_another_one_begins() {
        for (paragraph, sentence) in [
            ("One. Two.", "One."),
            ("Is it? `Yes`.", "Is it?"),
            ("Version 1.2 of a.rs is e.g. this. It is.", "Version 1.2 of a.rs is e.g. this."),
            ("No end", "No end"),
        ] {
            assert_eq!(first_sentence(paragraph), sentence);
        }
    }

    #[test]
    fn links_to_items_become_their_names() {
        assert_eq!(
            without_links("a [`b`] and [`c::d`](crate::c) and [e] [`f"),
            "a `b` and `c::d` and [e] [`f"
        );
    }

    #[test]
    fn a_module_without_a_doc_comment_is_found() {
        let tree = Tree::of(&[
            MANIFEST,
            ("crates/a/src/lib.rs", "//! The crate.\nmod b;"),
            ("crates/a/src/b.rs", "// An ordinary comment.\n"),
        ]);
        let found = without_purpose(&tree).unwrap();
        assert_eq!(
            found.iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>(),
            ["crates/a/src/b.rs"]
        );
    }
}
