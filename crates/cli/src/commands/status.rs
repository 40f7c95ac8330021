//! `tieline status`.

use ::verify::status::{collect, collect_all_hosts};

use super::target;
use crate::args::Common;
use crate::exit::Outcome;
use crate::output::Output;

pub(super) fn run(common: &Common, output: Output) -> Outcome {
    // A node that was named is looked at alone.
    let collect = if common.node.is_some() { collect } else { collect_all_hosts };
    let report = collect(&target(common)?)?;
    output.form(
        "tieline.status/1",
        || serde_json::to_value(&report),
        || if common.node.is_some() { report.render_services() } else { report.render() },
    )?;
    Ok(report.verdict.exit_status())
}
