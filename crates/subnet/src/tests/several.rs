//! Several managers in one fabric: exactly one is master in the end, and no LID is used twice.

use std::collections::BTreeMap;
use std::time::Duration;

use fabric::agents::Agents;
use mad::sm::attribute;
use mad::values::{PortState, SmState};
use seeded_random::SplitMix64;
use topology::build::{FatTree, fat_tree};
use topology::routing::{Lids, NO_PATH, Tables, check};
use topology::{Graph, Kind, NodeIx, PortIx};

use super::world::{Fault, Net, World, run};
use crate::Options;

const SECOND: Duration = Duration::from_secs(1);

fn graph() -> Graph {
    fat_tree(&FatTree::new(4, 2)).unwrap()
}

fn options() -> Options {
    let limits = mad::windowed::Limits { retries: 8, ..mad::windowed::Limits::default() };
    Options { limits, light_sweep: 2 * SECOND, quarantine: 2 * SECOND, ..Options::default() }
}

fn port(agents: &Agents, name: &str) -> PortIx {
    agents.place(agents.node(name).unwrap()).unwrap()
}

fn after(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The managers that live and are master.
fn masters(world: &World) -> Vec<PortIx> {
    let master = world.actors.iter().filter(|actor| actor.alive && actor.role == SmState::MASTER);
    master.map(|actor| actor.port).collect()
}

/// The tables that the switches hold, and the cables that are in place.
fn real(agents: &Agents) -> (Graph, Tables) {
    let graph = agents.graph();
    let pulled: Vec<PortIx> = graph.links().map(|(a, _)| a).filter(|a| agents.peer(*a).is_none()).collect();
    let hosts = graph.nodes_of(Kind::Host).filter_map(|host| agents.place(host));
    let lmc = hosts.map(|port| agents.port_info(port).mask_control()).max().unwrap_or(0);
    let lids = Lids::assign(graph, lmc, |port| Some(agents.port_info(port).lid().0)).unwrap();
    assert_eq!(lids.refused(), [], "no two ports have one LID");
    let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
    let mut tables = Tables::empty(std::sync::Arc::new(lids), &switches);
    for switch in switches {
        for lid in 0..tables.width() as u16 {
            tables.set(switch, lid, agents.linear_entry(switch, lid).unwrap_or(NO_PATH));
        }
    }
    (graph.without(&pulled, &[]), tables)
}

/// One master, that of the highest rank, everywhere; no LID twice; all links active, all routes there.
fn converged(world: &World, story: &str) {
    let said = || {
        let told: String = world.told.iter().map(|one| format!("{one:?}\n")).collect();
        format!("{story}\n{told}")
    };
    let errors: Vec<&String> = world.actors.iter().filter_map(|actor| actor.error.as_ref()).collect();
    assert!(errors.is_empty(), "{errors:?}: {}", said());
    assert!(world.unlawful.is_empty(), "{:?}: {}", world.unlawful, said());
    let agents = &world.agents;
    let rank = |port: PortIx, priority: u8| (priority, std::cmp::Reverse(agents.node_info(port).port_guid()));
    let alive = world.actors.iter().filter(|actor| actor.alive);
    let first = alive.max_by_key(|actor| rank(actor.port, actor.priority)).unwrap().port;
    assert_eq!(masters(world), [first], "{}", said());
    let lid = agents.port_info(first).lid();
    for (a, b) in agents.graph().links() {
        for end in [a, b] {
            let info = agents.port_info(end);
            assert_eq!((info.state(), info.sm_lid()), (PortState::ACTIVE, lid), "{}", said());
        }
    }
    let (graph, tables) = real(agents);
    let checked = check(&graph, &tables);
    assert!(checked.is_good() && checked.pairs > 0, "{checked:?}: {}", said());
}

#[test]
fn the_standby_takes_over_and_sets_no_table() {
    let agents = Agents::new(graph());
    let (a, b) = (port(&agents, "host00001"), port(&agents, "host00006"));
    for says_so in [true, false] {
        let faults = vec![
            (after(0), Fault::Start(a, 3)),
            (after(500), Fault::Start(b, 2)),
            (after(5_000), Fault::Quiet),
            (after(6_000), Fault::Kill(a, says_so)),
            (after(9_000), Fault::End),
        ];
        let world = run(Agents::new(graph()), options(), faults, 1);
        converged(&world, "failover");
        let taken = world.told.iter().find(|one| one.0 > 6 * SECOND && one.2.contains("BroughtUp")).unwrap();
        assert!(taken.0 < 9 * SECOND, "within three seconds: {taken:?}");
        assert_eq!(world.sets.get(&attribute::LINEAR_TABLE), None, "{:?}", world.sets);
        assert!(world.sets[&attribute::PORT_INFO] > 0, "the LID of the manager is set");
        let kinds: Vec<u16> = world.sets.keys().copied().collect();
        assert!(kinds.iter().all(|it| [attribute::PORT_INFO, attribute::SWITCH_INFO].contains(it)));
        // What ports had registered is lost with the first manager: they are asked to register again.
        let agents = &world.agents;
        let asked = agents.graph().nodes_of(Kind::Host).filter_map(|host| agents.place(host));
        assert!(asked.map(|port| agents.reregistered(port)).all(|times| times == 1));
    }
}

#[test]
fn with_short_intervals_it_takes_less_than_a_second() {
    let agents = Agents::new(graph());
    let (a, b) = (port(&agents, "host00001"), port(&agents, "host00006"));
    let faults = vec![
        (after(0), Fault::Start(a, 0)),
        (after(500), Fault::Start(b, 0)),
        (after(5_000), Fault::Kill(a, true)),
        (after(6_000), Fault::End),
    ];
    let tuned = Options { poll: after(100), ..options() };
    let world = run(agents, tuned, faults, 1);
    converged(&world, "tuned");
}

#[test]
fn a_manager_of_higher_priority_that_comes_later_is_handed_over_to() {
    let agents = Agents::new(graph());
    let (a, b) = (port(&agents, "host00001"), port(&agents, "host00006"));
    let faults = vec![
        (after(0), Fault::Start(a, 0)),
        (after(3_000), Fault::Quiet),
        (after(3_000), Fault::Start(b, 5)),
        (after(8_000), Fault::End),
    ];
    let world = run(agents, options(), faults, 1);
    converged(&world, "handover");
    assert!(world.told.iter().any(|one| one.1 == 0 && one.2.contains("handed over to host00006/1")));
    assert_eq!(world.sets.get(&attribute::LINEAR_TABLE), None, "nothing but the manager changed");
}

#[test]
fn two_that_start_at_once_agree() {
    for late in [0, 1, 3, 10, 30, 100] {
        for (first, second) in [(0, 0), (1, 0), (0, 1)] {
            let agents = Agents::new(graph());
            let (a, b) = (port(&agents, "host00001"), port(&agents, "host00006"));
            let faults = vec![
                (after(0), Fault::Start(a, first)),
                (Duration::from_micros(late * 100), Fault::Start(b, second)),
                (after(10_000), Fault::End),
            ];
            let world = run(agents, options(), faults, late);
            converged(&world, &format!("{late} {first} {second}"));
        }
    }
}

/// The cables whose loss cuts the fabric in two: those of one leaf to the switches above.
fn cut(graph: &Graph, leaf: &str) -> Vec<PortIx> {
    let leaf = graph.nodes().find(|node| graph.name(*node) == leaf).unwrap();
    let up = graph.cabled(leaf).filter(|(_, far)| graph.kind(graph.owner(*far)) == Kind::Switch);
    up.map(|(near, _)| near).collect()
}

#[test]
fn a_fabric_cut_in_two_has_two_masters_and_joined_again_one() {
    for (first, second) in [(0, 0), (3, 0), (0, 3)] {
        let agents = Agents::new(graph());
        let (a, b) = (port(&agents, "host00000"), port(&agents, "host00006"));
        let cables = cut(agents.graph(), "leaf000");
        let faults = vec![
            (after(0), Fault::Start(a, first)),
            (after(500), Fault::Start(b, second)),
            (after(8_000), Fault::Cables(cables.clone(), true)),
            (after(20_000), Fault::Cables(cables, false)),
            (after(50_000), Fault::End),
        ];
        let world = run(agents, options(), faults, 1);
        converged(&world, &format!("{first} {second}"));
        let masters = world.told.iter().filter(|one| one.2.starts_with("Role: master"));
        let of = |who: usize| masters.clone().any(|one| one.1 == who);
        assert!(of(0) && of(1), "each was master of its part: {:?}", world.told);
    }
}

/// A story of faults that a seed tells, at the end of which everything is whole again.
fn story(agents: &Agents, seed: u64) -> Vec<(Duration, Fault)> {
    let mut random = SplitMix64::new(seed);
    let graph = agents.graph();
    let mut places: Vec<PortIx> =
        ["host00000", "host00003", "host00005", "spine001"].iter().map(|name| port(agents, name)).collect();
    random.shuffle(&mut places);
    places.truncate(2 + random.below(2));
    let priorities: Vec<u8> = places.iter().map(|_| random.below(3) as u8).collect();
    let mut faults: BTreeMap<(Duration, usize), Fault> = BTreeMap::new();
    let mut add = |at: Duration, fault: Fault| {
        let number = faults.len();
        faults.insert((at, number), fault);
    };
    let net = Net {
        lose: random.below(60) as u64,
        double: random.below(60) as u64,
        delay: random.below(100) as u64,
        late_by: after(1 + random.below(900) as u64),
    };
    add(Duration::ZERO, Fault::Net(net));
    let mut lives = vec![false; places.len()];
    let all: Vec<PortIx> = graph.links().map(|(a, _)| a).collect();
    let (mut at, mut pulled) = (Duration::ZERO, Vec::new());
    for _ in 0..6 + random.below(8) {
        let most = if random.coin() { 40 } else { 4_000 };
        at += after(random.below(most) as u64);
        let who = random.below(places.len());
        match random.below(6) {
            0..=2 if lives[who] => add(at, Fault::Kill(places[who], random.coin())),
            0..=2 => add(at, Fault::Start(places[who], priorities[who])),
            3 => {
                let cable = all[random.below(all.len())];
                pulled.push(cable);
                add(at, Fault::Cables(vec![cable], true));
                continue;
            }
            4 => {
                let leaf = format!("leaf00{}", random.below(4));
                let cables = cut(graph, &leaf);
                pulled.extend(&cables);
                add(at, Fault::Cables(cables, true));
                continue;
            }
            _ => {
                add(at, Fault::Cables(std::mem::take(&mut pulled), false));
                continue;
            }
        }
        lives[who] = !lives[who];
    }
    add(at + SECOND, Fault::Cables(pulled, false));
    for (who, place) in places.iter().enumerate().filter(|(who, _)| !lives[*who]) {
        let begins = at + after(random.below(3_000) as u64);
        add(begins, Fault::Start(*place, priorities[who]));
    }
    add(at + 5 * SECOND, Fault::Net(Net::default()));
    add(at + 25 * SECOND, Fault::Quiet);
    add(at + 35 * SECOND, Fault::End);
    faults.into_iter().map(|((at, _), fault)| (at, fault)).collect()
}

/// How many stories are told; `TIELINE_SUBNET_STORIES` asks for more.
fn stories() -> u64 {
    std::env::var("TIELINE_SUBNET_STORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

#[test]
fn after_any_story_of_faults_there_is_one_master_and_nothing_more_is_set() {
    for seed in 0..stories() {
        let agents = Agents::new(graph());
        let faults = story(&agents, seed);
        let told = format!("seed {seed}: {faults:?}");
        let mut world = run(agents, options(), faults, seed);
        converged(&world, &told);
        // What could not be set is looked at again after pauses; then the mark of a changed port is cleared.
        assert!(world.sets.remove(&attribute::SWITCH_INFO).unwrap_or(0) <= 6, "{told}");
        assert_eq!(world.sets, BTreeMap::new(), "nothing is set any more: {told}");
    }
}
