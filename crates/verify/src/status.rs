//! The services of a cluster: which node managers run, and whether each sees all the others.

mod far;
mod misled;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use node::NodeError;
use node_client::ClientError;
use node_client::runtime_dir::ClusterDir;
use proto::wire::status::{LinkStatus, NodeStatus, SessionState};
use serde::{Deserialize, Serialize};
use tieline::NodeId;
use tieline::names::adapter_on;

use crate::Target;
use crate::capacity::is_own_lack;
use crate::verdict::Verdict;

pub(crate) use far::collect_settled_on;
pub use far::{FarNode, Hosts, via};
pub(crate) use misled::{Misled, misled};

/// One node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// The status from its manager, if it responds.
    pub status: Option<NodeStatus>,
    /// Why it does not.
    pub error: Option<String>,
    /// How its manager is.
    pub manager: ManagerState,
    /// Its services.
    pub services: Vec<Service>,
    /// Where its manager's log is, if it was started in the background.
    pub log: Option<PathBuf>,
}

/// How a node's manager is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManagerState {
    /// It answers.
    Running,
    /// Its process is there, and gave no answer in time.
    NotResponding,
    /// Its process is not there: it crashed or was killed.
    NotRunning,
    /// It could not be asked, so that nothing is known of it.
    Unknown,
}

impl ManagerState {
    const fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::NotResponding => "not responding",
            Self::NotRunning => "not running",
            Self::Unknown => "unknown",
        }
    }

    const fn of(error: &NodeError) -> Self {
        match error {
            NodeError::Client(ClientError::TimedOut { .. }) => Self::NotResponding,
            NodeError::Client(
                ClientError::ManagerGone { .. }
                | ClientError::NoManager { .. }
                | ClientError::NoSuchNode { .. },
            ) => Self::NotRunning,
            _ => Self::Unknown,
        }
    }
}

/// One service of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// `node manager`, `adapter 0 (shm)`, `segment service`.
    pub name: String,
    /// The state of the service.
    pub state: ServiceState,
    /// What it does, or why it does not.
    pub detail: String,
}

/// How a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceState {
    /// It serves.
    Running,
    /// It does not.
    Stopped,
}

/// All nodes of a cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClusterReport {
    /// By node.
    pub nodes: Vec<NodeReport>,
    /// Nodes of other hosts, where these were asked, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_hosts: Vec<FarNode>,
    /// All run, each has a valid session with each other, and each link is up and leads where it should.
    pub verdict: Verdict,
    /// What is not as it should be; each line names the thing and the next step.
    pub problems: Vec<String>,
}

/// Asks every node's manager, all at the same time: one that hangs holds up only itself. An error is a lack
/// of this process's own (descriptors, memory); whatever is wrong with the nodes is in the report.
pub fn collect(target: &Target) -> Result<ClusterReport, NodeError> {
    let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref())?;
    let nodes = target.on_each_node(|node| ask(&dir, node));
    let nodes = target.nodes.iter().zip(nodes).map(|(node, report)| match report {
        // Alone it may have enough.
        Err(_) => ask(&dir, *node),
        fine => fine,
    });
    let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let misled =
        misled(target, nodes.iter().filter_map(|node| node.status.as_ref()).flat_map(|status| &status.links));
    for report in nodes.iter_mut().filter(|_| !misled.is_empty()) {
        if let Some(status) = &report.status {
            report.services = services(status, &misled);
        }
    }
    // One node alone is judged by its links to all that run here.
    let mut expected: Vec<NodeId> =
        node::cluster::list_nodes(&dir)?.into_iter().map(|entry| entry.node).collect();
    expected.extend(&target.nodes);
    expected.sort_unstable();
    expected.dedup();
    let mut problems = problems(&expected, &nodes);
    problems
        .extend(misled.iter().map(|Misled { end, peer, partner }| leads_elsewhere(*end, *peer, *partner)));
    let verdict = if problems.is_empty() && !nodes.is_empty() { Verdict::Pass } else { Verdict::Fail };
    Ok(ClusterReport { nodes, other_hosts: Vec::new(), verdict, problems })
}

/// As [`collect`], and asks the managers of other hosts, too, by way of those of this host. Of one that does
/// not answer at once, what is known without it is in the report.
pub fn collect_all_hosts(target: &Target) -> Result<ClusterReport, NodeError> {
    far::add(collect(target)?, target, far::Patience::Little)
}

