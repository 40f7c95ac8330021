//! Possible causes of a spike: kernel counters in its part of the run, and the noise of the idle
//! machine.
//!
//! A slice is about ten milliseconds long, so this is circumstantial evidence: a cause is named
//! only if it occurs in few enough slices to be significant.

use serde::{Deserialize, Serialize};

use super::{period::Event, series::slice_at, trace::Slice};
use crate::{noise, poll::Poll, timer::Timer};

/// A kind of event that occurs in more than this share of all slices explains nothing.
const COMMON: f64 = 0.5;
/// A thread that loses its processor is away for longer than this.
const SWITCH_NS: f64 = 1_000.0;
/// Time that the host takes away is longer than this.
const STEAL_NS: f64 = 50_000.0;
/// A spike is attributed to the idle machine's noise if it is longer than that by at most this
/// factor.
const ALIKE: f64 = 1.5;

/// The cause of a spike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// One of the ends had its processor taken away for another thread, in the same slice.
    ContextSwitch,
    /// The host took time from one of the processors, in the same slice.
    Steal,
    /// An interrupt was served on one of the processors, in the same slice, and few slices have
    /// any.
    Interrupt,
    /// It is no longer than what the same processors lose when they do nothing.
    IdleMachine,
    /// None of these.
    Unexplained,
}

impl Cause {
    /// All, likeliest first.
    pub const ALL: [Self; 5] =
        [Self::ContextSwitch, Self::Steal, Self::Interrupt, Self::IdleMachine, Self::Unexplained];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ContextSwitch => "another thread got the processor",
            Self::Steal => "the host took the processor",
            Self::Interrupt => "an interrupt was served",
            Self::IdleMachine => "no longer than what an idle processor loses",
            Self::Unexplained => "unexplained",
        }
    }
}

/// The number of spikes of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CauseCount {
    /// The cause.
    pub cause: Cause,
    /// The number of spikes.
    pub spikes: u64,
    /// Time beyond the median in them, in ns.
    pub lost_ns: f64,
}

/// The data for explaining spikes.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    timer: &'a Timer,
    slices: &'a [Slice],
    switches_tell: bool,
    interrupts_tell: bool,
    idle_largest_ns: f64,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(timer: &'a Timer, slices: &'a [Slice], idle: &[noise::Report], poll: Poll) -> Self {
        let with = slices.iter().filter(|slice| slice.counted.interrupts_total() > 0).count();
        Self {
            timer,
            slices,
            // The kernel counts a processor that was yielded as one that was taken away.
            switches_tell: poll != Poll::Yielding,
            interrupts_tell: with as f64 <= COMMON * slices.len() as f64,
            idle_largest_ns: idle.iter().map(|report| report.largest_ns).fold(0.0, f64::max),
        }
    }

    /// The likeliest cause of a spike.
    pub(super) fn cause(&self, spike: &Event) -> Cause {
        if let Some(slice) = slice_at(self.timer, self.slices, spike.at_ns) {
            let counted = &slice.counted;
            if self.switches_tell && counted.involuntary_total() > 0 && spike.height > SWITCH_NS {
                return Cause::ContextSwitch;
            }
            if counted.steal_ticks > 0 && spike.height > STEAL_NS {
                return Cause::Steal;
            }
            if self.interrupts_tell && counted.interrupts_total() > 0 {
                return Cause::Interrupt;
            }
        }
        if spike.height <= ALIKE * self.idle_largest_ns { Cause::IdleMachine } else { Cause::Unexplained }
    }

    /// Counts the spikes by cause, in order of the time that they took.
    pub(super) fn counts(&self, spikes: &[Event]) -> Vec<CauseCount> {
        let mut counts = Cause::ALL.map(|cause| CauseCount { cause, spikes: 0, lost_ns: 0.0 });
        for spike in spikes {
            let cause = self.cause(spike);
            for count in counts.iter_mut().filter(|count| count.cause == cause) {
                count.spikes += 1;
                count.lost_ns += spike.height;
            }
        }
        let mut counts: Vec<CauseCount> = counts.into_iter().filter(|count| count.spikes > 0).collect();
        counts.sort_by(|a, b| b.lost_ns.total_cmp(&a.lost_ns));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::counters::Counters;

    #[test]
    fn causes() {
        let timer = Timer::new().unwrap();
        let slice = |ms: u64, switches: u64, steal_ticks: u64, interrupts: u64| Slice {
            start: timer.ticks(ms * 1_000_000),
            first: 0,
            end: 0,
            counted: Counters {
                involuntary: vec![0, switches],
                steal_ticks,
                interrupts: [("timer".to_owned(), interrupts)].into(),
            },
        };
        let slices = [
            slice(0, 0, 0, 0),
            slice(10, 2, 0, 0),
            slice(20, 0, 1, 0),
            slice(30, 0, 0, 3),
            slice(40, 0, 0, 0),
        ];
        let evidence = Evidence::new(&timer, &slices, &[], Poll::Paused);
        let at = |ms: f64, height: f64| Event { at_ns: ms * 1e6, height };
        assert_eq!(evidence.cause(&at(5.0, 5000.0)), Cause::Unexplained);
        assert_eq!(evidence.cause(&at(15.0, 5000.0)), Cause::ContextSwitch);
        let yielding = Evidence::new(&timer, &slices, &[], Poll::Yielding);
        assert_eq!(yielding.cause(&at(15.0, 5000.0)), Cause::Unexplained);
        // Too short for a switch, or for the host.
        assert_eq!(evidence.cause(&at(15.0, 500.0)), Cause::Unexplained);
        assert_eq!(evidence.cause(&at(25.0, 5000.0)), Cause::Unexplained);
        assert_eq!(evidence.cause(&at(25.0, 2e6)), Cause::Steal);
        assert_eq!(evidence.cause(&at(35.0, 5000.0)), Cause::Interrupt);
        let counts = evidence.counts(&[at(5.0, 10.0), at(15.0, 5000.0), at(16.0, 5000.0)]);
        assert_eq!((counts[0].cause, counts[0].spikes, counts.len()), (Cause::ContextSwitch, 2, 2));
    }

    #[test]
    fn what_happens_everywhere_explains_nothing() {
        let timer = Timer::new().unwrap();
        let counted = Counters { interrupts: [("timer".to_owned(), 3)].into(), ..Counters::default() };
        let slices = [Slice { start: 0, first: 0, end: 0, counted }];
        let evidence = Evidence::new(&timer, &slices, &[], Poll::Paused);
        assert_eq!(evidence.cause(&Event { at_ns: 5e6, height: 5000.0 }), Cause::Unexplained);
    }
}
