//! The library's file: what it takes the place of, and that it needs nothing and brings nothing.

use std::collections::BTreeSet;
use std::process::Command;

use crate::built::{library, must, top};

fn ask(program: &str, arguments: &[&str]) -> String {
    must(Command::new(program).args(arguments).arg(library()))
}

#[test]
fn it_takes_the_place_of_these_names_and_no_others() {
    let listed = std::fs::read_to_string(top().join("crates/sockets/exported.map")).unwrap();
    let names = listed.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let listed: BTreeSet<&str> = names.filter(|name| !name.contains(['*', '}', ' '])).collect();
    let symbols = ask("nm", &["-D", "--defined-only"]);
    let exported: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(exported, listed);
    assert!(exported.len() > 130, "{exported:?}");
}

#[test]
fn each_of_them_is_a_function_of_the_c_library() {
    let needed = must(Command::new("ldd").arg("/bin/sh"));
    let library = needed.split_whitespace().find(|word| word.starts_with('/') && word.contains("libc.so"));
    let symbols = must(Command::new("nm").args(["-D", "--defined-only", library.unwrap()]));
    let known: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| name.split('@').next().unwrap_or(name))
        .collect();
    let own = ask("nm", &["-D", "--defined-only"]);
    let unknown: Vec<&str> = own
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| !known.contains(name))
        .collect();
    assert!(unknown.is_empty(), "a program that asks for these would find them only here: {unknown:?}");
}

#[test]
fn it_needs_no_other_library_and_nothing_of_one() {
    let undefined = ask("nm", &["-D", "--undefined-only"]);
    let names: Vec<&str> = undefined.lines().filter_map(|line| line.split_whitespace().last()).collect();
    // From the dynamic linker, the one or the other: none must be there.
    assert_eq!(names, ["__environ", "_dl_debug_addr", "_r_debug"]);
    assert!(undefined.lines().all(|line| line.trim_start().starts_with("w ")), "{undefined}");
    let dynamic = ask("readelf", &["-dW"]);
    assert!(!dynamic.contains("NEEDED"), "{dynamic}");
    assert!(dynamic.contains("[libtieline-sockets.so]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE") && dynamic.contains("BIND_NOW"), "{dynamic}");
}

#[test]
fn it_has_one_constructor_one_destructor_and_no_thread_local_variable() {
    let sections = ask("readelf", &["-SW"]);
    let size = |name: &str| {
        let line = sections.lines().find(|line| line.split_whitespace().any(|word| word == name))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == name)?;
        usize::from_str_radix(words.get(at + 4)?, 16).ok()
    };
    assert_eq!((size(".init_array"), size(".fini_array")), (Some(8), Some(8)), "{sections}");
    for name in [".init", ".fini", ".tdata", ".tbss", ".ctors", ".dtors"] {
        assert_eq!(size(name), None, "{sections}");
    }
    assert!(!ask("readelf", &["-lW"]).contains(" TLS "));
}

/// A thread that is cancelled, and a handler that examines its stack, may be anywhere.
#[test]
fn each_name_can_be_unwound_from() {
    let tables = ask("readelf", &["--debug-dump=frames", "-W"]);
    let ranges: Vec<(u64, u64)> = tables
        .lines()
        .filter_map(|line| line.split_once("pc=")?.1.split_once(".."))
        .filter_map(|(from, to)| {
            Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to.trim(), 16).ok()?))
        })
        .collect();
    let symbols = ask("nm", &["--demangle"]);
    let mut seen = 0;
    for line in symbols.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, "T" | "t", name, ..] = words[..] else { continue };
        let address = u64::from_str_radix(address, 16).unwrap();
        assert!(ranges.iter().any(|(from, to)| (*from..*to).contains(&address)), "{name} at {address:x}");
        seen += 1;
    }
    assert!(seen > 300, "{seen}");
}

#[test]
fn shadow_stacks_stay_on() {
    let notes = ask("readelf", &["-nW"]);
    assert!(notes.contains("SHSTK"), "{notes}");
}

#[test]
fn nothing_that_a_hook_reads_has_to_be_relocated() {
    let relocations = ask("readelf", &["-rW"]);
    let of_kind = |kind: &str| relocations.lines().filter(|line| line.contains(kind)).count();
    // The constructor and the destructor, for the loader, and the three names that may not be there.
    assert_eq!((of_kind("R_X86_64_RELATIVE"), of_kind("R_X86_64_GLOB_DAT")), (2, 3), "{relocations}");
    assert_eq!(of_kind("R_X86_64_"), 5, "{relocations}");
}

#[test]
fn no_panic_is_in_it_and_nothing_is_unwound_to() {
    let symbols = ask("nm", &["--demangle"]);
    for word in ["panic", "alloc", "std::", "unwind", "personality", "mem_c", "memcpy", "memset"] {
        let found: Vec<&str> =
            symbols.lines().filter(|line| line.contains(word) && !line.contains("core::option::")).collect();
        assert!(found.is_empty(), "{word}: {found:?}");
    }
    // A landing pad would be in the way of a thread that is cancelled.
    assert!(!ask("readelf", &["-SW"]).contains(".gcc_except_table"));
}
