//! Checks that unsafe code is only in crate `shm` and at the borders to C, and that all other
//! crates forbid it.

use anyhow::Result;

use crate::finding::Finding;
use crate::rust::{Kind, lex};
use crate::tree::Tree;

const RULE: &str = "unsafe";
/// Packages whose purpose it is: shared memory, functions that C programs call, whether their threads can be
/// cancelled, those that are called in place of the C library's, a program without one, libfabric's binary
/// interface, functions that libfabric calls, and, each in one module that the crate's root allows and no
/// other: calls as C programs make them, the kernel's device for management datagrams, the objects of
/// libfabric.
const MAY_BE_UNSAFE: [&str; 11] = [
    "crates/shm",
    "crates/cancellation",
    "crates/sisci",
    "crates/messages-c",
    "crates/sockets",
    "crates/launcher",
    "crates/differential",
    "crates/mad",
    "crates/fabric-sys",
    "crates/ofi",
    "crates/fi-provider",
];
/// Packages that are safe themselves, and write unsafe code for others.
const MAY_WRITE_UNSAFE: [&str; 1] = ["crates/shm-derive"];

/// Names unsafe code outside its crate, and roots that do not forbid it.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, text) in tree.files_ending(".rs") {
        if lies_in(path, &MAY_BE_UNSAFE) || lies_in(path, &MAY_WRITE_UNSAFE) {
            continue;
        }
        for token in lex(text) {
            if token.kind == Kind::Word && token.text == "unsafe" {
                let next = "move it behind a safe function of crate shm, where all unsafe code is reviewed";
                findings.push(Finding::error(path, token.line, RULE, "`unsafe` outside crate shm", next));
            }
        }
    }
    for package in tree.packages()? {
        if MAY_BE_UNSAFE.contains(&package.folder.as_str()) {
            continue;
        }
        for (path, text) in package.roots(tree) {
            if !forbids(text) {
                let what = "the root of the crate does not forbid unsafe code";
                findings.push(Finding::error(&path, 1, RULE, what, "add `#![forbid(unsafe_code)]`"));
            }
        }
    }
    Ok(findings)
}

fn lies_in(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
}

/// The attribute stands in the code, not in a comment about it.
fn forbids(text: &str) -> bool {
    let code: String =
        lex(text).iter().filter(|token| token.kind != Kind::Comment).map(|token| token.text).collect();
    code.contains("#![forbid(unsafe_code)]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const A: (&str, &str) = ("crates/a/Cargo.toml", "[package]\nname = \"a\"");
    const SHM: (&str, &str) = ("crates/shm/Cargo.toml", "[package]\nname = \"shm\"");

    #[test]
    fn unsafe_code_outside_shm_is_found_with_its_line() {
        let root = "#![forbid(unsafe_code)]\nfn f() {}\nunsafe fn g() {}";
        assert_eq!(places(check, &[A, ("crates/a/src/lib.rs", root)]), ["crates/a/src/lib.rs:3"]);
        assert_eq!(
            places(check, &[("crates/shm-other/src/x.rs", "unsafe {}")]),
            ["crates/shm-other/src/x.rs:1"]
        );
    }

    #[test]
    fn a_root_that_does_not_forbid_it_is_found() {
        let only_said = "// #![forbid(unsafe_code)]";
        let files = [A, ("crates/a/src/lib.rs", only_said), ("crates/a/src/main.rs", "")];
        assert_eq!(places(check, &files), ["crates/a/src/lib.rs:1", "crates/a/src/main.rs:1"]);
    }

    #[test]
    fn shm_may_the_derive_may_write_it_and_comments_may_name_it() {
        let files = [
            A,
            SHM,
            ("crates/shm/src/lib.rs", "unsafe {}"),
            ("crates/shm-derive/Cargo.toml", "[package]\nname = \"shm-derive\""),
            ("crates/shm-derive/src/lib.rs", "#![forbid(unsafe_code)] quote! { unsafe impl X }"),
            ("crates/a/src/lib.rs", "//! no unsafe\n#![forbid( unsafe_code )]\nconst S: &str = \"unsafe\";"),
        ];
        assert!(places(check, &files).is_empty());
    }
}
