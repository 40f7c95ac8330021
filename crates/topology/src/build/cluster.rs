//! Builds fabrics like real clusters: trees with aggregation nodes, partly filled leaves, storage
//! islands, multi-rail servers, several planes, multi-cable trunks.

use super::{BuildError, FatTree, GUIDS, Maker, fat_tree, ports, sizes};
use crate::graph::{Graph, GraphBuilder, Kind, LinkSpec, NodeIx, NodeSpec, PortIx};

/// Vendor and model of an aggregation node, and what it calls itself.
const AGGREGATION: (u32, u32, &str) = (0x2c9, 0xcf09, "Mellanox Technologies Aggregation Node");

/// A graph with more ports at its switches and without some of its nodes.
fn taken_over(
    graph: &Graph,
    more: impl Fn(NodeIx) -> u32,
    keep: impl Fn(NodeIx) -> bool,
) -> Result<(GraphBuilder, Vec<Option<NodeIx>>), BuildError> {
    let mut builder = GraphBuilder::new();
    let mut now = vec![None; graph.node_count()];
    for node in graph.nodes().filter(|node| keep(*node)) {
        let count = u64::from(graph.port_count(node)) + u64::from(more(node));
        let spec = NodeSpec {
            kind: graph.kind(node),
            name: graph.name(node),
            ports: ports("fabric", "a switch", count)?,
            node_guid: graph.node_guid(node),
            system_guid: graph.system_guid(node),
            vendor: graph.vendor(node),
            device: graph.device(node),
        };
        now[node.index()] = Some(builder.node(spec)?);
    }
    for (a, b) in graph.links() {
        let end = |port: PortIx| Some((now[graph.owner(port).index()]?, graph.number(port)));
        if let (Some(from), Some(to), Some(link)) = (end(a), end(b), graph.link(a)) {
            builder.link(from, to, link)?;
        }
    }
    Ok((builder, now))
}

/// A fabric with an aggregation node at a further port of each switch, as all of HDR and later have one.
///
/// # Errors
/// A switch has no number left for a port.
pub fn with_aggregation(graph: &Graph) -> Result<Graph, BuildError> {
    let is_switch = |node: NodeIx| graph.kind(node) == Kind::Switch;
    let (mut builder, now) = taken_over(graph, |node| u32::from(is_switch(node)), |_| true)?;
    for (number, switch) in (1_u64..).zip(graph.nodes_of(Kind::Switch)) {
        let (vendor, device, name) = AGGREGATION;
        let spec = NodeSpec { vendor, device, ..NodeSpec::new(Kind::Host, name, 1) };
        let node = builder.node(spec.guid(GUIDS | 3 << 32 | number << 8))?;
        if let Some(now) = now[switch.index()] {
            builder.link((node, 1), (now, graph.port_count(switch) + 1), LinkSpec::EDR4X)?;
        }
    }
    Ok(builder.finish())
}

/// A tree of which the leaves have different numbers of hosts: these, again and again from leaf to leaf; of
/// those that have fewer none is taken.
///
/// # Errors
/// The graph refuses it.
pub fn uneven(whole: &Graph, hosts: &[u32]) -> Result<Graph, BuildError> {
    let mut keep = vec![true; whole.node_count()];
    let leaves = whole.nodes_of(Kind::Switch).filter(|leaf| hosts_of(whole, *leaf).next().is_some());
    for (leaf, count) in leaves.zip(hosts.iter().cycle()) {
        hosts_of(whole, leaf).skip(*count as usize).for_each(|host| keep[host.index()] = false);
    }
    let (builder, _) = taken_over(whole, |_| 0, |node| keep[node.index()])?;
    Ok(builder.finish())
}

fn hosts_of(graph: &Graph, switch: NodeIx) -> impl Iterator<Item = NodeIx> + '_ {
    graph.cabled(switch).map(|(_, far)| graph.owner(far)).filter(|node| graph.kind(*node) == Kind::Host)
}

