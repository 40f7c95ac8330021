//! The commands: one file for each.

mod acceptance;
mod bench;
mod bench_compare;
mod bench_far;
mod bench_hosts;
mod bench_result;
mod bench_tools;
mod cable;
mod cluster;
mod clusters;
pub(crate) mod conntest;
mod diag;
mod fabric;
mod fleet;
mod hosts;
mod in_namespaces;
mod link;
mod node;
mod over_ssh;
mod query;
mod query_messages;
mod run;
mod sockets;
mod status;
mod tune;
mod verify;

use std::process::ExitCode;
use std::time::Duration;

use ::node::cluster::{Launcher, list_nodes};
use ::verify::Target;
use ::verify::own::OwnCluster;
use node_client::ClientError;
use node_client::runtime_dir::ClusterDir;
use tieline::{NodeId, NodeOptions};

use crate::args::{Cli, Command, Common};
use crate::exit::{Failure, Outcome};
use crate::interrupt::{hold_if_interrupted, take_away_on_signal};
use crate::output::Output;
use crate::{advice, elsewhere, environment, interrupt, meaning};

/// Runs the command and turns what came of it into an exit status.
pub(crate) fn run(mut cli: Cli) -> ExitCode {
    let output = Output { json: cli.common.json, quiet: cli.common.quiet };
    // What the environment names, commands that are typed from it take as well.
    advice::is_for(cli.common.cluster.as_deref());
    let outcome = meaning::check(&cli)
        .and_then(|one_node| environment::fill(&mut cli.common, one_node))
        .and_then(|()| dispatch(&cli, output));
    hold_if_interrupted();
    match outcome {
        // What was measured until then has been printed.
        Ok(status) => ExitCode::from(interrupt::status().unwrap_or(status)),
        Err(failure) => {
            let failure = elsewhere::named(failure);
            output.failure(&failure);
            ExitCode::from(interrupt::status().unwrap_or(failure.status))
        }
    }
}

fn dispatch(cli: &Cli, output: Output) -> Outcome {
    let common = &cli.common;
    match &cli.command {
        Command::Up(arguments) => cluster::up(common, arguments, output),
        Command::Down(arguments) => cluster::down(common, arguments, output),
        Command::On(arguments) => in_namespaces::on(common, arguments),
        Command::Status => status::run(common, output),
        Command::Clusters => clusters::run(common, output),
        Command::Query(arguments) => query::run(common, arguments, output),
        Command::Cable(arguments) => cable::run(common, arguments, output),
        Command::Diag(arguments) => diag::run(common, arguments, output),
        Command::Conntest(arguments) => conntest::run(common, arguments, output),
        Command::Link { action } => link::run(common, action, output),
        Command::Verify(arguments) => verify::run(common, arguments, output),
        Command::Node { action } => node::run(common, action, output),
        Command::Cluster { action } => hosts::run(common, action, output),
        Command::Fleet { action } => fleet::run(action, output),
        Command::Run(arguments) => run::run(common, arguments, output),
        Command::Sockets { action } => sockets::run(common, action, output),
        Command::Tune(arguments) => tune::run(common, arguments, output),
        Command::Fabric(fabric) => fabric::run(fabric, output),
        Command::Bench { bench } => bench::run(common, bench, output),
    }
}

/// The cluster's directory; a bad name or directory is a wrong usage.
fn cluster_dir(common: &Common) -> Result<ClusterDir, Failure> {
    ClusterDir::locate(common.runtime_dir.as_deref(), common.cluster.as_deref()).map_err(Failure::usage)
}

/// All nodes of the cluster here, dead ones included, or the one that was named.
fn target(common: &Common) -> Result<Target, Failure> {
    let dir = cluster_dir(common)?;
    let all: Vec<NodeId> = list_nodes(&dir)?.into_iter().map(|entry| entry.node).collect();
    let cluster = dir.cluster().clone();
    if all.is_empty() {
        if let [here, ..] = ::node::hosts::nodes_here(cluster.as_str())[..] {
            return Err(anyhow::anyhow!(
                "the manager of node {here}, which is this host's, does not run: start it with `tieline node start --node {here}`"
            )
            .into());
        }
        return Err(ClientError::NoManager { cluster, dir: dir.path().into() }.into());
    }
    let nodes = match common.node {
        Some(node) if all.contains(&node) => vec![node],
        Some(node) => return Err(no_such_node(&dir, node, all)),
        None => all,
    };
    Ok(Target { runtime_dir: common.runtime_dir.clone(), cluster: common.cluster.clone(), nodes })
}

/// The other host that a node is on, in words, as one of these nodes of this host says.
fn other_host(dir: &ClusterDir, node: NodeId, nodes: &[NodeId]) -> Option<String> {
    let far = nodes.iter().find_map(|here| {
        let links = ::node::cluster::status(dir, *here).ok()?.links;
        links.into_iter().find(|link| link.peer == node && link.other_host)
    })?;
    Some(if far.peer_host.is_empty() { "another host".to_owned() } else { far.peer_host })
}

/// The error for a node that is not one of these, which are all that are here.
fn no_such_node(dir: &ClusterDir, node: NodeId, nodes: Vec<NodeId>) -> Failure {
    let Some(host) = other_host(dir, node, &nodes) else {
        return ClientError::NoSuchNode { cluster: dir.cluster().clone(), node, nodes }.into();
    };
    anyhow::anyhow!(
        "node {node} is on {host}, and this command acts on nodes of this host only: run it there; \
         `tieline status` shows the state of all nodes"
    )
    .into()
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
    Failure::usage(anyhow::Error::msg(text.into()))
}

/// How long a cluster may take to come up: a machine under load is slow, not broken.
const UP_LIMIT: Duration = Duration::from_secs(60);

/// A cluster for one test, to be started. From now on Ctrl-C and SIGTERM take it away before they end this
/// process.
fn own_cluster(common: &Common, purpose: &'static str, nodes: usize) -> Result<OwnCluster, Failure> {
    let own = OwnCluster {
        root: cluster_dir(common)?.runtime_root(),
        purpose,
        nodes,
        launcher: Launcher::this_binary()?,
        config: common.config.clone(),
        limit: UP_LIMIT,
        last_look: None,
    };
    take_away_on_signal(own.dir()?)?;
    Ok(own)
}
