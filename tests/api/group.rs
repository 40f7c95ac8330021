//! Groups: a copy per member; which members are reached, and when.

use std::time::Duration;

use shm::sync::Ordering;
use tieline::{Delivered, GroupId, GroupMember};
use tieline_tests::{Cluster, Peer, Watchdog};

use crate::PEER;

const GROUP: GroupId = GroupId(3);
const SOON: Duration = Duration::from_secs(10);

fn read(member: &GroupMember, offset: usize) -> u8 {
    let mut byte = [0];
    member.window().get(offset, &mut byte).unwrap();
    byte[0]
}

#[test]
fn a_put_reaches_every_copy_and_a_local_store_only_its_own() {
    let _watchdog = Watchdog::usual("group");
    let cluster = Cluster::up(3).unwrap();
    let nodes: Vec<_> = (0..3).map(|index| cluster.attach(index).unwrap()).collect();
    let members: Vec<_> = nodes.iter().map(|node| node.join_group(GROUP, 4096).unwrap()).collect();
    let group = nodes[0].connect_group(GROUP).unwrap();
    assert_eq!(group.wait_members(3, SOON).unwrap(), cluster.nodes());
    assert_eq!(group.put(100, &[1]).unwrap(), Delivered { members: 3, lost: 0 });
    group.barrier().unwrap();
    assert!(members.iter().all(|member| read(member, 100) == 1));
    members[1].window().put(100, &[9]).unwrap();
    assert_eq!([read(&members[0], 100), read(&members[1], 100), read(&members[2], 100)], [1, 9, 1]);
    // The same value again, after a member changed its copy.
    group.put(100, &[1]).unwrap();
    group.barrier().unwrap();
    assert!(members.iter().all(|member| read(member, 100) == 1));
}

#[test]
fn data_is_there_when_its_flag_is() {
    let _watchdog = Watchdog::usual("group flag");
    let cluster = Cluster::up(2).unwrap();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let member = b.join_group(GROUP, 4096).unwrap();
    let group = a.connect_group(GROUP).unwrap();
    group.wait_members(1, SOON).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=2000u32 {
                group.put(1000, &[round as u8; 500]).unwrap();
                group.store_u32(0, round).unwrap();
                while member.window().atomic_u32(64).unwrap().load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=2000u32 {
            while member.window().atomic_u32(0).unwrap().load(Ordering::Acquire) != round {
                std::thread::yield_now();
            }
            let mut data = [0; 500];
            member.window().get(1000, &mut data).unwrap();
            assert_eq!(data, [round as u8; 500]);
            member.window().atomic_u32(64).unwrap().store(round, Ordering::Release);
        }
    });
}

#[test]
fn members_join_late_and_die() {
    let _watchdog = Watchdog::usual("group members");
    let cluster = Cluster::up(3).unwrap();
    let a = cluster.attach(0).unwrap();
    let group = a.connect_group(GROUP).unwrap();
    assert_eq!(group.put(0, &[1]).unwrap(), Delivered { members: 0, lost: 0 });
    let mut early = Peer::start(&cluster, PEER, 1, &["member", "3"]).unwrap();
    early.expect("ready").unwrap();
    group.wait_members(1, SOON).unwrap();
    group.put(0, &[2]).unwrap();
    let mut late = Peer::start(&cluster, PEER, 2, &["member", "3"]).unwrap();
    late.expect("ready").unwrap();
    group.wait_members(2, SOON).unwrap();
    group.put(1, &[3]).unwrap();
    group.barrier().unwrap();
    early.say("read 0 2").unwrap();
    early.expect("[2, 3]").unwrap();
    // There is no history.
    late.say("read 0 2").unwrap();
    late.expect("[0, 3]").unwrap();
    early.kill().unwrap();
    let left = (0..1000).find(|_| {
        std::thread::sleep(Duration::from_millis(5));
        group.put(2, &[4]).unwrap().members == 1
    });
    assert!(left.is_some());
    late.say("read 2 1").unwrap();
    late.expect("[4]").unwrap();
    assert_eq!(group.members(), [cluster.nodes()[2]]);
}

/// A member that leaves and joins again between two writes is reached by the next one.
#[test]
fn a_member_that_returns_is_reached_again() {
    let _watchdog = Watchdog::usual("member returns");
    let cluster = Cluster::up(2).unwrap();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let first = b.join_group(GROUP, 4096).unwrap();
    let group = a.connect_group(GROUP).unwrap();
    group.wait_members(1, SOON).unwrap();
    drop(first);
    let second = b.join_group(GROUP, 4096).unwrap();
    let reached = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        group.put(9, &[7]).unwrap();
        group.barrier().unwrap();
        read(&second, 9) == 7
    });
    assert!(reached);
}

#[test]
fn who_waits_is_told_of_a_member_and_finds_its_copy() {
    let _watchdog = Watchdog::usual("group waits");
    let cluster = Cluster::up(2).unwrap();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let group = a.connect_group(GROUP).unwrap();
    let (before, none) = group.reached().unwrap();
    assert!(none.is_empty());
    let member = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            while group.generation().unwrap() == before {
                group.wait_change(SOON).unwrap()
            }
        });
        let member = b.join_group(GROUP, 4096).unwrap();
        waiting.join().unwrap();
        member
    });
    let (_, reached) = group.reached().unwrap();
    assert_eq!(reached.iter().map(tieline::RemoteSegment::node).collect::<Vec<_>>(), [b.id()]);
    reached[0].put(5, &[7]).unwrap();
    assert_eq!(read(&member, 5), 7);
    let source = b.create_segment(tieline::SegmentId(77), 64).unwrap();
    source.window().put(0, &[9; 64]).unwrap();
    assert_eq!(group.put_from(100, source.window()).unwrap(), Delivered { members: 1, lost: 0 });
    assert_eq!((read(&member, 99), read(&member, 100), read(&member, 163)), (0, 9, 9));
    group.cancel_waits();
    assert!(matches!(group.wait_change(SOON), Err(tieline::Error::Cancelled { .. })));
}
