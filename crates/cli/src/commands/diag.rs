//! `tieline diag`.

use ::verify::Target;
use ::verify::diag::{self, Expected};

use super::target;
use crate::args::{Common, Diag};
use crate::exit::Outcome;
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Diag, output: Output) -> Outcome {
    let tested = target(common)?;
    // What should be there is what runs here, also when one node is tested.
    let everyone = target(&Common { node: None, ..common.clone() })?;
    output.progress(if tested.nodes.len() == 1 { "testing the node" } else { "testing all nodes" });
    let report = diag::run(&tested, &Expected::of(&everyone))?;
    if arguments.clear {
        clear(&tested, output);
    }
    output.progress_done();
    output.form(diag::SCHEMA, || serde_json::to_value(&report), || report.render(arguments.verbosity))?;
    Ok(report.verdict.exit_status())
}

/// After the report, so that it still shows what is cleared. A node that does not answer has failed already.
fn clear(target: &Target, output: Output) {
    for (node, error) in diag::clear_counters(target) {
        output.note(&format!("the counters of node {node} could not be cleared: {error}"));
    }
}
