//! `tieline cluster`: two hosts, which here are two runtime directories and two directories of keys, with TCP
//! over loopback between them.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tieline_tests::{Cluster, Watchdog};

/// A host: what one user of it has.
struct Host {
    cluster: Cluster,
    address: String,
}

impl Host {
    fn new() -> Self {
        // Free a moment ago: if a program takes it meanwhile, the manager reports that.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { cluster: Cluster::empty().unwrap(), address: port.to_string() }
    }

    fn config(&self) -> PathBuf {
        self.cluster.runtime_dir().join("config")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.cluster.command(arguments).unwrap();
        command.env("XDG_CONFIG_HOME", self.config()).stdin(Stdio::null());
        command
    }

    /// Exit status, standard output, standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn must(&self, arguments: &[&str]) -> String {
        let (status, out, err) = self.run(arguments);
        assert_eq!(status, 0, "{arguments:?}: {out}{err}");
        out
    }

    /// A `join` that must fail; what it says.
    fn refused(&self, arguments: &[&str], status: i32) -> String {
        let (ended, out, err) = self.run(arguments);
        assert_eq!((ended, out.as_str()), (status, ""), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        err
    }
}

/// Until the status of a host shows a valid session with this node of another host.
fn sees(host: &Host, node: u64) {
    loop {
        let (_, out, _) = host.run(&["status", "--json"]);
        let status: Value = serde_json::from_str(&out).unwrap();
        let nodes = status["nodes"].as_array().unwrap();
        let mut links = nodes.iter().filter_map(|node| node["status"]["links"].as_array()).flatten();
        if links.any(|link| link["peer"] == node && link["other_host"] == true && link["session"] == "valid")
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_host_joins_with_a_token_and_both_see_each_other() {
    let _watchdog = Watchdog::usual("two hosts");
    let (first, second) = (Host::new(), Host::new());
    let made = first.must(&["cluster", "init", "--address", &first.address]);
    assert!(made.contains(&first.address) && made.contains("next: `tieline node start --node 4`"), "{made}");
    let keys = first.config().join("tieline/hosts/test");
    assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
    let again = first.refused(&["cluster", "init", "--address", &first.address], 2);
    assert!(again.contains("test") && again.contains(keys.to_str().unwrap()), "{again}");
    first.must(&["node", "start", "--node", "4"]);
    let token = first.must(&["cluster", "token"]);
    let token = token.trim();
    let join = ["cluster", "join", &first.address, "--address", &second.address, "--token", token];
    let joined = second.must(&join);
    assert!(joined.contains("node 8 of cluster test"), "{joined}");
    second.must(&["node", "start", "--node", "8"]);
    sees(&first, 8);
    sees(&second, 4);
    let mut text = first.must(&["status"]);
    assert!(text.contains("session valid, link ofi"), "{text}");
    // With the first heartbeats.
    while !(text.contains(", round trip ") && text.contains(" ms (least ")) {
        std::thread::sleep(Duration::from_millis(50));
        text = first.must(&["status"]);
    }
    // The same token lets nobody else in.
    let third = Host::new();
    let join = ["cluster", "join", &first.address, "--address", &third.address, "--token", token];
    let refused = third.refused(&join, 4);
    assert!(refused.contains("token"), "{refused}");
    assert!(!third.config().join("tieline/hosts/test").exists());
    first.must(&["node", "stop", "--node", "4"]);
    second.must(&["node", "stop", "--node", "8"]);
}

#[test]
fn what_cannot_join_is_told_why() {
    let _watchdog = Watchdog::usual("hosts that cannot join");
    let host = Host::new();
    let none = host.refused(&["cluster", "token"], 4);
    assert!(none.contains("tieline cluster init"), "{none}");
    let without = host.refused(&["cluster", "join", "127.0.0.1:9"], 2);
    assert!(without.contains("--token -") && without.contains("TIELINE_TOKEN"), "{without}");
    let garbage = host.refused(&["cluster", "join", "127.0.0.1:9", "--token", "tl1-x"], 2);
    assert!(garbage.contains("--token holds no token: give the whole line"), "{garbage}");
    // The harness gives an empty standard input.
    let empty = host.refused(&["cluster", "join", "127.0.0.1:9", "--token", "-"], 2);
    assert!(empty.contains("standard input is empty: pipe the output of"), "{empty}");
    let port = host.refused(&["cluster", "join", "127.0.0.1:foo", "--token", "tl1-x"], 2);
    assert!(port.contains("`foo` is not a port"), "{port}");
    let multicast = host.refused(&["cluster", "init", "--address", "224.0.0.1"], 2);
    assert!(multicast.contains("--address 224.0.0.1: it is a multicast address: give"), "{multicast}");
    host.must(&["cluster", "init", "--address", &host.address]);
    let token = host.must(&["cluster", "token"]);
    let other = Host::new();
    let join = ["cluster", "join", &host.address, "--address", &other.address, "--token", token.trim()];
    let refused = other.refused(&join, 4);
    assert!(refused.contains(&host.address), "{refused}");
    let short = host.refused(&["cluster", "token", "--expires", "1ms"], 2);
    assert!(short.contains("--expires 1ms: give a time from 1s to 1000000s"), "{short}");
}
