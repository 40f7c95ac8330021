//! Checks that `docs/modules.md` is up to date.

use anyhow::Result;

use crate::finding::Finding;
use crate::modules::{COMMAND, DOCUMENT, document, without_purpose};
use crate::tree::Tree;

const RULE: &str = "modules";

/// Names the first line of the list that is not as the doc comments say, and modules that say nothing.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    if tree.packages()?.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = without_purpose(tree)?;
    let (wanted, there) = (document(tree)?, tree.text(DOCUMENT).unwrap_or(""));
    if wanted != there {
        let same = wanted.lines().zip(there.lines()).take_while(|(wanted, there)| wanted == there).count();
        let what = match wanted.lines().nth(same) {
            Some(line) => format!("the list of modules is out of date: this line should be `{line}`"),
            None => "the list of modules is out of date: it should end here".to_owned(),
        };
        findings.push(Finding::error(DOCUMENT, same + 1, RULE, what, format!("run `{COMMAND}`")));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "[package]\nname = \"a\"");
    const ROOT: (&str, &str) = ("crates/a/src/lib.rs", "//! The crate.\nmod b;");
    const MODULE: (&str, &str) = ("crates/a/src/b.rs", "//! The module.");

    #[test]
    fn a_list_that_is_up_to_date_passes() {
        let list = document(&Tree::of(&[MANIFEST, ROOT, MODULE])).unwrap();
        assert!(places(check, &[MANIFEST, ROOT, MODULE, (DOCUMENT, &list)]).is_empty());
        assert!(places(check, &[("docs/a.md", "no packages")]).is_empty());
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let list = document(&Tree::of(&[MANIFEST, ROOT, MODULE])).unwrap();
        let row = list.lines().position(|line| line == "| `b` | The module. |").unwrap() + 1;
        let stale = list.replace("The module.", "Another one.");
        assert_eq!(
            places(check, &[MANIFEST, ROOT, MODULE, (DOCUMENT, &stale)]),
            [format!("{DOCUMENT}:{row}")]
        );
        let longer = format!("{list}| `c` | Gone. |\n");
        let end = list.lines().count() + 1;
        assert_eq!(
            places(check, &[MANIFEST, ROOT, MODULE, (DOCUMENT, &longer)]),
            [format!("{DOCUMENT}:{end}")]
        );
        assert_eq!(places(check, &[MANIFEST, ROOT, MODULE]), [format!("{DOCUMENT}:1")]);
    }

    #[test]
    fn a_module_that_says_nothing_is_named() {
        let silent = ("crates/a/src/b.rs", "struct B;");
        let list = document(&Tree::of(&[MANIFEST, ROOT, silent])).unwrap();
        assert_eq!(places(check, &[MANIFEST, ROOT, silent, (DOCUMENT, &list)]), ["crates/a/src/b.rs:1"]);
    }
}
