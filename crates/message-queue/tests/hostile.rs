//! A peer that writes what no end point writes: an error of that pair, and everybody else goes on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod stranger;

use std::time::Duration;

use message_queue::meet::Meeting;
use message_queue::settings::Bounds;
use message_queue::{Error, Fetch, MessageQueue, PeerId, Request, Settings, Want};
use seeded_random::SplitMix64;
use shm::window::Window;
use stranger::Stranger;

const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

/// Two honest end points that go on whatever happens.
struct Honest {
    a: MessageQueue,
    b: MessageQueue,
    to_b: PeerId,
}

impl Honest {
    fn new(settings: Settings) -> Self {
        let (mut a, b) = (MessageQueue::new(settings).unwrap(), MessageQueue::new(settings).unwrap());
        let to_b = a.peer(b.name());
        let mut honest = Self { a, b, to_b };
        honest.exchange();
        honest
    }

    /// A message of each kind goes from the first to the second and is what it was.
    fn exchange(&mut self) {
        for len in [8, 100_000] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let receive = self.b.receive(Want { source: None, tag: 77, ignore: 0 }, vec![0; len]);
            let send = self.a.send(self.to_b, 77, bytes.clone()).unwrap();
            let until = std::time::Instant::now() + Duration::from_secs(30);
            let status = loop {
                self.a.progress();
                if let Some(status) = self.b.test(receive).unwrap() {
                    break status;
                }
                assert!(std::time::Instant::now() < until, "the message did not come");
            };
            assert_eq!(status.error, None);
            assert!(status.buffers.into_owned().unwrap() == bytes);
            while self.a.test(send).unwrap().is_none() {
                self.b.progress();
            }
        }
    }
}

fn error_of(queue: &mut MessageQueue, request: Request) -> Option<Error> {
    queue.wait(request, LIMIT).unwrap().error
}

const EAGER: u64 = 1;
const OFFER: u64 = 2;
const DONE: u64 = 3;
const ASK: u64 = 4;
const PART: u64 = 5;
const BYE: u64 = 6;
const STOPPED: u64 = 8;
const HAS_DATA: u64 = 2 << 8;
const ONE_PIECE: u64 = 16 << 8;
const SHORT_TAG: u64 = 128 << 8;

#[test]
fn each_record_that_no_end_point_writes_is_an_error_of_its_pair() {
    let mut honest = Honest::new(Settings::default());
    let cases: [(&str, &[u64]); 14] = [
        ("kind 0", &[0]),
        ("an unknown kind", &[99]),
        ("bits that mean nothing", &[EAGER | 1 << 16, 7]),
        ("a small tag without the data behind it", &[EAGER | HAS_DATA | SHORT_TAG]),
        ("a message without a tag", &[EAGER]),
        ("a message without its data", &[EAGER | HAS_DATA, 7]),
        ("an offer without an address", &[OFFER | ONE_PIECE, 7, 100]),
        ("an end of nothing", &[DONE | 5 << 32]),
        ("a question without words", &[ASK]),
        ("a question for nothing", &[ASK, 0, 100]),
        ("a part of nothing", &[PART, 1]),
        ("a part with no bytes", &[PART]),
        ("the end of parts of nothing", &[STOPPED]),
        ("an offer of memory that is not there", &[OFFER | ONE_PIECE, 9, 100, 8]),
    ];
    for (what, words) in cases {
        let (mut stranger, peer) = Stranger::to(&mut honest.b);
        let wants = honest.b.receive(Want::exactly(peer, 9), vec![0; 200]);
        stranger.write(words);
        let error = error_of(&mut honest.b, wants);
        assert!(matches!(error, Some(Error::PeerWrong { peer: of, .. }) if of == peer), "{what}: {error:?}");
        // Nothing more is exchanged with it.
        assert!(honest.b.send_bytes(peer, 1, b"more").is_err(), "{what}");
        let later = honest.b.receive(Want::exactly(peer, 9), vec![0; 8]);
        assert!(matches!(error_of(&mut honest.b, later), Some(Error::PeerWrong { .. })), "{what}");
        honest.exchange();
    }
}

