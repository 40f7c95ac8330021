//! `tieline up --hosts-in-namespaces`: hosts on one machine that share nothing, what runs in them, and what
//! is refused.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tieline_tests::{Cluster, Peer, Watchdog};

use crate::lab::{Program, until};

/// Hosts of `tieline up --hosts-in-namespaces`; ended when dropped.
pub(crate) struct Hosts {
    pub(crate) cluster: Cluster,
    /// What `up` has printed.
    pub(crate) said: Value,
}

/// Whether this machine can have hosts in namespaces; if not, the reason is printed.
pub(crate) fn can() -> bool {
    let works = |words: &[&str]| {
        Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success())
    };
    if !works(&["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "true"]) {
        println!("skipped: only root can make namespaces");
        return false;
    }
    if !works(&["unshare", "--net", "ip", "link", "add", "hub", "type", "bridge"]) {
        println!(
            "skipped: the program `ip` is not installed (package iproute2), or the kernel lacks bridges"
        );
        return false;
    }
    true
}

impl Hosts {
    /// So many; `None`: this machine cannot.
    pub(crate) fn up(count: usize) -> Option<Self> {
        Self::up_with(count, &[])
    }

    /// The same with more options of `tieline up`.
    pub(crate) fn up_with(count: usize, options: &[&str]) -> Option<Self> {
        if !can() {
            return None;
        }
        let cluster = Cluster::empty().unwrap();
        let count = count.to_string();
        let words = [&["up", "--json", "--hosts-in-namespaces", &count], options].concat();
        let said = text(&cluster.tieline(&words).unwrap());
        let said = serde_json::from_str(&said.1).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        Some(Self { cluster, said })
    }

    /// A command on a host.
    pub(crate) fn on(&self, host: &str, words: &[&str]) -> Command {
        let command = self.cluster.command(&[&["on", host, "--"], words].concat());
        command.unwrap()
    }

    /// Its status, and what it has printed.
    pub(crate) fn run(&self, host: &str, words: &[&str]) -> (i32, String, String) {
        text(&self.on(host, words).stdin(Stdio::null()).output().unwrap())
    }

    /// What it has printed; it must succeed.
    pub(crate) fn must(&self, host: &str, words: &[&str]) -> String {
        let (status, out, err) = self.run(host, words);
        assert_eq!(status, 0, "{words:?}: {out}{err}");
        out.trim().to_owned()
    }

    /// `tieline` on a host.
    pub(crate) fn tieline(&self, host: &str, words: &[&str]) -> (i32, String, String) {
        let program = tieline_tests::cluster::tieline_binary().unwrap();
        self.run(host, &[&[program.to_str().unwrap()], words].concat())
    }

    /// A program of the tests, talked to by lines.
    pub(crate) fn program(&self, host: &str, program: &str, words: &[&str]) -> Program {
        Program(Peer::of(self.on(host, &[&[program], words].concat())).unwrap())
    }

    pub(crate) fn first_process(&self, index: usize) -> u32 {
        self.said["hosts"][index]["pid"].as_u64().unwrap().try_into().unwrap()
    }
}

