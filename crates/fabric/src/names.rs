//! Nodes, ports and cables as people name them: by description, GUID, LID, or one of these with a slash and a port.

use topology::{Graph, Kind, NodeIx, PortIx};

/// Candidates that an error names.
const NAMED: usize = 5;

/// A name that leads to nothing, or to too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nobody has it.
    #[error(
        "nothing here is named `{name}`: give a description, a GUID (0x…), a LID, or one of these with /PORT{near}"
    )]
    Unknown {
        /// As it was given.
        name: String,
        /// Names that are like it.
        near: String,
    },
    /// Several nodes have it.
    #[error("`{name}` is the name of {count} nodes: say which by its GUID, {guids}")]
    Ambiguous {
        /// As it was given.
        name: String,
        /// How many.
        count: usize,
        /// The GUIDs of the first.
        guids: String,
    },
    /// The node is there, and has no such port.
    #[error("`{node}` has no port {port}: it has 1 to {ports}")]
    NoPort {
        /// The node.
        node: String,
        /// The port.
        port: u32,
        /// How many it has.
        ports: u8,
    },
    /// A port was needed, and the node has several with cables.
    #[error("`{name}` has {count} cables: name the port, as in `{name}/{first}`")]
    WhichPort {
        /// As it was given.
        name: String,
        /// How many.
        count: usize,
        /// The first.
        first: u8,
    },
    /// A cable was needed, and there is none.
    #[error("no cable is in {place}")]
    NoCable {
        /// The port.
        place: String,
    },
}

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A node.
    Node(NodeIx),
    /// A port of a node.
    Port(PortIx),
}

/// A port as people find it.
#[must_use]
pub fn place(graph: &Graph, port: PortIx) -> String {
    let node = graph.owner(port);
    format!("{}/{}", label(graph, node), graph.number(port))
}

/// A node as people find it: its text, or its GUID if it has none. Text of strangers loses its control characters.
#[must_use]
pub fn label(graph: &Graph, node: NodeIx) -> String {
    let name: String =
        graph.name(node).chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    if name.trim().is_empty() { format!("{:#018x}", graph.node_guid(node)) } else { name.trim().to_owned() }
}

/// The node or port of a name.
///
/// # Errors
/// It is nobody's, or that of several.
pub fn find(graph: &Graph, name: &str) -> Result<Named, NameError> {
    let whole = node_of(graph, name);
    if let (Err(NameError::Unknown { .. }), Some((node, port))) = (&whole, name.rsplit_once('/'))
        && let Ok(number) = port.trim().parse::<u32>()
    {
        let node = match node_of(graph, node)? {
            Named::Node(node) => node,
            Named::Port(port) => graph.owner(port),
        };
        let there = u8::try_from(number).ok().and_then(|number| graph.port(node, number));
        return there.map(Named::Port).ok_or_else(|| NameError::NoPort {
            node: label(graph, node),
            port: number,
            ports: graph.port_count(node),
        });
    }
    whole
}

fn node_of(graph: &Graph, name: &str) -> Result<Named, NameError> {
    let name = name.trim();
    let living = || graph.nodes().filter(|node| !graph.is_dead(*node));
    let mut found: Vec<NodeIx> = living().filter(|node| label(graph, *node) == name).collect();
    if found.is_empty()
        && let Some(guid) = name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
    {
        found = living().filter(|node| guid != 0 && graph.node_guid(*node) == guid).collect();
        if found.is_empty() {
            let ports = living().filter(|node| graph.kind(*node) != Kind::Switch);
            let mut ports = ports.flat_map(|node| graph.ports(node));
            if let Some(port) = ports.find(|port| graph.port_guid(*port) == guid) {
                return Ok(Named::Port(port));
            }
        }
    }
    let number = name.strip_prefix("lid ").or_else(|| name.strip_prefix("LID ")).unwrap_or(name);
    if found.is_empty()
        && let Ok(lid) = number.trim().parse::<u16>()
        && let Some(end) = of_lid(graph, lid)
    {
        return Ok(end);
    }
    match found.as_slice() {
        [node] => Ok(Named::Node(*node)),
        [] => Err(NameError::Unknown { name: name.to_owned(), near: near(graph, name) }),
        several => {
            let guids: Vec<String> =
                several.iter().take(NAMED).map(|node| format!("{:#018x}", graph.node_guid(*node))).collect();
            Err(NameError::Ambiguous {
                name: name.to_owned(),
                count: several.len(),
                guids: guids.join(" or "),
            })
        }
    }
}

