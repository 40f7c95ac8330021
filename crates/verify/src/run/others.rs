//! The nodes of other hosts, where a test of a running cluster tests these, too.

use node_client::ClientError;
use node_client::runtime_dir::ClusterDir;
use tieline::NodeId;

use crate::agent::{Elsewhere, elsewhere_among};
use crate::diag::{DiagReport, Level};
use crate::status::ClusterReport;
use crate::suspect::{Suspect, Suspected};
use crate::target::Target;

/// Steps that need two nodes of one host.
pub(super) const WITHIN_A_HOST: &str = "names, exchange, pairs, scipp, curves";

/// The nodes of other hosts.
pub(super) struct Others {
    pub(super) dir: ClusterDir,
    /// Ascending.
    pub(super) nodes: Vec<Elsewhere>,
}

impl Others {
    /// Those that the nodes of this host know.
    pub(super) fn of(target: &Target, status: &ClusterReport) -> Result<Self, ClientError> {
        let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref())?;
        Ok(Self { dir, nodes: elsewhere_among(status.links_here()) })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|one| one.node)
    }

    /// What the line of the step `status` says of them: how many there are, and which steps are left out if
    /// this host has one node.
    pub(super) fn summary(&self, here: usize) -> String {
        match (self.nodes.len(), here) {
            (0, _) => String::new(),
            (count, 0 | 1) => {
                format!(
                    "; {count} on other hosts; {WITHIN_A_HOST} need two nodes of one host and are left out"
                )
            }
            (count, _) => format!("; {count} on other hosts"),
        }
    }

    /// The nodes of which there is no report, each with the reason.
    pub(super) fn absent(&self, diag: &DiagReport) -> Vec<Suspected> {
        let of = |one: &Elsewhere| {
            let report = diag.nodes.iter().find(|report| report.node == one.node && report.info.is_none())?;
            let errors = report.findings.iter().filter(|finding| finding.level == Level::Error);
            let evidence = errors.map(|finding| format!("on {}: {}", one.host, finding.text)).collect();
            Some(Suspected { suspect: Suspect::Node(one.node), evidence })
        };
        self.nodes.iter().filter_map(of).collect()
    }
}

/// What to do about a suspect that is one of these nodes of other hosts.
pub(super) fn next_step(nodes: &[Elsewhere], suspected: &Suspected) -> Option<String> {
    let Suspect::Node(node) = suspected.suspect else { return None };
    let host = &nodes.iter().find(|one| one.node == node)?.host;
    Some(format!(
        "node {node} on {host}: see `tieline status` there, the log of its manager, and the network to {host}; then run \
         `tieline verify --running` again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_one_node_says_which_steps_it_leaves_out() {
        let others = |count: u32| Others {
            dir: ClusterDir::locate(Some(std::path::Path::new("/nowhere")), Some("lab")).unwrap(),
            nodes: (1..=count).map(|at| Elsewhere::on(NodeId::new(4 * at).unwrap(), "beta")).collect(),
        };
        assert_eq!(others(0).summary(1), "");
        assert_eq!(others(2).summary(2), "; 2 on other hosts");
        assert!(
            others(2)
                .summary(1)
                .ends_with("pairs, scipp, curves need two nodes of one host and are left out")
        );
        let node = Suspected { suspect: Suspect::Node(NodeId::new(8).unwrap()), evidence: Vec::new() };
        assert!(
            next_step(&others(2).nodes, &node)
                .unwrap()
                .starts_with("node 8 on beta: see `tieline status` there")
        );
        assert_eq!(next_step(&others(1).nodes, &node), None, "a node of this host");
    }
}
