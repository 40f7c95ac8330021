//! The processes of a test, and its readings.

use std::sync::Arc;

use super::{COUNT_MAX, FIRST_COUNT, Options, READING_NS, READINGS, Row, Test};
use crate::{
    error::Result,
    patterns::messages::{Members, number},
    progress::Waiter,
};

/// The processes: a pair each, or one group.
pub(super) struct Running {
    test: Test,
    sets: Vec<Members>,
}

/// Of one reading, in ns: of all, and the smallest and the largest of a member's.
#[derive(Clone, Copy)]
struct Reading {
    mean_ns: f64,
    min_ns: f64,
    max_ns: f64,
}

impl Running {
    pub(super) fn start(
        test: Test,
        options: &Options,
        cpus: [usize; 2],
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let sets = if test.is_of_group() {
            let members: Vec<usize> = (0..options.members).map(|rank| cpus[rank % 2]).collect();
            vec![Members::start(&members, waiter)?]
        } else {
            (0..test.pairs(options)).map(|_| Members::start(&cpus, waiter)).collect::<Result<_>>()?
        };
        Ok(Self { test, sets })
    }

    /// The row of one size.
    pub(super) fn row(&mut self, size_bytes: usize, options: &Options) -> Result<Row> {
        let window = options.window_of(size_bytes);
        let count = match options.iterations {
            Some(count) => count.max(1),
            None => {
                let first = self.reading(size_bytes, FIRST_COUNT.max(window), window)?;
                let one_ns = first.mean_ns * self.sets.len() as f64;
                ((READING_NS / one_ns.max(1.0)) as usize).clamp(FIRST_COUNT, COUNT_MAX)
            }
        };
        let mut readings = (0..READINGS)
            .map(|_| self.reading(size_bytes, count, window))
            .collect::<Result<Vec<Reading>>>()?;
        readings.sort_by(|a, b| a.mean_ns.total_cmp(&b.mean_ns));
        let middle = readings[READINGS / 2];
        Ok(Row {
            test: self.test,
            size_bytes,
            window: if self.test.is_bandwidth() { window } else { 1 },
            iterations: count,
            ns: middle.mean_ns,
            member_min_ns: middle.min_ns,
            member_max_ns: middle.max_ns,
            readings_ns: readings.iter().map(|reading| reading.mean_ns).collect(),
        })
    }

    /// The time of a message, of a call, or of half a round trip. Of several pairs at once a message counts
    /// for the time in which each of them has sent one, divided by their number.
    fn reading(&mut self, size_bytes: usize, count: usize, window: usize) -> Result<Reading> {
        let shape = format!("{size_bytes} {count}");
        let of_pair = |near: &str, far: &str| [near, far].map(ToOwned::to_owned);
        let orders = match self.test {
            Test::Latency | Test::MultiLat => of_pair(&format!("echo {shape}"), &format!("answer {shape}")),
            Test::Bw | Test::Mr => {
                let shape = format!("{shape} {window} 1 {window}");
                of_pair(&format!("send {shape}"), &format!("receive {shape}"))
            }
            Test::Bibw => {
                let order = format!("exchange {shape} {window}");
                of_pair(&order, &order)
            }
            Test::Barrier => return self.of_group(&format!("barrier {count}")),
            test => return self.of_group(&format!("{} {shape}", test.name())),
        };
        for set in &mut self.sets {
            set.begin(&orders)?;
        }
        let mut near_ns = Vec::new();
        for set in &mut self.sets {
            let said = set.answers()?;
            near_ns.push(number(said.first().map_or("nothing", String::as_str))?);
        }
        let (pairs, count) = (near_ns.len() as f64, count as f64);
        let longest = near_ns.iter().copied().fold(0.0, f64::max);
        Ok(match self.test {
            Test::Latency | Test::MultiLat => Reading::of(&near_ns),
            Test::Bibw => Reading::of(&[longest / (2.0 * count)]),
            _ => Reading::of(&[longest / (pairs * count)]),
        })
    }

    fn of_group(&mut self, order: &str) -> Result<Reading> {
        let mut all = Vec::new();
        for set in &mut self.sets {
            all.extend(set.numbers(order)?);
        }
        Ok(Reading::of(&all))
    }
}

impl Reading {
    fn of(values_ns: &[f64]) -> Self {
        Self {
            mean_ns: values_ns.iter().sum::<f64>() / values_ns.len().max(1) as f64,
            min_ns: values_ns.iter().copied().fold(f64::INFINITY, f64::min),
            max_ns: values_ns.iter().copied().fold(0.0, f64::max),
        }
    }
}
