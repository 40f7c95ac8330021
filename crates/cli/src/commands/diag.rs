//! `tieline diag`.

use ::verify::diag;

use super::target;
use crate::args::Common;
use crate::exit::Outcome;
use crate::output::Output;

pub(super) fn run(common: &Common, output: Output) -> Outcome {
    let target = target(common)?;
    if common.node.is_some() {
        // What should be there is what runs here.
        let everyone = super::target(&Common { node: None, ..common.clone() })?;
        let reports: Vec<_> =
            target.nodes.iter().map(|node| diag::node(&target, *node, &everyone.nodes)).collect();
        let verdict = ::verify::Verdict::worst(reports.iter().map(|report| report.verdict));
        let text = || reports.iter().map(ToString::to_string).collect();
        output.result(|| serde_json::to_value(&reports), text)?;
        return Ok(verdict.exit_status());
    }
    output.progress("testing all nodes");
    let report = diag::run(&target);
    output.progress_done();
    output.result(|| serde_json::to_value(&report), || report.to_string())?;
    Ok(report.verdict.exit_status())
}
