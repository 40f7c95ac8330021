//! Compares the topologies that the nodes see.

use tieline::NodeId;

use super::NodeDiag;

/// Names each node whose view differs from the most common one; where no view is more common than all others, each node with its own.
pub(super) fn compare(nodes: &[&NodeDiag]) -> Vec<String> {
    let count = |view: &[NodeId]| nodes.iter().filter(|node| node.nodes_seen == view).count();
    let Some(common) = nodes.iter().map(|node| &node.nodes_seen).max_by_key(|view| (count(view), view.len()))
    else {
        return Vec::new();
    };
    let names = |ids: Vec<&NodeId>| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
    if nodes.iter().any(|node| node.nodes_seen != *common && count(&node.nodes_seen) == count(common)) {
        let sees = |node: &&NodeDiag| names(node.nodes_seen.iter().collect());
        let text = |node: &&NodeDiag| {
            format!("node {} sees another topology than the others: node {}", node.node, sees(node))
        };
        return nodes.iter().map(text).collect();
    }
    nodes
        .iter()
        .filter(|node| node.nodes_seen != *common)
        .map(|node| {
            let missing: Vec<_> = common.iter().filter(|id| !node.nodes_seen.contains(id)).collect();
            let extra: Vec<_> = node.nodes_seen.iter().filter(|id| !common.contains(id)).collect();
            let mut text = format!("node {} sees another topology than most", node.node);
            if !missing.is_empty() {
                text.push_str(&format!(", without node {}", names(missing)));
            }
            if !extra.is_empty() {
                text.push_str(&format!(", with node {} besides", names(extra)));
            }
            text
        })
        .collect()
}
