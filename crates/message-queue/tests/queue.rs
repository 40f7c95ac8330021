//! The end point as a program uses it, within one process: each call, each way of a message, and what it
//! costs in memory.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use message_queue::buffers::Source;
use message_queue::endpoint::{Mode, SendRequest};
use message_queue::settings::Bounds;
use message_queue::{
    Buffers, Envelope, Error, Fetch, MessageQueue, PeerId, Persistent, Request, Settings, Space, Status, Want,
};

const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

fn two(settings: Settings) -> (MessageQueue, MessageQueue, PeerId, PeerId) {
    let (mut a, mut b) = (MessageQueue::new(settings).unwrap(), MessageQueue::new(settings).unwrap());
    let (to_b, to_a) = (a.peer(b.name()), b.peer(a.name()));
    (a, b, to_b, to_a)
}

fn with_tag(tag: u64) -> Want {
    Want { source: None, tag, ignore: 0 }
}

/// Waits for a request of `queue` while `other` goes on.
fn end(queue: &mut MessageQueue, other: &mut MessageQueue, request: Request) -> Status {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = queue.test(request).unwrap() {
            return status;
        }
        other.progress();
        assert!(std::time::Instant::now() < until, "it does not end");
    }
}

/// Between what is always eager and what never is, both ways are tried, and each byte comes.
#[test]
fn eager_messages_beyond_the_limit_are_tried_and_measured() {
    const MESSAGES: u64 = 600;
    let beyond = Settings::default().eager_max_bytes + 1000;
    let run = |settings: Settings, len: usize| {
        let (mut a, mut b, to_b, to_a) = two(settings);
        std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                for number in 0..MESSAGES {
                    let receive = b.receive(Want::exactly(to_a, number), vec![0; len]);
                    let bytes = b.wait(receive, LIMIT).unwrap().buffers.into_owned().unwrap();
                    assert!(bytes.iter().all(|byte| *byte == number as u8), "message {number}");
                }
                // The last answers go out.
                b.close(LIMIT.unwrap());
            });
            for number in 0..MESSAGES {
                let send = a.send(to_b, number, vec![number as u8; len]).unwrap();
                assert_eq!(a.wait(send, LIMIT).unwrap().error, None);
            }
            receiver.join().unwrap();
        });
        let sent = a.counters();
        assert_eq!(sent.eager + sent.offered, MESSAGES);
        [sent.eager, sent.offered]
    };
    let measured = Settings::default();
    for fetch in Fetch::ALL {
        let tried = run(Settings { fetch, ..measured }, beyond);
        assert!(tried.iter().all(|count| *count >= 3), "{fetch:?}: {tried:?}");
    }
    assert_eq!(run(measured, beyond - 1000), [MESSAGES, 0]);
    // What no record of the ring takes is offered, as is everything beyond a limit that was chosen.
    assert_eq!(run(measured, measured.ring_bytes / 2), [0, MESSAGES]);
    assert_eq!(run(Settings { measures_eager: false, ..measured }, beyond), [0, MESSAGES]);
    // What is longer than the longest that is tried is offered, too.
    let of_provider = Settings::of_provider();
    assert_eq!(run(of_provider, of_provider.eager_trial_max_bytes + 1), [0, MESSAGES]);
    let tried = run(of_provider, of_provider.eager_trial_max_bytes);
    assert!(tried.iter().all(|count| *count >= 3), "{tried:?}");
}

