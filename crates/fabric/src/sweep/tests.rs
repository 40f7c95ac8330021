use std::collections::BTreeSet;
use std::time::Duration;

use mad::in_process::{Fabric, InProcess};
use mad::injure::{Harm, Injured};
use mad::sm::{NodeInfo, PortInfo, attribute};
use mad::values::{Guid, Method, NodeKind};
use mad::{Address, Lid, Mad, Received};
use proptest::prelude::*;
use topology::build::{FatTree, fat_tree};
use topology::{Graph, GraphBuilder, Kind, LinkSpec, NodeSpec, PortIx};

use super::*;
use crate::agents::Agents;
use crate::agents::sim_port::SimPort;

fn sim_port(graph: Graph) -> SimPort {
    let agents = Agents::new(graph);
    let host = agents.graph().nodes_of(Kind::Host).next().unwrap();
    let port = agents.place(host).unwrap();
    SimPort { agents, port }
}

fn run<F: Fabric>(fabric: F) -> Found {
    let mut transport = InProcess::new(fabric);
    sweep(&mut transport, &Options::default(), &mut |_| (), &|| false).unwrap()
}

/// A fabric some of whose responses are changed, or swallowed.
struct Lying<F, L>(F, L);

impl<F: Fabric, L: FnMut(&Mad, &mut Received) -> bool> Fabric for Lying<F, L> {
    fn carry(&mut self, now: Duration, to: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        let before = back.len();
        self.0.carry(now, to, mad, back);
        let mut index = 0;
        back.retain_mut(|(_, received)| {
            index += 1;
            index <= before || (self.1)(mad, received)
        });
    }
    fn lids(&self) -> (Lid, Lid) {
        self.0.lids()
    }
}

/// Links by names and port numbers, each once.
fn links(graph: &Graph) -> BTreeSet<[(String, u8); 2]> {
    let end = |port: PortIx| (graph.name(graph.owner(port)).to_owned(), graph.number(port));
    let both = graph.links().map(|(a, b)| {
        let mut ends = [end(a), end(b)];
        ends.sort();
        ends
    });
    both.collect()
}

fn tree() -> Graph {
    fat_tree(&FatTree::new(4, 3)).unwrap()
}

fn guid_of(graph: &Graph, name: &str) -> u64 {
    let node = graph.nodes().find(|node| graph.name(*node) == name).unwrap();
    graph.node_guid(node)
}

#[test]
fn a_sound_fabric_is_found_as_it_is() {
    let graph = tree();
    let found = run(sim_port(graph.clone()));
    assert_eq!(found.anomalies, []);
    assert_eq!(links(&found.graph), links(&graph));
    assert_eq!(found.nodes.len(), graph.node_count());
    assert_eq!(found.ports.len(), found.graph.port_total());
    for node in found.graph.nodes() {
        assert_eq!(found.nodes[node.index()].info.node_guid().0, found.graph.node_guid(node));
        for port in found.graph.ports(node).skip(1) {
            let known = graph.node_by_guid(found.graph.node_guid(node)).unwrap();
            let known = graph.port(known, found.graph.number(port)).unwrap();
            assert_eq!(found.graph.link(port), graph.link(known));
            assert_eq!(found.graph.port_guid(port), graph.port_guid(known));
        }
    }
    // Every directed route leads to the node that it is of.
    assert!(found.nodes.iter().all(|node| node.path.len() <= 6));
}

#[test]
fn lids_come_with_a_fabric_that_was_brought_up() {
    let mut fabric = sim_port(tree());
    assert!(fabric.agents.bring_up());
    let agents_lids: BTreeSet<u16> = (0..fabric.agents.graph().port_total())
        .map(|port| fabric.agents.port_info(PortIx(port as u32)).lid().0)
        .filter(|lid| *lid != 0)
        .collect();
    let found = run(fabric);
    assert_eq!(found.anomalies, []);
    let lids: BTreeSet<u16> = found
        .graph
        .nodes()
        .flat_map(|node| found.graph.ports(node))
        .map(|port| found.graph.lid(port))
        .collect();
    assert_eq!(lids.into_iter().filter(|lid| *lid != 0).collect::<BTreeSet<_>>(), agents_lids);
}

