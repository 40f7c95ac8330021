//! Segments that several programs of a node have as their own.

use std::time::Duration;

use tieline::{Direction, DmaEntry, Error, LocalMemory, LossReason, SegmentId};
use tieline_tests::{Peer, Watchdog};

use crate::{PEER, two_nodes};

const SOON: Duration = Duration::from_secs(10);
const ID: SegmentId = SegmentId(5);

#[test]
fn what_is_shared_is_the_same_memory_and_has_one_state() {
    let _watchdog = Watchdog::usual("sharing");
    let cluster = two_nodes();
    let (a, same, far) = (cluster.attach(0).unwrap(), cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(ID, 10_000).unwrap();
    let refused = same.attach_segment(ID, Duration::ZERO).unwrap_err().to_string();
    assert!(refused.contains("segment 5 of node 4 is not shared"), "{refused}");
    segment.share().unwrap();
    assert!(far.attach_segment(ID, Duration::ZERO).is_err(), "of another node");
    let attached = same.attach_segment(ID, Duration::ZERO).unwrap();
    assert_eq!((attached.id(), attached.size_bytes(), attached.node()), (ID, 10_000, a.id()));
    attached.window().put(9_999, &[77]).unwrap();
    let mut byte = [0];
    segment.window().get(9_999, &mut byte).unwrap();
    assert_eq!(byte, [77]);
    assert!(attached.window().put(10_000, &[1]).is_err(), "outside");

    // The state is one: what one opens, the other closes.
    attached.make_available().unwrap();
    let remote = far.connect_segment(a.id(), ID, Duration::ZERO).unwrap();
    segment.withdraw(true).unwrap();
    assert!(matches!(remote.check(), Err(Error::Lost { .. })) || remote.wait_event(SOON).is_ok());
    assert!(attached.withdraw(false).unwrap_err().to_string().contains("not available"));
    attached.check().unwrap();

    // Its removal must wait for the programs that are attached.
    assert!(segment.close(false).unwrap_err().to_string().contains("still in use"));
    attached.detach().unwrap();
    segment.close(false).unwrap();
    attached.window().get(9_999, &mut byte).unwrap();
    assert_eq!(byte, [77], "the memory is there as long as it is held");
}

#[test]
fn attached_memory_is_a_source_of_dma() {
    let _watchdog = Watchdog::usual("dma of attached memory");
    let cluster = two_nodes();
    let (a, same, far) = (cluster.attach(0).unwrap(), cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(ID, 4096).unwrap();
    segment.share().unwrap();
    let target = far.create_segment(SegmentId(6), 4096).unwrap();
    target.make_available().unwrap();
    let attached = same.attach_segment(ID, SOON).unwrap();
    segment.window().put(100, b"from the owner").unwrap();
    let remote = same.connect_segment(far.id(), SegmentId(6), SOON).unwrap();
    let queue = same.dma_queue(1).unwrap();
    let entry = DmaEntry { local_offset: 100, remote_offset: 7, size_bytes: 14 };
    let memory: std::sync::Arc<dyn LocalMemory> = attached.memory().clone();
    queue.gather_memory(&memory, &remote, Direction::Push, &[entry]).unwrap();
    queue.post().unwrap();
    queue.wait(Some(SOON)).unwrap();
    let mut found = [0; 14];
    target.window().get(7, &mut found).unwrap();
    assert_eq!(&found, b"from the owner");
}

#[test]
fn the_end_of_the_owner_is_told_and_the_memory_stays() {
    let _watchdog = Watchdog::usual("death of who shares");
    let cluster = two_nodes();
    let mut owner = Peer::start(&cluster, PEER, 0, &["share", "5", "4096"]).unwrap();
    owner.expect("ready").unwrap();
    let node = cluster.attach(0).unwrap();
    let attached = node.attach_segment(ID, Duration::ZERO).unwrap();
    attached.window().put(0, &[3]).unwrap();
    let timed_out = attached.wait_lost(Duration::ZERO).unwrap_err();
    assert!(matches!(timed_out, Error::TimedOut { .. }), "{timed_out}");
    owner.kill().unwrap();
    assert_eq!(attached.wait_lost(SOON).unwrap(), LossReason::OwnerDied);
    assert!(matches!(attached.make_available(), Err(Error::Lost { reason: LossReason::OwnerDied, .. })));
    assert!(node.attach_segment(ID, Duration::ZERO).is_err());
    let mut byte = [0];
    attached.window().get(0, &mut byte).unwrap();
    assert_eq!(byte, [3]);
    attached.cancel_waits();
    assert!(matches!(attached.wait_lost(SOON), Err(Error::Cancelled { .. })));
}
