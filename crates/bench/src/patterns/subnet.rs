//! `tieline fabric manage` on a fabric that `tieline fabric serve` simulates, each a process of its
//! own, as users run them: how long it takes until a fabric is up, and until a fault is repaired.
//!
//! Times are taken outside of the manager, where its reports arrive. What it reports is not
//! believed: the fabric is swept afterwards, and the LFTs of all switches are read and checked.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

use ::fabric::{
    sweep::{self, Found},
    tables,
};
use mad::{ibsim::IbsimTransport, windowed::Limits};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use topology::{
    Graph, Kind, PortIx,
    routing::{Tables, check},
};

use super::programs::Room;
use crate::{
    error::{BenchError, Result},
    progress::Waiter,
};

mod loads;
mod opensm;
mod requests;

pub use loads::{Outcome, bring_up, failover, memory, one_link, switch};
pub use opensm::OpenSm;
pub use requests::{Rates, paths};

const WHAT: &str = "a subnet manager";
/// Longest until the server serves.
const START: Duration = Duration::from_secs(60);
/// Longest that one report of a manager is waited for.
const LIMIT: Duration = Duration::from_secs(180);
/// Between two looks whether the measurement is to end.
const LOOK: Duration = Duration::from_millis(100);

/// What is measured of a subnet manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// From the start of the program to its end: all links active.
    BringUp,
    /// A cable of a leaf goes, and comes back.
    OneLink,
    /// All cables of a switch of the top go, and come back.
    Switch,
    /// The master is killed: until the one in standby has taken over.
    Failover {
        /// With short intervals; else with those by default.
        tuned: bool,
    },
    /// The largest resident size of the manager.
    Memory,
    /// Path records per second.
    Paths,
}

fn failed(reason: impl std::fmt::Display) -> BenchError {
    BenchError::Fabric(reason.to_string())
}

/// A program in a process group of its own, which ends with its handle, and the lines that it
/// prints with the times when they came.
struct Process {
    child: Child,
    name: &'static str,
    lines: Receiver<(Instant, String)>,
    complaints: PathBuf,
}

