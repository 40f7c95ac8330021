//! Segments: life cycle, connections, what is put arrives, which users may connect.

use std::time::Duration;

use tieline::{Access, Error, NodeId, SegmentEvent, SegmentId, SegmentOptions, SegmentState};
use tieline_tests::{Peer, Watchdog};

use crate::{PEER, two_nodes};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn what_one_node_puts_the_other_finds() {
    let _watchdog = Watchdog::usual("put");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(7), 100_000).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(7), SOON).unwrap();
    assert_eq!(remote.size_bytes(), 100_000);
    let bytes: Vec<u8> = (0..50_000u32).map(|at| at as u8).collect();
    remote.put(123, &bytes).unwrap();
    remote.barrier().unwrap();
    let mut found = vec![0; bytes.len()];
    segment.window().get(123, &mut found).unwrap();
    assert_eq!(found, bytes);
    let map = remote.map().unwrap();
    map.window().unwrap().put(0, &[9]).unwrap();
    segment.window().get(0, &mut found[..1]).unwrap();
    assert_eq!(found[0], 9);
    assert_eq!(remote.fetch_add_u64(8, 5).unwrap(), 0);
    assert_eq!(remote.compare_swap_u64(8, 5, 6).unwrap(), 5);
    assert_eq!(segment.window().atomic_u64(8).unwrap().load(shm::sync::Ordering::SeqCst), 6);
}

#[test]
fn a_program_reaches_its_own_node() {
    let cluster = two_nodes();
    let node = cluster.attach(0).unwrap();
    let segment = node.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = node.connect_segment(node.id(), SegmentId(1), Duration::ZERO).unwrap();
    remote.put(0, b"loop").unwrap();
    let mut found = [0; 4];
    segment.window().get(0, &mut found).unwrap();
    assert_eq!(&found, b"loop");
}

#[test]
fn the_life_cycle_is_kept() {
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(3), 4096).unwrap();
    assert_eq!(segment.state(), SegmentState::Created);
    let connect = || b.connect_segment(a.id(), SegmentId(3), Duration::ZERO);
    let refused = connect().unwrap_err().to_string();
    assert!(refused.contains("segment 3") && refused.contains("not available"), "{refused}");
    assert!(matches!(segment.withdraw(false), Err(Error::WrongState { .. })));
    segment.prepare().unwrap();
    assert_eq!(segment.state(), SegmentState::Prepared);
    segment.make_available().unwrap();
    let remote = connect().unwrap();
    assert_eq!(segment.wait_event(SOON).unwrap(), SegmentEvent::Connected { node: b.id() });
    segment.withdraw(false).unwrap();
    assert!(connect().is_err());
    remote.put(0, &[1]).unwrap();
    let (segment, busy) = segment.remove(false).unwrap_err();
    assert!(busy.to_string().contains("still in use"), "{busy}");
    drop(remote);
    assert_eq!(segment.wait_event(SOON).unwrap(), SegmentEvent::Disconnected { node: b.id(), died: false });
    segment.remove(false).unwrap();
    let refused = connect().unwrap_err().to_string();
    assert!(refused.contains("no segment 3 on node 4"), "{refused}");
}

#[test]
fn connecting_waits_for_the_segment() {
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.connect_segment(a.id(), SegmentId(5), SOON));
        std::thread::sleep(Duration::from_millis(30));
        let segment = a.create_segment(SegmentId(5), 4096).unwrap();
        segment.make_available().unwrap();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn an_id_is_taken_once_and_automatic_ids_differ() {
    let cluster = two_nodes();
    let a = cluster.attach(0).unwrap();
    let also_a = cluster.attach(0).unwrap();
    let first = a.create_segment(SegmentId(9), 4096).unwrap();
    first.make_available().unwrap();
    let taken = also_a.create_segment(SegmentId(9), 4096).unwrap_err().to_string();
    assert!(taken.contains("segment 9 exists already") && taken.contains("test-0"), "{taken}");
    // The refused one must not have taken the events of the first.
    let _remote = also_a.connect_segment(a.id(), SegmentId(9), Duration::ZERO).unwrap();
    assert_eq!(first.wait_event(SOON).unwrap(), SegmentEvent::Connected { node: a.id() });
    let auto: Vec<_> = (0..3).map(|_| a.create_segment_with(&SegmentOptions::new(4096)).unwrap()).collect();
    let mut ids: Vec<_> = auto.iter().map(|segment| segment.id().unwrap()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_segment_that_cannot_be_is_a_clear_error() {
    let cluster = two_nodes();
    let a = cluster.attach(0).unwrap();
    let error = a.create_segment(SegmentId(1), usize::MAX / 4).unwrap_err().to_string();
    assert!(error.contains("too large") || error.contains("cannot create"), "{error}");
    let error = a.create_segment(SegmentId(1), 0).unwrap_err().to_string();
    assert!(error.contains("0 bytes"), "{error}");
    // Neither has taken the id.
    a.create_segment(SegmentId(1), 4096).unwrap();
}

#[test]
fn unknown_nodes_are_not_reachable() {
    let cluster = two_nodes();
    let a = cluster.attach(0).unwrap();
    let nobody = NodeId::new(400).unwrap();
    assert!(!a.probe(nobody).unwrap());
    assert!(a.probe(a.id()).unwrap());
    assert!(a.probe(cluster.nodes()[1]).unwrap());
    let error = a.connect_segment(nobody, SegmentId(1), Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("node 400 is not reachable"), "{error}");
}

#[test]
fn the_death_of_the_owner_is_a_typed_error() {
    let _watchdog = Watchdog::usual("owner's death");
    let cluster = two_nodes();
    let mut owner = Peer::start(&cluster, PEER, 0, &["own", "11", "4096"]).unwrap();
    owner.expect("ready").unwrap();
    let b = cluster.attach(1).unwrap();
    let remote = b.connect_segment(cluster.nodes()[0], SegmentId(11), SOON).unwrap();
    let mut sequence = remote.sequence().unwrap();
    remote.put(0, b"x").unwrap();
    assert_eq!(sequence.check().unwrap(), tieline::SequenceStatus::Ok);
    owner.kill().unwrap();
    let event = remote.wait_event(SOON).unwrap();
    assert_eq!(event, tieline::RemoteEvent::Lost(tieline::LossReason::OwnerDied));
    let error = remote.put(0, b"x").unwrap_err();
    assert!(matches!(error, Error::Lost { reason: tieline::LossReason::OwnerDied, .. }), "{error}");
    assert_eq!(sequence.check().unwrap(), tieline::SequenceStatus::Lost(tieline::LossReason::OwnerDied));
    // The id is free again.
    cluster.attach(0).unwrap().create_segment(SegmentId(11), 4096).unwrap();
}

#[test]
fn access_lists_travel_with_the_segment() {
    let cluster = two_nodes();
    let a = cluster.attach(0).unwrap();
    let options = SegmentOptions {
        access: Access { uids: vec![65_534], gid: None },
        ..SegmentOptions::new(4096).id(SegmentId(2))
    };
    let segment = a.create_segment_with(&options).unwrap();
    segment.make_available().unwrap();
    // The owner's own uid is always welcome.
    a.connect_segment(a.id(), SegmentId(2), Duration::ZERO).unwrap();
}
