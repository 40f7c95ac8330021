//! Lists the clusters on this machine, and those that no test needs any more.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use node::NodeError;
use node::cluster::{NodeState, list_clusters, shut_directories};
use node::runtime_dir::RuntimeRoot;
use serde::Serialize;
use tieline::NodeId;

use crate::own::owner_of;

/// Schema of the report.
pub const SCHEMA: &str = "tieline.clusters/1";

/// All clusters below a runtime directory.
#[derive(Debug, Clone, Serialize)]
pub struct ClustersReport {
    /// The directory that was searched.
    pub runtime_dir: PathBuf,
    /// By name.
    pub clusters: Vec<ClusterSummary>,
    /// Directories that this user may not read: there may be clusters of other users in them.
    pub shut: Vec<String>,
}

/// One cluster.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterSummary {
    /// Its name.
    pub cluster: String,
    /// Nodes whose managers run, ascending.
    pub running: Vec<RunningNode>,
    /// Nodes whose managers died and left their files, ascending.
    pub dead: Vec<NodeId>,
    /// It was started by a test or a measurement for itself.
    pub own: Option<OwnerOfTest>,
    /// It is not needed: no manager runs, or the test that started it has ended.
    pub stale: bool,
    /// What removes what is dead or not needed.
    pub remedy: Option<String>,
}

/// A node whose manager runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RunningNode {
    /// The node.
    pub node: NodeId,
    /// Its manager; unknown to users who may not read the lock file.
    pub pid: Option<u32>,
}

/// The process that started a cluster for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OwnerOfTest {
    /// The process ID of its manager.
    pub pid: u32,
    /// Whether that runs.
    pub running: bool,
}

/// Looks for clusters. A directory that is not there holds none.
pub fn collect(root: &RuntimeRoot) -> Result<ClustersReport, NodeError> {
    let entries = list_clusters(root)?;
    let shut = shut_directories(root).iter().map(ToString::to_string).collect();
    let clusters = entries.into_iter().map(|entry| {
        let (mut running, mut dead) = (Vec::new(), Vec::new());
        for node in entry.nodes {
            match node.state {
                NodeState::Running { pid } => running.push(RunningNode { node: node.node, pid }),
                NodeState::Dead => dead.push(node.node),
            }
        }
        let own = owner_of(entry.cluster.as_str())
            .map(|pid| OwnerOfTest { pid, running: Path::new(&format!("/proc/{pid}")).exists() });
        summary(&root.path, entry.cluster.to_string(), running, dead, own)
    });
    Ok(ClustersReport { runtime_dir: root.path.clone(), clusters: clusters.collect(), shut })
}

fn summary(
    root: &Path,
    cluster: String,
    running: Vec<RunningNode>,
    dead: Vec<NodeId>,
    own: Option<OwnerOfTest>,
) -> ClusterSummary {
    let stale = running.is_empty() || own.is_some_and(|own| !own.running);
    let place = format!("--cluster {cluster} --runtime-dir {}", root.display());
    let remedy = match dead.as_slice() {
        _ if stale => Some(format!("tieline down {place}")),
        [] => None,
        dead => {
            let each = dead.iter().map(|node| format!("tieline node stop --node {node} {place}"));
            Some(each.collect::<Vec<_>>().join("; "))
        }
    };
    ClusterSummary { cluster, running, dead, own, stale, remedy }
}

impl ClustersReport {
    /// A line for each, then what removes what is stale.
    pub fn render(&self) -> String {
        let dir = self.runtime_dir.display();
        let mut shut = String::new();
        for name in &self.shut {
            let _ = writeln!(
                shut,
                "{dir}/{name}: this user has no permission to read it, so a cluster in it is not listed: ask its owner, or run as that user"
            );
        }
        if self.clusters.is_empty() {
            let of_this_user = if shut.is_empty() { "" } else { " of this user" };
            return format!("no cluster{of_this_user} runs here (searched {dir})\n{shut}");
        }
        let widest = self.clusters.iter().map(|cluster| cluster.cluster.len()).max().unwrap_or(0).max(7);
        let mut text = format!("{:<widest$}  {:>7}  {:>4}  nodes (pid)\n", "cluster", "running", "dead");
        for cluster in &self.clusters {
            let _ = writeln!(
                text,
                "{:<widest$}  {:>7}  {:>4}  {}",
                cluster.cluster,
                cluster.running.len(),
                cluster.dead.len(),
                cluster.nodes()
            );
        }
        for cluster in &self.clusters {
            if let Some(remedy) = &cluster.remedy {
                let _ =
                    writeln!(text, "{}: {}; remove with: {remedy}", cluster.cluster, cluster.what_is_left());
            }
        }
        text + &shut
    }
}

impl ClusterSummary {
    fn nodes(&self) -> String {
        let running = self
            .running
            .iter()
            .map(|one| one.pid.map_or_else(|| one.node.to_string(), |pid| format!("{} ({pid})", one.node)));
        let dead = self.dead.iter().map(|node| format!("{node} (dead)"));
        let mut text = running.chain(dead).collect::<Vec<_>>().join(", ");
        if let Some(own) = self.own {
            let how = if own.running { "runs" } else { "has ended" };
            let _ = write!(text, "; of a test, process {}, which {how}", own.pid);
        }
        text
    }

    fn what_is_left(&self) -> &'static str {
        match (self.own, self.running.is_empty()) {
            (Some(own), false) if !own.running => "the test that started it has ended",
            (_, true) => "only files are left of it",
            _ => "some managers are dead",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn of(name: &str, running: &[u32], dead: &[u32], owner_runs: Option<bool>) -> ClusterSummary {
        let running =
            running.iter().map(|id| RunningNode { node: node(*id), pid: Some(1000 + id) }).collect();
        let own = owner_runs.map(|running| OwnerOfTest { pid: 77, running });
        summary(Path::new("/run/x"), name.into(), running, dead.iter().map(|id| node(*id)).collect(), own)
    }

    #[test]
    fn what_nobody_needs_is_named_with_what_removes_it() {
        let healthy = of("lab", &[4, 8], &[], None);
        assert!(!healthy.stale && healthy.remedy.is_none());
        let dead = of("lab", &[], &[4], None);
        assert!(dead.stale && dead.remedy.unwrap().contains("tieline down --cluster lab"));
        let half = of("lab", &[4], &[8], None);
        assert!(!half.stale && half.remedy.unwrap().contains("node stop --node 8"));
        assert!(!of("verify-77", &[4], &[], Some(true)).stale);
        let orphan = of("verify-77", &[4], &[], Some(false));
        assert!(orphan.stale && orphan.remedy.unwrap().contains("down --cluster verify-77"));
    }

    #[test]
    fn only_names_that_tests_give_have_an_owner() {
        assert_eq!(owner_of("verify-123"), Some(123));
        assert_eq!(owner_of("acceptance-9"), Some(9));
        assert!(
            owner_of("rack-1").is_none() && owner_of("verify").is_none() && owner_of("verify-x").is_none()
        );
    }

    #[test]
    fn the_table_names_pids_and_owners() {
        let clusters = vec![of("lab", &[4], &[8], None), of("bench-77", &[4], &[], Some(false))];
        let text =
            ClustersReport { runtime_dir: "/run/x".into(), clusters, shut: vec!["lab2".into()] }.render();
        for part in [
            "4 (1004), 8 (dead)",
            "process 77, which has ended",
            "remove with: tieline down",
            "/run/x/lab2: this user has no permission",
        ] {
            assert!(text.contains(part), "`{part}`: {text}");
        }
    }
}
