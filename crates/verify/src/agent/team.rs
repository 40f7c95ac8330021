//! The agents of a tool: one for each node on another host.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use node_client::ClientError;
use node_client::agent::Agent;
use node_client::runtime_dir::ClusterDir;
use proto::wire::agent::AgentEnd;
use proto::wire::status::{LinkStatus, SessionState};
use serde::Serialize;
use tieline::NodeId;

use super::lines::{Lines, Look};
use super::{Job, MOST_SAID_BYTES, Order, SCHEMA, Said};
use crate::conntest::Stopped;
use crate::status::session_name;
use crate::target::Target;

/// How long each step may take until an agent is there.
const START_LIMIT: Duration = Duration::from_secs(5);
/// How long one look for a line takes at most.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// How long it is waited for the word of how an agent has ended.
const END_LIMIT: Duration = Duration::from_secs(1);
/// Nodes whose agents are started at the same time: each takes a thread and two descriptors.
const STARTED_AT_ONCE: usize = 64;

/// Why there is no report of an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is no session with its node's manager.
    #[error("the session with its manager is {session}: check it with `tieline status`")]
    NoSession {
        /// How it is.
        session: &'static str,
    },
    /// The managers did not start it.
    #[error("no agent was started there: {0}")]
    NotStarted(#[source] ClientError),
    /// It is of another version.
    #[error("its agent speaks {theirs} and this program {SCHEMA}: install the same tieline on both hosts")]
    Schema {
        /// What it speaks.
        theirs: String,
    },
    /// It does not do the job.
    #[error("its agent refused the job: {why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// It ended before it had reported.
    #[error("its agent ended without a report ({how}): see the log of its manager")]
    Ended {
        /// How.
        how: String,
    },
    /// It says nothing, or does not end.
    #[error("its agent gave no report within {limit_s} s: check its host with `tieline status`")]
    Silent {
        /// How long it was waited for, in seconds.
        limit_s: u64,
    },
    /// What it says cannot be understood.
    #[error("its agent sent an invalid message ({what}): install the same tieline on both hosts")]
    Malformed {
        /// What is wrong.
        what: String,
    },
}

/// A node on another host.
#[derive(Debug, Clone)]
pub struct Elsewhere {
    /// The node.
    pub node: NodeId,
    /// Its host's name.
    pub host: String,
    /// The node of this host whose manager reaches it.
    via: NodeId,
    session: SessionState,
}

/// The nodes of other hosts that the managers of a target's nodes know, ascending. Those that were stopped in
/// order or whose certificates were revoked are not of the cluster now.
pub fn nodes_elsewhere(dir: &ClusterDir, target: &Target) -> Vec<Elsewhere> {
    let links = |via: NodeId| Some((via, node::cluster::status(dir, via).ok()?.links));
    let all: Vec<_> = target.on_each_node(links).into_iter().flatten().collect();
    elsewhere_among(all.iter().map(|(via, links)| (*via, links.as_slice())))
}

/// The same among links that are known, each with the node that says it.
pub(crate) fn elsewhere_among<'l>(links: impl Iterator<Item = (NodeId, &'l [LinkStatus])>) -> Vec<Elsewhere> {
    let mut known: Vec<Elsewhere> = Vec::new();
    for (via, links) in links {
        for link in links.iter().filter(|link| is_of_the_cluster(link)) {
            let (node, host) = (link.peer, link.peer_host.clone());
            let one = Elsewhere { node, host, via, session: link.session };
            match known.iter_mut().find(|known| known.node == one.node) {
                Some(known) if known.session != SessionState::Valid => *known = one,
                Some(_) => {}
                None => known.push(one),
            }
        }
    }
    known.sort_unstable_by_key(|one| one.node);
    known
}

/// The nodes of this host and of others that were stopped in order, as the managers of a target's nodes know,
/// ascending.
pub fn stopped_nodes(dir: &ClusterDir, target: &Target) -> Vec<Stopped> {
    let links = |via: NodeId| Some(node::cluster::status(dir, via).ok()?.links);
    let all = target.on_each_node(links).into_iter().flatten().flatten();
    let mut stopped: Vec<Stopped> = all
        .filter(|link| link.session == SessionState::Stopped)
        .map(|link| Stopped { node: link.peer, host: link.other_host.then_some(link.peer_host) })
        .collect();
    stopped.sort_unstable_by_key(|one| one.node);
    stopped.dedup_by_key(|one| one.node);
    stopped
}

#[cfg(test)]
impl Elsewhere {
    /// With a valid session, for tests.
    pub(crate) fn on(node: NodeId, host: &str) -> Self {
        Self { node, host: host.to_owned(), via: node, session: SessionState::Valid }
    }
}

fn is_of_the_cluster(link: &LinkStatus) -> bool {
    link.other_host && !matches!(link.session, SessionState::Stopped | SessionState::Revoked)
}

/// An agent that has said that it is there.
#[derive(Debug)]
pub(crate) struct Started {
    /// Absent: it is a thread of this program.
    agent: Option<Agent>,
    lines: Lines<UnixStream>,
}

/// Starts one at each node, at the same time. `name` is what is shown of this program there.
pub(crate) fn start_all(
    dir: &ClusterDir,
    nodes: Vec<Elsewhere>,
    name: &str,
) -> Vec<(Elsewhere, Result<Started, AgentError>)> {
    let target = |nodes: &[Elsewhere]| Target {
        runtime_dir: None,
        cluster: None,
        nodes: nodes.iter().map(|one| one.node).collect(),
    };
    let start = |node: NodeId| {
        let one = nodes.iter().find(|one| one.node == node)?;
        Some((one.clone(), Started::new(dir, one, name)))
    };
    target(&nodes).on_nodes(STARTED_AT_ONCE, start).into_iter().flatten().collect()
}

