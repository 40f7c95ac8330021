//! Writes our own format, in TOML.

use super::*;
use crate::read::OWN_KEY;

/// Writes all that the graph holds, one line a node and a cable.
///
/// # Errors
/// Those of the writer.
pub fn toml(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    let ids = ids(graph);
    writeln!(out, "{OWN_KEY} = 1\n\nnodes = [")?;
    for node in living(graph) {
        row(graph, node, &ids[node.index()], out)?;
    }
    writeln!(out, "]\n\nlinks = [")?;
    for (a, b) in graph.links() {
        let end = |port| {
            let node = graph.owner(port);
            let id = ids[node.index()].as_deref().unwrap_or_else(|| graph.name(node));
            format!("[{}, {}]", quoted(id), graph.number(port))
        };
        let spec = graph.link(a).unwrap_or_default();
        let rate = if spec == LinkSpec::default() { String::new() } else { format!(", rate = \"{spec}\"") };
        writeln!(out, "  {{ from = {}, to = {}{rate} }},", end(a), end(b))?;
    }
    writeln!(out, "]")
}

/// Ids of the nodes whose names others have too. No other name is one of them.
fn ids(graph: &Graph) -> Vec<Option<String>> {
    let (mut names, mut twice) = (HashSet::new(), HashSet::new());
    for node in graph.nodes() {
        if !names.insert(graph.name(node)) {
            twice.insert(graph.name(node));
        }
    }
    let id = |node: NodeIx| {
        let mut id = format!("{}#{}", graph.name(node), node.0);
        while names.contains(id.as_str()) {
            id.push('#');
        }
        id
    };
    graph.nodes().map(|node| twice.contains(graph.name(node)).then(|| id(node))).collect()
}

/// A string of TOML on one line, whose hidden characters are escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_hidden(c) => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn row(graph: &Graph, node: NodeIx, id: &Option<String>, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "  {{ ")?;
    if let Some(id) = id {
        write!(out, "id = {}, ", quoted(id))?;
    }
    let (name, kind) = (quoted(graph.name(node)), graph.kind(node));
    write!(out, "name = {name}, kind = \"{}\", ports = {}", kind.word(), graph.port_count(node))?;
    let (guid, system) = (graph.node_guid(node), graph.system_guid(node));
    if guid != 0 {
        write!(out, ", guid = \"{guid:#x}\"")?;
    }
    if system != guid {
        write!(out, ", system = \"{system:#x}\"")?;
    }
    for (key, value) in [("vendor", graph.vendor(node)), ("device", graph.device(node))] {
        if value != 0 {
            write!(out, ", {key} = {value:#x}")?;
        }
    }
    let first = PortIx(graph.ports(node).0.start);
    if kind == Kind::Switch {
        let (lid, lmc) = (graph.lid(first), graph.lmc(first));
        if (lid, lmc) != (0, 0) {
            write!(out, ", lid = {lid}, lmc = {lmc}")?;
        }
    }
    let ports: Vec<String> = graph.ports(node).filter_map(|port| notes(graph, port)).collect();
    if !ports.is_empty() {
        write!(out, ", port = [{}]", ports.join(", "))?;
    }
    writeln!(out, " }},")
}

/// What a port has that its node has not.
fn notes(graph: &Graph, port: PortIx) -> Option<String> {
    let (node, number) = (graph.owner(port), graph.number(port));
    let is_switch = graph.kind(node) == Kind::Switch;
    let guid = graph.node_guid(node);
    let usual =
        if is_switch || number == 0 || guid == 0 { guid } else { guid.wrapping_add(u64::from(number)) };
    let mut notes = String::new();
    if graph.port_guid(port) != usual && (!is_switch || number == 0) {
        notes.push_str(&format!(", guid = \"{:#x}\"", graph.port_guid(port)));
    }
    if !is_switch && (graph.lid(port), graph.lmc(port)) != (0, 0) {
        notes.push_str(&format!(", lid = {}, lmc = {}", graph.lid(port), graph.lmc(port)));
    }
    if let Some(label) = graph.external(port) {
        notes.push_str(&format!(", label = {label}"));
    }
    (!notes.is_empty()).then(|| format!("{{ number = {number}{notes} }}"))
}
