//! SL-to-VL maps and VL arbitration: what ports hold after a bring-up, and what is left alone.

use std::path::Path;
use std::time::Duration;

use mad::header::Smp;
use mad::in_process::{Fabric, InProcess};
use mad::sm::{SlToVlMap, VlArbitration, attribute, capability};
use mad::values::Method;
use mad::{Address, Mad};
use topology::Kind;
use topology::build::{FatTree, fat_tree};

use super::{Lab, attend, brought_up, whole};
use crate::qos::Qos;
use crate::{Manager, Options};

const FILE: &str = "qos_max_vls 4\nqos_high_limit 10\nqos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\n\
                    qos_vlarb_high 0:64,1:0\nqos_vlarb_low 0:1,1:2,2:4,3:8\nqos_ca_vlarb_low 0:9,1:9,2:9,3:9\n";

fn options(text: &str) -> Options {
    let qos = Qos::parse(Path::new("qos"), text).unwrap();
    Options { qos: Some(qos), light_sweep: Duration::from_secs(1), ..Options::default() }
}

fn lab() -> Lab {
    Lab::new(fat_tree(&FatTree::new(4, 2)).unwrap())
}

/// What an agent returns to a request to read an attribute of a node.
fn read(transport: &mut InProcess<Lab>, manager: &Manager, name: &str, attribute: u16, modifier: u32) -> Mad {
    let model = manager.model().unwrap();
    let node = model.graph.nodes().find(|node| model.graph.name(*node) == name).unwrap();
    let number = u8::from(model.graph.kind(node) != Kind::Switch);
    let path = model.path_to(model.graph.port(node, number).unwrap()).unwrap();
    let mad = Smp::directed(Method::GET, attribute, modifier, &path);
    let mut back = Vec::new();
    transport.fabric.carry(Duration::ZERO, &Address::DIRECTED, &mad, &mut back);
    back[0].1.mad
}

fn map(transport: &mut InProcess<Lab>, manager: &Manager, name: &str, modifier: u32) -> Vec<u8> {
    let mad = read(transport, manager, name, attribute::SL_TO_VL_MAP, modifier);
    (0..16).map(|level| mad.data::<SlToVlMap>().vl(level).unwrap()).collect()
}

fn turns(transport: &mut InProcess<Lab>, manager: &Manager, name: &str, modifier: u32) -> Vec<u16> {
    let mad = read(transport, manager, name, attribute::VL_ARBITRATION, modifier);
    (0..4).map(|at| mad.data::<VlArbitration>().entry(at).unwrap()).collect()
}

#[test]
fn tables_are_written_as_differences_and_again_at_a_port_that_comes_back() {
    let mut transport = InProcess::new(lab());
    let (mut manager, up) = brought_up(&mut transport, options(FILE));
    assert!(up.is_good(), "{up:?}");
    // 8 ports of hosts with one map each; 6 switches of 4 external ports with one for each of 5 ports in.
    assert_eq!(up.sets.sl2vl_maps, 8 + 6 * 4 * 5);
    // What is all zero was so before: blocks 2 and 4.
    assert_eq!(up.sets.vl_arbitration_blocks, 2 * (8 + 6 * 4));
    let expected: Vec<u8> = (0..16).map(|level| level % 4).collect();
    assert_eq!(map(&mut transport, &manager, "host00003", 0), expected);
    assert_eq!(map(&mut transport, &manager, "leaf001", 2 << 8 | 3), expected);
    assert_eq!(
        turns(&mut transport, &manager, "leaf001", 1 << 16 | 3),
        [1, 1 << 8 | 2, 2 << 8 | 4, 3 << 8 | 8]
    );
    assert_eq!(
        turns(&mut transport, &manager, "host00003", 1 << 16),
        [9, 1 << 8 | 9, 2 << 8 | 9, 3 << 8 | 9]
    );
    assert_eq!(turns(&mut transport, &manager, "host00003", 3 << 16), [64, 1 << 8, 0, 0]);
    let agents = &transport.fabric.agents;
    let port = agents.place(agents.node("host00003").unwrap()).unwrap();
    let info = agents.port_info(port);
    assert_eq!((info.operational_vls(), info.vl_high_limit()), (3, 10));
    whole(&transport.fabric);
    let (_, again) = brought_up(&mut transport, options(FILE));
    assert_eq!(again.sets.total(), 0, "{again:?}");
    // Without a file they stay.
    let (_, without) = brought_up(&mut transport, Options::default());
    assert_eq!(without.sets.total(), 0, "{without:?}");
    // A host that comes back has lost them.
    transport.fabric.agents.unlink(port);
    attend(&mut manager, &mut transport, 3);
    transport.fabric.agents.forget_tables(port);
    transport.fabric.agents.relink(port);
    attend(&mut manager, &mut transport, 3);
    assert_eq!(map(&mut transport, &manager, "host00003", 0), expected);
    assert_eq!(turns(&mut transport, &manager, "host00003", 1 << 16)[0], 9);
    whole(&transport.fabric);
}

#[test]
fn ports_without_vls_or_maps_are_left_and_tables_that_are_too_short_are_named() {
    let mut lab = lab();
    let place = |lab: &Lab, name: &str| lab.agents.place(lab.agents.node(name).unwrap()).unwrap();
    let (single, mapless, short) =
        (place(&lab, "host00001"), place(&lab, "host00002"), place(&lab, "host00003"));
    lab.agents.pretend(single, |info| {
        info.set_vl_capacity(1).set_operational_vls(1);
    });
    lab.agents.pretend(mapless, |info| {
        info.set_capability_mask(info.capability_mask() & !capability::SL_TO_VL_MAP);
    });
    lab.agents.pretend(short, |info| {
        info.set_arbitration_low_capacity(2).set_arbitration_high_capacity(1);
    });
    let mut transport = InProcess::new(lab);
    let (manager, up) = brought_up(&mut transport, options(FILE));
    assert_eq!((up.lost_pairs, up.active_links), (0, up.links), "{up:?}");
    assert_eq!(up.sets.sl2vl_maps, 8 - 3 + 6 * 4 * 5);
    let named: Vec<&String> = up.findings.iter().filter(|one| one.contains("host00003/1")).collect();
    assert!(named.len() == 1 && named[0].contains("left for VL 2"), "{up:?}");
    assert_eq!(turns(&mut transport, &manager, "host00001", 1 << 16), [0; 4]);
    assert_eq!(turns(&mut transport, &manager, "host00002", 1 << 16)[0], 9, "it has VLs");
    // The other end of the cable with one VL operates one, too, and all levels are on it.
    let leaf = transport.fabric.agents.graph().peer(single).unwrap();
    assert_eq!(transport.fabric.agents.port_info(leaf).operational_vls(), 1);
    let number = u32::from(transport.fabric.agents.graph().number(leaf));
    let name = transport.fabric.agents.graph().name(transport.fabric.agents.graph().owner(leaf)).to_owned();
    assert_eq!(map(&mut transport, &manager, &name, 3 << 8 | number), [0; 16]);
}
