//! An end point that is looked for before it is there, by its own name or by that of the first of its owner;
//! sends that have memory of their own later than they were begun; and messages of one who has closed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::{Duration, Instant};

use message_queue::completion::{Completion, Ended};
use message_queue::endpoint::{Endpoint, Mode, ReceiveRequest, SendRequest, Sent, Space};
use message_queue::meet::Datagrams;
use message_queue::{Buffers, Error, Fetch, Name, Settings, Want};
use shm::lent::Piece;

fn begin(name: Name) -> Endpoint {
    let settings = Settings::default();
    Endpoint::with(Datagrams::begin(name, settings.ring_bytes).unwrap(), settings)
}

fn is_received(end: &Completion) -> bool {
    matches!(end.ended, Ended::Receive(Some(_))) && end.error.is_none()
}

#[test]
fn who_was_not_there_is_found_later_and_hears_and_is_heard() {
    let name = Name::new().unwrap();
    let (mut a, mut told) = (Endpoint::new(Settings::default()).unwrap(), Vec::new());
    let (first, second) = (a.peer(name), a.peer(name.second()));
    let gone = |peer| Err(Error::PeerGone { peer });
    // The first is there from now on, which says nothing of the second.
    let mut of_first = begin(name);
    assert_eq!(a.open_way_if_there(second, &mut told), gone(second));
    let mut of_second = begin(name.second());
    let limit = Instant::now() + Duration::from_secs(60);
    for (peer, other) in [(first, &mut of_first), (second, &mut of_second)] {
        let (to_a, mut told_other) = (other.peer(a.name()), Vec::new());
        let receive =
            |source| ReceiveRequest { space: Space::Tagged, want: Want::exactly(source, 1), user: 0 };
        other.receive(&receive(to_a), vec![0; 8].into(), &mut told_other);
        a.receive(&receive(peer), vec![0; 8].into(), &mut told);
        while !a.open_way_if_there(peer, &mut told).unwrap() {
            a.progress(&mut told);
            assert!(Instant::now() < limit, "no way");
        }
        a.send(&SendRequest::tagged(peer, 1), vec![1; 8].into(), &mut told).unwrap();
        other.send(&SendRequest::tagged(to_a, 1), vec![2; 8].into(), &mut told_other).unwrap();
        while !told.iter().any(is_received) || !told_other.iter().any(is_received) {
            a.progress(&mut told);
            other.progress(&mut told_other);
            assert!(Instant::now() < limit, "nothing is received");
        }
        told.clear();
    }
}

#[test]
fn memory_of_one_who_has_closed_is_not_taken_for_a_message() {
    let settings = Settings { fetch: Fetch::Read, ..Settings::default() };
    for is_lent in [false, true] {
        let (mut a, mut b) = (Endpoint::new(settings).unwrap(), Endpoint::new(settings).unwrap());
        let (to_b, to_a) = (a.peer(b.name()), b.peer(a.name()));
        let (mut told, mut told_b) = (Vec::new(), Vec::new());
        let limit = Instant::now() + Duration::from_secs(60);
        // One message each way, so that the next is offered at once.
        let receive =
            |source| ReceiveRequest { space: Space::Tagged, want: Want::exactly(source, 1), user: 0 };
        b.receive(&receive(to_a), vec![0; 8].into(), &mut told_b);
        a.receive(&receive(to_b), vec![0; 8].into(), &mut told);
        a.send(&SendRequest::tagged(to_b, 1), vec![1; 8].into(), &mut told).unwrap();
        b.send(&SendRequest::tagged(to_a, 1), vec![1; 8].into(), &mut told_b).unwrap();
        while !told.iter().any(is_received) || !told_b.iter().any(is_received) {
            a.progress(&mut told);
            b.progress(&mut told_b);
            assert!(Instant::now() < limit, "nothing is received");
        }
        told_b.clear();
        b.receive(&receive(to_a), vec![0; 100_000].into(), &mut told_b);
        let message = vec![7; 100_000];
        let buffers =
            if is_lent { Buffers::Lent(Piece::from(message.leak())) } else { Buffers::Owned(message) };
        assert!(matches!(a.send(&SendRequest::tagged(to_b, 1), buffers, &mut told), Ok(Sent::Later)));
        assert_eq!(a.counters().offered, 1);
        drop(a);
        while told_b.is_empty() {
            b.progress(&mut told_b);
            b.watch(&mut told_b);
            assert!(Instant::now() < limit, "it does not end");
        }
        let error = is_lent.then_some(Error::PeerGone { peer: to_a });
        assert_eq!(told_b[0].error, error);
    }
}

