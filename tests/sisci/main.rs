//! The C API as C programs see it: headers, exported names, and programs that check each function on real
//! nodes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod c;
mod examples;
mod headers;
mod install;
mod keeps;
mod memory;
mod names;
mod programs;
mod scarcity;

use tieline_tests::{Cluster, Peer};

/// Runs a program as one node's, with nobody to talk to; it must end well.
pub(crate) fn run(cluster: &Cluster, program: &str, node: usize, arguments: &[&str]) {
    finish(Peer::start(cluster, program, node, arguments).unwrap());
}

/// The program must end well.
pub(crate) fn finish(peer: Peer) {
    let status = peer.finish().unwrap();
    assert!(status.success(), "the program ended with {status}; its reason stands above");
}

/// The id of a node, as a program gets it.
pub(crate) fn id(cluster: &Cluster, node: usize) -> String {
    cluster.nodes()[node].to_string()
}
