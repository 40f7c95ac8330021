//! `tieline verify`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::verify::baseline::{Baseline, Judged};
use ::verify::bundle::Bundle;
use ::verify::cable::Plan;
use ::verify::capacity::CouldNotRun;
use ::verify::own::OwnCluster;
use ::verify::report;
use ::verify::run::{
    Control, Depth, Options, Report, Start, Step, as_started, document_unfinished, render_unfinished,
    run as run_all,
};
use ::verify::writer::Writer;
use anyhow::Result;
use bench::results::DocumentError;
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
        return render_again(from, page, arguments.title.as_deref());
    }
    let options = options(common, arguments, &files)?;
    interrupt::end_with_what_there_is()?;
    // A test of health is one line, for a tool that collects those of many nodes.
    let mut tell = |text: &str| {
        if !arguments.health {
            output.progress(text)
        }
    };
    let steps = LastWords::prepare(output);
    let mut done = |step: &Step| steps.add(step);
    let mut control = Control { tell: &mut tell, stop: &interrupt::has_arrived, done: &mut done };
    let outcome = run_all(&options, &mut control);
    // From here on there is a result of its own.
    interrupt::no_last_words();
    output.progress_done();
    let bundle = |outcome| files.bundle.as_ref().is_none_or(|bundle| pack(bundle, outcome, &options, output));
    let report = match outcome {
        Ok(report) => report,
        Err(error) => {
            // Why there is no result is what support needs to know.
            bundle(Err(&error));
            // A manager that the same signal ended at its start, say.
            return Err(match (&options.start, interrupt::arrives_soon()) {
                (Start::Own(_), Some(status)) => ended_early(&options, status),
                _ => error.into(),
            });
        }
    };
    let (result, incomparable) = beside(report, files.baseline.as_ref())?;
    let document = titled(result.document()?, arguments.title.as_deref());
    let text = || if arguments.health { result.render_line() } else { result.render() };
    let printed = output.result(|| Ok(document.clone()), text);
    let page = files.page.as_ref().is_none_or(|page| write_page(page, &document, output));
    let packed = bundle(Ok(&result));
    // What has been measured is kept in the files, whatever else is wrong.
    printed?;
    if let Some(error) = incomparable {
        return Err(error.into());
    }
    // The result stands printed already, so what is missing is no result of its own; the status says it.
    Ok(if packed && page { result.verdict().exit_status() } else { CANNOT })
}

/// A signal came before there was any result.
fn ended_early(options: &Options, status: u8) -> Failure {
    let command = as_started(&options.argv);
    let error = anyhow::anyhow!(
        "ended early by a signal, while its cluster was started: nothing was tested: run `{command}` to its end"
    );
    Failure { status, error }
}

/// The steps that are done, to be printed where a signal ends the command before it can end by itself.
struct LastWords(Arc<Mutex<Vec<Step>>>);

impl LastWords {
    fn prepare(output: Output) -> Self {
        let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
        let known = Arc::clone(&steps);
        interrupt::set_last_words(move || {
            let steps = known.lock().unwrap_or_else(PoisonError::into_inner);
            output.last_words(|| document_unfinished(&steps), || render_unfinished(&steps));
        });
        Self(steps)
    }

    fn add(&self, step: &Step) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(step.clone());
    }
}

/// The result beside the baseline, if there is one; without it, and why, if they cannot be compared.
fn beside(
    report: Report,
    baseline: Option<&Baseline>,
) -> Result<(Judged, Option<DocumentError>), serde_json::Error> {
    let Some(baseline) = baseline else { return Ok((Judged { report, compared: None }, None)) };
    Ok(match baseline.compare(&serde_json::to_value(&report)?) {
        Ok(compared) => (Judged { report, compared: Some(compared) }, None),
        Err(error) => (Judged { report, compared: None }, Some(error)),
    })
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

fn pack(bundle: &Bundle, outcome: Result<&Judged, &CouldNotRun>, options: &Options, output: Output) -> bool {
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
fn render_again(from: &Path, page: &Writer, title: Option<&str>) -> Outcome {
    page_of(&titled(report::load(from)?, title), page)?;
    Ok(PASS)
}

/// The document with this title; without one, as it is.
fn titled(mut document: Value, title: Option<&str>) -> Value {
    if let (Some(title), Value::Object(fields)) = (title, &mut document) {
        fields.insert("title".into(), title.into());
    }
    document
}

fn page_of(document: &Value, page: &Writer) -> Result<()> {
    Ok(page.write(report::render(document)?.as_bytes())?)
}
