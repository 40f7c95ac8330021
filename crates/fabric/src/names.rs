//! Nodes, ports and cables as people name them: by NodeDescription, GUID, LID, or one of these with a slash
//! and a port.

use mad::text::{is_plain, plain};
use topology::{Graph, Kind, NodeIx, PortIx};

/// Candidates that an error names.
const NAMED: usize = 5;

/// A name that leads to nothing, or to too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No node has it.
    #[error(
        "nothing here is named `{name}`: give a NodeDescription, a GUID (0x…){}{near}",
        if *with_port { ", a LID, or one of these with /PORT" } else { " or a LID" }
    )]
    Unknown {
        /// As it was given.
        name: String,
        /// A port may be named, too.
        with_port: bool,
        /// Names that are like it.
        near: String,
    },
    /// Several nodes have it.
    #[error("`{name}` is the NodeDescription of {count} nodes: give a GUID, {guids}")]
    Ambiguous {
        /// As it was given.
        name: String,
        /// The number of them.
        count: usize,
        /// The GUIDs of the first.
        guids: String,
    },
    /// It is the description of one node, and names another one as a LID or as NODE/PORT.
    #[error(
        "`{name}` is ambiguous: it is the NodeDescription of {chosen}, and {meant}: give a GUID or `lid N`"
    )]
    Either {
        /// As it was given.
        name: String,
        /// GUID of the node that calls itself so.
        chosen: String,
        /// What else it means, in words.
        meant: String,
    },
    /// The node is there, and has no such port.
    #[error("`{node}` has no port {port}: give 1 to {ports}")]
    NoPort {
        /// The node.
        node: String,
        /// The port.
        port: u32,
        /// How many it has.
        ports: u8,
    },
    /// The node is there, and what stands behind it is no number.
    #[error("`{word}` is not a port number of `{node}`: give 1 to {ports}")]
    NotAPort {
        /// The node.
        node: String,
        /// What is in the place of a port.
        word: String,
        /// How many it has.
        ports: u8,
    },
    /// A port was needed, and the node has several with cables.
    #[error("`{name}` has {count} cables: give the port too, as in `{name}/{first}`")]
    WhichPort {
        /// As it was given.
        name: String,
        /// The number of them.
        count: usize,
        /// The number of the first.
        first: u8,
    },
    /// A cable was needed, and there is none.
    #[error("{place} has no cable: give a port with a cable")]
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

/// A node as people find it: its [text], with its GUID if others have the same.
#[must_use]
pub fn label(graph: &Graph, node: NodeIx) -> String {
    let name = text(graph, node);
    // A node without a GUID has nothing better.
    match graph.node_guid(node) {
        guid if guid != 0 && graph.is_name_shared(node) && !name.starts_with("0x") => {
            format!("{name} ({guid:#018x})")
        }
        _ => name,
    }
}

/// A node's text, or its GUID if nothing of that can be seen. Text of strangers loses what may not go to a
/// terminal.
#[must_use]
pub fn text(graph: &Graph, node: NodeIx) -> String {
    let name = graph.name(node);
    if !name.chars().any(|c| is_plain(c) && !c.is_whitespace()) {
        return format!("{:#018x}", graph.node_guid(node));
    }
    plain(name.trim_matches(|c: char| c.is_whitespace() || c.is_control()))
}

