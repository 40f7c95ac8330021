//! The process that holds the hosts: first process of a namespace in which all of theirs are, and owner of
//! their bridge.
//!
//! When it ends, however that happens, the kernel kills all of them, and with the last process of a namespace
//! goes the namespace. So nothing has to be found and taken away afterwards but three files.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use node_client::runtime_dir::{ClusterDir, ClusterName};
use proto::ids::NodeId;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use shm::process::{Namespaces, unshare};
use signal_hook::consts::{SIGCHLD, SIGTERM};
use signal_hook::iterator::Signals;

use crate::delay::Delay;
use crate::error::{NamespacesError, Result};
use crate::loss::Loss;
use crate::plan::{self, Range};
use crate::process::{Identity, own_pids};
use crate::rate::Rate;
use crate::state::{self, HubLock, Lab};
use crate::words::{Order, Said};
use crate::{forwarder, host, ip, line, words};

/// Written by `up` when all is well: the hosts stay.
pub(crate) const KEEP: &str = "keep";
/// How long hosts may take to end in an orderly way; longer than their managers may.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// What the hub is started with, and each host by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Of the cluster on this machine.
    pub(crate) dir: ClusterDir,
    pub(crate) count: usize,
    /// Of each rail.
    pub(crate) rails: Vec<Range>,
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Delay>,
    pub(crate) loss: Option<Loss>,
    pub(crate) faults: bool,
    pub(crate) config: Option<PathBuf>,
}

impl Arguments {
    /// For the start of that process, whose words begin with these.
    pub(crate) fn words(&self, first: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        let config = self.config.clone().unwrap_or_default();
        let rate = self.rate.map(|rate| rate.to_string()).unwrap_or_default();
        let delay = self.delay.map(|delay| delay.to_string()).unwrap_or_default();
        let loss = self.loss.map(|loss| loss.to_string()).unwrap_or_default();
        let faults = if self.faults { "faults" } else { "" };
        let place = [self.dir.root().into(), self.dir.cluster().as_str().into()];
        let rails: Vec<_> = self.rails.iter().map(|range| range.0.to_string()).collect();
        let numbers = [self.count.to_string().into(), rails.join(",").into()];
        first
            .into_iter()
            .chain(place)
            .chain(numbers)
            .chain([rate.into(), delay.into(), loss.into(), faults.into(), config.into()])
            .collect()
    }

    /// By which the others know the `index`-th host.
    pub(crate) fn address(&self, index: usize) -> Ipv4Addr {
        self.rails.first().map_or(Ipv4Addr::UNSPECIFIED, |range| range.address(index))
    }

    pub(crate) fn of(words: &[OsString]) -> Option<Self> {
        let [root, cluster, count, rails, rate, delay, loss, faults, config] = words else { return None };
        let rails = rails.to_str()?.split(',').map(|range| range.parse().ok().map(Range));
        Some(Self {
            dir: ClusterDir::new(root.into(), ClusterName::new(cluster.to_str()?).ok()?),
            count: count.to_str()?.parse().ok()?,
            rails: rails.collect::<Option<_>>()?,
            rate: words::optional(rate)?,
            delay: words::optional(delay)?,
            loss: words::optional(loss)?,
            faults: !faults.is_empty(),
            config: Some(config).filter(|path| !path.is_empty()).map(PathBuf::from),
        })
    }
}

/// The hosts, once they are up.
type Up = Arc<Mutex<Option<Vec<Started>>>>;

/// This process is the hub: its exit status, if it does not come so far that it runs for good.
pub(crate) fn run(words: &[OsString]) -> u8 {
    let Some(arguments) = Arguments::of(words) else { return 2 };
    node::cluster::detach();
    let lock = match HubLock::take(&arguments.dir) {
        Ok(Some(lock)) => lock,
        Ok(None) => {
            let pid = state::hub(&arguments.dir).map(|hub| hub.pid).unwrap_or_default();
            let cluster = arguments.dir.cluster().clone();
            say(&Said::Failed(NamespacesError::InUse { cluster, pid }.to_string()));
            return 1;
        }
        Err(error) => {
            say(&Said::Failed(error.to_string()));
            return 1;
        }
    };
    let up = Up::default();
    // Before the first namespace: a thread can only be made where its process is.
    let built = watch(&arguments.dir, &up).and_then(|()| build(&arguments));
    match built {
        Ok(hosts) => {
            *up.lock().unwrap_or_else(PoisonError::into_inner) = Some(hosts);
            say(&Said::Done);
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            say(&Said::Failed(error.to_string()));
            state::remove(&arguments.dir);
            drop(lock);
            1
        }
    }
}

