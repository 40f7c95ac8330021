//! Stops the nodes of a cluster on its hosts.

use node_client::runtime_dir::ClusterName;
use proto::ids::NodeId;

use crate::error::Result;
use crate::hosts_file::Line;
use crate::on_host::OnHost;
use crate::ssh::Ssh;
use crate::up::at_once;

/// What became of a host.
#[derive(Debug)]
pub struct Ended {
    /// As it is in the list.
    pub host: String,
    /// The nodes that were stopped there.
    pub outcome: Result<Vec<NodeId>>,
}

/// On all hosts at once. Keys and certificates stay.
pub fn down(ssh: &Ssh, cluster: &ClusterName, lines: &[Line]) -> Vec<Ended> {
    let outcomes = at_once(lines, |line| OnHost { ssh, host: &line.destination, cluster }.down());
    let ended = lines.iter().zip(outcomes);
    ended.map(|(line, outcome)| Ended { host: line.destination.clone(), outcome }).collect()
}
