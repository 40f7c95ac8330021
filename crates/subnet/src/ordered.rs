//! A fabric in the order of its GUIDs, so that managers at different ports give the same LIDs and compute the
//! same tables: a sweep numbers the nodes as it meets them.

use fabric::sweep::Found;
use topology::{Graph, GraphBuilder, Kind, NodeIx, NodeSpec};

/// The same with the nodes in the order of their GUIDs, and the node where the sweep stood.
pub(crate) fn by_guid(found: Found) -> (Found, NodeIx) {
    let old = &found.graph;
    let mut order: Vec<NodeIx> = old.nodes().collect();
    // Stable: several nodes with one GUID stay in the order in which they were met.
    order.sort_by_key(|node| old.node_guid(*node));
    let mut place = vec![NodeIx(0); order.len()];
    for (new, node) in order.iter().enumerate() {
        place[node.index()] = NodeIx(new as u32);
    }
    let Some(graph) = rebuilt(old, &order, &place) else { return (found, NodeIx(0)) };
    let nodes = order.iter().filter_map(|node| found.nodes.get(node.index()).cloned()).collect();
    let ports = order.iter().flat_map(|node| old.ports(*node));
    let ports = ports.map(|port| found.ports.get(port.index()).copied().flatten()).collect();
    let home = place.first().copied().unwrap_or(NodeIx(0));
    (Found { graph, nodes, ports, ..found }, home)
}

/// `None` if the parts of a graph do not make a graph, which cannot be.
fn rebuilt(old: &Graph, order: &[NodeIx], place: &[NodeIx]) -> Option<Graph> {
    let mut builder = GraphBuilder::new();
    for node in order {
        let kind = old.kind(*node);
        let spec = NodeSpec {
            kind,
            name: old.name(*node),
            ports: old.port_count(*node),
            node_guid: old.node_guid(*node),
            system_guid: old.system_guid(*node),
            vendor: old.vendor(*node),
            device: old.device(*node),
        };
        let built = builder.node(spec).ok()?;
        for port in old.ports(*node) {
            let number = old.number(port);
            if (kind == Kind::Switch) == (number == 0) {
                builder.port_guid(built, number, old.port_guid(port));
                builder.lid(built, number, old.lid(port), old.lmc(port));
            }
        }
    }
    for (a, b) in old.links() {
        let end = |port| (place[old.owner(port).index()], old.number(port));
        builder.link(end(a), end(b), old.link(a).unwrap_or_default()).ok()?;
    }
    Some(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::agents::Agents;
    use fabric::agents::sim_port::SimPort;
    use mad::in_process::InProcess;
    use topology::build::{FatTree, fat_tree};

    #[test]
    fn wherever_the_sweep_stands_the_graph_is_the_same() {
        let seen = |name: &str| {
            let mut agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
            assert!(agents.bring_up());
            let port = agents.place(agents.node(name).unwrap()).unwrap();
            let mut transport = InProcess::new(SimPort { agents, port });
            let options = fabric::sweep::Options::default();
            let found = fabric::sweep::sweep(&mut transport, &options, &mut |_| (), &|| false).unwrap();
            let (ordered, home) = by_guid(found);
            assert_eq!(ordered.graph.name(home), name);
            let named = |port| {
                let graph = &ordered.graph;
                (graph.name(graph.owner(port)).to_owned(), graph.number(port), graph.link(port))
            };
            let links: Vec<_> = ordered.graph.links().map(|(a, b)| (named(a), named(b))).collect();
            let ports: Vec<_> = ordered
                .graph
                .nodes()
                .flat_map(|node| ordered.graph.ports(node))
                .map(|port| (ordered.graph.lid(port), ordered.graph.port_guid(port)))
                .collect();
            let said: Vec<_> = ordered
                .ports
                .iter()
                .map(|info| info.as_ref().map(|info| (info.lid(), info.state())))
                .collect();
            let guids: Vec<_> = ordered.nodes.iter().map(|node| node.info.node_guid()).collect();
            assert!(guids.is_sorted());
            (links, ports, said, guids)
        };
        assert_eq!(seen("host00000"), seen("host00005"));
        assert_eq!(seen("host00000"), seen("spine001"));
    }
}
