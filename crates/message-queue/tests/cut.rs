//! Eager messages in several records: a receive that comes before, between and behind their parts, and
//! senders that stop in the middle or write what no end point writes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod stranger;

use std::time::Duration;

use message_queue::{Error, MessageQueue, PeerId, Request, Settings, Status, Want};
use stranger::Stranger;

const LIMIT: Option<Duration> = Some(Duration::from_secs(30));
const EAGER: u64 = 1;
const OFFER: u64 = 2;
const EAGER_WITH_MORE: u64 = EAGER | 32 << 8;
const SHORT_TAG: u64 = 128 << 8;
const TELL_TAKEN: u64 = 4 << 8;
const BYE: u64 = 6;
const MORE: u64 = 7;

/// The beginning of a message of `total` bytes.
fn begin(sender: &mut Stranger, tag: u64, total: usize, bytes: &[u8]) {
    sender.write_with(&[EAGER_WITH_MORE, tag, total as u64], bytes);
}

fn more(sender: &mut Stranger, bytes: &[u8]) {
    sender.write_with(&[MORE], bytes);
}

fn queue() -> MessageQueue {
    MessageQueue::new(Settings::default()).unwrap()
}

fn receive(queue: &mut MessageQueue, peer: PeerId, tag: u64, room: usize) -> Request {
    queue.receive(Want::exactly(peer, tag), vec![b'.'; room])
}

fn bytes(status: Status) -> Vec<u8> {
    assert_eq!(status.error, None);
    status.buffers.into_owned().unwrap()
}

#[test]
fn a_receive_may_come_before_between_or_behind_the_parts() {
    for comes_at in 0..=3 {
        let mut queue = queue();
        let (mut sender, peer) = Stranger::to(&mut queue);
        let mut request = None;
        for step in 0..=3 {
            if step == comes_at {
                request = Some(receive(&mut queue, peer, 5, 8));
            }
            match step {
                0 => begin(&mut sender, 5, 6, b"ab"),
                1 => more(&mut sender, b"c"),
                2 => more(&mut sender, b"def"),
                _ => {}
            }
            queue.progress();
            if step < 2
                && let Some(request) = request
            {
                assert!(queue.test(request).unwrap().is_none(), "it ended before its last part");
            }
        }
        let status = queue.wait(request.unwrap(), LIMIT).unwrap();
        assert_eq!(status.envelope.unwrap().len_bytes, 6);
        assert_eq!(bytes(status), b"abcdef..", "the receive came at {comes_at}");
        let counters = queue.counters();
        assert_eq!(counters.unexpected, u64::from(comes_at > 0));
        assert_eq!((counters.kept_messages, counters.kept_bytes), (0, 0));
    }
}

#[test]
fn one_that_is_too_long_for_its_receive_is_cut_off_and_the_next_is_whole() {
    for is_early in [true, false] {
        let mut queue = queue();
        let (mut sender, peer) = Stranger::to(&mut queue);
        let early = is_early.then(|| receive(&mut queue, peer, 5, 3));
        begin(&mut sender, 5, 6, b"ab");
        more(&mut sender, b"cdef");
        begin(&mut sender, 5, 4, b"12");
        queue.progress();
        let first = early.unwrap_or_else(|| receive(&mut queue, peer, 5, 3));
        let second = receive(&mut queue, peer, 5, 4);
        more(&mut sender, b"34");
        let status = queue.wait(first, LIMIT).unwrap();
        assert_eq!(status.error, Some(Error::Truncated { message_bytes: 6, room_bytes: 3 }));
        assert_eq!(status.buffers.into_owned().unwrap(), b"abc");
        assert_eq!(bytes(queue.wait(second, LIMIT).unwrap()), b"1234");
    }
}

#[test]
fn one_that_was_set_aside_is_received_or_thrown_away_at_any_moment() {
    for is_whole in [true, false] {
        for is_wanted in [true, false] {
            let mut queue = queue();
            let (mut sender, peer) = Stranger::to(&mut queue);
            begin(&mut sender, 5, 4, b"ab");
            if is_whole {
                more(&mut sender, b"cd");
            }
            let claimed = queue.claim(&Want::exactly(peer, 5)).unwrap();
            assert_eq!(claimed.envelope().len_bytes, 4);
            let request = if is_wanted {
                Some(queue.receive_claimed(claimed, vec![0; 4]))
            } else {
                queue.throw_away(claimed);
                None
            };
            if !is_whole {
                more(&mut sender, b"cd");
            }
            begin(&mut sender, 5, 2, b"x");
            more(&mut sender, b"y");
            let next = receive(&mut queue, peer, 5, 2);
            assert_eq!(bytes(queue.wait(next, LIMIT).unwrap()), b"xy");
            if let Some(request) = request {
                assert_eq!(bytes(queue.wait(request, LIMIT).unwrap()), b"abcd");
            }
            assert_eq!(queue.counters().kept_messages, 0);
        }
    }
}

