//! How fast a host may send and receive: a token bucket of the kernel (`tbf`) at each end of its cable.

use std::str::FromStr;

/// Most that is sent at once: a few of the largest blocks that the kernel hands to an interface in one piece.
const BURST_BYTES_MIN: u64 = 256 * 1024;
/// As much time the bucket may take to fill, in milliseconds, so that a timer of the kernel that is late
/// costs no speed.
const FILL_MS: u64 = 4;
/// How long a packet may wait before the next ones are dropped, in milliseconds.
const WAIT_MS: u64 = 50;
/// Units with their bits per second, as `tc` spells them.
const UNITS: [(&str, u64); 3] = [("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
/// Slower is no network, faster than what the kernel's counters hold.
const BITS_PER_S_MIN: u64 = 100_000;
const BITS_PER_S_MAX: u64 = 400_000_000_000;

/// Of each host on each rail, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    bits_per_s: u64,
}

impl Rate {
    /// In bits per second.
    pub fn bits_per_s(self) -> u64 {
        self.bits_per_s
    }

    /// The words of `tc` after the interface.
    pub(crate) fn bucket(self) -> String {
        let burst_bytes = (self.bits_per_s / 8 * FILL_MS / 1000).max(BURST_BYTES_MIN);
        format!("root tbf rate {}bit burst {burst_bytes}b latency {WAIT_MS}ms", self.bits_per_s)
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fits = UNITS.iter().rev().find(|(_, bits)| self.bits_per_s.is_multiple_of(*bits));
        match fits {
            Some((unit, bits)) => write!(f, "{}{unit}", self.bits_per_s / bits),
            None => write!(f, "{}bit", self.bits_per_s),
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not a rate: give bits per second with their unit, such as 1gbit or 100mbit")
        };
        let lower = text.to_ascii_lowercase();
        let (number, bits) = UNITS
            .iter()
            .find_map(|(unit, bits)| Some((lower.strip_suffix(unit)?, *bits)))
            .ok_or_else(wrong)?;
        let bits_per_s =
            number.parse::<u64>().ok().and_then(|number| number.checked_mul(bits)).ok_or_else(wrong)?;
        if !(BITS_PER_S_MIN..=BITS_PER_S_MAX).contains(&bits_per_s) {
            return Err(format!("`{text}` is not possible: give a rate from 100kbit to 400gbit"));
        }
        Ok(Self { bits_per_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_and_is_written_as_it_is_read() {
        for text in ["1gbit", "100mbit", "1500kbit", "400gbit"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("1Gbit".parse::<Rate>().unwrap().bits_per_s(), 1_000_000_000);
        for (wrong, why) in [
            ("1", "unit"),
            ("gbit", "unit"),
            ("1.5gbit", "unit"),
            ("1kbit", "100kbit"),
            ("1000gbit", "400gbit"),
        ] {
            let error = wrong.parse::<Rate>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_bucket_holds_some_milliseconds_and_at_least_some_packets() {
        let of = |text: &str| text.parse::<Rate>().unwrap().bucket();
        assert_eq!(of("1mbit"), "root tbf rate 1000000bit burst 262144b latency 50ms");
        assert_eq!(of("10gbit"), "root tbf rate 10000000000bit burst 5000000b latency 50ms");
    }
}
