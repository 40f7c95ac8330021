//! Makes a cluster of hosts, or starts the one that they have: the first host of the list makes it, the
//! others join it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterName;
use proto::ids::NodeId;
use shm::sync::plain::{AtomicUsize, Ordering};

use crate::error::{FleetError, Result};
use crate::hosts_file::Line;
use crate::on_host::{NodeAt, OnHost, Shown};
use crate::ssh::Ssh;

/// Hosts that are worked on at a time.
const AT_ONCE: usize = 32;
/// The pauses between two looks at the sessions: each is a login on each host that is waited for.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Of managers, if no other is given (`tieline cluster init --help`).
const DEFAULT_PORT: u16 = 7411;

/// What is to be started.
#[derive(Debug)]
pub struct UpOptions<'a> {
    /// How hosts are reached.
    pub ssh: &'a Ssh,
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// The hosts.
    pub lines: &'a [Line],
    /// How long until all have to be connected, once their managers run.
    pub limit: Duration,
}

impl UpOptions<'_> {
    fn on<'a>(&'a self, line: &'a Line) -> OnHost<'a> {
        OnHost { ssh: self.ssh, host: &line.destination, cluster: self.cluster }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many managers run.
    Running(usize),
    /// So many hosts are connected with all others.
    Connected(usize),
}

/// What became of a host.
#[derive(Debug)]
pub enum HostState {
    /// Its manager was started.
    Started,
    /// Its manager was running.
    AlreadyRunning,
    /// It has no part in the cluster now: why, with what to do.
    Failed(String),
}

/// One host.
#[derive(Debug)]
pub struct HostReport {
    /// As it is in the list.
    pub host: String,
    /// Its node, and where its manager listens.
    pub node: Option<(NodeId, SocketAddr)>,
    /// What became of it.
    pub state: HostState,
    /// It made the cluster or joined it now.
    pub is_new: bool,
    /// Nodes with which it has no session.
    pub missing: Vec<NodeId>,
}

/// What came of it.
#[derive(Debug)]
pub struct UpReport {
    /// The hosts, in their order.
    pub hosts: Vec<HostReport>,
    /// Until all sessions were valid, or time was over.
    pub took: Duration,
}

impl UpReport {
    /// All run, and are connected with all.
    pub fn is_complete(&self) -> bool {
        self.hosts.iter().all(|host| !matches!(host.state, HostState::Failed(_)) && host.missing.is_empty())
    }
}

/// Starts them. A host that fails is in the report; the others wait for it as long as one command may take.
///
/// # Errors
/// There is no ssh, no host can make the cluster, or the caller has stopped it.
pub fn up(options: &UpOptions<'_>, progress: &(dyn Fn(Progress) + Sync)) -> Result<UpReport> {
    let began = Instant::now();
    let lines = options.lines;
    let shown = at_once(lines, |line| options.on(line).show());
    if (options.ssh.stop)() {
        return Err(FleetError::Stopped);
    }
    let first = authority(options, &shown)?;
    // The others ask its manager.
    let head = options.on(&lines[first.index]);
    let was_started = head.start(first.node.node)?;
    let running = AtomicUsize::new(0);
    let numbers: Vec<usize> = (0..lines.len()).collect();
    let outcomes = at_once(&numbers, |&index| -> Result<Running> {
        let (line, host) = (&lines[index], options.on(&lines[index]));
        let (node, is_new) = match &shown[index] {
            _ if index == first.index => (first.node.clone(), first.is_new),
            Err(error) => return Err(again(error)),
            Ok(shown) => match shown.nodes.first() {
                Some(node) => (as_in_the_list(line, node)?, false),
                None => {
                    let at = first.node.address.to_string();
                    (host.join(&at, line.address.as_deref(), &head.token(line.node)?)?, true)
                }
            },
        };
        let is_started = if index == first.index { was_started } else { host.start(node.node)? };
        // Relaxed: it is only shown.
        progress(Progress::Running(running.fetch_add(1, Ordering::Relaxed) + 1));
        Ok(Running { node, is_new, is_started })
    });
    let mut hosts: Vec<HostReport> =
        lines.iter().zip(outcomes).map(|(line, outcome)| report(line, outcome)).collect();
    tell_twins(&mut hosts);
    connect(options, &mut hosts, progress)?;
    Ok(UpReport { hosts, took: began.elapsed() })
}