/// The node or port of a name. GUIDs (`0x…`) and `lid N` go before descriptions, which any node may choose
/// for itself; what could be a number or a port as well as somebody's description is an error that names
/// both.
///
/// # Errors
/// No node has it, or several have it.
pub fn find(graph: &Graph, name: &str) -> Result<Named, NameError> {
    let whole = node_of(graph, name);
    if matches!(whole, Err(NameError::Ambiguous { .. } | NameError::Either { .. })) {
        return whole;
    }
    let Some((node, number)) = name.rsplit_once('/') else { return whole };
    let Ok(number) = number.trim().parse::<u32>() else {
        return match (&whole, node_of(graph, node)) {
            (Err(NameError::Unknown { .. }), Ok(Named::Node(node))) => {
                let (word, ports) = (plain(number), graph.port_count(node));
                Err(NameError::NotAPort { node: label(graph, node), word, ports })
            }
            _ => whole,
        };
    };
    let node = match node_of(graph, node) {
        Ok(Named::Node(node)) => node,
        Ok(Named::Port(port)) => graph.owner(port),
        Err(error) => return if whole.is_ok() { whole } else { Err(error) },
    };
    let there = u8::try_from(number).ok().and_then(|number| graph.port(node, number)).map(Named::Port);
    match (whole, there) {
        (Ok(whole), Some(port)) => Err(either(graph, name, whole, port)),
        (Ok(whole), None) => Ok(whole),
        (Err(_), Some(port)) => Ok(port),
        (Err(_), None) => {
            Err(NameError::NoPort { node: label(graph, node), port: number, ports: graph.port_count(node) })
        }
    }
}

/// The node of a name without a port.
///
/// # Errors
/// No node has it, or several have it.
pub fn node(graph: &Graph, name: &str) -> Result<NodeIx, NameError> {
    match node_of(graph, name) {
        Ok(named) => Ok(owner(graph, named)),
        Err(NameError::Unknown { name, near, .. }) => {
            Err(NameError::Unknown { name, with_port: false, near })
        }
        Err(error) => Err(error),
    }
}

/// Who has a GUID: a node, or a port of a host.
fn of_guid(graph: &Graph, guid: u64) -> Result<Option<Named>, Vec<NodeIx>> {
    let living = || graph.nodes().filter(|node| !graph.is_dead(*node));
    let found: Vec<NodeIx> = living().filter(|node| guid != 0 && graph.node_guid(*node) == guid).collect();
    match found.as_slice() {
        [node] => Ok(Some(Named::Node(*node))),
        [] => {
            let ports = living().filter(|node| graph.kind(*node) != Kind::Switch);
            let mut ports = ports.flat_map(|node| graph.ports(node));
            Ok(ports.find(|port| guid != 0 && graph.port_guid(*port) == guid).map(Named::Port))
        }
        _ => Err(found),
    }
}

fn node_of(graph: &Graph, name: &str) -> Result<Named, NameError> {
    let name = name.trim();
    let several = |several: &[NodeIx]| {
        let guids: Vec<String> =
            several.iter().take(NAMED).map(|node| format!("{:#018x}", graph.node_guid(*node))).collect();
        NameError::Ambiguous { name: name.to_owned(), count: several.len(), guids: guids.join(" or ") }
    };
    if let Some(guid) = name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
        && let Some(named) = of_guid(graph, guid).map_err(|nodes| several(&nodes))?
    {
        return Ok(named);
    }
    let said = name.strip_prefix("lid ").or_else(|| name.strip_prefix("LID "));
    let of_lid = said.unwrap_or(name).trim().parse::<u16>().ok().and_then(|lid| of_lid(graph, lid));
    if let Some(named) = of_lid.filter(|_| said.is_some()) {
        return Ok(named);
    }
    let living = graph.nodes().filter(|node| !graph.is_dead(*node));
    let found: Vec<NodeIx> = living.filter(|node| text(graph, *node) == name).collect();
    match (found.as_slice(), of_lid) {
        ([], Some(named)) => Ok(named),
        ([node], None) => Ok(Named::Node(*node)),
        // A node whose description is its own LID.
        ([node], Some(named)) if owner(graph, named) == *node => Ok(named),
        ([node, ..], Some(named)) => Err(either(graph, name, Named::Node(*node), named)),
        ([], None) => {
            Err(NameError::Unknown { name: name.to_owned(), with_port: true, near: near(graph, name) })
        }
        (nodes, None) => Err(several(nodes)),
    }
}

fn owner(graph: &Graph, named: Named) -> NodeIx {
    match named {
        Named::Node(node) => node,
        Named::Port(port) => graph.owner(port),
    }
}

