//! Sequences: nothing happened, the link changed, the owner is gone.

use std::time::Duration;

use tieline::{LossReason, SegmentId, SequenceStatus};
use tieline_tests::Watchdog;

use crate::two_nodes;

#[test]
fn a_withdrawn_segment_ends_the_sequence_with_the_reason() {
    let _watchdog = Watchdog::usual("sequence");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
    let mut sequence = remote.sequence().unwrap();
    assert_eq!(sequence.check().unwrap(), SequenceStatus::Ok);
    segment.withdraw(true).unwrap();
    remote.wait_event(Duration::from_secs(10)).unwrap();
    assert_eq!(sequence.check().unwrap(), SequenceStatus::Lost(LossReason::Withdrawn));
}
