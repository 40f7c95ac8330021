//! Waits until every manager has a valid session with every other.

use std::time::{Duration, Instant};

use node_client::{BlockingClient, ClientError};
use proto::ids::NodeId;
use proto::wire::program::Request;
use proto::wire::status::SessionState;

use super::launch::Begun;
use super::{UpOptions, UpProgress, status_of};
use crate::error::{NodeError, Result};
use crate::lock::{is_held, pid_in_file};
use crate::runtime_dir::ClusterDir;

/// Pauses between two rounds of questions; the answers cost the managers time that they need for each other.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How long one manager may take to answer before the others are asked.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// So many questions in a row without an answer, and a manager that ran before counts as hung.
const HUNG_AFTER: u32 = 3;

/// One manager that is not ready yet.
struct Candidate {
    node: NodeId,
    client: Option<BlockingClient>,
    missing: Vec<NodeId>,
    /// It ran before, and so has had time to start.
    ran_before: bool,
    unanswered: u32,
}

pub(super) fn wait(
    options: &UpOptions,
    nodes: &[NodeId],
    begun: &mut Begun<'_>,
    deadline: Instant,
    progress: &mut dyn FnMut(UpProgress),
) -> Result<()> {
    let (dir, limit) = (&options.dir, options.limit);
    let mut waiting: Vec<_> = nodes
        .iter()
        .map(|node| Candidate::new(*node, !begun.children.iter().any(|one| one.node() == *node)))
        .collect();
    let mut pause = FIRST_PAUSE;
    let mut ready = 0;
    loop {
        let mut still = Vec::with_capacity(waiting.len());
        for mut candidate in waiting {
            // Before any manager's end: from a keyboard all get the signal.
            if (options.stop)() {
                return Err(NodeError::Stopped);
            }
            if candidate.is_ready(dir, nodes)? {
                continue;
            }
            if options.nodes.contains(&candidate.node) && candidate.has_ended(dir) {
                super::start(options, begun, candidate.node, progress)?;
                candidate.ran_before = false;
            }
            still.push(candidate);
        }
        waiting = still;
        if nodes.len() - waiting.len() != ready {
            ready = nodes.len() - waiting.len();
            progress(UpProgress::Ready { ready, of: nodes.len() });
        }
        if waiting.is_empty() {
            return Ok(());
        }
        for child in &mut begun.children {
            child.check()?;
        }
        if Instant::now() >= deadline {
            let nodes = waiting.into_iter().map(|candidate| (candidate.node, candidate.missing)).collect();
            return Err(NodeError::NotReady { seconds: limit.as_secs(), nodes, dir: dir.path().into() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Candidate {
    fn new(node: NodeId, ran_before: bool) -> Self {
        Self { node, client: None, missing: Vec::new(), ran_before, unanswered: 0 }
    }

    /// Whether its lock was held at the start of the wait, but not by a manager that runs: the threads of a
    /// killed process hold it until the last of them has ended.
    fn has_ended(&self, dir: &ClusterDir) -> bool {
        self.ran_before && self.client.is_none() && is_held(dir, self.node) == Some(false)
    }

    /// A manager that is only starting has no socket, does not listen yet, or has no time; anything else is
    /// an error.
    fn not_yet(&mut self, dir: &ClusterDir, error: ClientError) -> Result<bool> {
        self.client = None;
        match error {
            ClientError::ManagerGone { .. } => Ok(false),
            ClientError::TimedOut { .. } => {
                self.unanswered += 1;
                if self.ran_before && self.unanswered >= HUNG_AFTER && is_held(dir, self.node) == Some(true) {
                    return Err(NodeError::NotAnswering {
                        node: self.node,
                        pid: pid_in_file(dir, self.node),
                    });
                }
                Ok(false)
            }
            other => Err(other.into()),
        }
    }

    fn is_ready(&mut self, dir: &ClusterDir, nodes: &[NodeId]) -> Result<bool> {
        let client = match &mut self.client {
            Some(client) => client,
            none => match BlockingClient::open(dir, self.node, "tieline up", false, ANSWER_LIMIT) {
                Ok(client) => none.insert(client),
                Err(error) => return self.not_yet(dir, error),
            },
        };
        let status = match status_of(client, Request::Status, ANSWER_LIMIT) {
            Ok(status) => status,
            Err(NodeError::Client(error)) => return self.not_yet(dir, error),
            Err(error) => return Err(error),
        };
        self.unanswered = 0;
        let valid = |node: &NodeId| {
            status.links.iter().any(|link| link.peer == *node && link.session == SessionState::Valid)
        };
        self.missing = nodes.iter().filter(|node| **node != self.node && !valid(node)).copied().collect();
        Ok(self.missing.is_empty())
    }
}
