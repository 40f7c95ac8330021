//! The corpus of the fuzz target `mad` as an ordinary test, and some dice beside it: a fabric takes any
//! datagram and lives on.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers"
)]

use std::time::Duration;

use fabric::agents::{Agents, Carried};
use mad::header::{Path, Smp};
use mad::sm::NodeInfo;
use mad::values::Method;
use mad::{Address, Lid, Mad};
use proptest::prelude::*;
use topology::build::{FatTree, fat_tree};
use topology::{Kind, PortIx};

fn agents() -> Agents {
    let mut agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
    assert!(agents.bring_up());
    agents
}

/// The same as the fuzz target does.
fn feed(agents: &mut Agents, bytes: &[u8]) {
    let ports = agents.graph().port_total() as u32;
    for chunk in bytes.chunks_exact(260) {
        let from = PortIx(u32::from(u16::from_be_bytes([chunk[0], chunk[1]])) % ports);
        let to = Address::management(Lid(u16::from_be_bytes([chunk[2], chunk[3]])));
        let mad = Mad::view(&chunk[4..]).unwrap();
        agents.carry(from, &to, mad);
        agents.due_traps(Duration::ZERO);
        assert!(!format!("{mad:?}").is_empty());
    }
}

/// It still responds.
fn lives(agents: &mut Agents) {
    let host = agents.graph().nodes_of(Kind::Host).next().unwrap();
    let port = agents.place(host).unwrap();
    let asked = Smp::directed(Method::GET, mad::sm::attribute::NODE_INFO, 0, &Path::LOCAL);
    let Carried::Answered(_, answer) = agents.carry(port, &Address::DIRECTED, &asked) else {
        panic!("no answer")
    };
    assert_eq!(answer.data::<NodeInfo>().node_guid(), agents.node_info(port).node_guid());
}

#[test]
fn the_corpus_does_no_harm() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mad");
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let mut agents = agents();
        feed(&mut agents, &std::fs::read(file.unwrap().path()).unwrap());
        lives(&mut agents);
        files += 1;
    }
    assert!(files >= 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn neither_do_dice(
        datagrams in prop::collection::vec((any::<u16>(), prop_oneof![Just(0xffff_u16), 0_u16..24], prop::collection::vec(any::<u8>(), 256),
            prop_oneof![Just(0x81_u8), Just(1), Just(4), any::<u8>()], 0_u8..8, 0_u16..0x40, 0_u8..5), 1..20),
    ) {
        let mut agents = agents();
        for (port, lid, mut bytes, class, method, attribute, hops) in datagrams {
            (bytes[0], bytes[1], bytes[2], bytes[3], bytes[6], bytes[7]) = (1, class, 1, method, 0, hops);
            bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
            bytes[32..36].fill(0xff);
            let mut item = [port.to_be_bytes(), lid.to_be_bytes()].concat();
            item.append(&mut bytes);
            feed(&mut agents, &item);
        }
        // What a datagram may have done is done by a manager too; the local node responds whatever it was.
        lives(&mut agents);
    }
}
