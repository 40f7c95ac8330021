//! What the library exports is what the headers declare, under the three names that programs link with or
//! look up.

use std::collections::BTreeSet;
use std::process::Command;

use tieline_tests::{Cluster, Watchdog};

use crate::c;

const PREFIXES: [&str; 3] = ["", "_SISCI_PUBLIC_FUNC_ST_", "_SISCI_PUBLIC_FUNC_MT_"];

/// Names of the functions that the headers declare: what is before a parenthesis at the start of a
/// declaration.
fn declared() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for header in ["sisci_api.h", "sisci_unsupported.h"] {
        let text = std::fs::read_to_string(c::top().join("include/sisci").join(header)).unwrap();
        for line in text.lines() {
            let Some((before, _)) = line.split_once('(') else { continue };
            let is_declaration = !line.starts_with(['#', ' ', '/', '*']) && before.contains(' ');
            let name = before.rsplit([' ', '*']).next().unwrap_or_default();
            if is_declaration && (name.contains("SCI") || name.contains("Sci") || name.starts_with("DIS")) {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// Functions that C programs can see in the library.
fn exported() -> BTreeSet<String> {
    let symbols = c::must(Command::new("nm").args(["-D", "--defined-only"]).arg(c::library()));
    symbols.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

#[test]
fn exactly_what_is_declared_is_exported_under_three_names() {
    if !c::is_there("nm") {
        return;
    }
    let declared = declared();
    assert!(declared.len() > 100, "only {} declarations were understood", declared.len());
    let wanted: BTreeSet<String> = PREFIXES
        .iter()
        .flat_map(|prefix| declared.iter().map(move |name| format!("{prefix}{name}")))
        .collect();
    let exported = exported();
    let missing: Vec<_> = wanted.difference(&exported).collect();
    let surplus: Vec<_> = exported.difference(&wanted).collect();
    assert!(missing.is_empty(), "declared and not exported: {missing:?}");
    assert!(surplus.is_empty(), "exported and not declared: {surplus:?}");
}

#[test]
fn programs_that_look_names_up_find_them() {
    let _watchdog = Watchdog::usual("functions by name");
    let cluster = Cluster::up(1).unwrap();
    crate::run(&cluster, &c::program("by_name"), 0, &[c::library().to_str().unwrap()]);
}

#[test]
fn the_library_is_asked_for_by_its_usual_name() {
    if !c::is_there("readelf") {
        return;
    }
    let dynamic = c::must(Command::new("readelf").arg("-d").arg(c::library()));
    assert!(dynamic.contains("soname: [libsisci.so]"), "{dynamic}");
}

/// Rows of the document's tables of functions: the names, and the programs that show them.
fn documented() -> Vec<(Vec<String>, Vec<String>, String)> {
    let text = std::fs::read_to_string(c::top().join("docs/sisci.md")).unwrap();
    let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let links = |cell: &str| {
        cell.split("](").skip(1).filter_map(|link| link.split_once(')')).map(|it| it.0.into()).collect()
    };
    let cells = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
    let rows = text.lines().map(cells).filter(|cells| cells.len() == 5 && cells[1].contains('`'));
    rows.map(|cells| (code(&cells[1]), links(&cells[3]), cells[2].clone())).collect()
}

#[test]
fn the_document_names_a_test_that_calls_each_function() {
    let mut named = BTreeSet::new();
    for (functions, tests, says) in documented() {
        let sources: String = tests
            .iter()
            .map(|test| std::fs::read_to_string(c::top().join("docs").join(test)).unwrap())
            .collect();
        for function in functions {
            let is_called = sources.contains(&format!("{function}("));
            assert!(is_called || says.contains("Not implemented yet"), "no test of its row calls {function}");
            assert!(named.insert(function.clone()), "{function} is named twice");
        }
    }
    assert_eq!(named, declared());
}
