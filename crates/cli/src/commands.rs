//! One file per command.

mod acceptance;
mod bench;
mod cluster;
mod diag;
mod node;
mod query;
mod status;
mod verify;

use std::process::ExitCode;
use std::time::Duration;

use ::node::cluster::Launcher;
use ::verify::Target;
use ::verify::own::OwnCluster;
use node_client::runtime_dir::ClusterDir;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tieline::{NodeId, NodeOptions};

use crate::args::{Cli, Command, Common};
use crate::exit::{Failure, Outcome, USAGE, hold_if_interrupted, interrupted};
use crate::output::Output;

/// Runs the command and turns what came of it into an exit status.
pub(crate) fn run(cli: Cli) -> ExitCode {
    let output = Output { json: cli.common.json, quiet: cli.common.quiet };
    let outcome = dispatch(&cli, output);
    hold_if_interrupted();
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(Failure { status, error }) => {
            output.progress_done();
            output.note(&format!("{error:#}"));
            ExitCode::from(status)
        }
    }
}

fn dispatch(cli: &Cli, output: Output) -> Outcome {
    let common = &cli.common;
    match &cli.command {
        Command::Up(arguments) => cluster::up(common, arguments, output),
        Command::Down => cluster::down(common, output),
        Command::Status => status::run(common, output),
        Command::Query => query::run(common, output),
        Command::Diag => diag::run(common, output),
        Command::Verify(arguments) => verify::run(common, arguments, output),
        Command::Node { action } => node::run(common, action, output),
        Command::Bench { bench } => bench::run(common, bench, output),
    }
}

/// The cluster's directory; a bad name or directory is a wrong usage.
fn cluster_dir(common: &Common) -> Result<ClusterDir, Failure> {
    ClusterDir::locate(common.runtime_dir.as_deref(), common.cluster.as_deref()).map_err(Failure::usage)
}

/// All nodes of the cluster that have a socket here, or the one that was named.
fn target(common: &Common) -> Result<Target, Failure> {
    let dir = cluster_dir(common)?;
    dir.check_for_program()?;
    let nodes: Vec<NodeId> = match common.node {
        Some(node) => vec![node],
        None => dir.nodes_with("sock")?,
    };
    if nodes.is_empty() {
        return Err(anyhow::anyhow!(
            "no node of cluster `{}` runs here (looked in {}): start some with `tieline up`",
            dir.cluster(),
            dir.path().display()
        )
        .into());
    }
    Ok(Target { runtime_dir: common.runtime_dir.clone(), cluster: common.cluster.clone(), nodes })
}

/// How a program of this command attaches.
fn node_options(common: &Common, name: &str) -> NodeOptions {
    NodeOptions {
        node: common.node,
        cluster: common.cluster.clone(),
        runtime_dir: common.runtime_dir.clone(),
        name: Some(name.to_owned()),
    }
}

/// Wrong usage, in words.
fn usage(text: impl Into<String>) -> Failure {
    Failure { status: USAGE, error: anyhow::Error::msg(text.into()) }
}

/// How long a cluster may take to come up: a machine under load is slow, not broken.
const UP_LIMIT: Duration = Duration::from_secs(60);

/// Between the start of two managers there is never as much time as this.
const STARTING: Duration = Duration::from_millis(100);

/// A cluster for one test, to be started. From now on Ctrl-C and SIGTERM take it away before they end this process.
fn own_cluster(common: &Common, purpose: &'static str, nodes: usize) -> Result<OwnCluster, Failure> {
    let own = OwnCluster {
        root: cluster_dir(common)?.root().to_path_buf(),
        purpose,
        nodes,
        launcher: Launcher::this_binary()?,
        config: common.config.clone(),
        limit: UP_LIMIT,
    };
    let dir = own.dir()?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            interrupted();
            // Again while there is something: the start of the cluster may have been in progress.
            for round in 0..20 {
                OwnCluster::remove(&dir);
                std::thread::sleep(STARTING);
                if round > 3 && !dir.path().exists() {
                    break;
                }
            }
            // As a shell would report a program that the signal ended.
            std::process::exit(128 + signal);
        }
    })?;
    Ok(own)
}
