//! Derives a verdict from a goal and an interval.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stats::{Interval, paired::MIN_BLOCKS};

/// Direction of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Small is good.
    #[serde(rename = "<=")]
    AtMost,
    /// Large is good.
    #[serde(rename = ">=")]
    AtLeast,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
        })
    }
}

/// The goal of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Direction.
    pub op: Op,
    /// Limit of the ratio.
    pub limit: f64,
}

impl Goal {
    /// The ratio is at most `limit`.
    pub const fn at_most(limit: f64) -> Self {
        Self { op: Op::AtMost, limit }
    }

    /// The ratio is at least `limit`.
    pub const fn at_least(limit: f64) -> Self {
        Self { op: Op::AtLeast, limit }
    }

    fn holds(&self, ratio: f64) -> bool {
        match self.op {
            Op::AtMost => ratio <= self.limit,
            Op::AtLeast => ratio >= self.limit,
        }
    }
}

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// The whole interval keeps the goal.
    Pass,
    /// The whole interval misses it.
    Fail,
    /// The interval straddles the limit, or too few undisturbed blocks: measure longer or on a
    /// quieter machine.
    Inconclusive,
}

impl Verdict {
    /// Judges an interval of the ratio.
    pub fn of(goal: Goal, ci95: Interval) -> Self {
        match (goal.holds(ci95.low), goal.holds(ci95.high)) {
            (true, true) => Self::Pass,
            (false, false) => Self::Fail,
            _ => Self::Inconclusive,
        }
    }

    /// As [`Self::of`], but inconclusive unless there are at least 30 undisturbed blocks, and more
    /// than disturbed ones: the rest of a run that was mostly disturbed is a selection.
    pub fn of_blocks(goal: Goal, ci95: Interval, undisturbed: usize, disturbed: usize) -> Self {
        if undisturbed < MIN_BLOCKS || undisturbed <= disturbed {
            Self::Inconclusive
        } else {
            Self::of(goal, ci95)
        }
    }

    /// Exit status of a command: 0, 1 or 3.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 3,
        }
    }

    /// The verdict on several: a failure outweighs an inconclusive one, and that outweighs a pass.
    /// No verdicts are inconclusive.
    pub fn overall(all: impl IntoIterator<Item = Self>) -> Self {
        let mut any = false;
        let mut doubt = false;
        for verdict in all {
            any = true;
            match verdict {
                Self::Fail => return Self::Fail,
                Self::Inconclusive => doubt = true,
                Self::Pass => {}
            }
        }
        if any && !doubt { Self::Pass } else { Self::Inconclusive }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Inconclusive => "INCONCLUSIVE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ci(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    #[test]
    fn at_most() {
        let goal = Goal::at_most(1.1);
        assert_eq!(Verdict::of(goal, ci(1.0, 1.1)), Verdict::Pass);
        assert_eq!(Verdict::of(goal, ci(1.0, 1.1001)), Verdict::Inconclusive);
        assert_eq!(Verdict::of(goal, ci(1.1001, 1.2)), Verdict::Fail);
    }

    #[test]
    fn at_least() {
        let goal = Goal::at_least(0.97);
        assert_eq!(Verdict::of(goal, ci(0.97, 1.2)), Verdict::Pass);
        assert_eq!(Verdict::of(goal, ci(0.96, 1.2)), Verdict::Inconclusive);
        assert_eq!(Verdict::of(goal, ci(0.90, 0.96)), Verdict::Fail);
    }

    #[test]
    fn few_or_disturbed_blocks_decide_nothing() {
        let goal = Goal::at_most(1.1);
        assert_eq!(Verdict::of_blocks(goal, ci(0.5, 0.6), 29, 0), Verdict::Inconclusive);
        assert_eq!(Verdict::of_blocks(goal, ci(0.5, 0.6), 40, 40), Verdict::Inconclusive);
        assert_eq!(Verdict::of_blocks(goal, ci(0.5, 0.6), 30, 29), Verdict::Pass);
        assert_eq!(Verdict::of_blocks(goal, ci(1.5, 1.6), 30, 0), Verdict::Fail);
    }

    #[test]
    fn no_number_is_no_pass() {
        assert_eq!(Verdict::of(Goal::at_most(1.0), ci(f64::NAN, f64::NAN)), Verdict::Fail);
        assert_eq!(Verdict::of(Goal::at_least(1.0), ci(f64::NAN, f64::NAN)), Verdict::Fail);
    }

    #[test]
    fn together() {
        use Verdict::{Fail, Inconclusive, Pass};
        assert_eq!(Verdict::overall([Pass, Pass]), Pass);
        assert_eq!(Verdict::overall([Pass, Inconclusive]), Inconclusive);
        assert_eq!(Verdict::overall([Inconclusive, Fail, Pass]), Fail);
        assert_eq!(Verdict::overall([]), Inconclusive);
        assert_eq!([Pass, Fail, Inconclusive].map(Verdict::exit_status), [0, 1, 3]);
        assert_eq!(
            serde_json::to_string(&(Pass, Inconclusive, Goal::at_most(1.1))).unwrap(),
            r#"["PASS","INCONCLUSIVE",{"op":"<=","limit":1.1}]"#
        );
    }
}
