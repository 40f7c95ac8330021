//! Two hosts on this machine: network namespaces that are joined by cables (veth pairs), one for each rail.
//!
//! A namespace has no name: it vanishes with the process that holds it, which ends with its input, so with
//! this one, however that ends. Nothing outside of the two namespaces changes.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::error::{BenchError, Result};

const WHAT: &str = "the link between hosts";
/// The addresses of the two; nobody outside of the namespaces sees them.
pub const ADDRESSES: [&str; 2] = ["10.79.0.1", "10.79.0.2"];
/// What the kernel's token buckets let through at each end of each cable, where cables have a rate: 1 Gbit/s.
/// A bucket holds two of the largest pieces that the kernel hands to an interface: a full one is sent at
/// once, and two rails have two of them.
const BUCKET: &str = "tbf rate 1gbit burst 131072b latency 50ms";
/// Longest until a process is in its namespace.
const START: Duration = Duration::from_secs(10);

fn absent(reason: impl std::fmt::Display) -> BenchError {
    BenchError::Absent { what: WHAT, reason: reason.to_string() }
}

/// The address of a host on a rail: those of the first rail are [`ADDRESSES`].
pub fn address(host: usize, rail: usize) -> String {
    format!("10.{}.0.{}", 79 + rail, host + 1)
}

/// The two hosts.
#[derive(Debug)]
pub struct Hosts([Namespace; 2]);

/// A namespace, and the process that holds it.
#[derive(Debug)]
struct Namespace {
    holder: Child,
}

impl Hosts {
    /// Makes them, with one cable. Needs root, and the programs of the packages util-linux and iproute2.
    pub fn new() -> Result<Self> {
        let hosts = Self([Namespace::new()?, Namespace::new()?]);
        hosts.connect(0)?;
        Ok(hosts)
    }

    /// The same with so many cables, each of which lets 1 Gbit/s through in each direction.
    pub fn with_rails(rails: usize) -> Result<Self> {
        let hosts = Self([Namespace::new()?, Namespace::new()?]);
        for rail in 0..rails {
            hosts.connect(rail)?;
            let interface = format!("eth{rail}");
            for space in &hosts.0 {
                let words = ["qdisc", "add", "dev", &interface, "root"].into_iter();
                let next = "token buckets need the kernel's module `sch_tbf`";
                let mut command = space.command("tc");
                run(command.args(words.chain(BUCKET.split(' '))), "tc", "iproute2", next).map_err(absent)?;
            }
        }
        Ok(hosts)
    }

    fn connect(&self, rail: usize) -> Result<()> {
        let [first, second] = &self.0;
        let (interface, there) = (format!("eth{rail}"), second.holder.id().to_string());
        let words = ["link", "add", &interface, "type", "veth", "peer", "name", &interface, "netns", &there];
        first.ip(&words)?;
        for (host, space) in self.0.iter().enumerate() {
            space.ip(&["address", "add", &format!("{}/24", address(host, rail)), "dev", &interface])?;
            space.ip(&["link", "set", "lo", "up"])?;
            space.ip(&["link", "set", &interface, "up"])?;
        }
        Ok(())
    }

    /// Takes the first host's end of a rail `down`, or `up`.
    pub fn set_rail(&self, rail: usize, state: &str) -> Result<()> {
        let interface = format!("eth{rail}");
        let mut command = self.0[0].command("ip");
        let next = "something else has taken the interface or its namespace away: run it again";
        run(command.args(["link", "set", &interface, state]), "ip", "iproute2", next).map_err(absent)
    }

    /// A program on one of them, on one processor.
    pub fn command(&self, host: usize, cpu: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.0[host].command("taskset");
        command.args(["-c", &cpu.to_string()]).arg(program);
        command
    }
}

impl Namespace {
    fn new() -> Result<Self> {
        // What a namespace is allowed is known before one is held.
        let mut command = Command::new("unshare");
        command.args(["--net", "true"]);
        run(&mut command, "unshare", "util-linux", "network namespaces need root, run this as root")
            .map_err(absent)?;
        let mut command = Command::new("unshare");
        // Not of this process's group: Ctrl-C would take the namespace away before what uses it has ended.
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let space = Self { holder: command.spawn().map_err(BenchError::io("unshare"))? };
        let began = Instant::now();
        while !space.is_apart() {
            if began.elapsed() > START {
                return Err(absent("a process did not enter its network namespace: try again"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(space)
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// Whether the holder is in a namespace of its own already.
    fn is_apart(&self) -> bool {
        let here = fs::read_link("/proc/self/ns/net");
        fs::read_link(self.path()).is_ok_and(|there| here.is_ok_and(|here| here != there))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    fn ip(&self, words: &[&str]) -> Result<()> {
        let next = "veth pairs need the kernel's module `veth`";
        run(self.command("ip").args(words), "ip", "iproute2", next).map_err(absent)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Runs a short program to its end; the error is one line. `next` is what to do if it fails.
fn run(command: &mut Command, program: &str, package: &str, next: &str) -> std::result::Result<(), String> {
    // It is short: Ctrl-C ends the caller behind it.
    let output = command.stdin(Stdio::null()).process_group(0).output();
    let output = output
        .map_err(|error| format!("`{program}` cannot be run ({error}): install the package {package}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{program}` has failed ({}): {next}", said.lines().next().unwrap_or("it does not say why")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where they cannot be made, the reason says what is missing.
    #[test]
    fn two_hosts_reach_each_other_and_vanish() {
        let hosts = match Hosts::new() {
            Ok(hosts) => hosts,
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("need root") || said.contains("install the package"), "{said}");
                assert!(!said.contains('\n'), "{said}");
                return println!("skipped: {said}");
            }
        };
        let addresses = |host: usize| {
            let output = hosts.0[host].command("ip").args(["-brief", "address"]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        for (host, address) in ADDRESSES.iter().enumerate() {
            assert!(addresses(host).contains(address), "{}", addresses(host));
        }
        // Ctrl-C, which comes to all of a group, does not take a namespace away from what uses it.
        let group = |pid| rustix::process::getpgid(pid).unwrap();
        let holders =
            hosts.0.iter().map(|space| group(Some(rustix::process::Pid::from_child(&space.holder))));
        assert!(holders.into_iter().all(|holders| holders != group(None)));
        let paths = hosts.0.each_ref().map(Namespace::path);
        drop(hosts);
        assert!(paths.iter().all(|path| fs::read_link(path).is_err()), "a holder is still there");
    }

    #[test]
    fn each_rail_has_a_range_of_its_own() {
        assert_eq!([address(0, 0), address(1, 0)], ADDRESSES);
        assert_eq!([address(0, 1), address(1, 1)], ["10.80.0.1", "10.80.0.2"]);
    }

    #[test]
    fn a_program_that_is_missing_or_fails_is_named_in_one_line() {
        let said = run(&mut Command::new("/nonexistent/ip"), "ip", "iproute2", "").unwrap_err();
        assert!(
            said.contains("`ip` cannot be run") && said.contains("install the package iproute2"),
            "{said}"
        );
        let mut failing = Command::new("/bin/sh");
        failing.args(["-c", "echo first >&2; echo second >&2; exit 1"]);
        assert_eq!(
            run(&mut failing, "sh", "dash", "give up").unwrap_err(),
            "`sh` has failed (first): give up"
        );
    }
}
