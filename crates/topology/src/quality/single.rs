//! Single points of failure: cables and switches whose loss disconnects hosts, whatever the routes.

use crate::routing::View;
use crate::{Graph, Kind, NodeIx, PortIx};

/// What a fabric can't lose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinglePoints {
    /// Switches that part hosts at other switches from each other, and how many hosts then are on the smaller
    /// side. The hosts of the switch itself are not counted: those every switch takes along.
    pub switches: Vec<(NodeIx, u32)>,
    /// Cables between switches that part hosts, and how many hosts then are on the smaller side.
    pub cables: Vec<(PortIx, u32)>,
    /// Hosts that are wired once, or not at all: their own cable is a single point.
    pub hosts_with_one_cable: u32,
}

/// A switch on the path of the search.
struct Visit {
    sw: usize,
    parent: usize,
    /// How many of the cables to the parent were seen: only the second leads back.
    to_parent: u32,
    next: usize,
}

/// The search of Hopcroft and Tarjan (1973), without recursion.
struct Search<'a> {
    view: &'a View,
    entered: Vec<u32>,
    low: Vec<u32>,
    /// Hosts at or behind a switch.
    hosts: Vec<u64>,
    /// Hosts that a switch's loss would disconnect from the rest, by component.
    parted: Vec<Vec<u64>>,
    bridges: Vec<(usize, usize)>,
    clock: u32,
}

/// Finds the single points of failure.
#[must_use]
pub fn single_points(graph: &Graph) -> SinglePoints {
    let view = View::of(graph);
    let switches = view.switch_count();
    let mut search = Search {
        view: &view,
        entered: vec![0; switches],
        low: vec![0; switches],
        hosts: (0..switches).map(|sw| u64::from(view.programs(sw))).collect(),
        parted: vec![Vec::new(); switches],
        bridges: Vec::new(),
        clock: 0,
    };
    let mut result = SinglePoints::default();
    for root in 0..switches {
        if search.entered[root] == 0 {
            let seen = search.clock;
            search.from(root);
            search.tell(graph, seen, search.hosts[root], &mut result);
        }
    }
    let single = |node: &NodeIx| graph.cabled(*node).take(2).count() < 2;
    let hosts = graph.nodes().filter(|node| graph.kind(*node) != Kind::Switch && !graph.is_dead(*node));
    result.hosts_with_one_cable = hosts.filter(single).count() as u32;
    result.switches.sort_by_key(|(node, hosts)| (std::cmp::Reverse(*hosts), *node));
    result.cables.sort_by_key(|(port, hosts)| (std::cmp::Reverse(*hosts), *port));
    result
}

impl Search<'_> {
    fn enter(&mut self, sw: usize) {
        self.clock += 1;
        self.entered[sw] = self.clock;
        self.low[sw] = self.clock;
    }

    fn from(&mut self, root: usize) {
        let mut path = vec![Visit { sw: root, parent: usize::MAX, to_parent: 0, next: 0 }];
        self.enter(root);
        while let Some(visit) = path.last_mut() {
            let sw = visit.sw;
            let Some(near) = self.view.neighbours(sw).get(visit.next) else {
                let Some(done) = path.pop() else { break };
                if let Some(parent) = path.last() {
                    self.leave(done.sw, parent.sw, done.to_parent, path.len() == 1);
                }
                continue;
            };
            visit.next += 1;
            let there = near.sw as usize;
            if there == visit.parent {
                visit.to_parent = u32::from(near.cables);
                // Two cables to the parent are a way around each of them, not around the parent.
                continue;
            }
            if self.entered[there] == 0 {
                self.enter(there);
                path.push(Visit { sw: there, parent: sw, to_parent: 0, next: 0 });
            } else {
                self.low[sw] = self.low[sw].min(self.entered[there]);
            }
        }
    }

    /// All behind `sw` is known; `parent` is before it.
    fn leave(&mut self, sw: usize, parent: usize, cables: u32, at_root: bool) {
        self.hosts[parent] += self.hosts[sw];
        if self.low[sw] > self.entered[parent] && cables < 2 {
            self.bridges.push((sw, parent));
        }
        if at_root || self.low[sw] >= self.entered[parent] {
            self.parted[parent].push(self.hosts[sw]);
        }
        self.low[parent] = self.low[parent].min(self.low[sw]);
    }

    /// What was found in the component that was entered after `seen`, and has so many hosts.
    fn tell(&mut self, graph: &Graph, seen: u32, all: u64, result: &mut SinglePoints) {
        for sw in (0..self.view.switch_count()).filter(|sw| self.entered[*sw] > seen) {
            let parted = std::mem::take(&mut self.parted[sw]);
            let behind: u64 = parted.iter().sum();
            let others = all - behind - u64::from(self.view.programs(sw));
            let sides = parted.iter().copied().chain([others]).filter(|hosts| *hosts > 0);
            let (count, sum, most) = sides.fold((0, 0, 0), |(n, sum, most): (u32, u64, u64), hosts| {
                (n + 1, sum + hosts, most.max(hosts))
            });
            if count > 1 {
                result.switches.push((self.view.switch(sw), (sum - most) as u32));
            }
        }
        for (sw, parent) in std::mem::take(&mut self.bridges) {
            let smaller = self.hosts[sw].min(all - self.hosts[sw]);
            let near = self.view.neighbours(sw).iter().find(|near| near.sw as usize == parent);
            let port = near.and_then(|near| graph.port(self.view.switch(sw), near.port));
            if let Some(port) = port.filter(|_| smaller > 0) {
                result.cables.push((port, smaller as u32));
            }
        }
    }
}
