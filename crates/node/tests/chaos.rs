//! Managers that are killed again and again under programs that continue asking: nobody hangs, nothing is
//! lost, nothing stays.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use node_client::{Client, ClientError, ImportState};
use proto::wire::program::Refusal;
use shm::region::{MapAccess, Region};
use support::{ChildProcess, Place, WATCHDOG, eventually, node, offer, segment};

const ROUNDS: usize = 12;

/// What children of these tests do.
#[test]
fn child_role() {
    support::child_role(|role, _| panic!("{role}"));
}

/// Connects, looks, disconnects, until told to stop. Every failure has to be one that a manager's death
/// explains.
fn visit(client: &Client, id: u32, done: &AtomicBool, visits: &AtomicU64) {
    while !done.load(Ordering::Relaxed) {
        match client.connect_segment(node(8), segment(id)) {
            Ok((import, fd, _)) => {
                let region = Region::open(fd, MapAccess::ReadOnly).unwrap();
                let mut byte = [0];
                region.window().get(0, &mut byte).unwrap();
                assert_eq!(u32::from(byte[0]), id);
                let state = import.state();
                assert!(matches!(state, ImportState::Alive | ImportState::Ended(_)), "{state:?}");
                drop(client.disconnect(&import));
                visits.fetch_add(1, Ordering::Relaxed);
            }
            Err(
                ClientError::ManagerGone { .. }
                | ClientError::Refused(
                    Refusal::Unreachable { .. } | Refusal::NotFound { .. } | Refusal::NotAvailable { .. },
                ),
            ) => std::thread::sleep(Duration::from_millis(1)),
            Err(other) => panic!("{other}"),
        }
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn managers_may_die_at_any_moment() {
    let place = Place::new();
    let mut managers: Vec<Option<ChildProcess>> = [4, 8].map(|id| Some(place.start_process(id))).into();
    place.await_sessions(&[4, 8]);
    let (here, there) = (place.attach(4), place.attach(8));
    let regions = [1, 2].map(|id| {
        let region = offer(&there, id);
        region.window().put(0, &[u8::try_from(id).unwrap()]).unwrap();
        region
    });
    // One connection outlives it all.
    let (lasting, ..) = here.connect_segment(node(8), segment(1)).unwrap();
    let before = descriptors();
    let (done, visits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for id in [1, 2, 1] {
            let (here, done, visits) = (&here, &done, &visits);
            scope.spawn(move || visit(here, id, done, visits));
        }
        let mut pseudo_random = 12345u64;
        for _ in 0..ROUNDS {
            pseudo_random = pseudo_random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let index = usize::from(pseudo_random >> 40 & 1 == 1);
            let seen = visits.load(Ordering::Relaxed);
            // In the middle of the traffic, wherever that is.
            eventually("visits go on", || visits.load(Ordering::Relaxed) > seen);
            std::thread::sleep(Duration::from_micros(pseudo_random >> 33 & 0xfff));
            managers[index].take().unwrap().kill();
            managers[index] = Some(place.start_process([4, 8][index]));
        }
        let seen = visits.load(Ordering::Relaxed);
        eventually("visits go on", || visits.load(Ordering::Relaxed) > seen + 10);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(lasting.state(), ImportState::Alive);
    // The lasting connection keeps the state page that it began with.
    eventually("no descriptors stay", || descriptors() <= before + 1);
    // The truth is told: one connection, and nothing else.
    // The last manager that was started may not listen yet.
    eventually("one import is left", || {
        here.status()
            .is_ok_and(|status| status.programs.iter().map(|program| program.imports).sum::<u32>() == 1)
    });
    eventually("one connection is left", || {
        there
            .status()
            .is_ok_and(|status| status.segments.iter().map(|segment| segment.connections).sum::<u32>() == 1)
    });
    here.disconnect(&lasting).unwrap();
    for id in [1, 2] {
        eventually("the segment is free", || there.remove_segment(segment(id), false).is_ok());
    }
    there.request_within(proto::wire::program::Request::NodeInfo, &[], WATCHDOG).unwrap();
    drop(regions);
}
