//! The faults that an administrator may inject into a link.
//!
//! Faults are asked for by `tieline link`, kept by the node manager, shown to the programs of the node in its
//! state page, and carried out by each of them on what it puts and gets (crate `link`, module `hook`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;

/// Parts of a million.
pub const MILLION: u32 = 1_000_000;
/// Longest delay of a single operation.
pub const MAX_DELAY_NS: u64 = 1_000_000_000;
/// Words of a record in the state page.
pub const WORDS: usize = 8;

/// How one direction of a link is made worse. All zero: it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkFaults {
    /// Each operation takes this much longer, in nanoseconds.
    pub delay_ns: u64,
    /// Blocks move at most at this rate (0: any).
    pub rate_bytes_per_s: u64,
    /// Blocks move at this share of the speed that they would have, in percent (0: all of it).
    pub speed_percent: u32,
    /// Puts that are not carried out, of a million.
    pub lose_ppm: u32,
    /// Puts of which a byte arrives inverted, of a million.
    pub corrupt_ppm: u32,
    /// Puts that arrive once more, after the next one, of a million.
    pub duplicate_ppm: u32,
    /// Puts that arrive after the next one, of a million.
    pub reorder_ppm: u32,
    /// Nothing moves for this long, in nanoseconds, …
    pub stall_ns: u64,
    /// … each time this much has passed on CLOCK_MONOTONIC.
    pub stall_every_ns: u64,
}

/// What is to become of a link, at one end of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkChange {
    /// Nothing passes any more, in either direction.
    Down,
    /// Whatever took it down, at either end, is undone.
    Up,
    /// What this node's programs send is treated like this from now on.
    Faults(LinkFaults),
    /// The node that a connection to this peer reaches; `None` for the peer itself.
    LeadsTo(Option<NodeId>),
}

impl fmt::Display for LinkChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down => f.write_str("down"),
            Self::Up => f.write_str("up"),
            Self::Faults(faults) => write!(f, "faults {faults}"),
            Self::LeadsTo(Some(node)) => write!(f, "leads to node {node}"),
            Self::LeadsTo(None) => f.write_str("leads where it should"),
        }
    }
}

/// A time in the largest unit in which it is whole, as the command line takes it.
pub(crate) fn time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let unit = units.into_iter().find(|(length, _)| ns > 0 && ns.is_multiple_of(*length));
    unit.map_or_else(|| format!("{ns} ns"), |(length, name)| format!("{} {name}", ns / length))
}

impl LinkFaults {
    /// Nothing is made worse.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether such faults are possible; the text gives the reason if not.
    pub fn check(&self) -> Result<(), String> {
        for (what, ppm) in [
            ("loss", self.lose_ppm),
            ("corruption", self.corrupt_ppm),
            ("duplication", self.duplicate_ppm),
            ("reordering", self.reorder_ppm),
        ] {
            if ppm > MILLION {
                let percent = f64::from(ppm) / 10_000.0;
                return Err(format!("{what} of {percent} % of the puts: give 100 % at most"));
            }
        }
        if self.delay_ns > MAX_DELAY_NS {
            return Err(format!("a delay of {}: give {} at most", time(self.delay_ns), time(MAX_DELAY_NS)));
        }
        if self.speed_percent > 100 {
            return Err(format!("a speed of {} %: give 100 % at most", self.speed_percent));
        }
        let (stall, period) = (time(self.stall_ns), time(self.stall_every_ns));
        if (self.stall_ns == 0) != (self.stall_every_ns == 0) {
            return Err(format!(
                "stalls of {stall} every {period}: give a time and a period, such as 5ms/1s"
            ));
        }
        if self.stall_ns > self.stall_every_ns / 2 {
            return Err(format!("stalls of {stall} every {period}: give half of the period at most"));
        }
        Ok(())
    }

    /// As the state page holds them.
    pub fn to_words(&self) -> [u64; WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            self.delay_ns,
            self.rate_bytes_per_s,
            pair(self.lose_ppm, self.corrupt_ppm),
            pair(self.duplicate_ppm, self.reorder_ppm),
            self.stall_ns,
            self.stall_every_ns,
            u64::from(self.speed_percent),
            0,
        ]
    }

    /// What [`Self::to_words`] wrote.
    pub fn from_words(words: [u64; WORDS]) -> Self {
        let [delay_ns, rate_bytes_per_s, lost, late, stall_ns, stall_every_ns, speed, _] = words;
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        Self {
            delay_ns,
            rate_bytes_per_s,
            speed_percent: low(speed),
            lose_ppm: low(lost),
            corrupt_ppm: high(lost),
            duplicate_ppm: low(late),
            reorder_ppm: high(late),
            stall_ns,
            stall_every_ns,
        }
    }
}

impl fmt::Display for LinkFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let percent = |ppm: u32| f64::from(ppm) / 10_000.0;
        if self.delay_ns > 0 {
            parts.push(format!("delay {} ns", self.delay_ns));
        }
        if self.rate_bytes_per_s > 0 {
            parts.push(format!("at most {} bytes/s", self.rate_bytes_per_s));
        }
        if self.speed_percent > 0 {
            parts.push(format!("speed {} %", self.speed_percent));
        }
        for (what, ppm) in [
            ("loss", self.lose_ppm),
            ("corruption", self.corrupt_ppm),
            ("duplication", self.duplicate_ppm),
            ("reordering", self.reorder_ppm),
        ] {
            if ppm > 0 {
                parts.push(format!("{what} {} %", percent(ppm)));
            }
        }
        if self.stall_ns > 0 {
            let ms = |ns: u64| ns as f64 / 1e6;
            parts.push(format!("stalls of {} ms every {} ms", ms(self.stall_ns), ms(self.stall_every_ns)));
        }
        if parts.is_empty() { f.write_str("none") } else { f.write_str(&parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> LinkFaults {
        LinkFaults {
            delay_ns: 1,
            rate_bytes_per_s: 2,
            speed_percent: 80,
            lose_ppm: 10_000,
            corrupt_ppm: 4,
            duplicate_ppm: 5,
            reorder_ppm: 6,
            stall_ns: 5_000_000,
            stall_every_ns: 1_000_000_000,
        }
    }

    #[test]
    fn every_field_survives_the_page() {
        assert_eq!(LinkFaults::from_words(all().to_words()), all());
        assert!(LinkFaults::from_words([0; WORDS]).is_none());
    }

    #[test]
    fn every_fault_is_named() {
        assert_eq!(
            all().to_string(),
            "delay 1 ns, at most 2 bytes/s, speed 80 %, loss 1 %, corruption 0.0004 %, duplication 0.0005 %, \
             reordering 0.0006 %, stalls of 5 ms every 1000 ms"
        );
        assert_eq!(LinkFaults::default().to_string(), "none");
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        assert_eq!(all().check(), Ok(()));
        let refused = |faults: LinkFaults| faults.check().unwrap_err();
        assert!(
            refused(LinkFaults { lose_ppm: MILLION + 1, ..all() })
                .starts_with("loss of 100.0001 % of the puts")
        );
        assert!(refused(LinkFaults { speed_percent: 101, ..all() }).contains("101 %"));
        assert!(refused(LinkFaults { delay_ns: MAX_DELAY_NS + 1, ..all() }).contains("delay"));
        assert!(refused(LinkFaults { stall_every_ns: 0, ..all() }).contains("give a time and a period"));
        assert!(
            refused(LinkFaults { stall_every_ns: 9_000_000, ..all() })
                .starts_with("stalls of 5 ms every 9 ms: give half of the period")
        );
    }
}