impl Started {
    fn new(dir: &ClusterDir, one: &Elsewhere, name: &str) -> Result<Self, AgentError> {
        if one.session != SessionState::Valid {
            return Err(AgentError::NoSession { session: session_name(one.session) });
        }
        let agent =
            Agent::start(dir, one.via, one.node, name, START_LIMIT).map_err(AgentError::NotStarted)?;
        let stream = agent.stream().try_clone().map_err(|error| lost(&error))?;
        stream.set_read_timeout(Some(LOOK)).map_err(|error| lost(&error))?;
        let mut started = Self { agent: Some(agent), lines: Lines::new(stream, MOST_SAID_BYTES) };
        let since = Instant::now();
        let first = loop {
            match started.look()? {
                Some(line) => break line,
                None if since.elapsed() > START_LIMIT => {
                    return Err(AgentError::Silent { limit_s: START_LIMIT.as_secs() });
                }
                None => {}
            }
        };
        check_ready(&first)?;
        Ok(started)
    }

    /// A thread of this program at the other end of a stream, which does one job that it knows already.
    pub(crate) fn here(stream: UnixStream) -> Result<Self, AgentError> {
        stream.set_read_timeout(Some(LOOK)).map_err(|error| lost(&error))?;
        Ok(Self { agent: None, lines: Lines::new(stream, MOST_SAID_BYTES) })
    }

    /// Tells it what to do.
    pub(crate) fn order(&mut self, job: Job) -> Result<(), AgentError> {
        self.send(&Order { schema: SCHEMA.to_owned(), job })
    }

    /// Tells it something else, which its job takes.
    pub(crate) fn send(&mut self, what: &impl Serialize) -> Result<(), AgentError> {
        let mut line =
            serde_json::to_vec(what).map_err(|error| AgentError::Malformed { what: error.to_string() })?;
        line.push(b'\n');
        let mut stream = self.lines.stream();
        // It takes one line at once, unless it has ended.
        stream
            .set_write_timeout(Some(START_LIMIT))
            .and_then(|()| stream.write_all(&line))
            .map_err(|error| lost(&error))
    }

    /// Ends its job early.
    pub(crate) fn end_early(&self) {
        // Where that is not possible it has ended.
        let _ = self.lines.stream().shutdown(Shutdown::Write);
    }

    /// What it has said, after a moment at most.
    pub(crate) fn said(&mut self) -> Result<Option<Said>, AgentError> {
        let Some(line) = self.look()? else { return Ok(None) };
        let said = serde_json::from_slice(&line).and_then(|mut plain| {
            show(&mut plain);
            serde_json::from_value(plain)
        });
        match said {
            Ok(Said::Refused { why }) => Err(AgentError::Refused { why }),
            Ok(said) => Ok(Some(said)),
            Err(error) => Err(AgentError::Malformed { what: shown(&error.to_string()) }),
        }
    }

    fn look(&mut self) -> Result<Option<Vec<u8>>, AgentError> {
        match self.lines.look() {
            Look::Line(line) => Ok(Some(line)),
            Look::Nothing => Ok(None),
            Look::TooLong => {
                Err(AgentError::Malformed { what: format!("a line of more than {MOST_SAID_BYTES} bytes") })
            }
            Look::End => Err(AgentError::Ended { how: self.how_it_ended() }),
        }
    }

    fn how_it_ended(&mut self) -> String {
        let Some(agent) = &mut self.agent else { return "its thread has ended".to_owned() };
        match agent.end(END_LIMIT) {
            Ok(AgentEnd::Exited { status }) => format!("exit status {status}"),
            Ok(AgentEnd::Killed { signal }) => format!("killed by signal {signal}"),
            Ok(AgentEnd::Lost { why }) => why,
            Err(error) => error.to_string(),
        }
    }
}

fn lost(error: &std::io::Error) -> AgentError {
    AgentError::Ended { how: error.to_string() }
}

/// The first line of an agent names the schema that it speaks.
pub(super) fn check_ready(line: &[u8]) -> Result<(), AgentError> {
    let malformed = |what: &str| AgentError::Malformed { what: what.to_owned() };
    let plain: serde_json::Value =
        serde_json::from_slice(line).map_err(|_| malformed("its first line is no JSON"))?;
    match plain.pointer("/ready/schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => Ok(()),
        Some(other) => Err(AgentError::Schema { theirs: shown(&other.chars().take(40).collect::<String>()) }),
        None => Err(malformed("its first line names no schema")),
    }
}

/// Makes all text of another host such that it is shown, and does nothing else.
pub(super) fn show(plain: &mut serde_json::Value) {
    use serde_json::Value;
    match plain {
        Value::String(text) => *text = shown(text),
        Value::Array(all) => all.iter_mut().for_each(show),
        // Names of fields are those that this program knows, or no report.
        Value::Object(fields) => fields.values_mut().for_each(show),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Text of another host as it may go to a terminal: shown, and nothing else.
fn shown(text: &str) -> String {
    text.chars().map(|c| if proto::wire::is_printable(c) { c } else { '?' }).take(MOST_SHOWN).collect()
}

/// The longest text of another host that is shown, in characters.
const MOST_SHOWN: usize = 1000;
