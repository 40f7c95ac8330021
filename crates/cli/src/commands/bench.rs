//! `tieline bench`.

use std::time::Duration;

use ::verify::far_end::Benchmark;
use ::verify::own::Removal;
use bench::error::BenchError;
use bench::limits;
use bench::patterns::attach::Where;
use bench::patterns::scipp::{self, ServeOptions};
use bench::rivals::load::Load;
use bench::rivals::placement::Placement;
use node_client::ClientError;
use proto::wire::program::Refusal;
use tieline::NodeId;

use super::bench_far::{self, Far};
use super::bench_result::{Measuring, Rest, read_thresholds};
use super::bench_tools::placement;
use super::{own_cluster, target, usage};
use crate::args::{Bench, Common, Limits, Scipp};
use crate::exit::{Failure, Outcome, PASS};
use crate::output::{Output, may_write};

/// How long a server waits for its client.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) fn run(common: &Common, bench: &Bench, output: Output) -> Outcome {
    match bench {
        Bench::Scipp(arguments) => scipp(common, arguments, output),
        Bench::Limits(arguments) => limits(arguments, output),
        Bench::Scibench2(arguments) => super::bench_tools::scibench2(common, arguments, output),
        Bench::Dma(arguments) => super::bench_tools::dma(common, arguments, output),
        Bench::Intr(arguments) => super::bench_tools::intr(common, arguments, output),
        Bench::Jitter(arguments) => super::bench_tools::jitter(common, arguments, output),
        Bench::Latency(arguments) => super::bench_tools::latency(common, arguments, output),
        Bench::Pt2pt(arguments) => super::bench_tools::pt2pt(common, arguments, output),
        Bench::Hosts(arguments) => super::bench_hosts::run(common, arguments, output),
        Bench::Acceptance(arguments) => super::acceptance::run(common, arguments, output),
        Bench::Thresholds => super::bench_compare::thresholds(output),
        Bench::Compare(arguments) => super::bench_compare::run(arguments, output),
        Bench::CompareBuilds(arguments) => super::bench_compare::builds(arguments, output),
    }
}

pub(super) fn argv() -> Vec<String> {
    std::env::args().collect()
}

/// The two nodes of this host to measure between: of the cluster that runs, else of one that is started for
/// it.
pub(super) fn place(
    common: &Common,
    rn: Option<NodeId>,
    output: Output,
) -> Result<(Where, Option<Removal>), Failure> {
    match target(common) {
        Ok(target) => {
            let near = common.node.or(target.nodes.first().copied());
            let (runtime_dir, cluster) = (target.runtime_dir, target.cluster);
            return Ok((Where { runtime_dir, cluster, near, far: rn }, None));
        }
        // Certain nodes are meant; then the reason why they are not there is the answer.
        Err(failure) if common.node.is_some() || rn.is_some() => return Err(failure),
        Err(_) => {}
    }
    let (place, removal) = own_place(common, output)?;
    Ok((place, Some(removal)))
}

/// Two nodes of a cluster that is started for it.
pub(super) fn own_place(common: &Common, output: Output) -> Result<(Where, Removal), Failure> {
    let (target, removal, _) = own_cluster(common, "bench", 2)?.up(&mut |text| output.progress(text))?;
    let place = Where {
        runtime_dir: target.runtime_dir,
        cluster: target.cluster,
        near: target.nodes.first().copied(),
        far: target.nodes.get(1).copied(),
    };
    Ok((place, removal))
}

