//! Writes Graphviz: switches as boxes, hosts as ellipses, an edge for each cable.

use super::*;

/// Writes an undirected graph for Graphviz. Nodes are called by their indices and labelled with their names;
/// parallel cables are edges of their own.
///
/// # Errors
/// Those of the writer.
pub fn dot(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "graph fabric {{\n  node [fontsize=10];")?;
    for node in living(graph) {
        let shape = match graph.kind(node) {
            Kind::Switch => "box",
            Kind::Host => "ellipse",
            Kind::Router => "diamond",
        };
        writeln!(out, "  n{} [shape={shape}, label=\"{}\"];", node.0, escaped(graph.name(node)))?;
    }
    for (a, b) in graph.links() {
        let (from, to) = (graph.owner(a), graph.owner(b));
        let (first, second) = (graph.number(a), graph.number(b));
        let label = graph.link(a).unwrap_or_default();
        let ends = format!("taillabel=\"{first}\", headlabel=\"{second}\"");
        writeln!(out, "  n{} -- n{} [{ends}, tooltip=\"{label}\"];", from.0, to.0)?;
    }
    writeln!(out, "}}")
}

fn escaped(name: &str) -> String {
    clean(name).replace('\\', "\\\\").replace('"', "\\\"")
}
