//! Writes dumps as `ibnetdiscover` prints them, and net files for `ibsim`.

use super::*;

/// Longest name that the simulator takes as a node's id.
const LONGEST_ID: usize = 60;

/// Writes what `ibnetdiscover` would print. Rates that are not known are left out, or written as `4x???`.
///
/// # Errors
/// Those of the writer.
pub fn ibnetdiscover(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    let ids = graph.nodes().map(|node| dump_id(graph, node)).collect::<Vec<_>>();
    write(graph, &ids, out)
}

/// Writes a net file for `ibsim`: nodes are called by their names where these are simple and unique, so that
/// the simulator's console and `SIM_HOST` take them.
///
/// # Errors
/// Those of the writer.
pub fn ibsim(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    let (mut once, mut twice) = (HashSet::new(), HashSet::new());
    for node in graph.nodes() {
        if !once.insert(graph.name(node)) {
            twice.insert(graph.name(node));
        }
    }
    let simple = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        !name.is_empty() && name.len() <= LONGEST_ID && name.bytes().all(plain) && !twice.contains(name)
    };
    let id = |node| {
        let name = graph.name(node);
        if simple(name) { name.to_owned() } else { dump_id(graph, node) }
    };
    let ids = graph.nodes().map(id).collect::<Vec<_>>();
    write(graph, &ids, out)
}

/// `S-` and the GUID; unique also where GUIDs are not.
fn dump_id(graph: &Graph, node: NodeIx) -> String {
    let letter = match graph.kind(node) {
        Kind::Switch => 'S',
        Kind::Host => 'H',
        Kind::Router => 'R',
    };
    let guid = graph.node_guid(node);
    if graph.node_by_guid(guid) == Some(node) {
        format!("{letter}-{guid:016x}")
    } else {
        format!("{letter}-{guid:016x}-{}", node.0)
    }
}

fn write(graph: &Graph, ids: &[String], out: &mut dyn Write) -> io::Result<()> {
    for node in living(graph) {
        header(graph, node, &ids[node.index()], out)?;
        for (port, peer) in graph.cabled(node) {
            cable(graph, port, peer, &ids[graph.owner(peer).index()], out)?;
        }
    }
    Ok(())
}

fn header(graph: &Graph, node: NodeIx, id: &str, out: &mut dyn Write) -> io::Result<()> {
    let (kind, guid) = (graph.kind(node), graph.node_guid(node));
    writeln!(out, "\nvendid={:#x}\ndevid={:#x}", graph.vendor(node), graph.device(node))?;
    writeln!(out, "sysimgguid={:#x}", graph.system_guid(node))?;
    let first = PortIx(graph.ports(node).0.start);
    let (word, key) = match kind {
        Kind::Switch => ("Switch", "switchguid"),
        Kind::Host => ("Ca", "caguid"),
        Kind::Router => ("Rt", "rtguid"),
    };
    match kind {
        _ if guid == 0 => {}
        Kind::Switch => writeln!(out, "{key}={guid:#x}({:x})", graph.port_guid(first))?,
        Kind::Host | Kind::Router => writeln!(out, "{key}={guid:#x}")?,
    }
    let name = clean(graph.name(node));
    write!(out, "{word}\t{} \"{id}\"\t\t# \"{name}\"", graph.port_count(node))?;
    if kind == Kind::Switch {
        write!(out, " enhanced port 0 lid {} lmc {}", graph.lid(first), graph.lmc(first))?;
    }
    writeln!(out)
}

fn cable(graph: &Graph, port: PortIx, peer: PortIx, id: &str, out: &mut dyn Write) -> io::Result<()> {
    let is_end = |port| graph.kind(graph.owner(port)) != Kind::Switch;
    write!(out, "[{}]", graph.number(port))?;
    if is_end(port) {
        write!(out, "({:x}) ", graph.port_guid(port))?;
    }
    if let Some(label) = graph.external(port) {
        write!(out, "[ext {label}]")?;
    }
    write!(out, "\t\"{id}\"[{}]", graph.number(peer))?;
    if let Some(label) = graph.external(peer) {
        write!(out, "[ext {label}]")?;
    }
    if is_end(peer) {
        write!(out, "({:x}) ", graph.port_guid(peer))?;
    }
    write!(out, "\t\t# ")?;
    if is_end(port) {
        write!(out, "lid {} lmc {} ", graph.lid(port), graph.lmc(port))?;
    }
    let name = clean(graph.name(graph.owner(peer)));
    writeln!(out, "\"{name}\" lid {}{}", graph.lid(peer), rate(graph.link(port).unwrap_or_default()))
}

/// ` 4xHDR`; nothing if nothing is known.
fn rate(spec: LinkSpec) -> String {
    match (spec.width, spec.speed) {
        (Width::Unknown, Speed::Unknown) => String::new(),
        (width, Speed::Unknown) => format!(" {}x???", width.lanes()),
        (width, speed) => format!(" {}x{}", width.lanes(), speed.word()),
    }
}