/// Leaves of storage that hang from the top of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Island {
    /// The tree of the hosts that compute.
    pub tree: FatTree,
    /// Leaves of storage.
    pub leaves: u32,
    /// Servers at each.
    pub hosts_per_leaf: u32,
    /// Cables from each to the top, one switch after the other.
    pub up: u32,
}

/// Builds it.
///
/// # Errors
/// As [`fat_tree`]; too many ports.
pub fn with_island(shape: &Island) -> Result<Graph, BuildError> {
    let tree = fat_tree(&shape.tree)?;
    let (leaves, up) = (shape.leaves, shape.up);
    sizes("island", u64::from(leaves) * u64::from(shape.hosts_per_leaf), u64::from(leaves))?;
    let is_top = |node: &NodeIx| tree.kind(*node) == Kind::Switch && tree.name(*node).starts_with("spine");
    let tops: Vec<NodeIx> = tree.nodes().filter(is_top).collect();
    let more = (leaves * up).div_ceil(tops.len() as u32);
    let (mut builder, now) = taken_over(&tree, |node| if is_top(&node) { more } else { 0 }, |_| true)?;
    let mut used = vec![0_u8; tops.len()];
    let mut host = 0_u64;
    for leaf in 0..leaves {
        let count = ports("island", "a leaf of storage", u64::from(shape.hosts_per_leaf + up))?;
        let spec = NodeSpec::new(Kind::Switch, "", count).guid(GUIDS | 4 << 32 | u64::from(leaf + 1) << 8);
        let node = builder.node(NodeSpec { name: &format!("store{leaf:03}"), ..spec })?;
        for cable in 0..up {
            let top = ((leaf * up + cable) as usize) % tops.len();
            used[top] += 1;
            let Some(there) = now[tops[top].index()] else { continue };
            let far = (there, tree.port_count(tops[top]) + used[top]);
            builder.link((node, (shape.hosts_per_leaf + cable + 1) as u8), far, shape.tree.link)?;
        }
        for at in 0..shape.hosts_per_leaf {
            host += 1;
            let spec = NodeSpec::new(Kind::Host, "", 1).guid(GUIDS | 5 << 32 | host << 8);
            let server = builder.node(NodeSpec { name: &format!("server{:04}", host - 1), ..spec })?;
            builder.link((server, 1), (node, (at + 1) as u8), shape.tree.link)?;
        }
    }
    Ok(builder.finish())
}

/// Servers of many adapters, each on the leaf of its rail; rails meet at the cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rails {
    /// Groups of servers; each has a leaf a rail.
    pub units: u32,
    /// Servers of a unit.
    pub servers: u32,
    /// Adapters of a server.
    pub rails: u32,
    /// Spines of a rail: each leaf of the rail has a cable to each.
    pub spines: u32,
    /// Cores: each spine has a cable to each.
    pub cores: u32,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

/// Builds it. The adapters of a server have one system GUID.
///
/// # Errors
/// Too many of anything.
pub fn rails(shape: &Rails) -> Result<Graph, BuildError> {
    let Rails { units, servers, rails, spines, cores, link } = *shape;
    let (leaves, all) = (u64::from(units) * u64::from(rails), u64::from(rails) * u64::from(spines));
    sizes("rails", leaves * u64::from(servers), leaves + all + u64::from(cores))?;
    let mut maker = Maker::new();
    let mut make = |word: &str, count: u64, number: u64| {
        let ports = ports("rails", "a switch", number)?;
        (0..count).map(|at| maker.switch(&format!("{word}{at:03}"), ports)).collect::<Result<Vec<_>, _>>()
    };
    let leaf = make("leaf", leaves, u64::from(servers + spines))?;
    let spine = make("spine", all, u64::from(units + cores))?;
    let core = make("core", u64::from(cores), all)?;
    for server in 0..u64::from(units * servers) {
        let (unit, place) = (server / u64::from(servers), (server % u64::from(servers)) as u8);
        for rail in 0..u64::from(rails) {
            let name = format!("server{server:04}_mlx5_{rail}");
            let guid = GUIDS | 2 << 32 | (server * u64::from(rails) + rail + 1) << 8;
            let system = GUIDS | 6 << 32 | (server + 1) << 8;
            let spec = NodeSpec { system_guid: system, ..NodeSpec::new(Kind::Host, &name, 1).guid(guid) };
            let host = maker.graph.node(NodeSpec { system_guid: system, ..spec })?;
            maker.graph.link(
                (host, 1),
                (leaf[(unit * u64::from(rails) + rail) as usize], place + 1),
                link,
            )?;
        }
    }
    for (at, node) in leaf.iter().enumerate() {
        let (unit, rail) = (at as u32 / rails, at as u32 % rails);
        for up in 0..spines {
            let there = spine[(rail * spines + up) as usize];
            maker.graph.link((*node, (servers + up + 1) as u8), (there, (unit + 1) as u8), link)?;
        }
    }
    for (at, node) in spine.iter().enumerate() {
        for (up, there) in core.iter().enumerate() {
            maker.graph.link((*node, (units as usize + up + 1) as u8), (*there, (at + 1) as u8), link)?;
        }
    }
    Ok(maker.finish())
}

