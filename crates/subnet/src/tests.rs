//! The manager on simulated fabrics whose time is virtual: bring-up, restart, faults.

use std::collections::BTreeMap;
use std::time::Duration;

use fabric::agents::{Agents, Carried};
use mad::header::DATA_AT;
use mad::in_process::{Fabric, InProcess};
use mad::injure::{Harm, Injured};
use mad::sm::{LIDS_PER_BLOCK, SmInfo, attribute};
use mad::values::{Class, Method, PortState, SmState};
use mad::{Address, Lid, Mad, Received};
use seeded_random::SplitMix64;
use topology::build::{FatTree, Torus, fat_tree, hypercube, torus};
use topology::routing::check::Fault;
use topology::routing::{Lids, Tables, check};
use topology::{Graph, Kind, LinkSpec, NodeIx, PortIx};

mod flapping;
mod lanes;
mod partitions;
mod paths;
mod protected;
mod registered;
mod several;
mod world;

use crate::routes::Manner;
use crate::{BroughtUp, Event, Manager, Options, Repaired};

/// A fabric with a manager at its first host, that counts Sets and checks every state of its tables.
struct Lab {
    agents: Agents,
    here: PortIx,
    /// Sets by attribute.
    sets: BTreeMap<u16, u64>,
    /// Tables are checked after each change.
    watched: bool,
    /// The tables that the switches hold, as far as the Sets say: by NodeIx of the agents' graph.
    held: Tables,
    /// State and priority that a program that manages behind another port responds to SMInfo.
    other_manager: Option<(SmState, u8)>,
    /// States in between that had a loop or credit loop.
    bad: Vec<String>,
    states: u64,
    /// What the manager sent as subnet administration.
    administered: Vec<(Address, Mad)>,
    /// States in between of multicast tables in which a packet can go round.
    group_loops: Vec<String>,
    /// Of all ports of hosts.
    lmc: u8,
}

impl Lab {
    fn new(graph: Graph) -> Self {
        Self::with_lmc(graph, 0)
    }

    fn with_lmc(graph: Graph, lmc: u8) -> Self {
        let agents = Agents::new(graph);
        let here = agents.place(agents.graph().nodes_of(Kind::Host).next().unwrap()).unwrap();
        let lids = std::sync::Arc::new(Lids::assign(agents.graph(), lmc, |_| None).unwrap());
        let switches: Vec<NodeIx> = agents.graph().nodes_of(Kind::Switch).collect();
        let held = Tables::empty(lids, &switches);
        Self {
            agents,
            here,
            sets: BTreeMap::new(),
            watched: false,
            held,
            other_manager: None,
            bad: Vec::new(),
            states: 0,
            administered: Vec::new(),
            group_loops: Vec::new(),
            lmc,
        }
    }

    /// The LIDs and tables that the fabric really has, and the graph of cables that packets pass.
    fn real(&self) -> (Graph, Tables) {
        let graph = self.agents.graph();
        let state = |port: PortIx| self.agents.port_info(port).state();
        let passes = |from, to| state(from) == PortState::ACTIVE && state(to) >= PortState::ARMED;
        let pulled = graph
            .links()
            .filter(|(a, b)| self.agents.peer(*a).is_none() || !(passes(*a, *b) || passes(*b, *a)));
        let pulled: Vec<PortIx> = pulled.map(|(a, _)| a).collect();
        let lid = |port: PortIx| Some(self.agents.port_info(port).lid().0);
        let lids = std::sync::Arc::new(Lids::assign(graph, self.lmc, lid).unwrap());
        assert_eq!(lids.refused(), [], "no two ports have one LID");
        let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
        let mut tables = Tables::empty(lids, &switches);
        for switch in switches {
            for (lid, port) in (0..tables.width()).zip(self.held.table(self.held.index_of(switch).unwrap())) {
                tables.set(switch, lid as u16, *port);
            }
        }
        (graph.without(&pulled, &[]), tables)
    }
}

