//! Compares the topologies that the nodes see.

use tieline::NodeId;

use super::NodeDiag;

/// Ends each text.
const NEXT: &str = "`tieline cable` shows the links that are down";

/// Names each node whose view differs from the most common one; where no view is more common than all others,
/// from the one that has all nodes of the others, whose node has no part in it; where there is no such view,
/// each node with its own.
pub(super) fn compare(nodes: &[&NodeDiag]) -> Vec<String> {
    let count = |view: &[NodeId]| nodes.iter().filter(|node| node.nodes_seen == view).count();
    let Some(common) = nodes.iter().map(|node| &node.nodes_seen).max_by_key(|view| (count(view), view.len()))
    else {
        return Vec::new();
    };
    let names = |ids: Vec<&NodeId>| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
    let is_most =
        !nodes.iter().any(|node| node.nodes_seen != *common && count(&node.nodes_seen) == count(common));
    let whole = nodes
        .iter()
        .map(|node| &node.nodes_seen)
        .find(|view| nodes.iter().flat_map(|node| &node.nodes_seen).all(|seen| view.contains(seen)));
    let (common, whose) = match whole {
        _ if is_most => (common, "most"),
        Some(whole) => (whole, "others"),
        None => {
            let sees = |node: &&NodeDiag| names(node.nodes_seen.iter().collect());
            let text = |node: &&NodeDiag| {
                format!(
                    "node {} sees another topology than the others: node {}: {NEXT}",
                    node.node,
                    sees(node)
                )
            };
            return nodes.iter().map(text).collect();
        }
    };
    nodes
        .iter()
        .filter(|node| node.nodes_seen != *common)
        .map(|node| {
            let missing: Vec<_> = common.iter().filter(|id| !node.nodes_seen.contains(id)).collect();
            let extra: Vec<_> = node.nodes_seen.iter().filter(|id| !common.contains(id)).collect();
            let mut text = format!("node {} sees another topology than {whose}", node.node);
            if !missing.is_empty() {
                text.push_str(&format!(", without node {}", names(missing)));
            }
            if !extra.is_empty() {
                text.push_str(&format!(", with node {} besides", names(extra)));
            }
            text + ": " + NEXT
        })
        .collect()
}
