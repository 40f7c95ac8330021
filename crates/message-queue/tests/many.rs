//! Receives of many messages into one piece of memory.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use message_queue::buffers::Source;
use message_queue::completion::{Completion, Ended};
use message_queue::endpoint::{Posted, ReceiveRequest, SendRequest};
use message_queue::{Buffers, Endpoint, Error, Fetch, PeerId, Settings, Space, Want};
use shm::lent::Piece;

const MANY: u64 = 100;

struct Pair {
    a: Endpoint,
    b: Endpoint,
    to_b: PeerId,
    told_a: Vec<Completion>,
    told_b: Vec<Completion>,
}

impl Pair {
    fn new(settings: Settings) -> Self {
        let (mut a, b) = (Endpoint::new(settings).unwrap(), Endpoint::new(settings).unwrap());
        let to_b = a.peer(b.name());
        Self { a, b, to_b, told_a: Vec::new(), told_b: Vec::new() }
    }

    fn send(&mut self, tag: u64, len: usize) {
        let request = SendRequest::tagged(self.to_b, tag);
        let _ = self.a.send(&request, vec![tag as u8; len].into(), &mut self.told_a).unwrap();
    }

    fn many(&mut self, want: Want, len: usize, least: usize) -> Option<Posted> {
        let memory = Piece::from(Box::leak(vec![0; len].into_boxed_slice()));
        let request = ReceiveRequest { space: Space::Tagged, want, user: MANY };
        self.b.receive_many(&request, memory, least, &mut self.told_b)
    }

    /// Goes on until so many receives have ended.
    fn until(&mut self, ends: usize) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while self.told_b.len() < ends {
            self.a.progress(&mut self.told_a);
            self.b.progress(&mut self.told_b);
            assert!(std::time::Instant::now() < until, "{} of {ends} have ended", self.told_b.len());
        }
    }

    /// Of each end: the program's word, tag, bytes received, error, whether it ended a receive of many.
    fn told(&mut self) -> Vec<(u64, u64, usize, Option<Error>, bool)> {
        let told = std::mem::take(&mut self.told_b);
        told.into_iter()
            .map(|Completion { user, ended, error, buffers, ends_many }| {
                let tag = match ended {
                    Ended::Receive(Some(envelope)) => envelope.tag,
                    _ => u64::MAX,
                };
                let bytes = buffers.to_vec();
                assert!(tag == u64::MAX || user != MANY || bytes.iter().all(|byte| *byte == tag as u8));
                (user, tag, bytes.len(), error, ends_many)
            })
            .collect()
    }
}

#[test]
fn messages_lie_one_behind_the_other_until_too_little_is_left() {
    for settings in [
        Settings::default(),
        Settings { eager_max_bytes: 20, ..Settings::default() },
        Settings { eager_max_bytes: 20, fetch: Fetch::InParts, ..Settings::default() },
    ] {
        for is_posted_first in [true, false] {
            let mut pair = Pair::new(settings);
            let posted = is_posted_first.then(|| pair.many(Want::anything(), 100, 10)).flatten();
            assert_eq!(posted.is_some(), is_posted_first);
            for (tag, len) in [(1, 30), (2, 8), (3, 45), (4, 20), (5, 1)] {
                pair.send(tag, len);
            }
            if !is_posted_first {
                while pair.b.counters().kept_messages < 5 {
                    pair.a.progress(&mut pair.told_a);
                    pair.b.progress(&mut pair.told_b);
                }
                assert_eq!(pair.many(Want::anything(), 100, 10), None, "it is used up at once");
            }
            pair.until(4);
            let mut told = pair.told();
            // The fifth has no receive. Which of the others ends last depends on the way: it is told that it
            // was.
            let last = told.iter().position(|(.., ends_many)| *ends_many);
            assert_eq!(last, Some(3), "{told:?}");
            told.sort_by_key(|(_, tag, ..)| *tag);
            let truncated = Some(Error::Truncated { message_bytes: 20, room_bytes: 17 });
            let expected = [(1, 30, None), (2, 8, None), (3, 45, None), (4, 17, truncated)];
            let got: Vec<_> = told.iter().map(|(_, tag, len, error, _)| (*tag, *len, *error)).collect();
            assert_eq!(got, expected);
            while pair.b.counters().kept_messages == 0 {
                pair.a.progress(&mut pair.told_a);
                pair.b.progress(&mut pair.told_b);
            }
            let fifth = pair.b.probe(Space::Tagged, &Want::anything());
            assert_eq!(fifth.map(|envelope| envelope.tag), Some(5));
            assert!(pair.told_b.is_empty());
        }
    }
}

#[test]
fn it_keeps_its_place_among_other_receives() {
    let mut pair = Pair::new(Settings::default());
    let from = pair.b.peer(pair.a.name());
    let receive = |pair: &mut Pair, user, want| {
        let request = ReceiveRequest { space: Space::Tagged, want, user };
        pair.b.receive(&request, Buffers::from(vec![0; 8]), &mut pair.told_b)
    };
    receive(&mut pair, 1, Want { source: None, tag: 7, ignore: 0 });
    pair.many(Want::exactly(from, 7), 24, 8);
    receive(&mut pair, 2, Want::anything());
    for _ in 0..5 {
        pair.send(7, 8);
    }
    pair.until(5);
    let told: Vec<_> = pair.told().into_iter().map(|(user, .., ends_many)| (user, ends_many)).collect();
    assert_eq!(told, [(1, false), (MANY, false), (MANY, false), (MANY, true), (2, false)]);
}

#[test]
fn what_is_left_comes_back_when_it_is_cancelled_or_the_peer_ends() {
    let mut pair = Pair::new(Settings::default());
    let from = pair.b.peer(pair.a.name());
    let posted = pair.many(Want::exactly(from, 1), 100, 1).unwrap();
    pair.send(1, 60);
    pair.until(1);
    assert_eq!(pair.told(), [(MANY, 1, 60, None, false)]);
    assert!(pair.b.cancel(posted, &mut pair.told_b) && !pair.b.cancel(posted, &mut pair.told_b));
    assert_eq!(pair.told(), [(MANY, u64::MAX, 40, Some(Error::Cancelled), false)]);
    pair.many(Want::exactly(from, 1), 100, 1);
    let Pair { a, mut b, mut told_b, .. } = pair;
    drop(a);
    while told_b.is_empty() {
        b.progress(&mut told_b);
    }
    assert_eq!((told_b[0].error, told_b[0].buffers.len()), (Some(Error::PeerGone { peer: from }), 100));
}
