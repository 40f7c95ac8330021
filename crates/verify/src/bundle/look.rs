//! The state of a cluster at the end of a run: its nodes, and their files on disk.

use std::path::Path;

use node::cluster::{NodeState, list_nodes};
use node_client::runtime_dir::ClusterDir;
use serde_json::json;
use tieline::NodeId;

use super::process::Process;
use super::shelf::Shelf;
use super::{config, listing, logs};
use crate::Target;
use crate::diag::{self, DiagReport, Expected, Options, View};
use crate::status;

/// Everything that the static test can show.
const ALL: View = View { verbosity: 9, tool: "tieline diag" };

pub(super) fn at(target: &Target, ours: Option<&Path>, shelf: &mut Shelf) {
    put_state(target, shelf);
    let dir = match ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref()) {
        Ok(dir) => dir,
        Err(error) => return shelf.lacks("nodes/, runtime-directory.txt", &error.to_string()),
    };
    match listing::of(dir.path()) {
        Ok(text) => shelf.text("runtime-directory.txt", &text),
        Err(error) => shelf.lacks("runtime-directory.txt", &error.to_string()),
    }
    let nodes = nodes(target, &dir);
    put_processes(&dir, &nodes, ours, shelf);
    logs::put(&dir, &nodes, shelf);
}

/// Those that were tested, and those of which there is only a log.
fn nodes(target: &Target, dir: &ClusterDir) -> Vec<NodeId> {
    let mut nodes = target.nodes.clone();
    nodes.extend(dir.nodes_with("log").unwrap_or_default());
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn put_state(target: &Target, shelf: &mut Shelf) {
    let status = match status::collect(target) {
        Ok(status) => status,
        Err(error) => return shelf.lacks("status, diag, query", &error.to_string()),
    };
    shelf.text("status.txt", &status.render());
    shelf.report("status.json", &status);
    let why = |node: &NodeId| (*node, "its manager does not respond".to_owned());
    let silent = status.silent().iter().map(why).collect();
    let expected = Expected { nodes: target.nodes.clone(), silent };
    let answering = Target { nodes: status.answering(), ..target.clone() };
    // Tests that move data are left out: they are done, and would disturb the users of the cluster again.
    let options = Options { prod: true, hosts: None };
    match diag::run_with(&answering, &expected, &options) {
        Ok(report) => put_diag(&report, shelf),
        Err(error) => shelf.lacks("diag, query", &error.to_string()),
    }
}

fn put_diag(report: &DiagReport, shelf: &mut Shelf) {
    shelf.text("diag.txt", &report.render(ALL));
    shelf.report("diag.json", report);
    let facts: Vec<_> =
        report.nodes.iter().map(|node| json!({ "node": node.node, "query": node.info })).collect();
    shelf.report("query.json", &facts);
}

fn put_processes(dir: &ClusterDir, nodes: &[NodeId], ours: Option<&Path>, shelf: &mut Shelf) {
    let running = list_nodes(dir).unwrap_or_default();
    let mut copies = config::Copies::default();
    for node in nodes {
        let pid = running.iter().find(|entry| entry.node == *node).and_then(|entry| match entry.state {
            NodeState::Running { pid } => pid,
            NodeState::Dead => None,
        });
        let process = pid.map(|pid| Process::new(&pid.to_string()));
        let name = format!("nodes/{node}/process.json");
        match &process {
            Some(process) => shelf.report(&name, &process.describe()),
            None => shelf.lacks(&name, "its manager does not run, or is another user's"),
        }
        let config = config::of(process.as_ref(), ours, &mut copies, shelf);
        shelf.report(&format!("nodes/{node}/config.json"), &config);
    }
}
