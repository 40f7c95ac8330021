//! `tieline up --hosts FILE` and `tieline down --hosts FILE`.

use std::path::Path;
use std::time::Duration;

use fleet::{HostReport, HostState, Progress, Ssh, UpOptions, UpReport};
use node_client::runtime_dir::{ClusterName, DEFAULT_CLUSTER};
use serde_json::json;

use super::cluster::{list, named};
use crate::args::Common;
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::interrupt;
use crate::output::Output;

/// How long a command on a host may take: `node start` waits for other nodes of that host.
const COMMAND_LIMIT: Duration = Duration::from_secs(90);
/// How long the sessions between the hosts may take, once all managers run.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

fn cluster(common: &Common) -> Result<ClusterName, Failure> {
    ClusterName::new(common.cluster.as_deref().unwrap_or(DEFAULT_CLUSTER)).map_err(Failure::usage)
}

pub(super) fn up(common: &Common, file: &Path, output: Output) -> Outcome {
    let (cluster, lines) = (cluster(common)?, fleet::read(file)?);
    if common.config.is_some() {
        output.note("--config is not used with --hosts: each host reads its own configuration");
    }
    interrupt::end_with_what_there_is()?;
    let ssh = Ssh::new(COMMAND_LIMIT, interrupt::has_arrived);
    let options = UpOptions { ssh: &ssh, cluster: &cluster, lines: &lines, limit: CONNECT_LIMIT };
    let all = lines.len();
    let report = fleet::up(&options, &|progress| match progress {
        Progress::Running(hosts) => output.passing(&format!("the managers of {hosts} of {all} hosts run")),
        Progress::Connected(hosts) => output.passing(&format!("{hosts} of {all} hosts connected")),
    });
    output.progress_done();
    let report = report?;
    output.result(|| Ok(to_json(&cluster, &report)), || to_text(&report))?;
    Ok(if report.is_complete() { PASS } else { CANNOT })
}

fn to_json(cluster: &ClusterName, report: &UpReport) -> serde_json::Value {
    let each = report.hosts.iter().map(|host| {
        let (state, error) = match &host.state {
            HostState::Started => ("started", None),
            HostState::AlreadyRunning => ("already-running", None),
            HostState::Failed(why) => ("failed", Some(why)),
        };
        let (node, address) = host.node.map(|(node, address)| (node, address.to_string())).unzip();
        json!({ "host": host.host, "node": node, "address": address, "state": state, "new": host.is_new,
                "not_connected_with": host.missing, "error": error })
    });
    json!({ "schema": "tieline.up-hosts/1", "cluster": cluster.as_str(), "complete": report.is_complete(),
            "hosts": each.collect::<Vec<_>>(), "took_s": report.took.as_secs_f64() })
}

fn to_text(report: &UpReport) -> String {
    let mut text: String = report.hosts.iter().map(|host| line(host) + "\n").collect();
    let failed = report.hosts.iter().filter(|host| matches!(host.state, HostState::Failed(_))).count();
    let took_s = report.took.as_secs_f64();
    let missing = report.hosts.iter().any(|host| !host.missing.is_empty());
    text += &match (failed, missing) {
        (0, false) => format!(
            "all sessions valid after {took_s:.2} s\n\
             next: `tieline status` on one of them; `tieline down --hosts` with the same file ends them\n"
        ),
        (0, true) => "not all are connected: `tieline status` on a host names the reason\n".to_owned(),
        (failed, _) => format!(
            "{failed} of {} hosts failed: correct the causes above, then run the same command again\n",
            report.hosts.len()
        ),
    };
    text
}

fn line(host: &HostReport) -> String {
    let of = host.node.as_ref().map(|(node, address)| format!("node {node} at {address}, "));
    let state = match &host.state {
        HostState::Started if host.is_new => "joined and started".to_owned(),
        HostState::Started => "started".to_owned(),
        HostState::AlreadyRunning => "was running already".to_owned(),
        HostState::Failed(why) => format!("FAILED: {why}"),
    };
    let missing = match &host.missing[..] {
        [] => String::new(),
        nodes => format!("; not connected with {}", named(nodes)),
    };
    format!("{}: {}{state}{missing}", host.host, of.unwrap_or_default())
}

pub(super) fn down(common: &Common, file: &Path, output: Output) -> Outcome {
    let (cluster, lines) = (cluster(common)?, fleet::read(file)?);
    interrupt::end_with_what_there_is()?;
    let ended = fleet::down(&Ssh::new(COMMAND_LIMIT, interrupt::has_arrived), &cluster, &lines);
    // The host's name stands before it already.
    let why = |host: &fleet::Ended| {
        let text = host.outcome.as_ref().err().map(ToString::to_string)?;
        Some(text.strip_prefix(&format!("{}: ", host.host)).map_or(text.clone(), str::to_owned))
    };
    output.result(
        || {
            let each = ended.iter().map(|host| {
                json!({ "host": host.host, "stopped": host.outcome.as_ref().ok(), "error": why(host) })
            });
            Ok(json!({ "schema": "tieline.down-hosts/1", "cluster": cluster.as_str(), "hosts": each.collect::<Vec<_>>() }))
        },
        || {
            let each = ended.iter().map(|host| match &host.outcome {
                Ok(nodes) if nodes.is_empty() => format!("{}: nothing ran\n", host.host),
                Ok(nodes) => format!("{}: stopped {}\n", host.host, list(nodes)),
                Err(_) => format!("{}: FAILED: {}\n", host.host, why(host).unwrap_or_default()),
            });
            each.collect()
        },
    )?;
    Ok(if ended.iter().all(|host| host.outcome.is_ok()) { PASS } else { CANNOT })
}
