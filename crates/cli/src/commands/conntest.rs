//! `tieline conntest`, in classic form `sciconntest`.

use shm::sync::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use ::verify::Target;
use ::verify::agent::{nodes_elsewhere, stopped_nodes};
use ::verify::conntest::{self, Options, Progress};
use clap::Args;
use node_client::runtime_dir::ClusterDir;
use tieline::NodeId;
use topology::counted;

use super::{cluster_dir, no_such_node, other_host, target, usage};
use crate::args::Common;
use crate::args::bench_tools::size;
use crate::exit::{Failure, Outcome};
use crate::interrupt::for_each_signal;
use crate::output::Output;

/// Smallest rate that a throttle may be given in.
const MEGABYTE: f64 = 1e6;

/// Shortest block if none is given, in bytes.
const SHORTEST_BYTES: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct Conntest {
    /// Length of a loop, in seconds
    #[arg(long, short = 't', default_value_t = 10.0, value_name = "SECONDS")]
    pub time: f64,
    /// Number of loops
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub loops: u32,
    /// Longest block, such as 8192 or 8K
    #[arg(long, default_value = "8192", value_name = "BYTES", value_parser = typed)]
    pub size: Size,
    /// Shortest block [default: 4, or the longest if that is shorter]
    #[arg(long, value_name = "BYTES", value_parser = typed)]
    pub min_size: Option<Size>,
    /// Limit each node to this many megabytes per second, on a cluster in use [default: unlimited]
    #[arg(long, value_name = "MB/S")]
    pub throttle: Option<f64>,
    /// Test only these nodes: at least two, or with --node at least one other [default: all of the cluster,
    /// on all its hosts]
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    pub peers: Vec<NodeId>,
    /// How long to wait for the instances of other nodes, in seconds
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    pub wait: f64,
    /// Seed of the data; the same on all nodes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A size, and how it was typed.
#[derive(Debug, Clone)]
pub(crate) struct Size {
    bytes: usize,
    text: String,
}

fn typed(text: &str) -> Result<Size, String> {
    Ok(Size { bytes: size(text)?, text: text.to_owned() })
}

impl Conntest {
    /// What is wrong with the sizes, with these as they were typed.
    fn as_typed(&self, mut wrong: String) -> String {
        let sizes = [("--size", Some(&self.size)), ("--min-size", self.min_size.as_ref())];
        for (option, size) in sizes.into_iter().filter_map(|(option, size)| Some((option, size?))) {
            wrong = wrong.replace(&format!("{option} {}", size.bytes), &format!("{option} {}", size.text));
        }
        wrong
    }
}

fn seconds(option: &str, value: f64) -> Result<Duration, Failure> {
    if value.is_finite() && (0.001..=1e7).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(usage(format!("--{option} {value}: give seconds between 0.001 and 10000000")))
}

/// The options, as far as the command line alone decides them; no node is in them yet.
fn checked(arguments: &Conntest) -> Result<Options, Failure> {
    let throttle = match arguments.throttle {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => {
            return Err(usage(format!("--throttle {rate}: give megabytes a second, more than 0")));
        }
        rate => rate.map(|rate| (rate * MEGABYTE).max(1.0) as u64),
    };
    let nobody = Target { runtime_dir: None, cluster: None, nodes: Vec::new() };
    let options = Options {
        block_bytes: arguments.size.bytes,
        min_bytes: arguments
            .min_size
            .as_ref()
            .map_or_else(|| SHORTEST_BYTES.min(arguments.size.bytes), |size| size.bytes),
        loops: arguments.loops,
        throttle_bytes_per_s: throttle,
        meet_within: seconds("wait", arguments.wait)?,
        seed: arguments.seed,
        ..Options::for_target(&nobody, seconds("time", arguments.time)?)
    };
    options.check().map_err(|wrong| usage(arguments.as_typed(wrong)))?;
    Ok(options)
}

/// The nodes that the command line names; none: all of the cluster take part.
fn named(arguments: &Conntest, own: Option<NodeId>) -> Result<Vec<NodeId>, Failure> {
    let mut nodes = arguments.peers.clone();
    if nodes.is_empty() {
        return Ok(nodes);
    }
    nodes.extend(own);
    nodes.sort_unstable();
    nodes.dedup();
    match nodes.as_slice() {
        [only] => Err(usage(format!(
            "--peers names node {only} only, so there is no pair to test: name another node too, or leave --peers out"
        ))),
        _ => Ok(nodes),
    }
}

/// The error for a node of --peers that has no instance in this process.
fn not_here(dir: &ClusterDir, peer: NodeId, arguments: &Conntest, nodes: Vec<NodeId>) -> Failure {
    let Some(host) = other_host(dir, peer, &nodes) else { return no_such_node(dir, peer, nodes) };
    let named: Vec<String> = arguments.peers.iter().map(ToString::to_string).collect();
    let all = named.join(",");
    // The instance to start here: that of a named node, if one is here.
    let here = arguments.peers.iter().find(|peer| nodes.contains(peer)).or(nodes.first());
    let here = here
        .map_or_else(String::new, |here| format!("`tieline conntest --node {here} --peers {all}` here and "));
    anyhow::anyhow!(
        "node {peer} is on {host}, and --peers without --node names nodes of this host only: leave --peers out to test all nodes of \
         all hosts, or start {here}`tieline conntest --node {peer} --peers {all}` on {host}"
    )
    .into()
}

pub(super) fn run(common: &Common, arguments: &Conntest, output: Output) -> Outcome {
    // A mistake on the command line is one whether or not a cluster runs.
    let options = checked(arguments)?;
    let mut nodes = named(arguments, common.node)?;
    let everyone = target(&Common { node: None, ..common.clone() })?;
    if common.node.is_some() {
        // For its error alone, if there is no such node.
        target(common)?;
    }
    if common.node.is_none()
        && let Some(missing) = arguments.peers.iter().find(|peer| !everyone.nodes.contains(peer))
    {
        return Err(not_here(&cluster_dir(common)?, *missing, arguments, everyone.nodes));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let signalled = Arc::new(AtomicUsize::new(0));
    for_each_signal(|signal| {
        let status = 128 + signal.unsigned_abs() as usize;
        signal_hook::flag::register_usize(signal, Arc::clone(&signalled), status)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map(drop)
    })?;
    if nodes.is_empty() {
        nodes.clone_from(&everyone.nodes);
    }
    let options = Options {
        instances: common.node.map_or_else(|| nodes.clone(), |node| vec![node]),
        nodes,
        // Where one program has all instances, nobody else's takes part.
        only_listed: common.node.is_none() || !arguments.peers.is_empty(),
        stop: Arc::clone(&stop),
        ..options
    };
    let by_hand = common.node.is_some() || !arguments.peers.is_empty();
    let dir = cluster_dir(common)?;
    let elsewhere = if by_hand { Vec::new() } else { nodes_elsewhere(&dir, &everyone) };
    let mut report = if elsewhere.is_empty() {
        conntest::run(&everyone, &options, &mut |progress| tell(output, progress))
    } else {
        conntest::run_everywhere(&everyone, &dir, elsewhere, &options, &mut |progress| tell(output, progress))
    };
    output.progress_done();
    if !by_hand {
        report.stopped = stopped_nodes(&dir, &everyone);
    }
    output.result(|| serde_json::to_value(&report), || report.render())?;
    // Ended by a signal: what there is was printed as partial, and the signal's status is the command's.
    match u8::try_from(signalled.load(Ordering::Relaxed)) {
        Ok(status @ 1..) => Ok(status),
        _ => Ok(report.verdict.exit_status()),
    }
}

fn tell(output: Output, progress: Progress) {
    let instances = progress.of;
    if progress.elapsed.is_zero() {
        let nodes = if instances == 1 { "node" } else { "nodes" };
        if progress.ready >= instances {
            return output
                .progress(&format!("all {instances} {nodes} connected to all peers that can be reached"));
        }
        return output.progress(&format!("{} of {instances} {nodes} connected to all peers", progress.ready));
    }
    let rate = progress.bytes_checked as f64 / progress.elapsed.as_secs_f64() / 1e9;
    output.progress(&format!(
        "{:.1} s, {:.2} GB/s checked, {}",
        progress.elapsed.as_secs_f64(),
        rate,
        counted(progress.failures, "outage")
    ));
}
