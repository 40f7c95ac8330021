//! The statements of a file before they are checked: nodes, and the ends of cables.

use std::collections::HashMap;

use super::ReadError;
use super::anomaly::{Anomalies, Cause};
use crate::graph::{Graph, GraphBuilder, GraphError, LinkSpec, NodeIx, NodeSpec, Speed, Width};

/// Nodes that a file may mention.
const MOST_NODES: usize = 1 << 20;
/// Ports of all nodes of a file.
const MOST_PORTS: usize = 1 << 23;

/// A name of a node within the file, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id(u32);

/// One end of a cable that names the other end.
#[derive(Debug, Clone, Copy)]
struct Half {
    line: u32,
    from: (NodeIx, u8),
    to: (Id, u8),
    spec: LinkSpec,
}

/// What the file has described so far.
#[derive(Debug)]
pub(super) struct Draft {
    graph: GraphBuilder,
    /// Where the file names each node that it mentions.
    ids: HashMap<String, Id>,
    /// The node of an id; `None` while it was only mentioned.
    known: Vec<Option<NodeIx>>,
    guids: HashMap<u64, NodeIx>,
    halves: Vec<Half>,
    ports: usize,
    /// Whether one end alone is enough for a cable.
    one_end_is_enough: bool,
}

impl Draft {
    pub(super) fn new(one_end_is_enough: bool) -> Self {
        let graph = GraphBuilder::new();
        let (ids, known, guids, halves) = (HashMap::new(), Vec::new(), HashMap::new(), Vec::new());
        Self { graph, ids, known, guids, halves, ports: 0, one_end_is_enough }
    }

    /// The id of a name in the file.
    pub(super) fn id(&mut self, name: &str) -> Id {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = Id(self.known.len() as u32);
        self.known.push(None);
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// The node of this id, if it was described.
    pub(super) fn node_of(&self, id: Id) -> Option<NodeIx> {
        self.known[id.0 as usize]
    }

    pub(super) fn graph(&mut self) -> &mut GraphBuilder {
        &mut self.graph
    }

    /// Has a node that was described this GUID?
    pub(super) fn has_guid(&self, guid: u64) -> bool {
        self.guids.contains_key(&guid)
    }

    /// A node is described. Nothing if it was before, or can't be: then there is an anomaly.
    pub(super) fn node(
        &mut self,
        line: usize,
        id: Id,
        spec: NodeSpec<'_>,
        anomalies: &mut Anomalies,
    ) -> Result<Option<NodeIx>, ReadError> {
        if self.known[id.0 as usize].is_some() {
            let what = format_args!("{} `{}`: the first description is used", spec.kind.word(), spec.name);
            anomalies.add(line, Cause::DuplicateNode, what);
            return Ok(None);
        }
        self.ports += usize::from(spec.ports) + 1;
        for (count, what, most) in
            [(self.graph.node_count(), "nodes", MOST_NODES - 1), (self.ports, "ports", MOST_PORTS)]
        {
            if count > most {
                return Err(ReadError::TooLarge { line, what, most });
            }
        }
        let node = match self.graph.node(spec) {
            Ok(node) => node,
            Err(error) => {
                anomalies.add(line, Cause::BadNumber, error);
                return Ok(None);
            }
        };
        if spec.node_guid != 0
            && let Some(first) = self.guids.insert(spec.node_guid, node)
        {
            let first = self.graph.name(first);
            let what = format_args!(
                "{:#018x} of `{}` is also that of `{first}`: both are kept",
                spec.node_guid, spec.name
            );
            anomalies.add(line, Cause::DuplicateGuid, what);
        }
        self.known[id.0 as usize] = Some(node);
        Ok(Some(node))
    }

    /// Adds the report of one end of a cable. Numbers that no port has are anomalies.
    pub(super) fn half(
        &mut self,
        line: usize,
        from: (NodeIx, u64),
        to: (Id, u64),
        spec: LinkSpec,
        anomalies: &mut Anomalies,
    ) {
        let count = self.graph.port_count(from.0);
        let fits = |number: u64| u8::try_from(number).ok().filter(|number| (1..=254).contains(number));
        let (Some(mine), Some(theirs)) = (fits(from.1).filter(|number| *number <= count), fits(to.1)) else {
            let name = self.graph.name(from.0);
            let what = format_args!(
                "from port {} of `{name}` (which has {count}) to port {}: left out",
                from.1, to.1
            );
            anomalies.add(line, Cause::NoSuchPort, what);
            return;
        };
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        self.halves.push(Half { line, from: (from.0, mine), to: (to.0, theirs), spec });
    }

    /// What can be believed of it all.
    pub(super) fn finish(mut self, anomalies: &mut Anomalies) -> Graph {
        let halves = std::mem::take(&mut self.halves);
        let mut names: Vec<&str> = vec![""; self.known.len()];
        for (name, id) in &self.ids {
            names[id.0 as usize] = name;
        }
        let mut reports = Reports::with_capacity(halves.len());
        let mut whole = Vec::with_capacity(halves.len());
        for half in halves {
            let to = self.known[half.to.0.0 as usize].map(|other| (other, half.to.1));
            let (first, before) = *reports.of.entry(half.from).or_insert((half.line, to));
            let from = self.graph.name(half.from.0);
            match to {
                Some(to) if before == Some(to) => {
                    reports.add_report(to, half.line, half.from);
                    whole.push((half, to));
                }
                None if before.is_none() => {
                    let what = format_args!(
                        "port {} of `{from}` leads to `{}`, which is not described: left out",
                        half.from.1, names[half.to.0.0 as usize]
                    );
                    anomalies.add(half.line as usize, Cause::Dangling, what);
                }
                _ => {
                    let what = format_args!(
                        "port {} of `{from}` was connected before, in line {first}: the first cable is used",
                        half.from.1
                    );
                    anomalies.add(half.line as usize, Cause::Contradiction, what);
                }
            }
        }
        wire(&mut self.graph, &whole, &reports, self.one_end_is_enough, anomalies);
        self.graph.finish()
    }
}

type End = (NodeIx, u8);

/// What ports report of their cables.
struct Reports {
    /// By the reporting port: its first line, and where its cable leads, if that is described.
    of: HashMap<End, (u32, Option<End>)>,
    /// By the reported port: line and reporting port, of the first report and of the first by another port.
    about: HashMap<End, [Option<(u32, End)>; 2]>,
}

impl Reports {
    fn with_capacity(count: usize) -> Self {
        Self { of: HashMap::with_capacity(count), about: HashMap::with_capacity(count) }
    }

