//! Runs tieline's own commands on a host, and reads the JSON that they print.

use std::net::SocketAddr;

use node_client::runtime_dir::ClusterName;
use proto::ids::NodeId;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{FleetError, Result};
use crate::ssh::Ssh;

/// No token is longer.
const TOKEN_BYTES_MAX: usize = 1024;

/// A host, and the cluster that is meant on it.
#[derive(Clone, Copy)]
pub(crate) struct OnHost<'a> {
    pub(crate) ssh: &'a Ssh,
    pub(crate) host: &'a str,
    pub(crate) cluster: &'a ClusterName,
}

/// What `tieline cluster show` says.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Shown {
    pub(crate) is_authority: bool,
    pub(crate) nodes: Vec<NodeAt>,
}

/// A node, and where its manager listens.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NodeAt {
    pub(crate) node: NodeId,
    pub(crate) address: SocketAddr,
}

#[derive(Deserialize)]
struct Joined {
    cluster: String,
    #[serde(flatten)]
    node: NodeAt,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

#[derive(Deserialize)]
struct Started {
    outcome: String,
}

#[derive(Deserialize)]
struct Stopped {
    stopped: Vec<NodeId>,
    killed: Vec<NodeId>,
}

impl OnHost<'_> {
    fn ask<T: DeserializeOwned>(&self, words: &[&str], input: &str) -> Result<T> {
        self.read(&[words, &["--cluster", self.cluster.as_str()]].concat(), input, &[0])
    }

    fn read<T: DeserializeOwned>(&self, words: &[&str], input: &str, fine: &[i32]) -> Result<T> {
        let all = [&["tieline"], words, &["--json"]].concat();
        let said = self.ssh.run(self.host, &all, input, fine)?;
        serde_json::from_str(&said).map_err(|error| FleetError::OnHost {
            host: self.host.to_owned(),
            why: format!(
                "the output of `{}` cannot be read ({error}): install the same tieline on all hosts, and let the \
                 shell of `ssh {} COMMAND` print nothing",
                all.join(" "),
                self.host
            ),
        })
    }

    pub(crate) fn show(&self) -> Result<Shown> {
        let shown: Shown = self.ask(&["cluster", "show"], "")?;
        shown.nodes.iter().try_for_each(|node| self.usable(node.clone()).map(drop))?;
        Ok(shown)
    }

    pub(crate) fn init(&self, address: &str, node: Option<NodeId>) -> Result<NodeAt> {
        let node = node.map(|node| node.to_string());
        let mut words = vec!["cluster", "init", "--address", address];
        words.extend(node.iter().flat_map(|node| ["--node", node]));
        self.usable(self.ask(&words, "")?)
    }

    fn wrong(&self, why: &str) -> FleetError {
        FleetError::OnHost { host: self.host.to_owned(), why: why.to_owned() }
    }

    /// A node whose address others can connect to.
    fn usable(&self, node: NodeAt) -> Result<NodeAt> {
        if node.address.ip().is_unspecified() || node.address.port() == 0 {
            return Err(self.wrong(&format!(
                "other hosts cannot connect to {}: write address=IP after it",
                node.address
            )));
        }
        Ok(node)
    }

    pub(crate) fn token(&self, node: Option<NodeId>) -> Result<String> {
        let node = node.map(|node| node.to_string());
        let mut words = vec!["cluster", "token", "--expires", "600s"];
        words.extend(node.iter().flat_map(|node| ["--node", node]));
        let token = self.ask::<Token>(&words, "")?.token;
        // It goes on as a line to another host.
        let is_one = token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_one {
            Ok(token)
        } else {
            Err(self.wrong(
                "`tieline cluster token` printed no token there: install the same tieline on all hosts",
            ))
        }
    }

    /// The token travels on standard input: a command line can be read by all users of the host.
    pub(crate) fn join(&self, at: &str, address: Option<&str>, token: &str) -> Result<NodeAt> {
        let mut words = vec!["cluster", "join", at, "--token", "-"];
        words.extend(address.into_iter().flat_map(|address| ["--address", address]));
        // The token says which cluster.
        let joined: Joined = self.read(&words, &format!("{token}\n"), &[0])?;
        if joined.cluster != self.cluster.as_str() {
            return Err(
                self.wrong("the token was of another cluster, which it has joined now: let it leave that")
            );
        }
        self.usable(joined.node)
    }

    /// Whether it was started; else it was running.
    pub(crate) fn start(&self, node: NodeId) -> Result<bool> {
        let said: Started = self.ask(&["node", "start", "--node", &node.to_string()], "")?;
        Ok(said.outcome == "started")
    }

    /// Nodes to which the manager of `node` has no valid session, of `others`.
    pub(crate) fn not_connected(&self, node: NodeId, others: &[NodeId]) -> Result<Vec<NodeId>> {
        let node_id = node.to_string();
        let words = ["node", "status", "--node", &node_id, "--cluster", self.cluster.as_str()];
        let but_itself = || others.iter().filter(|other| **other != node).copied().collect();
        // It ends with 1 while anything is wrong.
        let value: serde_json::Value = match self.read(&words, "", &[0, 1]) {
            Ok(value) => value,
            Err(FleetError::OnHost { .. }) => return Ok(but_itself()),
            Err(error) => return Err(error),
        };
        let links = value["nodes"][0]["status"]["links"].as_array().cloned().unwrap_or_default();
        let valid = |other: &NodeId| {
            links.iter().any(|link| link["peer"] == u64::from(other.get()) && link["session"] == "valid")
        };
        Ok(others.iter().filter(|other| **other != node && !valid(other)).copied().collect())
    }

    /// The nodes that were stopped there.
    pub(crate) fn down(&self) -> Result<Vec<NodeId>> {
        let Stopped { mut stopped, killed } = self.ask(&["down"], "")?;
        stopped.extend(killed);
        Ok(stopped)
    }
}