#[test]
fn one_whose_rest_never_comes_is_an_error_of_its_receive() {
    for is_early in [true, false] {
        let mut queue = queue();
        let (mut sender, peer) = Stranger::to(&mut queue);
        let early = is_early.then(|| receive(&mut queue, peer, 5, 4));
        begin(&mut sender, 5, 4, b"ab");
        sender.write(&[BYE]);
        queue.progress();
        let request = early.unwrap_or_else(|| receive(&mut queue, peer, 5, 4));
        assert_eq!(queue.wait(request, LIMIT).unwrap().error, Some(Error::PeerGone { peer }));
        assert_eq!(queue.counters().kept_messages, 0);
    }
}

#[test]
fn parts_that_no_end_point_sends_are_an_error_of_their_pair() {
    type Write = fn(&mut Stranger);
    let cases: [(&str, Write); 12] = [
        ("more of nothing", |sender| more(sender, b"a")),
        ("more than there is", |sender| {
            begin(sender, 5, 3, b"ab");
            more(sender, b"cd");
        }),
        ("more of what has ended", |sender| {
            begin(sender, 5, 2, b"a");
            more(sender, b"b");
            more(sender, b"c");
        }),
        ("more without bytes", |sender| {
            begin(sender, 5, 3, b"ab");
            more(sender, b"");
        }),
        ("two at once", |sender| {
            begin(sender, 5, 3, b"ab");
            begin(sender, 5, 3, b"ab");
        }),
        ("a beginning that is all of it", |sender| begin(sender, 5, 2, b"ab")),
        ("one of an impossible length", |sender| begin(sender, 5, usize::MAX, b"ab")),
        ("one without a length", |sender| sender.write(&[EAGER_WITH_MORE, 5])),
        ("one that wants to be told", |sender| {
            sender.write_with(&[EAGER_WITH_MORE | TELL_TAKEN, 5, 3], b"ab");
        }),
        ("one whose tag stands in the place of the operation", |sender| {
            sender.write_with(&[EAGER_WITH_MORE | SHORT_TAG | 5 << 32, 3], b"ab");
        }),
        ("a message that wants to be told and has no operation", |sender| {
            sender.write_with(&[EAGER | TELL_TAKEN | SHORT_TAG | 5 << 32], b"ab");
        }),
        ("an offer without an operation", |sender| sender.write(&[OFFER | SHORT_TAG | 5 << 32, 3, 0])),
    ];
    for (what, write) in cases {
        let mut queue = queue();
        let (mut sender, peer) = Stranger::to(&mut queue);
        let request = receive(&mut queue, peer, 99, 8);
        write(&mut sender);
        let error = queue.wait(request, LIMIT).unwrap().error;
        assert!(matches!(error, Some(Error::PeerWrong { peer: of, .. }) if of == peer), "{what}: {error:?}");
    }
}

/// The sender's side: however long its parts are, and whether or not they find room at once.
#[test]
fn messages_of_all_lengths_arrive_whole_and_in_order_whatever_their_parts() {
    for cut_bytes in [0, 1, 100, 1 << 10, usize::MAX] {
        let settings = Settings { cut_bytes, ..Settings::default() };
        let (mut a, mut b) = (MessageQueue::new(settings).unwrap(), queue());
        let (to_b, to_a) = (a.peer(b.name()), b.peer(a.name()));
        let lengths: Vec<usize> =
            (0..60).map(|n| [0, 1, 99, 101, 1000, 1025, 5_000, 8_192, 9_000][n % 9]).collect();
        let message = |n: usize| -> Vec<u8> { (0..lengths[n]).map(|at| (at * 3 + n) as u8).collect() };
        let sends: Vec<_> = (0..60).map(|n| a.send(to_b, 1, message(n)).unwrap()).collect();
        for (n, len) in lengths.iter().enumerate() {
            let receive = b.receive(Want::exactly(to_a, 1), vec![0; *len]);
            let until = std::time::Instant::now() + Duration::from_secs(30);
            let status = loop {
                a.progress();
                if let Some(status) = b.test(receive).unwrap() {
                    break status;
                }
                assert!(std::time::Instant::now() < until, "message {n} in parts of {cut_bytes}");
            };
            assert!(bytes(status) == message(n), "message {n} in parts of {cut_bytes}");
        }
        for send in sends {
            while a.test(send).unwrap().is_none() {
                b.progress();
            }
        }
    }
}