/// Two hosts that say that they are one node are one host under two names, or one of them is wrong.
fn tell_twins(hosts: &mut [HostReport]) {
    for index in 1..hosts.len() {
        let (before, rest) = hosts.split_at_mut(index);
        let Some(this) = rest.first_mut() else { continue };
        let Some((node, _)) = this.node else { continue };
        let is_twin = |other: &&HostReport| other.node.is_some_and(|(other, _)| other == node);
        if let Some(twin) = before.iter().find(is_twin) {
            this.state = HostState::Failed(format!(
                "it says that it is node {node}, as {} does: is it the same host under another name? Remove one of the \
                 lines",
                twin.host
            ));
            this.node = None;
        }
    }
}

/// A host that has joined is what the list says of it.
fn as_in_the_list(line: &Line, is: &NodeAt) -> Result<NodeAt> {
    let wrong = |why: String| FleetError::OnHost { host: line.destination.clone(), why };
    if let Some(node) = line.node.filter(|node| *node != is.node) {
        return Err(wrong(format!(
            "it is node {} of this cluster, and the list says node={node}: correct the line, or let it leave \
             (`tieline cluster leave`)",
            is.node
        )));
    }
    let same = |text: &String| {
        text.parse() == Ok(is.address)
            || text.parse() == Ok(is.address.ip()) && is.address.port() == DEFAULT_PORT
    };
    if let Some(address) = line.address.as_ref().filter(|address| !same(address)) {
        return Err(wrong(format!(
            "its manager listens at {}, and the list says address={address}: correct the line, or the file \
             node-{}.address there (`tieline cluster show` names its folder)",
            is.address, is.node
        )));
    }
    Ok(is.clone())
}

/// A host whose manager runs.
struct Running {
    node: NodeAt,
    /// It made the cluster or joined it now.
    is_new: bool,
    /// Its manager did not run before.
    is_started: bool,
}

/// The host with the authority's key.
struct Authority {
    index: usize,
    node: NodeAt,
    /// It made the cluster now.
    is_new: bool,
}

fn report(line: &Line, outcome: Result<Running>) -> HostReport {
    let host = line.destination.clone();
    match outcome {
        Ok(Running { node, is_new, is_started }) => HostReport {
            host,
            node: Some((node.node, node.address)),
            state: if is_started { HostState::Started } else { HostState::AlreadyRunning },
            is_new,
            missing: Vec::new(),
        },
        Err(error) => HostReport {
            state: HostState::Failed(reason(&host, &error)),
            host,
            node: None,
            is_new: false,
            missing: Vec::new(),
        },
    }
}

/// Without the host's name, which stands beside it.
fn reason(host: &str, error: &FleetError) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{host}: ")).map_or(text.clone(), str::to_owned)
}

/// An error that is reported twice.
fn again(error: &FleetError) -> FleetError {
    match error {
        FleetError::OnHost { host, why } => FleetError::OnHost { host: host.clone(), why: why.clone() },
        FleetError::Stopped => FleetError::Stopped,
        other => FleetError::OnHost { host: String::new(), why: other.to_string() },
    }
}

