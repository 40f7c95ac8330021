//! Sleeping until a peer sends something.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::{Duration, Instant};

use message_queue::completion::{Completion, Ended};
use message_queue::endpoint::{Endpoint, ReceiveRequest, SendRequest, Space};
use message_queue::{Alarm, Armed, PeerId, Settings, Want};
use shm::doorbell::Sleep;

/// Far longer than a message takes: who sleeps for all of it was not woken.
const LIMIT: Duration = Duration::from_secs(60);

/// Two that have heard of each other, with the numbers under which each knows the other.
fn two() -> (Endpoint, Endpoint, PeerId, PeerId) {
    let settings = Settings::default();
    let (mut a, mut b) = (Endpoint::new(settings).unwrap(), Endpoint::new(settings).unwrap());
    let (to_b, to_a) = (a.peer(b.name()), b.peer(a.name()));
    send(&mut a, to_b, &[0; 8]);
    let mut told = Vec::new();
    post(&mut b, to_a, 8, &mut told);
    let until = Instant::now() + LIMIT;
    while told.is_empty() {
        a.progress(&mut Vec::new());
        b.progress(&mut told);
        assert!(Instant::now() < until);
    }
    (a, b, to_b, to_a)
}

fn send(from: &mut Endpoint, to: PeerId, message: &[u8]) {
    from.send(&SendRequest::tagged(to, 1), message.to_vec().into(), &mut Vec::new()).unwrap();
}

fn post(queue: &mut Endpoint, from: PeerId, room: usize, told: &mut Vec<Completion>) {
    let request = ReceiveRequest { space: Space::Tagged, want: Want::exactly(from, 1), user: 0 };
    queue.receive(&request, vec![0; room].into(), told);
}

#[test]
fn who_sleeps_is_woken_by_a_message_of_each_kind() {
    // In one record, in several, and offered.
    for len in [8, 10_000, 300_000] {
        let (mut a, mut b, to_b, to_a) = two();
        let waits = std::thread::spawn(move || {
            let mut told = Vec::new();
            post(&mut b, to_a, 300_000, &mut told);
            let began = Instant::now();
            while told.is_empty() {
                // What comes of its own accord in between is not worth a sleep.
                if !b.progress(&mut told) {
                    b.sleep(LIMIT);
                }
            }
            assert!(began.elapsed() < LIMIT, "nobody has woken it");
            told.remove(0)
        });
        std::thread::sleep(Duration::from_millis(30));
        send(&mut a, to_b, &vec![7; len]);
        while !waits.is_finished() {
            if !a.progress(&mut Vec::new()) {
                std::thread::yield_now();
            }
        }
        let Completion { ended, error, buffers, .. } = waits.join().unwrap();
        let Ended::Receive(Some(envelope)) = ended else { panic!("{ended:?}") };
        assert_eq!((envelope.len_bytes, error), (len, None));
        assert!(buffers.into_owned().unwrap()[..len].iter().all(|byte| *byte == 7));
    }
}

#[test]
fn who_sleeps_without_the_end_point_is_woken_by_messages_and_new_peers() {
    let (mut a, mut b, to_b, to_a) = two();
    let mut stranger = Endpoint::new(Settings::default()).unwrap();
    let (mut told, to_b_of_stranger) = (Vec::new(), stranger.peer(b.name()));
    // Of a queue that it did not ask to be woken for, nobody is.
    while b.progress(&mut told) {}
    for is_peer_new in [false, true] {
        let (mut alarm, sleep) = (Alarm::default(), Sleep::new());
        assert_eq!(b.arm(&mut alarm, &sleep, false), Armed::Asleep);
        let sleeps = std::thread::spawn(move || {
            let began = Instant::now();
            let could = alarm.sleep(LIMIT);
            (could, began.elapsed() < LIMIT)
        });
        std::thread::sleep(Duration::from_millis(30));
        if is_peer_new {
            assert!(!stranger.open_way(to_b_of_stranger, &mut Vec::new()).unwrap());
        } else {
            send(&mut a, to_b, &[7; 8]);
        }
        // A kernel before 5.16 cannot.
        if let (true, was_woken) = sleeps.join().unwrap() {
            assert!(was_woken, "nobody has woken it");
        }
        let (mut alarm, other) = (Alarm::default(), Sleep::new());
        assert_eq!(b.arm(&mut alarm, &other, false), Armed::Awake);
        b.disarm(&other);
        b.disarm(&sleep);
        post(&mut b, to_a, 8, &mut told);
        while b.progress(&mut told) {}
    }
}

#[test]
fn nobody_sleeps_whom_nobody_would_wake() {
    let mut alone = Endpoint::new(Settings::default()).unwrap();
    assert!(!alone.sleep(LIMIT), "it has no peers");
    let (mut a, mut b, to_b, _) = two();
    // The ring is full: room for the rest comes without a word.
    for _ in 0..10_000 {
        send(&mut a, to_b, &[1; 100]);
    }
    assert!(!a.sleep(LIMIT));
    assert_eq!(a.arm(&mut Alarm::default(), &Sleep::new(), false), Armed::Restless);
    // Something is there.
    let began = Instant::now();
    assert!(b.sleep(LIMIT) && began.elapsed() < LIMIT);
}