impl Process {
    fn start(mut command: Command, name: &'static str, room: &Room) -> Result<Self> {
        let complaints = room.path().join(format!("{name}-{:?}.err", Instant::now()).replace(' ', ""));
        let file = fs::File::create(&complaints).map_err(BenchError::io(complaints.display().to_string()))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).current_dir(room.path());
        // Ctrl-C reaches only the measurement, which ends the others.
        command.process_group(0);
        let mut child = command.spawn().map_err(BenchError::io(format!("starting {name}")))?;
        let (tell, lines) = channel();
        if let Some(out) = child.stdout.take() {
            // It ends with the program.
            std::thread::spawn(move || {
                let all = BufReader::new(out).lines().map_while(std::result::Result::ok);
                all.take_while(|line| tell.send((Instant::now(), line.clone())).is_ok()).for_each(drop);
            });
        }
        Ok(Self { child, name, lines, complaints })
    }

    /// The next line; `None`: it has closed its output.
    fn next(&self, at_most: Duration, waiter: &Arc<dyn Waiter>) -> Result<Option<(Instant, String)>> {
        let began = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if waiter.stop() => {
                    return Err(BenchError::Stopped { what: WHAT });
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > at_most => {
                    let seconds = at_most.as_secs();
                    return Err(self.failed(&format!("printed nothing for {seconds} s")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn failed(&self, what: &str) -> BenchError {
        let complaint = fs::read_to_string(&self.complaints).unwrap_or_default();
        failed(format!("{} {what}: {}", self.name, complaint.trim().lines().last().unwrap_or("no error")))
    }

    fn kill(&mut self) {
        // It may have ended already; it is reaped only here, so that no other process has its number.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A fabric that is served, and the programs on it.
pub struct Lab {
    program: PathBuf,
    base: String,
    graph: Graph,
    _server: Process,
    control: BufReader<UnixStream>,
    waiter: Arc<dyn Waiter>,
    /// Removed last.
    room: Room,
}

impl Lab {
    /// Serves a fabric that no manager has touched. `program` is `tieline`.
    pub fn start(program: &Path, graph: &Graph, waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let room = Room::new()?;
        let mut net = Vec::new();
        let path = room.path().join("fabric.net");
        topology::write::ibsim(graph, &mut net)
            .and_then(|()| fs::write(&path, net))
            .map_err(BenchError::io(path.display().to_string()))?;
        let base = room.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(["fabric", "serve", "fabric.net", "--bare", "--quiet", "--control", "control"]);
        command.args(["--name", &base]);
        let server = Process::start(command, "tieline fabric serve", &room)?;
        match server.next(START, waiter)? {
            Some((_, line)) if line.starts_with("serving") => {}
            _ => return Err(server.failed("does not serve")),
        }
        let control = room.path().join("control");
        let control = UnixStream::connect(&control).map_err(BenchError::io(control.display().to_string()))?;
        control.set_read_timeout(Some(START)).map_err(BenchError::io("the server's control socket"))?;
        let (program, graph) = (program.to_owned(), graph.clone());
        let waiter = Arc::clone(waiter);
        Ok(Self { program, base, graph, _server: server, control: BufReader::new(control), waiter, room })
    }

    /// A command to the server.
    fn tell(&mut self, line: &str) -> Result<()> {
        let mut answer = String::new();
        let told = self.control.get_mut().write_all(format!("{line}\n").as_bytes());
        told.and_then(|()| self.control.read_line(&mut answer)).map_err(BenchError::io("the server"))?;
        if answer.starts_with("ok") { Ok(()) } else { Err(failed(format!("{line}: {}", answer.trim()))) }
    }

    /// The node of the host of this number; the last, if there are fewer.
    fn host(&self, number: usize) -> &str {
        let mut hosts = self.graph.nodes_of(Kind::Host);
        let host = hosts.nth(number).or_else(|| self.graph.nodes_of(Kind::Host).last());
        host.map_or("", |host| self.graph.name(host))
    }

    /// Starts a manager at a node.
    fn manager(&self, node: &str, more: &[&str]) -> Result<Manager> {
        let mut command = Command::new(&self.program);
        command.args(["fabric", "manage", "--ibsim", &self.base, "--at", node, "--json", "--quiet"]);
        command.args(more);
        let process = Process::start(command, "tieline fabric manage", &self.room)?;
        Ok(Manager { process, waiter: Arc::clone(&self.waiter) })
    }

    fn connect(&self, node: &str) -> Result<IbsimTransport> {
        IbsimTransport::connect(&self.base, node).map_err(failed)
    }

    fn stop(&self) -> impl Fn() -> bool + '_ {
        || self.waiter.stop()
    }

    /// Sweeps the fabric, whose links must be so many, all of them active.
    fn found(&self, links: usize) -> Result<(IbsimTransport, Found)> {
        let mut transport = self.connect(self.host(1))?;
        let options = sweep::Options::default();
        let found = sweep::sweep(&mut transport, &options, &mut |_| (), &self.stop()).map_err(failed)?;
        let active = |port: PortIx| {
            found.port(port).is_some_and(|info| info.state() == mad::values::PortState::ACTIVE)
        };
        let there = found.graph.links().filter(|(a, b)| active(*a) && active(*b)).count();
        if there == links {
            Ok((transport, found))
        } else {
            Err(failed(format!("{there} of {links} links are active after what the manager reported")))
        }
    }

    /// The LFTs of all switches.
    fn tables(&self, transport: &mut IbsimTransport, found: &Found) -> Result<Tables> {
        let read = tables::read(transport, found, Limits::default(), &self.stop()).map_err(failed)?;
        let silent = read.silent.len();
        match read.tables.filter(|_| silent == 0) {
            Some(tables) => Ok(tables),
            None => Err(failed(format!(
                "the LFTs of {silent} switches could not be read: {}",
                read.why_none.unwrap_or_default()
            ))),
        }
    }

    /// Reads the LFTs of a fabric of so many links, and checks them.
    fn checked(&self, links: usize) -> Result<(IbsimTransport, Found, Tables)> {
        let (mut transport, found) = self.found(links)?;
        let tables = self.tables(&mut transport, &found)?;
        let checked = check(&found.graph, &tables);
        if checked.is_good() && checked.pairs > 0 {
            Ok((transport, found, tables))
        } else {
            Err(failed(format!(
                "the LFTs that the switches hold are bad: {} pairs of {} without a route, a credit loop of {} ports",
                checked.lost,
                checked.pairs,
                checked.credit_loop.len()
            )))
        }
    }
}

/// A manager that runs.
struct Manager {
    process: Process,
    waiter: Arc<dyn Waiter>,
}

impl Manager {
    /// Its next report of which this is true, and when it came; others before it are passed over.
    fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<(Instant, Value)> {
        loop {
            let Some((at, line)) = self.process.next(LIMIT, &self.waiter)? else {
                return Err(self.process.failed(&format!("ended before {what}")));
            };
            let value: Value = serde_json::from_str(&line).map_err(|_| failed(format!("{what}: {line}")))?;
            if is_it(&value) {
                return Ok((at, value));
            }
        }
    }

    /// Until it has brought the fabric up.
    fn until_up(&self) -> Result<(Instant, Value)> {
        let (at, up) = self.until("the fabric was up", |line| line["event"] == "brought_up")?;
        is_up(&up).map(|()| (at, up))
    }

    /// Until the fabric has so many links, all active; since when, without what it does afterwards
    /// for the next change.
    fn until_links(&self, links: usize, since: Instant) -> Result<(f64, Value)> {
        let (at, report) = self.until("the fault was repaired", |line| {
            line["event"] == "brought_up" || line["links"] == links && line["active_links"] == links
        })?;
        if report["event"] == "brought_up" {
            return Err(failed(format!("the fabric was swept anew: {}", report["cause"])));
        }
        if report["lost_pairs"] != 0 || report["failed_sets"] != 0 {
            return Err(failed(format!("a fault was not repaired: {report}")));
        }
        let later = report["seconds_after"].as_f64().unwrap_or(0.0);
        Ok((at.duration_since(since).as_secs_f64() - later, report))
    }

    /// Its largest resident size so far, in bytes.
    fn peak(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.process.child.id());
        let text = fs::read_to_string(&path).map_err(BenchError::io(path))?;
        high_water(&text).ok_or_else(|| failed("the kernel does not say the size of the manager"))
    }
}

/// Whether a report says that everything is up.
fn is_up(up: &Value) -> Result<()> {
    let zero = ["failed_sets", "lost_pairs", "credit_loop"].iter().all(|key| up[*key] == 0);
    if zero && up["active_links"] == up["links"] {
        Ok(())
    } else {
        Err(failed(format!("the fabric did not come up: {up}")))
    }
}

/// Bytes, from the kernel's words about a process.
pub(crate) fn high_water(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}

/// The first cable between a leaf and a switch above it.
pub(crate) fn uplink(graph: &Graph) -> Option<PortIx> {
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    graph.links().find(|(a, b)| is_switch(*a) && is_switch(*b)).map(|(a, _)| a)
}

/// Counts the changed entries, and those of them whose route before reaches its end in this graph.
pub(crate) fn unaffected(graph: &Graph, before: &Tables, after: &Tables) -> (usize, usize) {
    let (mut all, mut whole) = (0, 0);
    for change in before.changes(after) {
        all += 1;
        let mut at = change.switch;
        for _ in 0..graph.node_count() {
            let next = before
                .port(at, change.lid)
                .filter(|port| *port != 0)
                .and_then(|port| graph.port(at, port))
                .and_then(|port| graph.peer(port));
            let Some(next) = next else { break };
            at = graph.owner(next);
            if graph.kind(at) != Kind::Switch {
                break;
            }
        }
        let end = before.lids().port(change.lid).map(|port| graph.owner(port));
        whole += usize::from(end == Some(at));
    }
    (all, whole)
}