#[test]
fn a_network_that_loses_doubles_and_delays_changes_nothing() {
    let harm = Harm { lose: 60, double: 60, delay: 200, garble: 0, late_by: Duration::from_secs(2) };
    for seed in 0..10 {
        let mut transport = InProcess::new(Injured::new(sim_port(tree()), harm, seed));
        let options = Options { limits: Limits { retries: 12, ..Limits::default() }, ..Options::default() };
        let found = sweep(&mut transport, &options, &mut |_| (), &|| false).unwrap();
        assert_eq!(found.anomalies, [], "seed {seed}");
        assert_eq!(links(&found.graph), links(&tree()), "seed {seed}");
        assert!(found.tally.repeated > 0 && found.tally.strays > 0);
    }
}

#[test]
fn two_sweeps_of_one_fabric_are_equal_whatever_the_order_of_answers() {
    let harm = Harm { delay: 500, late_by: Duration::from_millis(300), ..Harm::default() };
    let one = run(Injured::new(sim_port(tree()), harm, 1));
    let other = run(Injured::new(sim_port(tree()), harm, 2));
    assert_eq!(one.graph, other.graph);
}

#[test]
fn a_switch_that_answers_nothing_is_named_and_the_rest_is_found() {
    let graph = tree();
    let dumb = guid_of(&graph, "mid00_00");
    let mut fabric = sim_port(graph);
    fabric.agents.bring_up();
    let found = run(Lying(fabric, move |_: &Mad, received: &mut Received| {
        received.mad.header().attribute() != attribute::NODE_INFO
            || received.mad.data::<NodeInfo>().node_guid() != Guid(dumb)
    }));
    assert_eq!(found.graph.node_by_guid(dumb), None);
    let silent = found.anomalies.iter().filter(|anomaly| matches!(anomaly, Anomaly::Silent { .. })).count();
    assert_eq!(silent, 4, "{:?}", found.anomalies);
    assert_eq!(found.graph.node_count(), 35);
}

#[test]
fn a_node_that_says_who_it_is_and_nothing_more_is_not_asked_for_ever() {
    let graph = tree();
    let guid = guid_of(&graph, "spine000");
    let fabric = sim_port(graph.clone());
    // Its directed route is that of a process that asks it; its responses are known by what it said of
    // itself.
    let paths = std::cell::RefCell::new(BTreeSet::new());
    let found = run(Lying(fabric, move |asked: &Mad, received: &mut Received| {
        let path = asked.smp().initial_path().unwrap().to_vec();
        if received.mad.header().attribute() == attribute::NODE_INFO {
            if received.mad.data::<NodeInfo>().node_guid() == Guid(guid) {
                paths.borrow_mut().insert(path);
            }
            return true;
        }
        !paths.borrow().contains(&path)
    }));
    let spine = found.graph.node_by_guid(guid).unwrap();
    assert_eq!(found.graph.name(spine), "");
    assert!(
        found
            .anomalies
            .iter()
            .any(|anomaly| matches!(anomaly, Anomaly::NodeUnresponsive { guid: who, .. } if who.0 == guid))
    );
    // Its links are known from their other ends, and that is an anomaly.
    assert_eq!(found.graph.link_count(), graph.link_count());
    assert_eq!(found.anomalies.iter().filter(|anomaly| matches!(anomaly, Anomaly::OneWay { .. })).count(), 4);
}

#[test]
fn nonsense_is_named() {
    let graph = tree();
    let guid = guid_of(&graph, "spine001");
    for lie in 0..5 {
        let found = run(Lying(sim_port(graph.clone()), move |_: &Mad, received: &mut Received| {
            if received.mad.header().attribute() == attribute::NODE_INFO {
                let info = received.mad.data_mut::<NodeInfo>();
                if info.node_guid() == Guid(guid) {
                    match lie {
                        0 => info.set_kind(NodeKind(9)),
                        1 => info.set_ports(0),
                        2 => info.set_ports(255),
                        3 => info.set_node_guid(Guid(0)),
                        _ => info.set_local_port(77),
                    };
                }
            }
            true
        }));
        let nonsense =
            found.anomalies.iter().filter(|anomaly| matches!(anomaly, Anomaly::Nonsense { .. })).count();
        assert_eq!(nonsense, 4, "lie {lie}: {:?}", found.anomalies);
        assert_eq!(found.graph.node_count(), graph.node_count() - 1);
    }
}

