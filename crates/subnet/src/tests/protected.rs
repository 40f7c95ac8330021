//! Management keys (M_Keys): who has the key manages, who has not says so, and nobody learns it.

use std::time::Duration;

use fabric::agents::{Agents, Carried};
use mad::header::{Path, Smp};
use mad::in_process::InProcess;
use mad::sa::{DATA_AT, attribute as sa_attribute, question};
use mad::sa_records::PortInfoRecord;
use mad::sm::{PortInfo, attribute};
use mad::values::{Method, SmState};
use mad::{Address, Mad, MadTransport, Received};
use topology::build::{FatTree, fat_tree};
use topology::{Graph, Kind, PortIx};

use super::world::{Fault, run};
use super::{Lab, attend, brought_up, repairs, whole};
use crate::protection::{ManagementKey, Protection};
use crate::{ManageError, Manager, Options};

const KEY: u64 = 0x00c0_ffee_1234_5678;

fn graph() -> Graph {
    fat_tree(&FatTree::new(4, 2)).unwrap()
}

fn with(key: u64, level: u8, lease: u16) -> Options {
    let protection = Protection { key: ManagementKey::new(key), level, lease };
    Options { protection, light_sweep: Duration::from_secs(1), ..Options::default() }
}

fn ends(agents: &Agents) -> Vec<PortIx> {
    agents.graph().nodes().filter_map(|node| agents.place(node)).collect()
}

fn refused(transport: &mut InProcess<Lab>, options: Options) -> ManageError {
    Manager::new(options).unwrap().bring_up(transport, &mut |_| (), &|| false).unwrap_err()
}

#[test]
fn who_has_the_key_manages_and_who_has_not_says_so() {
    for level in 0..=3 {
        let mut transport = InProcess::new(Lab::new(graph()));
        let (mut manager, up) = brought_up(&mut transport, with(KEY, level, 0));
        assert!(up.is_good(), "level {level}: {up:?}");
        for port in ends(&transport.fabric.agents) {
            let info = transport.fabric.agents.port_info(port);
            assert_eq!((info.management_key(), info.key_protection()), (KEY, level));
        }
        whole(&transport.fabric);
        let (_, again) = brought_up(&mut transport, with(KEY, level, 0));
        assert_eq!(again.sets.total(), 0, "{again:?}");
        // A repair needs the key as well.
        let cable = super::between_switches(transport.fabric.agents.graph())[1];
        assert!(transport.fabric.agents.unlink(cable));
        let events = attend(&mut manager, &mut transport, 3);
        assert!(repairs(&events).iter().all(|one| one.is_good()), "{events:?}");
        assert!(transport.fabric.agents.relink(cable));
        attend(&mut manager, &mut transport, 3);
        whole(&transport.fabric);
        // Without the key, or with a wrong one.
        transport.fabric.sets.clear();
        for key in [0, KEY + 1] {
            let options = if key == 0 { Options::default() } else { with(key, 1, 0) };
            let said = refused(&mut transport, options).to_string();
            assert!(said.contains("M_Key") && said.contains("--mkey-file"), "level {level}: {said}");
            assert!(!said.contains("c0ffee") && !said.contains(&KEY.to_string()), "{said}");
        }
        assert!(transport.fabric.sets.is_empty(), "{:?}", transport.fabric.sets);
        whole(&transport.fabric);
    }
}

#[test]
fn one_host_with_a_key_of_its_own_does_not_stop_the_manager() {
    for key in [0, KEY] {
        let mut lab = Lab::new(graph());
        let rogue = lab.agents.place(lab.agents.node("host00005").unwrap()).unwrap();
        lab.agents.pretend(rogue, |info| {
            info.set_management_key(99).set_key_protection(1);
        });
        let mut transport = InProcess::new(lab);
        let (_, up) = brought_up(&mut transport, if key == 0 { Options::default() } else { with(key, 2, 0) });
        assert_eq!(up.active_links, up.links - 1, "{up:?}");
        assert!(
            up.findings.iter().any(|one| one.contains("host00005/1") && one.contains("another M_Key")),
            "{up:?}"
        );
        assert_eq!(transport.fabric.agents.port_info(rogue).management_key(), 99);
    }
}

