//! Checks that atomics come through `shm::sync`, which loom can replace. An atomic that does
//! not is invisible to the model checker.

use anyhow::Result;

use crate::finding::Finding;
use crate::rust::{lex, paths, without_tests};
use crate::tree::{Tree, is_test_path};

const RULE: &str = "atomics";
/// The one module that may name the core's atomics.
const SOURCE: &str = "crates/shm/src/sync.rs";

/// Names atomics that come from elsewhere. Tests may use what they like.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, text) in tree.files_ending(".rs") {
        if !path.starts_with("crates/") || path == SOURCE || is_test_path(path) {
            continue;
        }
        for (named, line) in paths(&without_tests(&lex(text))) {
            let named = named.trim_start_matches("::");
            if named.starts_with("std::sync::atomic") || named.starts_with("core::sync::atomic") {
                let next = "use shm::sync, or a lock or channel of the standard library";
                findings.push(Finding::error(path, line, RULE, format!("`{named}`"), next));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn atomics_of_the_standard_library_are_found_in_any_spelling() {
        let source = "use std::sync::Arc;\nuse std::{sync::atomic::AtomicU32};\nfn f() {\n core::sync::atomic::fence(x) }";
        assert_eq!(
            places(check, &[("crates/a/src/lib.rs", source)]),
            ["crates/a/src/lib.rs:2", "crates/a/src/lib.rs:4"]
        );
        assert_eq!(
            places(check, &[("crates/shm/src/ring.rs", "use core::sync::atomic;")]),
            ["crates/shm/src/ring.rs:1"]
        );
    }

    #[test]
    fn the_source_and_the_tests_are_exempt() {
        let line = "use core::sync::atomic::AtomicU32;";
        let in_test = format!("#[cfg(test)] mod tests {{ {line} }}");
        let files = [
            (SOURCE, line),
            ("crates/a/tests/x.rs", line),
            ("crates/a/src/lib.rs", &in_test),
            ("crates/a/src/b.rs", "use shm::sync::AtomicU32; // not std::sync::atomic"),
        ];
        assert!(places(check, &files).is_empty());
    }
}
