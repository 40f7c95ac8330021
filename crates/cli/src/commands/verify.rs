//! `tieline verify`.

use std::path::Path;

use ::verify::bundle::Bundle;
use ::verify::own::OwnCluster;
use ::verify::report;
use ::verify::run::{Depth, Options, Report, Start, run as run_all};
use ::verify::writer::Writer;
use anyhow::Result;
use serde_json::Value;

use super::{target, usage};
use crate::args::{Common, Verify};
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::interrupt::hold_if_interrupted;
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Verify, output: Output) -> Outcome {
    // Before a long run, as its result would be lost.
    let writer = arguments.report.as_deref().map(|path| Writer::prepare(&report::PAGE, path)).transpose()?;
    if arguments.bundle.is_some() && arguments.bundle == arguments.report {
        return Err(usage("--report and --bundle name the same file: give each its own"));
    }
    let bundle = arguments.bundle.as_deref().map(|path| Bundle::prepare(path, common.config.clone()));
    let bundle = bundle.transpose()?;
    if let (Some(from), Some(writer)) = (&arguments.from, &writer) {
        return render_again(from, writer);
    }
    let start = if arguments.running || arguments.health {
        Start::Running(target(&Common { node: None, ..common.clone() })?)
    } else {
        // Of a name of its own, beside whatever runs, and gone again afterwards.
        let own = super::own_cluster(common, "verify", arguments.nodes as usize)?;
        Start::Own(OwnCluster { last_look: bundle.as_ref().map(Bundle::last_look), ..own })
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
    let running = match &options.start {
        Start::Running(target) => Some(target),
        Start::Own(_) => None,
    };
    let packed = |output: Output| {
        let Some(bundle) = &bundle else { return true };
        hold_if_interrupted();
        output.progress("packing the bundle");
        let written = bundle.finish(report.as_ref(), running);
        output.progress_done();
        is_written(written.map_err(Failure::from), output)
    };
    let report = match &report {
        Ok(report) => report,
        Err(_) => {
            packed(output);
            return report.map(|_| CANNOT).map_err(Failure::from);
        }
    };
    let text = || if arguments.health { report.render_line() } else { report.render() };
    output.result(|| serde_json::to_value(report), text)?;
    let page = writer.is_none_or(|writer| {
        hold_if_interrupted();
        is_written(page_of_report(report, &writer), output)
    });
    // The result stands printed already, so what is missing is no result of its own; the status says it.
    Ok(if packed(output) && page { report.verdict.exit_status() } else { CANNOT })
}

/// Says what could not be written.
fn is_written(outcome: Result<(), Failure>, output: Output) -> bool {
    if let Err(failure) = &outcome {
        output.note(&failure.text());
    }
    outcome.is_ok()
}

fn page_of_report(report: &Report, writer: &Writer) -> Result<(), Failure> {
    let document = serde_json::to_value(report).map_err(Failure::from)?;
    Ok(page_of(&document, writer)?)
}

/// A page of a result that was saved. Its verdict is of another time, so it is not this command's.
fn render_again(from: &Path, writer: &Writer) -> Outcome {
    page_of(&report::load(from)?, writer)?;
    Ok(PASS)
}

fn page_of(document: &Value, writer: &Writer) -> Result<()> {
    Ok(writer.write(report::render(document)?.as_bytes())?)
}