/// The first host of the list: it has made the cluster, or makes it now.
fn authority(options: &UpOptions<'_>, shown: &[Result<Shown>]) -> Result<Authority> {
    let lines = options.lines;
    let has = |of: fn(&Shown) -> bool| shown.iter().position(|shown| shown.as_ref().is_ok_and(of));
    if let Ok(Shown { is_authority: true, nodes }) = &shown[0]
        && let Some(node) = nodes.first()
    {
        return Ok(Authority { index: 0, node: as_in_the_list(&lines[0], node)?, is_new: false });
    }
    let host = || lines[0].destination.clone();
    if let Err(error) = &shown[0] {
        return Err(match error {
            FleetError::OnHost { why, .. } => FleetError::First { host: host(), why: why.clone() },
            FleetError::NoSsh { program, source } => {
                FleetError::NoSsh { program: program.clone(), source: std::io::Error::from(source.kind()) }
            }
            other => again(other),
        });
    }
    // It can be any node: a host that only says so of itself does not become it.
    if let Some(other) = has(|shown| shown.is_authority) {
        return Err(FleetError::First {
            host: host(),
            why: format!(
                "{} says that this cluster was made there: if that is so, put it first; else let it leave, or name \
                 another cluster with --cluster",
                lines[other].destination
            ),
        });
    }
    if let Some(member) = has(|shown| !shown.nodes.is_empty()) {
        return Err(FleetError::First {
            host: host(),
            why: format!(
                "{} has joined this cluster already, and the host where it was made is not the first of the list: \
                 put that host first, or name another cluster with --cluster",
                lines[member].destination
            ),
        });
    }
    let address = match &lines[0].address {
        Some(address) => address.clone(),
        None => resolved(&options.ssh.name_of(&lines[0].destination)?)
            .map_err(|why| FleetError::First { host: host(), why })?
            .to_string(),
    };
    let node = options.on(&lines[0]).init(&address, lines[0].node)?;
    Ok(Authority { index: 0, node, is_new: true })
}

/// The address of a host that others can connect to.
fn resolved(name: &str) -> std::result::Result<IpAddr, String> {
    let next = "write address=IP after it";
    let found =
        (name, 0).to_socket_addrs().map_err(|error| format!("`{name}` has no address ({error}): {next}"))?;
    let mut found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    // What most networks have comes first.
    found.sort_by_key(IpAddr::is_ipv6);
    let usable = found.iter().find(|ip| !ip.is_loopback() && !ip.is_unspecified());
    usable.copied().ok_or_else(|| format!("`{name}` leads to no address that other hosts could use: {next}"))
}

/// Waits until all that run have a session with each other.
fn connect(
    options: &UpOptions<'_>,
    hosts: &mut [HostReport],
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<()> {
    let nodes: Vec<NodeId> =
        hosts.iter().filter_map(|host| host.node.as_ref().map(|(node, _)| *node)).collect();
    let (until, mut pause) = (Instant::now() + options.limit, FIRST_PAUSE);
    hosts.iter_mut().filter(|host| host.node.is_some()).for_each(|host| host.missing.clone_from(&nodes));
    loop {
        let waiting: Vec<usize> =
            (0..hosts.len()).filter(|index| !hosts[*index].missing.is_empty()).collect();
        let found = at_once(&waiting, |index| match &hosts[*index].node {
            Some((node, _)) => options.on(&options.lines[*index]).not_connected(*node, &nodes),
            None => Ok(Vec::new()),
        });
        for (index, missing) in waiting.iter().zip(found) {
            hosts[*index].missing = missing?;
        }
        let left = hosts.iter().filter(|host| !host.missing.is_empty()).count();
        progress(Progress::Connected(nodes.len() - left));
        if left == 0 || Instant::now() >= until {
            return Ok(());
        }
        if (options.ssh.stop)() {
            return Err(FleetError::Stopped);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Does something with each, so many at a time; the results in their order.
pub(crate) fn at_once<T: Sync, R: Send>(all: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        // Relaxed: each number is taken once, and nothing else is published with it.
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < all.len())
        {
            done.push((index, one(&all[index])));
        }
        done
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE.min(all.len())).map(|_| scope.spawn(worker)).collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_all_are_done() {
        let all: Vec<u64> = (0..200).collect();
        assert_eq!(
            at_once(&all, |number| number * 2),
            all.iter().map(|number| number * 2).collect::<Vec<_>>()
        );
        assert!(at_once(&[0_u8; 0], |_| ()).is_empty());
    }

    #[test]
    fn an_address_that_only_this_host_reaches_is_refused() {
        assert_eq!(resolved("10.1.2.3").unwrap().to_string(), "10.1.2.3");
        for name in ["127.0.0.1", "::1", "0.0.0.0"] {
            assert!(resolved(name).unwrap_err().contains("write address=IP after it"), "{name}");
        }
    }
}
