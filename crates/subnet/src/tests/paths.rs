//! Several LIDs a port (LMC): each with a route of its own, and path records that say so.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use fabric::agents::Obedience;
use mad::in_process::InProcess;
use mad::sa::{DATA_AT, attribute, question};
use mad::sa_records::{NodeRecord, PathRecord};
use mad::sm::attribute as sm_attribute;
use mad::values::{Gid, Method, PortState};
use mad::{Address, Layout, Lid, Mad, MadTransport, Received};
use seeded_random::SplitMix64;
use topology::build::{FatTree, Torus, fat_tree, torus};
use topology::{Graph, Kind, PortIx};

use super::{Lab, attend, between_switches, brought_up, repairs, tree, whole};
use crate::{Manager, Options};

fn options(lmc: u8) -> Options {
    Options { lmc, light_sweep: Duration::from_secs(1), ..Options::default() }
}

fn hosts(lab: &Lab) -> Vec<PortIx> {
    let agents = &lab.agents;
    agents.graph().nodes_of(Kind::Host).map(|host| agents.place(host).unwrap()).collect()
}

#[test]
fn each_port_of_a_host_has_its_lids_and_they_take_different_routes() {
    for lmc in [1, 2, 3] {
        let mut transport = InProcess::new(Lab::with_lmc(tree(), lmc));
        let (manager, up) = brought_up(&mut transport, options(lmc));
        assert!(up.is_good(), "{up:?}");
        assert_eq!((up.lids, up.lmc, up.moved_ports), ((128 << lmc) + 80, lmc, 0));
        whole(&transport.fabric);
        let model = manager.model().unwrap();
        let agents = &transport.fabric.agents;
        let mut seen = BTreeSet::new();
        for (base, port) in model.lids.ends() {
            let info = agents.port_info(port_of(&transport.fabric, &model.graph, port));
            let is_host = model.graph.kind(model.graph.owner(port)) == Kind::Host;
            assert_eq!((info.lid(), info.mask_control()), (Lid(base), if is_host { lmc } else { 0 }));
            assert!(model.lids.of_port(&model.graph, port).all(|lid| seen.insert(lid)), "no LID twice");
        }
        // The first leaf has four ports up: with four LIDs all of them are used to each far host.
        let leaf = agents.node("leaf000").unwrap();
        for far in hosts(&transport.fabric).into_iter().rev().take(64) {
            let base = agents.port_info(far).lid().0;
            let out: BTreeSet<u8> =
                (base..base + (1 << lmc)).map(|lid| agents.linear_entry(leaf, lid).unwrap()).collect();
            assert_eq!(out.len(), (1 << lmc).min(4), "{out:?}");
        }
        // A second manager sets nothing.
        let (_, again) = brought_up(&mut transport, options(lmc));
        assert_eq!(again.sets.total(), 0, "{again:?}");
    }
}

/// The port of the agents' graph that is this one of the manager's.
fn port_of(lab: &Lab, graph: &Graph, port: PortIx) -> PortIx {
    let node = lab.agents.node(graph.name(graph.owner(port))).unwrap();
    lab.agents.graph().port(node, graph.number(port)).unwrap()
}

/// Cables die in a tree and in a torus whose hosts have several LIDs: no state in between has a loop or
/// credit loop over any of them.
#[test]
fn repairs_are_free_of_loops_over_all_lids() {
    let mut random = SplitMix64::new(3);
    for graph in [fat_tree(&FatTree::new(6, 3)).unwrap(), torus(&Torus::new(&[4, 4], 1)).unwrap()] {
        let mut transport = InProcess::new(Lab::with_lmc(graph.clone(), 2));
        let (mut manager, up) = brought_up(&mut transport, options(2));
        assert!(up.is_good(), "{up:?}");
        transport.fabric.watched = true;
        // Each once: a cable that falls twice in a minute is held back.
        let mut cables = between_switches(&graph);
        random.shuffle(&mut cables);
        for cable in cables.into_iter().take(4) {
            for pull in [true, false] {
                let agents = &mut transport.fabric.agents;
                assert!(if pull { agents.unlink(cable) } else { agents.relink(cable) });
                let events = attend(&mut manager, &mut transport, 4);
                assert!(repairs(&events).iter().all(|one| one.is_good()), "{events:?}");
                whole(&transport.fabric);
            }
        }
        assert_eq!(transport.fabric.bad, Vec::<String>::new());
        assert!(transport.fabric.states > 0);
    }
}

