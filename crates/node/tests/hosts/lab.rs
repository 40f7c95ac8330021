//! Hosts in network namespaces, each with a runtime directory, keys and an address of its own, joined by a
//! router.
//!
//! Namespaces have no name: they and their interfaces vanish with the process that holds them, which ends
//! with its input, so with the test, however it ends.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ends a test that hangs; no duration is asserted.
const WATCHDOG: Duration = Duration::from_secs(300);
const HOST: &str = env!("CARGO_BIN_EXE_node-host");

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
        eventually("a namespace", || std::fs::read_link(space.path()).is_ok_and(|there| there != own));
        space
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).args(words);
        command
    }

    fn run(&self, words: &[&str]) {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WATCHDOG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One host.
pub(crate) struct Host {
    space: Namespace,
    /// Of its interface on the router.
    port: String,
    root: PathBuf,
    pub(crate) address: String,
    pub(crate) node: u32,
    manager: Option<Child>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.root.join("log")).unwrap_or_default();
            eprintln!("log of node {}:\n{log}", self.node);
        }
    }
}

impl Host {
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.space.command(&[HOST]);
        command.args(words).env("XDG_CONFIG_HOME", self.root.join("config"));
        command
    }

    /// A program of the system in its network.
    pub(crate) fn run(&self, words: &[&str]) {
        self.space.run(words);
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, String> {
        let output = self.command(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    /// The same where no file may have a byte.
    pub(crate) fn ask_without_room(&self, words: &[&str]) -> Result<String, String> {
        let mut command = self.space.command(&["sh", "-c"]);
        command.arg("trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"").arg(HOST).args(words);
        let output = command.env("XDG_CONFIG_HOME", self.root.join("config")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    pub(crate) fn runtime(&self) -> String {
        self.root.join("run").display().to_string()
    }

    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.root.join("log")).unwrap();
        let mut command = self.command(&["run", &self.node.to_string(), &self.runtime()]);
        self.manager = Some(command.stdin(Stdio::null()).stderr(log).stdout(Stdio::null()).spawn().unwrap());
        eventually("a manager", || self.links().is_some());
    }

    /// As a crash ends it. `nsenter` has become the manager.
    pub(crate) fn kill(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            let _ = manager.kill();
            let _ = manager.wait();
        }
    }

    /// A line for each other node; `None`: its manager does not answer.
    pub(crate) fn links(&self) -> Option<Vec<String>> {
        let said = self.ask(&["status", &self.node.to_string(), &self.runtime()]).ok()?;
        Some(said.lines().map(str::to_owned).collect())
    }

    /// The state of its session with another node, and why.
    pub(crate) fn link(&self, to: u32) -> String {
        let begin = format!("{to} ");
        let links = self.links().unwrap_or_default();
        links.into_iter().find_map(|line| line.strip_prefix(&begin).map(str::to_owned)).unwrap_or_default()
    }

    pub(crate) fn sees(&self, others: &[u32]) -> bool {
        others.iter().all(|other| self.link(*other) == format!("Valid true host-{other} -"))
    }

    pub(crate) fn connect(&self, to: u32, segment: u32) -> Result<String, String> {
        let numbers = [self.node, to, segment].map(|number| number.to_string());
        self.ask(&["connect", &numbers[0], &self.runtime(), &numbers[1], &numbers[2]])
    }

    /// Connections that it has begun to addresses of 10.77.1.0/24, where nobody is.
    pub(crate) fn unanswered(&self) -> usize {
        let output = self.space.command(&["cat", "/proc/net/tcp"]).output().unwrap();
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_one = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // The remote address, last byte first; and the state, of which 02 is SYN-SENT.
            words.get(2).is_some_and(|to| to.contains("014D0A:")) && words.get(3) == Some(&"02")
        };
        table.lines().filter(is_one).count()
    }

    /// Of its node.
    pub(crate) fn certificate_and_key(&self) -> [Vec<u8>; 2] {
        ["crt", "key"]
            .map(|kind| std::fs::read(self.config().join(format!("node-{}.{kind}", self.node))).unwrap())
    }

    pub(crate) fn put_back(&self, files: &[Vec<u8>; 2]) {
        for (kind, bytes) in ["crt", "key"].iter().zip(files) {
            std::fs::write(self.config().join(format!("node-{}.{kind}", self.node)), bytes).unwrap();
        }
    }

    /// As from a backup that was made when it was a member.
    pub(crate) fn restore(&self, member: &Self, own: &[Vec<u8>; 2], list: &[u8]) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.config(), std::fs::Permissions::from_mode(0o700)).unwrap();
        for name in ["cluster", "authority.crt"] {
            std::fs::copy(member.config().join(name), self.config().join(name)).unwrap();
        }
        let address = format!("{}:7411", self.address);
        std::fs::write(self.config().join(format!("node-{}.address", self.node)), address).unwrap();
        std::fs::write(self.config().join("hosts"), list).unwrap();
        self.put_back(own);
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.root.join("config/tieline/hosts/lab")
    }
}

/// Some hosts and a router.
pub(crate) struct Lab {
    router: Namespace,
    _place: tempfile::TempDir,
    pub(crate) hosts: Vec<Host>,
}

impl Lab {
    /// `None` if this machine cannot: the reason is printed.
    pub(crate) fn new(nodes: &[u32]) -> Option<Self> {
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
        let place = tempfile::Builder::new().prefix("tl-hosts-").tempdir().unwrap();
        let router = Namespace::new();
        router.run(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
        let hosts = nodes.iter().enumerate().map(|(index, node)| {
            let (space, port) = (Namespace::new(), format!("port{index}"));
            let net = format!("10.77.{index}");
            let there = router.holder.id().to_string();
            let names = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", &port, "netns", &there];
            space.run(&names);
            let (own, gate) = (format!("{net}.2"), format!("{net}.1"));
            space.run(&["ip", "address", "add", &format!("{own}/24"), "dev", "eth0"]);
            router.run(&["ip", "address", "add", &format!("{gate}/24"), "dev", &port]);
            space.run(&["ip", "link", "set", "lo", "up"]);
            space.run(&["ip", "link", "set", "eth0", "up"]);
            router.run(&["ip", "link", "set", &port, "up"]);
            space.run(&["ip", "route", "add", "default", "via", &gate]);
            let root = place.path().join(format!("host{index}"));
            std::fs::create_dir_all(root.join("config")).unwrap();
            Host { space, port, root, address: own, node: *node, manager: None }
        });
        let hosts = hosts.collect();
        Some(Self { router, hosts, _place: place })
    }

    /// The router sends what is for these addresses to this one.
    pub(crate) fn route(&self, to: &str, by: &str) {
        self.router.run(&["ip", "route", "add", to, "via", by]);
    }

    /// Takes the router's interface to a host down, or up.
    pub(crate) fn cable(&self, host: usize, state: &str) {
        self.router.run(&["ip", "link", "set", &self.hosts[host].port, state]);
    }
}
