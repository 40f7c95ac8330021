//! `tieline clusters`.

use ::verify::clusters::{SCHEMA, collect};
use node_client::runtime_dir::runtime_root;

use crate::args::Common;
use crate::exit::{Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, output: Output) -> Outcome {
    let report = collect(&runtime_root(common.runtime_dir.as_deref()))?;
    output.form(SCHEMA, || serde_json::to_value(&report), || report.render())?;
    Ok(PASS)
}
