//! The ways of messages between two processes by size: eager through the ring, read out of the sender's
//! memory, or through the ring in parts. Each is forced by the settings of its processes, and measured beside
//! what they do without.

use serde::Serialize;
use tieline::messages::{EAGER_MAX_BYTES, FETCH, Fetch, Settings};

use super::members::{Members, number};
use crate::{
    error::{BenchError, Result},
    layout::table::{Align, Table, size, three_digits},
    progress::Progress,
    stats::order::median,
};

/// The sizes that are measured.
pub const SIZES_BYTES: [usize; 9] =
    [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Readings of each way and size, of which the median counts.
const READINGS: usize = 5;
/// Bytes of the messages of a reading in all, and how many there are at least and at most.
const READING_BYTES: usize = 4 << 20;
const ROUNDS_MIN: usize = 4;
const ROUNDS_MAX: usize = 500;

/// Half a round trip by size and way.
#[derive(Debug, Clone, Serialize)]
pub struct Ways {
    /// Processors of the two processes.
    pub cpus: [usize; 2],
    /// Whether the kernel lets a receiver copy messages out of the memory of its sender.
    pub is_read_allowed: bool,
    /// By size.
    pub rows: Vec<WaysRow>,
}

/// Of one size, in ns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WaysRow {
    /// Of a message.
    pub size_bytes: usize,
    /// Eager; none if that is longer than an eager message can be in this ring.
    pub eager_ns: Option<f64>,
    /// Read out of the sender's memory; none if the kernel does not allow it.
    pub read_ns: Option<f64>,
    /// Through the ring in parts.
    pub in_parts_ns: f64,
    /// As messages come with the present settings.
    pub chosen_ns: f64,
}

/// One way, forced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Eager,
    Read,
    InParts,
    Chosen,
}

impl Way {
    /// The variables of its processes.
    fn variables(self, settings: &Settings) -> Vec<(&'static str, String)> {
        let fetched =
            |fetch: Fetch| vec![(EAGER_MAX_BYTES, "0".to_owned()), (FETCH, fetch.name().to_owned())];
        match self {
            Self::Eager => vec![(EAGER_MAX_BYTES, eager_limit(settings).to_string())],
            Self::Read => fetched(Fetch::Read),
            Self::InParts => fetched(Fetch::InParts),
            Self::Chosen => Vec::new(),
        }
    }
}

/// The longest size below the longest record of the ring: half of it, with the words before the message.
fn eager_limit(settings: &Settings) -> usize {
    let below = |bytes: &usize| *bytes < settings.rounded_ring_bytes() / 2;
    SIZES_BYTES.into_iter().filter(below).max().unwrap_or_default()
}

/// Measures all ways of all sizes with processes on these two processors.
///
/// # Errors
/// A process is missing or fails.
pub fn measure(cpus: [usize; 2], settings: &Settings, progress: &mut dyn Progress) -> Result<Ways> {
    let waiter = progress.waiter();
    let mut of = |way: Way, share: f64, name: &str| {
        progress.tell(name, share);
        let mut members = Members::start_with(&cpus, &way.variables(settings), &waiter)?;
        let sizes: Vec<usize> = match way {
            Way::Eager => SIZES_BYTES.into_iter().filter(|size| *size <= eager_limit(settings)).collect(),
            _ => SIZES_BYTES.to_vec(),
        };
        let times = sizes.iter().map(|size| reading(&mut members, *size)).collect::<Result<Vec<f64>>>()?;
        let paths = members.carry_out(&["paths".to_owned()])?;
        Ok::<_, BenchError>((times, paths))
    };
    let (eager, _) = of(Way::Eager, 0.0, "eager")?;
    let (read, paths) = of(Way::Read, 0.25, "read")?;
    let (in_parts, _) = of(Way::InParts, 0.5, "in parts")?;
    let (chosen, _) = of(Way::Chosen, 0.75, "chosen")?;
    // One that is not allowed comes in parts.
    let is_read_allowed = paths.iter().all(|said| said.ends_with(" 0"));
    let row = |(at, size_bytes): (usize, &usize)| WaysRow {
        size_bytes: *size_bytes,
        eager_ns: eager.get(at).copied(),
        read_ns: read.get(at).copied().filter(|_| is_read_allowed),
        in_parts_ns: in_parts[at],
        chosen_ns: chosen[at],
    };
    Ok(Ways { cpus, is_read_allowed, rows: SIZES_BYTES.iter().enumerate().map(row).collect() })
}

