//! Two hosts in network namespaces, each with a runtime directory and keys of its own, joined by a cable.
//!
//! Namespaces have no name: they and their interfaces vanish with the processes that hold them, which end
//! with their input, so with the test, however it ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tieline_tests::{Cluster, Peer};

/// A namespace, and the process that holds it.
struct Namespace {
    holder: Child,
}

impl Namespace {
    fn new() -> Self {
        let holder = Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let space = Self { holder };
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        // It is in its namespace a moment after it was started.
        while std::fs::read_link(space.path()).is_ok_and(|there| there == own) {
            std::thread::sleep(Duration::from_millis(10));
        }
        space
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    fn command(&self, program: &std::ffi::OsStr) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words[0].as_ref()).args(&words[1..]).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// One host with one node.
pub(crate) struct Host {
    /// Before the namespace: its managers end in it.
    cluster: Cluster,
    space: Namespace,
    pub(crate) address: String,
    pub(crate) node: u64,
}

impl Host {
    fn new(node: u64, address: &str) -> Self {
        let (cluster, space) = (Cluster::empty().unwrap(), Namespace::new());
        Self { cluster, space, address: address.to_owned(), node }
    }

    /// A program of this host.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.space.command(program.as_ref());
        self.cluster.set_environment(&mut command);
        let config: PathBuf = self.cluster.runtime_dir().join("config");
        command.env("XDG_CONFIG_HOME", config).env("TIELINE_NODE", self.node.to_string());
        command
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.cluster.runtime_dir()
    }

    /// A command of the binary under test: whether it succeeded, and what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> (bool, String, String) {
        let program = tieline_tests::cluster::tieline_binary().unwrap();
        let mut command = self.command(program.to_str().unwrap());
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }

    pub(crate) fn tieline(&self, arguments: &[&str]) -> String {
        let (is_well, out, err) = self.run(arguments);
        assert!(is_well, "{arguments:?}: {out}{err}");
        out
    }

    pub(crate) fn start(&self) {
        self.tieline(&["node", "start", "--node", &self.node.to_string()]);
    }

    pub(crate) fn manager_pid(&self) -> u32 {
        let info: Value = serde_json::from_str(&self.tieline(&["query", "--json"])).unwrap();
        info["manager_pid"].as_u64().unwrap().try_into().unwrap()
    }

    /// As a crash ends it.
    pub(crate) fn kill_manager(&self) {
        let pid = self.manager_pid().to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
        // Until then it holds its lock.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        until("its end", || state().is_empty() || state().contains(") Z "));
    }

    /// What its manager says of itself.
    fn status(&self) -> Value {
        let own = self.node.to_string();
        // It fails while the session is not valid, or the manager not there yet.
        let (_, said, _) = self.run(&["node", "status", "--node", &own, "--json"]);
        let said: Value = serde_json::from_str(&said).unwrap_or_default();
        said["nodes"][0]["status"].clone()
    }

    /// The segments of its programs.
    pub(crate) fn segments(&self) -> Vec<Value> {
        self.status()["segments"].as_array().cloned().unwrap_or_default()
    }

    /// The state of the session with the other node.
    pub(crate) fn session(&self, node: u64) -> String {
        let links = self.status()["links"].as_array().cloned().unwrap_or_default();
        let link = links.into_iter().find(|link| link["peer"] == node);
        link.and_then(|link| link["session"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// A `tieline-reach` of this host.
    pub(crate) fn program(&self, arguments: &[&str]) -> Program {
        self.program_with(arguments, &[])
    }

    /// The same with environment variables.
    pub(crate) fn program_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Program {
        let mut command = self.command(env!("CARGO_BIN_EXE_tieline-reach"));
        command.args(arguments).envs(variables.iter().copied());
        Program(Peer::of(command).unwrap())
    }

    /// What `ip` prints in the host's namespace.
    pub(crate) fn ip(&self, words: &[&str]) -> String {
        self.space.run(&[&["ip"], words].concat())
    }

    /// Takes the cable out, or puts it back.
    pub(crate) fn cable(&self, state: &str) {
        self.space.run(&["ip", "link", "set", "eth0", state]);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.cluster.cluster_dir().join(format!("node-{}.log", self.node));
            println!("log of node {}:\n{}", self.node, std::fs::read_to_string(log).unwrap_or_default());
        }
    }
}

/// A program of a host.
pub(crate) struct Program(pub(crate) Peer);

impl Program {
    /// What it says to an order.
    pub(crate) fn ask(&mut self, order: &str) -> String {
        self.0.say(order).unwrap();
        self.0.line().unwrap()
    }

    /// It says that.
    pub(crate) fn must(&mut self, order: &str, said: &str) {
        assert_eq!(self.ask(order), said, "{order}");
    }

    pub(crate) fn ready(mut self) -> Self {
        self.0.expect("ready").unwrap();
        self
    }
}

/// Two hosts whose managers have a session: the nodes 4 and 8. `None` if this machine cannot: the reason is
/// printed.
pub(crate) fn two_hosts() -> Option<(Host, Host)> {
    let (first, second) = two_machines()?;
    first.tieline(&["cluster", "init", "--address", &first.address]);
    first.start();
    let token = first.tieline(&["cluster", "token"]);
    second.tieline(&["cluster", "join", &first.address, "--token", token.trim()]);
    second.start();
    see_each_other(&first, &second);
    Some((first, second))
}

/// The same before anything of tieline runs on them.
pub(crate) fn two_machines() -> Option<(Host, Host)> {
    let works = |words: &[&str]| {
        Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success())
    };
    if !works(&["unshare", "--net", "true"]) {
        println!("skipped: only root can make network namespaces");
        return None;
    }
    if !works(&["ip", "-V"]) {
        println!("skipped: the program `ip` is not installed (package iproute2)");
        return None;
    }
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        println!("skipped: {error}");
        return None;
    }
    let (first, second) = (Host::new(4, "10.78.0.1"), Host::new(8, "10.78.0.2"));
    let there = second.space.holder.id().to_string();
    first.space.run(&["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", &there]);
    for host in [&first, &second] {
        host.space.run(&["ip", "address", "add", &format!("{}/24", host.address), "dev", "eth0"]);
        host.space.run(&["ip", "link", "set", "lo", "up"]);
        host.space.run(&["ip", "link", "set", "eth0", "up"]);
    }
    Some((first, second))
}

pub(crate) fn see_each_other(first: &Host, second: &Host) {
    until("a session", || first.session(second.node) == "valid" && second.session(first.node) == "valid");
}

/// The watchdog of the test ends what never happens.
pub(crate) fn until(_what: &str, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A folder for `LD_LIBRARY_PATH`, with a file in the place of libfabric that is none, as after a broken
/// installation.
pub(crate) fn without_libfabric() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-libfabric");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libfabric.so.1"), "no library").unwrap();
    folder
}
