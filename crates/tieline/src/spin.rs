//! How long waits may spin before they sleep: `TIELINE_SPIN_US`, else twice what waking a sleeper costs here
//! and now.
//!
//! Spinning for as long as a wake-up costs never makes a wait cost more than twice the better of the two
//! choices (Karlin et al., "Empirical studies of competitive spinning for a shared-memory multiprocessor",
//! SOSP 1991). The cost differs by a factor of ten between machines, so it is measured, once in each process
//! that makes an interrupt: about 4 ms. Each wait then learns for itself, below this ceiling.

use std::ffi::OsString;

use shm::cpu;
use shm::doorbell::{Spin, WakeProbe};
use shm::sync::plain::{AtomicU8, Ordering};

use crate::error::{Error, Result};

/// Overrides the measurement; in microseconds, 0 = never spin.
const VARIABLE: &str = "TIELINE_SPIN_US";
/// Longest spin that can be asked for: a second.
const LONGEST_US: u64 = 1_000_000;
/// A measurement on a busy machine may say anything; a ceiling outside of these bounds would not be believed.
const BELIEVED_NS: std::ops::RangeInclusive<u64> = 4_000..=100_000;

/// A spin for a new waiter.
pub(crate) fn new_spin() -> Result<Spin> {
    // No lock and no `OnceLock`: a child forked while another thread measures would wait for that thread
    // forever. Two threads that come first at the same time both measure; either figure will do.
    static IS_SET: AtomicU8 = AtomicU8::new(0);
    if IS_SET.load(Ordering::Relaxed) == 0 {
        set_ceiling().map_err(Error::Invalid)?;
        IS_SET.store(1, Ordering::Relaxed);
    }
    Ok(Spin::new())
}

fn set_ceiling() -> std::result::Result<(), String> {
    if let Some(us) = given(std::env::var_os(VARIABLE))? {
        Spin::set_process_ceiling_ns(us * 1000);
    } else if let Some(cost_ns) = measure() {
        Spin::set_process_ceiling_ns((2 * cost_ns).clamp(*BELIEVED_NS.start(), *BELIEVED_NS.end()));
    }
    Ok(())
}

/// What the variable asks for; an empty one is as good as none.
fn given(text: Option<OsString>) -> std::result::Result<Option<u64>, String> {
    text.filter(|text| !text.is_empty()).map(|text| parse(&text.to_string_lossy())).transpose()
}

fn parse(text: &str) -> std::result::Result<u64, String> {
    text.trim().parse().ok().filter(|us| *us <= LONGEST_US).ok_or_else(|| {
        format!("{VARIABLE}: `{text}` is not a spin time: give microseconds from 0 (never) to {LONGEST_US}, or unset it")
    })
}

/// What waking a sleeper on another processor costs, in nanoseconds; `None` where it cannot be measured, or
/// spinning cannot help.
///
/// Two threads, each held on a processor: the scheduler puts threads that are left to it on one processor,
/// where a wake-up costs 3 us instead of 40 on some virtual machines. Waits that spin for too short a time
/// never meet a side that sleeps, and both sleep for good.
fn measure() -> Option<u64> {
    let allowed = cpu::allowed_cpus().ok()?;
    let here = cpu::current_cpu();
    let other = allowed.iter().find(|cpu| *cpu != here)?;
    let probe = WakeProbe::new();
    let _quiet = shm::process::SignalsBlocked::here();
    let thread = || std::thread::Builder::new().name("tieline-probe".into());
    std::thread::scope(|scope| {
        // Each does its part even where it cannot be held: the other one waits for it.
        let waker = || {
            let is_held = cpu::pin_current_thread(other).is_ok();
            probe.wake();
            is_held.then_some(())
        };
        let sleeper = || {
            let is_held = cpu::pin_current_thread(here).is_ok();
            probe.sleep().filter(|_| is_held)
        };
        let waker = thread().spawn_scoped(scope, waker).ok()?;
        let cost_ns = thread().spawn_scoped(scope, sleeper).ok().and_then(|sleeper| sleeper.join().ok());
        waker.join().ok()??;
        cost_ns?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_refused_with_the_variable_and_the_range() {
        assert_eq!(parse("20"), Ok(20));
        assert_eq!(parse(" 0 "), Ok(0));
        assert_eq!(
            (given(None), given(Some("".into())), given(Some("7".into()))),
            (Ok(None), Ok(None), Ok(Some(7)))
        );
        for wrong in ["-1", "fast", "1000001", ""] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("TIELINE_SPIN_US") && error.contains("1000000"), "{error}");
        }
    }

    #[test]
    fn a_new_spin_has_a_ceiling_that_was_measured_or_given() {
        let spin = new_spin().unwrap();
        assert!(spin.ceiling_ns() <= LONGEST_US * 1000);
    }

    #[test]
    fn a_wake_up_is_measured_on_two_processors_or_not_at_all() {
        let before = cpu::allowed_cpus().unwrap();
        assert_eq!(measure().is_some(), before.count() > 1);
        assert_eq!(cpu::allowed_cpus().unwrap().count(), before.count(), "the caller is not held");
        let held = std::thread::spawn(|| {
            cpu::pin_current_thread(cpu::current_cpu()).unwrap();
            measure()
        });
        assert_eq!(held.join().unwrap(), None);
    }
}