fn say(said: &Said) {
    // If nobody listens any more, the end of the other pipe says what to do.
    let _ = writeln!(std::io::stdout(), "{said}");
}

/// Two threads: one ends this process if `up` ends before all is well, the other when it is told to end.
fn watch(dir: &ClusterDir, up: &Up) -> Result<()> {
    let failed = || NamespacesError::io("start", "a thread of the hub");
    let lease = dir.clone();
    let holds = move || {
        if line::next(std::io::stdin()).as_deref() != Some(KEEP) {
            end(&lease, 1);
        }
    };
    std::thread::Builder::new().name("lease".into()).spawn(holds).map_err(failed())?;
    let mut signals = Signals::new([SIGTERM, SIGCHLD]).map_err(failed())?;
    let (dir, up) = (dir.clone(), Arc::clone(up));
    let listens = move || {
        for signal in signals.forever() {
            let mut hosts = up.lock().unwrap_or_else(PoisonError::into_inner);
            if signal == SIGTERM {
                hosts.as_mut().into_iter().for_each(|hosts| stop(hosts));
                end(&dir, 0);
            }
            // A host whose first process was killed is gone; the others stay.
            hosts.iter_mut().flatten().for_each(|host| drop(host.child.try_wait()));
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listens).map_err(failed())?;
    Ok(())
}

/// Nothing is left, and all that runs in the hosts ends.
fn end(dir: &ClusterDir, status: i32) -> ! {
    state::remove(dir);
    std::process::exit(status)
}

fn stop(hosts: &mut [Started]) {
    for host in hosts.iter_mut() {
        // One that is gone needs no word.
        let _ = writeln!(host.orders, "{}", Order::Stop);
    }
    let until = Instant::now() + STOP_LIMIT;
    let runs = |host: &mut Started| matches!(host.child.try_wait(), Ok(None));
    while hosts.iter_mut().any(runs) && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

/// A host that was started.
#[derive(Debug)]
struct Started {
    name: String,
    child: Child,
    orders: ChildStdin,
    said: ChildStdout,
}

impl Started {
    fn order(&mut self, order: &Order) {
        // If it is gone, its answer says so.
        let _ = writeln!(self.orders, "{order}");
    }

    fn answer(&mut self) -> Result<Said> {
        let failed = |text: &str| Err(NamespacesError::Said(format!("{}: {text}", self.name)));
        match line::next(&self.said).map(|line| line.parse()) {
            Some(Ok(Said::Failed(text))) => failed(&text),
            Some(Ok(said)) => Ok(said),
            Some(Err(text)) => failed(&text),
            None => {
                failed("it ended while it was started: it may have been killed for lack of memory (`dmesg`)")
            }
        }
    }
}

fn build(arguments: &Arguments) -> Result<Vec<Started>> {
    let nodes = plan::nodes(arguments.count)?;
    let back = own_pids().map_err(NamespacesError::io("open", "/proc/self/ns/pid"))?;
    unshare(Namespaces::Network)
        .map_err(|source| NamespacesError::Namespace { what: "a network namespace", source })?;
    let rails = arguments.rails.len();
    let has_bridges = arguments.delay.is_none() && arguments.loss.is_none();
    ip::bridges(if has_bridges { rails } else { 0 })?;
    let mut hosts = Vec::with_capacity(arguments.count);
    for index in 0..arguments.count {
        hosts.push(start(arguments, index, &back)?);
    }
    let mut lab = Lab { host: Vec::with_capacity(arguments.count) };
    for (index, (host, node)) in hosts.iter_mut().zip(&nodes).enumerate() {
        let process = process_of(host.answer()?)?;
        let addresses = arguments.rails.iter().map(|range| range.address(index)).collect();
        lab.host.push(state::Host { name: host.name.clone(), addresses, node: *node, process });
    }
    say(&Said::Started(hosts.len()));
    let names: Vec<_> = hosts.iter().map(|host| (host.name.clone(), host.child.id())).collect();
    for rail in 0..rails {
        ip::connect(&names, rail, has_bridges)?;
        if let Some(rate) = arguments.rate {
            // What a host receives.
            ip::limit(names.iter().map(|(host, _)| ip::on_rail(host, rail)), rate)?;
        }
        if !has_bridges {
            let Arguments { count, delay, loss, .. } = *arguments;
            // It runs for as long as this process does.
            drop(forwarder::start(forwarder::Arguments { rail, count, delay, loss })?);
        }
    }
    hosts.iter_mut().for_each(|host| host.order(&Order::Address));
    hosts.iter_mut().try_for_each(|host| host.answer().map(drop))?;
    state::write(&arguments.dir, &lab)?;
    join(&mut hosts, &lab)?;
    connect(&mut hosts, &nodes)?;
    Ok(hosts)
}

fn process_of(said: Said) -> Result<Identity> {
    match said {
        Said::Process(identity) => Ok(identity),
        other => Err(NamespacesError::Said(format!("a host says `{other}` in place of its process"))),
    }
}

/// Starts the first process of a host, in a namespace of processes below this one's.
fn start(arguments: &Arguments, index: usize, back: &File) -> Result<Started> {
    let no_pids = |source| NamespacesError::Namespace { what: "a namespace of processes", source };
    let words = host::Arguments { index, all: arguments.clone() }.words();
    let program = std::env::current_exe().map_err(NamespacesError::io("read", "/proc/self/exe"))?;
    let mut command = Command::new(&program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    host::environment(&mut command);
    unshare(Namespaces::ProcessesOfChildren).map_err(no_pids)?;
    let spawned = command.spawn();
    // What is started next is this process's own again.
    move_into_link_name_space(back.as_fd(), Some(LinkNameSpaceType::ProcessID)).map_err(no_pids)?;
    let mut child = spawned.map_err(NamespacesError::io("run", program))?;
    let (Some(orders), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(NamespacesError::Said("a host has no pipes".into()));
    };
    Ok(Started { name: plan::name(index), child, orders, said })
}

/// Makes the cluster on the first host, and lets the others join.
fn join(hosts: &mut [Started], lab: &Lab) -> Result<()> {
    let (Some((first, others)), Some((of_first, of_others))) =
        (hosts.split_first_mut(), lab.host.split_first())
    else {
        return Ok(());
    };
    first.order(&Order::Found(of_first.node));
    first.answer()?;
    for (host, of) in others.iter_mut().zip(of_others) {
        first.order(&Order::Token(of.node));
        let token = match first.answer()? {
            Said::Token(token) => token,
            other => {
                return Err(NamespacesError::Said(format!(
                    "{} says `{other}` in place of a token",
                    first.name
                )));
            }
        };
        host.order(&Order::Join { node: of.node, at: of_first.address(), token });
    }
    others.iter_mut().try_for_each(|host| host.answer().map(drop))
}

/// Waits until all have a session with all.
fn connect(hosts: &mut [Started], nodes: &[NodeId]) -> Result<()> {
    for (host, node) in hosts.iter_mut().zip(nodes) {
        let others = nodes.iter().filter(|other| *other != node).copied().collect();
        host.order(&Order::Wait { node: *node, others });
    }
    for (index, host) in hosts.iter_mut().enumerate() {
        host.answer()?;
        say(&Said::Ready(index + 1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HUB;

    #[test]
    fn the_hub_is_started_with_what_it_is_told() {
        let dir = ClusterDir::new("/run/tieline".into(), ClusterName::new("lab").unwrap());
        let arguments = Arguments {
            dir,
            count: 3,
            rails: vec![Range(78), Range(80)],
            rate: "1gbit".parse().ok(),
            delay: "50us".parse().ok(),
            loss: "0.1%".parse().ok(),
            faults: true,
            config: Some("/etc/x".into()),
        };
        let words = arguments.words([HUB.into()]);
        assert_eq!(Arguments::of(&words[1..]), Some(arguments));
        assert!(Arguments::of(&[]).is_none());
    }
}
