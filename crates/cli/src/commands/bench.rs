//! `tieline bench`.

use std::time::Duration;

use ::verify::own::Removal;
use bench::limits;
use bench::patterns::attach::Where;
use bench::patterns::scipp::{self, ServeOptions};
use tieline::NodeId;

use super::{own_cluster, target, usage};
use crate::args::{Bench, Common, Scipp};
use crate::exit::{Failure, Outcome, PASS};
use crate::output::Output;

/// How long a server waits for its client.
const CLIENT_PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn run(common: &Common, bench: &Bench, output: Output) -> Outcome {
    match bench {
        Bench::Scipp(arguments) => scipp(common, arguments, output),
        Bench::Limits => limits(output),
        Bench::Acceptance(arguments) => super::acceptance::run(common, arguments, output),
    }
}

fn argv() -> Vec<String> {
    std::env::args().collect()
}

/// Shows where a measurement is.
pub(super) fn progress(output: Output) -> impl FnMut(&str, f64) + Send {
    move |what: &str, share: f64| output.progress(&format!("{:3.0} %  {what}", 100.0 * share))
}

/// The two nodes to measure between: of the cluster that runs, else of one that is started for it.
pub(super) fn place(
    common: &Common,
    rn: Option<NodeId>,
    output: Output,
) -> Result<(Where, Option<Removal>), Failure> {
    if let Ok(target) = target(common) {
        let here = Where {
            runtime_dir: target.runtime_dir,
            cluster: target.cluster,
            near: common.node.or(target.nodes.first().copied()),
            far: rn,
        };
        return Ok((here, None));
    }
    if common.node.is_some() || rn.is_some() {
        // Certain nodes are meant; then the reason why they are not there is the answer.
        target(common)?;
    }
    let (target, removal, _) = own_cluster(common, "bench", 2)?.up(&mut |text| output.progress(text))?;
    let place = Where {
        runtime_dir: target.runtime_dir,
        cluster: target.cluster,
        near: target.nodes.first().copied(),
        far: target.nodes.get(1).copied(),
    };
    Ok((place, Some(removal)))
}

fn scipp(common: &Common, arguments: &Scipp, output: Output) -> Outcome {
    if (arguments.server || arguments.client) && arguments.rn.is_none() {
        return Err(usage("which node is the other end on? Give --rn ID (see `tieline query` there)"));
    }
    let (place, _removal) = place(common, arguments.rn, output)?;
    if let (true, Some(client)) = (arguments.server, arguments.rn) {
        scipp::serve(&ServeOptions { place, client, cpu: None, wait: CLIENT_PATIENCE })?;
        return Ok(PASS);
    }
    let options = scipp::Options {
        place,
        placement: arguments.placement.into(),
        argv: argv(),
        ..scipp::Options::default()
    };
    let mut progress = progress(output);
    let report = if arguments.client {
        scipp::client(&options, &mut progress)?
    } else {
        scipp::run(&options, &mut progress)?
    };
    output.progress_done();
    let text = || if arguments.classic { report.to_classic() } else { report.to_text() };
    output.result(|| serde_json::to_value(&report), text)?;
    Ok(PASS)
}

fn limits(output: Output) -> Outcome {
    let options = limits::Options { argv: argv(), ..limits::Options::default() };
    let report = limits::run(&options, &mut progress(output))?;
    output.progress_done();
    output.result(|| serde_json::to_value(&report), || report.to_text())?;
    Ok(PASS)
}