impl Fabric for Lab {
    fn carry(&mut self, now: Duration, to: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        let carried = self.agents.carry(self.here, to, mad);
        let header = mad.header();
        if header.class() == Class::ADMINISTRATION {
            self.administered.push((*to, *mad));
            return;
        }
        let is_group = header.attribute() == attribute::MULTICAST_TABLE;
        if self.watched && is_group && header.method() == Method::SET {
            registered::look_for_loops(self);
        }
        if header.method() == Method::SET {
            *self.sets.entry(header.attribute()).or_default() += 1;
        }
        if let (Carried::Arrived(at, lid, request), Some((state, priority))) = (&carried, self.other_manager)
        {
            let mut mad = **request;
            mad.header_mut().set_method(Method::GET_RESPONSE);
            let guid = self.agents.node_info(*at).port_guid();
            mad.data_mut::<SmInfo>().set_state(state).set_priority(priority).set_key(1).set_guid(guid);
            mad.smp_mut().header_mut().set_returning(true);
            let from = Address { lid: *lid, ..*to };
            back.push((Duration::from_micros(20), Received { from, mad, undelivered: false }));
        }
        if let Carried::Answered(lid, answer) = carried {
            if header.method() == Method::SET && header.attribute() == attribute::LINEAR_TABLE {
                self.hold(mad);
            }
            back.push((
                Duration::from_micros(20),
                Received { from: Address { lid, ..*to }, mad: *answer, undelivered: false },
            ));
        }
        // Traps come with whatever is carried next.
        for (port, to, mad) in self.agents.due_traps(now) {
            if let Carried::Arrived(at, lid, mad) = self.agents.carry_trap(port, to, &mad)
                && at == self.here
            {
                let from = Address::management(lid);
                back.push((Duration::from_micros(30), Received { from, mad: *mad, undelivered: false }));
            }
        }
    }

    fn lids(&self) -> (Lid, Lid) {
        let info = self.agents.port_info(self.here);
        (info.lid(), info.sm_lid())
    }
}

impl Lab {
    /// Which switch a Set reached is where its directed route leads.
    fn hold(&mut self, mad: &Mad) {
        let graph = self.agents.graph();
        let mut at = self.here;
        for number in mad.smp().initial_path().unwrap() {
            at = graph.peer(graph.port(graph.owner(at), *number).unwrap()).unwrap();
        }
        let (switch, block) = (graph.owner(at), mad.header().modifier() as u16);
        for entry in 0..LIDS_PER_BLOCK {
            self.held.set(switch, block * LIDS_PER_BLOCK + entry, mad.0[DATA_AT + usize::from(entry)]);
        }
        if self.watched {
            self.states += 1;
            let (graph, tables) = self.real();
            let checked = check(&graph, &tables);
            let loops: Vec<_> = checked.findings.iter().filter(|one| one.fault == Fault::Loop).collect();
            if !checked.credit_loop.is_empty() || !loops.is_empty() {
                self.bad.push(format!("state {}: {:?} {loops:?}", self.states, checked.credit_loop));
            }
        }
    }
}

/// The same graph with a GUID for each node, and the same for its port.
pub(crate) fn with_guids(plain: &Graph) -> Graph {
    let mut builder = topology::GraphBuilder::new();
    for node in plain.nodes() {
        let guid = 0x100 + u64::from(node.0);
        let spec = topology::NodeSpec::new(plain.kind(node), plain.name(node), plain.port_count(node));
        let index = builder.node(spec.guid(guid)).unwrap();
        builder.port_guid(index, u8::from(plain.kind(node) != Kind::Switch), guid);
    }
    for (a, b) in plain.links() {
        let end = |port| (plain.owner(port), plain.number(port));
        builder.link(end(a), end(b), plain.link(a).unwrap()).unwrap();
    }
    builder.finish()
}

fn brought_up(transport: &mut InProcess<Lab>, options: Options) -> (Manager, BroughtUp) {
    let mut manager = Manager::new(options).unwrap();
    let up = manager.bring_up(transport, &mut |_| (), &|| false).unwrap();
    (manager, up)
}

/// Attends for some seconds of virtual time. Traps need something to be carried: the light sweep is.
fn attend(manager: &mut Manager, transport: &mut InProcess<Lab>, seconds: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let until = mad::MadTransport::now(transport) + Duration::from_secs(seconds);
    manager.attend(transport, Some(until), &mut |event| events.push(event), &|| false).unwrap();
    events
}

fn repairs(events: &[Event]) -> Vec<&Repaired> {
    events
        .iter()
        .map(|event| match event {
            Event::Repaired(repaired) => &**repaired,
            Event::BroughtUp(why, _) => panic!("swept anew: {why}"),
            Event::Role { why, .. } => panic!("another state: {why}"),
            Event::Grouped(grouped) => panic!("no port is in a group: {grouped:?}"),
        })
        .collect()
}

