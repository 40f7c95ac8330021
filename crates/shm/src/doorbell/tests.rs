//! The doorbell with real threads and a real kernel. Other processes: see `tests/doorbell_process.rs`.

use super::*;
use std::sync::atomic::AtomicBool;
use std::thread;

const WATCHDOG_NS: u64 = 60_000_000_000;

#[derive(Default)]
struct Bell {
    signal: AtomicU32,
    armed: AtomicU32,
}

impl Bell {
    fn waiter(&self) -> Waiter<'_> {
        Waiter::new(&self.signal, &self.armed)
    }

    fn ringer(&self) -> Ringer<'_> {
        Ringer::new(&self.signal, &self.armed)
    }

    /// Until the waiter has armed, which it does before it sleeps.
    fn until_armed(&self) {
        while self.armed.load(Ordering::Acquire) == AWAKE {
            thread::yield_now();
        }
    }
}

fn watchdog() -> Option<Deadline> {
    Some(Deadline::after_ns(WATCHDOG_NS))
}

#[test]
fn nobody_is_woken_who_is_awake() {
    let bell = Bell::default();
    assert_eq!(bell.ringer().ring(), Rang::Nobody);
    assert_eq!(bell.ringer().ring_if_armed(), Rang::Nobody);
    assert_eq!(bell.waiter().value(), 1, "ring_if_armed leaves the word alone");
    assert_eq!(bell.waiter().wait(0, &mut Spin::never(), None), WaitOutcome::Changed(1));
}

#[test]
fn a_wait_ends_at_its_deadline_and_disarms() {
    let bell = Bell::default();
    for mut spin in [Spin::never(), Spin::new()] {
        let soon = Some(Deadline::after_ns(1_000_000));
        assert_eq!(bell.waiter().wait(0, &mut spin, soon), WaitOutcome::TimedOut);
        let past = Some(Deadline::at_monotonic_ns(0));
        assert_eq!(bell.waiter().wait(0, &mut spin, past), WaitOutcome::TimedOut);
        assert_eq!(bell.armed.load(Ordering::Relaxed), AWAKE);
    }
}

#[test]
fn one_of_many_bells_wakes_who_sleeps_on_all() {
    let (alone, own) = (Bell::default(), AtomicU32::new(0));
    if !sleep_until_any(&[alone.waiter()], &own, Deadline::after_ns(1_000_000), || false) {
        println!("skipped: this kernel has no futex_waitv");
        return;
    }
    for count in [1, 2, futex::ANY_MAX - 1] {
        let bells: Vec<Bell> = (0..count).map(|_| Bell::default()).collect();
        let waiters: Vec<_> = bells.iter().map(Bell::waiter).collect();
        let far = Deadline::after_ns(WATCHDOG_NS);
        for bell in [bells.first().unwrap(), bells.last().unwrap()] {
            thread::scope(|scope| {
                let sleeps = scope.spawn(|| sleep_until_any(&waiters, &own, far, || false));
                bell.until_armed();
                let mut rung = 0;
                bell.ringer().ring_once(&mut rung);
                assert!(rung & 3 == ASLEEP);
                // It may be awake by now.
                for _ in 0..2 {
                    bell.ringer().ring_once(&mut rung);
                }
                assert!(sleeps.join().unwrap() && !far.has_passed());
                bell.ringer().ring_once(&mut rung);
                assert_eq!(rung, AWAKE);
            });
        }
        assert!(bells.iter().all(|bell| bell.armed.load(Ordering::Relaxed) == AWAKE));
        assert_eq!(bells.iter().map(|bell| bell.waiter().value()).sum::<u32>(), 2, "once for each sleep");
        thread::scope(|scope| {
            let sleeps = scope.spawn(|| sleep_until_any(&waiters, &own, far, || false));
            bells[0].until_armed();
            own.store(1, Ordering::Relaxed);
            futex::wake(&own, 1);
            assert!(sleeps.join().unwrap() && !far.has_passed());
            own.store(0, Ordering::Relaxed);
        });
        assert!(sleep_until_any(&waiters, &own, far, || true) && !far.has_passed());
        assert!(sleep_until_any(&waiters, &own, Deadline::after_ns(1_000_000), || false));
    }
    let bells: Vec<Bell> = (0..futex::ANY_MAX).map(|_| Bell::default()).collect();
    let waiters: Vec<_> = bells.iter().map(Bell::waiter).collect();
    assert!(!sleep_until_any(&waiters, &own, Deadline::after_ns(WATCHDOG_NS), || false), "too many");
    assert!(!sleep_until_any(&[], &own, Deadline::after_ns(WATCHDOG_NS), || false), "none");
    bells[0].ringer().ring_once(&mut 0);
    assert_eq!(bells[0].waiter().value(), 0, "nobody sleeps, and the word is left alone");
}

