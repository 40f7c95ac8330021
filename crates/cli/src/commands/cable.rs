//! `tieline cable`.

use std::path::Path;

use ::node::cluster::{list_nodes, node_ids};
use ::node::hosts::nodes_here;
use ::verify::agent::nodes_elsewhere;
use ::verify::cable::{self, CableReport, PLAN_SCHEMA, Plan, Request, SCHEMA};
use ::verify::status::Hosts;
use ::verify::{Target, Verdict};

use super::{cluster_dir, target};
use crate::args::{Cable, Common};
use crate::exit::{Failure, Outcome, PASS};
use crate::interrupt::{self, has_arrived};
use crate::output::Output;
use tieline::NodeId;

pub(super) fn run(common: &Common, arguments: &Cable, output: Output) -> Outcome {
    if arguments.generate {
        return generate(common, arguments.nodes, output);
    }
    // A mistake in the plan, or in the name of one, is said before anything is asked or measured.
    let plan = arguments.plan.as_deref().map(Plan::load).transpose()?;
    if let Some(path) = &arguments.save {
        cable::check_place(path, arguments.force)?;
    }
    let everyone = target(&Common { node: None, ..common.clone() })?;
    if common.node.is_some() {
        // For its error alone, if there is no such node.
        target(common)?;
    }
    // What there is then is printed, as partial if a measurement was cut short.
    interrupt::end_with_what_there_is()?;
    let request = Request {
        plan: plan.map_or_else(|| full_mesh(common, &everyone), Ok)?,
        hosts: Hosts::All,
        only: common.node,
        measure_all: arguments.measure,
    };
    let report = cable::run(&everyone, request, &mut |text| output.progress(text), &has_arrived)?;
    output.progress_done();
    if let Some(path) = &arguments.save {
        save(&report, path, arguments.force, output)?;
    }
    output.form(SCHEMA, || serde_json::to_value(&report), || report.render())?;
    Ok(report.verdict.exit_status())
}

fn generate(common: &Common, nodes: Option<u32>, output: Output) -> Outcome {
    let nodes = match nodes {
        Some(count) => node_ids(count as usize, None)?,
        None => {
            let here = target(common).map_err(|failure| without_a_cluster(common, failure))?;
            return print_plan(&full_mesh(common, &here)?, output);
        }
    };
    print_plan(&Plan::full_mesh(&nodes), output)
}

/// A plan is often made before there is anything.
fn without_a_cluster(common: &Common, failure: Failure) -> Failure {
    let Ok(dir) = cluster_dir(common) else { return failure };
    let cluster = dir.cluster();
    // One that is there has to be started.
    let is_there =
        list_nodes(&dir).map_or(true, |nodes| !nodes.is_empty()) || !nodes_here(cluster.as_str()).is_empty();
    if is_there {
        return failure;
    }
    let error = anyhow::anyhow!(
        "no node of cluster `{cluster}` runs here whose links the plan could list: give their number, as in `tieline cable --generate --nodes 8`"
    );
    Failure { error, ..failure }
}

/// Every node of the cluster, on all its hosts, with every other.
fn full_mesh(common: &Common, here: &Target) -> Result<Plan, Failure> {
    let far = nodes_elsewhere(&cluster_dir(common)?, here);
    let nodes: Vec<NodeId> = here.nodes.iter().copied().chain(far.into_iter().map(|one| one.node)).collect();
    Ok(Plan::full_mesh(&nodes))
}

fn print_plan(plan: &Plan, output: Output) -> Outcome {
    let text = || plan.to_toml("every node linked with every other");
    output.file(PLAN_SCHEMA, || serde_json::to_value(plan), text)?;
    Ok(PASS)
}

/// Only a cluster without a fault is worth being a measure for later.
fn save(report: &CableReport, path: &Path, force: bool, output: Output) -> Result<(), Failure> {
    if report.verdict != Verdict::Pass {
        output.note(&format!(
            "{} was not written: the links have deviations now, which would become part of the plan: correct them, then save again",
            path.display()
        ));
        return Ok(());
    }
    let origin = format!("cluster `{}` as it stood when this was saved", report.cluster);
    cable::save(path, &report.as_plan().to_toml(&origin), force)?;
    output.note(&format!("plan saved in {}", path.display()));
    Ok(())
}
