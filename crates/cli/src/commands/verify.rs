//! `tieline verify`.

use ::verify::run::{Depth, Options, Start, run as run_all};

use super::target;
use crate::args::{Common, Verify};
use crate::exit::{Failure, Outcome};
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Verify, output: Output) -> Outcome {
    let start = if arguments.running || arguments.health {
        Start::Running(target(&Common { node: None, ..common.clone() })?)
    } else {
        // Of a name of its own, beside whatever runs, and gone again afterwards.
        Start::Own(super::own_cluster(common, "verify", arguments.nodes as usize)?)
    };
    let depth = match arguments {
        Verify { health: true, .. } => Depth::Health,
        Verify { quick: true, .. } => Depth::Quick,
        Verify { thorough: true, .. } => Depth::Thorough,
        _ => Depth::Standard,
    };
    let options = Options { start, seed: arguments.seed, depth };
    let report = run_all(&options, &mut |text| output.progress(text));
    output.progress_done();
    let report = report.map_err(Failure::from)?;
    let text = || if arguments.health { report.render_line() } else { report.render() };
    output.result(|| serde_json::to_value(&report), text)?;
    Ok(report.verdict.exit_status())
}
