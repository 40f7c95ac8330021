//! Options of an attachment: which node, which cluster.

use std::path::PathBuf;

use proto::ids::NodeId;

use crate::error::{ClientError, Result};
use crate::runtime_dir::{ClusterDir, ENV_NODE};

/// How to attach. What is not given comes from the environment (`TIELINE_RUNTIME_DIR`, `TIELINE_CLUSTER`,
/// `TIELINE_NODE`), else from the defaults.
#[derive(Debug, Clone, Default)]
pub struct AttachOptions {
    /// Where the managers' sockets are.
    pub runtime_dir: Option<PathBuf>,
    /// The cluster.
    pub cluster: Option<String>,
    /// Which node; by default the only one there is.
    pub node: Option<NodeId>,
    /// What `tieline status` shows; by default the name of the program's file.
    pub name: Option<String>,
}

impl AttachOptions {
    /// Finds the cluster's directory, checked for this user.
    pub fn cluster_dir(&self) -> Result<ClusterDir> {
        let dir = ClusterDir::locate(self.runtime_dir.as_deref(), self.cluster.as_deref())?;
        dir.check_for_program()?;
        Ok(dir)
    }

    /// Decides the node: as given, as in the environment, else the only one.
    pub fn node_in(&self, dir: &ClusterDir) -> Result<NodeId> {
        let wanted = match self.node {
            Some(node) => Some(node),
            None => node_from_environment()?,
        };
        choose(dir, wanted, dir.nodes_with("sock")?)
    }

    /// The name under which the program attaches, cut to what the protocol carries.
    pub(crate) fn program_name(&self) -> String {
        let given = self.name.clone().or_else(|| {
            let path = std::env::current_exe().ok()?;
            Some(path.file_name()?.to_string_lossy().into_owned())
        });
        let mut name = given.unwrap_or_else(|| "program".to_owned());
        while name.len() > proto::wire::MAX_NAME_BYTES {
            name.pop();
        }
        name
    }
}

fn node_from_environment() -> Result<Option<NodeId>> {
    match std::env::var(ENV_NODE) {
        Ok(text) if !text.is_empty() => text.parse().map(Some).map_err(ClientError::BadNode),
        _ => Ok(None),
    }
}

fn choose(dir: &ClusterDir, wanted: Option<NodeId>, nodes: Vec<NodeId>) -> Result<NodeId> {
    let cluster = dir.cluster().clone();
    match (wanted, nodes.as_slice()) {
        (_, []) => Err(ClientError::NoManager { cluster, dir: dir.path().into() }),
        (None, [only]) => Ok(*only),
        (None, _) => Err(ClientError::SeveralNodes { cluster, nodes }),
        (Some(node), _) if nodes.contains(&node) => Ok(node),
        (Some(node), _) => Err(ClientError::NoSuchNode { cluster, node, nodes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime_dir::ClusterName;

    #[test]
    fn the_only_node_is_chosen_and_anything_else_is_an_error_that_lists() {
        let dir = ClusterDir::new("/nowhere".into(), ClusterName::new("c").unwrap());
        let node = |id| NodeId::new(id).unwrap();
        assert_eq!(choose(&dir, None, vec![node(8)]).unwrap(), node(8));
        assert_eq!(choose(&dir, Some(node(8)), vec![node(4), node(8)]).unwrap(), node(8));
        assert!(matches!(choose(&dir, None, vec![]), Err(ClientError::NoManager { .. })));
        assert!(matches!(choose(&dir, Some(node(4)), vec![]), Err(ClientError::NoManager { .. })));
        let several = choose(&dir, None, vec![node(4), node(8)]).unwrap_err().to_string();
        assert!(several.contains("4, 8"), "{several}");
        let missing = choose(&dir, Some(node(12)), vec![node(4), node(8)]).unwrap_err().to_string();
        assert!(missing.contains("no node 12") && missing.contains("4, 8"), "{missing}");
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let options = AttachOptions { name: Some("ä".repeat(60)), ..AttachOptions::default() };
        assert_eq!(options.program_name(), "ä".repeat(32));
    }
}
