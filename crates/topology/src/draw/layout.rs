//! The positions of switches in a drawing.

use std::collections::BTreeMap;

use crate::graph::{Graph, Kind, NodeIx};
use crate::recognise::{Shape, recognise};

/// Where something stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The most switches that are placed by springs; more are placed on a circle.
const SPRINGS: usize = 300;
/// Steps of the springs.
const STEPS: usize = 150;
/// Shapes that are this likely are drawn as such, though none may rely on it.
const LIKELY: f64 = 0.4;

/// The place of each switch, and of what has no switch to be under.
pub(super) fn places(graph: &Graph) -> BTreeMap<NodeIx, Place> {
    let found = recognise(graph);
    let mut places = match &found.shape {
        _ if found.confidence < LIKELY => without_shape(graph),
        Shape::Tree { level, .. } => tree(graph, level),
        Shape::Dragonfly { group, .. } => groups(graph, group),
        Shape::Grid { sizes, coordinates, .. } => grid(graph, sizes, coordinates),
        Shape::Unknown => without_shape(graph),
    };
    let left = places.values().map(|place| place.x).fold(f64::INFINITY, f64::min);
    let top = places.values().map(|place| place.y).fold(f64::INFINITY, f64::min);
    for place in places.values_mut() {
        place.x -= left;
        place.y -= top;
    }
    rest(graph, &mut places);
    places
}

/// What has no place yet is in rows below all others.
fn rest(graph: &Graph, places: &mut BTreeMap<NodeIx, Place>) {
    let width = places.values().map(|place| place.x).fold(7.0, f64::max) as usize + 1;
    let below = places.values().map(|place| place.y + 1.0).fold(0.0, f64::max);
    let lost = |node: &NodeIx| match graph.kind(*node) {
        Kind::Switch => !places.contains_key(node),
        Kind::Host | Kind::Router => super::first_switch(graph, *node).is_none(),
    };
    let lost: Vec<NodeIx> = graph.nodes().filter(lost).collect();
    for (at, node) in lost.into_iter().enumerate() {
        places.insert(node, Place { x: (at % width) as f64, y: below + (at / width) as f64 });
    }
}

/// The top level above, each switch near the middle of what is below it.
fn tree(graph: &Graph, level: &[u8]) -> BTreeMap<NodeIx, Place> {
    let top = level.iter().copied().max().unwrap_or(1);
    let mut places: BTreeMap<NodeIx, Place> = BTreeMap::new();
    let rows: Vec<Vec<NodeIx>> = (1..=top)
        .map(|wanted| graph.nodes_of(Kind::Switch).filter(|node| level[node.index()] == wanted).collect())
        .collect();
    let widest = rows.iter().map(Vec::len).max().unwrap_or(1) as f64;
    for (height, mut row) in rows.into_iter().enumerate() {
        if height > 0 {
            let middle = |node: &NodeIx| {
                let below = graph.cabled(*node).filter_map(|(_, peer)| places.get(&graph.owner(peer)));
                let (sum, count) = below.fold((0.0, 0.0), |(sum, count), place| (sum + place.x, count + 1.0));
                if count == 0.0 { 0.0 } else { sum / count }
            };
            // To a hundredth, so that rounding puts no switch before its sister.
            row.sort_by_key(|node| ((middle(node) * 100.0).round() as i64, *node));
        }
        let room = widest / row.len().max(1) as f64;
        let y = f64::from(top) - height as f64;
        for (at, node) in row.into_iter().enumerate() {
            places.insert(node, Place { x: (at as f64 + 0.5) * room, y });
        }
    }
    places
}

/// Groups on a circle, each group's switches in a block.
fn groups(graph: &Graph, group: &[u32]) -> BTreeMap<NodeIx, Place> {
    let mut members: BTreeMap<u32, Vec<NodeIx>> = BTreeMap::new();
    for node in graph.nodes_of(Kind::Switch).filter(|node| group[node.index()] != u32::MAX) {
        members.entry(group[node.index()]).or_default().push(node);
    }
    let most = members.values().map(Vec::len).max().unwrap_or(1);
    let columns = (most as f64).sqrt().ceil().max(1.0) as usize;
    let count = members.len() as f64;
    // So far out that blocks beside each other don't touch.
    let radius = ((columns as f64 + 1.5) * 1.3 * count / std::f64::consts::TAU).max(columns as f64 + 1.0);
    let mut places = BTreeMap::new();
    for (at, row) in members.into_values().enumerate() {
        let turn = at as f64 / count * std::f64::consts::TAU;
        for (index, node) in row.into_iter().enumerate() {
            let (column, line) = (index % columns, index / columns);
            let x = radius * turn.sin() + column as f64;
            places.insert(node, Place { x, y: -radius * turn.cos() + line as f64 });
        }
    }
    places
}

