use mad::header::{Path, Smp};
use mad::pm::{self, PortCounters};
use mad::sm::{LinearTable, NodeDescription, NodeInfo, PortInfo, SwitchInfo, attribute};
use mad::values::{Class, Method, NodeKind, PhysicalState, PortState, Status};
use mad::{Address, Lid, Mad};
use topology::build::{FatTree, fat_tree};
use topology::{NodeIx, PortIx};

use super::*;

fn fabric() -> (Agents, PortIx) {
    let agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
    let host = agents.node("host00000").unwrap();
    let port = agents.place(host).unwrap();
    (agents, port)
}

fn port(agents: &Agents, name: &str, number: u8) -> PortIx {
    agents.graph().port(agents.node(name).unwrap(), number).unwrap()
}

fn directed(agents: &mut Agents, from: PortIx, path: &[u8], mad: impl FnOnce(&Path) -> Mad) -> Option<Mad> {
    let mad = mad(&Path::new(path).unwrap());
    match agents.carry(from, &Address::DIRECTED, &mad) {
        Carried::Answered(_, answer) => Some(*answer),
        _ => None,
    }
}

fn get(agents: &mut Agents, from: PortIx, path: &[u8], attribute: u16, modifier: u32) -> Option<Mad> {
    directed(agents, from, path, |path| Smp::directed(Method::GET, attribute, modifier, path))
}

fn set<T: mad::Layout>(
    agents: &mut Agents,
    from: PortIx,
    path: &[u8],
    attribute: u16,
    modifier: u32,
    data: &T,
) -> Mad {
    let question = |path: &Path| {
        let mut mad = Smp::directed(Method::SET, attribute, modifier, path);
        *mad.data_mut() = *data;
        mad
    };
    directed(agents, from, path, question).unwrap()
}

fn status(mad: &Mad) -> Status {
    mad.smp().header().status()
}

#[test]
fn a_directed_route_comes_back_with_the_ports_it_entered_by() {
    let (mut agents, from) = fabric();
    let answer = get(&mut agents, from, &[1, 3, 2], attribute::NODE_INFO, 0).unwrap();
    assert!(answer.smp().header().returning());
    assert_eq!(answer.header().method(), Method::GET_RESPONSE);
    let info: &NodeInfo = answer.data();
    let entered = answer.smp().return_path().unwrap().to_vec();
    assert_eq!(entered.len(), 3);
    assert_eq!((info.kind(), info.local_port()), (NodeKind::SWITCH, entered[2]));
    // Behind a port without a cable, through a host, by another port than the host's, and by a number that is
    // none.
    for path in [&[1, 1, 1][..], &[2], &[1, 200], &[1, 0], &[0]] {
        assert!(get(&mut agents, from, path, attribute::NODE_INFO, 0).is_none(), "{path:?}");
    }
}

#[test]
fn tables_keep_what_is_set_and_refuse_what_is_out_of_range() {
    let (mut agents, from) = fabric();
    let mut block = LinearTable::default();
    (0..64).for_each(|index| block.set_port(index, index as u8).unwrap());
    let answer = set(&mut agents, from, &[1], attribute::LINEAR_TABLE, 767, &block);
    assert_eq!((status(&answer), answer.data::<LinearTable>()), (Status::OK, &block));
    let answer = get(&mut agents, from, &[1], attribute::LINEAR_TABLE, 766).unwrap();
    assert_eq!(answer.data::<LinearTable>().port(5), Some(255));
    let answer = get(&mut agents, from, &[1], attribute::LINEAR_TABLE, 767).unwrap();
    assert_eq!(answer.data::<LinearTable>(), &block);
    let refused = [
        (attribute::LINEAR_TABLE, 768, &[1][..], Status::BAD_FIELD),
        (attribute::LINEAR_TABLE, 0, &[], Status::ATTRIBUTE_NOT_SUPPORTED),
        (attribute::SWITCH_INFO, 0, &[], Status::ATTRIBUTE_NOT_SUPPORTED),
        (attribute::PORT_INFO, 9, &[1], Status::BAD_FIELD),
        (attribute::PORT_INFO, 0xff, &[], Status::BAD_FIELD),
        (attribute::PARTITION_TABLE, 4, &[], Status::BAD_FIELD),
        (attribute::PARTITION_TABLE, 9 << 16, &[1], Status::BAD_FIELD),
        (attribute::VL_ARBITRATION, 5 << 16 | 1, &[1], Status::BAD_FIELD),
        (attribute::SL_TO_VL_MAP, 9, &[1], Status::BAD_FIELD),
        (attribute::GUID_INFO, 16, &[], Status::BAD_FIELD),
        (attribute::MULTICAST_TABLE, 0xf000_0000, &[1], Status::BAD_FIELD),
        (attribute::VENDOR_DIAGNOSTICS, 0, &[], Status::ATTRIBUTE_NOT_SUPPORTED),
        (0x7777, 0, &[], Status::ATTRIBUTE_NOT_SUPPORTED),
    ];
    for (attribute, modifier, path, expected) in refused {
        let answer = get(&mut agents, from, path, attribute, modifier).unwrap();
        assert_eq!(status(&answer), expected, "{attribute:#x} {modifier:#x} {path:?}");
    }
    let answer = set(&mut agents, from, &[1], attribute::NODE_DESCRIPTION, 0, &NodeDescription::new("x"));
    assert_eq!(status(&answer), Status::METHOD_NOT_SUPPORTED);
    for (attribute, modifier, path) in [
        (attribute::MULTICAST_TABLE, 3, &[1][..]),
        (attribute::PARTITION_TABLE, 2 << 16 | 1, &[1]),
        (attribute::SL_TO_VL_MAP, 1 << 8 | 2, &[1]),
        (attribute::VL_ARBITRATION, 3 << 16 | 2, &[1]),
    ] {
        let answer = set(&mut agents, from, path, attribute, modifier, &LinearTable::default());
        assert_eq!(status(&answer), Status::OK);
        let mut data = LinearTable::default();
        (0..8).for_each(|index| data.set_port(index, 7).unwrap());
        set(&mut agents, from, path, attribute, modifier, &data);
        let answer = get(&mut agents, from, path, attribute, modifier).unwrap();
        assert_eq!(answer.data::<LinearTable>(), &data, "{attribute:#x}");
    }
}