    fn add_report(&mut self, port: End, line: u32, by: End) {
        let about = self.about.entry(port).or_default();
        if about[0].is_none() {
            about[0] = Some((line, by));
        } else if about[1].is_none() && about[0].is_some_and(|first| first.1 != by) {
            about[1] = Some((line, by));
        }
    }

    /// What contradicts a cable that only `from` reports: another line, its port and where that leads.
    fn against(&self, from: End, to: End) -> Option<(u32, End, Option<End>)> {
        if let Some((line, back)) = self.of.get(&to) {
            return Some((*line, to, *back));
        }
        // Two cables can't lead to one port; and a report of the reporting port by another port says that it
        // is wired elsewhere.
        [to, from].into_iter().find_map(|port| {
            let about = self.about.get(&port)?.iter().flatten();
            let mut others = about.filter(|(_, other)| *other != from && *other != to);
            others.next().map(|(line, other)| (*line, *other, Some(port)))
        })
    }
}

/// Cables that both ends mention come first; then those of one end, where nothing contradicts them.
fn wire(
    graph: &mut GraphBuilder,
    halves: &[(Half, End)],
    reports: &Reports,
    one_end_is_enough: bool,
    anomalies: &mut Anomalies,
) {
    let agreed = |half: &Half, to: &End| reports.of.get(to).is_some_and(|back| back.1 == Some(half.from));
    for (half, to) in halves.iter().filter(|(half, to)| agreed(half, to) || half.from == *to) {
        join(graph, half, *to, anomalies);
    }
    for (half, to) in halves.iter().filter(|(half, to)| !agreed(half, to) && half.from != *to) {
        let line = half.line as usize;
        let (from, other) = (graph.name(half.from.0), graph.name(to.0));
        match reports.against(half.from, *to) {
            Some((against, port, leads)) => {
                let leads = leads.map_or_else(
                    || "a node that is not described".to_owned(),
                    |end| format!("port {} of `{}`", end.1, graph.name(end.0)),
                );
                let what = format_args!(
                    "port {} of `{from}` leads to port {} of `{other}`, but in line {against} port {} of `{}` leads to {leads}: left out",
                    half.from.1,
                    to.1,
                    port.1,
                    graph.name(port.0)
                );
                anomalies.add(line, Cause::Contradiction, what);
            }
            None => {
                if !one_end_is_enough {
                    let what = format_args!(
                        "port {} of `{from}` leads to port {} of `{other}`, which does not list it: kept",
                        half.from.1, to.1
                    );
                    anomalies.add(line, Cause::OneWay, what);
                }
                join(graph, half, *to, anomalies);
            }
        }
    }
}

fn join(graph: &mut GraphBuilder, half: &Half, to: End, anomalies: &mut Anomalies) {
    let line = half.line as usize;
    match graph.peer(half.from.0, half.from.1) {
        // One of the two ends was reported before. One end may know a rate that the other does not.
        Some(peer) if peer == to => {
            let before = graph.link_spec(half.from.0, half.from.1).unwrap_or_default();
            match merge(before, half.spec) {
                Some(both) => graph.rate(half.from.0, half.from.1, both),
                None => {
                    let name = graph.name(half.from.0);
                    let what = format_args!(
                        "port {} of `{name}`: {} and {before}: the first is used",
                        half.from.1, half.spec
                    );
                    anomalies.add(line, Cause::RateDiffers, what);
                }
            }
        }
        _ => match graph.link(half.from, to, half.spec) {
            Ok(()) if half.from.0 == to.0 => {
                let (name, from, to) = (graph.name(to.0), half.from.1, to.1);
                let what = format_args!("port {from} of `{name}` leads to its own port {to}: kept");
                anomalies.add(line, Cause::SelfLink, what);
            }
            Ok(()) => {}
            Err(error @ GraphError::NoSuchPort { .. }) => anomalies.add(line, Cause::NoSuchPort, error),
            Err(error) => anomalies.add(line, Cause::Contradiction, error),
        },
    }
}

/// Both, where one is not known the other; nothing if they differ.
fn merge(a: LinkSpec, b: LinkSpec) -> Option<LinkSpec> {
    let width = match (a.width, b.width) {
        (width, Width::Unknown) | (Width::Unknown, width) => width,
        (one, other) => (one == other).then_some(one)?,
    };
    let speed = match (a.speed, b.speed) {
        (speed, Speed::Unknown) | (Speed::Unknown, speed) => speed,
        (one, other) => (one == other).then_some(one)?,
    };
    Some(LinkSpec { width, speed })
}