/// Every port that has a cable is active, and the tables lead everywhere.
fn whole(lab: &Lab) {
    let graph = lab.agents.graph();
    for (a, b) in graph.links().filter(|(a, _)| lab.agents.peer(*a).is_some()) {
        for end in [a, b] {
            assert_eq!(lab.agents.port_info(end).state(), PortState::ACTIVE);
        }
    }
    let (graph, tables) = lab.real();
    let checked = check(&graph, &tables);
    assert!(checked.is_good() && checked.pairs > 0, "{checked:?}");
}

fn tree() -> Graph {
    fat_tree(&FatTree::new(8, 3)).unwrap()
}

fn between_switches(graph: &Graph) -> Vec<PortIx> {
    let switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    graph.links().filter(|(a, b)| switch(*a) && switch(*b)).map(|(a, _)| a).collect()
}

#[test]
fn a_fabric_is_brought_up_and_a_second_time_nothing_is_set() {
    let mut transport = InProcess::new(Lab::new(tree()));
    let (manager, up) = brought_up(&mut transport, Options::default());
    assert!(up.is_good(), "{up:?}");
    assert_eq!((up.active_links, up.links, up.engine), (384, 384, "fattree"));
    whole(&transport.fabric);
    assert_eq!(up.sets.lft_blocks, 80 * 4, "208 LIDs are in four blocks");
    let before = transport.fabric.sets.clone();
    let lids: Vec<u16> = manager.model().unwrap().lids.iter().map(|one| one.0).collect();
    let (again, second) = brought_up(&mut transport, Options::default());
    assert_eq!(second.sets.total(), 0, "{second:?}");
    assert_eq!(transport.fabric.sets, before);
    assert_eq!(again.model().unwrap().lids.iter().map(|one| one.0).collect::<Vec<_>>(), lids);
}

#[test]
fn a_plan_sends_no_set_and_names_all_that_a_bring_up_sends() {
    let mut transport = InProcess::new(Lab::new(tree()));
    let mut planned = Vec::new();
    let plan = Manager::new(Options::default())
        .unwrap()
        .plan(&mut transport, &mut |_| (), &mut |set, graph| planned.push(set.text(graph)), &|| false)
        .unwrap();
    assert_eq!(transport.fabric.sets, BTreeMap::new());
    assert_eq!(planned.len() as u64, plan.sets.total());
    assert!(
        planned
            .iter()
            .any(|line| line.starts_with("Set PortInfo leaf000/1: LID ") && line.ends_with("state Armed"))
    );
    assert!(
        planned
            .iter()
            .any(|line| line.starts_with("Set PortInfo leaf000/1: LID ") && line.ends_with("state Active"))
    );
    assert!(
        planned
            .iter()
            .any(|line| line.starts_with("Set LinearForwardingTable leaf000 block 0: LIDs 0 to 63: - "))
    );
    let (_, up) = brought_up(&mut transport, Options::default());
    assert_eq!(up.sets, plan.sets);
    let sent: u64 = transport.fabric.sets.values().sum();
    assert_eq!(sent, plan.sets.total());
}

/// The entries that a repair changes are those that routing again changes, and every state in between is free
/// of loops and credit loops.
#[test]
fn a_dead_cable_and_its_return_change_only_what_they_must() {
    let graph = tree();
    let cables = between_switches(&graph);
    let mut random = SplitMix64::new(26);
    for _ in 0..6 {
        let mut transport = InProcess::new(Lab::new(graph.clone()));
        let (mut manager, _) =
            brought_up(&mut transport, Options { light_sweep: Duration::from_secs(1), ..Options::default() });
        let cable = cables[random.next_u64() as usize % cables.len()];
        let (_, before) = transport.fabric.real();
        transport.fabric.sets.clear();
        transport.fabric.watched = true;
        assert!(transport.fabric.agents.unlink(cable));
        let events = attend(&mut manager, &mut transport, 3);
        let all = repairs(&events);
        assert_eq!(all[0].down.len(), 1, "{all:?}");
        assert!(all.iter().all(|one| one.is_good()), "{all:?}");
        assert!(matches!(all[0].manner, Manner::AtOnce | Manner::DeadLast), "no packet is dropped: {all:?}");
        whole(&transport.fabric);
        let (_, after) = transport.fabric.real();
        let changed = before.changes(&after).count();
        assert_eq!(changed, all[0].changed_entries);
        let dead: usize = before
            .changes(&after)
            .filter(|change| {
                let port = graph.port(change.switch, change.before);
                port == Some(cable) || port == graph.peer(cable)
            })
            .count();
        assert!(dead > 0 && changed < 208 * 80 / 10, "{changed} entries for one cable");
        // All blocks that were written hold a changed entry, and no port was set.
        assert_eq!(transport.fabric.sets.get(&attribute::PORT_INFO), None);
        let blocks = before.blocks_to_write(&after).count() as u64;
        assert!(transport.fabric.sets[&attribute::LINEAR_TABLE] <= 2 * blocks);

        assert!(transport.fabric.agents.relink(cable));
        let events = attend(&mut manager, &mut transport, 3);
        assert!(repairs(&events).iter().all(|one| one.is_good()));
        let manner = repairs(&events)[0].manner;
        assert!(matches!(manner, Manner::AtOnce | Manner::NewFirst), "no packet is dropped: {manner:?}");
        whole(&transport.fabric);
        assert_eq!(transport.fabric.real().1, before, "with the cable the former tables are back");
        assert_eq!(transport.fabric.sets[&attribute::PORT_INFO], 4, "two ends, Armed and Active");
        assert_eq!(transport.fabric.bad, Vec::<String>::new());
        assert!(transport.fabric.states > 0);
    }
}

