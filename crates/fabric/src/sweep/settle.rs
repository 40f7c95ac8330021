//! Pairs the ends of cables and builds the graph.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use mad::sm::{NodeDescription, PortInfo};
use mad::values::{Guid, NodeKind, PortState, lanes};
use topology::{Graph, GraphBuilder, Kind, LinkSpec, NodeSpec, Speed, Width};

use super::explore::{Explorer, Question, alike};
use super::{Anomaly, Found, MAX_ANOMALIES, NodeFacts};

/// How often nodes that have another one's GUID may lead to further ones.
pub(super) const MOST_ROUNDS: u32 = 8;

/// Ways that are named to nodes with one GUID.
const PATHS: usize = 8;

/// The other end of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partner {
    /// No node was found.
    Nobody,
    /// Both ends agree, or the other end can't be asked.
    Agreed(usize, u8),
    /// The other end was asked, and did not respond.
    Unheard(usize, u8),
    /// The other end disagrees.
    Contradicted(usize, u8),
    /// The port itself.
    Itself,
}

impl Explorer {
    /// Who is behind a port.
    pub(super) fn partner(&self, node: usize, port: u8) -> Partner {
        let it = &self.nodes[node];
        let Some(claim) = it.behind[usize::from(port)].as_ref() else { return Partner::Nobody };
        let own = it.instance.get(&port).copied();
        let candidates: Vec<usize> = match own {
            Some(instance) => vec![instance],
            None => {
                let all = self.by_guid.get(&claim.node_guid()).map(Vec::as_slice).unwrap_or_default();
                all.iter().copied().filter(|other| alike(&self.nodes[*other].info, claim)).collect()
            }
        };
        let end = claim.local_port();
        let mut best = Partner::Nobody;
        for other in candidates {
            if other == node && end == port {
                return Partner::Itself;
            }
            let found = self.judge((node, port), (other, end));
            match found {
                Partner::Agreed(..) => return found,
                Partner::Unheard(..) => best = found,
                _ if best == Partner::Nobody => best = found,
                _ => {}
            }
        }
        best
    }

    /// Does `b`, which `a` claims as its peer, agree?
    fn judge(&self, a: (usize, u8), b: (usize, u8)) -> Partner {
        let other = &self.nodes[b.0];
        if !self.leads_on(b.0, b.1) {
            // An end can't be asked who is at its other end. The one that it was found behind is; another one
            // has a node of its own behind it, unless it is another port of the same.
            let first = other.found_at.is_none_or(|(node, port)| {
                let found_by = self.nodes[node].behind[usize::from(port)].as_ref();
                (node, port) == a || found_by.is_none_or(|claim| claim.local_port() != b.1)
            });
            return if first { Partner::Agreed(b.0, b.1) } else { Partner::Contradicted(b.0, b.1) };
        }
        let Some(back) = other.behind[usize::from(b.1)].as_ref() else { return Partner::Unheard(b.0, b.1) };
        let me = &self.nodes[a.0].info;
        let mutual = back.node_guid() == me.node_guid()
            && back.local_port() == a.1
            && alike(back, me)
            && other.instance.get(&b.1).is_none_or(|instance| *instance == a.0)
            // At the local node, a GUID that came twice is another node's.
            && self.nodes[a.0].instance.get(&a.1).is_none_or(|instance| *instance == b.0);
        if mutual { Partner::Agreed(b.0, b.1) } else { Partner::Contradicted(b.0, b.1) }
    }