#[test]
fn two_switches_with_one_guid_are_two_nodes() {
    let graph = tree();
    let (one, other) = (guid_of(&graph, "spine000"), guid_of(&graph, "spine002"));
    let found = run(Lying(sim_port(graph.clone()), move |_: &Mad, received: &mut Received| {
        if received.mad.header().attribute() == attribute::NODE_INFO {
            let info = received.mad.data_mut::<NodeInfo>();
            if info.node_guid() == Guid(other) {
                info.set_node_guid(Guid(one)).set_port_guid(Guid(one)).set_system_guid(Guid(one));
            }
        }
        true
    }));
    assert_eq!(found.graph.node_count(), graph.node_count(), "{:?}", found.anomalies);
    assert_eq!(links(&found.graph), links(&graph), "{:?}", found.anomalies);
    let named = found
        .anomalies
        .iter()
        .any(|anomaly| matches!(anomaly, Anomaly::DuplicateGuid { guid, .. } if guid.0 == one));
    assert!(named, "{:?}", found.anomalies);
}

#[test]
fn two_hosts_with_one_guid_are_two_nodes() {
    let graph = tree();
    let (one, other) = (guid_of(&graph, "host00004"), guid_of(&graph, "host00009"));
    let found = run(Lying(sim_port(graph.clone()), move |_: &Mad, received: &mut Received| {
        if received.mad.header().attribute() == attribute::NODE_INFO {
            let info = received.mad.data_mut::<NodeInfo>();
            if info.node_guid() == Guid(other) {
                info.set_node_guid(Guid(one)).set_port_guid(Guid(one + 1)).set_system_guid(Guid(one));
            }
        }
        true
    }));
    assert_eq!(links(&found.graph), links(&graph), "{:?}", found.anomalies);
    assert!(
        found
            .anomalies
            .iter()
            .any(|anomaly| matches!(anomaly, Anomaly::DuplicateGuid { guid, .. } if guid.0 == one))
    );
}

/// A port whose cable ends in itself, a cable between two ports of one switch, two cables between two
/// switches.
#[test]
fn odd_cables_are_found() {
    let mut builder = GraphBuilder::new();
    let host = builder.node(NodeSpec::new(Kind::Host, "host", 2).guid(0x10)).unwrap();
    let a = builder.node(NodeSpec::new(Kind::Switch, "a", 8).guid(0x20)).unwrap();
    let b = builder.node(NodeSpec::new(Kind::Switch, "b", 8).guid(0x30)).unwrap();
    let link = LinkSpec::EDR4X;
    for (one, other) in
        [((host, 1), (a, 1)), ((host, 2), (b, 1)), ((a, 2), (a, 3)), ((a, 4), (b, 4)), ((a, 5), (b, 6))]
    {
        builder.link(one, other, link).unwrap();
    }
    let graph = builder.finish();
    let found = run(sim_port(graph.clone()));
    assert_eq!(found.anomalies, []);
    assert_eq!(links(&found.graph), links(&graph));
    // The plug: a process that asks behind that port asks the switch itself.
    let found = run(Lying(sim_port(graph.clone()), |asked: &Mad, received: &mut Received| {
        if received.mad.header().attribute() == attribute::NODE_INFO
            && asked.smp().initial_path() == Some(&[1, 2])
        {
            received.mad.data_mut::<NodeInfo>().set_local_port(2);
        }
        true
    }));
    assert!(
        found.anomalies.iter().any(|anomaly| matches!(anomaly, Anomaly::Loopback { at } if at.port == 2)),
        "{:?}",
        found.anomalies
    );
}

#[test]
fn a_cable_that_is_pulled_during_the_sweep_is_said() {
    for after in (20..220).step_by(10) {
        let fabric = sim_port(tree());
        let leaf = fabric.agents.node("mid01_00").unwrap();
        let cable = fabric.agents.graph().port(leaf, 3).unwrap();
        let mut asked = 0;
        struct Pulling<G>(SimPort, G);
        impl<G: FnMut(&mut SimPort)> Fabric for Pulling<G> {
            fn carry(
                &mut self,
                now: Duration,
                to: &Address,
                mad: &Mad,
                back: &mut Vec<(Duration, Received)>,
            ) {
                (self.1)(&mut self.0);
                self.0.carry(now, to, mad, back);
            }
        }
        let found = run(Pulling(fabric, move |fabric: &mut SimPort| {
            asked += 1;
            if asked == after {
                assert!(fabric.agents.unlink(cable));
            }
        }));
        // All nodes are still reached by other paths, and their links are those of before or of after.
        assert_eq!(found.graph.node_count(), 36, "after {after}: {:?}", found.anomalies);
        assert!((47..=48).contains(&found.graph.link_count()), "after {after}: {:?}", found.anomalies);
    }
}

