//! How long a wait spins before the thread sleeps, learnt from the duration of earlier waits.
//!
//! A spin that met its end allows the next one four times the time that it took, at least. Several in a row
//! without success halve the time: a single one may be the fault of a peer that was interrupted, and to sleep
//! for it makes the next wait of the peer longer, too. One that has come down to nothing is tried again now
//! and then, ever more rarely. `shm`'s spin does so for looks at a word; a look at a provider's queue costs a
//! thousand times as much, and several threads share what was learnt.

use std::time::Duration;

use shm::sync::{AtomicU32, Ordering};

/// Below this a spin meets nothing that comes over a network.
const FLOOR_NS: u32 = 2_000;
/// Spins without success in a row that are forgiven.
const FORGIVEN: u32 = 2;
/// Waits until a spin that was given up is tried again, at first and at last.
const RETRY_FIRST: u32 = 16;
const RETRY_LAST: u32 = 1024;

/// See the module. Relaxed throughout: it affects speed only.
#[derive(Debug)]
pub(crate) struct Spin {
    ceiling_ns: u32,
    limit_ns: AtomicU32,
    in_vain: AtomicU32,
    waits_until_retry: AtomicU32,
    retry_after: AtomicU32,
}

impl Spin {
    pub(crate) fn up_to(ceiling: Duration) -> Self {
        let ceiling_ns = u32::try_from(ceiling.as_nanos()).unwrap_or(u32::MAX);
        let retry = || AtomicU32::new(RETRY_FIRST);
        Self {
            ceiling_ns,
            limit_ns: AtomicU32::new(ceiling_ns),
            in_vain: AtomicU32::new(0),
            waits_until_retry: retry(),
            retry_after: retry(),
        }
    }

    /// How long the next wait may spin.
    pub(crate) fn limit(&self) -> Duration {
        let mut limit_ns = self.limit_ns.load(Ordering::Relaxed);
        if limit_ns == 0 {
            let waits = self.waits_until_retry.load(Ordering::Relaxed);
            self.waits_until_retry.store(waits.saturating_sub(1), Ordering::Relaxed);
            if waits == 0 {
                limit_ns = self.ceiling_ns;
            }
        }
        Duration::from_nanos(limit_ns.into())
    }

    /// A wait that was allowed to spin that long was `met` by its end after so long, or had to sleep.
    pub(crate) fn learn(&self, limit: Duration, met: Option<Duration>) {
        if limit.is_zero() {
            return;
        }
        let limit_ns = self.limit_ns.load(Ordering::Relaxed);
        if let Some(met) = met {
            let longer = u32::try_from(4 * met.as_nanos()).unwrap_or(u32::MAX).max(FLOOR_NS);
            self.limit_ns.store(limit_ns.max(longer).min(self.ceiling_ns), Ordering::Relaxed);
            self.in_vain.store(0, Ordering::Relaxed);
            self.retry_after.store(RETRY_FIRST, Ordering::Relaxed);
            return;
        }
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        if in_vain < FORGIVEN {
            self.in_vain.store(in_vain + 1, Ordering::Relaxed);
            return;
        }
        let halved = limit_ns / 2;
        self.limit_ns.store(if halved < FLOOR_NS { 0 } else { halved }, Ordering::Relaxed);
        if halved < FLOOR_NS {
            let retry_after = self.retry_after.load(Ordering::Relaxed);
            self.waits_until_retry.store(retry_after, Ordering::Relaxed);
            self.retry_after.store((2 * retry_after).min(RETRY_LAST), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_in_vain_end_and_are_tried_again_ever_more_rarely() {
        let spin = Spin::up_to(Duration::from_micros(50));
        let mut tried = Vec::new();
        for wait in 0..5000 {
            let limit = spin.limit();
            if !limit.is_zero() {
                tried.push(wait);
            }
            spin.learn(limit, None);
        }
        // Twice forgiven; then 50, 25, 12.5, 6.25, 3.1 µs, and then no more.
        assert_eq!(tried[..7], [0, 1, 2, 3, 4, 5, 6]);
        let gaps: Vec<_> = tried[6..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps[..7], [17, 33, 65, 129, 257, 513, 1025]);
        assert!(gaps[7..].iter().all(|gap| *gap == 1025));
    }

    #[test]
    fn spins_that_meet_their_end_grow_up_to_the_ceiling() {
        let spin = Spin::up_to(Duration::from_micros(50));
        (0..7).for_each(|_| spin.learn(spin.limit(), None));
        assert!(spin.limit().is_zero());
        for (met_us, limit_us) in [(0, 2), (2, 8), (1, 8), (10, 40), (40, 50), (1, 50)] {
            spin.learn(Duration::from_micros(50), Some(Duration::from_micros(met_us)));
            assert_eq!(spin.limit().as_micros(), limit_us);
        }
    }

    /// A peer that is interrupted now and then does not make this side sleep each time.
    #[test]
    fn a_spin_in_vain_between_others_that_met_their_end_is_forgiven() {
        let (spin, ceiling) = (Spin::up_to(Duration::from_micros(50)), Duration::from_micros(50));
        for _ in 0..1000 {
            (0..FORGIVEN).for_each(|_| spin.learn(ceiling, None));
            assert_eq!(spin.limit(), ceiling);
            spin.learn(ceiling, Some(Duration::from_micros(1)));
        }
    }

    #[test]
    fn who_wants_none_gets_none() {
        let spin = Spin::up_to(Duration::ZERO);
        (0..100).for_each(|_| {
            assert!(spin.limit().is_zero());
            spin.learn(Duration::ZERO, Some(Duration::ZERO));
        });
    }
}
