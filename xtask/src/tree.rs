//! The files of the repository and its packages, as the rules see them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that hold what was built or downloaded, never what was written.
const SKIPPED_FOLDERS: [&str; 4] = [".git", "target", "node_modules", "corpus"];

/// All text files, by path relative to the root, with `/` between the parts.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
    /// Paths that exist and are not text (pictures, say), so that a link to one is known to be good.
    others: Vec<String>,
}

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Folder relative to the root, such as `crates/shm`.
    pub folder: String,
    /// As the manifest names it.
    pub name: String,
    /// The parsed manifest.
    pub manifest: toml::Table,
}

impl Tree {
    /// Reads a repository from disk.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    /// A tree in memory, for tests.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Self { files, others: Vec::new() }
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().with_context(|| format!("cannot look at {path}"))?;
            if kind.is_dir() {
                if !SKIPPED_FOLDERS.contains(&name.as_str()) && !name.starts_with("target-") {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                match String::from_utf8(bytes) {
                    Ok(text) => drop(self.files.insert(path, text)),
                    Err(_) => self.others.push(path),
                }
            }
        }
        Ok(())
    }

    /// Path and text of all text files, in order.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Path and text of the files with this ending, dot included.
    pub fn files_ending(&self, ending: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.ends_with(ending))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// There is such a file, or such a folder (with something in it).
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.others.iter().any(|other| other == path || other.starts_with(&folder))
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// The packages of the workspace, by folder.
    pub fn packages(&self) -> Result<Vec<Package>> {
        let mut packages = Vec::new();
        for (path, text) in self.files_ending("Cargo.toml") {
            let manifest: toml::Table =
                toml::from_str(text).with_context(|| format!("{path} is not a manifest"))?;
            let name =
                manifest.get("package").and_then(|package| package.get("name")).and_then(|n| n.as_str());
            let (Some(name), Some(folder)) = (name, path.strip_suffix("/Cargo.toml")) else { continue };
            packages.push(Package {
                folder: folder.to_owned(),
                name: name.to_owned(),
                manifest: manifest.clone(),
            });
        }
        Ok(packages)
    }
}

impl Package {
    /// The files that the compiler starts from, as far as they exist: each carries crate-wide attributes of
    /// its own.
    pub fn roots<'t>(&self, tree: &'t Tree) -> Vec<(String, &'t str)> {
        ["src/lib.rs", "src/main.rs"]
            .iter()
            .map(|end| format!("{}/{end}", self.folder))
            .filter_map(|path| tree.text(&path).map(|text| (path, text)))
            .collect()
    }
}

/// Whether a Rust file holds only tests, benchmarks or examples, judged by where it lies.
pub fn is_test_path(path: &str) -> bool {
    let in_test_folder =
        path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"));
    in_test_folder || path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.ends_with("/test.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_exist_only_if_they_do() {
        let tree = Tree::of(&[("docs/adr/README.md", "x"), ("run", "y")]);
        for there in ["docs", "docs/", "docs/adr", "docs/adr/README.md", "run", ""] {
            assert!(tree.exists(there), "{there}");
        }
        for missing in ["doc", "docs/ad", "docs/adr/README", "runs"] {
            assert!(!tree.exists(missing), "{missing}");
        }
    }

    #[test]
    fn a_workspace_manifest_is_no_package() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\nmembers = []"),
            ("crates/a/Cargo.toml", "[package]\nname = \"a\""),
            ("crates/a/src/lib.rs", ""),
        ]);
        let packages = tree.packages().unwrap();
        assert_eq!(packages.len(), 1);
        assert_eq!((packages[0].name.as_str(), packages[0].folder.as_str()), ("a", "crates/a"));
        assert_eq!(packages[0].roots(&tree), [("crates/a/src/lib.rs".to_owned(), "")]);
    }

    #[test]
    fn a_broken_manifest_is_named() {
        let error = Tree::of(&[("crates/a/Cargo.toml", "[package")]).packages().unwrap_err();
        assert!(error.to_string().contains("crates/a/Cargo.toml"), "{error}");
    }

    #[test]
    fn tests_are_known_by_where_they_lie() {
        for path in
            ["crates/a/tests/x.rs", "crates/a/src/ring/tests.rs", "crates/a/examples/e.rs", "tests/cli/a.rs"]
        {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["crates/a/src/lib.rs", "crates/a/src/latest.rs", "crates/a/src/testsuite.rs"] {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn a_tree_is_read_from_disk_without_what_was_built() {
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        fs::create_dir_all(root.join("target/debug")).unwrap();
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::write(root.join("target/debug/x.rs"), "built").unwrap();
        fs::write(root.join("docs/a.md"), "text").unwrap();
        fs::write(root.join("docs/b.png"), [0xff, 0xfe, 0x00]).unwrap();
        let tree = Tree::read(&root);
        fs::remove_dir_all(&root).unwrap();
        let tree = tree.unwrap();
        assert_eq!(tree.files().collect::<Vec<_>>(), [("docs/a.md", "text")]);
        assert!(tree.exists("docs/b.png"));
    }
}