pub(crate) fn text(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// The kinds of namespaces that a host has of its own.
pub(crate) const KINDS: [&str; 5] = ["mnt", "net", "pid", "ipc", "uts"];

/// The namespaces of a process, as names of the kernel.
pub(crate) fn namespaces(pid: &str) -> BTreeSet<String> {
    let link = |kind: &str| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
    KINDS.iter().filter_map(|kind| Some(link(kind)?.to_str()?.to_owned())).collect()
}

const REACH: &str = env!("CARGO_BIN_EXE_tieline-reach");
const UNIX: &str = env!("CARGO_BIN_EXE_tieline-unix");

/// As many as there may be: each has a session with every other one, though all of them connect at once, and
/// again with one that all have lost.
#[test]
fn all_hosts_that_there_may_be_connect_at_once() {
    const COUNT: usize = 64;
    let watchdog = Watchdog::usual("64 hosts");
    let Some(hosts) = Hosts::up(COUNT) else { return };
    watchdog.progress();
    let sessions = |host: &str| {
        let (_, said, _) = hosts.tieline(host, &["node", "status", "--json"]);
        let said: Value = serde_json::from_str(&said).unwrap_or_default();
        let links = said["nodes"][0]["status"]["links"].as_array().cloned().unwrap_or_default();
        links.iter().filter(|link| link["session"] == "valid").count()
    };
    let first_and_last = ["host1", "host64"];
    assert_eq!(first_and_last.map(sessions), [COUNT - 1; 2]);
    // All connect to the first one again, which was cut off until they had lost it.
    hosts.must("host1", &["ip", "link", "set", "eth0", "down"]);
    until("the loss of all sessions", || sessions("host1") == 0);
    watchdog.progress();
    hosts.must("host1", &["ip", "link", "set", "eth0", "up"]);
    until("all sessions", || first_and_last.map(sessions) == [COUNT - 1; 2]);
}

#[test]
fn three_hosts_are_connected_and_a_program_reaches_the_memory_of_another_host() {
    let _watchdog = Watchdog::usual("three hosts in namespaces");
    let Some(hosts) = Hosts::up(3) else { return };
    let said = &hosts.said;
    assert_eq!((&said["schema"], &said["started"]), (&"tieline.up/1".into(), &serde_json::json!([4, 8, 12])));
    assert_eq!((&said["hosts"][1]["name"], &said["hosts"][1]["node"]), (&"host2".into(), &8.into()));
    let names = |host| hosts.must(host, &["hostname"]);
    assert_eq!([names("host1"), names("host3")], ["host1", "host3"]);

    let (status, out, err) = hosts.tieline("host1", &["status"]);
    assert_eq!(status, 0, "{out}{err}");
    for other in [
        "node 4: node 8 on host2: session valid, link ofi",
        "node 4: node 12 on host3: session valid, link ofi",
    ] {
        assert!(out.contains(other), "{out}");
    }
    // Where the user is, there are no nodes: the error says where they are.
    let (status, _, err) = hosts.cluster.run(&["status"]).unwrap();
    assert_eq!(status, 4, "{err}");
    assert!(
        err.contains(
            "run in hosts in namespaces: run the command there, such as `tieline on host1 -- tieline status"
        ),
        "{err}"
    );

    let (status, out, _) = hosts.cluster.run(&["clusters"]).unwrap();
    assert!(
        status == 0
            && out.starts_with("test: hosts in namespaces; its nodes: tieline on host1 --cluster test "),
        "{out}"
    );

    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        println!("skipped from here on: {error}");
        return;
    }
    let mut owner = hosts.program("host2", REACH, &["own", "7", "2000000"]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    user.must("what", "ofi 2000000 bytes put get atomics doorbell");
    user.must("put 3 1000 1999000", "done");
    owner.must("check 3 1000 1999000", "same");
    // It dies with the command that has started it.
    user.0.kill().unwrap();
    owner.must("event", "Connected { node: NodeId(4) }");
    owner.must("event", "Disconnected { node: NodeId(4), died: true }");
}

#[test]
fn hosts_share_no_memory_no_file_and_no_socket() {
    let _watchdog = Watchdog::usual("what hosts in namespaces share");
    let Some(hosts) = Hosts::up(2) else { return };
    let of = |host| {
        let links = "cd /proc/self/ns; readlink mnt net pid ipc uts";
        hosts.must(host, &["sh", "-c", links]).lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (first, second, machine) = (of("host1"), of("host2"), namespaces("self"));
    assert_eq!((first.len(), machine.len()), (5, 5));
    assert!(first.is_disjoint(&second) && first.is_disjoint(&machine) && second.is_disjoint(&machine));

    // Files: what one writes the other does not see, nor does the machine; elsewhere it cannot write.
    for place in ["/dev/shm", "/run", "/tmp", "/var/tmp"] {
        let file = format!("{place}/tieline-test-{}", std::process::id());
        hosts.must("host1", &["sh", "-c", &format!("echo secret > {file}; cat {file}")]);
        let (status, _, err) = hosts.run("host2", &["cat", &file]);
        assert!(status == 1 && err.contains("No such file"), "{file}: {err}");
        assert!(!Path::new(&file).exists(), "{file}");
    }
    for place in [env!("CARGO_TARGET_TMPDIR"), "/etc", "/"] {
        let (status, _, err) = hosts.run("host1", &["touch", &format!("{place}/tieline-test")]);
        assert!(status == 1 && err.contains("Read-only file system"), "{place}: {err}");
    }
    // Every other mount that can be reached is read-only: remounting is what a program would notice.
    let script = "set -e; while read -r _ _ _ _ place options rest; do
        case $place in /run|/tmp|/var/tmp|/dev/shm|/dev/pts|/proc|/sys|/etc/hosts) continue;; esac
        if mountpoint -q \"$place\" && mkdir \"$place/tieline-test\" 2> /dev/null; then echo \"$place\"; fi
        done < /proc/self/mountinfo";
    assert_eq!(hosts.must("host1", &["sh", "-c", script]), "");

    // Sockets: abstract names, paths in own directories, loopback and processes of one are not the other's.
    let mut kept = Vec::new();
    for name in ["@tieline-test", "/tmp/tieline-socket", "/dev/shm/tieline-socket"] {
        kept.push(hosts.program("host1", UNIX, &["listen", name]).ready());
        assert_eq!(hosts.must("host1", &[UNIX, "connect", name]), "connected", "{name}");
        let said = hosts.must("host2", &[UNIX, "connect", name]);
        assert!(said.starts_with("error: "), "{name}: {said}");
        let outside = Command::new(UNIX).args(["connect", name]).output().unwrap();
        assert!(outside.stdout.starts_with(b"error: "), "{name}: {outside:?}");
    }
    let listeners =
        |host| hosts.must(host, &["sh", "-c", "cat /proc/[0-9]*/comm"]).matches("tieline-unix").count();
    assert_eq!((listeners("host1"), listeners("host2")), (3, 0));
    let memory = hosts.must("host1", &["sh", "-c", "ipcmk -M 4096 && ipcs -m"]);
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("0x")).count();
    assert_eq!((lines(&memory), lines(&hosts.must("host2", &["ipcs", "-m"]))), (1, 0));
    // The network of the hosts is not the machine's.
    let address = hosts.said["hosts"][0]["address"].as_str().unwrap();
    let machine = text(&Command::new("ip").args(["-o", "-4", "address"]).output().unwrap()).1;
    assert!(!machine.contains(&format!("inet {address}/")), "{machine}");
    assert_eq!(hosts.must("host2", &["sh", "-c", "ls /sys/class/net | sort | xargs"]), "eth0 lo");
}

