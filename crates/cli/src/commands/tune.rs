//! `tieline tune`.

use bench::copy_plan::{Report, SCHEMA};
use node::NodeError;
use node::copy_plan::{Origin, known, machine, renew};
use node::runtime_dir::prepare_root_of;
use node_client::copy_plan::{ENV_COPY_PLAN, Source};

use super::cluster_dir;
use crate::args::{Common, Tune};
use crate::exit::{INCONCLUSIVE, Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Tune, output: Output) -> Outcome {
    let dir = cluster_dir(common)?;
    let root = dir.root();
    let (plan, origin) = known(root)?;
    let measures = arguments.renew || !arguments.show && origin == Origin::Table;
    if !measures {
        let report = Report::new(machine(), words(&origin), &plan, None);
        output.form(SCHEMA, || serde_json::to_value(&report), || report.render())?;
        return Ok(PASS);
    }
    output.progress("timing copies");
    prepare_root_of(&dir).map_err(NodeError::from)?;
    let (measured, kept) = renew(root)?;
    output.progress_done();
    let (_, origin) = known(root)?;
    let said = if kept { words(&origin) } else { "measured now, not kept".to_owned() };
    let mut report = Report::new(machine(), said, &measured.plan, Some(&measured.timings));
    report.took_ms = Some(measured.took.as_secs_f64() * 1e3);
    report.own_share = Some(measured.own_share);
    report.kept = Some(kept);
    output.form(SCHEMA, || serde_json::to_value(&report), || report.render())?;
    if !kept {
        output.note(&format!(
            "the plan was not kept: other programs had this processor for {:.0} % of the time: run `tieline tune --renew` when the \
             machine is idle",
            (1.0 - measured.own_share) * 100.0
        ));
        return Ok(INCONCLUSIVE);
    }
    if let Origin::Environment(_) = origin {
        output.note(&format!(
            "the plan was kept, but {ENV_COPY_PLAN} names another: unset it to use the new one"
        ));
    }
    Ok(PASS)
}

fn words(origin: &Origin) -> String {
    match origin {
        Origin::Environment(Source::Libc) => format!("the C library's memcpy, by {ENV_COPY_PLAN}"),
        Origin::Environment(Source::Table) => format!("that of this kind of processor, by {ENV_COPY_PLAN}"),
        Origin::Environment(Source::File(path)) => format!("{}, by {ENV_COPY_PLAN}", path.display()),
        Origin::Measured(path) => format!("measured on this machine, {}", path.display()),
        Origin::Table => "default of this processor family; to measure it: `tieline tune`".to_owned(),
    }
}
