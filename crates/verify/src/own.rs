//! A temporary cluster for one test or measurement, under a unique name.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use node::NodeError;
use node::cluster::{Launcher, Lease, UpOptions, UpProgress, down, node_ids, up};
use node_client::runtime_dir::{ClusterDir, ClusterName, RuntimeRoot};

use crate::target::Target;

/// How long a manager may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// What is to be started.
#[derive(Debug, Clone)]
pub struct OwnCluster {
    /// Runtime directory to make it in.
    pub root: RuntimeRoot,
    /// What it is for: the first part of its name, one of [`PURPOSES`].
    pub purpose: &'static str,
    /// How many nodes.
    pub nodes: usize,
    /// What is run for each.
    pub launcher: Launcher,
    /// Configuration, if not the usual one.
    pub config: Option<PathBuf>,
    /// How long all sessions may take to become valid.
    pub limit: Duration,
    /// What is done once it has served and before it is taken away, also if it did not come up.
    pub last_look: Option<LastLook>,
}

/// Looks at a cluster for the last time.
#[derive(Clone)]
pub struct LastLook(pub Arc<dyn Fn(&Target) + Send + Sync>);

impl fmt::Debug for LastLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastLook")
    }
}

/// What clusters of one's own are for, as in their names.
pub const PURPOSES: [&str; 3] = ["verify", "bench", "acceptance"];

/// Whose own cluster this is, by its name: the process that started it.
pub fn owner_of(cluster: &str) -> Option<u32> {
    let (purpose, pid) = cluster.rsplit_once('-')?;
    if PURPOSES.contains(&purpose) { pid.parse().ok() } else { None }
}

/// Stops the nodes and removes their files, logs included, when dropped.
#[derive(Debug)]
pub struct Removal {
    dir: ClusterDir,
    last_look: Option<(LastLook, Target)>,
    /// Ends the managers also when this process is killed and nothing can be dropped.
    _lease: Lease,
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Some((LastLook(look), target)) = self.last_look.take() {
            look(&target);
        }
        OwnCluster::remove(&self.dir);
    }
}

impl OwnCluster {
    /// Its directory: the name holds this process's id.
    pub fn dir(&self) -> Result<ClusterDir, NodeError> {
        let name = ClusterName::new(&format!("{}-{}", self.purpose, std::process::id()))?;
        Ok(ClusterDir::below(&self.root, name))
    }

    /// Starts it: how to reach it, what takes it away again, and how long it took.
    pub fn up(&self, tell: &mut dyn FnMut(&str)) -> Result<(Target, Removal, Duration), NodeError> {
        let dir = self.dir()?;
        let nodes = node_ids(self.nodes, None)?;
        let lease = Lease::new()?;
        let options = UpOptions {
            dir: dir.clone(),
            nodes: nodes.clone(),
            launcher: Launcher { lease: Some(lease.clone()), ..self.launcher.clone() },
            config: self.config.clone(),
            limit: self.limit,
            // They are what there is to examine if it does not come up; they go with the directory.
            keep_files: self.last_look.is_some(),
            // A signal takes the whole cluster away.
            stop: || false,
        };
        let target = Target {
            runtime_dir: Some(dir.root().into()),
            cluster: Some(dir.cluster().as_str().into()),
            nodes,
        };
        // Before the first is started, so that what a failure leaves is taken away too.
        let last_look = self.last_look.clone().map(|look| (look, target.clone()));
        let removal = Removal { dir, last_look, _lease: lease };
        let report = up(&options, &mut |progress| {
            if let UpProgress::Ready { ready, of } = progress {
                tell(&format!("up: {ready} of {of} nodes connected"));
            }
        })?;
        Ok((target, removal, report.took))
    }

    /// Stops its nodes and removes their files, logs included. Nothing there is no error.
    pub fn remove(dir: &ClusterDir) {
        // Best effort, in the order that leaves least behind: what cannot be stopped keeps its files.
        if down(dir, None, STOP_LIMIT, &mut |_| ()).is_ok() {
            drop(std::fs::remove_dir_all(dir.path()));
        }
    }
}