/// Hosts with a port in each of several equal trees of two levels, which meet at a few switches above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planes {
    /// How many trees.
    pub planes: u32,
    /// Leaves of each.
    pub leaves: u32,
    /// Hosts at a leaf, each with a port in each plane.
    pub hosts_per_leaf: u32,
    /// Spines of each: each leaf has a cable to each.
    pub spines: u32,
    /// Switches above: each spine has a cable to each. Without any the planes are apart.
    pub joins: u32,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

/// Builds it.
///
/// # Errors
/// Too many of anything.
pub fn planes(shape: &Planes) -> Result<Graph, BuildError> {
    let Planes { planes, leaves, hosts_per_leaf: hosts, spines, joins, link } = *shape;
    let switches = u64::from(planes) * u64::from(leaves + spines) + u64::from(joins);
    sizes("planes", u64::from(leaves) * u64::from(hosts), switches)?;
    let of_leaf = ports("planes", "a leaf", u64::from(hosts + spines))?;
    let of_spine = ports("planes", "a spine", u64::from(leaves + joins))?;
    let mut maker = Maker::new();
    let make = |maker: &mut Maker, word: &str, count: u32, ports: u8| {
        let name = |at: u32| format!("{word}{at:03}");
        (0..planes * count).map(|at| maker.switch(&name(at), ports)).collect::<Result<Vec<_>, _>>()
    };
    let leaf = make(&mut maker, "leaf", leaves, of_leaf)?;
    let spine = make(&mut maker, "spine", spines, of_spine)?;
    let mut join = Vec::new();
    for at in 0..joins {
        let count = ports("planes", "a switch above", u64::from(planes) * u64::from(spines))?;
        join.push(maker.switch(&format!("join{at:03}"), count)?);
    }
    for at in 0..leaves * hosts {
        let host = maker.host(ports("planes", "a host", u64::from(planes))?)?;
        for plane in 0..planes {
            let there = (leaf[(plane * leaves + at / hosts) as usize], (at % hosts + 1) as u8);
            maker.graph.link((host, (plane + 1) as u8), there, link)?;
        }
    }
    for plane in 0..planes {
        for (low, high) in (0..leaves).flat_map(|low| (0..spines).map(move |high| (low, high))) {
            let ends = (leaf[(plane * leaves + low) as usize], spine[(plane * spines + high) as usize]);
            maker.graph.link((ends.0, (hosts + high + 1) as u8), (ends.1, (low + 1) as u8), link)?;
        }
    }
    for (at, node) in spine.iter().enumerate() {
        for (up, there) in join.iter().enumerate() {
            maker.graph.link((*node, (leaves as usize + up + 1) as u8), (*there, (at + 1) as u8), link)?;
        }
    }
    Ok(maker.finish())
}

