//! `tieline up --hosts` and `tieline down --hosts` over real ssh servers, one in the network namespace of
//! each host.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tieline_tests::{Watchdog, cluster::tieline_binary, executable};

use crate::lab::{Host, two_machines, until};

/// `None`, with the reason printed, where one of the programs of ssh is missing.
fn sshd() -> Option<PathBuf> {
    for (program, package) in
        [("ssh", "openssh-client"), ("ssh-keygen", "openssh-client"), ("sshd", "openssh-server")]
    {
        if found(program).is_none() {
            println!("skipped: `{program}` is not installed (Debian: package {package})");
            return None;
        }
    }
    found("sshd")
}

fn found(program: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    folders.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

fn key(path: &Path) {
    let path = path.to_str().unwrap();
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", path]).status();
    assert!(made.unwrap().success());
}

/// What a user has: keys, and a configuration of ssh that knows the hosts by name.
struct User {
    folder: TempDir,
}

impl User {
    fn new(hosts: &[(&str, &str)]) -> Self {
        let user = Self { folder: tempfile::tempdir().unwrap() };
        key(&user.path("key"));
        key(&user.path("host_key"));
        let mut config = String::new();
        for (name, address) in hosts {
            writeln!(config, "Host {name}\n  HostName {address}").unwrap();
        }
        let known = user.path("known_hosts");
        let key = user.path("key");
        writeln!(
            config,
            "Host *\n  User root\n  IdentityFile {}\n  UserKnownHostsFile {}",
            key.display(),
            known.display()
        )
        .unwrap();
        writeln!(config, "  StrictHostKeyChecking accept-new").unwrap();
        fs::write(user.path("config"), config).unwrap();
        fs::create_dir(user.path("bin")).unwrap();
        // In the place of ~/.ssh/config, which is the real user's.
        let ssh = found("ssh").unwrap();
        let script =
            format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), user.path("config").display());
        executable::write(&user.path("bin/ssh"), script, 0o755).unwrap();
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A list of hosts.
    fn list(&self, text: &str) -> String {
        let path = self.path("hosts");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command of tieline on a host as this user: its status, and what it printed.
    fn run(&self, host: &Host, words: &[&str]) -> (i32, String, String) {
        let mut command = host.command(tieline_binary().unwrap().to_str().unwrap());
        command.env_remove("TIELINE_NODE");
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let output = command.args(words).env("PATH", path).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }
}

/// A server in the network of a host, with a user `sshd` that this machine may lack.
struct Server(Child);

impl Server {
    fn start(host: &Host, user: &User, sshd: &Path) -> Self {
        let mut config = format!("ListenAddress {}\nPidFile none\nStrictModes no\nUsePAM no\n", host.address);
        for (option, file) in [("HostKey", "host_key"), ("AuthorizedKeysFile", "key.pub")] {
            writeln!(config, "{option} {}", user.path(file).display()).unwrap();
        }
        config +=
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n";
        let tieline = tieline_binary().unwrap();
        write!(config, "SetEnv PATH={}:/usr/bin:/bin", tieline.parent().unwrap().display()).unwrap();
        let given = host.command("true");
        for (name, value) in given.get_envs().filter(|(name, _)| *name != "TIELINE_NODE") {
            if let Some(value) = value {
                write!(config, " {}={}", name.display(), value.display()).unwrap();
            }
        }
        let file = user.path(&format!("sshd-{}", host.node));
        fs::write(&file, config + "\n").unwrap();
        let mut users = fs::read_to_string("/etc/passwd").unwrap();
        if !users.lines().any(|line| line.starts_with("sshd:")) {
            users += "sshd:x:65500:65534::/run/sshd:/usr/sbin/nologin\n";
        }
        fs::write(user.path("passwd"), users).unwrap();
        let script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && mount --bind \"$1\" /etc/passwd && exec \"$2\" -D -e -f \"$3\"";
        let mut command = host.command("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.args([user.path("passwd"), sshd.into(), file]);
        let log = fs::File::create(user.path(&format!("sshd-{}.log", host.node))).unwrap();
        let server = Self(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        let log = user.path(&format!("sshd-{}.log", host.node));
        until("the ssh server", || fs::read_to_string(&log).unwrap().contains("listening on"));
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(all: &(i32, String, String), status: i32, words: &[&str]) {
    let (was, out, err) = all;
    assert_eq!(*was, status, "{out}{err}");
    for word in words {
        assert!(out.contains(word), "no `{word}`:\n{out}{err}");
    }
}

#[test]
fn a_list_of_hosts_becomes_a_cluster_over_ssh() {
    let watchdog = Watchdog::usual("a cluster over ssh");
    let (Some(sshd), Some((first, second))) = (sshd(), two_machines()) else { return };
    let user = User::new(&[("alpha", &first.address), ("beta", &second.address), ("gamma", "10.78.0.77")]);
    let _servers = [&first, &second].map(|host| Server::start(host, &user, &sshd));
    let hosts = user.list("# the lab\nalpha\nbeta node=12\n");
    let up = user.run(&first, &["up", "--hosts", &hosts]);
    said(
        &up,
        0,
        &[
            "alpha: node 4 at 10.78.0.1:7411, joined and started\n",
            "beta: node 12 at 10.78.0.2:7411, joined and started\n",
            "all sessions valid after ",
        ],
    );
    assert_eq!(
        (first.session(12), second.tieline(&["cluster", "show"]).contains("node 12")),
        ("valid".into(), true)
    );
    watchdog.progress();

    // Once more: nothing is to be done.
    let again = user.run(&second, &["up", "--hosts", &hosts, "--json"]);
    said(&again, 0, &[]);
    let report: Value = serde_json::from_str(&again.1).unwrap();
    assert_eq!(
        (&report["complete"], &report["hosts"][1]["state"]),
        (&true.into(), &"already-running".into()),
        "{report}"
    );
    watchdog.progress();

    // A program's bytes.
    let mut owner = second.program_with(&["own", "7", "4096"], &[("TIELINE_NODE", "12")]).ready();
    let mut reach = first.program(&["reach", "12", "7"]).ready();
    reach.must("put 1 0 4096", "done");
    owner.must("check 1 0 4096", "same");
    drop((owner, reach));

    // They stop, and their keys stay: the next `up` starts them. A host that is not there is named, and the
    // others run.
    let down = user.run(&first, &["down", "--hosts", &hosts]);
    said(&down, 0, &["alpha: stopped 4\n", "beta: stopped 12\n"]);
    watchdog.progress();
    let hosts = user.list("alpha\ngamma\nbeta node=12\n");
    let up = user.run(&first, &["up", "--hosts", &hosts]);
    said(
        &up,
        4,
        &[
            "alpha: node 4 at 10.78.0.1:7411, started\n",
            "beta: node 12 at 10.78.0.2:7411, started\n",
            "gamma: FAILED: ssh cannot log in there: ",
            "1 of 3 hosts failed: ",
        ],
    );
    assert_eq!(first.session(12), "valid");
    watchdog.progress();
    let down = user.run(&first, &["down", "--hosts", &hosts]);
    said(&down, 4, &["alpha: stopped 4\n", "gamma: FAILED: ", "beta: stopped 12\n"]);
}

#[test]
fn what_cannot_become_a_cluster_is_named() {
    let watchdog = Watchdog::usual("lists of hosts that are wrong");
    let (Some(sshd), Some((first, second))) = (sshd(), two_machines()) else { return };
    let user = User::new(&[("alpha", &first.address), ("beta", &second.address), ("local", "127.0.0.1")]);
    let _servers = [&first, &second].map(|host| Server::start(host, &user, &sshd));
    let refused = |list: &str, status: i32, wanted: &str| {
        let (was, out, err) = user.run(&first, &["up", "--hosts", &user.list(list)]);
        assert!(was == status && err.contains(wanted), "{list:?}: {was}, {out}{err}");
        watchdog.progress();
    };
    refused("alpha\n-oProxyCommand=touch\n", 2, "line 2: `-oProxyCommand=touch` is no host");
    refused("# none\n", 2, "names no host");
    // Nobody else is made the first in its place.
    refused(
        "nowhere.invalid\nbeta\n",
        4,
        "nowhere.invalid, the first host of the list, cannot create the cluster: ssh",
    );
    assert!(second.tieline(&["cluster", "show"]).contains("is in no cluster"));
    // The second one has joined; the host of the authority is not in the list.
    let hosts = user.list("alpha\nbeta\n");
    said(&user.run(&first, &["up", "--hosts", &hosts]), 0, &["all sessions valid"]);
    refused(
        "beta\n",
        4,
        "beta has joined this cluster already, and the host where it was made is not the first of the list",
    );
    // A host that says of itself that it is the authority is not taken for it.
    refused("beta\nalpha\n", 4, "alpha says that this cluster was made there: if that is so, put it first");
    // One host under two names, and one that is another node than the list says.
    let twice = format!("alpha\nbeta\n{}\n", second.address);
    let up = user.run(&first, &["up", "--hosts", &user.list(&twice)]);
    said(&up, 4, &["beta: node 8 at ", "as beta does: is it the same host under another name?"]);
    let up = user.run(&first, &["up", "--hosts", &user.list("alpha\nbeta node=24\n")]);
    said(
        &up,
        4,
        &["beta: FAILED: it is node 8 of this cluster, and the list says node=24: correct the line"],
    );
    watchdog.progress();
    let (status, _, err) = user.run(&first, &["up", "--hosts", "/nonexistent/hosts"]);
    assert!(status == 2 && err.contains("/nonexistent/hosts cannot be read: No such file"), "{err}");
    let hosts = user.list("alpha\nbeta\n");
    said(&user.run(&first, &["down", "--hosts", &hosts]), 0, &["alpha: stopped 4\n", "beta: stopped 8\n"]);
}
