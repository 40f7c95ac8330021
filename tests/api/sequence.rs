//! Sequences: nothing happened, the link changed, the owner is gone.

use std::time::Duration;

use shm::sync::{AtomicBool, Ordering, fence};
use tieline::{LinkChange, LossReason, RemoteEvent, SegmentId, SequenceStatus};
use tieline_tests::{Cluster, Watchdog};

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

#[test]
fn a_link_that_goes_down_and_up_is_told_and_can_be_tried_again() {
    let _watchdog = Watchdog::usual("link events");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
    let mut sequence = remote.sequence().unwrap();
    let soon = Duration::from_secs(10);
    for _ in 0..3 {
        b.change_link(a.id(), LinkChange::Down).unwrap();
        assert_eq!(remote.wait_event(soon).unwrap(), RemoteEvent::NotOperational);
        assert_eq!(sequence.check().unwrap(), SequenceStatus::Retriable);
        assert!(remote.put(0, &[1]).is_err());
        b.change_link(a.id(), LinkChange::Up).unwrap();
        assert_eq!(remote.wait_event(soon).unwrap(), RemoteEvent::Operational);
        remote.put(0, &[1]).unwrap();
        assert_eq!(sequence.check().unwrap(), SequenceStatus::Retriable);
        assert_eq!(sequence.check().unwrap(), SequenceStatus::Ok);
    }
}

/// On nodes with faults stores vanish from a moment after the link went down to a moment after it is up
/// again.
#[test]
fn what_a_sequence_calls_well_has_arrived_however_the_link_flaps() {
    let _watchdog = Watchdog::usual("flapping link");
    let cluster = Cluster::up_with(2, &["--faults"]).unwrap();
    let (owner, writer, administrator) =
        (cluster.attach(0).unwrap(), cluster.attach(1).unwrap(), cluster.attach(1).unwrap());
    let segment = owner.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = writer.connect_segment(owner.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
    let map = remote.map().unwrap();
    let mut sequence = remote.sequence().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                administrator.change_link(owner.id(), LinkChange::Down).unwrap();
                administrator.change_link(owner.id(), LinkChange::Up).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut count = 0u64;
        while !is_over.load(Ordering::Relaxed) {
            count += 1;
            while sequence.check().unwrap() != SequenceStatus::Ok {}
            map.window().unwrap().put(0, &count.to_le_bytes()).unwrap();
            fence(Ordering::SeqCst);
            if sequence.check().unwrap() == SequenceStatus::Ok {
                let mut arrived = [0; 8];
                segment.window().get(0, &mut arrived).unwrap();
                assert_eq!(u64::from_le_bytes(arrived), count, "called well, and not there");
            }
        }
    });
}
