//! `tieline verify`.

use ::verify::run::{Options, Start, run as run_all};

use super::target;
use crate::args::{Common, Verify};
use crate::exit::{Failure, Outcome};
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Verify, output: Output) -> Outcome {
    let start = if arguments.running {
        Start::Running(target(&Common { node: None, ..common.clone() })?)
    } else {
        // Of a name of its own, beside whatever runs, and gone again afterwards.
        Start::Own(super::own_cluster(common, "verify", arguments.nodes as usize)?)
    };
    let report = run_all(&Options { start, seed: arguments.seed }, &mut |text| output.progress(text));
    output.progress_done();
    let report = report.map_err(Failure::from)?;
    output.result(|| serde_json::to_value(&report), || report.render())?;
    Ok(report.verdict.exit_status())
}
