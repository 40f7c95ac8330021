//! Tests of the table: queues that make themselves known as they like.

use std::sync::Weak;
use std::time::{Duration, Instant};

use message_queue::Name;
use message_queue::meet::NotAsked;
use proto::ids::{NodeId, SegmentId};

use super::super::forms::Hello;
use super::super::job::Job;
use super::super::workers::Workers;
use super::{OF_NODE_MAX, OtherOwner, Owing, Peer, STRANGERS_MAX, Step, Table};

/// What is due next, with threads for all of it.
fn due(table: &mut Table, now: Instant) -> Option<Job> {
    table.next_due(now, &Workers::default()).map(|(job, _)| job)
}

fn is_any_due(table: &Table, now: Instant) -> bool {
    table.is_any_due(now, &Workers::default())
}

fn hello(from: Name, to: Name, key: u64) -> Hello {
    Hello { from, to, node: NodeId::new(4).unwrap(), segment: SegmentId(1), key }
}

#[test]
fn strangers_are_answered_once_and_only_so_many() {
    let (own, now, mut table) = (Name::new().unwrap(), Instant::now(), Table::default());
    let names = [(); 3].map(|()| Name::new().unwrap());
    for name in names {
        table.hello(&hello(name, own, 1), &own, 2, now);
    }
    assert!(table.get(&names[2]).is_none() && is_any_due(&table, now));
    // A second request of the same one takes the place of the first.
    table.hello(&hello(names[0], own, 2), &own, 2, now);
    let mut keys = Vec::new();
    while let Some(Job::Answer(owing)) = due(&mut table, now) {
        keys.push(owing.hello.key);
    }
    keys.sort_unstable();
    assert_eq!((keys, table.is_any_waiting()), (vec![1, 2], false));
    // While a thread is at it, a further one waits.
    table.hello(&hello(names[1], own, 3), &own, 2, now);
    assert!(!is_any_due(&table, now) && table.get(&names[1]).is_some_and(Peer::is_there));
    table.set_after_work(&names[1], Step::Found, &own, now);
    assert!(matches!(due(&mut table, now), Some(Job::Answer(owing)) if owing.hello.key == 3));
    // Once both have met, and this queue has lost the peer, that is what it is told.
    assert!(table.met(&names[1], Weak::new()).is_none());
    assert!(matches!(due(&mut table, now), Some(Job::Seal { name, .. }) if name == names[1]));
    table.hello(&hello(names[1], own, 4), &own, 2, now);
    assert!(!table.get(&names[1]).is_some_and(Peer::is_there));
    assert_eq!(table.may_ask(&names[1], now), Err(NotAsked::Nobody));
    let turned_away = |table: &mut Table| match due(table, now) {
        Some(Job::TurnAway(hello)) => Some(hello.key),
        _ => None,
    };
    assert_eq!((turned_away(&mut table), is_any_due(&table, now)), (Some(4), false));
    // Each time, as it may not have come to know: also if it asks meanwhile.
    table.hello(&hello(names[1], own, 5), &own, 2, now);
    table.set_after_work(&names[1], Step::Gone, &own, now);
    assert_eq!(turned_away(&mut table), Some(5));
    table.set_after_work(&names[1], Step::Gone, &own, now);
    assert!(!table.is_any_waiting());
}

#[test]
fn who_is_not_known_or_gone_is_not_asked_and_who_failed_later() {
    let (own, now, mut table) = (Name::new().unwrap(), Instant::now(), Table::default());
    let name = Name::new().unwrap();
    assert_eq!(table.may_ask(&name, now), Err(NotAsked::Nobody));
    table.hello(&hello(name, own, 1), &own, 9, now);
    assert_eq!(table.may_ask(&name, now), Ok(false), "it is about to be met");
    table.put_off(&name, &own, now, Duration::from_millis(10));
    assert_eq!(table.may_ask(&name, now), Err(NotAsked::NotNow));
    assert_eq!(table.may_ask(&name, now + Duration::from_millis(10)), Err(NotAsked::Nobody), "no port");
    table.set(&name, Step::Gone);
    assert_eq!(table.may_ask(&name, now), Err(NotAsked::Nobody));
    // A stranger that could not be met leaves nothing behind.
    let stranger = Name::new().unwrap();
    table.hello(&hello(stranger, own, 1), &own, 9, now);
    assert!(due(&mut table, now).is_some());
    table.give_up(&stranger);
    assert!(table.get(&stranger).is_none());
}