#[test]
fn a_command_on_a_host_ends_with_its_own_status_and_gets_signals() {
    let _watchdog = Watchdog::usual("commands on a host in namespaces");
    let Some(hosts) = Hosts::up(2) else { return };
    assert_eq!(hosts.run("host1", &["sh", "-c", "exit 7"]).0, 7);
    assert_eq!(hosts.run("host1", &["sh", "-c", "kill -KILL $$"]).0, 137);
    let (status, _, err) = hosts.run("host1", &["no-such-program"]);
    assert!(status == 127 && err.contains("no-such-program cannot be run in host1: No such file"), "{err}");
    let (status, _, err) = hosts.run("host1", &["/etc/passwd"]);
    assert!(status == 126 && err.contains("Permission denied"), "{err}");
    // Input, output and directory are those of the user.
    let script = "cat > /dev/null; pwd; echo $TIELINE_CLUSTER";
    let mut command = hosts.on("host2", &["sh", "-c", script]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&output).1, format!("{}\ntest\n", env!("CARGO_MANIFEST_DIR")));

    let script = "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut peer = hosts.program("host2", "sh", &["-c", script]).ready();
    peer.0.signal(rustix::process::Signal::TERM).unwrap();
    peer.0.expect("told").unwrap();
    assert_eq!(peer.0.finish().unwrap().code(), Some(5));

    let (status, _, err) = text(&hosts.cluster.tieline(&["on", "host9", "--", "true"]).unwrap());
    assert!(status == 2 && err.contains("there is no host `host9`: the hosts are host1, host2"), "{err}");
    let (status, _, err) = text(&hosts.cluster.tieline(&["up", "--hosts-in-namespaces", "2"]).unwrap());
    assert!(status == 4 && err.contains("cluster `test` has hosts in namespaces already (process "), "{err}");
    for words in [
        &["up"][..],
        &["node", "start", "--node", "4"],
        &["node", "run", "--node", "4"],
        &["node", "stop", "--node", "4"],
    ] {
        let (status, _, err) = text(&hosts.cluster.tieline(words).unwrap());
        assert!(
            status == 4 && err.contains("cluster `test` has hosts in namespaces: end them"),
            "{words:?}: {err}"
        );
    }
    // None of these has done any harm.
    assert_eq!(hosts.tieline("host2", &["status"]).0, 0);
}