#[test]
fn lids_stay_over_restarts_and_a_changed_lmc_moves_only_what_does_not_fit() {
    let folder = std::env::temp_dir().join(format!("tieline-subnet-lmc-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let record: PathBuf = folder.join("lids");
    let with = |lmc: u8| Options { record: Some(record.clone()), ..options(lmc) };
    let mut transport = InProcess::new(Lab::with_lmc(tree(), 2));
    brought_up(&mut transport, with(2));
    let before: Vec<Lid> =
        hosts(&transport.fabric).iter().map(|port| transport.fabric.agents.port_info(*port).lid()).collect();
    // Everything is forgotten but the file.
    let mut fresh = InProcess::new(Lab::with_lmc(tree(), 2));
    brought_up(&mut fresh, with(2));
    let lids = |transport: &InProcess<Lab>| -> Vec<Lid> {
        hosts(&transport.fabric).iter().map(|port| transport.fabric.agents.port_info(*port).lid()).collect()
    };
    assert_eq!(lids(&fresh), before);
    // A manager with a lower LMC keeps all base LIDs; one with a higher LMC moves those that it must.
    fresh.fabric.lmc = 0;
    let (_, up) = brought_up(&mut fresh, with(0));
    assert!(up.is_good() && up.moved_ports == 0, "{up:?}");
    assert_eq!(lids(&fresh), before);
    whole(&fresh.fabric);
    fresh.fabric.lmc = 3;
    let (_, up) = brought_up(&mut fresh, with(3));
    assert!(up.failed_sets == 0 && up.lost_pairs == 0 && up.moved_ports > 0, "{up:?}");
    assert!(up.text().contains("does not fit LMC 3"), "{}", up.text());
    let kept = lids(&fresh).into_iter().zip(&before).filter(|(after, before)| after == *before).count();
    assert!(kept >= 64, "{kept} of 128 keep their base LID");
    let (_, again) = brought_up(&mut fresh, with(3));
    assert_eq!(again.sets.total(), 0, "{again:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a manager responds to a request of a port, which comes from one of its LIDs.
fn asked(transport: &mut InProcess<Lab>, manager: &mut Manager, from: Lid, mad: &Mad) -> Vec<Mad> {
    let mut mad = *mad;
    mad.header_mut().set_transaction(77);
    transport.fabric.administered.clear();
    let received = Received { from: Address::services(from), mad, undelivered: false };
    transport.inject(Duration::from_micros(10), received);
    let until = MadTransport::now(transport) + Duration::from_millis(400);
    manager.attend(transport, Some(until), &mut |_| (), &|| false).unwrap();
    transport
        .fabric
        .administered
        .iter()
        .map(|(_, mad)| *mad)
        .filter(|mad| mad.header().transaction() == 77)
        .collect()
}

/// Source and destination LIDs of the paths of one response or of the segments of a table.
fn pairs(segments: &[Mad]) -> Vec<(u16, u16)> {
    let mut bytes = Vec::new();
    for mad in segments {
        bytes.extend_from_slice(&mad.0[DATA_AT..]);
    }
    let records = bytes.chunks_exact(PathRecord::LEN).map(|one| PathRecord::view(one).unwrap());
    let pairs = records.map(|one| (one.source_lid().0, one.destination_lid().0));
    pairs.take_while(|pair| pair.0 != 0).collect()
}

#[test]
fn path_records_name_all_lids_or_as_many_as_are_asked_for() {
    let mut transport = InProcess::new(Lab::with_lmc(fat_tree(&FatTree::new(4, 2)).unwrap(), 2));
    let (mut manager, up) = brought_up(&mut transport, options(2));
    assert!(up.is_good());
    let agents = &transport.fabric.agents;
    let all = hosts(&transport.fabric);
    let gid = |port: PortIx| Gid::new(Gid::DEFAULT_PREFIX, agents.node_info(port).port_guid()).0;
    let lid = |port: PortIx| agents.port_info(port).lid().0;
    let (from, to) = (lid(all[1]), lid(all[7]));
    let mut wanted = PathRecord::default();
    wanted.set_source_gid(&gid(all[1])).set_destination_gid(&gid(all[7]));
    let gids = 1 << 2 | 1 << 3;
    let one = question(Method::GET, attribute::PATH, &wanted, gids);
    // One is what a Get gets, from whichever of its LIDs the port asks.
    let response = asked(&mut transport, &mut manager, Lid(from + 3), &one);
    assert_eq!(pairs(&response)[..1], [(from, to)]);
    assert_eq!(mad::header::refusal(&response[0]), None);
    // Three of a table: those that share no LID first.
    wanted.set_paths(3);
    let three = question(Method::GET_TABLE, attribute::PATH, &wanted, gids | 1 << 12);
    let response = asked(&mut transport, &mut manager, Lid(from), &three);
    let first: Vec<(u16, u16)> = (0..3).map(|at| (from + at, to + at)).collect();
    assert_eq!(pairs(&response)[..3], first);
    // By a LID in the middle only that one.
    wanted.set_destination_lid(Lid(to + 2)).set_source_lid(Lid(from + 1));
    let middle = question(Method::GET, attribute::PATH, &wanted, 1 << 4 | 1 << 5);
    assert_eq!(pairs(&asked(&mut transport, &mut manager, Lid(from), &middle))[..1], [(from + 1, to + 2)]);
    // A node has one record, whichever of its LIDs is asked for.
    let mut node = NodeRecord::default();
    node.set_lid(Lid(to + 1));
    let node = question(Method::GET, attribute::NODE, &node, 1);
    let response = asked(&mut transport, &mut manager, Lid(from), &node);
    assert_eq!(mad::header::refusal(&response[0]), None);
    assert_eq!(response[0].at::<DATA_AT, NodeRecord>().lid(), Lid(to));
}

/// A port that reports another LMC than it was given: it is named, and nobody is given the LIDs that it does
/// not have.
#[test]
fn a_port_that_does_not_take_the_lmc_is_named_and_its_further_lids_are_not_given_away() {
    let mut lab = Lab::with_lmc(fat_tree(&FatTree::new(4, 2)).unwrap(), 2);
    let liar = lab.agents.node("host00003").unwrap();
    lab.agents.set_obedience(liar, Some(Obedience::OneLid));
    let mut transport = InProcess::new(lab);
    let (mut manager, up) = brought_up(&mut transport, options(2));
    assert_eq!((up.lost_pairs, up.active_links), (0, up.links), "{up:?}");
    assert!(
        up.findings.iter().any(|one| one.contains("host00003/1") && one.contains("keeps LMC 0")),
        "{up:?}"
    );
    let agents = &transport.fabric.agents;
    let lid = |name: &str| agents.port_info(agents.place(agents.node(name).unwrap()).unwrap()).lid();
    let (from, to) = (lid("host00000"), lid("host00003"));
    let mut wanted = PathRecord::default();
    wanted.set_source_lid(from).set_destination_lid(Lid(to.0 + 1));
    let mask = 1 << 4 | 1 << 5;
    let mad = question(Method::GET, attribute::PATH, &wanted, mask);
    let response = asked(&mut transport, &mut manager, from, &mad);
    assert!(mad::header::refusal(&response[0]).is_some(), "it has no such LID");
    wanted.set_destination_lid(to);
    let mad = question(Method::GET, attribute::PATH, &wanted, mask);
    assert_eq!(mad::header::refusal(&asked(&mut transport, &mut manager, from, &mad)[0]), None);
}

/// Ports that claim LIDs that contradict each other, of a fabric that carries traffic: what the switches hold
/// is read all the same, and every step to the new tables is free of loops.
#[test]
fn claimed_lids_that_contradict_each_other_do_no_harm() {
    let mut transport = InProcess::new(Lab::new(tree()));
    brought_up(&mut transport, options(0));
    // Two hosts claim 128 LIDs each, among them those of all others.
    for name in ["host00005", "host00090"] {
        let agents = &mut transport.fabric.agents;
        let port = agents.place(agents.node(name).unwrap()).unwrap();
        agents.pretend(port, |info| {
            info.set_mask_control(7);
        });
    }
    transport.fabric.sets.clear();
    transport.fabric.watched = true;
    let (_, up) = brought_up(&mut transport, options(0));
    assert_eq!((up.failed_sets, up.lost_pairs, up.moved_ports), (0, 0, 0), "{up:?}");
    assert_eq!(transport.fabric.sets.get(&sm_attribute::LINEAR_TABLE), None, "the tables were known");
    assert_eq!(transport.fabric.sets.get(&sm_attribute::PORT_INFO), Some(&2), "both ports get LMC 0");
    whole(&transport.fabric);
    let agents = &transport.fabric.agents;
    assert!(hosts(&transport.fabric).iter().all(|port| agents.port_info(*port).state() == PortState::ACTIVE));
}
