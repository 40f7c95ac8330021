//! Managers die: data in flight continues, nothing is reported, new requests fail clearly, and all is well
//! after a restart.

use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tieline::{LossReason, RemoteEvent, SegmentEvent, SegmentId, SequenceStatus};
use tieline_tests::{Cluster, Peer, Random, Watchdog};

use crate::{Budget, PEER, TIMEOUT, assert_clean, eventually};

/// kill -9 of a manager; returns when it is gone.
fn kill_manager(cluster: &Cluster, index: usize) {
    let pid = Pid::from_raw(cluster.manager_pid(index).unwrap().try_into().unwrap()).unwrap();
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    pidfd_send_signal(&process, Signal::KILL).unwrap();
    rustix::event::poll(&mut [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)], None)
        .unwrap();
}

fn start_manager(cluster: &Cluster, index: usize) {
    let id = cluster.nodes()[index].to_string();
    let (status, out, err) = cluster.run(&["node", "start", "--id", &id]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
}

#[test]
fn data_goes_on_while_a_manager_is_dead_and_programs_come_back_to_the_next() {
    let _watchdog = Watchdog::usual("manager's death");
    let cluster = Cluster::up(2).unwrap();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(1), TIMEOUT).unwrap();
    let mut sequence = remote.sequence().unwrap();
    for victim in [0, 1] {
        kill_manager(&cluster, victim);
        // Nothing is reported, and what is connected works.
        assert!(remote.wait_event(Duration::from_millis(100)).is_err());
        remote.put(0, &[victim as u8 + 1]).unwrap();
        let mut byte = [0];
        segment.window().get(0, &mut byte).unwrap();
        assert_eq!(byte[0], victim as u8 + 1);
        assert_eq!(sequence.check().unwrap(), SequenceStatus::Ok);
        // New connects fail, with the node and the next step.
        let error = b.connect_segment(a.id(), SegmentId(2), Duration::ZERO).unwrap_err().to_string();
        let node = cluster.nodes()[victim];
        assert!(error.contains(&format!("node {node}")) && error.contains("tieline"), "{error}");
        start_manager(&cluster, victim);
        // The programs are back without having done anything.
        b.connect_segment(a.id(), SegmentId(1), TIMEOUT).unwrap();
        assert_eq!(remote.check().ok(), Some(()));
    }
    // The old connection has outlived both managers, and its end is still told.
    drop(segment);
    assert_eq!(remote.wait_event(TIMEOUT).unwrap(), RemoteEvent::Lost(LossReason::Removed));
    drop((remote, sequence, a, b));
    assert_clean(&cluster);
}

#[test]
fn a_shared_segment_outlives_its_manager() {
    let _watchdog = Watchdog::usual("manager's death under a shared segment");
    let cluster = Cluster::up(1).unwrap();
    let (a, other, third) =
        (cluster.attach(0).unwrap(), cluster.attach(0).unwrap(), cluster.attach(0).unwrap());
    let segment = a.create_segment(SegmentId(1), 4096).unwrap();
    segment.share().unwrap();
    let attached = other.attach_segment(SegmentId(1), Duration::ZERO).unwrap();
    attached.make_available().unwrap();
    assert!(matches!(segment.wait_event(TIMEOUT).unwrap(), SegmentEvent::Connected { .. }));
    kill_manager(&cluster, 0);
    attached.window().put(0, &[9]).unwrap();
    // No manager is there to say so.
    let busy = segment.close(false).unwrap_err().to_string();
    assert!(busy.contains("still in use"), "{busy}");
    start_manager(&cluster, 0);
    // It is shared still, and available because the other program has made it so.
    let further = third.attach_segment(SegmentId(1), TIMEOUT).unwrap();
    drop(third.connect_segment(a.id(), SegmentId(1), TIMEOUT).unwrap());
    let mut byte = [0];
    further.window().get(0, &mut byte).unwrap();
    assert_eq!(byte[0], 9);
    drop(further);
    eventually("who was attached is so again", || attached.withdraw(true).is_ok());
    attached.check().unwrap();
    assert!(segment.close(false).is_err(), "it is attached to");
    drop(segment);
    assert_eq!(attached.wait_lost(TIMEOUT).unwrap(), LossReason::Removed);
    drop((attached, a, other, third));
    assert_clean(&cluster);
}

