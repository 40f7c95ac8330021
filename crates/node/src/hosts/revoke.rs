//! Revokes the certificates of a node, on the host that has the authority's key.

use std::path::PathBuf;
use std::time::SystemTime;

use proto::ids::NodeId;
use trust::TrustError;
use trust::identity::Identity;
use trust::revoke::Outcome;
use trust::store::Store;

use super::{Result, place};
use crate::cluster::{NodeState, list_nodes};
use crate::runtime_dir::ClusterDir;

/// What [`revoke`] has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// Its certificates were revoked before.
    pub already: bool,
    /// A manager of this host runs, which tells the other hosts. If none does, the next one that starts tells
    /// them.
    pub is_passed_on: bool,
    /// Where the list of revoked certificates is.
    pub dir: PathBuf,
}

/// Revokes all certificates that a node has been given; managers of this host are looked for in `runtime`.
pub fn revoke(runtime: &ClusterDir, node: NodeId) -> Result<Revoked> {
    let dir = place(runtime.cluster().as_str())?;
    let store = Store::open(&dir)?.ok_or_else(|| TrustError::NoAuthority { path: dir.clone() })?;
    let outcome = trust::revoke::revoke(&store, node, SystemTime::now())?;
    let own = Identity::nodes(&store)?;
    // Whoever cannot look there is told to start a manager that may run already.
    let running = list_nodes(runtime).unwrap_or_default();
    let mut running = running.iter().filter(|entry| matches!(entry.state, NodeState::Running { .. }));
    let is_passed_on = running.any(|entry| own.contains(&entry.node));
    Ok(Revoked { already: outcome == Outcome::Already, is_passed_on, dir })
}