#[test]
fn what_cannot_be_is_refused_with_the_reason_and_nothing_is_left() {
    let _watchdog = Watchdog::usual("refusals of hosts in namespaces");
    let cluster = Cluster::empty().unwrap();
    let refused = |words: &[&str], status: i32, why: &str| {
        let (was, out, err) = text(&cluster.tieline(words).unwrap());
        assert!(was == status && err.contains(why), "{words:?}: {was}: {out}{err}");
        assert!(!cluster.cluster_dir().exists(), "{words:?}");
    };
    for count in ["1", "65", "x"] {
        refused(&["up", "--hosts-in-namespaces", count], 2, "--hosts-in-namespaces");
    }
    refused(&["up", "--hosts-in-namespaces", "2", "--nodes", "2"], 2, "--nodes");
    refused(&["up", "--rate", "1gbit"], 2, "--hosts-in-namespaces");
    refused(&["up", "--rails", "2"], 2, "--hosts-in-namespaces");
    for rails in ["0", "5"] {
        refused(&["up", "--hosts-in-namespaces", "2", "--rails", rails], 2, "--rails");
    }
    for rate in ["1", "1kbit", "fast"] {
        refused(&["up", "--hosts-in-namespaces", "2", "--rate", rate], 2, "give ");
    }
    refused(&["on", "host1"], 2, "COMMAND");
    if !can() {
        return;
    }
    refused(&["on", "host1", "--", "true"], 4, "cluster `test` has no hosts in namespaces here (searched ");
    let config = cluster.runtime_dir().join("config.toml");
    std::fs::write(&config, "").unwrap();
    if config.starts_with("/tmp") {
        let words = ["up", "--hosts-in-namespaces", "2", "--config", config.to_str().unwrap()];
        refused(&words, 2, "is not seen in the hosts, which have a /tmp of their own: put it elsewhere");
    }
    // What the process may not, or what is not there.
    let up = cluster.command(&["up", "--hosts-in-namespaces", "2"]).unwrap();
    let with = |before: &[&str]| {
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(up.get_program()).args(up.get_args()).stdin(Stdio::null());
        cluster.set_environment(&mut command);
        text(&command.output().unwrap())
    };
    let (status, _, err) = with(&["sh", "-c", "PATH=/nowhere; exec \"$@\"", "sh"]);
    assert!(status == 4 && err.contains("`ip` is not there: install the package iproute2"), "{err}");
    let (status, _, err) = with(&["setpriv", "--bounding-set", "-sys_admin"]);
    assert!(status == 4 && err.contains("lacks the capability CAP_SYS_ADMIN"), "{err}");
    let (status, _, err) =
        with(&["unshare", "--net", "sh", "-c", "ip address add 10.1.2.3/8 dev lo; exec \"$@\"", "sh"]);
    assert!(status == 4 && err.contains("too few free subnets between 10.77.0.0/24 and "), "{err}");
    let (_, _, err) = with(&["setpriv", "--reuid", "65534", "--clear-groups"]);
    assert!(
        err.contains("only root may do that, and this process runs as user 65534")
            || err.contains("Permission denied"),
        "{err}"
    );
    assert!(!cluster.cluster_dir().exists());
    // Nodes of this machine are not mixed with hosts.
    cluster.tieline(&["up", "--nodes", "1"]).unwrap();
    let (status, _, err) = text(&cluster.tieline(&["up", "--hosts-in-namespaces", "2"]).unwrap());
    assert!(status == 4 && err.contains("cluster `test` has nodes on this machine already"), "{err}");
    assert_eq!(cluster.run(&["status"]).unwrap().0, 0);
}

/// Whether an address answers from a host, by a connection to a port that nobody listens at.
fn is_reached(hosts: &Hosts, host: &str, address: &str) -> bool {
    let words = ["timeout", "2", "bash", "-c", "exec 3<>/dev/tcp/$0/9", address];
    hosts.run(host, &words).2.contains("Connection refused")
}

