//! `tieline verify`.

use std::path::Path;

use ::verify::bundle::Bundle;
use ::verify::capacity::CouldNotRun;
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
    let files = Files::prepare(common, arguments)?;
    if let (Some(from), Some(page)) = (&arguments.from, &files.page) {
        return render_again(from, page);
    }
    let start = if arguments.running || arguments.health {
        Start::Running(target(&Common { node: None, ..common.clone() })?)
    } else {
        // Of a name of its own, beside whatever runs, and gone again afterwards.
        let own = super::own_cluster(common, "verify", arguments.nodes as usize)?;
        Start::Own(OwnCluster { last_look: files.bundle.as_ref().map(Bundle::last_look), ..own })
    };
    let options = Options { start, seed: arguments.seed, depth: depth(arguments) };
    let outcome = run_all(&options, &mut |text| output.progress(text));
    output.progress_done();
    let bundle = |outcome| files.bundle.as_ref().is_none_or(|bundle| pack(bundle, outcome, &options, output));
    let report = match outcome {
        Ok(report) => report,
        Err(error) => {
            // Why there is no result is what whoever has to help wants to know.
            bundle(Err(&error));
            return Err(error.into());
        }
    };
    let text = || if arguments.health { report.render_line() } else { report.render() };
    output.result(|| serde_json::to_value(&report), text)?;
    let page = files.page.as_ref().is_none_or(|page| write_page(page, &report, output));
    // The result stands printed already, so what is missing is no result of its own; the status says it.
    Ok(if bundle(Ok(&report)) && page { report.verdict.exit_status() } else { CANNOT })
}

/// What is written beside the result.
struct Files {
    page: Option<Writer>,
    bundle: Option<Bundle>,
}

impl Files {
    /// Makes sure that they can be.
    fn prepare(common: &Common, arguments: &Verify) -> Result<Self, Failure> {
        if arguments.bundle.is_some() && arguments.bundle == arguments.report {
            return Err(usage("--report and --bundle name the same file: give each its own"));
        }
        let page = arguments.report.as_deref().map(|path| Writer::prepare(&report::PAGE, path));
        let bundle = arguments.bundle.as_deref().map(|path| Bundle::prepare(path, common.config.clone()));
        Ok(Self { page: page.transpose()?, bundle: bundle.transpose()? })
    }
}

fn depth(arguments: &Verify) -> Depth {
    match arguments {
        Verify { health: true, .. } => Depth::Health,
        Verify { quick: true, .. } => Depth::Quick,
        Verify { thorough: true, .. } => Depth::Thorough,
        _ => Depth::Standard,
    }
}

fn pack(bundle: &Bundle, outcome: Result<&Report, &CouldNotRun>, options: &Options, output: Output) -> bool {
    output.progress("packing the bundle");
    let running = match &options.start {
        Start::Running(target) => Some(target),
        Start::Own(_) => None,
    };
    let written = bundle.finish(outcome, running);
    output.progress_done();
    is_written(written.map_err(Failure::from), output)
}

fn write_page(page: &Writer, report: &Report, output: Output) -> bool {
    hold_if_interrupted();
    let written = serde_json::to_value(report).map_err(Failure::from);
    is_written(written.and_then(|document| Ok(page_of(&document, page)?)), output)
}

/// Says what could not be written.
fn is_written(outcome: Result<(), Failure>, output: Output) -> bool {
    if let Err(failure) = &outcome {
        output.note(&failure.text());
    }
    outcome.is_ok()
}

/// A page of a result that was saved. Its verdict is of another time, so it is not this command's.
fn render_again(from: &Path, page: &Writer) -> Outcome {
    page_of(&report::load(from)?, page)?;
    Ok(PASS)
}

fn page_of(document: &Value, page: &Writer) -> Result<()> {
    Ok(page.write(report::render(document)?.as_bytes())?)
}
