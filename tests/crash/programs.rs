//! Programs die.

use std::time::Duration;

use tieline::{Error, LossReason, RemoteEvent, SegmentId};
use tieline_tests::{Cluster, Peer, Random, Watchdog};

use crate::{Budget, PEER, TIMEOUT, assert_clean, descriptors, eventually};

/// Owners, writers and senders are killed at random moments of what they do; observers on other nodes see
/// each owner's death as a typed event and error, managers forget everything of them, and hold no descriptor
/// more than before.
#[test]
fn programs_killed_at_random_points_leave_nothing() {
    let _watchdog = Watchdog::new("killing programs", Duration::from_secs(60 * 60));
    let cluster = Cluster::up(3).unwrap();
    let mut random = Random::new("programs");
    let pids: Vec<u32> = (0..3).map(|index| cluster.manager_pid(index).unwrap()).collect();
    assert_clean(&cluster);
    let before: Vec<usize> = pids.iter().map(|pid| descriptors(*pid)).collect();
    let mut budget = Budget::new(60);
    let mut kills = 0;
    while budget.more() {
        match random.below(3) {
            0 => kill_an_owner_that_is_watched(&cluster, &mut random),
            1 => kill_a_writer(&cluster, &mut random),
            _ => kill_while_starting(&cluster, &mut random),
        }
        kills += 1;
    }
    assert_clean(&cluster);
    for (index, pid) in pids.iter().enumerate() {
        eventually("no descriptor is left in the managers", || descriptors(*pid) <= before[index]);
    }
    println!("{kills} programs killed");
}

fn kill_an_owner_that_is_watched(cluster: &Cluster, random: &mut Random) {
    let (at, from) = (random.below(3), random.below(3));
    let mut owner = Peer::start(cluster, PEER, at, &["own", "50", "8192"]).unwrap();
    owner.expect("ready").unwrap();
    let observer = cluster.attach(from).unwrap();
    let remote = observer.connect_segment(cluster.nodes()[at], SegmentId(50), TIMEOUT).unwrap();
    let mut writer =
        Peer::start(cluster, PEER, from, &["stream", &cluster.nodes()[at].to_string(), "50"]).unwrap();
    writer.expect("ready").unwrap();
    std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
    owner.kill().unwrap();
    assert_eq!(remote.wait_event(TIMEOUT).unwrap(), RemoteEvent::Lost(LossReason::OwnerDied));
    assert!(matches!(remote.put(0, &[1]), Err(Error::Lost { reason: LossReason::OwnerDied, .. })));
    let said = writer.line().unwrap();
    assert!(said.contains("the program that owned it ended"), "{said}");
}

fn kill_a_writer(cluster: &Cluster, random: &mut Random) {
    let (at, from) = (random.below(3), random.below(3));
    let owner = cluster.attach(at).unwrap();
    let segment = owner.create_segment(SegmentId(60), 65_536).unwrap();
    segment.make_available().unwrap();
    let mut writer = Peer::start(cluster, PEER, from, &["stream", &owner.id().to_string(), "60"]).unwrap();
    writer.expect("ready").unwrap();
    let node = cluster.nodes()[from];
    assert_eq!(segment.wait_event(TIMEOUT).unwrap(), tieline::SegmentEvent::Connected { node });
    std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
    writer.kill().unwrap();
    assert_eq!(
        segment.wait_event(TIMEOUT).unwrap(),
        tieline::SegmentEvent::Disconnected { node, died: true }
    );
}

fn kill_while_starting(cluster: &Cluster, random: &mut Random) {
    let roles: [&[&str]; 4] =
        [&["own", "70", "1048576"], &["interrupt", "70"], &["data-interrupt", "71"], &["member", "72"]];
    let peer = Peer::start(cluster, PEER, random.below(3), roles[random.below(roles.len())]).unwrap();
    // From before its attachment to after its last request.
    std::thread::sleep(Duration::from_micros(random.below(8000) as u64));
    peer.kill().unwrap();
}
