//! `tieline diag`.

use ::verify::Target;
use ::verify::diag::{self, Expected, HostFile, Options, View};

use super::target;
use crate::args::{Common, Diag};
use crate::exit::Outcome;
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Diag, output: Output) -> Outcome {
    // A mistake in the file is said before anything is tested.
    let hosts = arguments.hosts.as_deref().map(HostFile::load).transpose()?;
    let tested = target(common)?;
    // What should be there is what runs here, also when one node is tested.
    let everyone = target(&Common { node: None, ..common.clone() })?;
    output.progress(if tested.nodes.len() == 1 { "testing the node" } else { "testing all nodes" });
    let options = Options { prod: arguments.prod, hosts };
    let report = diag::run_with(&tested, &Expected::of(&everyone), &options)?;
    if arguments.clear {
        clear(&tested, output);
    }
    output.progress_done();
    let tool = if arguments.classic { "dis_diag" } else { "tieline diag" };
    let view = View { verbosity: arguments.verbosity, tool };
    output.form(diag::SCHEMA, || serde_json::to_value(&report), || report.render(view))?;
    Ok(report.verdict.exit_status())
}

/// After the report, so that it still shows what is cleared. A node that does not respond has failed already.
fn clear(target: &Target, output: Output) {
    for (node, error) in diag::clear_counters(target) {
        output.note(&format!("the counters of node {node} could not be cleared: {error}"));
    }
}
