//! Hosts of `tieline up --hosts-in-namespaces` end without a trace, however they end.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

use crate::lab::until;
use crate::namespaces::{Hosts, KINDS, can, namespaces, text};

/// What the machine has, apart from processes: mounts, named network namespaces, interfaces with their
/// addresses.
fn machine() -> (String, String, String) {
    let said = |words: &[&str]| text(&Command::new("ip").args(words).output().unwrap()).1;
    let addresses = said(&["-o", "address"]);
    // How long an address is still valid is counted down.
    let addresses = addresses.lines().map(|line| line.split('\\').next().unwrap_or_default());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    (mounts, said(&["netns"]), addresses.collect())
}

/// Namespaces by their names of the kernel. They are held open: the kernel gives the name of one that is gone
/// to the next one, here to that of another test's host.
struct Held {
    names: BTreeSet<String>,
    _open: Vec<File>,
}

/// The namespaces of these processes that are not this one's.
fn held(pids: &[u32]) -> Held {
    let own = namespaces("self");
    let mut held = Held { names: BTreeSet::new(), _open: Vec::new() };
    for kind in pids.iter().flat_map(|pid| KINDS.map(|kind| format!("/proc/{pid}/ns/{kind}"))) {
        // Opened first: the name is that of what is held, or nothing is known of a process that has ended.
        let Ok(open) = File::open(&kind) else { continue };
        let name = std::fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).unwrap();
        let name = name.to_str().unwrap().to_owned();
        if !own.contains(&name) && held.names.insert(name) {
            held._open.push(open);
        }
    }
    held
}

/// Processes that are in one of these namespaces. One that has ended holds none, also if its parent has not
/// asked for its end yet.
fn inside(of: &Held) -> Vec<String> {
    let entries =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let runs = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    entries
        .filter(|name| name.parse::<u32>().is_ok() && !namespaces(name).is_disjoint(&of.names))
        .filter(runs)
        .collect()
}

/// The namespaces of all hosts, and those of their hub.
fn all_namespaces(hosts: &Hosts) -> Held {
    let count = hosts.said["hosts"].as_array().unwrap().len();
    let mut pids: Vec<_> = (0..count).map(|index| hosts.first_process(index)).collect();
    pids.push(hub_of(&hosts.cluster).unwrap());
    let all = held(&pids);
    // Of each host mount, network, processes, IPC and name; of the hub network and processes.
    assert_eq!(all.names.len(), 5 * count + 2, "{:?}", all.names);
    all
}

/// The process that holds the hosts.
fn hub_of(cluster: &Cluster) -> Option<u32> {
    hub_in(&cluster.cluster_dir())
}

