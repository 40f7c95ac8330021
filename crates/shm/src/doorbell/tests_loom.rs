//! Every interleaving of waiter and ringers that the memory model allows: no wake-up is lost.
//!
//! The futex is the model of `sync::futex`; a lost wake-up would be a deadlock, which loom reports.

use super::*;
use loom::sync::Arc;
use loom::thread;

struct Words {
    signal: AtomicU32,
    armed: AtomicU32,
    data: AtomicU32,
}

/// All interleavings with at most three preemptions of a running thread: enough for every known kind of lost
/// wake-up, and without a bound three threads take hours.
fn bounded(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

fn words() -> Arc<Words> {
    Arc::new(Words { signal: AtomicU32::new(0), armed: AtomicU32::new(AWAKE), data: AtomicU32::new(0) })
}

#[test]
fn loom_a_ring_is_never_lost_and_brings_what_was_written_before() {
    loom::model(|| {
        let words = words();
        let theirs = Arc::clone(&words);
        let ringer = thread::spawn(move || {
            theirs.data.store(7, Ordering::Relaxed);
            Ringer::new(&theirs.signal, &theirs.armed).ring();
        });
        let outcome = Waiter::new(&words.signal, &words.armed).wait(0, &mut Spin::never(), None);
        assert_eq!(outcome, WaitOutcome::Changed(1));
        assert_eq!(words.data.load(Ordering::Relaxed), 7);
        ringer.join().unwrap();
        assert_eq!(words.armed.load(Ordering::Relaxed), AWAKE);
    });
}

#[test]
fn loom_no_ring_of_two_ringers_is_lost() {
    bounded(|| {
        let words = words();
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let theirs = Arc::clone(&words);
                thread::spawn(move || {
                    Ringer::new(&theirs.signal, &theirs.armed).ring();
                })
            })
            .collect();
        let waiter = Waiter::new(&words.signal, &words.armed);
        let mut seen = 0;
        while seen < 2 {
            match waiter.wait(seen, &mut Spin::never(), None) {
                WaitOutcome::Changed(value) => seen = value,
                other => panic!("{other:?}"),
            }
        }
        for ringer in ringers {
            ringer.join().unwrap();
        }
    });
}

#[test]
fn loom_a_plain_store_followed_by_ring_if_armed_is_never_lost() {
    bounded(|| {
        let words = words();
        let theirs = Arc::clone(&words);
        let ringer = thread::spawn(move || {
            for value in 1..=2 {
                theirs.data.store(value, Ordering::Release);
                Ringer::new(&theirs.signal, &theirs.armed).ring_if_armed();
            }
        });
        let waiter = Waiter::new(&words.signal, &words.armed);
        for value in 1..=2 {
            waiter.wait_until(&mut Spin::never(), None, || words.data.load(Ordering::Acquire) >= value);
        }
        ringer.join().unwrap();
    });
}

#[test]
fn loom_an_armed_eventfd_is_seen_or_the_waiter_sees_the_ring() {
    loom::model(|| {
        let words = words();
        let theirs = Arc::clone(&words);
        let ringer = thread::spawn(move || Ringer::new(&theirs.signal, &theirs.armed).ring());
        let waiter = Waiter::new(&words.signal, &words.armed);
        waiter.arm_eventfd();
        let seen_at_once = waiter.value() != 0;
        let rang = ringer.join().unwrap();
        assert!(seen_at_once || rang == Rang::Eventfd, "neither saw the other");
    });
}
