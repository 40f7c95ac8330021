//! Checks that crates depend only on crates of lower layers, as given in `ARCHITECTURE.md`.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::finding::Finding;
use crate::markdown::Document;
use crate::tree::{Package, Tree};

const RULE: &str = "layers";
const PLAN: &str = "ARCHITECTURE.md";

/// The layer of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// From 0, the lowest.
    Numbered(u32),
    /// For development alone: may need any crate, and no crate of a numbered layer may need it.
    Development,
}

/// Names packages that the plan lacks, rows of the plan without a package, and dependencies that do not point
/// to a lower layer.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let packages = tree.packages()?;
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let plan = plan(tree.text(PLAN).unwrap_or(""));
    let mut findings = Vec::new();
    for package in &packages {
        match plan.get(package.name.as_str()) {
            None => {
                let what = format!("package `{}` is not in the table of {PLAN}", package.name);
                findings.push(Finding::error(
                    &manifest(package),
                    1,
                    RULE,
                    what,
                    "add a row: layer, crate, purpose",
                ));
            }
            Some((layer, _)) => findings.extend(upward(tree, package, *layer, &plan)),
        }
    }
    for (name, (_, line)) in &plan {
        if !packages.iter().any(|package| package.name == *name) {
            let what = format!("the table names `{name}`, and there is no such package");
            findings.push(Finding::error(
                PLAN,
                *line,
                RULE,
                what,
                "remove the row, or create the crate first",
            ));
        }
    }
    Ok(findings)
}

/// The rows `| layer | crate | … |` of all tables: crate to layer and line. Crates stand in code spans, also
/// several in one row.
fn plan(text: &str) -> BTreeMap<&str, (Layer, usize)> {
    let mut plan = BTreeMap::new();
    for (line, row) in Document::read(text).prose {
        let mut cells = row.trim().strip_prefix('|').unwrap_or("").split('|').map(str::trim);
        let layer = match cells.next() {
            Some("dev") => Layer::Development,
            Some(cell) => match cell.parse() {
                Ok(number) => Layer::Numbered(number),
                Err(_) => continue,
            },
            None => continue,
        };
        let names = cells.next().unwrap_or("").split('`').skip(1).step_by(2);
        plan.extend(names.map(|name| (name, (layer, line))));
    }
    plan
}

fn manifest(package: &Package) -> String {
    format!("{}/Cargo.toml", package.folder)
}

/// The dependencies of one package that point to its own layer, a higher one, or a crate for development.
/// Tests may depend on any crate.
fn upward(
    tree: &Tree,
    package: &Package,
    from: Layer,
    plan: &BTreeMap<&str, (Layer, usize)>,
) -> Vec<Finding> {
    let Layer::Numbered(layer) = from else { return Vec::new() };
    let name = &package.name;
    let mut findings = Vec::new();
    for dependency in dependencies(&package.manifest) {
        let what = match plan.get(dependency.as_str()) {
            Some((Layer::Numbered(below), _)) if *below >= layer => {
                format!("`{name}` (layer {layer}) depends on `{dependency}` (layer {below})")
            }
            Some((Layer::Development, _)) => {
                format!("`{name}` (layer {layer}) depends on `{dependency}`, which is for development alone")
            }
            _ => continue,
        };
        let path = manifest(package);
        let line = line_of(tree.text(&path).unwrap_or(""), &dependency);
        let next = format!("move what is needed to a lower layer, or change {PLAN} with an ADR");
        findings.push(Finding::error(&path, line, RULE, what, next));
    }
    findings
}

/// Names of the dependencies and build dependencies, for all targets.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    let targets = manifest.get("target").and_then(|targets| targets.as_table());
    let tables =
        targets.into_iter().flat_map(|targets| targets.values().filter_map(|target| target.as_table()));
    for table in tables.chain([manifest]) {
        for kind in ["dependencies", "build-dependencies"] {
            for (key, value) in table.get(kind).and_then(|found| found.as_table()).into_iter().flatten() {
                let renamed = value.get("package").and_then(|package| package.as_str());
                names.push(renamed.unwrap_or(key).to_owned());
            }
        }
    }
    names
}

fn line_of(manifest: &str, dependency: &str) -> usize {
    let names_it = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    // Behind `[dependencies]` at the earliest: `[package]` may hold a key of the same name.
    let start = manifest.lines().position(|line| line.contains("dependencies")).unwrap_or(0);
    manifest.lines().skip(start).position(names_it).map_or(1, |at| start + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const TABLE: &str = "# Layers\n\n| layer | crate | purpose |\n|---|---|---|\n| 2 | `top` | x |\n\
        | 1 | `left`, `right` | y |\n| 0 | `base` | z |\n\n\
        | layer | crate | purpose |\n|---|---|---|\n| dev | `tool` | w |\n";

    /// All packages of the table, of which `name` has this manifest.
    fn found(name: &str, dependencies: &str) -> Vec<String> {
        let manifests: Vec<(String, String)> = ["top", "left", "right", "base", "tool"]
            .iter()
            .map(|package| {
                let its = if *package == name { dependencies } else { "" };
                (format!("crates/{package}/Cargo.toml"), format!("[package]\nname = \"{package}\"\n{its}"))
            })
            .collect();
        let mut files: Vec<(&str, &str)> = manifests.iter().map(|(path, text)| (&**path, &**text)).collect();
        files.push((PLAN, TABLE));
        places(check, &files)
    }

    #[test]
    fn dependencies_on_the_same_or_a_higher_layer_are_found() {
        assert_eq!(found("base", "[dependencies]\ntop.workspace = true"), ["crates/base/Cargo.toml:4"]);
        assert_eq!(found("left", "[dependencies]\nx = \"1\"\nright = {}"), ["crates/left/Cargo.toml:5"]);
        assert_eq!(found("left", "[build-dependencies]\nother = { package = \"top\" }").len(), 1);
        assert_eq!(
            found("left", "[target.'cfg(unix)'.dependencies]\ntop = {}"),
            ["crates/left/Cargo.toml:4"]
        );
        assert_eq!(found("top", "[dependencies]\ntool = {}"), ["crates/top/Cargo.toml:4"]);
    }

    #[test]
    fn dependencies_on_lower_layers_and_those_of_tests_pass() {
        assert!(found("top", "[dependencies]\nleft = {}\nbase = {}\nserde = \"1\"").is_empty());
        assert!(found("base", "[dev-dependencies]\ntop = {}\ntool = {}").is_empty());
        assert!(found("tool", "[dependencies]\ntop = {}").is_empty());
    }

    #[test]
    fn plan_and_packages_agree() {
        let a = ("crates/a/Cargo.toml", "[package]\nname = \"a\"");
        assert_eq!(places(check, &[a]), ["crates/a/Cargo.toml:1"]);
        assert_eq!(places(check, &[a, (PLAN, "| 1 | `a` | x |\n| 1 | `b` | y |")]), ["ARCHITECTURE.md:2"]);
    }
}