#[test]
fn a_lease_runs_out_unless_the_manager_is_there() {
    let probe = |transport: &mut InProcess<Lab>| {
        let here = transport.fabric.here;
        let far = transport.fabric.agents.place(transport.fabric.agents.node("host00006").unwrap()).unwrap();
        let lid = transport.fabric.agents.port_info(far).lid();
        let mut mad = Mad::new(mad::values::Class::SUBNET, Method::GET, attribute::PORT_INFO, 1);
        mad.smp_mut().header_mut().set_management_key(KEY ^ 1);
        let carried = transport.fabric.agents.carry(here, &Address::management(lid), &mad);
        assert!(matches!(carried, Carried::Taken), "{carried:?}");
        far
    };
    let mut transport = InProcess::new(Lab::new(graph()));
    let (mut manager, up) = brought_up(&mut transport, with(KEY, 2, 30));
    assert!(up.is_good(), "{up:?}");
    // While the manager is there it answers trap 256 with a request that has the key.
    attend(&mut manager, &mut transport, 1);
    let far = probe(&mut transport);
    attend(&mut manager, &mut transport, 120);
    let info = *transport.fabric.agents.port_info(far);
    assert_eq!((info.key_protection(), info.management_key_violations()), (2, 1));
    // Without one the lease ends, and the next manager can read the key: that is said, and it sets nothing.
    let far = probe(&mut transport);
    let now = MadTransport::now(&transport);
    transport.fabric.agents.due_traps(now);
    transport.fabric.agents.due_traps(now + Duration::from_secs(31));
    assert_eq!(transport.fabric.agents.port_info(far).key_protection(), 0);
}

/// No text and no response to a program has the key.
#[test]
fn nobody_learns_the_key() {
    let mut transport = InProcess::new(Lab::new(graph()));
    let mut texts = Vec::new();
    Manager::new(with(KEY, 1, 60))
        .unwrap()
        .plan(
            &mut transport,
            &mut |_| (),
            &mut |set, graph| texts.extend([set.text(graph), set.json(graph).to_string()]),
            &|| false,
        )
        .unwrap();
    let (mut manager, up) = brought_up(&mut transport, with(KEY, 1, 60));
    texts.extend([up.text(), serde_json::to_string(&up).unwrap(), format!("{:?}", with(KEY, 1, 60))]);
    assert!(texts.iter().any(|text| text.contains("M_Key set")));
    let secret = [KEY.to_string(), format!("{KEY:x}"), format!("{KEY:X}")];
    assert!(!texts.iter().any(|text| secret.iter().any(|secret| text.contains(secret.as_str()))));
    // Nor has a record of subnet administration.
    let agents = &transport.fabric.agents;
    let lid = agents.port_info(agents.place(agents.node("host00003").unwrap()).unwrap()).lid();
    let mut wanted = PortInfoRecord::default();
    wanted.set_lid(lid);
    let mut mad = question(Method::GET, sa_attribute::PORT_INFO, &wanted, 1);
    mad.header_mut().set_transaction(5);
    let received = Received { from: Address::services(lid), mad, undelivered: false };
    transport.inject(Duration::from_micros(10), received);
    attend(&mut manager, &mut transport, 1);
    let (_, response) =
        transport.fabric.administered.iter().find(|(_, mad)| mad.header().transaction() == 5).unwrap();
    let record: &PortInfoRecord = response.at::<DATA_AT, _>();
    assert_eq!((record.port_info().lid(), record.port_info().management_key()), (lid, 0));
    // Nor does another manager get it in a request for SMInfo, as it may only say that it is one.
    let lab = &mut transport.fabric;
    let here = lab.here;
    let mad = Smp::directed(Method::GET, attribute::PORT_INFO, 0, &Path::LOCAL);
    let Carried::Answered(_, answer) = lab.agents.carry(here, &Address::DIRECTED, &mad) else {
        panic!("silent")
    };
    assert_eq!(answer.data::<PortInfo>().management_key(), 0, "without the key it is hidden");
}

/// A standby with the key takes over and sets no table; one with another key never becomes master.
#[test]
fn a_standby_that_knows_the_key_takes_over() {
    let after = Duration::from_millis;
    let place = |agents: &Agents, name: &str| agents.place(agents.node(name).unwrap()).unwrap();
    for level in [1, 3] {
        let agents = Agents::new(graph());
        let (a, b) = (place(&agents, "host00001"), place(&agents, "host00006"));
        let faults = vec![
            (after(0), Fault::Start(a, 3)),
            (after(500), Fault::Start(b, 2)),
            (after(5_000), Fault::Quiet),
            (after(6_000), Fault::Kill(a, true)),
            (after(12_000), Fault::End),
        ];
        let limits = mad::windowed::Limits { retries: 8, ..mad::windowed::Limits::default() };
        let world = run(agents, Options { limits, ..with(KEY, level, 0) }, faults, 1);
        let errors: Vec<&String> = world.actors.iter().filter_map(|actor| actor.error.as_ref()).collect();
        assert!(errors.is_empty(), "{errors:?} {:?}", world.told);
        assert_eq!(world.actors[1].role, SmState::MASTER, "{:?}", world.told);
        assert_eq!(world.sets.get(&attribute::LINEAR_TABLE), None, "{:?}", world.sets);
        let lid = world.agents.port_info(b).lid();
        for port in ends(&world.agents) {
            let info = world.agents.port_info(port);
            assert_eq!((info.sm_lid(), info.management_key()), (lid, KEY));
        }
        assert!(world.agents.graph().nodes_of(Kind::Switch).count() > 0);
    }
}
