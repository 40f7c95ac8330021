//! DMA queues against a model, and their ends.

use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use tieline::{Direction, DmaEntry, DmaState, Error, Node, RemoteSegment, Segment, SegmentId};
use tieline_tests::{Cluster, Watchdog};

use crate::two_nodes;

const SIZE: usize = 1 << 16;

struct Ends {
    _cluster: Cluster,
    here: Node,
    local: Segment,
    owner: Segment,
    remote: RemoteSegment,
}

fn ends(size: usize) -> Ends {
    let cluster = two_nodes();
    let (here, there) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let local = here.create_segment(SegmentId(1), size).unwrap();
    let owner = there.create_segment(SegmentId(2), size).unwrap();
    owner.make_available().unwrap();
    let remote = here.connect_segment(there.id(), SegmentId(2), Duration::from_secs(5)).unwrap();
    Ends { _cluster: cluster, here, local, owner, remote }
}

fn bytes(segment: &Segment) -> Vec<u8> {
    let mut bytes = vec![0; segment.size_bytes()];
    segment.window().get(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn random_vectors_do_what_plain_copies_do() {
    let _watchdog = Watchdog::usual("dma model");
    let ends = ends(SIZE);
    let queues = [ends.here.dma_queue(64).unwrap(), ends.here.dma_engine(64).unwrap()];
    let entry = (0..2048usize, 0..SIZE - 2048, 0..SIZE - 2048).prop_map(
        |(size_bytes, local_offset, remote_offset)| DmaEntry { size_bytes, local_offset, remote_offset },
    );
    let vector = (any::<bool>(), any::<bool>(), proptest::collection::vec(entry, 1..64), any::<u8>());
    proptest!(ProptestConfig::with_cases(48), |((engine, push, vector, seed) in vector)| {
        let fill: Vec<u8> = (0..SIZE).map(|at| (at as u8).wrapping_mul(7).wrapping_add(seed)).collect();
        ends.local.window().put(0, &fill).unwrap();
        let (mut local, mut remote) = (fill, bytes(&ends.owner));
        for DmaEntry { size_bytes, local_offset, remote_offset } in vector.iter().copied() {
            let (l, r) = (local_offset..local_offset + size_bytes, remote_offset..remote_offset + size_bytes);
            if push { remote[r].copy_from_slice(&local[l]) } else { local[l].copy_from_slice(&remote[r]) }
        }
        let queue = &queues[usize::from(engine)];
        let direction = if push { Direction::Push } else { Direction::Pull };
        queue.gather(&ends.local, &ends.remote, direction, &vector).unwrap();
        queue.post().unwrap();
        prop_assert_eq!(queue.wait(Some(Duration::from_secs(20))).unwrap(), DmaState::Done);
        prop_assert!(bytes(&ends.local) == local);
        prop_assert!(bytes(&ends.owner) == remote);
    });
}

#[test]
fn a_bad_entry_is_refused_before_anything_is_copied() {
    let ends = ends(SIZE);
    let queue = ends.here.dma_queue(4).unwrap();
    let good = DmaEntry { size_bytes: 8, local_offset: 0, remote_offset: 0 };
    let bad = DmaEntry { size_bytes: 8, local_offset: 0, remote_offset: SIZE - 7 };
    assert!(queue.gather(&ends.local, &ends.remote, Direction::Push, &[good, bad]).is_err());
    assert!(matches!(
        queue.gather(&ends.local, &ends.remote, Direction::Push, &[good; 5]),
        Err(Error::Limit { limit: 4, .. })
    ));
    assert_eq!(queue.state(), DmaState::Idle);
    assert!(queue.post().unwrap_err().to_string().contains("nothing to post"));
    assert!(queue.post_with(|_| ()).is_err());
}

#[test]
fn wait_on_a_finished_queue_answers_at_once_and_the_queue_is_used_again() {
    let ends = ends(SIZE);
    let queue = ends.here.dma_queue(1).unwrap();
    for round in 0..3u8 {
        ends.local.window().put(0, &[round; 8]).unwrap();
        let entry = DmaEntry { size_bytes: 8, local_offset: 0, remote_offset: 16 };
        queue.gather(&ends.local, &ends.remote, Direction::Push, &[entry]).unwrap();
        assert_eq!(queue.post().unwrap(), DmaState::Done);
        assert_eq!(queue.wait(None).unwrap(), DmaState::Done);
        assert_eq!(queue.wait(None).unwrap(), DmaState::Done);
        assert_eq!(bytes(&ends.owner)[16..24], [round; 8]);
    }
}

#[test]
fn a_large_vector_is_copied_in_slices_that_poll_moves_on() {
    let size = 8 << 20;
    let ends = ends(size);
    let queue = ends.here.dma_queue(8).unwrap();
    ends.local.window().fill(0, size, 3).unwrap();
    let vector: Vec<_> = (0..8)
        .map(|at| DmaEntry { size_bytes: 1 << 20, local_offset: at << 20, remote_offset: at << 20 })
        .collect();
    queue.gather(&ends.local, &ends.remote, Direction::Push, &vector).unwrap();
    assert_eq!(queue.post().unwrap(), DmaState::Posted);
    let mut polls = 1;
    while queue.poll() == DmaState::Posted {
        polls += 1;
    }
    assert!(polls > 2, "{polls}");
    assert_eq!(queue.state(), DmaState::Done);
    assert!(bytes(&ends.owner).iter().all(|byte| *byte == 3));
}

#[test]
fn an_abort_takes_effect_between_entries() {
    let size = 8 << 20;
    let ends = ends(size);
    let queue = ends.here.dma_queue(8).unwrap();
    ends.local.window().fill(0, size, 5).unwrap();
    let vector: Vec<_> = (0..8)
        .map(|at| DmaEntry { size_bytes: 1 << 20, local_offset: at << 20, remote_offset: at << 20 })
        .collect();
    queue.gather(&ends.local, &ends.remote, Direction::Push, &vector).unwrap();
    queue.post().unwrap();
    assert_eq!(queue.abort(), DmaState::Aborted);
    assert_eq!(queue.wait(None).unwrap(), DmaState::Aborted);
    let copied = bytes(&ends.owner).iter().filter(|byte| **byte == 5).count();
    assert!(copied.is_multiple_of(1 << 20) && copied < size, "{copied}");
}

#[test]
fn a_callback_comes_once_and_may_use_the_api() {
    let _watchdog = Watchdog::usual("dma callback");
    let ends = ends(SIZE);
    let queue = ends.here.dma_engine(1).unwrap();
    let (told, tell) = channel();
    let entry = DmaEntry { size_bytes: 8, local_offset: 0, remote_offset: 0 };
    queue.gather(&ends.local, &ends.remote, Direction::Push, &[entry]).unwrap();
    let node = ends.here.clone();
    queue
        .post_with(move |state| told.send((state, node.create_segment(SegmentId(77), 64).is_ok())).unwrap())
        .unwrap();
    assert_eq!(tell.recv_timeout(Duration::from_secs(20)).unwrap(), (DmaState::Done, true));
    assert_eq!(queue.wait(None).unwrap(), DmaState::Done);
    assert!(tell.recv_timeout(Duration::from_millis(50)).is_err());
}

#[test]
fn a_callback_that_panics_does_not_end_the_engine() {
    let _watchdog = Watchdog::usual("dma callback panics");
    let ends = ends(SIZE);
    let queue = ends.here.dma_engine(1).unwrap();
    let entry = DmaEntry { size_bytes: 8, local_offset: 0, remote_offset: 0 };
    for _ in 0..2 {
        queue.gather(&ends.local, &ends.remote, Direction::Push, &[entry]).unwrap();
        queue.post_with(|_| panic!("on purpose")).unwrap();
        assert_eq!(queue.wait(Some(Duration::from_secs(20))).unwrap(), DmaState::Done);
    }
    assert!(ends.here.dma_queue(usize::MAX).is_err());
}
