//! Benchmarks between two nodes on two hosts: where the nodes are, and the agent that serves.

use ::verify::Target;
use ::verify::agent::{Elsewhere, nodes_elsewhere, stopped_nodes};
use ::verify::far_end::{Benchmark, FarEnd};
use anyhow::anyhow;
use bench::error::BenchError;
use bench::patterns::attach::Where;
use tieline::NodeId;

use super::{cluster_dir, no_such_node, other_host, target, usage};
use crate::args::Common;
use crate::exit::Failure;
use crate::interrupt;

/// The far end of a benchmark on another host.
pub(super) struct Far {
    end: FarEnd,
    /// Where the client measures.
    pub(super) place: Where,
}

/// Starts the far end, if its node is on another host.
pub(super) fn far_end(
    common: &Common,
    rn: Option<NodeId>,
    benchmark: Benchmark,
) -> Result<Option<Far>, Failure> {
    // Without nodes on this host the caller says what is missing.
    let (Some(rn), Ok(everyone)) = (rn, target(&Common { node: None, ..common.clone() })) else {
        return Ok(None);
    };
    let Some(there) = elsewhere(common, rn, &everyone)? else { return Ok(None) };
    let Some(near) = common.node.or(everyone.nodes.first().copied()) else { return Ok(None) };
    // Until it measures, a signal ends the command, and with it the agent.
    let host = there.host.clone();
    let end = FarEnd::start(&cluster_dir(common)?, there, benchmark, near)
        .map_err(|error| anyhow!("node {rn} on {host}: {error}"))?;
    let Target { runtime_dir, cluster, .. } = everyone;
    Ok(Some(Far { end, place: Where { runtime_dir, cluster, near: Some(near), far: Some(rn) } }))
}

impl Far {
    /// What the client has measured; if it has failed, the reason is often at the other end.
    pub(super) fn result<T>(&mut self, measured: bench::error::Result<T>) -> Result<T, Failure> {
        let error = match measured {
            Ok(report) => {
                self.end.finish();
                return Ok(report);
            }
            Err(error) => error,
        };
        let is_asked_for = interrupt::has_arrived() || matches!(error, BenchError::Usage(_));
        let why = if is_asked_for { None } else { self.end.last_word() };
        let failure = Failure::from(error);
        Err(match why {
            Some(why) => Failure { status: failure.status, error: failure.error.context(why) },
            None => failure,
        })
    }
}

/// The other end's node, if it is on another host.
pub(super) fn elsewhere(
    common: &Common,
    rn: NodeId,
    everyone: &Target,
) -> Result<Option<Elsewhere>, Failure> {
    let Some(missing) = common.node.into_iter().chain([rn]).find(|end| !everyone.nodes.contains(end)) else {
        return Ok(None);
    };
    let dir = cluster_dir(common)?;
    let Some(host) = other_host(&dir, missing, &everyone.nodes) else {
        return Err(no_such_node(&dir, missing, everyone.nodes.clone()));
    };
    if missing != rn {
        let text = format!(
            "node {missing} is on {host}, and --node names the end that measures, which is on this host: run the command there, or \
             name node {missing} with --rn"
        );
        return Err(usage(text));
    }
    if stopped_nodes(&dir, everyone).iter().any(|stopped| stopped.node == rn) {
        let text =
            format!("node {rn} on {host} was stopped: start it there with `tieline node start --node {rn}`");
        return Err(anyhow!(text).into());
    }
    let there = nodes_elsewhere(&dir, everyone).into_iter().find(|one| one.node == rn);
    there.map(Some).ok_or_else(|| no_such_node(&dir, rn, everyone.nodes.clone()))
}
