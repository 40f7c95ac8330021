//! Threads that share a queue: what they exchange, and who wakes whom.

use std::time::Instant;

use super::*;
use crate::matching::PeerId;
use crate::settings::Settings;

/// Far longer than a message takes: who sleeps for all of it was not woken.
const LIMIT: Duration = Duration::from_secs(60);

/// A queue that is shared and one that sends to it; they have met. The numbers under which each knows the
/// other, that of the receiver first.
fn met() -> (SharedQueue, MessageQueue, PeerId, PeerId) {
    let (shared, mut sender) = (shared(), MessageQueue::new(Settings::default()).unwrap());
    let to = sender.peer(shared.with(|queue| queue.name()));
    let from = shared.with(|queue| queue.peer(sender.name()));
    let receive = shared.with(|queue| queue.receive(Want::exactly(from, 0), vec![0; 8]));
    let send = sender.send_bytes(to, 0, &[0; 8]).unwrap();
    let until = Instant::now() + LIMIT;
    while shared.with(|queue| queue.test(receive)).unwrap().is_none() {
        sender.progress();
        assert!(Instant::now() < until);
    }
    sender.wait(send, None).unwrap();
    (shared, sender, to, from)
}

/// Sleeps once for what `awaited` says: whether it could, and was woken.
fn sleeps(shared: &SharedQueue, awaited: Awaited) -> (bool, bool) {
    let mut waiter = Waiter { shared, is_watcher: false };
    let began = Instant::now();
    let could = waiter.sleep(LIMIT, awaited);
    (could, began.elapsed() < LIMIT)
}

/// Waits until so many threads sleep, or will in a moment.
fn until_asleep(shared: &SharedQueue, count: usize) -> bool {
    let until = Instant::now() + LIMIT;
    while shared.lock().sleepers.len() < count {
        // A kernel before 5.16 cannot.
        if !futex::AnyOf::may_wait() {
            return false;
        }
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    // The second sleep, in which it is not looked again.
    std::thread::sleep(Duration::from_millis(20));
    true
}

#[test]
fn a_message_wakes_the_watcher_and_that_the_thread_it_is_for() {
    let (shared, mut sender, to, from) = met();
    let post = |tag| shared.with(|queue| queue.receive(Want::exactly(from, tag), vec![0; 8]));
    let (first, second) = (post(1), post(2));
    std::thread::scope(|scope| {
        // It waits for the second message, and makes progress for the other thread meanwhile.
        let watcher = scope.spawn(|| shared.wait(second, None).unwrap().error);
        if !until_asleep(&shared, 1) {
            sender.send_bytes(to, 2, &[2; 8]).unwrap();
            return;
        }
        let other = scope.spawn(|| sleeps(&shared, Awaited::Any(vec![first])));
        while !shared.lock().sleepers.iter().any(|sleeper| sleeper.lanes.is_none()) {
            std::thread::yield_now();
        }
        sender.send_bytes(to, 1, &[1; 8]).unwrap();
        assert_eq!(other.join().unwrap(), (true, true), "nobody has woken it");
        assert!(!watcher.is_finished());
        sender.send_bytes(to, 2, &[2; 8]).unwrap();
        assert_eq!(watcher.join().unwrap(), None);
    });
    assert!(shared.with(|queue| queue.test(first)).unwrap().is_some());
    let inner = shared.lock();
    assert!(inner.sleepers.is_empty() && !inner.is_watched);
}

#[test]
fn the_watch_is_passed_on_when_the_watcher_leaves() {
    let (shared, mut sender, to, from) = met();
    let shared = &shared;
    let receive = shared.with(|queue| queue.receive(Want::exactly(from, 1), vec![0; 8]));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| shared.wait(receive, None).unwrap().error);
        if !until_asleep(shared, 1) {
            sender.send_bytes(to, 1, &[1; 8]).unwrap();
            return;
        }
        // For a message that nobody has sent yet.
        let want = Want::exactly(from, 3);
        let other = scope.spawn(move || sleeps(shared, Awaited::Message(want)));
        while shared.lock().sleepers.len() < 2 {
            std::thread::yield_now();
        }
        sender.send_bytes(to, 1, &[1; 8]).unwrap();
        assert_eq!((watcher.join().unwrap(), other.join().unwrap()), (None, (true, true)));
    });
}

