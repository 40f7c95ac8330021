//! `tieline verify`.

use std::path::Path;

use ::verify::Verdict;
use ::verify::bundle::Bundle;
use ::verify::cable::Plan;
use ::verify::capacity::CouldNotRun;
use ::verify::own::OwnCluster;
use ::verify::report;
use ::verify::run::{Control, Depth, Options, Report, Start, run as run_all};
use ::verify::writer::Writer;
use anyhow::Result;
use bench::compare::{self, verify::Sections};
use bench::results::{DocumentError, read_json};
use bench::thresholds::Thresholds;
use serde_json::Value;

use super::{target, usage};
use crate::args::{Common, Verify};
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::interrupt::{self, hold_if_interrupted};
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Verify, output: Output) -> Outcome {
    // Before a long run, as its result would be lost.
    let files = Files::prepare(common, arguments)?;
    if let (Some(from), Some(page)) = (&arguments.from, &files.page) {
        return render_again(from, page);
    }
    let options = options(common, arguments, &files)?;
    interrupt::end_with_what_there_is()?;
    // A test of health is one line, for whoever collects those of many nodes.
    let mut tell = |text: &str| {
        if !arguments.health {
            output.progress(text)
        }
    };
    let outcome = run_all(&options, &mut Control { tell: &mut tell, stop: &interrupt::has_arrived });
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
    let (verdict, value) = print(&report, files.baseline.as_ref(), arguments.health, output)?;
    let page = files.page.as_ref().is_none_or(|page| write_page(page, &value, output));
    // The result stands printed already, so what is missing is no result of its own; the status says it.
    Ok(if bundle(Ok(&report)) && page { verdict.exit_status() } else { CANNOT })
}

/// What is read before the run and written after it.
struct Files {
    baseline: Option<Baseline>,
    page: Option<Writer>,
    bundle: Option<Bundle>,
}

impl Files {
    /// Makes sure that they can be.
    fn prepare(common: &Common, arguments: &Verify) -> Result<Self, Failure> {
        if arguments.bundle.is_some() && arguments.bundle == arguments.report {
            return Err(usage("--report and --bundle name the same file: give each its own"));
        }
        let same = |a: &Path, b: &Path| {
            a == b || a.canonicalize().ok().is_some_and(|a| Some(a) == b.canonicalize().ok())
        };
        if let (Some(from), Some(report)) = (&arguments.from, &arguments.report)
            && same(from, report)
        {
            return Err(usage(
                "--from and --report name the same file, which would be replaced: name another for the page",
            ));
        }
        let baseline = arguments.baseline.as_deref().map(Baseline::read);
        let page = arguments.report.as_deref().map(|path| Writer::prepare(&report::PAGE, path));
        let bundle = arguments.bundle.as_deref().map(|path| Bundle::prepare(path, common.config.clone()));
        Ok(Self { baseline: baseline.transpose()?, page: page.transpose()?, bundle: bundle.transpose()? })
    }
}

/// Mistakes in files are found here, before anything is started.
fn options(common: &Common, arguments: &Verify, files: &Files) -> Result<Options, Failure> {
    let plan = arguments.plan.as_deref().map(Plan::load).transpose()?;
    let thresholds = arguments.thresholds.as_deref().map(Thresholds::read).transpose()?;
    let start = if arguments.running || arguments.health {
        Start::Running(target(&Common { node: None, ..common.clone() })?)
    } else {
        // Of a name of its own, beside whatever runs, and gone again afterwards.
        let own = super::own_cluster(common, "verify", arguments.nodes as usize)?;
        Start::Own(OwnCluster { last_look: files.bundle.as_ref().map(Bundle::last_look), ..own })
    };
    let argv = std::env::args().collect();
    Ok(Options { start, seed: arguments.seed, depth: depth(arguments), plan, thresholds, argv })
}

fn depth(arguments: &Verify) -> Depth {
    match arguments {
        Verify { health: true, .. } => Depth::Health,
        Verify { quick: true, .. } => Depth::Quick,
        Verify { thorough: true, .. } => Depth::Thorough,
        _ => Depth::Standard,
    }
}

/// Prints the result, beside the baseline if there is one. Gives the verdict of both, and the document.
fn print(
    report: &Report,
    baseline: Option<&Baseline>,
    health: bool,
    output: Output,
) -> Result<(Verdict, Value), Failure> {
    let mut value = serde_json::to_value(report)?;
    let compared = baseline.map(|old| old.compare(&value)).transpose()?;
    let verdict = Verdict::worst([report.verdict].into_iter().chain(compared.as_ref().map(verdict_of)));
    if let (Some(compared), Value::Object(fields)) = (&compared, &mut value) {
        fields.insert("baseline".into(), serde_json::to_value(compared)?);
        fields.insert("verdict".into(), serde_json::to_value(verdict)?);
    }
    let text = || {
        let mut text = if health { report.render_line() } else { report.render() };
        if let Some(compared) = &compared {
            text.push_str(&format!("\nBeside {}:\n\n{}", compared.old, compared.to_text()));
        }
        text
    };
    output.result(|| Ok(value.clone()), text)?;
    Ok((verdict, value))
}

/// An earlier result.
struct Baseline {
    name: String,
    document: Value,
}

impl Baseline {
    fn read(path: &Path) -> Result<Self, DocumentError> {
        let baseline = Self { name: path.display().to_string(), document: read_json(path)? };
        // With itself: what cannot be compared is said now.
        baseline.compare(&baseline.document)?;
        Ok(baseline)
    }

    fn compare(&self, new: &Value) -> Result<Sections, DocumentError> {
        let old = (self.name.as_str(), &self.document);
        compare::verify::values_of(old, ("this run", new), &compare::Options::default())
    }
}

fn verdict_of(compared: &Sections) -> Verdict {
    compared.verdict.into()
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

fn write_page(page: &Writer, document: &Value, output: Output) -> bool {
    hold_if_interrupted();
    is_written(page_of(document, page).map_err(Failure::from), output)
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
