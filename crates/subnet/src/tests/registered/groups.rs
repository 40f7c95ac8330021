//! Groups: joins and leaves, trees after faults, and limits.

use super::*;

#[test]
fn ports_that_join_hear_each_other_until_they_leave() {
    let mut asked = Asked::new(tree());
    let hosts = asked.hosts();
    let members = [hosts[0], hosts[1], hosts[40], hosts[77], hosts[127]];
    let made = asked.member(members[0], Method::SET, &asked.record(members[0], [0; 16], 1), MAKE).unwrap();
    let (gid, group) = (*made.group_gid(), made.group_lid());
    assert_eq!((gid[0], gid[1], gid[2], gid[3], group), (0xff, 0x12, 0xa0, 0x1b, Lid(0xc001)));
    assert_eq!((made.mtu_selector(), made.mtu(), made.rate_selector(), made.join_state()), (2, 5, 2, 1));
    for port in &members[1..] {
        let mut record = GroupMemberRecord::default();
        record.set_group_gid(&gid).set_port_gid(&asked.gid(*port)).set_join_state(1);
        let joined = asked.member(*port, Method::SET, &record, JOIN).unwrap();
        assert_eq!((joined.group_lid(), joined.queue_key(), joined.mtu()), (group, 0x1234, 5));
    }
    asked.hear_each_other(&members, group);
    // Those who do not know the key of the manager see the group, and not who is in it.
    let wanted = GroupMemberRecord::default();
    let table = question(Method::GET_TABLE, attribute::GROUP_MEMBER, &wanted, 0);
    let count = |mad: &Mad| sa::header(mad).rmpp().length();
    let mut trusted = table;
    sa::header_mut(&mut trusted).set_key(1);
    let responses = asked.ask_all(&[(hosts[9], table), (hosts[9], trusted)]);
    // The first segments, of records of 56 bytes: of two groups; of the broadcast group and five members.
    assert_eq!((count(&responses[0]), count(&responses[1])), (20 + 2 * 56, 40 + 6 * 56));
    // One sends only; then one leaves, and hears nothing more.
    let sender = asked.record(hosts[60], gid, 4);
    asked.member(hosts[60], Method::SET, &sender, JOIN).unwrap();
    assert_eq!(asked.heard(hosts[60], group), members.into_iter().collect());
    assert!(!asked.heard(members[0], group).contains(&hosts[60]));
    let leaving = asked.record(members[3], gid, 1);
    assert_eq!(asked.member(members[3], Method::DELETE, &leaving, JOIN).unwrap().join_state(), 0);
    asked.hear_each_other(&[members[0], members[1], members[2], members[4]], group);
    // With the last full member the group ends, and no switch holds anything of it.
    for port in [members[0], members[1], members[2], members[4]] {
        let leaving = asked.record(port, gid, 1);
        asked.member(port, Method::DELETE, &leaving, JOIN).unwrap();
    }
    let agents = &asked.transport.fabric.agents;
    assert!(agents.graph().nodes_of(Kind::Switch).all(|it| agents.group_ports(it, group.0).next().is_none()));
    assert_eq!(asked.member(members[0], Method::SET, &sender, JOIN), Err(0x0600), "it is no longer there");
    assert_eq!(asked.transport.fabric.group_loops, Vec::<String>::new());
}

