//! `tieline bench acceptance`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use ::verify::own::{OwnCluster, Removal};
use ::verify::run::{self, Depth};
use ::verify::{Target, conntest};
use anyhow::anyhow;
use bench::acceptance::catalogue::Entry;
use bench::acceptance::{self, Options, catalogue};
use bench::cluster::{ClusterControl, ClusterTest, ControlError, Running};
use bench::patterns::attach::Where;
use bench::thresholds::Thresholds;
use node_client::runtime_dir::ClusterDir;

use super::bench_result::Measuring;
use super::own_cluster;
use crate::args::{Acceptance, Common};
use crate::exit::{Outcome, PASS};
use crate::interrupt::has_arrived;
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Acceptance, output: Output) -> Outcome {
    let entries = catalogue::select(&arguments.only)?;
    if arguments.list {
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id).collect();
        output.result(|| serde_json::to_value(&ids), || ids.iter().map(|id| format!("{id}\n")).collect())?;
        return Ok(PASS);
    }
    bench::cpus::check(arguments.cpus, "acceptance")?;
    let options = Options {
        only: arguments.only.clone(),
        cpus: arguments.cpus,
        max_time: arguments.seconds,
        rivals: arguments.rivals,
        resume: arguments.resume.clone(),
        thresholds: arguments.thresholds.as_deref().map(Thresholds::read).transpose()?,
        argv: std::env::args().collect(),
        ..Options::default()
    };
    if let Some(thresholds) = &options.thresholds {
        let concerns = |entry: &Entry| thresholds.find(entry.id).is_some();
        if !entries.iter().any(concerns) {
            thresholds.expect_some("the figures of acceptance that were chosen", "\0")?;
        }
    }
    let mut control =
        Control { own: own_cluster(common, "acceptance", 2)?, running: None, hosts: None, target: None };
    let mut measuring = Measuring::begin(output)?;
    let figures = acceptance::run(&options, Some(&mut control), &mut measuring)?;
    output.progress_done();
    measuring.say_if_partial(figures.partial);
    output.result(|| serde_json::to_value(&figures), || figures.to_text())?;
    Ok(figures.exit_status())
}

/// Clusters of its own, one after the other.
struct Control {
    own: OwnCluster,
    running: Option<Removal>,
    hosts: Option<namespaces::Lease>,
    target: Option<Target>,
}

fn load(target: &Target, duration: Duration) -> Result<f64, ControlError> {
    let report = conntest::run(target, &conntest::Options::for_target(target, duration), &mut |_| ());
    if report.verdict != ::verify::Verdict::Pass {
        return Err(report.summary().into());
    }
    Ok(report.rate_bytes_per_s())
}

fn verification(target: Target, depth: Depth) -> Result<f64, ControlError> {
    let options = run::Options {
        start: run::Start::Running(target),
        seed: 1,
        depth,
        plan: None,
        thresholds: None,
        argv: Vec::new(),
    };
    let report =
        run::run(&options, &mut run::Control { tell: &mut |_| (), stop: &has_arrived, done: &mut |_| () })?;
    // How fast a cluster is on a machine that others use, too, is another figure's question.
    if report.verdict == ::verify::Verdict::Fail {
        return Err(report.render().into());
    }
    Ok(report.duration_s)
}

/// A verification of all hosts in namespaces, by one command on the first of them; in seconds.
fn verification_on_hosts(dir: &ClusterDir) -> Result<f64, ControlError> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command.arg("--cluster").arg(dir.cluster().as_str()).arg("--runtime-dir").arg(dir.root());
    command.args(["on", "host1", "--"]).arg(&program).args(["verify", "--running", "--quick", "--json"]);
    let output = command.stdin(Stdio::null()).output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    // As of one host.
    if report["verdict"] == "FAIL" {
        return Err(format!("the hosts failed: {}; steps: {}", report["culprits"], report["steps"]).into());
    }
    report["duration_s"].as_f64().ok_or_else(|| "the report names no duration".into())
}

impl ClusterControl for Control {
    fn up(&mut self, nodes: usize) -> Result<Running, ControlError> {
        // Nothing is started in place of what a signal takes away.
        if has_arrived() {
            return Err("a signal has come".into());
        }
        self.running = None;
        self.own.nodes = nodes;
        let (target, removal, _) = self.own.up(&mut |_| ())?;
        self.running = Some(removal);
        let manager_pids = target
            .nodes
            .iter()
            .map(|node| Ok(target.attach(*node, "bench")?.info().manager_pid))
            .collect::<Result<_, tieline::Error>>()?;
        self.target = Some(target.clone());
        let place = Where {
            runtime_dir: target.runtime_dir,
            cluster: target.cluster,
            near: target.nodes.first().copied(),
            far: target.nodes.get(1).copied(),
        };
        Ok(Running { place, nodes: target.nodes, manager_pids })
    }

    fn up_hosts(&mut self, hosts: usize) -> Result<Running, ControlError> {
        (self.running, self.target) = (None, None);
        let options = namespaces::UpOptions {
            delay: None,
            loss: None,
            faults: false,
            dir: self.own.dir()?,
            count: hosts,
            rails: 1,
            rate: None,
            config: self.own.config.clone(),
            limit: self.own.limit,
            stop: has_arrived,
        };
        let (report, lease) = namespaces::up(&options, &mut |_| ())?;
        self.hosts = Some(lease);
        let (mut nodes, mut manager_pids) = (Vec::new(), Vec::new());
        for host in &report.hosts {
            nodes.push(host.node);
            // Nothing else runs on it.
            manager_pids.extend(host.children()?);
        }
        // Nobody attaches from outside of the hosts.
        let place = Where {
            runtime_dir: Some(options.dir.root().into()),
            cluster: Some(options.dir.cluster().as_str().into()),
            near: None,
            far: None,
        };
        Ok(Running { place, nodes, manager_pids })
    }

    fn test(&mut self, test: ClusterTest) -> Result<f64, ControlError> {
        if self.hosts.is_some() {
            return match test {
                ClusterTest::VerifyQuick => verification_on_hosts(&self.own.dir()?),
                ClusterTest::Load(_) | ClusterTest::Health => Err("this test is one of one host".into()),
            };
        }
        let target = self.target.clone().ok_or("no cluster is up")?;
        match test {
            ClusterTest::Load(duration) => load(&target, duration),
            ClusterTest::VerifyQuick => verification(target, Depth::Quick),
            ClusterTest::Health => verification(target, Depth::Health),
        }
    }

    fn down(&mut self) -> Result<(), ControlError> {
        let dir = self.own.dir()?;
        (self.running, self.hosts, self.target) = (None, None, None);
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
