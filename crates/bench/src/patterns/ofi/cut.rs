//! A rail that is cut in the middle of a long transfer.

use std::{thread, time::Duration};

use shm::clock::monotonic_ns;

use super::{Ends, WHAT};
use crate::{
    error::{BenchError, Result},
    patterns::hosts::Hosts,
};

/// A transfer has so many puts, each to a place of its own.
pub(super) const PUTS: u64 = 96;
const PUT_BYTES: u64 = 1 << 20;
pub(super) const LONG_BYTES: u64 = PUTS * PUT_BYTES;
/// The rail is cut so long after the begin.
const CUT_AFTER: Duration = Duration::from_millis(100);
/// From so long after the cut on counts what arrives.
const COUNTS_AFTER: Duration = Duration::from_millis(100);
/// Which rail is cut, from 0 on.
const RAIL: usize = 1;

/// Bytes per ns over what is left, each byte of which is compared. With `hosts` a rail of theirs is cut, and
/// is whole again afterwards; else as much time passes.
pub(super) fn reading(ends: &mut Ends, seed: u64, hosts: Option<&Hosts>) -> Result<f64> {
    ends.near(&format!("fill {LONG_BYTES} {seed}"))?;
    ends.near.say(&format!("long {PUT_BYTES} {PUTS}"))?;
    thread::sleep(CUT_AFTER);
    if let Some(hosts) = hosts {
        hosts.set_rail(RAIL, "down")?;
    }
    let counts_from_ns = monotonic_ns() + COUNTS_AFTER.as_nanos() as u64;
    let said = ends.near_line()?;
    // A difference is an error.
    let checked = ends.far(&format!("check {LONG_BYTES} {seed}"));
    if let Some(hosts) = hosts {
        hosts.set_rail(RAIL, "up")?;
    }
    checked?;
    let moments = said.split(' ').map(str::parse).collect::<std::result::Result<Vec<u64>, _>>();
    let rate = moments.ok().and_then(|moments| rate_after(&moments, counts_from_ns));
    rate.ok_or_else(|| BenchError::OtherEnd {
        what: WHAT,
        reason: format!("the transfer had ended before the cut, or was not timed: `{}`", short(&said)),
    })
}

fn short(said: &str) -> String {
    said.chars().take(80).collect()
}

/// Of the moments of the begin, of the return of each put, and of the arrival of all: from the first return
/// that counts to the last one, between which as much is under way.
fn rate_after(moments: &[u64], from_ns: u64) -> Option<f64> {
    let (_, rest) = moments.split_first()?;
    let (_, returns) = rest.split_last()?;
    let counted: Vec<u64> = returns.iter().copied().filter(|moment| *moment >= from_ns).collect();
    let (first, last) = (counted.first()?, counted.last()?);
    let time_ns = last.checked_sub(*first).filter(|time_ns| *time_ns > 0)?;
    Some(((counted.len() as u64 - 1) * PUT_BYTES) as f64 / time_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_returns_after_the_moment_counts() {
        let moments = [0, 10, 20, 30, 40, 90];
        let rate = rate_after(&moments, 15).unwrap();
        assert!((rate - 2.0 * PUT_BYTES as f64 / 20.0).abs() < 1e-9, "{rate}");
        for late in [35, 50, 100] {
            assert_eq!(rate_after(&moments, late), None, "too little is left");
        }
        assert_eq!(rate_after(&[], 0), None);
    }
}
