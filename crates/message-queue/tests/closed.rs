//! Queues that are closed while their process lives on, and opened again: whoever waits for them is told,
//! however far the two have met, and the next queue of the program is another one.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::{Duration, Instant};

use message_queue::{Error, MessageQueue, PeerId, Request, Settings, Status, Want};

const LIMIT: Duration = Duration::from_secs(30);

fn queue() -> MessageQueue {
    MessageQueue::new(Settings::default()).unwrap()
}

fn two() -> (MessageQueue, MessageQueue, PeerId, PeerId) {
    let (mut a, mut b) = (queue(), queue());
    let (to_b, to_a) = (a.peer(b.name()), b.peer(a.name()));
    (a, b, to_b, to_a)
}

fn receive(queue: &mut MessageQueue, from: PeerId, tag: u64) -> Request {
    queue.receive(Want::exactly(from, tag), vec![0; 8])
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

/// One message from one to the other.
fn pass(from: &mut MessageQueue, to: &mut MessageQueue, (number, source): (PeerId, PeerId), tag: u64) {
    let received = receive(to, source, tag);
    let send = from.send_bytes(number, tag, &tag.to_ne_bytes()).unwrap();
    let mut status = None;
    until("a message", || {
        from.progress();
        status = to.test(received).unwrap();
        status.is_some()
    });
    let Status { error, buffers, .. } = status.unwrap();
    assert_eq!((error, buffers.into_owned().unwrap()), (None, tag.to_ne_bytes().to_vec()));
    assert_eq!(from.wait(send, Some(LIMIT)).unwrap().error, None);
}

/// A receive of a message of that peer ends because the peer is gone.
fn must_be_gone(queue: &mut MessageQueue, peer: PeerId) {
    let waits = receive(queue, peer, 99);
    let error = queue.wait(waits, Some(LIMIT)).unwrap().error;
    assert_eq!(error, Some(Error::PeerGone { peer }));
    assert_eq!(queue.send_bytes(peer, 1, b"more").unwrap_err(), Error::PeerGone { peer });
}

#[test]
fn one_that_has_never_sent_anything_says_that_it_is_closed() {
    let (mut a, mut b, to_b, to_a) = two();
    pass(&mut a, &mut b, (to_b, to_a), 1);
    drop(b);
    must_be_gone(&mut a, to_b);
    let (mut a, mut b, to_b, to_a) = two();
    pass(&mut a, &mut b, (to_b, to_a), 1);
    assert!(b.close(LIMIT));
    must_be_gone(&mut a, to_b);
}

/// Its thread has answered, and its program has not looked since.
#[test]
fn one_that_was_met_and_did_not_notice_is_found_closed() {
    let (mut a, b, to_b, _) = two();
    let send = a.send_bytes(to_b, 1, b"lost").unwrap();
    // The lane is there, and the message in it.
    assert_eq!(a.wait(send, Some(LIMIT)).unwrap().error, None);
    drop(b);
    must_be_gone(&mut a, to_b);
}

/// One that was asked for an answer it had no lane for, which it has got without noticing.
#[test]
fn one_that_was_invited_and_did_not_notice_is_found_closed() {
    let (mut a, b, to_b, _) = two();
    let send = a.send(to_b, 1, vec![7; 1 << 20]).unwrap();
    for _ in 0..1000 {
        a.progress();
        std::thread::yield_now();
    }
    drop(b);
    assert_eq!(a.wait(send, Some(LIMIT)).unwrap().error, Some(Error::PeerGone { peer: to_b }));
    must_be_gone(&mut a, to_b);
}

/// What it had sent before is received all the same.
#[test]
fn messages_of_one_that_is_closed_are_received() {
    for is_closed_in_order in [false, true] {
        let (mut a, mut b, to_b, to_a) = two();
        pass(&mut b, &mut a, (to_a, to_b), 1);
        pass(&mut a, &mut b, (to_b, to_a), 2);
        let send = b.send_bytes(to_a, 3, b"the last").unwrap();
        assert_eq!(b.wait(send, Some(LIMIT)).unwrap().error, None);
        if is_closed_in_order {
            assert!(b.close(LIMIT));
        } else {
            drop(b);
        }
        let last = receive(&mut a, to_b, 3);
        let status = a.wait(last, Some(LIMIT)).unwrap();
        assert_eq!((status.error, status.buffers.into_owned().unwrap()), (None, b"the last".to_vec()));
        must_be_gone(&mut a, to_b);
    }
}

/// Both ends are closed and opened again at once, each in a thread of its own, while what the ones before
/// have left is still on its way.
#[test]
fn queues_that_are_opened_again_at_once_meet_again() {
    const ROUNDS: u64 = 100;
    let (names_of_a, from_a) = std::sync::mpsc::channel();
    let (names_of_b, from_b) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for (own, its, speaks_first) in [(names_of_a, from_b, true), (names_of_b, from_a, false)] {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut queue = queue();
                    own.send(queue.name()).unwrap();
                    let peer = queue.peer(its.recv().unwrap());
                    let waits = receive(&mut queue, peer, round);
                    let send = |queue: &mut MessageQueue| {
                        let send = queue.send_bytes(peer, round, &round.to_ne_bytes()).unwrap();
                        assert_eq!(queue.wait(send, Some(LIMIT)).unwrap().error, None, "round {round}");
                    };
                    if speaks_first {
                        send(&mut queue);
                    }
                    let status = queue.wait(waits, Some(LIMIT)).unwrap();
                    assert_eq!(status.error, None, "round {round}");
                    assert_eq!(status.buffers.into_owned().unwrap(), round.to_ne_bytes());
                    if !speaks_first {
                        send(&mut queue);
                    }
                    // In order or not.
                    if round % 2 == 0 {
                        queue.close(LIMIT);
                    }
                }
            });
        }
    });
}