/// The first two directions are a plane, of which the others make rows and columns in turn.
fn grid(graph: &Graph, sizes: &[u32], coordinates: &[Vec<u32>]) -> BTreeMap<NodeIx, Place> {
    let mut places = BTreeMap::new();
    let placed = |node: &NodeIx| coordinates.iter().all(|row| row[node.index()] != u32::MAX);
    for node in graph.nodes_of(Kind::Switch).filter(placed) {
        let (mut at, mut stride) = ([0.0, 0.0], [1.0, 1.0]);
        for (direction, (row, size)) in coordinates.iter().zip(sizes).enumerate() {
            let axis = direction % 2;
            at[axis] += f64::from(row[node.index()]) * stride[axis];
            stride[axis] = stride[axis] * f64::from(*size) + 0.6;
        }
        // In a plane a neighbour's neighbour is a little aside, so that the cables of each can be
        // distinguished.
        places.insert(node, Place { x: at[0], y: at[1] });
    }
    places
}

/// By springs, or on a circle if there are too many.
fn without_shape(graph: &Graph) -> BTreeMap<NodeIx, Place> {
    let nodes: Vec<NodeIx> = in_breadth(graph);
    let radius = (nodes.len() as f64 * 1.2 / std::f64::consts::TAU).max(1.0);
    let on_circle = |at: usize| {
        let turn = at as f64 / nodes.len() as f64 * std::f64::consts::TAU;
        Place { x: radius * turn.sin(), y: -radius * turn.cos() }
    };
    let mut places: Vec<Place> = (0..nodes.len()).map(on_circle).collect();
    if nodes.len() <= SPRINGS {
        springs(graph, &nodes, &mut places);
    }
    nodes.into_iter().zip(places).collect()
}

/// Switches in the order in which they are reached from the first.
fn in_breadth(graph: &Graph) -> Vec<NodeIx> {
    let mut seen = vec![false; graph.node_count()];
    let mut order = Vec::new();
    let mut next = 0;
    for start in graph.nodes_of(Kind::Switch).filter(|node| graph.cabled(*node).next().is_some()) {
        if !std::mem::replace(&mut seen[start.index()], true) {
            order.push(start);
        }
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for (_, peer) in graph.cabled(node) {
                let other = graph.owner(peer);
                if graph.kind(other) == Kind::Switch && !std::mem::replace(&mut seen[other.index()], true) {
                    order.push(other);
                }
            }
        }
    }
    order
}

/// Cables pull, switches push each other away; each step is shorter than the one before (Fruchterman and
/// Reingold, 1991).
fn springs(graph: &Graph, nodes: &[NodeIx], places: &mut [Place]) {
    let index: BTreeMap<NodeIx, usize> = nodes.iter().copied().zip(0..).collect();
    let ends = |(a, b)| Some((*index.get(&graph.owner(a))?, *index.get(&graph.owner(b))?));
    let pairs: Vec<(usize, usize)> = graph.links().filter_map(ends).collect();
    let wanted = 1.8;
    for step in 0..STEPS {
        let mut force = vec![(0.0, 0.0); places.len()];
        for a in 0..places.len() {
            for b in a + 1..places.len() {
                let (dx, dy) = (places[a].x - places[b].x, places[a].y - places[b].y);
                let far = (dx * dx + dy * dy).max(0.01);
                let push = wanted * wanted / far;
                force[a] = (force[a].0 + dx * push, force[a].1 + dy * push);
                force[b] = (force[b].0 - dx * push, force[b].1 - dy * push);
            }
        }
        for (a, b) in &pairs {
            let (dx, dy) = (places[*a].x - places[*b].x, places[*a].y - places[*b].y);
            let pull = (dx * dx + dy * dy).sqrt() / wanted;
            force[*a] = (force[*a].0 - dx * pull, force[*a].1 - dy * pull);
            force[*b] = (force[*b].0 + dx * pull, force[*b].1 + dy * pull);
        }
        let most = 2.0 * (1.0 - step as f64 / STEPS as f64);
        for (place, (dx, dy)) in places.iter_mut().zip(force) {
            let far = (dx * dx + dy * dy).sqrt().max(0.01);
            let step = far.min(most) / far;
            place.x += dx * step;
            place.y += dy * step;
        }
    }
}
