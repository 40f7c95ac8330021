//! `tieline diag`.

use ::verify::Target;
use ::verify::agent::nodes_elsewhere;
use ::verify::diag::{self, Everywhere, Expected, HostFile, Options, View};

use super::{cluster_dir, target};
use crate::args::{Common, Diag};
use crate::exit::Outcome;
use crate::output::Output;
use tieline::NodeId;

pub(super) fn run(common: &Common, arguments: &Diag, output: Output) -> Outcome {
    // A mistake in the file is said before anything is tested.
    let hosts = arguments.hosts.as_deref().map(HostFile::load).transpose()?;
    let tested = target(common)?;
    // What should be there is what runs here, also when one node is tested.
    let everyone = target(&Common { node: None, ..common.clone() })?;
    output.progress(if tested.nodes.len() == 1 { "testing the node" } else { "testing all nodes" });
    let options = Options { prod: arguments.prod, hosts };
    let dir = cluster_dir(common)?;
    let elsewhere = if common.node.is_some() { Vec::new() } else { nodes_elsewhere(&dir, &everyone) };
    let report = if elsewhere.is_empty() {
        let report = diag::run_with(&tested, &Expected::of(&everyone), &options)?;
        if arguments.clear {
            clear(&tested, output);
        }
        report
    } else {
        let everywhere = Everywhere { dir: &dir, nodes: elsewhere, clear: arguments.clear };
        let (report, not_cleared) =
            diag::run_everywhere(&everyone, &Expected::of(&everyone), everywhere, &options, &|| false)?;
        not_cleared.iter().for_each(|(node, error)| note_not_cleared(*node, error, output));
        report
    };
    output.progress_done();
    let tool = if arguments.classic { "dis_diag" } else { "tieline diag" };
    let view = View { verbosity: arguments.verbosity, tool };
    output.form(diag::SCHEMA, || serde_json::to_value(&report), || report.render(view))?;
    Ok(report.verdict.exit_status())
}

/// After the report, so that it still shows what is cleared. A node that does not respond has failed already.
fn clear(target: &Target, output: Output) {
    for (node, error) in diag::clear_counters(target) {
        note_not_cleared(node, &error.to_string(), output);
    }
}

fn note_not_cleared(node: NodeId, error: &str, output: Output) {
    output.note(&format!("the counters of node {node} could not be cleared: {error}"));
}
