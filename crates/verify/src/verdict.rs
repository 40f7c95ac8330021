//! The verdict of a check.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The outcome of a check; the worst of several is the outcome of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// As it should be. Warnings pass.
    Pass,
    /// Measured, but not surely on one side of the limit.
    Inconclusive,
    /// Not as it should be, or planned and not run.
    Fail,
}

impl Verdict {
    /// The worst of several; nothing at all has not passed.
    pub fn worst(of: impl IntoIterator<Item = Self>) -> Self {
        of.into_iter().max().unwrap_or(Self::Fail)
    }

    /// The exit status of a command: 0 pass, 1 fail, 3 inconclusive.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 3,
        }
    }
}

impl From<bench::verdict::Verdict> for Verdict {
    fn from(verdict: bench::verdict::Verdict) -> Self {
        match verdict {
            bench::verdict::Verdict::Pass => Self::Pass,
            bench::verdict::Verdict::Fail => Self::Fail,
            bench::verdict::Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Fail => "FAIL",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides_and_nothing_is_a_failure() {
        assert_eq!(Verdict::worst([Verdict::Pass, Verdict::Fail, Verdict::Inconclusive]), Verdict::Fail);
        assert_eq!(Verdict::worst([Verdict::Pass, Verdict::Inconclusive]), Verdict::Inconclusive);
        assert_eq!(Verdict::worst([]), Verdict::Fail);
    }
}