/// Whoever takes another one's name gets none of its messages.
#[test]
fn a_name_belongs_to_one_node() {
    let (own, now, mut table) = (Name::new().unwrap(), Instant::now(), Table::default());
    let [near, far, stranger] = [(); 3].map(|()| Name::new().unwrap());
    let [four, eight] = [4, 8].map(|node| NodeId::new(node).unwrap());
    table.found_here(near).unwrap();
    table.hello(&hello(near, own, 1), &own, 9, now);
    assert!(table.get(&near).is_none() && !table.is_any_waiting());
    assert_eq!(table.check_owner(&near, four), Err(OtherOwner::Here));
    // One that was looked for at its port.
    table.peers.insert(far, Peer::new(eight, None, Step::Found));
    table.hello(&hello(far, own, 1), &own, 9, now);
    assert!(!table.is_any_waiting(), "node 4 asks in the name of a queue of node 8");
    table.hello(&Hello { node: eight, ..hello(far, own, 2) }, &own, 9, now);
    assert!(matches!(due(&mut table, now), Some(Job::Answer(owing)) if owing.hello.key == 2));
    // One that is there already with a name that is then found elsewhere.
    table.hello(&hello(stranger, own, 1), &own, 9, now);
    assert_eq!(table.check_owner(&stranger, eight), Err(OtherOwner::Node(four)));
    assert_eq!(table.found_here(stranger), Err(OtherOwner::Node(four)));
    assert_eq!(table.check_owner(&stranger, four), Ok(()));
}

#[test]
fn a_node_whose_queues_never_end_to_make_themselves_known_stops_itself_alone() {
    let (own, now, mut table) = (Name::new().unwrap(), Instant::now(), Table::default());
    let ask = |table: &mut Table, node: u32| {
        let hello = Hello { node: NodeId::new(node).unwrap(), ..hello(Name::new().unwrap(), own, 1) };
        let has_room = table.has_room_for(&hello.from);
        if has_room {
            table.hello(&hello, &own, 1 << 16, now);
        }
        (has_room, hello.from)
    };
    // So many are answered at a time; others stay where they are.
    let asked = (0..1000).filter(|_| ask(&mut table, 4).0).count();
    assert_eq!((asked, table.waiting.len()), (STRANGERS_MAX, STRANGERS_MAX));
    while let Some(Job::Answer(Owing { hello, .. })) = due(&mut table, now) {
        table.give_up(&hello.from);
    }
    assert!(table.peers.is_empty() && table.strangers.is_empty());
    // Of those that stay there are so many of a node.
    for _ in 0..2 * OF_NODE_MAX {
        let (has_room, _) = ask(&mut table, 4);
        assert!(has_room);
        // A thread has it, and is done.
        if let Some(Job::Answer(owing)) = due(&mut table, now) {
            table.strangers.remove(&owing.hello.from);
        }
    }
    assert_eq!(table.peers.len(), OF_NODE_MAX);
    let (_, other) = ask(&mut table, 8);
    assert!(table.get(&other).is_some(), "another node's");
    // Those that are gone make room.
    let names: Vec<_> = table.peers.keys().copied().collect();
    for name in &names[..10] {
        table.set(name, Step::Gone);
    }
    for _ in 0..20 {
        ask(&mut table, 4);
    }
    assert!((OF_NODE_MAX + 10..=OF_NODE_MAX + 11).contains(&table.peers.len()), "{}", table.peers.len());
}
