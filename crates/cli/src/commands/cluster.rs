//! `tieline up` and `tieline down`.

use std::time::Duration;

use anyhow::anyhow;
use node::cluster::{
    Launcher, NodeEntry, NodeState, StopProgress, UpOptions, UpProgress, UpReport, down as stop_nodes,
    list_nodes, node_ids, up as start_nodes,
};
use node_client::runtime_dir::ClusterDir;
use serde_json::json;
use tieline::NodeId;

use super::{cluster_dir, in_namespaces, over_ssh};
use crate::args::{Common, Down, Up};
use crate::exit::{Failure, Outcome, PASS};
use crate::interrupt;
use crate::output::Output;

/// How long a manager may take to end in an orderly way before it is ended by a signal.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long sessions may take to become valid: a machine under load is slow, not broken.
const UP_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn up(common: &Common, arguments: &Up, output: Output) -> Outcome {
    if let Some(file) = &arguments.hosts {
        return over_ssh::up(common, file, output);
    }
    if let Some(count) = arguments.hosts_in_namespaces {
        return in_namespaces::up(common, arguments, count as usize, output);
    }
    let nodes = node_ids(arguments.nodes as usize, None)?;
    let report = start(common, nodes, arguments.faults, output)?;
    let dir = cluster_dir(common)?;
    let lacks = |node: &&NodeId| node::cluster::status(&dir, **node).is_ok_and(|status| !status.info.faults);
    let without_faults: Vec<NodeId> = if arguments.faults {
        report.already_running.iter().filter(lacks).copied().collect()
    } else {
        Vec::new()
    };
    let took_s = report.took.as_secs_f64();
    output.result(
        || {
            Ok(json!({
                "schema": "tieline.up/1",
                "cluster": common.cluster.as_deref().unwrap_or("default"),
                "started": report.started,
                "already_running": report.already_running,
                "without_faults": without_faults,
                "took_s": took_s,
            }))
        },
        || {
            let mut text = String::new();
            if !report.already_running.is_empty() {
                text += &format!("already running: {}", named(&report.already_running));
                let all = report.already_running.len() + report.started.len();
                if all > arguments.nodes as usize {
                    text += &format!(" ({all} in all, {} were asked for)", arguments.nodes);
                }
                text.push('\n');
            }
            if !without_faults.is_empty() {
                text += &format!(
                    "already running without fault injection: {}; to enable it: `tieline down`, then `tieline up --faults`\n",
                    named(&without_faults)
                );
            }
            if !report.started.is_empty() {
                text += &format!("started: {}\n", named(&report.started));
            }
            text + &format!("all sessions valid after {took_s:.2} s\n")
        },
    )?;
    Ok(PASS)
}

/// Whether managers of these nodes may run here: not beside hosts in namespaces, and no node of another host.
pub(super) fn may_run_here(common: &Common, nodes: &[NodeId]) -> Result<(), Failure> {
    let dir = cluster_dir(common)?;
    in_namespaces::refuse_beside(&dir)?;
    node::hosts::check_here(dir.cluster().as_str(), nodes)?;
    Ok(())
}

/// Starts nodes and shows progress.
pub(super) fn start(
    common: &Common,
    nodes: Vec<NodeId>,
    faults: bool,
    output: Output,
) -> Result<UpReport, Failure> {
    may_run_here(common, &nodes)?;
    // A manager that is only just being started leaves its files if nobody is there to take them away.
    interrupt::end_with_what_there_is()?;
    let options = UpOptions {
        dir: cluster_dir(common)?,
        nodes,
        launcher: Launcher { faults, ..Launcher::this_binary()? },
        config: common.config.clone(),
        limit: UP_LIMIT,
        keep_files: false,
        stop: interrupt::has_arrived,
    };
    let mut started = Vec::new();
    let report = start_nodes(&options, &mut |progress| match progress {
        UpProgress::Started { node, .. } => {
            started.push(node);
            output.passing(&format!("starting node {node}"));
        }
        UpProgress::Ready { ready, of } => output.passing(&format!("{ready} of {of} nodes connected")),
        UpProgress::AlreadyRunning { .. } => {}
    });
    output.progress_done();
    report.map_err(|error| with_what_was_started(error.into(), &options.dir, &started))
}

/// A start that failed half-way may leave managers, which somebody has to know of.
fn with_what_was_started(failure: Failure, dir: &ClusterDir, started: &[NodeId]) -> Failure {
    let runs = |entry: &NodeEntry| matches!(entry.state, NodeState::Running { .. });
    let entries = list_nodes(dir).unwrap_or_default();
    let left: Vec<_> = entries.iter().filter(|entry| runs(entry)).map(|entry| entry.node).collect();
    let left: Vec<_> = left.into_iter().filter(|node| started.contains(node)).collect();
    if left.is_empty() {
        return failure;
    }
    let text = failure.text();
    let error = anyhow!(
        "{text}; started before that, and still running: {}: `tieline down` stops what runs",
        named(&left)
    );
    Failure { status: failure.status, error }
}

/// Stops nodes (`None`: all) and shows progress.
pub(super) fn stop(
    common: &Common,
    nodes: Option<&[NodeId]>,
    output: Output,
) -> Result<node::cluster::DownReport, Failure> {
    let dir = cluster_dir(common)?;
    let report = stop_nodes(&dir, nodes, STOP_LIMIT, &mut |progress| match progress {
        StopProgress::Stopped { node } => output.passing(&format!("node {node} has stopped")),
        StopProgress::Killed { node, pid } => {
            output.note(&format!("node {node} (pid {pid}) did not stop in time and was killed"));
        }
        StopProgress::Removed { node } => {
            output.passing(&format!("node {node} was dead; its files are removed"))
        }
    });
    output.progress_done();
    Ok(report?)
}

pub(super) fn down(common: &Common, arguments: &Down, output: Output) -> Outcome {
    if let Some(file) = &arguments.hosts {
        return over_ssh::down(common, file, output);
    }
    let dir = cluster_dir(common)?;
    if namespaces::is_there(&dir) {
        return in_namespaces::down(&dir, output);
    }
    let report = stop(common, None, output)?;
    let searched = dir.path();
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
                return format!("no node of cluster `{cluster}` runs (searched {})\n", searched.display());
            }
            let mut text = String::new();
            for (what, nodes) in [
                ("stopped", &report.stopped),
                ("killed", &report.killed),
                ("removed what was left of", &report.removed),
            ] {
                if !nodes.is_empty() {
                    text += &format!("{what}: {}\n", named(nodes));
                }
            }
            text
        },
    )?;
    Ok(PASS)
}

/// Nodes with their noun: `node 4`, `nodes 4, 8`.
pub(super) fn named(nodes: &[NodeId]) -> String {
    format!("{} {}", if nodes.len() == 1 { "node" } else { "nodes" }, list(nodes))
}

/// Ids as people read them.
pub(super) fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
