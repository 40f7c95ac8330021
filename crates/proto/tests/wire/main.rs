//! The wire format: what is said arrives, and what is no message is an error.
// The modules of a test are no interface, and what is not as expected ends the test.
#![allow(unreachable_pub, clippy::expect_used, clippy::panic)]

#[path = "../strategies/mod.rs"]
mod strategies;
#[path = "../strategies/told.rs"]
mod told;

mod corpus;

use std::fmt::Debug;

use proptest::prelude::*;
use proto::ids::NodeId;
use proto::wire::peer::PeerMessage;
use proto::wire::program::{Refusal, Reply, Request, ToManager, ToProgram};
use proto::wire::{CodecError, MAGIC, MAX_DATAGRAM_BYTES, PROTOCOL_VERSION, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) {
    let bytes = encode(message).expect("it can be encoded");
    assert_eq!(bytes[..4], MAGIC);
    assert_eq!(&decode::<T>(&bytes).expect("it can be decoded"), message);
    // A byte too many or too few is an error.
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(decode::<T>(&longer), Err(CodecError::Malformed(_))));
    assert!(decode::<T>(&bytes[..bytes.len() - 1]).is_err());
}

/// Whatever the bytes are: a message that can be encoded again, or an error.
pub fn never_panics<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(message) = decode::<T>(bytes) {
        let again = encode(&message).expect("what was decoded can be encoded");
        assert_eq!(decode::<T>(&again).expect("and decoded again"), message);
    }
}

/// The same for every type.
pub fn no_type_panics(bytes: &[u8]) {
    never_panics::<ToManager>(bytes);
    never_panics::<ToProgram>(bytes);
    never_panics::<PeerMessage>(bytes);
}

fn with_header(body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_are_understood(message in strategies::to_manager()) {
        round_trip(&message);
    }

    #[test]
    fn managers_are_understood_by_programs(message in told::to_program()) {
        round_trip(&message);
    }

    #[test]
    fn managers_are_understood_by_managers(message in strategies::peer_message()) {
        round_trip(&message);
    }

    #[test]
    fn arbitrary_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        no_type_panics(&bytes);
        no_type_panics(&with_header(&bytes));
    }

    #[test]
    fn damaged_messages_are_a_message_or_an_error(
        message in strategies::peer_message(),
        reply in told::to_program(),
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6),
        cut in any::<u16>(),
    ) {
        for mut bytes in [encode(&message).expect("encoded"), encode(&reply).expect("encoded")] {
            for (at, value) in &damage {
                let at = usize::from(*at) % bytes.len();
                bytes[at] = *value;
            }
            no_type_panics(&bytes);
            bytes.truncate(usize::from(cut) % (bytes.len() + 1));
            no_type_panics(&bytes);
        }
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = encode(&PeerMessage::Bye).expect("encoded");
    let theirs = PROTOCOL_VERSION + 1;
    bytes[4..6].copy_from_slice(&theirs.to_le_bytes());
    let error = decode::<PeerMessage>(&bytes).expect_err("another version");
    assert_eq!(error, CodecError::OtherVersion { theirs });
    assert_eq!(
        error.to_string(),
        format!(
            "the other side speaks version {theirs} of the control protocol, this side version {PROTOCOL_VERSION}: install the same tieline on both sides"
        )
    );
    // The version is examined before the message, which another version may have changed.
    bytes.truncate(6);
    assert_eq!(decode::<PeerMessage>(&bytes), Err(CodecError::OtherVersion { theirs }));
}

#[test]
fn other_programs_are_recognised() {
    for bytes in [&b""[..], b"TL", b"TLN1", b"TLN1\x01", b"GET / HTTP/1.1\r\n"] {
        assert_eq!(decode::<ToManager>(bytes), Err(CodecError::BadMagic));
    }
    assert_eq!(
        CodecError::BadMagic.to_string(),
        "control message does not start with the tieline magic: see with `ss -xp` which program uses this socket"
    );
}

#[test]
fn the_longest_datagram_is_the_limit_on_both_sides() {
    let long = ToProgram::Rejected(Refusal::Invalid("x".repeat(MAX_DATAGRAM_BYTES)));
    let error = encode(&long).expect_err("too long");
    assert!(matches!(error, CodecError::TooLong(bytes) if bytes > MAX_DATAGRAM_BYTES));
    assert!(
        error.to_string().ends_with("is longer than the limit of 65536: ask for less at a time"),
        "{error}"
    );
    let room = MAX_DATAGRAM_BYTES
        - encode(&ToProgram::Rejected(Refusal::Invalid(String::new()))).expect("encoded").len();
    let fits = ToProgram::Rejected(Refusal::Invalid("x".repeat(room - 2)));
    let bytes = encode(&fits).expect("it just fits");
    assert_eq!(bytes.len(), MAX_DATAGRAM_BYTES);
    assert_eq!(decode::<ToProgram>(&bytes), Ok(fits));
    let endless = vec![b'x'; MAX_DATAGRAM_BYTES + 1];
    assert_eq!(decode::<ToProgram>(&endless), Err(CodecError::TooLong(MAX_DATAGRAM_BYTES + 1)));
}

#[test]
fn a_list_does_not_cost_more_than_it_has() {
    // A length of four thousand million nodes, and no nodes.
    let body = [2, 1, 0, 8, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(decode::<ToProgram>(&with_header(&body)).is_err());
    // All nodes that there can be are one message.
    let all: Vec<NodeId> = (1..=4096).filter_map(|index| NodeId::new(index * 4).ok()).collect();
    let members = ToProgram::Reply { id: u64::MAX, result: Ok(Reply::Members(all)) };
    round_trip(&members);
}

#[test]
fn a_node_id_is_checked_on_arrival() {
    let probe = |id: u8| with_header(&[1, 5, 9, id]);
    let expected =
        ToManager::Request { id: 5, body: Request::Probe { node: NodeId::new(8).expect("an id") } };
    assert_eq!(decode::<ToManager>(&probe(8)), Ok(expected));
    for id in [0, 3] {
        assert!(matches!(decode::<ToManager>(&probe(id)), Err(CodecError::Malformed(_))));
    }
}
