//! Every structure, field and number of this crate against the C headers of libfabric, by a C program that
//! prints its own.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use fabric_sys::abi::LAYOUTS;
use fabric_sys::constants::NUMBERS;

const HEADERS: [&str; 8] =
    ["fabric", "fi_domain", "fi_endpoint", "fi_eq", "fi_rma", "fi_tagged", "fi_atomic", "fi_cm"];

fn program() -> String {
    let mut source = String::from("#include <stdio.h>\n");
    for header in HEADERS {
        let _ = writeln!(source, "#include <rdma/{header}.h>");
    }
    source.push_str("int main(void) {\n");
    for layout in LAYOUTS {
        let name = layout.name;
        let _ = writeln!(source, "printf(\"{name} %zu\\n\", sizeof(struct {name}));");
        for (field, _) in layout.fields {
            let field = field.trim_start_matches("r#");
            let _ = writeln!(source, "printf(\"{name}.{field} %zu\\n\", offsetof(struct {name}, {field}));");
        }
    }
    for (name, _) in NUMBERS {
        let _ = writeln!(source, "printf(\"{name} %llu\\n\", (unsigned long long) {name});");
    }
    source.push_str("return 0; }\n");
    source
}

/// The same lines, of this crate.
fn own() -> String {
    let mut lines = String::new();
    for layout in LAYOUTS {
        let _ = writeln!(lines, "{} {}", layout.name, layout.size_bytes);
        for (field, offset) in layout.fields {
            let _ = writeln!(lines, "{}.{} {offset}", layout.name, field.trim_start_matches("r#"));
        }
    }
    for (name, number) in NUMBERS {
        let _ = writeln!(lines, "{name} {number}");
    }
    lines
}

/// Why the headers cannot be asked, if so.
fn lacking() -> Option<&'static str> {
    if !Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some("there is no C compiler (package gcc)");
    }
    let probe = Command::new("sh").args(["-c", "echo '#include <rdma/fabric.h>' | cc -E -x c -"]).output();
    match probe.is_ok_and(|output| output.status.success()) {
        true => None,
        false => Some("the headers of libfabric are not installed (package libfabric-dev)"),
    }
}

fn is_of_1_17() -> bool {
    let script =
        "printf '#include <rdma/fabric.h>\\nversion FI_MAJOR_VERSION.FI_MINOR_VERSION\\n' | cc -E -P -x c -";
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).replace(' ', "").contains("version1.17")
}

#[test]
fn structures_and_numbers_are_those_of_the_c_headers() {
    if let Some(why) = lacking() {
        println!("skipped: {why}");
        return;
    }
    if !is_of_1_17() {
        println!(
            "skipped: the installed headers of libfabric are not those of 1.17, whose structures this crate has"
        );
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("layouts.c"), folder.join("layouts"));
    std::fs::write(&source, program()).unwrap();
    let compiled = Command::new("cc").arg("-w").arg(&source).arg("-o").arg(&binary).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let theirs = String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap();
    let ours = own();
    let differing: Vec<_> =
        theirs.lines().zip(ours.lines()).filter(|(theirs, ours)| theirs != ours).collect();
    assert!(differing.is_empty(), "C has, Rust has: {differing:#?}");
    assert_eq!(theirs.lines().count(), ours.lines().count());
    println!("{} lines compared", ours.lines().count());
}