#[test]
fn links_go_through_their_states_as_a_manager_tells_them() {
    let (mut agents, from) = fabric();
    let state = |agents: &mut Agents, state: PortState| {
        let mut info: PortInfo = *get(agents, from, &[], attribute::PORT_INFO, 1).unwrap().data();
        info.set_state(state).set_physical_state(PhysicalState::NO_CHANGE).set_lid(Lid(7)).set_sm_lid(Lid(7));
        let answer = set(agents, from, &[], attribute::PORT_INFO, 1, &info);
        (status(&answer), agents.port_info(from).state())
    };
    assert_eq!(state(&mut agents, PortState::ACTIVE), (Status::BAD_FIELD, PortState::INITIALIZE));
    assert_eq!(state(&mut agents, PortState::ARMED), (Status::OK, PortState::ARMED));
    assert_eq!(state(&mut agents, PortState::ACTIVE), (Status::OK, PortState::ACTIVE));
    assert_eq!(state(&mut agents, PortState::NO_CHANGE), (Status::OK, PortState::ACTIVE));
    assert_eq!(state(&mut agents, PortState::INITIALIZE), (Status::BAD_FIELD, PortState::ACTIVE));
    assert_eq!(agents.port_info(from).lid(), Lid(7));
    // Down means down and up again: both ends have to be initialised, and the switch at the other end
    // noticed.
    assert_eq!(state(&mut agents, PortState::DOWN), (Status::OK, PortState::INITIALIZE));
    let switch: SwitchInfo = *get(&mut agents, from, &[1], attribute::SWITCH_INFO, 0).unwrap().data();
    assert!(switch.state_change());
    let answer = set(&mut agents, from, &[1], attribute::SWITCH_INFO, 0, &switch);
    assert!(!answer.data::<SwitchInfo>().state_change());
    // Another port of a host is not its agent's to set.
    let answer = set(&mut agents, from, &[], attribute::PORT_INFO, 2, &PortInfo::default());
    assert_eq!(status(&answer), Status::BAD_FIELD);
}

#[test]
fn a_port_that_is_disabled_is_down_at_both_ends_until_it_polls_again() {
    let (mut agents, from) = fabric();
    let leaf = agents.node("leaf000").unwrap();
    let up = agents.graph().port(leaf, 3).unwrap();
    let peer = agents.peer(up).unwrap();
    let physical = |agents: &mut Agents, state: PhysicalState| {
        let mut info: PortInfo = *get(agents, from, &[1], attribute::PORT_INFO, 3).unwrap().data();
        info.set_physical_state(state).set_state(PortState::NO_CHANGE);
        assert_eq!(status(&set(agents, from, &[1], attribute::PORT_INFO, 3, &info)), Status::OK);
        [up, peer].map(|port| (agents.port_info(port).state(), agents.port_info(port).physical_state()))
    };
    let [own, other] = physical(&mut agents, PhysicalState::DISABLED);
    assert_eq!(own, (PortState::DOWN, PhysicalState::DISABLED));
    assert_eq!(other, (PortState::DOWN, PhysicalState::POLLING));
    assert!(agents.unlink(up) && agents.relink(up));
    assert_eq!(agents.port_info(up).state(), PortState::DOWN);
    let both = physical(&mut agents, PhysicalState::POLLING);
    assert_eq!(both, [(PortState::INITIALIZE, PhysicalState::LINK_UP); 2]);
}

