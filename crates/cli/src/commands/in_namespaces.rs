//! `tieline up --hosts-in-namespaces`, `tieline on`, and `tieline down` for such hosts.

use std::time::Duration;

use anyhow::anyhow;
use namespaces::{
    Delay, Host, Loss, Progress, Rate, UpOptions, are_up, down as end_hosts, enter, find, up as start_hosts,
};
use node_client::runtime_dir::ClusterDir;
use serde_json::json;

use super::cluster::named;
use super::cluster_dir;
use crate::args::{Common, On, Up};
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::interrupt;
use crate::output::Output;

/// How long hosts may take to be connected: a machine under load is slow, not broken.
const UP_LIMIT: Duration = Duration::from_secs(120);

pub(super) fn up(common: &Common, arguments: &Up, count: usize, output: Output) -> Outcome {
    let (rate, delay, loss) = (arguments.rate, arguments.delay, arguments.loss);
    let dir = cluster_dir(common)?;
    // What is only just being started is undone by this process.
    interrupt::end_with_what_there_is()?;
    let options = UpOptions {
        dir: dir.clone(),
        count,
        rails: arguments.rails as usize,
        rate,
        delay,
        loss,
        faults: arguments.faults,
        config: common.config.clone(),
        limit: UP_LIMIT,
        stop: interrupt::has_arrived,
    };
    let report = start_hosts(&options, &mut |progress| match progress {
        Progress::Started(hosts) => output.passing(&format!("{hosts} hosts run")),
        Progress::Ready(ready) => output.passing(&format!("{ready} of {count} hosts connected")),
    });
    output.progress_done();
    let (report, lease) = report?;
    lease.keep()?;
    let (hosts, took_s) = (&report.hosts, report.took.as_secs_f64());
    let nodes: Vec<_> = hosts.iter().map(|host| host.node).collect();
    output.result(
        || {
            let each = hosts.iter().map(|host| {
                json!({
                    "name": host.name,
                    "address": host.address().to_string(),
                    "addresses": host.addresses,
                    "node": host.node,
                    "pid": host.process.pid,
                })
            });
            Ok(json!({
                "schema": "tieline.up/1",
                "cluster": dir.cluster().as_str(),
                "started": nodes,
                "already_running": [],
                "without_faults": [],
                "hosts": each.collect::<Vec<_>>(),
                "rate_bits_per_s": rate.map(Rate::bits_per_s),
                "delay_ns": delay.map(Delay::ns),
                "loss_ppm": loss.map(Loss::ppm),
                "took_s": took_s,
            }))
        },
        || {
            let addresses = |host: &Host| host.addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
            let each = hosts
                .iter()
                .map(|host| format!("{}: {}, node {}\n", host.name, addresses(host).join(", "), host.node));
            each.collect::<String>()
                + &format!("all sessions valid after {took_s:.2} s\n")
                + "next: `tieline on host1 -- COMMAND` runs a command on a host, `tieline down` ends them\n"
        },
    )?;
    Ok(PASS)
}

/// Nodes of this machine take no part in a cluster of such hosts, and theirs are not reached from outside of
/// them.
pub(super) fn refuse_beside(dir: &ClusterDir) -> Result<(), Failure> {
    if !are_up(dir) {
        return Ok(());
    }
    let error = anyhow!(
        "cluster `{}` has hosts in namespaces: end them with `tieline down`, name another cluster with --cluster, or run the \
         command in a host (`tieline on host1 -- tieline …`)",
        dir.cluster()
    );
    Err(Failure { status: CANNOT, error })
}

pub(super) fn down(dir: &ClusterDir, output: Output) -> Outcome {
    let report = end_hosts(dir)?;
    output.result(
        || {
            Ok(json!({
                "schema": "tieline.down/1",
                "stopped": report.stopped,
                "killed": report.killed,
                "removed": report.removed,
                "hosts": report.hosts,
            }))
        },
        || {
            let hosts = report.hosts.join(", ");
            match (&report.stopped[..], &report.killed[..], &report.removed[..]) {
                ([], [], []) => "removed what was left of hosts in namespaces\n".to_owned(),
                ([], [], removed) => format!("removed what was left of: {} ({hosts})\n", named(removed)),
                ([], killed, _) => format!("killed: {} ({hosts})\n", named(killed)),
                (stopped, ..) => format!("stopped: {} ({hosts})\n", named(stopped)),
            }
        },
    )?;
    Ok(PASS)
}

pub(super) fn on(common: &Common, arguments: &On) -> Outcome {
    let dir = cluster_dir(common)?;
    let host = find(&dir, &arguments.host)?;
    Ok(enter(&dir, &host, &arguments.program)?)
}
