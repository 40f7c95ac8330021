//! Which packages have tests in their documentation: rustdoc reads the source of every package that it is
//! given.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::tree::Tree;

/// The packages of the workspace whose doc comments may hold code. One too many costs a second, none is left
/// out.
pub(super) fn packages(tree: &Tree) -> Result<BTreeSet<String>> {
    let packages = tree.packages()?;
    let mut found = BTreeSet::new();
    for (path, _) in tree.files_ending(".rs").filter(|(_, text)| text.lines().any(may_be_code)) {
        let owner = packages
            .iter()
            .filter(|package| {
                path.strip_prefix(&package.folder).is_some_and(|rest| rest.starts_with("/src/"))
            })
            .max_by_key(|package| package.folder.len());
        found.extend(owner.map(|package| package.name.clone()));
    }
    Ok(found)
}

/// A fence, a line that is indented as code is, or documentation from a file.
fn may_be_code(line: &str) -> bool {
    let line = line.trim_start();
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
    let is_code = |text: &str| text.contains("```") || text.contains("~~~") || text.starts_with("     ");
    comment.is_some_and(is_code) || (line.starts_with('#') && line.contains("doc = include"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_code_in_their_documentation_are_named() {
        let manifest = |name: &str| format!("[package]\nname = \"{name}\"\n");
        let (a, b, c, d) = (manifest("a"), manifest("b"), manifest("c"), manifest("d"));
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", &a),
            ("crates/a/src/lib.rs", "//! Text.\n// ```\nconst X: &str = \"```\";\n"),
            ("crates/a/tests/x.rs", "/// ```\n"),
            ("crates/b/Cargo.toml", &b),
            ("crates/b/src/deep/x.rs", "    /// ```no_run\n"),
            ("crates/c/Cargo.toml", &c),
            ("crates/c/src/lib.rs", "//!     let x = 1;\n"),
            ("crates/d/Cargo.toml", &d),
            ("crates/d/src/lib.rs", "#![doc = include_str!(\"../README.md\")]\n"),
        ]);
        assert_eq!(packages(&tree).unwrap().into_iter().collect::<Vec<_>>(), ["b", "c", "d"]);
    }
}
