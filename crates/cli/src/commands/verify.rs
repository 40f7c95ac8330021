//! `tieline verify`.

use std::time::Duration;

use node::cluster::Launcher;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use ::verify::run::{Options, OwnCluster, Start, run as run_all};

use super::{cluster_dir, target};
use crate::args::{Common, Verify};
use crate::exit::{Failure, Outcome};
use crate::output::Output;

/// How long the cluster may take to come up.
const UP_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn run(common: &Common, arguments: &Verify, output: Output) -> Outcome {
    let start = if arguments.running {
        Start::Running(target(&Common { node: None, ..common.clone() })?)
    } else {
        // A cluster of its own name beside whatever runs, gone again afterwards.
        Start::Own(OwnCluster {
            root: cluster_dir(common)?.root().to_path_buf(),
            nodes: arguments.nodes as usize,
            launcher: Launcher::this_binary()?,
            config: common.config.clone(),
            limit: UP_LIMIT,
        })
    };
    if let Start::Own(own) = &start {
        remove_when_interrupted(own)?;
    }
    let report = run_all(&Options { start, seed: arguments.seed }, &mut |text| output.progress(text));
    output.progress_done();
    let report = report.map_err(Failure::from)?;
    output.result(|| serde_json::to_value(&report), || report.render())?;
    Ok(report.verdict.exit_status())
}

/// Ctrl-C and SIGTERM end the test; the cluster that was started for it must not be left.
fn remove_when_interrupted(own: &OwnCluster) -> Result<(), Failure> {
    let dir = own.dir()?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            OwnCluster::remove(&dir);
            // As a shell would report a program that the signal ended.
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}
