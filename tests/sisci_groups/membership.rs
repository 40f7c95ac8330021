//! Members that are not there yet, come late, leave, and die.

use tieline_tests::{Cluster, Watchdog};

use crate::{GROUP, Program, group_of, reach};

#[test]
fn a_group_without_members_is_no_segment_yet() {
    let _watchdog = Watchdog::usual("group missing");
    let cluster = Cluster::up(2).unwrap();
    let mut writer = Program::start(&cluster, 0);
    assert_eq!(writer.ask(&format!("try {GROUP}")), "missing");
    let _member = Program::member(&cluster, 1);
    while writer.ask(&format!("try {GROUP}")) != "there" {}
}

#[test]
fn a_late_member_gets_what_is_stored_from_then_on_and_no_history() {
    let _watchdog = Watchdog::usual("group late");
    let cluster = Cluster::up(4).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 1);
    writer.store(1, 11);
    for node in [2, 3] {
        members.push(Program::member(&cluster, node));
        reach(&mut writer, &mut members);
        writer.store(node as u32, 12);
        assert!(members.iter_mut().all(|member| member.get(node as u32) == 12));
        assert_eq!(members.last_mut().unwrap().get(1), 0, "no history");
    }
}

#[test]
fn a_member_that_is_killed_while_it_is_stored_to_harms_nobody() {
    let _watchdog = Watchdog::usual("group killed");
    let cluster = Cluster::up(4).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 3);
    for victim in [0, 1] {
        writer.0.say("rmany 50 0 3000").unwrap();
        members.remove(victim).0.kill().unwrap();
        assert_eq!(writer.0.line().unwrap(), "ok");
        reach(&mut writer, &mut members);
        assert!(members.iter_mut().all(|member| member.get(50) == 3000));
    }
    // The last: nobody hears it, and nobody is hurt.
    members.remove(0).0.kill().unwrap();
    writer.store(51, 1);
    assert_eq!(writer.ask("barrier"), "ok");
    members.push(Program::member(&cluster, 2));
    reach(&mut writer, &mut members);
}

#[test]
fn members_come_and_go_under_a_writer_that_never_pauses() {
    let _watchdog = Watchdog::usual("group change");
    let cluster = Cluster::up(3).unwrap();
    let (mut writer, mut members) = group_of(&cluster, 1);
    let mut guest = Program::start(&cluster, 2);
    for round in 0..6 {
        writer.0.say(&format!("rmany 60 {round} 4000")).unwrap();
        assert_eq!(guest.ask(&format!("join {GROUP} 8192")), "joined");
        assert_eq!(guest.ask("leave"), "left");
        assert_eq!(writer.0.line().unwrap(), "ok");
        assert_eq!(members[0].get(60), round + 4000, "no store is lost on the way");
    }
    reach(&mut writer, &mut members);
}
