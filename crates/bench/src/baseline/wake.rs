//! Baseline: waking a sleeper on another core by the kernel's own means.

use std::sync::Arc;

use rustix::{io::Errno, thread::futex};
use shm::{
    clock::now_ticks,
    layout::CacheLine,
    sync::{AtomicU32, AtomicU64, Ordering},
};

use super::settle;
use crate::{
    error::{BenchError, Result},
    pinned_pair::PinnedPair,
    poll::{ANSWER_TIMEOUT, Poll},
    stats::Samples,
    timer::Timer,
};

const WHAT: &str = "wake-up baseline";
/// The pause before a sleeper is woken: long enough that it sleeps, and that its core idles.
pub const SETTLE_NS: u64 = 100_000;
/// Wake-ups of one reading.
pub const WAKES: u32 = 25;

/// Words of a measurement; each on its own line.
#[derive(Debug, Default)]
struct Marks {
    /// Counts the sleeper's intentions to sleep.
    about_to_sleep: CacheLine<AtomicU64>,
    /// The time at which it was rung.
    rang_at: CacheLine<AtomicU64>,
}

/// One reading of any way to wake: the median of [`WAKES`] wake-ups in ns, from the near to the far
/// side.
///
/// `ring(n)` wakes the sleeper for the `n`-th time (from 1); `sleep(n)` sleeps until then. Both
/// ends read the same counter; that it is the same on both cores is what an invariant counter
/// promises.
pub fn one_way_ns<'env>(
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    mut ring: impl FnMut(u32) -> Result<()>,
    mut sleep: impl FnMut(u32) -> Result<()> + Send + 'env,
    all: Option<&mut Samples>,
) -> Result<f64> {
    let marks = Arc::new(Marks::default());
    let far_marks = Arc::clone(&marks);
    let settle_ticks = timer.ticks(SETTLE_NS);
    let near = || {
        for n in 1..=WAKES {
            Poll::Paused.word(WHAT, &marks.about_to_sleep.0, u64::from(n))?;
            let since = now_ticks();
            Poll::Tight.until(WHAT, || now_ticks().saturating_sub(since) >= settle_ticks)?;
            // Relaxed: the ring itself publishes it.
            marks.rang_at.0.store(now_ticks(), Ordering::Relaxed);
            ring(n)?;
        }
        Ok(())
    };
    let far = move || {
        let mut ticks = vec![0u64; WAKES as usize];
        for (n, slot) in (1..=WAKES).zip(&mut ticks) {
            // Release: pairs with the Acquire of the waker's `Poll::word`.
            far_marks.about_to_sleep.0.store(u64::from(n), Ordering::Release);
            sleep(n)?;
            *slot = now_ticks().saturating_sub(far_marks.rang_at.0.load(Ordering::Relaxed));
        }
        Ok(ticks)
    };
    let ((), ticks) = pair.both(WHAT, near, far)?;
    Ok(settle(timer, &ticks, 1, 1.0, all))
}

/// One way from a store with FUTEX_WAKE on one core until the sleeper runs on the other.
#[derive(Debug, Default)]
pub struct WakeProbe {
    /// The word on which the sleeper sleeps.
    word: Arc<CacheLine<AtomicU32>>,
}

impl WakeProbe {
    /// A probe.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one reading.
    pub fn one_way_ns(
        &mut self,
        timer: &Timer,
        pair: &mut PinnedPair<'_>,
        all: Option<&mut Samples>,
    ) -> Result<f64> {
        let (near, far) = (Arc::clone(&self.word), Arc::clone(&self.word));
        let base = near.0.load(Ordering::Relaxed);
        let ring = move |n: u32| {
            // Release: pairs with the Acquire of the sleeper.
            near.0.store(base.wrapping_add(n), Ordering::Release);
            futex::wake(&near.0, futex::Flags::empty(), 1).map(drop).map_err(futex_error)
        };
        let sleep = move |n: u32| {
            let seen = base.wrapping_add(n - 1);
            // Acquire: pairs with the Release of the waker.
            while far.0.load(Ordering::Acquire) == seen {
                sleep_on(&far.0, seen)?;
            }
            Ok(())
        };
        one_way_ns(timer, pair, ring, sleep, all)
    }
}

/// Sleeps until the word is woken, at most for the watchdog's time-out, in case the waker has died.
fn sleep_on(word: &AtomicU32, seen: u32) -> Result<()> {
    let timeout = rustix::time::Timespec { tv_sec: ANSWER_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    match futex::wait(word, futex::Flags::empty(), seen, Some(&timeout)) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(Errno::TIMEDOUT) => Err(BenchError::NoAnswer { what: WHAT, seconds: ANSWER_TIMEOUT.as_secs() }),
        Err(errno) => Err(futex_error(errno)),
    }
}

fn futex_error(errno: Errno) -> BenchError {
    BenchError::Io { what: "futex".to_owned(), source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        let mut all = Samples::new(false).unwrap();
        let readings = crate::pinned_pair::on(cpus, |pair| {
            let mut probe = WakeProbe::new();
            Ok([
                probe.one_way_ns(&timer, pair, Some(&mut all))?,
                probe.one_way_ns(&timer, pair, Some(&mut all))?,
            ])
        })
        .unwrap();
        assert!(readings.iter().all(|ns| *ns > 0.0), "{readings:?}");
        assert_eq!(all.len(), u64::from(2 * WAKES));
    }
}
