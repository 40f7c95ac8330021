//! `tieline node`.

use node::daemon::settings_for;
use node::{Daemon, DaemonOptions, NodeError};
use node_client::runtime_dir::DEFAULT_CLUSTER;
use tieline::NodeId;

use super::cluster::{list, may_run_here, start, stop};
use super::{cluster_dir, usage};
use crate::args::{Common, NodeAction};
use crate::exit::{Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, action: &NodeAction, output: Output) -> Outcome {
    if let NodeAction::Run { background } = action {
        return foreground(common, *background);
    }
    let Some(id) = common.node.or_else(|| own(common)) else {
        return Err(usage(match action {
            NodeAction::Start => {
                "--node is missing: give the ID of the node to start, a multiple of 4 that no running node has"
            }
            _ => "--node is missing: give the ID of the node (`tieline status` lists those that run)",
        }));
    };
    let common = &Common { node: Some(id), ..common.clone() };
    match action {
        NodeAction::Start => {
            let report = start(common, vec![id], false, output)?;
            let dir = cluster_dir(common)?;
            if let Some(warning) = node::hosts::address_warning_of(dir.cluster().as_str(), id) {
                output.note(&format!("warning: {warning}"));
            }
            say(output, id, if report.started.contains(&id) { "started" } else { "was running already" })
        }
        NodeAction::Stop => {
            may_run_here(common, &[id])?;
            let report = stop(common, Some(&[id]), output)?;
            if report.is_empty() {
                let dir = cluster_dir(common)?;
                output.note(&format!("no manager of node {id} was found in {}", dir.path().display()));
            }
            say(output, id, if report.is_empty() { "was not running" } else { "stopped" })
        }
        NodeAction::Restart => {
            may_run_here(common, &[id])?;
            let stopped = stop(common, Some(&[id]), output)?;
            start(common, vec![id], false, output)?;
            let ran = stopped.stopped.contains(&id) || stopped.killed.contains(&id);
            say(output, id, if ran { "restarted" } else { "was not running and has been started" })
        }
        NodeAction::Run { .. } | NodeAction::Status => super::status::run(common, output),
    }
}

/// The node of this host, if it has one node of the cluster, of several hosts.
fn own(common: &Common) -> Option<NodeId> {
    match node::hosts::nodes_here(common.cluster.as_deref().unwrap_or(DEFAULT_CLUSTER))[..] {
        [only] => Some(only),
        _ => None,
    }
}

fn say(output: Output, node: NodeId, what: &str) -> Outcome {
    output.result(
        || Ok(serde_json::json!({ "schema": "tieline.node/1", "node": node, "outcome": what })),
        || format!("node {} {what}\n", list(&[node])),
    )?;
    Ok(PASS)
}

fn foreground(common: &Common, background: bool) -> Outcome {
    let config = common.config.as_deref();
    let (mut settings, id) = match settings_for(config, common.node) {
        Err(NodeError::NoId) => settings_for(config, own(common))?,
        found => found?,
    };
    if !background {
        may_run_here(common, &[id])?;
    }
    tracing_subscriber::fmt()
        .with_max_level(crate::environment::log_level()?)
        .with_target(false)
        // A log that cannot be written must not end the manager: its lines are lost, nothing else.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    if background {
        node::cluster::detach();
    }
    let dir = cluster_dir(common)?;
    // Whatever is wrong with the directory the manager says itself.
    if node::runtime_dir::prepare_root_of(&dir).is_ok() {
        settings.copy_plan = Some(node::copy_plan::at_start(dir.root())?);
    }
    settings.hosts = node::hosts::directory(dir.cluster().as_str());
    let options = DaemonOptions { dir, node: id, settings, signals: true };
    let daemon = Daemon::start(&options)?;
    daemon.run()?;
    Ok(PASS)
}