#[test]
fn a_peer_cannot_end_or_ask_for_what_belongs_to_another() {
    let settings = Settings { fetch: Fetch::InParts, ..Settings::default() };
    let mut honest = Honest::new(settings);
    let (mut stranger, peer) = Stranger::to(&mut honest.a);
    // Offered to `b`, which does not take it yet: number 0 of `a`.
    let send = honest.a.send(honest.to_b, 5, vec![7; 100_000]).unwrap();
    let wants = honest.a.receive(Want::exactly(peer, 9), vec![0; 8]);
    stranger.write(&[DONE]);
    assert!(matches!(error_of(&mut honest.a, wants), Some(Error::PeerWrong { .. })));
    assert!(honest.a.test(send).unwrap().is_none(), "a stranger ended it");
    let receive = honest.b.receive(Want { source: None, tag: 5, ignore: 0 }, vec![0; 100_000]);
    let status = loop {
        honest.a.progress();
        if let Some(status) = honest.b.test(receive).unwrap() {
            break status;
        }
    };
    assert_eq!(status.error, None);
    assert!(status.buffers.into_owned().unwrap() == vec![7; 100_000]);
    assert_eq!(error_of(&mut honest.a, send), None);
}

#[test]
fn parts_that_come_too_late_go_nowhere_and_end_once() {
    let mut honest = Honest::new(Settings::default());
    let (mut stranger, peer) = Stranger::to(&mut honest.b);
    let theirs: &'static [u8] = vec![7; 50_000].leak();
    // It offers, and sends nothing when it is asked: that is operation 0.
    let receive = honest.b.receive(Want::exactly(peer, 9), vec![0; 50_000]);
    let address = theirs.as_ptr().expose_provenance() as u64;
    stranger.write(&[OFFER | ONE_PIECE, 9, theirs.len() as u64, address]);
    let status = honest.b.wait(receive, LIMIT).unwrap();
    assert_eq!(status.error, None);
    let bytes = status.buffers.into_owned().unwrap();
    assert!(bytes == theirs);
    stranger.write_with(&[PART], &[1; 100]);
    honest.exchange();
    assert!(bytes == theirs, "a part came after the end");
    stranger.write(&[STOPPED]);
    let later = honest.b.receive(Want::exactly(peer, 1), vec![0; 8]);
    honest.exchange();
    assert!(honest.b.test(later).unwrap().is_none());
    // There is nothing any more that it could end.
    stranger.write(&[STOPPED]);
    assert!(matches!(error_of(&mut honest.b, later), Some(Error::PeerWrong { .. })));
    honest.exchange();
}

#[test]
fn a_sender_cannot_stop_what_it_was_asked_for() {
    let mut honest = Honest::new(Settings { fetch: Fetch::InParts, ..Settings::default() });
    let (mut stranger, peer) = Stranger::to(&mut honest.b);
    let receive = honest.b.receive(Want::exactly(peer, 9), vec![0; 50_000]);
    stranger.write(&[OFFER | ONE_PIECE, 9, 50_000, 4096]);
    stranger.write_with(&[PART], &[1; 100]);
    stranger.write(&[STOPPED]);
    assert!(matches!(error_of(&mut honest.b, receive), Some(Error::PeerWrong { .. })));
    honest.exchange();
}

#[test]
fn a_peer_that_says_good_bye_ends_what_waits_for_it_and_nothing_else() {
    let mut honest = Honest::new(Settings::default());
    let (mut stranger, peer) = Stranger::to(&mut honest.b);
    let (last, never) = (
        honest.b.receive(Want::exactly(peer, 1), vec![0; 8]),
        honest.b.receive(Want::exactly(peer, 2), vec![0; 8]),
    );
    let anybody = honest.b.receive(Want { source: None, tag: 2, ignore: 0 }, vec![0; 8]);
    stranger.write(&[EAGER, 1, 0x2a]);
    stranger.write(&[BYE]);
    let status = honest.b.wait(last, LIMIT).unwrap();
    assert_eq!((status.error, status.buffers.into_owned().unwrap()[0]), (None, 0x2a));
    assert_eq!(error_of(&mut honest.b, never), Some(Error::PeerGone { peer }));
    assert!(honest.b.test(anybody).unwrap().is_none());
    assert!(honest.b.cancel(anybody).unwrap());
    honest.exchange();
}

