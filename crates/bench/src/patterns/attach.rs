//! Attaches both ends of a benchmark, to two nodes or twice to one.

use std::{path::PathBuf, time::Duration};

use proto::wire::status::{LinkStatus, SessionState};
use tieline::{
    Capabilities, Node, NodeId, NodeOptions, RemoteMap, RemoteSegment, Segment, SegmentId, SegmentOptions,
};

use crate::error::{BenchError, Result};

/// The time limit of connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The nodes that are measured.
#[derive(Debug, Clone, Default)]
pub struct Where {
    /// The runtime directory; `None`: the default of this user.
    pub runtime_dir: Option<PathBuf>,
    /// Name of the cluster; `None`: the default.
    pub cluster: Option<String>,
    /// The near node; `None`: the only one, or that of the environment.
    pub near: Option<NodeId>,
    /// The far node; `None`: the first other one of this host that the near node has a valid
    /// session with, else the near one.
    pub far: Option<NodeId>,
}

impl Where {
    /// Attaches to a node of the cluster, under the name that `tieline status` shows.
    pub fn attach(&self, node: Option<NodeId>, name: &str) -> Result<Node> {
        Ok(Node::attach_with(&NodeOptions {
            node,
            cluster: self.cluster.clone(),
            runtime_dir: self.runtime_dir.clone(),
            name: Some(name.to_owned()),
        })?)
    }

    /// Attaches to both nodes.
    pub fn both(&self) -> Result<[Node; 2]> {
        let near = self.attach(self.near, "bench near")?;
        let far = match self.far {
            Some(far) => far,
            None => self.some_other(&near)?,
        };
        Ok([near, self.attach(Some(far), "bench far")?])
    }

    fn some_other(&self, near: &Node) -> Result<NodeId> {
        let status = near.status()?;
        let usable = |link: &&LinkStatus| link.session == SessionState::Valid && !link.other_host;
        let other = status.links.iter().filter(usable).map(|link| link.peer).find(|peer| *peer != near.id());
        Ok(other.unwrap_or_else(|| near.id()))
    }
}

/// A segment of one node, connected from another.
#[derive(Debug)]
pub struct Connected {
    /// The segment of the owner.
    pub segment: Segment,
    /// The segment as the other node has connected to it.
    pub remote: RemoteSegment,
    /// The other node's map of it.
    pub map: RemoteMap,
}

impl Connected {
    /// The ID by which other programs connect to the segment.
    pub fn id(&self) -> Result<SegmentId> {
        id_of(&self.segment)
    }
}

fn id_of(segment: &Segment) -> Result<SegmentId> {
    segment.id().ok_or_else(|| BenchError::Usage("a segment without an id".to_owned()))
}

/// Creates a segment on `owner`, connects and maps it from `user`.
pub fn connected(owner: &Node, user: &Node, size_bytes: usize) -> Result<Connected> {
    let segment = owner.create_segment_with(&SegmentOptions::new(size_bytes))?;
    segment.make_available()?;
    let remote = user.connect_segment(owner.id(), id_of(&segment)?, CONNECT_TIMEOUT)?;
    let map = remote.map()?;
    Ok(Connected { segment, remote, map })
}

/// The map of a segment; none of one on another host, which can be put to and got from only.
pub fn map_of(remote: &RemoteSegment) -> Result<Option<RemoteMap>> {
    remote.capabilities().has(Capabilities::MAP).then(|| remote.map()).transpose().map_err(Into::into)
}

/// Whether a node is on another host than the one that this program is attached to.
pub fn is_elsewhere(here: &Node, other: NodeId) -> Result<bool> {
    Ok(here.status()?.links.iter().any(|link| link.peer == other && link.other_host))
}

/// The name of the link of a node, as its adapter reports it.
pub fn path_of(node: &Node) -> String {
    node.info().adapters.first().map_or_else(|| "unknown".to_owned(), |adapter| adapter.kind.clone())
}