#[test]
fn calls_of_other_threads_wake_who_waits_for_what_they_do() {
    let (shared, _sender, _, from) = met();
    let own = shared.with(|queue| queue.peer(queue.name()));
    let receive = shared.with(|queue| queue.receive(Want::exactly(own, 1), vec![0; 8]));
    let wakes = |call: &dyn Fn(&mut MessageQueue)| {
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleeps(&shared, Awaited::Any(vec![receive])));
            if until_asleep(&shared, 1) {
                shared.with(call);
                assert_eq!(sleeper.join().unwrap(), (true, true), "nobody has woken it");
            }
        });
    };
    // A send that waits for its lane: somebody is to make progress.
    let send = std::cell::Cell::new(None);
    wakes(&|queue| send.set(Some(queue.send_bytes(from, 1, &[1; 8]).unwrap())));
    assert_eq!(
        send.get().map(|send| shared.wait(send, Some(LIMIT)).map(|status| status.error)),
        Some(Ok(None))
    );
    // The end of the request.
    wakes(&|queue| _ = queue.send_bytes(own, 1, b"here").unwrap());
}

fn shared() -> SharedQueue {
    SharedQueue::new(MessageQueue::new(Settings::default()).unwrap())
}

/// Four threads of each end have a conversation of their own, with messages of all paths.
#[test]
fn threads_of_both_ends_talk_side_by_side() {
    const SIZES: [usize; 4] = [8, 900, 20_000, 300_000];
    let (a, b) = (shared(), shared());
    let to_b = a.with(|queue| queue.peer(b.with(|queue| queue.name())));
    let to_a = b.with(|queue| queue.peer(a.with(|queue| queue.name())));
    let talk = |queue: &SharedQueue, to, tag: u64, speaks_first: bool| {
        for round in 0..100 {
            let len = SIZES[(round + tag as usize) % SIZES.len()];
            let receive = queue.with(|queue| queue.receive(Want::exactly(to, tag), vec![0; len]));
            let message = vec![tag as u8 ^ round as u8; len];
            if speaks_first {
                let send = queue.with(|queue| queue.send(to, tag, message.clone())).unwrap();
                assert_eq!(queue.wait(send, None).unwrap().error, None);
            }
            let status = queue.wait(receive, None).unwrap();
            assert_eq!(status.error, None);
            assert!(status.buffers.into_owned().unwrap() == message, "tag {tag}, round {round}");
            if !speaks_first {
                let send = queue.with(|queue| queue.send(to, tag, message)).unwrap();
                assert_eq!(queue.wait(send, None).unwrap().error, None);
            }
        }
    };
    std::thread::scope(|scope| {
        for tag in 0..4 {
            let (a, b) = (a.clone(), b.clone());
            scope.spawn(move || talk(&a, to_b, tag, true));
            scope.spawn(move || talk(&b, to_a, tag, false));
        }
    });
}

#[test]
fn waits_end_with_their_limit_and_are_told_once() {
    let queue = shared();
    let own = queue.with(|queue| queue.peer(queue.name()));
    let limit = Some(Duration::from_millis(1));
    let receive = queue.with(|queue| queue.receive(Want::exactly(own, 1), vec![0; 8]));
    assert_eq!(queue.wait(receive, limit).unwrap_err(), Error::TimedOut);
    assert_eq!(queue.wait_any(&[], limit).unwrap_err(), Error::NoSuchRequest);
    assert_eq!(queue.wait_probe(&Want::exactly(own, 2), limit).unwrap_err(), Error::TimedOut);
    queue.with(|queue| queue.send_bytes(own, 1, b"once")).unwrap();
    assert_eq!(queue.wait_any(&[receive], None).unwrap().0, 0);
    let receives = [3, 4].map(|tag| queue.with(|queue| queue.receive(Want::exactly(own, tag), vec![0; 8])));
    queue.with(|queue| queue.send_bytes(own, 3, b"first")).unwrap();
    assert_eq!(queue.wait_all(&receives, limit).unwrap_err(), Error::TimedOut);
    queue.with(|queue| queue.send_bytes(own, 4, b"last")).unwrap();
    let lengths = queue.wait_all(&receives, None).unwrap();
    let lengths = lengths.iter().map(|status| status.envelope.map(|envelope| envelope.len_bytes));
    assert_eq!(lengths.collect::<Vec<_>>(), [Some(5), Some(4)]);
    assert_eq!(queue.wait(receive, limit).unwrap_err(), Error::NoSuchRequest);
}
