//! `tieline up` and `tieline down`.

use std::time::Duration;

use node::cluster::{
    Launcher, StopProgress, UpOptions, UpProgress, UpReport, down as stop_nodes, node_ids, up as start_nodes,
};
use serde_json::json;
use tieline::NodeId;

use super::cluster_dir;
use crate::args::{Common, Up};
use crate::exit::{Failure, Outcome, PASS};
use crate::output::Output;

/// How long a manager may take to end in an orderly way before it is ended by a signal.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long sessions may take to become valid: a machine under load is slow, not broken.
const UP_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn up(common: &Common, arguments: &Up, output: Output) -> Outcome {
    let nodes = node_ids(arguments.nodes as usize, common.node).map_err(Failure::usage)?;
    let report = start(common, nodes, output)?;
    let took_s = report.took.as_secs_f64();
    output.result(
        || {
            Ok(json!({
                "schema": "tieline.up/1",
                "cluster": common.cluster.as_deref().unwrap_or("default"),
                "started": report.started,
                "already_running": report.already_running,
                "took_s": took_s,
            }))
        },
        || {
            let mut text = String::new();
            if !report.already_running.is_empty() {
                text += &format!("already running: node {}\n", list(&report.already_running));
            }
            if !report.started.is_empty() {
                text += &format!("started: node {}\n", list(&report.started));
            }
            text + &format!("all sessions valid after {took_s:.2} s\n")
        },
    )?;
    Ok(PASS)
}

/// Starts nodes and shows progress.
pub(super) fn start(common: &Common, nodes: Vec<NodeId>, output: Output) -> Result<UpReport, Failure> {
    let options = UpOptions {
        dir: cluster_dir(common)?,
        nodes,
        launcher: Launcher::this_binary()?,
        config: common.config.clone(),
        limit: UP_LIMIT,
    };
    let report = start_nodes(&options, &mut |progress| match progress {
        UpProgress::Started { node, .. } => output.progress(&format!("starting node {node}")),
        UpProgress::Ready { ready, of } => output.progress(&format!("{ready} of {of} nodes see all others")),
        UpProgress::AlreadyRunning { .. } => {}
    });
    output.progress_done();
    Ok(report?)
}

/// Stops nodes (`None`: all) and shows progress.
pub(super) fn stop(
    common: &Common,
    nodes: Option<&[NodeId]>,
    output: Output,
) -> Result<node::cluster::DownReport, Failure> {
    let dir = cluster_dir(common)?;
    let report = stop_nodes(&dir, nodes, STOP_LIMIT, &mut |progress| match progress {
        StopProgress::Stopped { node } => output.progress(&format!("node {node} has stopped")),
        StopProgress::Killed { node, pid } => {
            output.note(&format!("node {node} (pid {pid}) did not stop in time and was killed"));
        }
        StopProgress::Removed { node } => {
            output.progress(&format!("node {node} was dead; its files are removed"))
        }
    });
    output.progress_done();
    Ok(report?)
}

pub(super) fn down(common: &Common, output: Output) -> Outcome {
    let only = common.node.map(|node| vec![node]);
    let report = stop(common, only.as_deref(), output)?;
    output.result(
        || {
            Ok(json!({
                "schema": "tieline.down/1",
                "stopped": report.stopped,
                "killed": report.killed,
                "removed": report.removed,
            }))
        },
        || {
            let cluster = common.cluster.as_deref().unwrap_or("default");
            if report.is_empty() {
                return format!("nothing of cluster `{cluster}` runs here\n");
            }
            let mut text = String::new();
            for (what, nodes) in [
                ("stopped", &report.stopped),
                ("killed", &report.killed),
                ("removed what was left of", &report.removed),
            ] {
                if !nodes.is_empty() {
                    text += &format!("{what}: node {}\n", list(nodes));
                }
            }
            text
        },
    )?;
    Ok(PASS)
}

/// Ids as people read them.
pub(super) fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