#[test]
fn each_way_of_a_message_is_taken_when_it_is_chosen() {
    let default = Settings { fetch: Fetch::Read, measures_eager: false, ..Settings::default() };
    let in_parts = Settings { fetch: Fetch::InParts, ..default };
    // Settings, length, and what is counted: eager, offered at the sender; read, in parts at the receiver.
    for (settings, len, counts) in [
        (default, default.eager_max_bytes, [1, 0, 0, 0]),
        (default, default.eager_max_bytes + 1, [0, 1, 1, 0]),
        (in_parts, 3_000_000, [0, 1, 0, 1]),
        (Settings { eager_max_bytes: 0, ..default }, 1, [0, 1, 1, 0]),
        // Longer than what fits a record of the ring: that is the limit then.
        (Settings { eager_max_bytes: 1 << 20, ..default }, 15_000, [1, 0, 0, 0]),
        (Settings { eager_max_bytes: 1 << 20, ..default }, 17_000, [0, 1, 1, 0]),
    ] {
        for is_expected in [true, false] {
            let (mut a, mut b, to_b, _) = two(settings);
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + 1) as u8).collect();
            let early = is_expected.then(|| b.receive(with_tag(1), vec![0; len]));
            let send = a.send(to_b, 1, bytes.clone()).unwrap();
            let until = std::time::Instant::now() + Duration::from_secs(30);
            while !is_expected && b.probe(&with_tag(1)).is_none() {
                a.progress();
                assert!(std::time::Instant::now() < until, "it does not come");
            }
            let receive = early.unwrap_or_else(|| b.receive(with_tag(1), vec![0; len]));
            let status = end(&mut b, &mut a, receive);
            assert_eq!((status.error, status.envelope.unwrap().len_bytes), (None, len));
            assert!(status.buffers.into_owned().unwrap() == bytes);
            assert!(end(&mut a, &mut b, send).buffers.into_owned().unwrap() == bytes);
            let (sent, got) = (a.counters(), b.counters());
            assert_eq!([sent.eager, sent.offered, got.read, got.in_parts], counts, "{len} bytes");
            assert_eq!(got.unexpected, u64::from(!is_expected));
        }
    }
}

#[test]
fn a_message_whose_parts_do_not_come_is_read_and_both_ways_are_tried() {
    let settings = Settings { part_wait: Duration::from_millis(2), ..Settings::default() };
    let (mut a, mut b, to_b, to_a) = two(settings);
    // The ways are open.
    for (queue, to) in [(&mut a, to_b), (&mut b, to_a)] {
        queue.send(to, 9, vec![1]).unwrap();
    }
    let (first, second) = (a.receive(with_tag(9), vec![0]), b.receive(with_tag(9), vec![0]));
    end(&mut a, &mut b, first);
    end(&mut b, &mut a, second);
    let len = 300_000;
    let mut sends = Vec::new();
    for number in 0..40_u8 {
        let receive = b.receive(with_tag(1), vec![0; len]);
        sends.push(a.send(to_b, 1, vec![number; len]).unwrap());
        let status = if number % 4 == 3 {
            end(&mut b, &mut a, receive)
        } else {
            // The sender makes no progress, or only after the receive has ended: parts and answers cross.
            b.wait(receive, Some(Duration::from_secs(30))).unwrap()
        };
        assert_eq!(status.error, None);
        assert!(status.buffers.into_owned().unwrap() == vec![number; len], "message {number}");
        if number % 4 == 2 {
            a.progress();
        }
    }
    for (number, send) in (0..).zip(sends) {
        let status = end(&mut a, &mut b, send);
        assert!(status.buffers.into_owned().unwrap() == vec![number; len]);
    }
    let counters = b.counters();
    assert_eq!(counters.read + counters.in_parts, 40, "{counters:?}");
    assert!(counters.read >= 20, "{counters:?}");
    let ended = a.receive(with_tag(2), vec![0; 8]);
    b.send(to_a, 2, vec![5; 8]).unwrap();
    assert_eq!(end(&mut a, &mut b, ended).buffers.into_owned(), Some(vec![5; 8]));
}

/// Memory in pieces of these lengths, with these bytes.
fn scattered(bytes: &[u8], lengths: &[usize]) -> Buffers {
    let mut rest = shm::lent::Piece::from(Box::leak(bytes.to_vec().into_boxed_slice()));
    let mut pieces: Vec<_> = lengths.iter().map(|len| rest.split_off_front(*len)).collect();
    pieces.push(rest);
    Buffers::Scattered(pieces.into_boxed_slice())
}