#[test]
fn a_switch_that_dies_and_comes_back_and_a_host_that_goes() {
    let mut transport = InProcess::new(Lab::new(tree()));
    let (mut manager, _) =
        brought_up(&mut transport, Options { light_sweep: Duration::from_secs(1), ..Options::default() });
    let graph = transport.fabric.agents.graph().clone();
    let spine = transport.fabric.agents.node("spine000").unwrap();
    let ports: Vec<PortIx> = graph.cabled(spine).map(|(near, _)| near).collect();
    transport.fabric.watched = true;
    ports.iter().for_each(|port| assert!(transport.fabric.agents.unlink(*port)));
    let events = attend(&mut manager, &mut transport, 5);
    assert_eq!(repairs(&events)[0].down.len(), 8, "one repair for all cables: {events:?}");
    let last = repairs(&events)[repairs(&events).len() - 1];
    assert!(last.cut_off == 1 && last.is_good() && last.findings.is_empty(), "{last:?}");
    whole(&transport.fabric);
    ports.iter().for_each(|port| assert!(transport.fabric.agents.relink(*port)));
    let events = attend(&mut manager, &mut transport, 5);
    assert!(repairs(&events).last().unwrap().is_good(), "{events:?}");
    whole(&transport.fabric);
    assert_eq!(transport.fabric.bad, Vec::<String>::new());

    // A host: no table changes, as nothing but it is concerned.
    let host = transport.fabric.agents.node("host00017").unwrap();
    let port = graph.port(host, 1).unwrap();
    transport.fabric.sets.clear();
    assert!(transport.fabric.agents.unlink(port));
    let gone = attend(&mut manager, &mut transport, 3);
    assert_eq!((repairs(&gone)[0].changed_entries, repairs(&gone)[0].cut_off), (0, 1));
    assert!(transport.fabric.agents.relink(port));
    let back = attend(&mut manager, &mut transport, 3);
    assert!(repairs(&back).iter().all(|one| one.changed_entries == 0));
    assert_eq!(transport.fabric.sets.get(&attribute::LINEAR_TABLE), None);
    whole(&transport.fabric);
}

/// MADs that are lost, doubled and late change how long it takes, and not what comes of it.
#[test]
fn a_bad_network_only_takes_longer() {
    for seed in 0..3 {
        let harm = Harm { lose: 50, double: 50, delay: 50, garble: 0, late_by: Duration::from_millis(700) };
        let lab = Lab::new(fat_tree(&FatTree::new(4, 3)).unwrap());
        let mut transport = InProcess::new(Injured::new(lab, harm, seed));
        let limits = mad::windowed::Limits { retries: 20, ..mad::windowed::Limits::default() };
        let mut manager = Manager::new(Options { limits, ..Options::default() }).unwrap();
        let up = manager.bring_up(&mut transport, &mut |_| (), &|| false).unwrap();
        assert_eq!((up.failed_sets, up.lost_pairs, up.active_links), (0, 0, up.links), "{up:?}");
        assert!(up.links > 0);
    }
}

