//! Checks for text that has no place in the project: notes to self, and what is true only on one
//! machine.

use anyhow::Result;

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "words";

/// Notes to self. Spelled in halves, so that this file passes its own rule.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// Folders that exist on somebody's machine only.
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
/// Hosts of package registries: which one is used is the reader's business and not the project's.
const REGISTRIES: [(&str, &str); 7] = [
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("proxy.golang", "org"),
    ("repo1.maven", "org"),
    ("deb.debian", "org"),
];

/// Names each of these words, wherever it stands.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| is_ours(path)) {
        for (number, line) in text.lines().enumerate() {
            for (what, next_step) in bad_words(line, path.ends_with(".rs")) {
                findings.push(Finding::error(path, number + 1, RULE, what, next_step));
            }
        }
    }
    Ok(findings)
}

/// Lock files are written by tools, licences by lawyers.
fn is_ours(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    !name.ends_with(".lock") && !name.ends_with("-lock.json") && !name.starts_with("LICENSE")
}

fn bad_words(line: &str, is_rust: bool) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for note in NOTES.into_iter().filter(|note| has_word(line, note)) {
        found.push((format!("`{note}`"), "finish it, or say in plain words what holds"));
    }
    for path in MACHINE_PATHS.into_iter().filter(|path| starts_a_path(line, path)) {
        found.push((format!("`{path}` is a path of one machine"), "use a relative path or a placeholder"));
    }
    for (name, end) in REGISTRIES {
        let host = format!("{name}.{end}");
        if has_word(line, &host) {
            found.push((
                format!("`{host}` is a package registry"),
                "name the package, not where it is fetched",
            ));
        }
    }
    if is_rust && has_word(line, concat!("dbg", "!")) {
        found.push((concat!("`dbg", "!`").to_owned(), "use tracing, or remove it"));
    }
    if names_a_ticket(line) {
        found.push(("a ticket's number".to_owned(), "say what it is about: the text must stand alone"));
    }
    found
}

/// `word` stands in the line, and no longer word around it.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_alphanumeric());
        !inside(before) && !inside(after)
    })
}

/// The path stands at the start of an absolute path, not inside a longer one or an address.
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | '>' | '~'))
    })
}

fn names_a_ticket(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.match_indices("issue ").any(|(at, word)| {
        let rest = line[at + word.len()..].trim_start_matches('#');
        rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    fn planted(line: &str) -> usize {
        places(check, &[("docs/a.md", line)]).len()
    }

    #[test]
    fn each_kind_of_word_is_found() {
        for note in NOTES {
            assert_eq!(planted(&format!("// {note}: later")), 1, "{note}");
        }
        for path in MACHINE_PATHS {
            assert_eq!(planted(&format!("see `{path}x`")), 1, "{path}");
        }
        for (name, end) in REGISTRIES {
            assert_eq!(planted(&format!("from https://{name}.{end}/x")), 1, "{name}");
        }
        assert_eq!(planted(concat!("as issue", " 12 says")), 1);
        assert_eq!(places(check, &[("a.rs", concat!("dbg", "!(x)"))]), ["a.rs:1"]);
    }

    #[test]
    fn longer_words_and_foreign_texts_are_left_alone() {
        let todo = NOTES[0];
        for fine in [
            format!("{todo}S and MY{todo}"),
            "mktemp -d a.XXXXXX".to_owned(),
            format!("https://example.org{}x", MACHINE_PATHS[0]),
            format!("frame{}", MACHINE_PATHS[0]),
            "the issue is 5 bytes".to_owned(),
        ] {
            assert_eq!(planted(&fine), 0, "{fine}");
        }
        let lock = format!("{}.{}", REGISTRIES[0].0, REGISTRIES[0].1);
        assert!(places(check, &[("Cargo.lock", &lock), ("LICENSE-MIT", todo)]).is_empty());
    }
}
