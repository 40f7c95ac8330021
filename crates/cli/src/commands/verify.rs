//! `tieline verify`.

use std::path::Path;

use ::verify::report::{self, Writer};
use ::verify::run::{Depth, Options, Start, run as run_all};
use anyhow::Result;
use serde_json::Value;

use super::target;
use crate::args::{Common, Verify};
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::interrupt::hold_if_interrupted;
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Verify, output: Output) -> Outcome {
    // Before a long run, as its result would be lost.
    let writer = arguments.report.as_deref().map(Writer::prepare).transpose()?;
    if let (Some(from), Some(writer)) = (&arguments.from, &writer) {
        return render_again(from, writer);
    }
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
    if let Some(writer) = writer {
        hold_if_interrupted();
        let page = serde_json::to_value(&report).map_err(Failure::from)?;
        if let Err(error) = page_of(&page, &writer) {
            // The result stands printed already, so this is no result of its own; the status says that the page is missing.
            output.note(&Failure::from(error).text());
            return Ok(CANNOT);
        }
    }
    Ok(report.verdict.exit_status())
}

/// A page of a result that was saved. Its verdict is of another time, so it is not this command's.
fn render_again(from: &Path, writer: &Writer) -> Outcome {
    page_of(&report::load(from)?, writer)?;
    Ok(PASS)
}

fn page_of(document: &Value, writer: &Writer) -> Result<()> {
    Ok(writer.write(&report::render(document)?)?)
}