fn scipp(common: &Common, arguments: &Scipp, output: Output) -> Outcome {
    let thresholds = read_thresholds(arguments.thresholds.as_deref(), "scipp", "scipp.")?;
    let one_end = arguments.server || arguments.client;
    may_write(arguments.json_file.as_deref())?;
    let cpus = match placement(arguments.cpus, arguments.same_core) {
        Placement::TwoCores => None,
        some => Some(some.resolve("scipp")?),
    };
    Load::check(arguments.load)?;
    let mut far: Option<Far> = None;
    let (place, _removal) = match arguments.rn {
        None if one_end => {
            return Err(usage(super::bench_tools::NO_OTHER_END));
        }
        Some(rn) if one_end => (this_end(common, rn)?, None),
        rn => {
            far = bench_far::far_end(common, rn, Benchmark::Scipp)?;
            match &far {
                Some(far) => (far.place.clone(), None),
                None => place(common, rn, output)?,
            }
        }
    };
    if let (true, Some(client)) = (arguments.server, arguments.rn) {
        let cpu = cpus.map(|[this, _]| this);
        waiting(client, output);
        scipp::serve(&ServeOptions { place, client, cpu, wait: CLIENT_TIMEOUT, most_bytes: usize::MAX })?;
        return Ok(PASS);
    }
    let defaults = scipp::Options::default();
    let options = scipp::Options {
        place,
        cpus,
        load: arguments.load,
        sizes_bytes: arguments.size.map_or(defaults.sizes_bytes, |size| vec![size.into()]),
        placement: arguments.placement.into(),
        argv: argv(),
        ..scipp::Options::default()
    };
    let mut progress = Measuring::begin(output)?;
    let report = match (arguments.rn, &mut far) {
        (_, Some(far)) => far.result(scipp::client(&options, &mut progress))?,
        (Some(rn), None) if arguments.client => {
            scipp::client(&options, &mut progress).map_err(|error| without_server(error, rn))?
        }
        _ => scipp::run(&options, &mut progress)?,
    };
    let text = || if arguments.classic { report.to_classic() } else { report.to_text() };
    let rest = Rest {
        partial: report.partial,
        thresholds: thresholds.as_ref(),
        file: arguments.json_file.as_deref(),
    };
    progress.conclude(&report, text, rest)
}

/// A server says what it does: until its client comes it does nothing else that could be seen.
pub(super) fn waiting(client: NodeId, output: Output) {
    output.progress(&format!(
        "waiting for the client on node {client}, {} s at most",
        CLIENT_TIMEOUT.as_secs()
    ));
}

/// The node of this end: the one that was named, else the only one besides the other end's.
pub(super) fn this_end(common: &Common, rn: NodeId) -> Result<Where, Failure> {
    if common.node == Some(rn) {
        return Err(usage(format!("node {rn} is this end (--node): --rn names the node of the other end")));
    }
    let everyone = target(&Common { node: None, ..common.clone() })?;
    bench_far::elsewhere(common, rn, &everyone)?;
    let target = target(common)?;
    let others: Vec<NodeId> = target.nodes.iter().copied().filter(|node| *node != rn).collect();
    let near = match (common.node, others.as_slice()) {
        (Some(node), _) => node,
        (None, [only]) => *only,
        (None, []) => {
            return Err(usage(format!(
                "only node {rn} runs here, and --rn names the node of the other end: start a second one with `tieline up`"
            )));
        }
        (None, several) => {
            return Err(usage(format!(
                "--node is missing: give the node ID of this end, one of {}",
                super::cluster::list(several)
            )));
        }
    };
    Ok(Where { runtime_dir: target.runtime_dir, cluster: target.cluster, near: Some(near), far: Some(rn) })
}

/// A server that is not there looks like a segment that is not there.
fn without_server(error: BenchError, rn: NodeId) -> Failure {
    let missing = matches!(
        &error,
        BenchError::Api(tieline::Error::Client(ClientError::Refused(
            Refusal::NotFound { .. } | Refusal::NotAvailable { .. }
        )))
    );
    let failure = Failure::from(error);
    if !missing {
        return failure;
    }
    let advice = format!(
        "no scipp server responds on node {rn}: start one there with `tieline bench scipp --server --node {rn} --rn ID`, \
         ID being the node of this end"
    );
    Failure { status: failure.status, error: failure.error.context(advice) }
}

fn limits(arguments: &Limits, output: Output) -> Outcome {
    let options = limits::Options { cpus: arguments.cpus, argv: argv(), ..limits::Options::default() };
    let mut progress = Measuring::begin(output)?;
    let report = limits::run(&options, &mut progress)?;
    progress.conclude(&report, || report.to_text(), Rest { partial: report.partial, ..Rest::default() })
}