#[test]
fn a_send_that_was_done_before_its_receiver_ended_ends_well() {
    let mut a = begin(Name::new().unwrap());
    let mut told = Vec::new();
    let limit = Instant::now() + Duration::from_secs(60);
    let receive = |source| ReceiveRequest { space: Space::Tagged, want: Want::exactly(source, 1), user: 0 };
    let mut receivers = [(); 2].map(|()| begin(Name::new().unwrap()));
    for b in &mut receivers {
        let (to_b, to_a, mut told_b) = (a.peer(b.name()), b.peer(a.name()), Vec::new());
        // A message each way, so that both have a way to the other.
        b.receive(&receive(to_a), vec![0; 8].into(), &mut told_b);
        a.receive(&receive(to_b), vec![0; 8].into(), &mut told);
        a.send(&SendRequest::tagged(to_b, 1), vec![1; 8].into(), &mut told).unwrap();
        b.send(&SendRequest::tagged(to_a, 1), vec![1; 8].into(), &mut told_b).unwrap();
        while !told.iter().any(is_received) || !told_b.iter().any(is_received) {
            a.progress(&mut told);
            b.progress(&mut told_b);
            assert!(Instant::now() < limit, "nothing is received");
        }
        told.clear();
    }
    // Both end before the sender looks into either lane: that one is lost says nothing of the other.
    for mut b in receivers {
        let (to_b, to_a, mut told_b) = (a.peer(b.name()), b.peer(a.name()), Vec::new());
        // Sends that end when they are received, and are.
        let send = SendRequest { mode: Mode::Synchronous, ..SendRequest::tagged(to_b, 1) };
        for received in 1..=2 {
            b.receive(&receive(to_a), vec![0; 8].into(), &mut told_b);
            assert!(matches!(a.send(&send, vec![1; 8].into(), &mut told), Ok(Sent::Later)));
            while told_b.iter().filter(|end| is_received(end)).count() < received {
                b.progress(&mut told_b);
                assert!(Instant::now() < limit, "it is not received");
            }
        }
        // By a message under way a look at the receiver finds that it has closed.
        let lent = Buffers::Lent(Piece::from(vec![7; 100_000].leak()));
        assert!(matches!(b.send(&SendRequest::tagged(to_a, 1), lent, &mut told_b), Ok(Sent::Later)));
    }
    while told.len() < 4 {
        a.watch(&mut told);
        assert!(Instant::now() < limit, "they do not end");
    }
    assert!(told.iter().all(|end| (end.ended, end.error) == (Ended::Send, None)), "{told:?}");
}

