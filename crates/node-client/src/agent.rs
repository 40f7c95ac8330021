//! A program that runs on another host for this one: the managers of both hosts carry the bytes between them.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use proto::ids::NodeId;
use proto::wire::agent::{AgentEnd, AgentNo};
use proto::wire::program::{Event, Reply, Request};

use crate::blocking::BlockingClient;
use crate::error::{ClientError, Result};
use crate::runtime_dir::ClusterDir;

/// An agent. It is killed when this is dropped.
#[derive(Debug)]
pub struct Agent {
    client: BlockingClient,
    agent: AgentNo,
    stream: UnixStream,
}

impl Agent {
    /// Has the manager of `node`, which is on another host, run an agent, by way of the manager of `via` on
    /// this host. `name` is what is shown of this program there. The two steps may take `limit` each.
    pub fn start(dir: &ClusterDir, via: NodeId, node: NodeId, name: &str, limit: Duration) -> Result<Self> {
        let mut client = BlockingClient::open(dir, via, name, false, limit)?;
        let (reply, descriptors) = client.ask(Request::StartAgent { node }, &[], limit)?;
        match (reply, descriptors.into_iter().next()) {
            (Reply::Agent { agent }, Some(stream)) => Ok(Self { client, agent, stream: stream.into() }),
            _ => Err(ClientError::Protocol {
                node: via,
                what: "a reply to an agent's start that is none".into(),
            }),
        }
    }

    /// Its input and output. Its end is the agent's, or that of the way to it: [`Self::end`] tells.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// How it ended; waits for that, at most `limit`. An error says that nobody knows.
    pub fn end(&mut self, limit: Duration) -> Result<AgentEnd> {
        let deadline = Instant::now() + limit.min(crate::LONGEST_LIMIT);
        loop {
            match self.client.event("the end of an agent", limit, deadline)? {
                Event::AgentEnded { agent, end } if agent == self.agent => return Ok(end),
                _ => {}
            }
        }
    }
}
