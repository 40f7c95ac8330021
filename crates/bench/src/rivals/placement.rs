//! The processors of the two ends: chosen, given, or one for both.

use serde::{Deserialize, Serialize};

use crate::{
    cpus::{self, ranges},
    error::{BenchError, Result},
};

/// The processors of the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Two processors of the tool's choice: no threads of one core, where there is a choice.
    #[default]
    TwoCores,
    /// Both on the first one that may be used.
    SameCore,
    /// These; the same twice is one processor for both.
    Given([usize; 2]),
}

/// The way in which ends share processors, in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// A processor each.
    TwoCores,
    /// One for both.
    SameCore,
}

/// `0,1`, or `0` for both on one.
pub fn parse(text: &str) -> Result<[usize; 2]> {
    let wrong =
        || BenchError::Usage(format!("`{text}`: give two processors, such as 0,1, or one for both ends"));
    let numbers: Vec<usize> =
        text.split(',').map(|number| number.trim().parse().map_err(|_| wrong())).collect::<Result<_>>()?;
    match numbers[..] {
        [both] => Ok([both, both]),
        [near, far] => Ok([near, far]),
        _ => Err(wrong()),
    }
}

impl Placement {
    /// The processors, if there are such and this process may use them.
    pub fn resolve(self, what: &'static str) -> Result<[usize; 2]> {
        match self {
            Self::TwoCores => cpus::pair(None, what),
            Self::SameCore => {
                let allowed = cpus::allowed()?;
                let first = allowed.first().copied().ok_or(BenchError::TooFewCpus { what, allowed })?;
                Ok([first, first])
            }
            Self::Given(given) => {
                let allowed = cpus::allowed()?;
                given.into_iter().try_for_each(|cpu| usable(cpu, &allowed, &online()))?;
                Ok(given)
            }
        }
    }
}

/// The way in which two processors are shared.
pub fn sharing([near, far]: [usize; 2]) -> Sharing {
    if near == far { Sharing::SameCore } else { Sharing::TwoCores }
}

/// The kernel's list of online processors; empty if it has none.
pub(crate) fn online() -> String {
    std::fs::read_to_string("/sys/devices/system/cpu/online")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Returns the reason why a processor cannot be used.
pub(crate) fn usable(cpu: usize, allowed: &[usize], online: &str) -> Result<()> {
    if allowed.contains(&cpu) {
        return Ok(());
    }
    let text = if exists(cpu, online) {
        format!(
            "--cpus {cpu}: this process may not run on that processor (its affinity, or its cgroup's cpuset): give some of {}, or start \
             it with more processors",
            ranges(allowed)
        )
    } else {
        format!(
            "--cpus {cpu}: this machine has no such processor (it has {online}): give some of {}",
            ranges(allowed)
        )
    };
    Err(BenchError::Usage(text))
}

fn exists(cpu: usize, online: &str) -> bool {
    online.split(',').any(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        low.parse().is_ok_and(|low: usize| low <= cpu) && high.parse().is_ok_and(|high: usize| cpu <= high)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed() {
        assert_eq!(parse("0,1").unwrap(), [0, 1]);
        assert_eq!(parse(" 3 ").unwrap(), [3, 3]);
        for text in ["", "a", "0,1,2", "0,", "-1", "0-1"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("0,1"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_explained() {
        usable(2, &[2, 3], "0-3").unwrap();
        let forbidden = usable(1, &[2, 3], "0-3").unwrap_err().to_string();
        assert!(
            forbidden.contains("--cpus 1: this process may not run on") && forbidden.contains("some of 2-3,"),
            "{forbidden}"
        );
        let absent = usable(7, &[0, 1], "0-1,4").unwrap_err().to_string();
        assert!(absent.contains("--cpus 7: this machine has no such processor (it has 0-1,4)"), "{absent}");
        assert!(exists(4, "0-1,4") && !exists(3, "0-1,4") && !exists(0, ""));
        assert!(Placement::Given([0, 9_999_999]).resolve("test").is_err());
    }

    #[test]
    fn one_for_both() {
        let [near, far] = Placement::SameCore.resolve("test").unwrap();
        assert_eq!(near, far);
        assert_eq!((sharing([near, far]), sharing([0, 1])), (Sharing::SameCore, Sharing::TwoCores));
    }
}