#[test]
fn memory_in_pieces_is_one_row_of_bytes_on_each_way() {
    let default = Settings { fetch: Fetch::Read, ..Settings::default() };
    let in_parts = Settings { fetch: Fetch::InParts, ..default };
    let many = [777; 40];
    let cuts: [&[usize]; 4] = [&[], &[0, 1, 0, 13], &[3, 3, 3, 3, 3, 3], &many];
    for settings in [default, in_parts] {
        for len in [5, 40, 4_000, 30_000] {
            for (sent, got) in cuts.iter().flat_map(|sent| cuts.iter().map(move |got| (sent, got))) {
                let (mut a, mut b, to_b, _) = two(settings);
                let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + 1) as u8).collect();
                let receive = b.receive(with_tag(1), scattered(&vec![0; len], got));
                let send = a.send(to_b, 1, scattered(&bytes, sent)).unwrap();
                let status = end(&mut b, &mut a, receive);
                assert_eq!(status.error, None);
                assert!(status.buffers.to_vec() == bytes, "{len} bytes, {sent:?} to {got:?}");
                end(&mut a, &mut b, send);
            }
        }
    }
}

#[test]
fn a_synchronous_send_ends_when_its_receive_has_begun() {
    let (mut a, mut b, to_b, _) = two(Settings::default());
    let synchronous = a.send_synchronous(to_b, 3, vec![5; 8]).unwrap();
    let delivered = SendRequest { mode: Mode::Delivered, ..SendRequest::tagged(to_b, 4) };
    let delivered = a.send_as(&delivered, vec![6; 8]).unwrap();
    // Both are taken; only the one has no receive yet.
    end(&mut a, &mut b, delivered);
    for _ in 0..100 {
        b.progress();
        assert!(a.test(synchronous).unwrap().is_none());
    }
    let receive = b.receive(with_tag(3), vec![0; 8]);
    end(&mut b, &mut a, receive);
    assert_eq!(end(&mut a, &mut b, synchronous).error, None);
}

#[test]
fn waits_for_any_and_all_probes_claims_and_cancels() {
    let (mut a, mut b, to_b, to_a) = two(Settings::default());
    let receives: Vec<Request> = (0..3).map(|tag| b.receive(Want::exactly(to_a, tag), vec![0; 8])).collect();
    let send = a.send_bytes(to_b, 1, b"one").unwrap();
    end(&mut a, &mut b, send);
    let (which, status) = b.wait_any(&receives, LIMIT).unwrap();
    assert_eq!((which, &status.buffers.into_owned().unwrap()[..3]), (1, &b"one"[..]));
    assert_eq!(b.wait_any(&receives[2..], Some(Duration::ZERO)).unwrap_err(), Error::TimedOut);
    assert_eq!(b.wait_any(&[], LIMIT).unwrap_err(), Error::NoSuchRequest);
    assert_eq!(b.test(receives[1]).unwrap_err(), Error::NoSuchRequest);
    assert!(b.cancel(receives[2]).unwrap());
    assert!(!b.cancel(receives[2]).unwrap());
    a.send_bytes(to_b, 0, b"zero").map(|request| a.wait(request, LIMIT)).unwrap().unwrap();
    let all = b.wait_all(&[receives[0], receives[2]], LIMIT).unwrap();
    assert_eq!(all.iter().map(|status| status.error).collect::<Vec<_>>(), [None, Some(Error::Cancelled)]);

    a.send_bytes(to_b, 9, b"first").map(|request| a.wait(request, LIMIT)).unwrap().unwrap();
    a.send_bytes(to_b, 9, b"second").map(|request| a.wait(request, LIMIT)).unwrap().unwrap();
    assert_eq!(b.wait_probe(&with_tag(9), LIMIT).unwrap().len_bytes, 5);
    assert_eq!(b.wait_probe(&with_tag(8), Some(Duration::ZERO)), Err(Error::TimedOut));
    let claimed = b.claim(&with_tag(9)).unwrap();
    // What is set aside is nobody else's.
    let second = b.receive(with_tag(9), vec![0; 6]);
    assert_eq!(b.wait(second, LIMIT).unwrap().buffers.into_owned().unwrap(), b"second");
    let first = b.receive_claimed(claimed, vec![0; 3]);
    let status = b.wait(first, LIMIT).unwrap();
    assert_eq!(status.error, Some(Error::Truncated { message_bytes: 5, room_bytes: 3 }));
    assert_eq!(status.buffers.into_owned().unwrap(), b"fir");
}