/// Who answers to a LID.
fn of_lid(graph: &Graph, lid: u16) -> Option<Named> {
    if lid == 0 {
        return None;
    }
    let mine = |port: PortIx| {
        let first = graph.lid(port);
        first != 0 && u32::from(lid) < u32::from(first) + (1 << graph.lmc(port)) && lid >= first
    };
    graph.nodes().filter(|node| !graph.is_dead(*node)).find_map(|node| match graph.kind(node) {
        Kind::Switch => graph.port(node, 0).filter(|port| mine(*port)).map(|_| Named::Node(node)),
        _ => graph.ports(node).skip(1).find(|port| mine(*port)).map(Named::Port),
    })
}

/// Names that begin as this one does.
fn near(graph: &Graph, name: &str) -> String {
    let wanted = name.to_lowercase();
    let like = |label: &str| {
        let label = label.to_lowercase();
        !wanted.is_empty() && (label.contains(&wanted) || (label.len() > 2 && wanted.contains(&label)))
    };
    let names: Vec<String> = graph
        .nodes()
        .map(|node| label(graph, node))
        .filter(|label| like(label))
        .take(NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    if names.is_empty() { String::new() } else { format!("; there are {}", names.join(", ")) }
}

/// The end port that a name means: of a node with one cable that cable's port, of a switch its port 0.
///
/// # Errors
/// The name leads to nothing, to several, or to a host with several cables.
pub fn end(graph: &Graph, name: &str) -> Result<PortIx, NameError> {
    match find(graph, name)? {
        Named::Port(port) if graph.kind(graph.owner(port)) == Kind::Switch => {
            // What is meant by a switch's port is who is behind it, if that is a host.
            let peer = graph.peer(port).filter(|peer| graph.kind(graph.owner(*peer)) != Kind::Switch);
            Ok(peer.or_else(|| graph.port(graph.owner(port), 0)).unwrap_or(port))
        }
        Named::Port(port) => Ok(port),
        Named::Node(node) if graph.kind(node) == Kind::Switch => {
            graph.port(node, 0).ok_or_else(|| NameError::NoCable { place: label(graph, node) })
        }
        Named::Node(node) => {
            let cables: Vec<PortIx> = graph.cabled(node).map(|(near, _)| near).collect();
            match cables.as_slice() {
                [one] => Ok(*one),
                [] => Err(NameError::NoCable { place: label(graph, node) }),
                [first, ..] => Err(NameError::WhichPort {
                    name: name.to_owned(),
                    count: cables.len(),
                    first: graph.number(*first),
                }),
            }
        }
    }
}

/// What is taken away by a name: all cables of a node, or the cable in a port.
///
/// # Errors
/// As for [`find`]; or no cable is in the port.
pub fn part(graph: &Graph, name: &str) -> Result<Named, NameError> {
    match find(graph, name)? {
        Named::Port(port) if graph.peer(port).is_none() => {
            Err(NameError::NoCable { place: place(graph, port) })
        }
        named => Ok(named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::build::{FatTree, fat_tree};
    use topology::{GraphBuilder, NodeSpec};

    #[test]
    fn names_guids_and_ports_lead_to_the_same() {
        let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
        let node = graph.nodes_of(Kind::Host).next().unwrap();
        let name = label(&graph, node);
        assert_eq!(find(&graph, &name), Ok(Named::Node(node)));
        assert_eq!(find(&graph, &format!("{:#x}", graph.node_guid(node))), Ok(Named::Node(node)));
        assert_eq!(find(&graph, &format!("{name}/1")), Ok(Named::Port(graph.port(node, 1).unwrap())));
        assert!(matches!(find(&graph, &format!("{name}/9")), Err(NameError::NoPort { port: 9, .. })));
        assert!(matches!(find(&graph, "nobody"), Err(NameError::Unknown { .. })));
        assert_eq!(end(&graph, &name), Ok(graph.port(node, 1).unwrap()));
    }

    #[test]
    fn a_name_of_two_is_said_to_be_one_of_two() {
        let mut builder = GraphBuilder::new();
        builder.node(NodeSpec::new(Kind::Host, "MT4119 ConnectX", 1).guid(5)).unwrap();
        builder.node(NodeSpec::new(Kind::Host, "MT4119 ConnectX", 1).guid(6)).unwrap();
        let graph = builder.finish();
        let error = find(&graph, "MT4119 ConnectX").unwrap_err();
        assert!(error.to_string().contains("0x0000000000000005 or 0x0000000000000006"), "{error}");
        assert!(matches!(find(&graph, "0x6"), Ok(Named::Node(NodeIx(1)))));
    }
}