#[test]
fn a_flood_without_receives_stops_its_sender_alone() {
    let few = Bounds { messages: 10, bytes: 1 << 20 };
    let settings = Settings { unexpected_per_peer: few, ..Settings::default() };
    let mut honest = Honest::new(settings);
    let (mut stranger, peer) = Stranger::to(&mut honest.b);
    let mut written = 0_u64;
    for _ in 0..10_000 {
        honest.b.progress();
        let record: Vec<u8> = [EAGER, 3, written].iter().flat_map(|word| word.to_ne_bytes()).collect();
        written += u64::from(stranger.outlet.push(&record).is_ok());
    }
    let counters = honest.b.counters();
    assert!(counters.kept_messages <= 10 && counters.left > 0, "{counters:?}");
    assert!(written < 2_000, "{written} were taken");
    assert_eq!(honest.b.endpoint().stopped().collect::<Vec<_>>(), [peer]);
    honest.exchange();
    // A receive that matches something behind the limit: the ring is read on for it.
    stranger.meeting.has_arrivals();
    let mut got = Vec::new();
    for _ in 0..written {
        let receive = honest.b.receive(Want::exactly(peer, 3), vec![0; 8]);
        let status = honest.b.wait(receive, LIMIT).unwrap();
        got.push(u64::from_ne_bytes(*status.buffers.into_owned().unwrap().first_chunk().unwrap()));
    }
    assert!(got.iter().copied().eq(0..written), "their order");
    stranger.write(&[EAGER, 4, 1]);
    for _ in 0..12 {
        stranger.write(&[EAGER, 3, 1]);
    }
    stranger.write(&[EAGER, 5, 0xbeef]);
    let behind = honest.b.receive(Want::exactly(peer, 5), vec![0; 8]);
    assert_eq!(honest.b.wait(behind, LIMIT).unwrap().error, None);
}

#[test]
fn one_who_wants_answers_and_takes_none_is_refused_in_the_end() {
    const TELL_TAKEN: u64 = 4 << 8;
    let mut honest = Honest::new(Settings::default());
    let (mut stranger, peer) = Stranger::to(&mut honest.b);
    // It lets a ring to it be made, of which it takes nothing.
    let hello = honest.b.send_bytes(peer, 0, b"hello").unwrap();
    while honest.b.test(hello).unwrap().is_none() {}
    let mut error = None;
    for number in 0..200_000_u64 {
        let receive = honest.b.receive(Want::exactly(peer, 1), vec![0; 8]);
        let record: Vec<u8> =
            [EAGER | TELL_TAKEN, 1, number].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let _ = stranger.outlet.push(&record);
        error = error_of(&mut honest.b, receive);
        if error.is_some() {
            break;
        }
    }
    assert!(matches!(error, Some(Error::PeerWrong { peer: of, .. }) if of == peer), "{error:?}");
    honest.exchange();
}

/// Writes random words over all that a peer can write of its ring, while its honest half goes on sending.
#[test]
fn scribbles_over_every_word_are_an_error_at_worst() {
    let mut honest = Honest::new(Settings::default());
    for seed in 0..100 {
        let mut random = SplitMix64::new(seed);
        let (mut stranger, peer) = Stranger::to(&mut honest.b);
        let wants: Vec<Request> =
            (0..4).map(|tag| honest.b.receive(Want::exactly(peer, tag), vec![0; 64])).collect();
        for turn in 0..200 {
            // Some true messages, of which the scribbles make others.
            let words = [EAGER + random.next_u64() % 6, turn % 5, random.next_u64(), random.next_u64()];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let _ = stranger.outlet.push(&bytes);
            let region = stranger.outlet.region().window();
            for _ in 0..random.below(4) {
                scribble(&region, &mut random);
            }
            honest.b.progress();
        }
        // Whether it was noticed depends on what was hit. This cannot be overlooked.
        let region = stranger.outlet.region().window();
        region.fill(512, region.len() - 512, 0xff).unwrap();
        for want in wants {
            let error = error_of(&mut honest.b, want);
            let is_known = match error {
                None => true,
                Some(Error::PeerWrong { peer: of, .. } | Error::PeerGone { peer: of }) => of == peer,
                Some(error) => matches!(error, Error::Truncated { .. }),
            };
            assert!(is_known, "seed {seed}: {error:?}");
        }
        let later = honest.b.receive(Want::exactly(peer, 99), vec![0; 8]);
        assert!(error_of(&mut honest.b, later).is_some(), "seed {seed}: it is still listened to");
        drop(stranger);
        if seed % 50 == 0 {
            honest.exchange();
        }
    }
    honest.exchange();
}

fn scribble(region: &Window<'_>, random: &mut SplitMix64) {
    let at = random.below(region.len() / 8) * 8;
    let word = match random.below(4) {
        0 => random.next_u64(),
        // Control words of long and short records, closed or not.
        1 => (1 << 63) | (1 << 61) | (random.next_u64() % 40_000),
        2 => (random.next_u64() % 64) | ((random.next_u64() & 1) << 63),
        _ => (random.next_u64() % 8) | ((random.next_u64() % 40) << 32),
    };
    region.store_u64(at, word).unwrap();
}