/// Stopped at any moment and started again, the manager ends with the same LIDs and tables, and then has
/// nothing more to set.
#[test]
fn a_manager_that_is_killed_at_any_moment_continues_from_what_the_fabric_has() {
    let graph = fat_tree(&FatTree::new(4, 3)).unwrap();
    let mut whole_one = InProcess::new(Lab::new(graph.clone()));
    brought_up(&mut whole_one, Options::default());
    let wanted = whole_one.fabric.real().1;
    let mut random = SplitMix64::new(100);
    for _ in 0..100 {
        let mut transport = InProcess::new(Lab::new(graph.clone()));
        let steps = std::cell::Cell::new(random.next_u64() % 60);
        let stop = || steps.replace(steps.get().saturating_sub(1)) == 0;
        let mut manager = Manager::new(Options::default()).unwrap();
        let killed = manager.bring_up(&mut transport, &mut |_| (), &stop).is_err();
        let (_, up) = brought_up(&mut transport, Options::default());
        assert!(up.is_good(), "killed: {killed}: {up:?}");
        assert_eq!(transport.fabric.real().1, wanted);
        assert_eq!(brought_up(&mut transport, Options::default()).1.sets.total(), 0);
    }
}

/// Other shapes, in which several cables die one after the other: no state in between has a credit loop.
#[test]
fn a_torus_and_a_hypercube_are_repaired_without_a_credit_loop() {
    let graphs = [torus(&Torus::new(&[4, 4], 1)).unwrap(), hypercube(4, 1, LinkSpec::EDR4X).unwrap()];
    let mut random = SplitMix64::new(7);
    for graph in graphs {
        let mut transport = InProcess::new(Lab::new(graph.clone()));
        let options = Options { light_sweep: Duration::from_secs(1), ..Options::default() };
        let (mut manager, up) = brought_up(&mut transport, options);
        assert!(up.is_good(), "{up:?}");
        whole(&transport.fabric);
        transport.fabric.watched = true;
        let cables = between_switches(&graph);
        for _ in 0..6 {
            let cable = cables[random.next_u64() as usize % cables.len()];
            for pull in [true, false] {
                let agents = &mut transport.fabric.agents;
                assert!(if pull { agents.unlink(cable) } else { agents.relink(cable) });
                let events = attend(&mut manager, &mut transport, 4);
                assert!(repairs(&events).iter().all(|one| one.is_good()), "{events:?}");
                whole(&transport.fabric);
            }
        }
        assert_eq!(transport.fabric.bad, Vec::<String>::new());
    }
}

/// One who finds a master, or one that goes first, sets nothing when it is to be the only one.
#[test]
fn beside_another_master_nothing_is_set() {
    for (state, priority, is_refused) in [
        (SmState::MASTER, 0, true),
        (SmState::DISCOVERING, 4, true),
        (SmState::DISCOVERING, 0, false),
        (SmState::STANDBY, 0, false),
        (SmState::NOT_ACTIVE, 9, false),
    ] {
        let mut lab = Lab::new(fat_tree(&FatTree::new(4, 2)).unwrap());
        let other = lab.agents.place(lab.agents.node("host00005").unwrap()).unwrap();
        lab.agents.set_is_sm(other, true);
        lab.other_manager = Some((state, priority));
        let mut transport = InProcess::new(lab);
        let mut manager = Manager::new(Options { priority: 2, ..Options::default() }).unwrap();
        let result = manager.bring_up(&mut transport, &mut |_| (), &|| false);
        assert_eq!(result.is_err(), is_refused, "{state}: {result:?}");
        assert_eq!(transport.fabric.sets.is_empty(), is_refused);
        if let Err(error) = result {
            let said = error.to_string();
            assert!(said.starts_with("another subnet manager is at host00005/1 (it is "), "{said}");
        }
    }
}

/// After a fault the tables are not those that would be computed anew. A manager that starts then keeps them.
#[test]
fn a_manager_that_starts_in_a_repaired_fabric_sets_nothing() {
    let mut transport = InProcess::new(Lab::new(tree()));
    let options = || Options { light_sweep: Duration::from_secs(1), ..Options::default() };
    let (mut manager, _) = brought_up(&mut transport, options());
    let cable = between_switches(transport.fabric.agents.graph())[5];
    assert!(transport.fabric.agents.unlink(cable));
    let events = attend(&mut manager, &mut transport, 3);
    assert!(repairs(&events).iter().all(|one| one.is_good()), "{events:?}");
    let (_, before) = transport.fabric.real();
    let (mut again, up) = brought_up(&mut transport, options());
    assert_eq!(up.sets.total(), 0, "{up:?}");
    assert_eq!(transport.fabric.real().1, before);
    whole(&transport.fabric);
    // It never saw that cable.
    assert!(transport.fabric.agents.relink(cable));
    let events = attend(&mut again, &mut transport, 3);
    assert!(matches!(&events[0], Event::BroughtUp(why, up) if why.contains("a new cable") && up.is_good()));
    whole(&transport.fabric);
}