#[test]
fn a_sleeper_is_woken() {
    let bell = Bell::default();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| bell.waiter().wait(0, &mut Spin::never(), watchdog()));
        bell.until_armed();
        assert_eq!(bell.ringer().ring(), Rang::Sleeper);
        assert_eq!(sleeper.join().unwrap(), WaitOutcome::Changed(1));
    });
}

#[test]
fn several_rings_at_once_are_as_many() {
    let bell = Bell::default();
    bell.ringer().ring_times(3);
    bell.ringer().ring();
    bell.ringer().ring_times(0);
    assert_eq!(bell.waiter().value(), 4);
}

#[test]
fn a_waiter_of_an_eventfd_is_reported_to_the_ringer() {
    let bell = Bell::default();
    bell.waiter().arm_eventfd();
    assert_eq!(bell.ringer().ring(), Rang::Eventfd);
    assert_eq!(bell.ringer().ring_if_armed(), Rang::Eventfd);
    bell.waiter().disarm();
    assert_eq!(bell.ringer().ring(), Rang::Nobody);
}

/// Ping-pong, with and without spinning, on one word each way: every lost wake-up would end in the watchdog.
#[test]
fn no_ring_is_lost_between_two_threads() {
    for spinning in [false, true] {
        let spin = || if spinning { Spin::up_to_ns(20_000) } else { Spin::never() };
        let (there, back) = (Bell::default(), Bell::default());
        const ROUNDS: u32 = 3_000;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut spin = spin();
                for round in 0..ROUNDS {
                    assert_eq!(
                        there.waiter().wait(round, &mut spin, watchdog()),
                        WaitOutcome::Changed(round + 1)
                    );
                    back.ringer().ring();
                }
            });
            let mut spin = spin();
            for round in 0..ROUNDS {
                there.ringer().ring();
                assert_eq!(back.waiter().wait(round, &mut spin, watchdog()), WaitOutcome::Changed(round + 1));
            }
            assert_eq!(
                spinning,
                spin.ceiling_ns() > 0 && spin.hits() + spin.misses() > 0 && spin.limit_ns() < u64::MAX
            );
        });
    }
}

#[test]
fn no_ring_of_many_ringers_is_lost() {
    const RINGERS: u32 = 4;
    const RINGS: u32 = 2_000;
    let bell = Bell::default();
    thread::scope(|scope| {
        for _ in 0..RINGERS {
            scope.spawn(|| {
                for _ in 0..RINGS {
                    bell.ringer().ring();
                }
            });
        }
        let (mut seen, mut spin) = (0, Spin::new());
        while seen < RINGERS * RINGS {
            match bell.waiter().wait(seen, &mut spin, watchdog()) {
                WaitOutcome::Changed(value) => seen = value,
                WaitOutcome::Interrupted => {}
                WaitOutcome::TimedOut => panic!("a ring was lost after {seen}"),
            }
        }
    });
}

#[test]
fn a_hostile_ringer_causes_spurious_wake_ups_and_nothing_else() {
    let bell = Bell::default();
    let (go_on, ready) = (AtomicBool::new(true), AtomicBool::new(false));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            bell.waiter().wait_until(&mut Spin::never(), watchdog(), || ready.load(Ordering::Acquire))
        });
        scope.spawn(|| {
            let mut word = 0_u32;
            while go_on.load(Ordering::Relaxed) {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bell.signal.store(word, Ordering::Relaxed);
                futex::wake(&bell.signal, u32::MAX >> 1);
            }
        });
        // Long enough for many of them; how many does not matter.
        (0..2_000).for_each(|_| thread::yield_now());
        assert!(!waiter.is_finished(), "nothing was ready");
        ready.store(true, Ordering::Release);
        bell.ringer().ring();
        assert!(matches!(waiter.join().unwrap(), WaitOutcome::Changed(_)));
        go_on.store(false, Ordering::Relaxed);
    });
}

#[test]
fn a_hostile_waiter_costs_its_ringers_a_system_call() {
    let bell = Bell::default();
    for nonsense in [3, 4711, u32::MAX] {
        bell.armed.store(nonsense, Ordering::Relaxed);
        assert_eq!(bell.ringer().ring(), Rang::Sleeper);
    }
}

#[test]
fn the_counter_may_wrap() {
    let bell = Bell { signal: AtomicU32::new(u32::MAX), ..Bell::default() };
    bell.ringer().ring();
    assert_eq!(bell.waiter().wait(u32::MAX, &mut Spin::never(), watchdog()), WaitOutcome::Changed(0));
}

#[test]
fn the_cost_of_a_wake_up_can_be_measured() {
    let probe = WakeProbe::new();
    let cost_ns = thread::scope(|scope| {
        scope.spawn(|| probe.wake());
        probe.sleep()
    });
    assert!(cost_ns.is_some_and(|ns| ns > 0), "{cost_ns:?}");
    assert_eq!(WakeProbe::new().sleep(), None, "a partner that never comes is no measurement");
}