#[test]
fn what_a_join_must_not_say() {
    let mut asked = Asked::new(tree());
    let hosts = asked.hosts();
    let (one, other) = (hosts[0], hosts[50]);
    let mut gid = [0x11; 16];
    (gid[0], gid[1]) = (0xff, 0x12);
    let good = asked.record(one, gid, 1);
    let with = |change: &dyn Fn(&mut GroupMemberRecord)| {
        let mut record = good;
        change(&mut record);
        record
    };
    const SELECTED: u64 = 1 << 4 | 1 << 5;
    const RATED: u64 = 1 << 8 | 1 << 9;
    let refusals: [(&str, GroupMemberRecord, u64, u16); 12] = [
        ("a join without the port", good, JOIN & !2, 0x0600),
        ("a join without its state", good, JOIN & !(1 << 16), 0x0600),
        ("a join of a group that is not there", good, JOIN, 0x0600),
        ("no Q_Key", good, MAKE & !4, 0x0600),
        ("only a sender", with(&|it| _ = it.set_join_state(4)), MAKE, 0x0200),
        ("no state", with(&|it| _ = it.set_join_state(0)), MAKE, 0x0200),
        ("another partition", with(&|it| _ = it.set_partition(0x8123)), MAKE, 0x0200),
        ("a GID of a port", with(&|it| _ = it.set_group_gid(&[0xfe; 16])), MAKE, 0x0200),
        ("a scope that is not the GID's", with(&|it| _ = it.set_scope(5)), MAKE | 1 << 15, 0x0200),
        (
            "an MTU that the port has not",
            with(&|it| _ = it.set_mtu_selector(0).set_mtu(5)),
            MAKE | SELECTED,
            0x0200,
        ),
        (
            "a rate that the port has not",
            with(&|it| _ = it.set_rate_selector(2).set_rate(24)),
            MAKE | RATED,
            0x0200,
        ),
        ("a port that is not there", with(&|it| _ = it.set_port_gid(&[9; 16])), MAKE, 0x0500),
    ];
    for (what, record, mask, status) in refusals {
        assert_eq!(asked.member(one, Method::SET, &record, mask), Err(status), "{what}");
    }
    assert_eq!(asked.manager.registry.groups.count(), (1, 0), "nothing came of them");
    let made = with(&|it| _ = it.set_mtu_selector(2).set_mtu(3).set_rate_selector(1).set_rate(7));
    let made = asked.member(one, Method::SET, &made, MAKE | SELECTED | RATED).unwrap();
    assert_eq!((made.mtu(), made.rate()), (3, 4), "less than 40 Gb/s is 30");
    // Joins that contradict the group, and a leave of what is not the requester's.
    let joining = asked.record(other, gid, 1);
    let wrong = |change: &dyn Fn(&mut GroupMemberRecord)| {
        let mut record = joining;
        change(&mut record);
        record
    };
    for (what, record, mask) in [
        ("another Q_Key", wrong(&|it| _ = it.set_queue_key(7)), JOIN | 4),
        ("another SL", wrong(&|it| _ = it.set_service_level(3)), JOIN | 1 << 12),
        ("a larger MTU", wrong(&|it| _ = it.set_mtu_selector(0).set_mtu(3)), JOIN | SELECTED),
        ("another rate", wrong(&|it| _ = it.set_rate_selector(2).set_rate(3)), JOIN | RATED),
    ] {
        assert_eq!(asked.member(other, Method::SET, &record, mask), Err(0x0200), "{what}");
    }
    assert_eq!(asked.member(other, Method::DELETE, &joining, JOIN), Err(0x0200), "it is no member");
    assert_eq!(asked.member(other, Method::DELETE, &good, JOIN), Err(0x0200), "it is another port's");
    // A port may make another one a member, and says so; then it may take it out again.
    let joined = asked.member(one, Method::SET, &joining, JOIN).unwrap();
    assert!(joined.proxy());
    assert!(asked.member(one, Method::DELETE, &joining, JOIN).is_ok());
    // The broadcast group of IPoIB is there from the beginning, and stays.
    let mut broadcast = asked.record(
        other,
        [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        1,
    );
    let joined = asked.member(other, Method::SET, &broadcast, JOIN).unwrap();
    assert_eq!((joined.group_lid(), joined.queue_key(), joined.mtu()), (Lid(0xc000), 0x0b1b, 4));
    broadcast.set_join_state(1);
    asked.member(other, Method::DELETE, &broadcast, JOIN).unwrap();
    assert_eq!(asked.manager.registry.groups.count().0, 2);
}

#[test]
fn cables_that_go_and_come_move_trees_and_no_state_in_between_has_a_loop() {
    let mut asked = Asked::new(tree());
    let hosts = asked.hosts();
    let members: Vec<PortIx> = hosts.iter().copied().step_by(9).collect();
    let mut groups = Vec::new();
    for _ in 0..4 {
        let made =
            asked.member(members[0], Method::SET, &asked.record(members[0], [0; 16], 1), MAKE).unwrap();
        let joins: Vec<(PortIx, Mad)> = members
            .iter()
            .map(|port| {
                let record = asked.record(*port, *made.group_gid(), 1);
                (*port, question(Method::SET, attribute::GROUP_MEMBER, &record, JOIN))
            })
            .collect();
        assert!(asked.ask_all(&joins).iter().all(|mad| refusal(mad).is_none()));
        groups.push(made.group_lid());
    }
    let mut random = seeded_random::SplitMix64::new(38);
    let cables = crate::tests::between_switches(asked.transport.fabric.agents.graph());
    let mut moved = 0;
    for _ in 0..8 {
        let cable = cables[random.below(cables.len())];
        for pulls in [true, false] {
            let agents = &mut asked.transport.fabric.agents;
            let _ = if pulls { agents.unlink(cable) } else { agents.relink(cable) };
            asked.events.clear();
            // Switches to which the way led by that cable are silent at first.
            asked.attend(6);
            moved += asked.events.iter().filter(|event| matches!(event, Event::Grouped(_))).count();
            groups.iter().for_each(|group| asked.hear_each_other(&members, *group));
        }
    }
    assert!(moved > 0, "some of the cables were part of a tree");
    assert_eq!(asked.transport.fabric.group_loops, Vec::<String>::new());
    // A second look finds nothing to set.
    asked.events.clear();
    asked.manager.groups_again = Some((Duration::ZERO, Duration::ZERO));
    asked.attend(3);
    assert_eq!(asked.events, []);
}

#[test]
fn as_many_groups_as_switches_hold_and_no_more() {
    let mut asked = Asked::new(crate::tests::fat_tree(&crate::tests::FatTree::new(4, 2)).unwrap());
    asked.transport.fabric.watched = false;
    let hosts = asked.hosts();
    let all: Vec<(PortIx, Mad)> = (0..16_390)
        .map(|number| {
            let port = hosts[number % hosts.len()];
            let record = asked.record(port, [0; 16], 1);
            (port, question(Method::SET, attribute::GROUP_MEMBER, &record, MAKE))
        })
        .collect();
    let (mut made, mut full, mut lids) = (0, 0, BTreeSet::new());
    // So many at once as the desk takes of each port.
    for some in all.chunks(hosts.len() * 250) {
        for response in asked.ask_all(some) {
            match refusal(&response) {
                None => {
                    made += 1;
                    lids.insert(response.at::<DATA_AT, GroupMemberRecord>().group_lid());
                }
                Some(Status(0x0100)) => full += 1,
                Some(other) => panic!("{other}"),
            }
        }
    }
    // 0xc000 to 0xfffe, of which the first is the broadcast group's.
    assert_eq!((made, full, lids.len()), (16_382, 8, 16_382));
}
