//! Partitions: the tables that ports then hold, and the paths that are given.

use std::path::Path;

use mad::header::Smp;
use mad::in_process::{Fabric, InProcess};
use mad::sm::{PartitionTable, attribute};
use mad::values::Method;
use mad::{Address, Mad};
use std::time::Duration;
use topology::Kind;

use super::{Lab, attend, brought_up, tree};
use crate::partitions::Partitions;
use crate::{Manager, Options};

/// The keys in the first block of a node's table, as its agent returns it.
fn held(transport: &mut InProcess<Lab>, manager: &Manager, name: &str) -> Vec<u16> {
    let model = manager.model().unwrap();
    let node = model.graph.nodes().find(|node| model.graph.name(*node) == name).unwrap();
    let number = u8::from(model.graph.kind(node) != Kind::Switch);
    let path = model.path_to(model.graph.port(node, number).unwrap()).unwrap();
    let mad: Mad = Smp::directed(Method::GET, attribute::PARTITION_TABLE, 0, &path);
    let mut back = Vec::new();
    transport.fabric.carry(Duration::ZERO, &Address::DIRECTED, &mad, &mut back);
    let table: PartitionTable = *back[0].1.mad.data();
    let all: Vec<u16> = (0..32).filter_map(|at| table.key(at)).collect();
    let last = all.iter().rposition(|key| *key != 0).map_or(0, |at| at + 1);
    all[..last].to_vec()
}

fn options(lab: &Lab) -> Options {
    let guid = |name: &str| {
        let agents = &lab.agents;
        agents.node_info(agents.place(agents.node(name).unwrap()).unwrap()).port_guid().0
    };
    let text = format!(
        "Default=0x7fff, ipoib : ALL_SWITCHES=full, ALL=limited, SELF=full;\nA=0x8005, ipoib: {:#x}=full, {:#x}=limited;",
        guid("host00003"),
        guid("host00004")
    );
    let partitions = Partitions::parse(Path::new("partitions.conf"), &text).unwrap();
    Options { partitions: Some(partitions), light_sweep: Duration::from_secs(1), ..Options::default() }
}

#[test]
fn ports_get_the_keys_of_their_partitions_and_keep_them() {
    let mut transport = InProcess::new(Lab::new(tree()));
    let options = || options(&Lab::new(tree()));
    let (mut manager, up) = brought_up(&mut transport, options());
    assert!(up.is_good(), "{up:?}");
    // Of 208 end ports all but 80 switches and the manager's were full members of the partition of all.
    assert_eq!(up.sets.pkey_blocks, 127);
    for (name, keys) in [
        ("host00000", vec![0xffff]),
        ("host00003", vec![0x7fff, 0x8005]),
        ("host00004", vec![0x7fff, 0x0005]),
        ("host00050", vec![0x7fff]),
        ("leaf000", vec![0xffff]),
    ] {
        assert_eq!(held(&mut transport, &manager, name), keys, "{name}");
    }
    let (_, again) = brought_up(&mut transport, options());
    assert_eq!(again.sets.total(), 0, "{again:?}");
    // A host whose cable comes back has lost its table.
    let agents = &mut transport.fabric.agents;
    let port = agents.place(agents.node("host00003").unwrap()).unwrap();
    agents.unlink(port);
    attend(&mut manager, &mut transport, 3);
    let agents = &mut transport.fabric.agents;
    agents.forget_tables(port);
    agents.relink(port);
    attend(&mut manager, &mut transport, 3);
    assert_eq!(held(&mut transport, &manager, "host00003"), [0x7fff, 0x8005]);
    super::whole(&transport.fabric);
}