#[test]
fn a_switch_that_invents_nodes_is_stopped() {
    let mut next = 0x9999_0000;
    let graph = tree();
    let liar = guid_of(&graph, "mid00_01");
    let fabric = sim_port(graph);
    let mut transport = InProcess::new(Lying(fabric, move |_: &Mad, received: &mut Received| {
        if received.mad.header().attribute() == attribute::NODE_INFO {
            let info = received.mad.data_mut::<NodeInfo>();
            if info.node_guid() == Guid(liar) || info.node_guid().0 & 0xffff_0000 == 0x9999_0000 {
                next += 1;
                info.set_node_guid(Guid(next));
            }
        }
        if received.mad.header().attribute() == attribute::PORT_INFO {
            received.mad.data_mut::<PortInfo>().set_state(mad::values::PortState::ACTIVE);
        }
        true
    }));
    let options = Options { most_nodes: 200, ..Options::default() };
    let found = sweep(&mut transport, &options, &mut |_| (), &|| false).unwrap();
    assert!(found.graph.node_count() <= 200);
    assert!(!found.anomalies.is_empty());
}

/// A switch of the most ports that a node may have, behind each of which is another one, without an end.
struct Endless {
    /// Do the ports lead anywhere?
    silent: bool,
    /// Have all one GUID?
    alike: bool,
    asked: u64,
}

impl Fabric for Endless {
    fn carry(&mut self, _: Duration, _: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        self.asked += 1;
        let path = mad.smp().initial_path().unwrap_or_default().to_vec();
        let mut answer = *mad;
        let header = answer.header_mut();
        header.set_method(Method::GET_RESPONSE);
        let (attribute, modifier) = (mad.header().attribute(), mad.header().modifier());
        if attribute == attribute::NODE_INFO {
            if self.silent && path.len() > 1 {
                return;
            }
            // A number of its own for each way.
            let hash =
                path.iter().fold(1_u64, |hash, hop| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*hop));
            let guid = Guid(if self.alike { 7 } else { hash | 1 << 40 });
            let info = answer.data_mut::<NodeInfo>();
            info.set_kind(NodeKind::SWITCH).set_ports(254).set_local_port(1).set_node_guid(guid);
            info.set_port_guid(Guid(hash)).set_device(hash as u16).set_system_guid(Guid(hash));
        }
        if attribute == attribute::PORT_INFO {
            let info = answer.data_mut::<PortInfo>();
            info.set_state(mad::values::PortState::ACTIVE);
            info.set_physical_state(mad::values::PhysicalState::LINK_UP);
            info.set_lid(Lid(0xbfff)).set_local_port(modifier as u8);
        }
        if attribute == attribute::SWITCH_INFO {
            answer.data_mut::<SwitchInfo>().set_linear_top(0xbfff);
        }
        let from = Address::DIRECTED;
        back.push((Duration::from_micros(1), Received { from, mad: answer, undelivered: false }));
    }

    fn lids(&self) -> (Lid, Lid) {
        (Lid(0), Lid(0))
    }
}

fn endless(silent: bool, alike: bool) -> Found {
    let limits = Limits { window: 64, ..Limits::default() };
    let options = Options { limits, most_ports: 50_000, most_silent: 500, ..Options::default() };
    let mut transport = InProcess::new(Endless { silent, alike, asked: 0 });
    sweep(&mut transport, &options, &mut |_| (), &|| false).unwrap()
}

#[test]
fn a_fabric_without_end_costs_no_more_ports_and_questions_than_allowed() {
    let found = endless(false, false);
    let Some(Anomaly::TooMany { kept, ports, at: Some(at) }) = found.anomalies.first() else {
        panic!("{:?}", found.anomalies.first());
    };
    assert_eq!((*kept, *kept), (50_000 / 255, found.graph.node_count()));
    assert!(*ports <= 50_000 && at.port > 0, "{ports} {at}");
    assert!(found.anomalies.len() <= MAX_ANOMALIES + 2, "{}", found.anomalies.len());
    // A request about each port and who is behind it, twice what does not fit; and a few of each node.
    assert!(found.tally.sent < 50_000 * 6, "{:?}", found.tally);
    let concern = found.anomalies.first().unwrap().to_string();
    assert!(concern.contains("more nodes than the 196"), "{concern}");
}