/// A chosen name that also has another meaning.
fn either(graph: &Graph, name: &str, chosen: Named, meant: Named) -> NameError {
    let node = owner(graph, meant);
    let lid = name.trim().parse::<u16>().ok();
    let port = match meant {
        Named::Port(port) if lid.is_none() => format!("/{}", graph.number(port)),
        _ => String::new(),
    };
    let guid = |node| format!("{:#018x}", graph.node_guid(node));
    NameError::Either {
        name: name.to_owned(),
        chosen: guid(owner(graph, chosen)),
        meant: match lid {
            Some(lid) => format!("LID {lid} belongs to {} (`lid {lid}`)", label(graph, node)),
            None => format!("it is also a port of {} ({}{port})", label(graph, node), guid(node)),
        },
    }
}
/// Who responds to a LID.
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
        .map(|node| text(graph, node))
        .filter(|label| like(label))
        .take(NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    if names.is_empty() { String::new() } else { format!("; similar: {}", names.join(", ")) }
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
        let error = find(&graph, &format!("{name}/x")).unwrap_err().to_string();
        assert_eq!(error, format!("`x` is not a port number of `{name}`: give 1 to 1"));
        assert_eq!(super::node(&graph, &name), Ok(node));
        let error = super::node(&graph, &format!("{name}/1")).unwrap_err().to_string();
        assert!(error.contains("(0x…) or a LID; similar: `") && !error.contains("/PORT"), "{error}");
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

    /// A node's description may be another one's GUID, LID or port.
    #[test]
    fn a_description_does_not_take_over_guids_lids_and_ports() {
        let mut builder = GraphBuilder::new();
        let leaf = builder.node(NodeSpec::new(Kind::Switch, "leaf", 8).guid(4)).unwrap();
        let honest = builder.node(NodeSpec::new(Kind::Host, "honest", 1).guid(5)).unwrap();
        let mut others = Vec::new();
        for (guid, name) in [(6, "0x0000000000000005"), (7, "17"), (8, "lid 17"), (9, "leaf/3")] {
            others.push(builder.node(NodeSpec::new(Kind::Host, name, 1).guid(guid)).unwrap());
        }
        builder.lid(honest, 1, 17, 0);
        builder.link((leaf, 1), (honest, 1), topology::LinkSpec::EDR4X).unwrap();
        let graph = builder.finish();
        let port = graph.port(honest, 1).unwrap();
        assert_eq!(find(&graph, "0x0000000000000005"), Ok(Named::Node(honest)));
        assert_eq!(find(&graph, "0x5"), Ok(Named::Node(honest)));
        assert_eq!(find(&graph, "lid 17"), Ok(Named::Port(port)));
        assert_eq!(find(&graph, "LID 17"), Ok(Named::Port(port)));
        let error = find(&graph, "17").unwrap_err().to_string();
        assert!(error.contains("0x0000000000000007") && error.contains("honest"), "{error}");
        let error = find(&graph, "leaf/3").unwrap_err().to_string();
        assert!(error.contains("0x0000000000000009") && error.contains("0x0000000000000004/3"), "{error}");
        // A node may well be called by its own LID.
        let mut builder = GraphBuilder::new();
        let host = builder.node(NodeSpec::new(Kind::Host, "17", 1).guid(5)).unwrap();
        builder.lid(host, 1, 17, 0);
        assert!(matches!(find(&builder.finish(), "17"), Ok(Named::Port(_))));
    }

    #[test]
    fn text_of_strangers_is_shown_without_what_controls_a_terminal() {
        let mut builder = GraphBuilder::new();
        builder.node(NodeSpec::new(Kind::Host, " a\u{1b}[31m\u{202e}b\u{9b}\u{2028}c ", 1).guid(5)).unwrap();
        builder.node(NodeSpec::new(Kind::Host, "\u{7}\u{202e} ", 1).guid(6)).unwrap();
        let graph = builder.finish();
        assert_eq!(label(&graph, NodeIx(0)), "a\u{fffd}[31m\u{fffd}b\u{fffd}\u{fffd}c");
        assert_eq!(label(&graph, NodeIx(1)), "0x0000000000000006");
    }
}