#[test]
fn a_persistent_operation_is_begun_again_and_again() {
    let (mut a, mut b, to_b, _) = two(Settings::default());
    let mut send = Persistent::send(SendRequest::tagged(to_b, 1), vec![0; 20_000]);
    let mut receive = Persistent::receive(Space::Tagged, with_tag(1), vec![0; 20_000]);
    for round in 0..5 {
        if let Some(Buffers::Owned(bytes)) = send.buffers() {
            bytes.fill(round);
        }
        b.start(&mut receive).unwrap();
        assert_eq!(b.start(&mut receive), Err(Error::NoSuchRequest), "it is under way");
        a.start(&mut send).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(30);
        let envelope = loop {
            a.progress();
            match b.complete(&mut receive, Some(Duration::ZERO)) {
                Err(Error::TimedOut) => assert!(std::time::Instant::now() < until, "it does not end"),
                ended => break ended.unwrap(),
            }
        };
        // The word that the memory is no longer needed goes out in the receiver's next turns.
        let request = send.request().unwrap();
        while a.complete(&mut send, Some(Duration::ZERO)) == Err(Error::TimedOut) {
            b.progress();
        }
        assert!(a.test(request).is_err(), "its end was told");
        assert_eq!(envelope.unwrap().len_bytes, 20_000);
        let Some(Buffers::Owned(bytes)) = receive.buffers() else { return };
        assert!(bytes.iter().all(|byte| *byte == round));
    }
}

#[test]
fn who_is_not_there_or_closes_is_said_to_be_gone() {
    let (mut a, mut b, to_b, _) = two(Settings::default());
    assert_eq!(a.send_bytes(99, 1, b"nobody").unwrap_err(), Error::NoSuchPeer { peer: 99 });
    let never_there = a.peer(message_queue::Name::new().unwrap());
    assert_eq!(a.send_bytes(never_there, 1, b"").unwrap_err(), Error::PeerGone { peer: never_there });
    let hello = a.send_synchronous(to_b, 1, vec![1; 8]).unwrap();
    let receive = b.receive(with_tag(1), vec![0; 8]);
    end(&mut b, &mut a, receive);
    end(&mut a, &mut b, hello);
    // Offered and never received: it ends when the other closes.
    let offered = a.send(to_b, 2, vec![1; 100_000]).unwrap();
    let waiting = a.receive(Want::exactly(to_b, 3), vec![0; 8]);
    let to_a = b.peer(a.name());
    let last = b.send_bytes(to_a, 4, b"last").unwrap();
    b.wait(last, Some(Duration::ZERO)).ok();
    for _ in 0..10_000 {
        a.progress();
        b.progress();
    }
    assert!(b.close(Duration::from_secs(30)));
    assert_eq!(a.wait(offered, LIMIT).unwrap().error, Some(Error::PeerGone { peer: to_b }));
    assert_eq!(a.wait(waiting, LIMIT).unwrap().error, Some(Error::PeerGone { peer: to_b }));
    // What it sent before is there.
    let last = a.receive(with_tag(4), vec![0; 4]);
    assert_eq!(a.wait(last, LIMIT).unwrap().buffers.into_owned().unwrap(), b"last");
}

#[test]
fn an_end_point_that_is_dropped_is_gone_for_others() {
    let (mut a, mut b, to_b, to_a) = two(Settings::default());
    let there = a.send_synchronous(to_b, 1, vec![0; 8]).unwrap();
    let receive = b.receive(Want::exactly(to_a, 1), vec![0; 8]);
    end(&mut b, &mut a, receive);
    end(&mut a, &mut b, there);
    let waiting = a.receive(Want::exactly(to_b, 2), vec![0; 8]);
    drop(b);
    assert_eq!(a.wait(waiting, LIMIT).unwrap().error, Some(Error::PeerGone { peer: to_b }));
}