/// A tree of two levels with trunks of different numbers of cables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trunks {
    /// Leaves.
    pub leaves: u32,
    /// Hosts at each.
    pub hosts_per_leaf: u32,
    /// Spines.
    pub spines: u32,
    /// Cables between a leaf and a spine: these, again and again from spine to spine and shifted by one from
    /// leaf to leaf.
    pub cables: Vec<u32>,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

/// Builds it.
///
/// # Errors
/// Too many of anything; no cables.
pub fn trunks(shape: &Trunks) -> Result<Graph, BuildError> {
    let Trunks { leaves, hosts_per_leaf: hosts, spines, ref cables, link } = *shape;
    sizes("trunks", u64::from(leaves) * u64::from(hosts), u64::from(leaves) + u64::from(spines))?;
    if cables.is_empty() {
        return Err(BuildError::parameter("trunks", "no numbers of cables: give at least one"));
    }
    let between = |leaf: u32, spine: u32| cables[((leaf + spine) as usize) % cables.len()];
    let up = |leaf: u32| (0..spines).map(|spine| u64::from(between(leaf, spine))).sum::<u64>();
    let down = |spine: u32| (0..leaves).map(|leaf| u64::from(between(leaf, spine))).sum::<u64>();
    let mut maker = Maker::new();
    let mut low = Vec::new();
    for leaf in 0..leaves {
        let count = ports("trunks", "a leaf", u64::from(hosts) + up(leaf))?;
        low.push(maker.switch(&format!("leaf{leaf:03}"), count)?);
    }
    let mut high = Vec::new();
    for spine in 0..spines {
        high.push(maker.switch(&format!("spine{spine:03}"), ports("trunks", "a spine", down(spine))?)?);
    }
    let mut next = vec![1_u8; spines as usize];
    for leaf in 0..leaves {
        for at in 0..hosts {
            let host = maker.host(1)?;
            maker.graph.link((host, 1), (low[leaf as usize], (at + 1) as u8), link)?;
        }
        let mut port = hosts as u8;
        for spine in 0..spines {
            for _ in 0..between(leaf, spine) {
                port += 1;
                let there = &mut next[spine as usize];
                maker.graph.link((low[leaf as usize], port), (high[spine as usize], *there), link)?;
                *there += 1;
            }
        }
    }
    Ok(maker.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts, switches and cables.
    fn counts(graph: &Graph) -> (usize, usize, usize) {
        (graph.count(Kind::Host), graph.count(Kind::Switch), graph.link_count())
    }

    #[test]
    fn each_has_what_it_was_asked_for() {
        let tree = FatTree::new(8, 2);
        let whole = fat_tree(&tree).unwrap();
        assert_eq!(counts(&whole), (32, 12, 64));
        let graph = with_aggregation(&whole).unwrap();
        assert_eq!(counts(&graph), (44, 12, 76));
        assert_eq!(graph.nodes().filter(|node| graph.is_aggregation(*node)).count(), 12);
        assert_eq!(counts(&uneven(&whole, &[4, 1]).unwrap()), (20, 12, 52));
        let island = Island { tree, leaves: 2, hosts_per_leaf: 5, up: 6 };
        assert_eq!(counts(&with_island(&island).unwrap()), (42, 14, 64 + 10 + 12));
        let link = LinkSpec::EDR4X;
        let shape = Rails { units: 2, servers: 3, rails: 4, spines: 2, cores: 3, link };
        assert_eq!(counts(&rails(&shape).unwrap()), (24, 8 + 8 + 3, 24 + 16 + 24));
        let shape = Planes { planes: 2, leaves: 3, hosts_per_leaf: 4, spines: 2, joins: 1, link };
        assert_eq!(counts(&planes(&shape).unwrap()), (12, 6 + 4 + 1, 24 + 12 + 4));
        let shape = Trunks { leaves: 4, hosts_per_leaf: 3, spines: 2, cables: vec![1, 2], link };
        assert_eq!(counts(&trunks(&shape).unwrap()), (12, 6, 12 + 12));
        let none = Trunks { cables: Vec::new(), ..shape };
        assert!(trunks(&none).is_err());
    }
}
