//! The delay of a frame from one host to another.

use std::str::FromStr;
use std::time::Duration;

/// Units with their nanoseconds.
const UNITS: [(&str, u64); 4] = [("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const NS_MIN: u64 = 1_000;
const NS_MAX: u64 = 1_000_000_000;

/// Of each frame on each rail, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    ns: u64,
}

impl Delay {
    /// In nanoseconds.
    pub fn ns(self) -> u64 {
        self.ns
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_nanos(self.ns)
    }
}

impl std::fmt::Display for Delay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}us", self.ns / 1_000)
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a delay: give a whole number with its unit, such as 50us or 2ms");
        let of = |(unit, ns): &(&str, u64)| {
            let number = text.strip_suffix(unit)?.parse::<u64>().ok()?;
            Some(number.saturating_mul(*ns))
        };
        let ns = UNITS.iter().find_map(of).ok_or_else(wrong)?;
        if !(NS_MIN..=NS_MAX).contains(&ns) {
            return Err(format!("`{text}` is not possible: give a delay from 1us to 1s"));
        }
        Ok(Self { ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_has_a_unit_and_is_written_so_that_it_is_read() {
        for (text, ns) in [("50us", 50_000), ("50µs", 50_000), ("2ms", 2_000_000), ("1s", 1_000_000_000)] {
            let delay: Delay = text.parse().unwrap();
            assert_eq!((delay.ns(), delay.to_string().parse()), (ns, Ok(delay)));
        }
        for (wrong, why) in [("50", "unit"), ("us", "unit"), ("1.5ms", "whole"), ("0us", "1us"), ("2s", "1s")]
        {
            let error = wrong.parse::<Delay>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
