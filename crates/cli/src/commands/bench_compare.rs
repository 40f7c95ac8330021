//! `tieline bench compare`, `tieline bench compare-builds` and `tieline bench thresholds`.

use std::path::Path;

use bench::builds::{self, Limits, Named};
use bench::compare::{self, Options, Tolerance, verify};
use bench::results::{DocumentError, OF_BENCHMARKS, read_json, schema_of};
use bench::thresholds::Thresholds;

use super::bench_result::Measuring;
use crate::args::{Compare, CompareBuilds};
use crate::exit::{Outcome, PASS};
use crate::output::Output;

pub(super) fn run(arguments: &Compare, output: Output) -> Outcome {
    let tolerance = Tolerance::relative(arguments.relative).with_all(&arguments.absolute)?;
    let options = Options { tolerance, missing_ok: arguments.missing_ok, seed: arguments.seed };
    let (old_name, new_name) = (arguments.old.display().to_string(), arguments.new.display().to_string());
    let read = |path| read_json(path, OF_BENCHMARKS);
    let (old, new) = (read(&arguments.old)?, read(&arguments.new)?);
    let (before, now) = ((old_name.as_str(), &old), (new_name.as_str(), &new));
    if verify::is_one(&old) && verify::is_one(&new) {
        let sections = verify::values_of(before, now, &options)?;
        output.result(|| serde_json::to_value(&sections), || sections.to_text())?;
        return Ok(sections.verdict.exit_status());
    }
    if verify::is_one(&old) || verify::is_one(&new) {
        let schemas = [&old, &new].map(|document| schema_of(document).to_owned());
        let [old, new] = schemas;
        return Err(DocumentError::Unlike { old_name, old, new_name, new }.into());
    }
    let comparison = compare::values(before, now, &options)?;
    output.result(|| serde_json::to_value(&comparison), || comparison.to_text())?;
    Ok(comparison.exit_status())
}

/// `tieline bench compare-builds`.
pub(super) fn builds(arguments: &CompareBuilds, output: Output) -> Outcome {
    let named = |name: &Option<String>, program: &Path| {
        let name = name.clone().unwrap_or_else(|| program.display().to_string());
        Named { name, program: program.to_owned() }
    };
    let options = builds::Options {
        builds: [named(&arguments.old_name, &arguments.old), named(&arguments.new_name, &arguments.new)],
        only: arguments.only.clone(),
        cpus: arguments.cpus,
        limits: Limits { rounds_max: arguments.rounds.into() },
        missing_ok: arguments.missing_ok,
        argv: std::env::args().collect(),
    };
    if arguments.list {
        let ids: Vec<&str> = builds::plan(&options)?.both.iter().map(|entry| entry.id).collect();
        output.result(|| serde_json::to_value(&ids), || ids.iter().map(|id| format!("{id}\n")).collect())?;
        return Ok(PASS);
    }
    bench::cpus::check(arguments.cpus, "compare-builds")?;
    let mut measuring = Measuring::begin(output)?;
    let comparison = builds::run(&options, &mut measuring)?;
    output.progress_done();
    measuring.say_if_partial(comparison.partial);
    output.result(|| serde_json::to_value(&comparison), || comparison.to_text())?;
    Ok(comparison.exit_status())
}

/// `tieline bench thresholds`.
pub(super) fn thresholds(output: Output) -> Outcome {
    let builtin = Thresholds::builtin();
    output.result(|| Ok(serde_json::json!({ "toml": builtin.to_toml() })), || builtin.to_toml())?;
    Ok(PASS)
}
