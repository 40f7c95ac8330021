//! The library crates can be made into packages of cargo: their manifests are complete, and they need no file
//! outside their folders.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn cargo(words: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(top()).args(words);
    cargo
}

/// The library crates below `crates`: names and folders.
fn libraries() -> Vec<(String, PathBuf, Value)> {
    let output =
        cargo(&["metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"]).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let folder = top().join("crates");
    let all = metadata["packages"].as_array().unwrap().iter().filter_map(|package| {
        let place = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned();
        let is_library = place.starts_with(&folder) && place.join("src/lib.rs").exists();
        is_library.then(|| (package["name"].as_str().unwrap().to_owned(), place, package.clone()))
    });
    all.collect()
}

#[test]
fn each_library_can_be_packaged() {
    let all = libraries();
    assert!(all.len() > 25, "{}", all.len());
    for (name, _, package) in &all {
        for field in ["description", "license", "rust_version", "edition"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
    }
    // Without the lock file: cargo would look in a registry for those of these crates that it names.
    let mut package = cargo(&["package", "--offline", "--no-verify", "--allow-dirty", "--exclude-lockfile"]);
    let target = tempfile::tempdir().unwrap();
    package.arg("--target-dir").arg(target.path());
    package.args(all.iter().flat_map(|(name, ..)| ["--package", name]));
    let output = package.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made = fs::read_dir(target.path().join("package"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(made.filter(|name| name.ends_with(".crate")).count(), all.len());
}

/// A file beside the crate would be missing in its package, which no compiler tells before.
#[test]
fn no_library_includes_a_file_from_outside() {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    for (name, place, _) in libraries() {
        let mut files = Vec::new();
        sources(&place.join("src"), &mut files);
        for file in files {
            // Tests stay here.
            if file
                .components()
                .any(|step| ["tests", "tests.rs"].map(Some).contains(&step.as_os_str().to_str()))
            {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
            for begin in ["include_str!(\"", "include_bytes!(\""] {
                for part in text.split(begin).skip(1) {
                    let path = part.split('"').next().unwrap();
                    let leads_to = file.parent().unwrap().join(path);
                    let leads_to = leads_to.canonicalize().unwrap_or(leads_to);
                    assert!(leads_to.starts_with(&place), "{name}: {} includes {path}", file.display());
                }
            }
        }
    }
}
