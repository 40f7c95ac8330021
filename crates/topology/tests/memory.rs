//! What reading a large fabric takes.

#![allow(clippy::unwrap_used)]

use topology::build::{FatTree, fat_tree};
use topology::{read, write};

/// Kilobytes of this process: at most, or now.
fn kilobytes(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A tree of all values of the file took 120 MB.
#[test]
fn our_own_format_is_read_without_a_tree_of_values() {
    let graph = fat_tree(&FatTree::new(36, 3)).unwrap();
    let mut bytes = Vec::new();
    write::toml(&graph, &mut bytes).unwrap();
    let before = kilobytes("VmHWM:").max(kilobytes("VmRSS:"));
    let again = read::read(&bytes, None).unwrap();
    let took = kilobytes("VmHWM:") - before;
    assert!(again.graph == graph);
    assert!(took < 30_000, "{took} kB");
}
