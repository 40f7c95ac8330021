//! Writes `opensm-subnet.lst`, as OpenSM dumps it and `ibdmchk` reads it.

use super::*;
use crate::read::subnet_speed;

/// Writes a line for each end of each cable. Nodes without a cable, LIDs' masks and labels of a chassis have
/// no place in it. A node is its GUID there: [`Graph::with_guids`] gives one to a node that has none of its
/// own.
///
/// # Errors
/// Those of the writer.
pub fn subnet_list(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    let graph = &graph.with_guids();
    for node in living(graph) {
        for (port, peer) in graph.cabled(node) {
            let spec = graph.link(port).unwrap_or_default();
            let speed = subnet_speed(spec.speed);
            let width = match spec.width {
                Width::Unknown => "???".to_owned(),
                width => format!("{}x", width.lanes()),
            };
            writeln!(out, "{} {} PHY={width} LOG=ACT SPD={speed}", side(graph, port), side(graph, peer))?;
        }
    }
    Ok(())
}

fn side(graph: &Graph, port: PortIx) -> String {
    let node = graph.owner(port);
    let word = match graph.kind(node) {
        Kind::Switch => "SW",
        Kind::Host => "CA",
        Kind::Router => "Rt",
    };
    format!(
        "{{ {word} Ports:{:02X} SystemGUID:{:016X} NodeGUID:{:016X} PortGUID:{:016X} VenID:{:06X} DevID:{:04X} Rev:{:08X} {{{}}} LID:{:04X} PN:{:02X} }}",
        graph.port_count(node),
        graph.system_guid(node),
        graph.node_guid(node),
        graph.port_guid(port),
        graph.vendor(node),
        graph.device(node),
        0,
        clean(graph.name(node)),
        graph.lid(port),
        graph.number(port),
    )
}
