//! `tieline bench compare` and `tieline bench thresholds`.

use bench::compare::{self, Options, Tolerance, verify};
use bench::results::read_json;
use bench::thresholds::Thresholds;

use crate::args::Compare;
use crate::exit::{Outcome, PASS};
use crate::output::Output;

pub(super) fn run(arguments: &Compare, output: Output) -> Outcome {
    let tolerance = Tolerance::relative(arguments.relative).with_all(&arguments.absolute)?;
    let options = Options { tolerance, missing_ok: arguments.missing_ok, seed: arguments.seed };
    let (old_name, new_name) = (arguments.old.display().to_string(), arguments.new.display().to_string());
    let (old, new) = (read_json(&arguments.old)?, read_json(&arguments.new)?);
    let (before, now) = ((old_name.as_str(), &old), (new_name.as_str(), &new));
    if verify::is_one(&old) && verify::is_one(&new) {
        let sections = verify::values_of(before, now, &options)?;
        output.result(|| serde_json::to_value(&sections), || sections.to_text())?;
        return Ok(sections.verdict.exit_status());
    }
    let comparison = compare::values(before, now, &options)?;
    output.result(|| serde_json::to_value(&comparison), || comparison.to_text())?;
    Ok(comparison.exit_status())
}

/// `tieline bench thresholds`.
pub(super) fn thresholds(output: Output) -> Outcome {
    let builtin = Thresholds::builtin();
    output.result(|| Ok(serde_json::json!({ "toml": builtin.to_toml() })), || builtin.to_toml())?;
    Ok(PASS)
}