#[test]
fn a_fabric_that_falls_silent_everywhere_is_left() {
    let found = endless(true, false);
    assert!(
        matches!(found.anomalies.first(), Some(Anomaly::GaveUp { left, .. }) if *left > 0),
        "{:?}",
        found.anomalies.first()
    );
    // Each is asked four times.
    assert!(found.tally.sent < 500 * 4 + 50_000 * 2, "{:?}", found.tally);
    assert!(found.tally.given_up < 1_000, "{:?}", found.tally);
}

#[test]
fn any_number_of_nodes_with_one_guid_are_not_all_kept() {
    let found = endless(false, true);
    assert!(found.graph.node_count() <= 32, "{}", found.graph.node_count());
    assert!(found.anomalies.iter().any(|anomaly| matches!(anomaly, Anomaly::TooManyAlike { .. })));
    let named =
        found.anomalies.iter().find(|anomaly| matches!(anomaly, Anomaly::DuplicateGuid { .. })).unwrap();
    assert!(named.to_string().len() < 1_000, "{named}");
}

#[test]
fn tables_for_the_last_lid_of_invented_switches_are_not_made() {
    let mut builder = GraphBuilder::new();
    for number in 0..6_000_u64 {
        builder.node(NodeSpec::new(Kind::Switch, "liar", 1).guid(number + 1)).unwrap();
    }
    let host = builder.node(NodeSpec::new(Kind::Host, "host", 1).guid(0x10_0000)).unwrap();
    builder.lid(host, 1, 0xbfff, 0);
    builder.link((NodeIx(0), 1), (host, 1), LinkSpec::EDR4X).unwrap();
    let graph = builder.finish();
    let lids = crate::tables::lids(&graph).unwrap();
    let why = crate::tables::afford(&graph, &lids).unwrap_err();
    assert!(why.contains("6000 switches"), "{why}");
}

#[test]
fn a_deaf_fabric_and_a_stop_are_errors() {
    let mut transport = InProcess::new(Lying(sim_port(tree()), |_: &Mad, _: &mut Received| false));
    let error = sweep(&mut transport, &Options::default(), &mut |_| (), &|| false).unwrap_err();
    assert!(matches!(error, SweepError::LocalUnresponsive));
    let mut transport = InProcess::new(sim_port(tree()));
    let error = sweep(&mut transport, &Options::default(), &mut |_| (), &|| true).unwrap_err();
    assert!(matches!(error, SweepError::Stopped(_)));
}

#[test]
fn a_refused_question_is_said() {
    let found = run(Lying(sim_port(tree()), |_: &Mad, received: &mut Received| {
        if received.mad.header().attribute() == attribute::SWITCH_INFO {
            received.mad.smp_mut().header_mut().set_status(mad::values::Status::ATTRIBUTE_NOT_SUPPORTED);
        }
        assert_eq!(received.mad.header().method(), Method::GET_RESPONSE);
        true
    }));
    assert_eq!(found.anomalies.len(), 20);
    assert!(found.anomalies.iter().all(|anomaly| matches!(anomaly, Anomaly::Refused { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever comes back: it ends, and does not panic.
    #[test]
    fn garbled_answers_end_in_a_report(seed: u64, garble in 0_u32..700, lose in 0_u32..300) {
        let harm = Harm { lose, double: 100, delay: 100, garble, late_by: Duration::from_secs(1) };
        let mut transport = InProcess::new(Injured::new(sim_port(tree()), harm, seed));
        let options = Options { most_nodes: 300, ..Options::default() };
        match sweep(&mut transport, &options, &mut |_| (), &|| false) {
            Ok(found) => {
                prop_assert_eq!(found.nodes.len(), found.graph.node_count());
                prop_assert_eq!(found.ports.len(), found.graph.port_total());
                found.anomalies.iter().for_each(|anomaly| assert!(!anomaly.to_string().is_empty()));
            }
            Err(error) => prop_assert!(matches!(error, SweepError::LocalUnresponsive)),
        }
    }
}