#[test]
fn each_rail_is_a_network_of_its_own() {
    let _watchdog = Watchdog::usual("hosts in namespaces with several rails");
    let Some(hosts) = Hosts::up_with(2, &["--rails", "3"]) else { return };
    let addresses = |host: usize| -> Vec<String> {
        serde_json::from_value(hosts.said["hosts"][host]["addresses"].clone()).unwrap()
    };
    assert_eq!(addresses(1)[0], hosts.said["hosts"][1]["address"]);
    let network = |address: &String| address.rsplit_once('.').unwrap().0.to_owned();
    let networks: BTreeSet<_> = addresses(1).iter().map(network).collect();
    assert_eq!(networks.len(), 3, "{networks:?}");
    for (rail, address) in addresses(1).iter().enumerate() {
        let shown = hosts.must("host2", &["ip", "-brief", "address", "show", "dev", &format!("eth{rail}")]);
        assert!(shown.contains(&format!("{address}/24")), "{shown}");
        assert!(is_reached(&hosts, "host1", address), "{address}");
    }
    // A rail that is cut takes no other with it, and no other stands in for it.
    hosts.must("host2", &["ip", "link", "set", "eth1", "down"]);
    let reached: Vec<_> = addresses(1).iter().map(|address| is_reached(&hosts, "host1", address)).collect();
    assert_eq!(reached, [true, false, true]);
}

#[test]
fn a_rate_is_set_at_both_ends_of_each_cable() {
    let _watchdog = Watchdog::usual("hosts in namespaces with a rate");
    let has_buckets = [
        "unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst",
        "9000", "latency", "1ms",
    ];
    let output = Command::new(has_buckets[0]).args(&has_buckets[1..]).output();
    if !output.is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not set token buckets, or the kernel or `tc` has none");
        return;
    }
    let Some(hosts) = Hosts::up_with(2, &["--rate", "200mbit", "--rails", "2"]) else { return };
    assert_eq!(hosts.said["rate_bits_per_s"], 200_000_000);
    for (host, interface) in [("host1", "eth0"), ("host2", "eth0"), ("host1", "eth1"), ("host2", "eth1")] {
        let sent = hosts.must(host, &["tc", "qdisc", "show", "dev", interface]);
        assert!(sent.starts_with("qdisc tbf ") && sent.contains("rate 200Mbit"), "{sent}");
    }
    let lock = std::fs::read_to_string(hosts.cluster.cluster_dir().join("hosts.lock")).unwrap();
    let hub = format!("--net=/proc/{}/ns/net", lock.split(' ').next().unwrap());
    let output = Command::new("nsenter").args([&hub, "tc", "qdisc", "show"]).output().unwrap();
    let received = text(&output).1;
    for end in ["host1", "host2", "host1-1", "host2-1"] {
        let is_limited =
            |line: &str| line.contains(&format!("dev {end} root")) && line.contains("rate 200Mbit");
        assert!(received.lines().any(is_limited), "{received}");
    }
    // Without one there is none.
    let plain = Hosts::up(2).unwrap();
    assert!(!plain.must("host1", &["tc", "qdisc", "show", "dev", "eth0"]).contains("tbf"));
}

/// The processes that hold frames back, of these hosts.
fn forwarders(hosts: &Hosts) -> Vec<String> {
    let lock = std::fs::read_to_string(hosts.cluster.cluster_dir().join("hosts.lock")).unwrap();
    let hub = lock.split(' ').next().unwrap().to_owned();
    let children = std::fs::read_to_string(format!("/proc/{hub}/task/{hub}/children")).unwrap();
    let is_one = |pid: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("hosts-in-namespaces-forwarder")
    };
    children.split_whitespace().filter(is_one).map(str::to_owned).collect()
}

/// Nanoseconds until an address says that nothing listens there: at least one round trip.
fn refused_after_ns(hosts: &Hosts, address: &str) -> u64 {
    let script = format!(
        "begin=$(date +%s%N); if (exec 3<>/dev/tcp/{address}/1) 2>/dev/null; then exit 1; fi; echo $(($(date +%s%N) - begin))"
    );
    hosts.must("host1", &["bash", "-c", &script]).parse().unwrap()
}

