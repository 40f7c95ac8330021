//! `tieline node`.

use node::daemon::settings_for;
use node::{Daemon, DaemonOptions};
use tracing_subscriber::filter::LevelFilter;

use super::cluster::{list, start, stop};
use super::{cluster_dir, usage};
use crate::args::{Common, NodeAction};
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, action: &NodeAction, output: Output) -> Outcome {
    match action {
        NodeAction::Run { id, background } => foreground(common, id.or(common.node), *background),
        NodeAction::Start { id } => {
            let report = start(common, vec![*id], output)?;
            let text = if report.started.contains(id) { "started" } else { "was running already" };
            say(output, *id, text)
        }
        NodeAction::Stop { id } => {
            let report = stop(common, Some(&[*id]), output)?;
            say(output, *id, if report.is_empty() { "was not running" } else { "stopped" })
        }
        NodeAction::Restart { id } => {
            stop(common, Some(&[*id]), output)?;
            start(common, vec![*id], output)?;
            say(output, *id, "restarted")
        }
        NodeAction::Status { id } => {
            super::status::run(&Common { node: Some(*id), ..common.clone() }, output)
        }
    }
}

fn say(output: Output, node: tieline::NodeId, what: &str) -> Outcome {
    output.result(
        || Ok(serde_json::json!({ "schema": "tieline.node/1", "node": node, "outcome": what })),
        || format!("node {} {what}\n", list(&[node])),
    )?;
    Ok(PASS)
}

fn foreground(common: &Common, id: Option<tieline::NodeId>, background: bool) -> Outcome {
    let (settings, node) = settings_for(common.config.as_deref(), id).map_err(|error| match error {
        node::NodeError::NoId => usage("which node? Give --id, or [node] id in the configuration"),
        other => Failure::usage(other),
    })?;
    tracing_subscriber::fmt()
        .with_max_level(log_level()?)
        .with_target(false)
        // A log that cannot be written must not end the manager: its lines are lost, nothing else.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    if background {
        node::cluster::detach();
    }
    let options = DaemonOptions { dir: cluster_dir(common)?, node, settings, signals: true };
    let daemon = Daemon::start(&options).map_err(|error| Failure { status: CANNOT, error: error.into() })?;
    daemon.run()?;
    Ok(PASS)
}

/// How much the manager says: `TIELINE_LOG`, or `info`.
fn log_level() -> Result<LevelFilter, Failure> {
    match std::env::var("TIELINE_LOG") {
        Ok(level) => level.parse().map_err(|_| {
            usage(format!("TIELINE_LOG: `{level}` is none of off, error, warn, info, debug, trace"))
        }),
        Err(_) => Ok(LevelFilter::INFO),
    }
}