fn hub_in(dir: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(dir.join("hosts.lock")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn down(cluster: &Cluster, said: &str) {
    let (status, out, err) = text(&cluster.tieline(&["down"]).unwrap());
    assert!(status == 0 && out == format!("{said}\n"), "{out}{err}");
    assert!(!cluster.cluster_dir().exists());
}

#[test]
fn down_leaves_no_process_no_namespace_no_mount_and_no_file() {
    let _watchdog = Watchdog::usual("the end of hosts in namespaces");
    let before = machine();
    let Some(hosts) = Hosts::up(3) else { return };
    assert_eq!(machine(), before);
    let all = all_namespaces(&hosts);
    // Whatever runs there, and does not want to end.
    let stubborn =
        hosts.program("host2", "sh", &["-c", "trap '' TERM HUP INT; echo ready; sleep 600"]).ready();
    let stays = "setsid sh -c 'sleep 600 & sleep 600' > /dev/null 2>&1 & mount -t tmpfs x /tmp; echo done";
    assert_eq!(hosts.must("host3", &["sh", "-c", stays]), "done");
    assert!(inside(&all).len() > 8);
    down(&hosts.cluster, "stopped: nodes 4, 8, 12 (host1, host2, host3)");
    // The command that ran it has entered its namespaces, too, and ends by itself.
    assert_eq!(stubborn.0.finish().unwrap().code(), Some(137));
    assert_eq!((inside(&all), machine()), (Vec::new(), before));
    let (status, out, _) = text(&hosts.cluster.tieline(&["down"]).unwrap());
    assert!(status == 0 && out.starts_with("no node of cluster `test` runs"), "{out}");
}

#[test]
fn whatever_is_killed_the_rest_runs_on_or_ends_and_down_leaves_nothing() {
    let watchdog = Watchdog::usual("hosts in namespaces that are killed");
    let before = machine();
    let Some(hosts) = Hosts::up(3) else { return };
    let all = all_namespaces(&hosts);
    // A manager: it is started again on its host.
    let kill_manager = "kill -KILL $(cat /run/tieline/test/node-8.lock)";
    hosts.must("host2", &["sh", "-c", kill_manager]);
    until("its end", || hosts.tieline("host2", &["status"]).0 != 0);
    let (status, out, err) = hosts.tieline("host2", &["node", "start", "--node", "8"]);
    assert_eq!(status, 0, "{out}{err}");
    until("the session", || hosts.tieline("host2", &["status"]).0 == 0);
    watchdog.progress();
    // A host: the others stay, and see it go.
    kill(hosts.first_process(1), Signal::KILL);
    let gone = || hosts.run("host2", &["true"]);
    until("the end of the host", || gone().2.contains("host2 has ended"));
    assert_eq!(gone().0, 4);
    assert_eq!(hosts.must("host3", &["hostname"]), "host3");
    down(&hosts.cluster, "stopped: nodes 4, 8, 12 (host1, host2, host3)");
    assert_eq!((inside(&all), machine()), (Vec::new(), before.clone()));
    watchdog.progress();

    // The process that holds them, while it is stopped: with it all end, and the files say what was there.
    let hosts = Hosts::up(2).unwrap();
    let all = all_namespaces(&hosts);
    kill(hub_of(&hosts.cluster).unwrap(), Signal::STOP);
    kill(hub_of(&hosts.cluster).unwrap(), Signal::KILL);
    until("the end of all", || inside(&all).is_empty());
    let (status, _, err) = hosts.run("host1", &["true"]);
    assert!(status == 4 && err.contains("has no hosts in namespaces here"), "{err}");
    down(&hosts.cluster, "removed what was left of: nodes 4, 8 (host1, host2)");
    assert_eq!(machine(), before);
    watchdog.progress();

    // The name is free for new ones, also without `down`. A hub that does not obey is killed.
    let again = Hosts::up(2).unwrap();
    let all = all_namespaces(&again);
    kill(hub_of(&again.cluster).unwrap(), Signal::KILL);
    until("the end of all", || inside(&all).is_empty());
    let (status, out, err) = text(&again.cluster.tieline(&["up", "--hosts-in-namespaces", "2"]).unwrap());
    assert_eq!(status, 0, "{out}{err}");
    kill(hub_of(&again.cluster).unwrap(), Signal::STOP);
    down(&again.cluster, "killed: nodes 4, 8 (host1, host2)");
    assert_eq!(machine(), before);
}

#[test]
fn an_up_that_is_killed_or_interrupted_leaves_nothing() {
    let watchdog = Watchdog::usual("hosts in namespaces whose start is interrupted");
    if !can() {
        return;
    }
    let before = machine();
    // As soon as there is a lock, and as soon as there are hosts.
    for (file, signal) in [
        ("hosts.lock", Signal::KILL),
        ("hosts.toml", Signal::KILL),
        ("hosts.lock", Signal::INT),
        ("hosts.toml", Signal::INT),
        ("hosts.toml", Signal::TERM),
    ] {
        let cluster = Cluster::empty().unwrap();
        let mut up = cluster.command(&["up", "--hosts-in-namespaces", "3"]).unwrap();
        up.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut up = up.spawn().unwrap();
        let path = cluster.cluster_dir().join(file);
        let is_there = |path: &Path| std::fs::read(path).is_ok_and(|bytes| !bytes.is_empty());
        until("the file", || is_there(&path) || up.try_wait().unwrap().is_some());
        let hub = hub_of(&cluster);
        let all = held(hub.as_slice());
        kill(up.id(), signal);
        let (status, _, err) = text(&up.wait_with_output().unwrap());
        match signal {
            Signal::KILL => assert_eq!(status, -1, "{err}"),
            other => {
                assert_eq!(status, 128 + other.as_raw(), "{err}");
                assert!(err.contains("interrupted before the hosts were up"), "{err}");
            }
        }
        until("the end of all", || inside(&all).is_empty() && !cluster.cluster_dir().exists());
        // Those of hosts were not known: none has another parent namespace left.
        assert_eq!(machine(), before);
        watchdog.progress();
    }
}

#[test]
fn hosts_of_a_measurement_end_with_it_however_it_ends() {
    let watchdog = Watchdog::usual("hosts of a measurement that is interrupted");
    if !can() {
        return;
    }
    let before = machine();
    for (file, signal) in [
        ("hosts.lock", Signal::KILL),
        ("hosts.toml", Signal::KILL),
        ("hosts.lock", Signal::INT),
        ("hosts.toml", Signal::TERM),
    ] {
        let cluster = Cluster::empty().unwrap();
        let mut bench = cluster.command(&["bench", "acceptance", "--only", "hosts.idle"]).unwrap();
        bench.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut bench = bench.spawn().unwrap();
        let dir = cluster.runtime_dir().join(format!("acceptance-{}", bench.id()));
        let is_there = |path: &Path| std::fs::read(path).is_ok_and(|bytes| !bytes.is_empty());
        until("the file", || is_there(&dir.join(file)) || bench.try_wait().unwrap().is_some());
        let all = held(&[hub_in(&dir).expect("the measurement has hosts")]);
        kill(bench.id(), signal);
        let (status, _, err) = text(&bench.wait_with_output().unwrap());
        let wanted = if signal == Signal::KILL { -1 } else { 128 + signal.as_raw() };
        assert_eq!(status, wanted, "{signal:?} at {file}: {err}");
        until("the end of all", || inside(&all).is_empty() && !dir.exists());
        assert_eq!(machine(), before);
        watchdog.progress();
    }
}
