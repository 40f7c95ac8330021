//! Sleeping until a peer sends something.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::{Duration, Instant};

use message_queue::completion::{Completion, Ended};
use message_queue::endpoint::{Endpoint, ReceiveRequest, SendRequest, Space};
use message_queue::{Alarm, Armed, MessageQueue, Name, PeerId, Settings, SharedQueue, Want};
use shm::doorbell::Sleep;
use shm::sync::futex::AnyOf;

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

/// How often this thread of the process has given up its processor by itself.
fn sleeps_of(thread: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let counted = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    counted.unwrap().trim().parse().unwrap()
}

/// In a queue of one thread and in one of several, each of which waits for its own message.
#[test]
fn who_waits_for_long_takes_no_processor() {
    const WAITS: usize = 3;
    let (tell, told) = std::sync::mpsc::channel();
    let mut sender = MessageQueue::new(Settings::default()).unwrap();
    let of_sender = sender.name();
    let receiver = |name: Name, queue: &mut MessageQueue, tag| {
        let from = queue.peer(name);
        (
            queue.receive(Want::exactly(from, tag), vec![0; 8]),
            queue.receive(Want::exactly(from, 9), vec![0; 8]),
        )
    };
    let mut alone = MessageQueue::new(Settings::default()).unwrap();
    let shared = SharedQueue::new(MessageQueue::new(Settings::default()).unwrap());
    let names = [alone.name(), shared.with(|queue| queue.name())];
    let own_number = |tell: &std::sync::mpsc::Sender<u32>| {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
    };
    let mut threads = Vec::new();
    let telling = tell.clone();
    threads.push(std::thread::spawn(move || {
        let (request, begin) = receiver(of_sender, &mut alone, 0);
        alone.wait(begin, None).unwrap();
        own_number(&telling);
        alone.wait(request, None).unwrap().error
    }));
    for tag in 0..WAITS {
        let (shared, telling) = (shared.clone(), tell.clone());
        threads.push(std::thread::spawn(move || {
            let (request, begin) = shared.with(|queue| receiver(of_sender, queue, tag as u64));
            shared.wait(begin, None).unwrap();
            own_number(&telling);
            shared.wait(request, None).unwrap().error
        }));
    }
    let peers = names.map(|name| sender.peer(name));
    let sent: Vec<_> = [peers[0], peers[1], peers[1], peers[1]]
        .into_iter()
        .map(|to| sender.send_bytes(to, 9, &[9; 8]).unwrap())
        .collect();
    sender.wait_all(&sent, Some(LIMIT)).unwrap();
    let numbers: Vec<u32> = threads.iter().map(|_| told.recv_timeout(LIMIT).unwrap()).collect();
    // Then all of them sleep as long as they ever do.
    std::thread::sleep(Duration::from_millis(500));
    let before: Vec<u64> = numbers.iter().map(|number| sleeps_of(*number)).collect();
    let began = Instant::now();
    std::thread::sleep(Duration::from_millis(640));
    // Twice for each 64 ms; who looks every millisecond sleeps 32 times as often.
    let most = began.elapsed().as_millis() as u64 / 8;
    for (number, before) in numbers.iter().zip(before) {
        let slept = sleeps_of(*number) - before;
        assert!(slept <= most || !AnyOf::may_wait(), "{slept} sleeps, and at most {most} were expected");
    }
    for (to, tag) in [(peers[0], 0), (peers[1], 0), (peers[1], 1), (peers[1], 2)] {
        sender.send_bytes(to, tag, &[7; 8]).unwrap();
    }
    for thread in threads {
        assert_eq!(thread.join().unwrap(), None);
    }
}