/// Half a round trip of this size, in ns.
fn reading(members: &mut Members, size_bytes: usize) -> Result<f64> {
    let rounds = (READING_BYTES / size_bytes).clamp(ROUNDS_MIN, ROUNDS_MAX);
    let orders = [format!("echo {size_bytes} {rounds}"), format!("answer {size_bytes} {rounds}")];
    let mut times = Vec::with_capacity(READINGS);
    // What comes first is not counted: memory is touched, and the faster way is found.
    for _ in 0..=READINGS {
        let said = members.carry_out(&orders)?;
        times.push(said.first().map_or(Ok(0.0), |said| number(said))?);
    }
    Ok(median(&times[1..]).unwrap_or_default())
}

impl Ways {
    /// The size up to which eager messages are the fastest of all that was measured; none if they never are.
    pub fn eager_is_fastest_to(&self) -> Option<usize> {
        let is_fastest = |row: &&WaysRow| {
            let others = [row.read_ns, Some(row.in_parts_ns)];
            row.eager_ns.is_some_and(|eager| others.into_iter().flatten().all(|other| eager <= other))
        };
        self.rows.iter().take_while(is_fastest).last().map(|row| row.size_bytes)
    }

    /// The longest size that was measured as eager: longer ones do not fit this ring.
    pub fn eager_longest(&self) -> Option<usize> {
        self.rows.iter().rfind(|row| row.eager_ns.is_some()).map(|row| row.size_bytes)
    }

    /// The table.
    pub fn to_text(&self) -> String {
        let right = |name| (name, Align::Right);
        let columns = ["size", "eager", "read", "in parts", "chosen"].map(right);
        let mut table = Table::new(columns);
        let us = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| three_digits(ns / 1e3));
        for row in &self.rows {
            table.row([
                size(row.size_bytes as u64),
                us(row.eager_ns),
                us(row.read_ns),
                us(Some(row.in_parts_ns)),
                us(Some(row.chosen_ns)),
            ]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(size_bytes: usize, eager_ns: Option<f64>, read_ns: Option<f64>, in_parts_ns: f64) -> WaysRow {
        WaysRow { size_bytes, eager_ns, read_ns, in_parts_ns, chosen_ns: 1.0 }
    }

    #[test]
    fn an_eager_message_is_fastest_as_long_as_no_other_way_is_faster() {
        let mut ways = Ways {
            cpus: [0, 1],
            is_read_allowed: true,
            rows: vec![
                row(1024, Some(300.0), Some(1000.0), 900.0),
                row(2048, Some(500.0), Some(1100.0), 950.0),
                row(4096, Some(1200.0), Some(1150.0), 1300.0),
                row(8192, None, Some(1500.0), 1600.0),
            ],
        };
        assert_eq!(ways.eager_is_fastest_to(), Some(2048));
        let text = ways.to_text();
        assert!(text.contains("8 KiB      -  1.50      1.60"), "{text}");
        ways.rows[0].eager_ns = Some(2000.0);
        assert_eq!(ways.eager_is_fastest_to(), None);
    }

    #[test]
    fn eager_messages_fit_half_of_the_ring() {
        let of = |ring_bytes| eager_limit(&Settings { ring_bytes, ..Settings::default() });
        let rings = [32 << 10, 64 << 10, 4 << 10, 5 << 10, 1 << 30];
        assert_eq!(rings.map(of), [8 << 10, 16 << 10, 1 << 10, 2 << 10, 4 << 20]);
    }
}
