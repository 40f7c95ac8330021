//! `tieline bench hosts`: the speed of links between hosts.

use std::time::Duration;

use ::verify::Target;
use ::verify::agent::{Elsewhere, nodes_elsewhere};
use ::verify::speed::{self, MOST_BLOCK_BYTES, MOST_SIZES, Plan};
use anyhow::anyhow;
use tieline::NodeId;

use super::bench_result::Measuring;
use super::{cluster_dir, target, usage};
use crate::args::{Common, Hosts};
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::output::{Output, may_write, to_file};

/// Of many nodes, turns begin no later than this.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

pub(super) fn run(common: &Common, arguments: &Hosts, output: Output) -> Outcome {
    let plan = checked(arguments)?;
    may_write(arguments.json_file.as_deref())?;
    let everyone = target(common)?;
    let dir = cluster_dir(common)?;
    let elsewhere = nodes_elsewhere(&dir, &everyone);
    all_known(&plan, &everyone, &elsewhere)?;
    let (everyone, elsewhere) = taking_part(&plan, everyone, elsewhere);
    interrupt::end_with_what_there_is()?;
    output.progress("starting an end on each node");
    let tell = &mut |what: &str| output.progress(what);
    let report = speed::run(&everyone, &dir, elsewhere, &plan, tell, &interrupt::has_arrived);
    output.progress_done();
    let mut value = serde_json::to_value(&report)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("schema".into(), speed::SCHEMA.into());
    }
    output.result(|| Ok(value.clone()), || report.by_pair())?;
    Measuring::of(output).say_if_partial(report.partial);
    if let Some(path) = arguments.json_file.as_deref() {
        to_file(path, &value)?;
    }
    Ok(report.verdict.exit_status())
}

fn checked(arguments: &Hosts) -> Result<Plan, Failure> {
    let (from, to) = (arguments.from, arguments.to);
    if let Some(node) = from.filter(|_| from == to) {
        return Err(usage(format!("--from and --to both name node {node}: name two nodes on two hosts")));
    }
    let sizes_bytes: Vec<u64> = arguments.sizes.iter().map(|size| *size as u64).collect();
    if let Some(wrong) = sizes_bytes.iter().find(|size| !(1..=MOST_BLOCK_BYTES).contains(*size)) {
        return Err(usage(format!("--sizes: {wrong} bytes: give sizes from 1 byte to 16 MiB")));
    }
    if sizes_bytes.len() > MOST_SIZES {
        return Err(usage(format!("--sizes: {} sizes: give at most {MOST_SIZES}", sizes_bytes.len())));
    }
    Ok(Plan { most_pairs: usize::MAX, longest: LONGEST, seed: 1, from, to, sizes_bytes })
}

/// Whether there are pairs of nodes on two hosts.
fn all_known(plan: &Plan, here: &Target, elsewhere: &[Elsewhere]) -> Result<(), Failure> {
    let host = |node: NodeId| match elsewhere.iter().find(|one| one.node == node) {
        Some(one) => Ok(one.host.as_str()),
        None if here.nodes.contains(&node) => Ok("this host"),
        None => Err(anyhow!("the cluster has no node {node}: `tieline status` lists its nodes")),
    };
    let [from, to] = [plan.from, plan.to].map(|node| node.map(host).transpose());
    if let (Some(from), Some(to)) = (from?, to?)
        && from == to
    {
        let text = format!(
            "both nodes are on {from}: name nodes on two hosts, or use `tieline bench latency` on that host"
        );
        return Err(usage(text));
    }
    if elsewhere.is_empty() {
        let text = "all nodes of the cluster are on this host, so there is no link between hosts: \
                    `tieline bench latency` measures between them";
        return Err(anyhow!(text).into());
    }
    Ok(())
}

/// With both ends named, no other node takes part.
fn taking_part(plan: &Plan, mut here: Target, mut elsewhere: Vec<Elsewhere>) -> (Target, Vec<Elsewhere>) {
    if let (Some(from), Some(to)) = (plan.from, plan.to) {
        here.nodes.retain(|node| [from, to].contains(node));
        elsewhere.retain(|one| [from, to].contains(&one.node));
    }
    (here, elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(from: Option<u32>, to: Option<u32>, sizes: &[usize]) -> Hosts {
        let node = |number: u32| NodeId::new(number).unwrap();
        Hosts { from: from.map(node), to: to.map(node), sizes: sizes.to_vec(), json_file: None }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_before_anything_is_started() {
        let wrong = |arguments: &Hosts| checked(arguments).unwrap_err().text();
        assert!(wrong(&hosts(Some(4), Some(4), &[8])).contains("both name node 4"));
        assert!(wrong(&hosts(None, None, &[0])).contains("--sizes: 0 bytes"));
        assert!(wrong(&hosts(None, None, &[1 << 25])).contains("16 MiB"));
        assert!(wrong(&hosts(None, None, &[8; 33])).contains("33 sizes"));
        let plan = checked(&hosts(Some(4), None, &[8, 1 << 24])).unwrap();
        assert_eq!((plan.from.map(NodeId::get), plan.to), (Some(4), None));
        assert_eq!(plan.sizes_bytes, [8, 1 << 24]);
    }
}