#[test]
fn a_delay_is_kept_in_each_direction_on_each_rail() {
    const DELAY_NS: u64 = 20_000_000;
    let _watchdog = Watchdog::usual("hosts in namespaces with a delay");
    let Some(hosts) = Hosts::up_with(2, &["--delay", "20ms", "--rails", "2"]) else { return };
    assert_eq!(hosts.said["delay_ns"], DELAY_NS);
    // Of the heartbeats of both managers.
    until("a round trip", || {
        let (_, status, _) = hosts.tieline("host1", &["status", "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let least = status["nodes"][0]["status"]["links"][0]["least_round_trip_ns"].as_u64();
        assert!(least.is_none_or(|least| least >= 2 * DELAY_NS), "{status}");
        least.is_some()
    });
    for address in hosts.said["hosts"][1]["addresses"].as_array().unwrap() {
        let took_ns = refused_after_ns(&hosts, address.as_str().unwrap());
        assert!(took_ns >= 2 * DELAY_NS, "{address}: {took_ns} ns");
    }
    let forwarders = forwarders(&hosts);
    assert_eq!(forwarders.len(), 2, "one for each rail");
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        println!("a block is not tried: {error}");
    } else {
        let mut owner = hosts.program("host2", REACH, &["own", "7", "2000000"]).ready();
        let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
        user.must("put 3 1000 1999000", "done");
        owner.must("check 3 1000 1999000", "same");
    }
    let (status, out, err) = hosts.cluster.run(&["down"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    assert!(forwarders.iter().all(|pid| !Path::new("/proc").join(pid).exists()));
}

#[test]
fn frames_are_lost_as_asked_and_blocks_arrive_whole() {
    let watchdog = Watchdog::usual("hosts in namespaces with a loss");
    let Some(hosts) = Hosts::up_with(2, &["--loss", "5%"]) else { return };
    assert_eq!((&hosts.said["loss_ppm"], &hosts.said["delay_ns"]), (&json!(50_000), &Value::Null));
    assert_eq!(forwarders(&hosts).len(), 1);
    let address = hosts.said["hosts"][1]["addresses"][0].as_str().unwrap();
    let before = (frames(&hosts, "host1").1, frames(&hosts, "host2").0);
    // Where nothing listens the kernel returns an error now and then, which ends no loop.
    let send =
        format!("exec 3>/dev/udp/{address}/9; for i in {{1..600}}; do echo >&3; done 2>/dev/null; true");
    hosts.must("host1", &["bash", "-c", &send]);
    let (sent, arrived) = (frames(&hosts, "host1").1 - before.0, frames(&hosts, "host2").0 - before.1);
    assert!(sent >= 500, "{sent} sent");
    // The deviation of 500 frames is 1 %.
    let share = arrived as f64 / sent as f64;
    assert!((0.9..0.99).contains(&share), "{arrived} of {sent} arrived");
    watchdog.progress();
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        return println!("a block is not tried: {error}");
    }
    let mut owner = hosts.program("host2", REACH, &["own", "7", "300000"]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    for seed in 1..4 {
        user.must(&format!("put {seed} 1000 299000"), "done");
        owner.must(&format!("check {seed} 1000 299000"), "same");
        watchdog.progress();
    }
}

/// Frames that the interface of a host has received and sent.
fn frames(hosts: &Hosts, host: &str) -> (u64, u64) {
    let all = hosts.must(host, &["cat", "/proc/net/dev"]);
    let line = all.lines().find_map(|line| line.trim().strip_prefix("eth0:")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
    (numbers[1], numbers[9])
}

#[test]
fn without_a_delay_nothing_forwards_frames() {
    let _watchdog = Watchdog::usual("hosts in namespaces without a delay");
    let Some(hosts) = Hosts::up(2) else { return };
    assert_eq!((&hosts.said["delay_ns"], forwarders(&hosts)), (&Value::Null, Vec::new()));
    let output = hosts.cluster.tieline(&["up", "--delay", "20ms"]).unwrap();
    assert_eq!(output.status.code(), Some(2));
    for (option, value, said) in [
        ("--delay", "2s", "give a delay from 1us to 1s"),
        ("--loss", "60%", "give a loss from 0.0001% to 50%"),
        ("--loss", "1", "is not a loss: give a percentage"),
    ] {
        let output = hosts.cluster.tieline(&["up", "--hosts-in-namespaces", "2", option, value]).unwrap();
        assert!(text(&output).2.contains(said), "{output:?}");
    }
}