#[test]
fn memory_that_was_lent_for_sends_that_wait_can_be_had_back() {
    let (mut a, mut b) = (begin(Name::new().unwrap()), begin(Name::new().unwrap()));
    let (to_b, to_a) = (a.peer(b.name()), b.peer(a.name()));
    let (mut told, mut told_b) = (Vec::new(), Vec::new());
    let limit = Instant::now() + Duration::from_secs(60);
    // There is no way yet, so all of them wait: long ones and short ones.
    let lengths = [8, 100_000, 5_000, 0, 50_000];
    for (number, len) in lengths.into_iter().enumerate() {
        let piece = Piece::from(vec![number as u8; len].leak());
        let send = SendRequest { user: number as u64, ..SendRequest::tagged(to_b, 1) };
        assert!(matches!(a.send(&send, Buffers::Lent(piece), &mut told), Ok(Sent::Later)));
    }
    let mut asked = Vec::new();
    a.copy_lent(|user, len| {
        asked.push((user, len));
        user != 2
    });
    assert_eq!(asked, [(0, 8), (1, 100_000), (2, 5_000), (3, 0), (4, 50_000)]);
    for (number, len) in lengths.into_iter().enumerate() {
        let receive = ReceiveRequest { space: Space::Tagged, want: Want::exactly(to_a, 1), user: 0 };
        b.receive(&receive, vec![0xee; len].into(), &mut told_b);
        while told_b.is_empty() {
            a.progress(&mut told);
            b.progress(&mut told_b);
            assert!(Instant::now() < limit, "message {number} does not come");
        }
        let end = told_b.remove(0);
        assert!(is_received(&end) && end.buffers.into_owned().unwrap() == vec![number as u8; len]);
    }
    while told.len() < lengths.len() {
        a.progress(&mut told);
        b.progress(&mut told_b);
        assert!(Instant::now() < limit, "sends do not end");
    }
    for end in told {
        let is_lent = matches!(end.buffers, Buffers::Lent(_));
        assert_eq!((end.error, is_lent), (None, end.user == 2), "{}", end.user);
    }
}

/// What a receiver knows of and has not fetched comes out of memory of the sender's own, also what it would
/// have read by itself.
#[test]
fn memory_that_was_offered_is_taken_back() {
    for (fetch, takes_back) in
        [(Fetch::Read, false), (Fetch::Read, true), (Fetch::InParts, false), (Fetch::InParts, true)]
    {
        let settings = Settings { fetch, ..Settings::default() };
        let (mut a, mut b) = (Endpoint::new(settings).unwrap(), Endpoint::new(settings).unwrap());
        let (to_b, to_a) = (a.peer(b.name()), b.peer(a.name()));
        let (mut told, mut told_b) = (Vec::new(), Vec::new());
        let limit = Instant::now() + Duration::from_secs(60);
        let receive = |tag| ReceiveRequest { space: Space::Tagged, want: Want::exactly(to_a, tag), user: 0 };
        // The second is asked for in any case; of the first the receiver has an offer, or some parts.
        for (tag, is_taken_back) in [(1, takes_back), (2, false)] {
            let bytes: Vec<u8> = (0..400_000_u32).map(|at| (at * 7 + tag) as u8).collect();
            let send = SendRequest::tagged(to_b, u64::from(tag));
            let lent = Buffers::Lent(Piece::from(bytes.clone().leak()));
            assert!(matches!(a.send(&send, lent, &mut told), Ok(Sent::Later)));
            let is_known =
                |b: &mut Endpoint| b.probe(Space::Tagged, &Want::exactly(to_a, u64::from(tag))).is_some();
            while !is_known(&mut b) {
                a.progress(&mut told);
                b.progress(&mut told_b);
                assert!(Instant::now() < limit, "it is not offered");
            }
            if fetch == Fetch::InParts {
                b.receive(&receive(u64::from(tag)), vec![0; bytes.len()].into(), &mut told_b);
                b.progress(&mut told_b);
                a.progress(&mut told);
            }
            if is_taken_back {
                let mut lengths = Vec::new();
                a.copy_lent(|_, len| {
                    lengths.push(len);
                    true
                });
                assert_eq!(lengths, [bytes.len()]);
            }
            if fetch == Fetch::Read {
                b.receive(&receive(u64::from(tag)), vec![0; bytes.len()].into(), &mut told_b);
            }
            while told_b.is_empty() || told.is_empty() {
                a.progress(&mut told);
                b.progress(&mut told_b);
                assert!(Instant::now() < limit, "it does not come");
            }
            let (sent, received) = (told.remove(0), told_b.remove(0));
            assert_eq!((sent.error, matches!(sent.buffers, Buffers::Owned(_))), (None, is_taken_back));
            assert!(is_received(&received) && received.buffers.into_owned().unwrap() == bytes);
        }
        let read = if fetch == Fetch::Read && !takes_back { 2 } else { 0 };
        assert_eq!((b.counters().read, b.counters().in_parts), (read, 2 - read), "{fetch:?} {takes_back}");
    }
}