/// A session that was lost longer ago than that is not waited for.
const LOST_LATELY: Duration = Duration::from_secs(10);
/// How long lost sessions get to come back: on a machine that is busy with other work managers may miss each
/// other's heartbeats, and they try again at once.
const COMES_BACK: Duration = Duration::from_secs(5);
/// Time between two checks.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// As [`collect`]; where nothing is wrong but sessions that were lost a moment ago, these get some seconds to
/// come back, unless `stop` asks for an end.
pub(crate) fn collect_settled(target: &Target, stop: &dyn Fn() -> bool) -> Result<ClusterReport, NodeError> {
    let until = Instant::now() + COMES_BACK;
    loop {
        let report = collect(target)?;
        if !report.may_come_back() || stop() || Instant::now() >= until {
            return Ok(report);
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

/// Whether all that is wrong with a link is that its session, with a manager that answers, was lost a moment
/// ago.
fn was_lost_lately(link: &LinkStatus, answering: &[NodeId]) -> bool {
    matches!(link.session, SessionState::Lost | SessionState::Connecting)
        && u128::from(link.since_ns) < LOST_LATELY.as_nanos()
        && !link.taken_down
        && link.partner == link.peer
        && answering.contains(&link.peer)
}

/// Whether some of these links carry nothing, and each of them may come back.
fn may_come_back<'l>(links: impl Iterator<Item = &'l LinkStatus>, answering: &[NodeId]) -> bool {
    let mut broken = links.filter(|link| !carries(link) && !is_revoked(link)).peekable();
    broken.peek().is_some() && broken.all(|link| was_lost_lately(link, answering))
}

fn ask(dir: &ClusterDir, node: NodeId) -> Result<NodeReport, NodeError> {
    let log = Some(dir.log_file(node)).filter(|log| log.is_file());
    match node::cluster::status(dir, node) {
        Ok(status) => {
            let (services, manager) = (services(&status, &[]), ManagerState::Running);
            Ok(NodeReport { node, services, status: Some(status), error: None, manager, log })
        }
        Err(NodeError::Client(error)) if is_own_lack(&error) => Err(error.into()),
        Err(error) => {
            let why = why_no_answer(&error);
            let manager = ManagerState::of(&error);
            let service =
                Service { name: "node manager".into(), state: ServiceState::Stopped, detail: why.clone() };
            Ok(NodeReport { node, status: None, error: Some(why), manager, services: vec![service], log })
        }
    }
}

/// In words that do not send the reader to `tieline status`, whose report this is.
fn why_no_answer(error: &NodeError) -> String {
    match error {
        NodeError::Client(ClientError::TimedOut { what, limit, .. }) => {
            format!("no response to {what} within {} ms: it is stopped or overloaded", limit.as_millis())
        }
        // What follows from it for attached programs is not the question here, and the next step is the
        // report's to say.
        NodeError::Client(ClientError::ManagerGone { why, .. }) => format!("it has ended ({why})"),
        other => other.to_string(),
    }
}

/// The nodes on a host, or with an adapter of that name (`<host>_a0`), ascending, as the node managers know
/// it.
pub fn nodes_on_host(target: &Target, host: &str) -> tieline::Result<Vec<NodeId>> {
    let mut nodes = Vec::new();
    let mut error = None;
    for report in
        target.on_each_node(|node| target.attach(node, "tieline-query").and_then(|node| node.status()))
    {
        match report {
            Ok(status) => {
                let adapters = || status.info.adapters.iter().map(|adapter| adapter.number);
                let is_there = |known: &str| adapter_on(known, adapters(), host).is_some();
                nodes.extend(is_there(&status.info.host).then_some(status.info.node));
                let there = status.links.iter().filter(|link| is_there(&link.peer_host));
                nodes.extend(there.map(|link| link.peer));
            }
            Err(failed) => error = Some(failed),
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    match error {
        Some(error) if nodes.is_empty() => Err(error),
        _ => Ok(nodes),
    }
}

fn services(status: &NodeStatus, misled: &[Misled]) -> Vec<Service> {
    let running = |name: String, detail: String| Service { name, state: ServiceState::Running, detail };
    let mut services = vec![running(
        "node manager".into(),
        format!("pid {}, tieline {}", status.info.manager_pid, status.info.version),
    )];
    for adapter in &status.info.adapters {
        let leads_here =
            |link: &&LinkStatus| !misled.iter().any(|one| one.is_between(status.info.node, link.peer));
        let here = || status.links.iter().filter(|link| !link.other_host);
        let up = here().filter(|link| carries(link)).filter(leads_here).count();
        let name = format!("adapter {} ({})", adapter.number, adapter.kind);
        services.push(running(name, format!("{up} of {} links up", here().count())));
    }
    services.extend(far::summary(status).map(|detail| running("other hosts".into(), detail)));
    let (segments, interrupts) = (status.segments_total, status.interrupts_total);
    let shared: Vec<_> = status.segments.iter().filter(|segment| segment.shared).collect();
    let shared = if shared.is_empty() {
        String::new()
    } else {
        let attached: u32 = shared.iter().map(|segment| segment.attached).sum();
        format!(" ({} shared, {attached} attached to)", shared.len())
    };
    let detail = format!("{segments} segments{shared}, {interrupts} interrupts");
    services.push(running("segment service".into(), detail));
    services
}

/// What is sent over it arrives at the node that is meant: there is a session, it is not taken down and leads
/// nowhere else.
pub(crate) fn carries(link: &LinkStatus) -> bool {
    link.session == SessionState::Valid && !link.taken_down && link.partner == link.peer
}

/// There is to be no session: the other node is not one of the cluster any more.
fn is_revoked(link: &LinkStatus) -> bool {
    link.session == SessionState::Revoked
}

/// What is wrong with a link as its end at `node` sees it.
fn problem_of(node: NodeId, link: &LinkStatus) -> Option<String> {
    let LinkStatus { peer, partner, .. } = link;
    if is_revoked(link) {
        return None;
    }
    if link.session != SessionState::Valid {
        let state = session_name(link.session);
        let why = link.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let host = &link.peer_host;
        let next = match link.session {
            SessionState::Stopped if link.other_host => {
                format!(
                    ": start it with `tieline node start --node {peer}` on {host}, or let it leave there with `tieline cluster leave`"
                )
            }
            SessionState::Lost if link.other_host && !host.is_empty() => {
                format!(": check the network to {host}, and run `tieline status` there")
            }
            _ => String::new(),
        };
        return Some(format!("node {node}: session with node {peer} is {state}{why}{next}"));
    }
    if link.taken_down {
        let [a, b] = [node.min(*peer), node.max(*peer)];
        return Some(format!("link {a}-{b} was taken down: `tieline link up {a} {b}` brings it up"));
    }
    (partner != peer).then(|| leads_elsewhere(node, *peer, *partner))
}

fn leads_elsewhere(node: NodeId, peer: NodeId, partner: NodeId) -> String {
    format!(
        "node {node}: its link to node {peer} leads to node {partner}: `tieline cable` says which cables to exchange"
    )
}

fn problems(expected: &[NodeId], nodes: &[NodeReport]) -> Vec<String> {
    // The cause before what follows from it: others have lost their sessions with the one that does not
    // respond.
    let silent = nodes.iter().filter(|report| report.status.is_none());
    let mut problems: Vec<String> = silent
        .map(|report| {
            let why = report.error.as_deref().unwrap_or("no response");
            let log =
                report.log.as_ref().map(|log| format!("; its log: {}", log.display())).unwrap_or_default();
            let ended = why.strip_prefix("it has ended (").and_then(|rest| rest.strip_suffix(')'));
            if let Some(why) = ended.filter(|_| report.manager == ManagerState::NotRunning) {
                let node = report.node;
                return format!(
                    "node {node}: its manager has ended ({why}): start it with `tieline node start --node {node}`{log}"
                );
            }
            // Another error, such as a lack of rights, says itself what to do.
            let next = match report.manager {
                ManagerState::NotResponding | ManagerState::NotRunning if !why.contains("`tieline ") => {
                    format!(": restart it with `tieline node restart --node {}`", report.node)
                }
                _ => String::new(),
            };
            format!("node {}: its manager does not respond: {why}{next}{log}", report.node)
        })
        .collect();
    for report in nodes {
        let Some(status) = &report.status else { continue };
        let is_far = |node: NodeId| far::links(status).any(|link| link.peer == node);
        for other in expected.iter().filter(|other| **other != report.node && !is_far(**other)) {
            let problem = match status.links.iter().find(|link| link.peer == *other) {
                Some(link) => problem_of(report.node, link),
                None => Some(format!("node {} has never seen node {other}", report.node)),
            };
            // Both ends say the same of a link that was taken down.
            problems.extend(problem.filter(|problem| !problems.contains(problem)));
        }
        problems.extend(far::links(status).filter_map(|link| problem_of(report.node, link)));
    }
    problems
}

/// A line of the table: a node whose manager answers.
fn row(
    text: &mut String,
    status: &NodeStatus,
    peers: usize,
    programs: u64,
    host: Option<&str>,
) -> std::fmt::Result {
    let valid = status.links.iter().filter(|link| link.session == SessionState::Valid).count();
    write!(
        text,
        "{:>6}  {:<14} {:>8} {:>9} {programs:>9} {:>9} {:>11} {:>7.1} s",
        status.info.node.get(),
        ManagerState::Running.text(),
        status.info.manager_pid,
        format!("{valid}/{peers}"),
        status.segments_total,
        status.interrupts_total,
        status.uptime_ns as f64 / 1e9,
    )?;
    writeln!(text, "{}{}", if host.is_some() { "  " } else { "" }, host.unwrap_or_default())
}

/// As people read it.
pub const fn session_name(state: SessionState) -> &'static str {
    match state {
        SessionState::Connecting => "connecting",
        SessionState::Valid => "valid",
        SessionState::Lost => "lost",
        SessionState::Refused => "refused",
        SessionState::Stopped => "stopped",
        SessionState::Revoked => "revoked",
    }
}

impl ClusterReport {
    /// Every manager answers, and links that carry nothing may come back.
    fn may_come_back(&self) -> bool {
        let links =
            self.nodes.iter().filter_map(|node| node.status.as_ref()).flat_map(|status| &status.links);
        self.silent().is_empty() && may_come_back(links, &self.answering())
    }

    /// Nodes whose managers answered.
    pub fn answering(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|report| report.status.is_some()).map(|report| report.node).collect()
    }

    /// The links of the nodes of this host, by node.
    pub(crate) fn links_here(&self) -> impl Iterator<Item = (NodeId, &[LinkStatus])> {
        self.nodes.iter().filter_map(|report| Some((report.node, report.status.as_ref()?.links.as_slice())))
    }

    /// Nodes whose managers did not.
    pub fn silent(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|report| report.status.is_none()).map(|report| report.node).collect()
    }

    /// A table, then what is wrong.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let host = if self.other_hosts.is_empty() { "" } else { "  host" };
        let _ = writeln!(
            text,
            "{:>6}  {:<14} {:>8} {:>9} {:>9} {:>9} {:>11} {:>9}{host}",
            "node", "manager", "pid", "sessions", "programs", "segments", "interrupts", "uptime"
        );
        for report in &self.nodes {
            let _ = match &report.status {
                Some(status) => {
                    let far = far::links(status).filter(|link| !is_revoked(link)).count();
                    let peers = self.nodes.len().saturating_sub(1) + far;
                    let programs = status.programs_total.saturating_sub(1);
                    let host = (!self.other_hosts.is_empty()).then_some(status.info.host.as_str());
                    row(&mut text, status, peers, programs, host)
                }
                None => writeln!(text, "{:>6}  {}", report.node.get(), report.manager.text()),
            };
        }
        for far in &self.other_hosts {
            far.write_row(&mut text);
        }
        far::write(
            &mut text,
            self.nodes.iter().filter_map(|report| report.status.as_ref()),
            &self.other_hosts,
        );
        self.write_problems(&mut text);
        text
    }

    fn write_problems(&self, text: &mut String) {
        for problem in &self.problems {
            let _ = writeln!(text, "problem: {problem}");
        }
    }

    /// The services of each node.
    pub fn render_services(&self) -> String {
        let mut text = String::new();
        for report in &self.nodes {
            for service in &report.services {
                let state = match service.state {
                    ServiceState::Running => "running",
                    // The only service of a node whose manager does not respond is that manager.
                    ServiceState::Stopped => report.manager.text(),
                };
                let _ = writeln!(
                    text,
                    "node {:<5} {:<18} {state:<14} {}",
                    report.node, service.name, service.detail
                );
            }
            if let Some(log) = &report.log {
                let _ = writeln!(text, "node {:<5} {:<18} {:<14} {}", report.node, "log", "", log.display());
            }
        }
        self.write_problems(&mut text);
        text
    }
}

#[cfg(test)]
mod tests;
