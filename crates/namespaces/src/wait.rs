//! When a host is ready: its node has a valid session with each of the others.

use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterDir;
use proto::ids::NodeId;
use proto::wire::status::SessionState;

use crate::error::{NamespacesError, Result};

/// Between two questions to the manager, which needs its time for the sessions.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits so long for that. A manager that does not answer has no time yet.
pub(crate) fn for_sessions(dir: &ClusterDir, node: NodeId, others: &[NodeId], limit: Duration) -> Result<()> {
    let until = Instant::now() + limit;
    loop {
        let links = node::cluster::status(dir, node).map(|status| status.links).unwrap_or_default();
        let valid = |other: &NodeId| {
            links.iter().any(|link| link.peer == *other && link.session == SessionState::Valid)
        };
        if others.iter().all(valid) {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(NamespacesError::NotReady { seconds: limit.as_secs() });
        }
        std::thread::sleep(PAUSE);
    }
}