#[test]
fn a_send_that_may_not_wait_is_refused_when_there_is_no_room() {
    let (mut a, mut b, to_b, _) =
        two(Settings { unexpected_per_peer: Bounds { messages: 1, bytes: 1 << 20 }, ..Settings::default() });
    let request = SendRequest { waits: false, ..SendRequest::tagged(to_b, 1) };
    let mut sent = 0;
    let until = std::time::Instant::now() + Duration::from_secs(30);
    // Nobody has answered yet; then there is room; then the ring is full.
    let error = loop {
        match a.send_as(&request, vec![0; 1000]) {
            Ok(send) => {
                a.wait(send, LIMIT).unwrap();
                sent += 1;
            }
            Err(error) if sent > 0 => break error,
            Err(error) => assert_eq!(error, Error::NotNow { peer: to_b }),
        }
        a.progress();
        assert!(std::time::Instant::now() < until, "nobody answers, or the ring takes everything");
    };
    assert_eq!(error, Error::NotNow { peer: to_b });
    for _ in 0..sent {
        let receive = b.receive(with_tag(1), vec![0; 1000]);
        assert_eq!(b.wait(receive, LIMIT).unwrap().error, None);
    }
}

/// Measured on pairs that there are: 1,000 end points with 20 active peers each have 20,000 rings, one for
/// each direction of a pair.
#[test]
fn a_thousand_end_points_with_twenty_peers_each_take_less_than_a_gibibyte() {
    let (mut a, mut b, to_b, to_a) = two(Settings::default());
    assert_eq!(
        (a.endpoint().lane_bytes(), b.endpoint().lane_bytes()),
        (0, 0),
        "who never spoke costs nothing"
    );
    let there = a.send_synchronous(to_b, 1, vec![0; 8]).unwrap();
    let receive = b.receive(Want::exactly(to_a, 1), vec![0; 8]);
    end(&mut b, &mut a, receive);
    end(&mut a, &mut b, there);
    // Both directions: the message, and the word that it has met its receive.
    let page = rustix::param::page_size();
    let two_rings = a.endpoint().lane_bytes() + b.endpoint().lane_bytes();
    let per_ring = (two_rings / 2).next_multiple_of(page) + page;
    assert!(per_ring * 20_000 <= 1 << 30, "{per_ring} bytes a ring");
}

/// Small tags are carried in another place than large ones.
#[test]
fn messages_arrive_with_their_tags_and_data_whatever_these_are() {
    let (mut a, mut b, to_b, to_a) = two(Settings::default());
    let tags = [0, 5, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 5 << 32, u64::MAX];
    for data in [None, Some(0), Some(u64::MAX)] {
        for mode in [Mode::Standard, Mode::Delivered, Mode::Synchronous] {
            for len in [0, 1, 8, 40, 48, 49, 5_000, 100_000] {
                let message: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5a).collect();
                let requests = tags.map(|tag| SendRequest { data, mode, ..SendRequest::tagged(to_b, tag) });
                let sends = requests.map(|request| a.send_as(&request, message.clone()).unwrap());
                // Those with even numbers are awaited by all that is known of them, the others by less.
                for (n, tag) in tags.into_iter().enumerate() {
                    let ignore = if n % 2 == 0 { 0 } else { 1 << 63 };
                    let receive = b.receive(Want { source: Some(to_a), tag, ignore }, vec![0; len]);
                    let status = end(&mut b, &mut a, receive);
                    let expected = Envelope { source: to_a, tag, data, len_bytes: len };
                    assert_eq!((status.envelope, status.error), (Some(expected), None));
                    assert!(status.buffers.into_owned().is_some_and(|bytes| bytes == message));
                }
                for send in sends {
                    end(&mut a, &mut b, send);
                }
            }
        }
    }
}
