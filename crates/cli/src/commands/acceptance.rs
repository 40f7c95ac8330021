//! `tieline bench acceptance`.

use std::fs;

use ::verify::own::{OwnCluster, Removal};
use anyhow::anyhow;
use bench::acceptance::{self, Options, catalogue};
use bench::cluster::{ClusterControl, ControlError, Running};
use bench::layout;
use bench::patterns::attach::Where;
use bench::verdict::Verdict;

use super::{bench::progress, own_cluster};
use crate::args::{Acceptance, Common};
use crate::exit::{FAIL, Failure, INCONCLUSIVE, Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Acceptance, output: Output) -> Outcome {
    let entries = catalogue::select(&arguments.only).map_err(Failure::usage)?;
    if arguments.list {
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id).collect();
        output.result(|| serde_json::to_value(&ids), || ids.iter().map(|id| format!("{id}\n")).collect())?;
        return Ok(PASS);
    }
    let options =
        Options { only: arguments.only.clone(), argv: std::env::args().collect(), ..Options::default() };
    let mut control = Control { own: own_cluster(common, "acceptance", 2)?, running: None };
    let figures = acceptance::run(&options, Some(&mut control), &mut progress(output))?;
    output.progress_done();
    output.result(|| serde_json::to_value(&figures), || layout::figures::render(&figures))?;
    Ok(match figures.verdict() {
        Verdict::Pass => PASS,
        Verdict::Fail => FAIL,
        Verdict::Inconclusive => INCONCLUSIVE,
    })
}

/// Clusters of its own, one after the other.
struct Control {
    own: OwnCluster,
    running: Option<Removal>,
}

impl ClusterControl for Control {
    fn up(&mut self, nodes: usize) -> Result<Running, ControlError> {
        self.running = None;
        self.own.nodes = nodes;
        let (target, removal, _) = self.own.up(&mut |_| ())?;
        self.running = Some(removal);
        let manager_pids = target
            .nodes
            .iter()
            .map(|node| Ok(target.attach(*node, "bench")?.info().manager_pid))
            .collect::<Result<_, tieline::Error>>()?;
        let place = Where {
            runtime_dir: target.runtime_dir,
            cluster: target.cluster,
            near: target.nodes.first().copied(),
            far: target.nodes.get(1).copied(),
        };
        Ok(Running { place, nodes: target.nodes, manager_pids })
    }

    fn down(&mut self) -> Result<(), ControlError> {
        let dir = self.own.dir()?;
        self.running = None;
        // The removal itself cannot say so.
        if fs::exists(dir.path())? {
            return Err(anyhow!(
                "the cluster in {} could not be taken down: see `tieline down --cluster {}`",
                dir.path().display(),
                dir.cluster()
            )
            .into());
        }
        Ok(())
    }
}
