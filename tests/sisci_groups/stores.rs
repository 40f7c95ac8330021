//! What a store through a group's map does, and what it leaves alone.

use tieline_tests::{Cluster, Watchdog};

use crate::{GROUP, OPTIONS, Program, SIZE, group_of, reach};

#[test]
fn the_same_value_again_overwrites_what_a_member_changed() {
    let _watchdog = Watchdog::usual("group same value");
    let cluster = Cluster::up(4).unwrap();
    for count in [1, 3] {
        let (mut writer, mut members) = group_of(&cluster, count);
        writer.store(5, 77);
        assert!(members.iter_mut().all(|member| member.get(5) == 77));
        members[0].set(5, 1);
        assert!(members[1..].iter_mut().all(|member| member.get(5) == 77), "a local store stays local");
        writer.store(5, 77);
        assert!(members.iter_mut().all(|member| member.get(5) == 77), "{count} members");
    }
}

#[test]
fn local_stores_right_beside_are_left_alone() {
    let _watchdog = Watchdog::usual("group beside");
    let cluster = Cluster::up(4).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 3);
    for (index, member) in members.iter_mut().enumerate() {
        member.set(99, 1000 + index as u32);
        member.set(101, 2000 + index as u32);
    }
    writer.store(100, 5);
    assert_eq!(writer.ask("radd 100 3"), "5");
    assert_eq!(writer.ask("write loop 102 40 9"), "ok");
    for (index, member) in members.iter_mut().enumerate() {
        let seen = [99, 100, 101, 102].map(|at| member.get(at));
        assert_eq!(seen, [1000 + index as u32, 8, 2000 + index as u32, 9]);
    }
}

#[test]
fn a_status_that_members_clear_is_seen_each_time_it_is_set() {
    let _watchdog = Watchdog::usual("group status");
    let cluster = Cluster::up(4).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 3);
    for _ in 0..50 {
        writer.store(8, 1);
        for member in &mut members {
            assert_eq!(member.get(8), 1);
            member.set(8, 0);
        }
    }
}

#[test]
fn data_is_there_when_its_flag_is() {
    let _watchdog = Watchdog::usual("group flags");
    let cluster = Cluster::up(4).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 3);
    members.iter_mut().for_each(|member| member.0.say("watch 300 40").unwrap());
    assert_eq!(writer.ask("flags 300 40"), "ok");
    for member in &mut members {
        assert_eq!(member.0.line().unwrap(), "wrong 0");
    }
}

#[test]
fn every_way_to_write_a_block_reaches_every_member() {
    let _watchdog = Watchdog::usual("group blocks");
    let cluster = Cluster::up(4).unwrap();
    let (_, mut members) = group_of(&cluster, 3);
    let ways = ["loop", "memcpy", "memset", "SCIMemCpy", "SCIMemWrite", "SCITransferBlock", "DMA"];
    for (built, option) in (1..).zip(OPTIONS) {
        let mut writer = Program::built_with(option, &cluster, 0);
        assert_eq!(writer.ask(&format!("connect {GROUP}")), format!("connected {SIZE}"));
        reach(&mut writer, &mut members);
        for (way_number, way) in (1..).zip(ways) {
            for (index, count) in [(1, 1), (3, 17), (16, 64), (7, 1000), (0, SIZE / 4)] {
                let value = (16 * built + way_number) * 0x0101_0101;
                assert_eq!(writer.ask(&format!("write {way} {index} {count} {value}")), "ok");
                for member in &mut members {
                    let same = member.ask(&format!("lcount {index} {count} {value}"));
                    assert_eq!(same, count.to_string(), "{way}, {count} words, {option}");
                }
            }
        }
        assert_eq!(writer.ask("sequence"), "0");
    }
}

#[test]
fn two_writers_reach_all_members_one_of_them_a_member_itself() {
    let _watchdog = Watchdog::usual("group two writers");
    let cluster = Cluster::up(4).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 3);
    assert_eq!(members[0].ask(&format!("connect {GROUP}")), format!("connected {SIZE}"));
    let mut second = members.remove(0);
    reach(&mut second, &mut members);
    writer.0.say("rmany 40 100 500").unwrap();
    second.0.say("rmany 41 200 500").unwrap();
    assert_eq!((writer.0.line().unwrap(), second.0.line().unwrap()), ("ok".into(), "ok".into()));
    members.push(second);
    assert!(members.iter_mut().all(|member| (member.get(40), member.get(41)) == (600, 700)));
}

#[test]
fn what_the_kernel_is_to_write_there_is_refused_and_nothing_else_happens() {
    let _watchdog = Watchdog::usual("group kernel");
    let cluster = Cluster::up(3).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 2);
    writer.store(0, 6);
    assert_eq!(writer.ask("kernel"), "EFAULT");
    assert!(members.iter_mut().all(|member| member.get(0) == 6));
}

#[test]
fn a_writer_may_end_and_begin_again() {
    let _watchdog = Watchdog::usual("group again");
    let cluster = Cluster::up(3).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 2);
    for round in 0..3 {
        assert_eq!(writer.ask("disconnect"), "disconnected");
        assert_eq!(writer.ask(&format!("connect {GROUP}")), format!("connected {SIZE}"));
        reach(&mut writer, &mut members);
        writer.store(9, round);
        assert!(members.iter_mut().all(|member| member.get(9) == round));
    }
    let mut other = Program::writer(&cluster, 1);
    reach(&mut other, &mut members);
}