    fn ends(&self) -> Vec<(usize, u8)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(node, it)| (1..=it.info.ports()).map(move |port| (node, port))).collect()
    }

    /// Asks about what does not fit: the first time the same again (the fabric may have changed), then as
    /// nodes of their own. False: there is nothing to ask.
    pub(super) fn contradictions(&mut self, first: bool) -> bool {
        let mut asked = false;
        if first {
            for (node, port) in self.silent.keys().copied().collect::<Vec<_>>() {
                self.pending.push_back((Question::Port(node, port), true));
                self.pending.push_back((Question::Behind(node, port), true));
                asked = true;
            }
        }
        for (node, port) in self.ends() {
            let Partner::Contradicted(other, end) = self.partner(node, port) else { continue };
            if first {
                self.pending.push_back((Question::Behind(node, port), true));
                if self.leads_on(other, end) {
                    self.pending.push_back((Question::Behind(other, end), true));
                }
                asked = true;
                continue;
            }
            let it = &self.nodes[node];
            let (Some(path), Some(claim)) = (it.path.then(port), it.behind[usize::from(port)]) else {
                continue;
            };
            if it.instance.contains_key(&port) {
                continue;
            }
            if let Some(own) = self.add(&claim, path, Some((node, port))) {
                self.nodes[node].instance.insert(port, own);
                asked = true;
            }
        }
        asked
    }

    /// The result.
    pub(super) fn finish(mut self) -> Found {
        self.report_duplicate();
        for ((node, port), undeliverable) in std::mem::take(&mut self.silent) {
            let at = self.location(node, port);
            self.anomaly(Anomaly::Silent { at, undeliverable });
        }
        let links = self.links();
        let order = self.order(&links);
        self.add_node_anomalies(&order, &links);
        self.add_port_anomalies(&order);
        let (graph, ports) = self.graph(&order, &links);
        let (tally, more_anomalies) = (self.tally(), self.more_anomalies);
        let mut slots: Vec<Option<NodeFacts>> = self
            .nodes
            .into_iter()
            .map(|node| {
                let super::explore::Node { info, description, switch, path, .. } = node;
                Some(NodeFacts { info, description, switch, path })
            })
            .collect();
        let nodes = order.iter().filter_map(|node| slots.get_mut(*node)?.take()).collect();
        Found {
            graph,
            nodes,
            ports,
            anomalies: self.anomalies,
            more_anomalies,
            tally,
            took: std::time::Duration::ZERO,
        }
    }

    /// Each link from both its ends. A claim of only one end is a link if the other end is free, and an
    /// anomaly in any case.
    fn links(&mut self) -> BTreeMap<(usize, u8), (usize, u8)> {
        let mut links = BTreeMap::new();
        let mut one_sided = Vec::new();
        for a in self.ends() {
            match self.partner(a.0, a.1) {
                Partner::Agreed(node, port) => {
                    let b = (node, port);
                    if links.get(&a).is_none_or(|there| *there == b)
                        && links.get(&b).is_none_or(|there| *there == a)
                    {
                        links.insert(a, b);
                        links.insert(b, a);
                    } else {
                        one_sided.push((a, b));
                    }
                }
                Partner::Unheard(node, port) | Partner::Contradicted(node, port) => {
                    one_sided.push((a, (node, port)))
                }
                Partner::Itself => {
                    let at = self.location(a.0, a.1);
                    self.anomaly(Anomaly::Loopback { at });
                }
                Partner::Nobody => {}
            }
        }
        for (a, b) in one_sided {
            let other = self.other_end(b);
            let (at, to) = (self.location(a.0, a.1), self.location(b.0, b.1));
            self.anomaly(Anomaly::OneWay { at, to, other });
            let unheard = matches!(self.partner(a.0, a.1), Partner::Unheard(..));
            if unheard && a != b && !links.contains_key(&a) && !links.contains_key(&b) {
                links.insert(a, b);
                links.insert(b, a);
            }
        }
        links
    }

    fn other_end(&self, (node, port): (usize, u8)) -> String {
        match self.nodes[node].behind[usize::from(port)].as_ref() {
            Some(claim) => {
                let known = self.by_guid.get(&claim.node_guid()).and_then(|nodes| nodes.first());
                let location = known.map(|other| self.location(*other, claim.local_port()));
                location
                    .map_or_else(|| format!("node {}", claim.node_guid()), |location| location.to_string())
            }
            None => match self.nodes[node].ports[usize::from(port)].as_ref() {
                Some(info) => format!("its end is {}", info.state()),
                None => "no link".to_owned(),
            },
        }
    }

    /// Nodes by distance and port numbers, and then those that nothing leads to.
    fn order(&self, links: &BTreeMap<(usize, u8), (usize, u8)>) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut seen = HashSet::from([0]);
        let mut next = VecDeque::from([0]);
        while let Some(node) = next.pop_front() {
            order.push(node);
            for (_, (other, _)) in links.range((node, 0)..=(node, u8::MAX)) {
                if seen.insert(*other) {
                    next.push_back(*other);
                }
            }
        }
        let mut rest: Vec<usize> = (0..self.nodes.len()).filter(|node| !seen.contains(node)).collect();
        rest.sort_by_key(|node| (self.nodes[*node].info.node_guid(), *node));
        order.append(&mut rest);
        order
    }

    fn add_node_anomalies(&mut self, order: &[usize], links: &BTreeMap<(usize, u8), (usize, u8)>) {
        for &node in order {
            let it = &self.nodes[node];
            let unlinked = links.range((node, 0)..=(node, u8::MAX)).next().is_none();
            let (unanswered, guid) = (it.unanswered(), it.info.node_guid());
            let local = it.info.local_port();
            let state = it.ports[usize::from(local)].map_or(PortState::NO_CHANGE, |port| port.state());
            let at = self.location(node, local);
            if unanswered > 0 {
                self.anomaly(Anomaly::NodeUnresponsive { name: at.name.clone(), guid, unanswered });
            }
            if unlinked && node != 0 {
                self.anomaly(Anomaly::Unmatched { at, state });
            }
        }
    }

    /// GUIDs that several nodes have.
    fn report_duplicate(&mut self) {
        let mut twice: Vec<Guid> =
            self.by_guid.iter().filter(|(_, nodes)| nodes.len() > 1).map(|(guid, _)| *guid).collect();
        twice.sort_unstable();
        for guid in twice {
            let nodes = &self.by_guid[&guid];
            let (count, first) = (nodes.len(), nodes.iter().take(PATHS));
            let paths = first.map(|node| self.nodes[*node].path).collect();
            self.anomaly(Anomaly::DuplicateGuid { guid, count, paths });
        }
    }

    /// GUIDs and LIDs that two ports have.
    fn add_port_anomalies(&mut self, order: &[usize]) {
        let mut lids: HashMap<u16, (usize, u8)> = HashMap::new();
        let mut guids: HashMap<Guid, (usize, u8)> = HashMap::new();
        let mut anomalies = Vec::new();
        let mut more = 0_u64;
        let mut anomaly = |anomaly: Anomaly| {
            if anomalies.len() < MAX_ANOMALIES {
                anomalies.push(anomaly);
            } else {
                more += 1;
            }
        };
        for &node in order {
            let it = &self.nodes[node];
            let guid = it.info.port_guid();
            if let Some(there) = guids.insert(guid, (node, it.info.local_port()))
                && self.nodes[there.0].info.node_guid() != it.info.node_guid()
            {
                let (a, b) = (self.location(there.0, there.1), self.location(node, it.info.local_port()));
                anomaly(Anomaly::DuplicatePortGuid { guid, a, b });
            }
            for (port, info) in self.addressed(node) {
                let count = 1_u32 << info.mask_control();
                for lid in
                    (u32::from(info.lid().0)..).take(count as usize).filter_map(|lid| u16::try_from(lid).ok())
                {
                    if lid == 0 {
                        continue;
                    }
                    if let Some(there) = lids.insert(lid, (node, port)) {
                        let (a, b) = (self.location(there.0, there.1), self.location(node, port));
                        anomaly(Anomaly::DuplicateLid { lid, a, b });
                        break;
                    }
                }
            }
        }
        anomalies.into_iter().for_each(|anomaly| self.anomaly(anomaly));
        self.more_anomalies += more;
    }

    /// The ports of a node that have an address.
    fn addressed(&self, node: usize) -> impl Iterator<Item = (u8, &PortInfo)> {
        let it = &self.nodes[node];
        let switch = it.info.kind() == NodeKind::SWITCH;
        let last = if switch { 0 } else { it.info.ports() };
        (u8::from(!switch)..=last).filter_map(move |port| Some((port, it.ports[usize::from(port)].as_ref()?)))
    }

    fn graph(
        &self,
        order: &[usize],
        links: &BTreeMap<(usize, u8), (usize, u8)>,
    ) -> (Graph, Vec<Option<PortInfo>>) {
        let mut builder = GraphBuilder::new();
        let mut ports = Vec::new();
        let mut index = vec![None; self.nodes.len()];
        for &node in order {
            let it = &self.nodes[node];
            let name = it.description.as_ref().map(NodeDescription::to_text).unwrap_or_default();
            let kind = match it.info.kind() {
                NodeKind::SWITCH => Kind::Switch,
                NodeKind::ROUTER => Kind::Router,
                _ => Kind::Host,
            };
            let spec = NodeSpec {
                kind,
                name: &name,
                ports: it.info.ports(),
                node_guid: it.info.node_guid().0,
                system_guid: it.info.system_guid().0,
                vendor: it.info.vendor(),
                device: it.info.device().into(),
            };
            // It was checked before that it can be one; most_nodes is far below what a graph holds.
            let Ok(built) = builder.node(spec) else { continue };
            index[node] = Some(built);
            let own = if kind == Kind::Switch { 0 } else { it.info.local_port() };
            builder.port_guid(built, own, it.info.port_guid().0);
            for (port, info) in self.addressed(node) {
                builder.lid(built, port, info.lid().0, info.mask_control());
            }
            ports.extend(it.ports.iter().copied());
        }
        for (&a, &b) in links {
            let (Some(one), Some(other)) = (index[a.0], index[b.0]) else { continue };
            if let Some(claim) = self.nodes[a.0].behind[usize::from(a.1)].as_ref()
                && claim.kind() != NodeKind::SWITCH
            {
                builder.port_guid(other, b.1, claim.port_guid().0);
            }
            if a < b {
                let spec =
                    self.nodes[a.0].ports[usize::from(a.1)].map(|info| link_spec(&info)).unwrap_or_default();
                // Both ports exist and are free: `links` has each once.
                let _ = builder.link((one, a.1), (other, b.1), spec);
            }
        }
        (builder.finish(), ports)
    }
}

/// Width and speed of a link, as its port reports them.
#[must_use]
pub fn link_spec(info: &PortInfo) -> LinkSpec {
    let width =
        lanes(info.width_active()).and_then(|lanes| Width::of_lanes(lanes.into())).unwrap_or_default();
    let speed = match info.speed_gbps() {
        Some(2.5) => Speed::Sdr,
        Some(5.0) => Speed::Ddr,
        Some(10.0) => Speed::Qdr,
        Some(14.0) => Speed::Fdr,
        Some(25.0) => Speed::Edr,
        Some(50.0) => Speed::Hdr,
        Some(100.0) => Speed::Ndr,
        Some(200.0) => Speed::Xdr,
        _ => Speed::Unknown,
    };
    LinkSpec { width, speed }
}
