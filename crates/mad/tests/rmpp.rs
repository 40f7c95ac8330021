//! Multi-packet transfers between the two ends, on a network that loses, doubles and delays.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test's helpers")]

use std::time::Duration;

use mad::header::MadHeader;
use mad::in_process::{Fabric, InProcess};
use mad::injure::{Harm, Injured};
use mad::rmpp::{FetchError, Inward, Outward, Step, fetch};
use mad::sa::{self, RmppKind, attribute};
use mad::sa_records::NodeRecord;
use mad::values::{Class, Method, Status};
use mad::windowed::Limits;
use mad::{Address, Layout, Lid, Mad, Received};
use proptest::prelude::*;

/// Subnet administration with a table of so many records.
struct Administration {
    records: u16,
    transfer: Option<(u64, Outward)>,
    refuse: bool,
}

fn table(records: u16) -> Vec<u8> {
    // 108 bytes in steps of 112.
    let mut bytes = Vec::new();
    for record in 0..records {
        let mut node = NodeRecord::default();
        node.set_lid(Lid(record + 1));
        bytes.extend_from_slice(zerocopy::IntoBytes::as_bytes(&node));
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes
}

impl Fabric for Administration {
    fn carry(&mut self, _: Duration, to: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        let header: &MadHeader = mad.header();
        if header.class() != Class::ADMINISTRATION || header.method() != Method::GET_TABLE {
            // An acknowledgement has the method of the request, and is told by its kind.
            return;
        }
        if sa::header(mad).rmpp().kind() == 0 {
            let mut answer = *mad;
            let status = if self.refuse { Status(0x300) } else { Status::OK };
            answer.header_mut().set_method(Method::GET_TABLE_RESPONSE).set_status(status);
            sa::header_mut(&mut answer).set_record_size(14);
            self.transfer = Some((header.transaction(), Outward::new(answer, table(self.records))));
        }
        let Some((number, transfer)) = self.transfer.as_mut() else { return };
        if *number != header.transaction() {
            return;
        }
        if sa::header(mad).rmpp().kind() == RmppKind::ACK {
            if transfer.heard(mad) {
                self.transfer = None;
                return;
            }
            transfer.again();
        }
        while let Some(segment) = transfer.next_segment() {
            back.push((Duration::from_micros(20), Received { from: *to, mad: segment, undelivered: false }));
        }
    }
}

fn question() -> Mad {
    sa::question(Method::GET_TABLE, attribute::NODE, &NodeRecord::default(), 0)
}

fn lids(bytes: &[u8], size: u16) -> Vec<u16> {
    sa::records::<NodeRecord>(bytes, size).map(|record| record.lid().0).collect()
}

#[test]
fn tables_of_all_lengths_come_whole() {
    for records in [0, 1, 2, 3, 25, 26, 200, 3000] {
        let mut transport = InProcess::new(Administration { records, transfer: None, refuse: false });
        let to = Address::services(Lid(1));
        let (bytes, size) = fetch(&mut transport, &to, &question(), &Limits::default()).unwrap();
        assert_eq!(lids(&bytes, size), (1..=records).collect::<Vec<_>>());
    }
}

#[test]
fn a_table_comes_whole_or_not_at_all_on_a_bad_network() {
    let harm = Harm { lose: 20, double: 100, delay: 100, garble: 0, late_by: Duration::from_millis(30) };
    let mut whole = 0;
    for seed in 0..40 {
        let administration = Administration { records: 60, transfer: None, refuse: false };
        let mut transport = InProcess::new(Injured::new(administration, harm, seed));
        let limits = Limits { retries: 10, ..Limits::default() };
        match fetch(&mut transport, &Address::services(Lid(1)), &question(), &limits) {
            Ok((bytes, size)) => {
                assert_eq!(lids(&bytes, size), (1..=60).collect::<Vec<_>>(), "seed {seed}");
                whole += 1;
            }
            Err(error) => assert!(matches!(error, FetchError::Silent), "seed {seed}: {error}"),
        }
    }
    assert!(whole > 20, "{whole}");
}

#[test]
fn refusal_and_silence_are_errors() {
    let mut transport = InProcess::new(Administration { records: 1, transfer: None, refuse: true });
    let to = Address::services(Lid(1));
    let refused = fetch(&mut transport, &to, &question(), &Limits::default());
    assert!(matches!(refused, Err(FetchError::Refused(Status(0x300)))));
    let dead = Harm { lose: 1000, ..Harm::default() };
    let administration = Administration { records: 1, transfer: None, refuse: false };
    let mut transport = InProcess::new(Injured::new(administration, dead, 1));
    assert!(matches!(fetch(&mut transport, &to, &question(), &Limits::default()), Err(FetchError::Silent)));
}

proptest! {
    /// Whatever comes in: no panic, and never more bytes than were sent.
    #[test]
    fn any_segments_end(segments in prop::collection::vec((0_u8..5, 0_u8..8, 0_u32..4, 0_u32..300), 0..40)) {
        let mut inward = Inward::new();
        let mut count = 0;
        for (kind, flags, segment, length) in segments {
            let mut mad = question();
            sa::header_mut(&mut mad).rmpp_mut().set_version(1).set_kind(kind).set_flags(flags).set_segment(segment).set_length(length);
            count += 1;
            if let Step::All(bytes, _) = inward.take(&mad) {
                prop_assert!(bytes.len() <= count * sa::DATA_LEN);
                inward = Inward::new();
            }
        }
        prop_assert!(NodeRecord::LEN <= sa::DATA_LEN);
    }
}