#[test]
fn a_death_in_the_gap_is_reported_by_the_next_manager() {
    let _watchdog = Watchdog::usual("death in the gap");
    let cluster = Cluster::up(2).unwrap();
    let mut owner = Peer::start(&cluster, PEER, 0, &["own", "5", "4096"]).unwrap();
    owner.expect("ready").unwrap();
    let b = cluster.attach(1).unwrap();
    let remote = b.connect_segment(cluster.nodes()[0], SegmentId(5), TIMEOUT).unwrap();
    kill_manager(&cluster, 0);
    owner.kill().unwrap();
    remote.put(0, &[1]).unwrap();
    start_manager(&cluster, 0);
    assert_eq!(remote.wait_event(TIMEOUT).unwrap(), RemoteEvent::Lost(LossReason::OwnerDied));
}

#[test]
fn managers_killed_at_random_points_come_back_and_programs_with_them() {
    let _watchdog = Watchdog::new("killing managers", Duration::from_secs(60 * 60));
    let cluster = Cluster::up(3).unwrap();
    let mut random = Random::new("managers");
    let owners: Vec<_> = (0..3).map(|index| cluster.attach(index).unwrap()).collect();
    let segments: Vec<_> = owners
        .iter()
        .map(|owner| {
            let segment = owner.create_segment(SegmentId(9), 4096).unwrap();
            segment.make_available().unwrap();
            segment
        })
        .collect();
    let remote = owners[1].connect_segment(owners[0].id(), SegmentId(9), TIMEOUT).unwrap();
    let mut budget = Budget::new(12);
    let mut kills = 0;
    while budget.more() {
        let victim = random.below(3);
        // Somebody is asking for something at that moment.
        let mut asker = Peer::start(&cluster, PEER, random.below(3), &["own", "33", "4096"]).unwrap();
        std::thread::sleep(Duration::from_micros(random.below(5000) as u64));
        kill_manager(&cluster, victim);
        kills += 1;
        remote.put(0, &[kills as u8]).unwrap();
        start_manager(&cluster, victim);
        drop(asker.signal(Signal::KILL));
        drop(asker.line());
        drop(asker);
        // Everybody reaches everybody's segment again.
        for from in 0..3 {
            let to = random.below(3);
            let again = owners[from].connect_segment(owners[to].id(), SegmentId(9), TIMEOUT).unwrap();
            again.fetch_add_u64(64, 1).unwrap();
        }
    }
    assert!(remote.check().is_ok());
    assert!(segments.iter().all(|segment| segment.state() == tieline::SegmentState::Available));
    drop((remote, segments, owners));
    assert_clean(&cluster);
    println!("{kills} managers killed");
}

#[test]
fn a_whole_cluster_killed_at_once_starts_again_over_what_it_left() {
    let _watchdog = Watchdog::usual("cluster killed");
    let cluster = Cluster::up(3).unwrap();
    (0..3).for_each(|index| kill_manager(&cluster, index));
    let (status, out, _) = cluster.run(&["status"]).unwrap();
    assert_ne!(status, 0, "a dead cluster must not look alive: {out}");
    let (status, out, err) = cluster.run(&["up", "--nodes", "3"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    assert_clean(&cluster);
    let (status, ..) = cluster.run(&["down"]).unwrap();
    assert_eq!(status, 0);
    let left = || {
        std::fs::read_dir(cluster.cluster_dir()).map(|entries| {
            entries
                .filter_map(Result::ok)
                .map(|entry| entry.file_name())
                .filter(|name| !name.to_string_lossy().ends_with(".log"))
                .count()
        })
    };
    eventually("no socket, lock or pathname is left", || left().unwrap_or(0) == 0);
}
