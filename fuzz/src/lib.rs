//! What the fuzz targets have in common.
//!
//! What it is for: one property for all decoders of the control protocol, and one for management datagrams.
//!
//! What it must never do: know a message's fields; that is what makes it hold for the next message too.
//!
//! Where to start reading: [`check`]; each file in `fuzz_targets/` calls it for one kind of message.
#![forbid(unsafe_code)]

use fabric::agents::Agents;
use mad::{Address, Lid, Mad};
use serde::Serialize;
use serde::de::DeserializeOwned;
use topology::PortIx;
use topology::build::{FatTree, fat_tree};

/// Bytes from a stranger are a message or an error; a message can be said again and means the same.
pub fn check<T: Serialize + DeserializeOwned + PartialEq>(bytes: &[u8]) {
    let Ok(message) = proto::wire::decode::<T>(bytes) else { return };
    let Ok(again) = proto::wire::encode(&message) else { panic!("what was decoded cannot be encoded") };
    assert!(
        proto::wire::decode::<T>(&again).is_ok_and(|same| same == message),
        "it means something else now"
    );
}

/// A fabric takes whatever a program sends it: 256 bytes a datagram, from any port, and lives on.
pub fn datagrams(bytes: &[u8]) {
    let Ok(graph) = fat_tree(&FatTree::new(4, 2)) else { return };
    let mut agents = Agents::new(graph);
    agents.bring_up();
    let ports = agents.graph().port_total() as u32;
    for chunk in bytes.chunks_exact(260) {
        let [a, b, c, d, datagram @ ..] = chunk else { continue };
        let Ok(mad) = Mad::view(datagram) else { continue };
        let from = PortIx(u32::from(u16::from_be_bytes([*a, *b])) % ports);
        let to = Address::management(Lid(u16::from_be_bytes([*c, *d])));
        agents.carry(from, &to, mad);
        agents.due_traps(std::time::Duration::ZERO);
        let _ = format!("{mad:?} {:?}", mad.smp().initial_path());
    }
}
