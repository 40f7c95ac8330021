//! `tieline verify`.

use std::path::Path;

use ::verify::Verdict;
use ::verify::cable::Plan;
use ::verify::report::{self, Writer};
use ::verify::run::{Control, Depth, Options, Start, run as run_all};
use anyhow::Result;
use bench::compare::{self, verify::Sections};
use bench::results::{DocumentError, read_json};
use bench::thresholds::Thresholds;
use serde_json::Value;

use super::target;
use crate::args::{Common, Verify};
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::interrupt::{self, hold_if_interrupted};
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Verify, output: Output) -> Outcome {
    // Before a long run, as its result would be lost.
    let writer = arguments.report.as_deref().map(Writer::prepare).transpose()?;
    if let (Some(from), Some(writer)) = (&arguments.from, &writer) {
        return render_again(from, writer);
    }
    let old = arguments.baseline.as_deref().map(Baseline::read).transpose()?;
    let options = options(common, arguments)?;
    interrupt::end_with_what_there_is()?;
    // A test of health is one line, for whoever collects those of many nodes.
    let mut tell = |text: &str| {
        if !arguments.health {
            output.progress(text)
        }
    };
    let report = run_all(&options, &mut Control { tell: &mut tell, stop: &interrupt::has_arrived });
    output.progress_done();
    let report = report.map_err(Failure::from)?;
    let mut value = serde_json::to_value(&report).map_err(Failure::from)?;
    let compared = old.map(|old| old.compare(&value)).transpose()?;
    let verdict = Verdict::worst([report.verdict].into_iter().chain(compared.as_ref().map(verdict_of)));
    if let (Some(compared), Value::Object(fields)) = (&compared, &mut value) {
        fields.insert("baseline".into(), serde_json::to_value(compared)?);
        fields.insert("verdict".into(), serde_json::to_value(verdict)?);
    }
    let text = || {
        let mut text = if arguments.health { report.render_line() } else { report.render() };
        if let Some(compared) = &compared {
            text.push_str(&format!("\nBeside {}:\n\n{}", compared.old, compared.to_text()));
        }
        text
    };
    output.result(|| Ok(value.clone()), text)?;
    if let Some(writer) = writer {
        hold_if_interrupted();
        if let Err(error) = page_of(&value, &writer) {
            // The result stands printed already, so this is no result of its own; the status says that the page is missing.
            output.note(&Failure::from(error).text());
            return Ok(CANNOT);
        }
    }
    Ok(verdict.exit_status())
}

/// Mistakes in files are found here, before anything is started.
fn options(common: &Common, arguments: &Verify) -> Result<Options, Failure> {
    let plan = arguments.plan.as_deref().map(Plan::load).transpose()?;
    let thresholds = arguments.thresholds.as_deref().map(Thresholds::read).transpose()?;
    let depth = match arguments {
        Verify { health: true, .. } => Depth::Health,
        Verify { quick: true, .. } => Depth::Quick,
        Verify { thorough: true, .. } => Depth::Thorough,
        _ => Depth::Standard,
    };
    let start = if arguments.running || arguments.health {
        Start::Running(target(&Common { node: None, ..common.clone() })?)
    } else {
        // Of a name of its own, beside whatever runs, and gone again afterwards.
        Start::Own(super::own_cluster(common, "verify", arguments.nodes as usize)?)
    };
    Ok(Options { start, seed: arguments.seed, depth, plan, thresholds, argv: std::env::args().collect() })
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

/// A page of a result that was saved. Its verdict is of another time, so it is not this command's.
fn render_again(from: &Path, writer: &Writer) -> Outcome {
    page_of(&report::load(from)?, writer)?;
    Ok(PASS)
}

fn page_of(document: &Value, writer: &Writer) -> Result<()> {
    Ok(writer.write(&report::render(document)?)?)
}
