//! Draws a fabric as SVG, deterministically and without external files.
//!
//! The place of a switch follows from the [recognised](crate::recognise) shape: trees level by level,
//! dragonflies group by group, grids along their directions, anything else by springs or on a circle. Hosts
//! are a block of small marks under their switch. Each node has a title with its name and GUID.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::graph::{Graph, Kind, NodeIx};
use crate::text::is_hidden;

mod layout;
#[cfg(test)]
mod tests;

use layout::{Place, places};

/// Distance of two marks of hosts.
const PITCH: f64 = 7.0;
/// Size of a host's mark.
const MARK: f64 = 5.0;
/// Height of a switch's box.
const BOX: f64 = 14.0;
/// Up to so many hosts each has its name and its cable.
const FEW: usize = 64;

/// How large a switch is with its hosts.
struct Cell {
    width: f64,
    height: f64,
    /// Marks in a row of hosts.
    columns: usize,
    named: bool,
}

/// Writes the drawing.
///
/// # Errors
/// Those of the writer.
pub fn svg(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    let at_switch = hosts_of(graph);
    let cell = cell(graph, &at_switch);
    let places = places(graph);
    let spot = |place: &Place| (40.0 + (place.x + 0.5) * cell.width, 40.0 + place.y * cell.height);
    let spots: BTreeMap<NodeIx, (f64, f64)> =
        places.iter().map(|(node, place)| (*node, spot(place))).collect();
    let right = spots.values().map(|spot| spot.0).fold(200.0, f64::max) + cell.width / 2.0 + 40.0;
    let bottom = spots.values().map(|spot| spot.1).fold(60.0, f64::max) + cell.height + 20.0;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right:.0} {bottom:.0}\" width=\"{right:.0}\" height=\"{bottom:.0}\" font-family=\"sans-serif\">"
    )?;
    writeln!(out, "{STYLE}")?;
    writeln!(out, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>")?;
    cables(graph, &spots, &cell, out)?;
    for (node, spot) in &spots {
        match graph.kind(*node) {
            Kind::Switch => {
                switch(graph, *node, *spot, &cell, out)?;
                let hosts = at_switch.get(node).map_or(&[][..], Vec::as_slice);
                for (index, host) in hosts.iter().enumerate() {
                    mark(graph, *host, host_spot(*spot, index, hosts.len(), &cell), &cell, out)?;
                }
            }
            Kind::Host | Kind::Router => mark(graph, *node, *spot, &cell, out)?,
        }
    }
    writeln!(out, "</svg>")
}

const STYLE: &str = "<style>.paper{fill:#fff}.switch{fill:#2b6cb0}.host{fill:#48a868}.router{fill:#d69e2e}.dead{fill:#fff;stroke:#e53e3e;stroke-width:1.5}.cable{fill:none;stroke:#718096;stroke-opacity:.45}.name{fill:#fff;text-anchor:middle}.below{fill:#2d3748;text-anchor:middle}</style>";

/// Hosts and routers by the switch that their first cable leads to.
fn hosts_of(graph: &Graph) -> BTreeMap<NodeIx, Vec<NodeIx>> {
    let mut all: BTreeMap<NodeIx, Vec<NodeIx>> = BTreeMap::new();
    for node in graph.nodes().filter(|node| graph.kind(*node) != Kind::Switch) {
        if let Some(switch) = first_switch(graph, node) {
            all.entry(switch).or_default().push(node);
        }
    }
    all
}

/// The switch that a host's first cable leads to.
fn first_switch(graph: &Graph, node: NodeIx) -> Option<NodeIx> {
    let mut others = graph.cabled(node).map(|(_, peer)| graph.owner(peer));
    others.find(|other| graph.kind(*other) == Kind::Switch)
}

fn cell(graph: &Graph, at_switch: &BTreeMap<NodeIx, Vec<NodeIx>>) -> Cell {
    let most = at_switch.values().map(Vec::len).max().unwrap_or(0);
    let named = graph.node_count() - graph.count(Kind::Switch) <= FEW;
    let columns = if named { most.max(1) } else { ((most as f64 * 1.6).sqrt().ceil() as usize).max(1) };
    let pitch = if named { 46.0 } else { PITCH };
    let rows = most.div_ceil(columns);
    let width = (columns as f64 * pitch + 12.0).max(56.0);
    Cell { width, height: 90.0 + rows as f64 * PITCH, columns, named }
}

fn host_spot((x, y): (f64, f64), index: usize, of: usize, cell: &Cell) -> (f64, f64) {
    let pitch = if cell.named { 46.0 } else { PITCH };
    let wide = cell.columns.min(of);
    let column = index % cell.columns;
    let gap = if cell.named { 22.0 } else { 6.0 };
    let row = (index / cell.columns) as f64;
    (x + (column as f64 - (wide as f64 - 1.0) / 2.0) * pitch, y + BOX / 2.0 + gap + row * PITCH)
}

