use super::*;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

fn pair() -> (Connection, Seqpacket) {
    pair_of(Of::Manager)
}

fn pair_of(of: Of) -> (Connection, Seqpacket) {
    pair_with(of, &InFlight::new(0, 1024))
}

fn pair_with(of: Of, in_flight: &InFlight) -> (Connection, Seqpacket) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let a = Foreign::new(Seqpacket::from_fd(a), 7, &foreign::Closer::new(0));
    (Connection::new(a, of, in_flight), Seqpacket::from_fd(b))
}

#[test]
fn what_finds_no_room_is_queued_and_sent_in_order_later() {
    let (mut connection, other) = pair();
    let mut sent = 0u32;
    while !connection.waits_for_room() {
        let mut bytes = vec![0; 8192];
        bytes[..4].copy_from_slice(&sent.to_le_bytes());
        assert_eq!(connection.send(bytes, vec![], None), Sent::Fine);
        sent += 1;
    }
    let mut buffer = vec![0; 8192];
    let mut received = 0;
    while received < sent {
        connection.flush();
        while let Ok(Some(_)) = other.receive(&mut buffer) {
            assert_eq!(buffer[..4], u32::to_le_bytes(received));
            received += 1;
        }
    }
    assert!(connection.is_flushed());
}

#[test]
fn who_does_not_read_overflows() {
    let (mut connection, _other) = pair();
    let overflowed = (0..10_000).any(|_| connection.send(vec![0; 16_384], vec![], None) == Sent::Overflow);
    assert!(overflowed && connection.queued_bytes <= MAX_QUEUED_BYTES + 16_384);
}

#[test]
fn descriptors_in_the_queue_are_bounded_too() {
    let (mut connection, _other) = pair();
    let file = std::fs::File::open("/dev/null").unwrap().into();
    let file = Held::new(Foreign::new(file, 7, &foreign::Closer::new(0)));
    let overflowed = (0..10_000)
        .any(|_| connection.send(vec![0; 8192], vec![file.clone(), file.clone()], None) == Sent::Overflow);
    assert!(overflowed && connection.queued_descriptors <= MAX_QUEUED_DESCRIPTORS + 2);
}

#[test]
fn a_program_that_does_not_read_is_crowded_and_not_cut_off() {
    let (mut connection, other) = pair_of(Of::Program);
    let mut sent = 0;
    for _ in 0..20_000 {
        assert_eq!(connection.send(vec![7; 64], vec![], None), Sent::Fine);
        sent += 1;
        connection.crowded = connection.is_crowded();
    }
    assert!(connection.crowded);
    let mut buffer = [0; 64];
    while !connection.is_flushed() {
        while let Ok(Some(_)) = other.receive(&mut buffer) {
            sent -= 1;
        }
        connection.flush();
        let some_left = connection.queue.len() > CROWDED_MESSAGES;
        connection.crowded = connection.is_crowded();
        assert!(connection.crowded || !some_left, "only when half is read");
    }
    assert!(!connection.crowded);
    while let Ok(Some(_)) = other.receive(&mut buffer) {
        sent -= 1;
    }
    assert_eq!(sent, 0);
}

#[test]
fn of_what_changes_again_and_again_only_the_latest_word_waits() {
    let (mut connection, other) = pair_of(Of::Program);
    while !connection.waits_for_room() {
        connection.send(vec![0xff; 64], vec![], None);
    }
    let node = |index: usize| NodeId::nth(index).unwrap();
    for round in 0..10_000u32 {
        for index in 0..4 {
            let topic = Topic::Member(GroupId(1), node(index));
            let bytes = [round.to_le_bytes(), u32::try_from(index).unwrap().to_le_bytes()].concat();
            connection.send(bytes, vec![], Some(topic));
        }
        assert!(connection.queue.len() < 300 && connection.queued_bytes < 4096);
    }
    let mut buffer = [0; 64];
    let mut words = Vec::new();
    while !connection.is_flushed() {
        connection.flush();
        while let Ok(Some(got)) = other.receive(&mut buffer) {
            if got.len == 8 {
                words.push(u32::from_le_bytes(buffer[..4].try_into().unwrap()));
            }
        }
    }
    assert_eq!(words, [9999; 4]);
    assert_eq!((connection.queued_bytes, connection.latest.len(), connection.overtaken), (0, 0, 0));
}

#[test]
fn a_closed_connection_swallows_what_is_sent() {
    let (mut connection, other) = pair();
    drop(other);
    assert_eq!(connection.send(vec![1], vec![], None), Sent::Fine);
    assert!(connection.is_flushed());
}

#[test]
fn what_is_not_read_is_bounded_and_all_of_it_arrives_in_order() {
    let in_flight = InFlight::new(1, 1024);
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let file = Held::new(Foreign::new(file, 7, &foreign::Closer::new(0)));
    let mut pairs: Vec<_> = (0..20).map(|_| pair_with(Of::Program, &in_flight)).collect();
    for (connection, other) in &mut pairs {
        for number in 0..100u8 {
            assert_eq!(connection.send(vec![number], vec![file.clone()], None), Sent::Fine);
        }
        assert!(connection.unread <= 16 && connection.retry_at.is_some() && !connection.is_listened_to());
        assert!(!has_unread(other));
    }
    let unread: usize = pairs.iter().map(|(connection, _)| connection.unread).sum();
    assert!(unread <= 64, "{unread}");
    // One that is ended leaves what is on its way where it is, and counted.
    let (connection, ended) = pairs.swap_remove(0);
    connection.end();
    assert!(in_flight.keeps_any());
    in_flight.look_at_the_ended();
    assert!(in_flight.keeps_any());
    drop(ended);
    in_flight.look_at_the_ended();
    assert!(!in_flight.keeps_any());
    let mut buffer = [0; 8];
    let mut read = vec![0u8; pairs.len()];
    while read.iter().any(|read| *read < 100) {
        for ((connection, other), read) in pairs.iter_mut().zip(&mut read) {
            while let Ok(Some(got)) = other.receive(&mut buffer) {
                assert_eq!((buffer[0], got.descriptors.len()), (*read, 1));
                *read += 1;
            }
            connection.see_what_was_read();
            connection.flush();
        }
    }
    pairs.iter_mut().for_each(|(connection, _)| connection.see_what_was_read());
    assert!(in_flight.has_room(7, 0, 4) && pairs.iter().all(|(connection, _)| connection.is_flushed()));
}