#[test]
fn datagrams_follow_the_tables_and_are_counted_on_the_way() {
    let (mut agents, from) = fabric();
    let far = port(&agents, "host00007", 1);
    let question = pm::question(Method::GET, pm::attribute::PORT_COUNTERS, 1);
    let ask =
        |agents: &mut Agents| agents.carry(from, &Address::services(agents.port_info(far).lid()), &question);
    assert!(matches!(ask(&mut agents), Carried::Lost));
    assert!(agents.bring_up());
    let Carried::Answered(lid, answer) = ask(&mut agents) else { panic!("no answer") };
    assert_eq!(lid, agents.port_info(far).lid());
    assert_eq!(answer.data::<PortCounters>().receive_packets(), 1);
    let Carried::Answered(_, answer) = ask(&mut agents) else { panic!("no answer") };
    let counters: &PortCounters = answer.data();
    assert_eq!((counters.receive_packets(), counters.transmit_packets(), counters.port()), (2, 1, 1));
    // A table that leads in a circle: the datagram ends, and so does the test.
    let lid = agents.port_info(far).lid();
    let (leaf, spine) = (agents.node("leaf000").unwrap(), agents.peer(port(&agents, "leaf000", 3)).unwrap());
    let back = agents.graph().number(spine);
    let spine = agents.graph().owner(spine);
    agents.switches.get_mut(&leaf).unwrap().linear[usize::from(lid.0)] = 3;
    agents.switches.get_mut(&spine).unwrap().linear[usize::from(lid.0)] = back;
    assert!(matches!(ask(&mut agents), Carried::Lost));
    agents.switches.get_mut(&leaf).unwrap().linear[usize::from(lid.0)] = 255;
    assert!(matches!(ask(&mut agents), Carried::Lost));
    assert!(agents.counters(port(&agents, "leaf000", 1)).relay_errors > 0);
}

#[test]
fn every_pair_reaches_each_other_after_bringing_up() {
    let mut agents = Agents::new(fat_tree(&FatTree::new(6, 3)).unwrap());
    assert!(agents.bring_up());
    let ends: Vec<PortIx> = agents.graph().nodes().filter_map(|node: NodeIx| agents.place(node)).collect();
    let mad = Mad::new(Class::SUBNET, Method::GET, attribute::NODE_INFO, 0);
    for from in &ends {
        for to in ends.iter().step_by(3) {
            let address = Address::management(agents.port_info(*to).lid());
            let Carried::Answered(_, answer) = agents.carry(*from, &address, &mad) else {
                panic!("{from:?} to {to:?}")
            };
            assert_eq!(answer.data::<NodeInfo>().node_guid(), agents.node_info(*to).node_guid());
        }
    }
}

#[test]
fn traps_are_repeated_until_they_are_heard() {
    let (mut agents, _) = fabric();
    let cable = port(&agents, "leaf000", 3);
    agents.unlink(cable);
    // Nobody manages it: nobody is told.
    assert!(!agents.has_traps());
    agents.relink(cable);
    assert!(agents.bring_up());
    agents.unlink(cable);
    let seconds = Duration::from_secs;
    let due = agents.due_traps(seconds(5));
    assert_eq!(due.len(), 2);
    assert!(agents.due_traps(seconds(5)).is_empty());
    assert_eq!(agents.due_traps(seconds(7)).len(), 2);
    let (from, to, mad) = &due[0];
    let notice: &mad::notice::Notice = mad.data();
    assert_eq!((notice.number(), notice.issuer()), (128, agents.port_info(*from).lid()));
    let Carried::Arrived(at, lid, _) = agents.carry_trap(*from, *to, mad) else { panic!("lost") };
    assert_eq!(lid, notice.issuer());
    let mut heard = *mad;
    heard.header_mut().set_method(Method::TRAP_REPRESS);
    assert!(matches!(agents.carry(at, &Address::management(lid), &heard), Carried::Taken));
    assert_eq!(agents.due_traps(seconds(10)).len(), 1);
    for second in 11..100 {
        agents.due_traps(seconds(second));
    }
    assert!(!agents.has_traps());
    // A description is told by another trap.
    agents.describe(agents.node("host00003").unwrap(), "renamed");
    let due = agents.due_traps(seconds(200));
    assert_eq!(due[0].2.data::<mad::notice::Notice>().number(), 144);
    assert_eq!(agents.description(agents.graph().owner(due[0].0)), "renamed");
}

#[test]
fn versions_that_are_not_known_are_refused() {
    let (mut agents, from) = fabric();
    let answer = directed(&mut agents, from, &[1], |path| {
        let mut mad = Smp::directed(Method::GET, attribute::NODE_INFO, 0, path);
        mad.header_mut().set_base_version(9);
        mad
    });
    assert_eq!(status(&answer.unwrap()), Status::BAD_VERSION);
}