/// Cables between switches as one line a pair, the wider the more there are; hosts' cables where there are
/// few.
fn cables(
    graph: &Graph,
    spots: &BTreeMap<NodeIx, (f64, f64)>,
    cell: &Cell,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut pairs: BTreeMap<(NodeIx, NodeIx), usize> = BTreeMap::new();
    for (a, b) in graph.links() {
        let (a, b) = (graph.owner(a), graph.owner(b));
        if spots.contains_key(&a) && spots.contains_key(&b) {
            *pairs.entry((a.min(b), a.max(b))).or_default() += 1;
        }
    }
    let mut lines: BTreeMap<usize, String> = BTreeMap::new();
    for ((a, b), count) in pairs {
        let ((ax, ay), (bx, by)) = (spots[&a], spots[&b]);
        let line = lines.entry(count).or_default();
        line.push_str(&format!("M{ax:.0} {ay:.0}"));
        // What would run through others bends aside.
        let (across, along) = ((bx - ax).abs() / cell.width, (by - ay).abs() / cell.height);
        if (across < 0.01 && along > 1.5) || (along < 0.01 && across > 1.5) {
            let bend = 10.0 + 6.0 * (across + along).sqrt();
            let (mx, my) = ((ax + bx) / 2.0, (ay + by) / 2.0);
            let (cx, cy) =
                if along < 0.01 { (mx, my - bend - BOX) } else { (mx + bend + cell.width / 4.0, my) };
            line.push_str(&format!("Q{cx:.0} {cy:.0} {bx:.0} {by:.0}"));
        } else {
            line.push_str(&format!("L{bx:.0} {by:.0}"));
        }
    }
    for (count, line) in lines {
        let width = 0.8 + 0.6 * (count as f64 - 1.0).min(6.0);
        writeln!(out, "<path class=\"cable\" stroke-width=\"{width:.1}\" d=\"{line}\"/>")?;
    }
    if cell.named {
        for (switch, hosts) in hosts_of(graph) {
            let Some(spot) = spots.get(&switch) else { continue };
            for (index, _) in hosts.iter().enumerate() {
                let (x, y) = host_spot(*spot, index, hosts.len(), cell);
                writeln!(out, "<path class=\"cable\" d=\"M{:.0} {:.0}L{x:.0} {y:.0}\"/>", spot.0, spot.1)?;
            }
        }
    }
    Ok(())
}

fn switch(
    graph: &Graph,
    node: NodeIx,
    (x, y): (f64, f64),
    cell: &Cell,
    out: &mut dyn Write,
) -> io::Result<()> {
    let wide = (cell.width - 8.0).min(110.0);
    let class = if graph.is_dead(node) { "switch dead" } else { "switch" };
    let (left, top) = (x - wide / 2.0, y - BOX / 2.0);
    write!(out, "<g>{}", title(graph, node))?;
    write!(
        out,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{BOX}\" rx=\"3\"/>"
    )?;
    let class = if graph.is_dead(node) { "below" } else { "name" };
    label(graph.name(node), class, (x, y + 3.5), wide, 10.0, out)?;
    writeln!(out, "</g>")
}

fn mark(graph: &Graph, node: NodeIx, (x, y): (f64, f64), cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    let class = match (graph.is_dead(node), graph.kind(node)) {
        (true, _) => "host dead",
        (_, Kind::Router) => "router",
        _ => "host",
    };
    let (left, top) = (x - MARK / 2.0, y - MARK / 2.0);
    write!(
        out,
        "<g>{}<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{MARK}\" height=\"{MARK}\"/>",
        title(graph, node)
    )?;
    if cell.named {
        label(graph.name(node), "below", (x, y + 11.0), 44.0, 8.0, out)?;
    }
    writeln!(out, "</g>")
}

/// A name that fits: smaller, and from some size on shorter.
fn label(
    name: &str,
    class: &str,
    (x, y): (f64, f64),
    room: f64,
    size: f64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let letters = name.chars().count().max(1) as f64;
    let size = (room / (letters * 0.64)).clamp(5.0, size);
    let fits = (room / (size * 0.64)) as usize;
    let text: String = if name.chars().count() > fits {
        name.chars().take(fits.saturating_sub(1)).chain(['…']).collect()
    } else {
        name.to_owned()
    };
    write!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size:.1}\">{}</text>",
        escaped(&text)
    )
}

fn title(graph: &Graph, node: NodeIx) -> String {
    let cabled = graph.cabled(node).count();
    let kind = graph.kind(node).word();
    let dead = if graph.is_dead(node) { "dead " } else { "" };
    let name = escaped(graph.name(node));
    format!(
        "<title>{name}: {dead}{kind} {:#x}, {cabled} of {} ports cabled</title>",
        graph.node_guid(node),
        graph.port_count(node)
    )
}

/// What may be in XML: no markup, and no character that XML does not know.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push(' '),
            c if is_hidden(c) => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
