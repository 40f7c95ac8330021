//! The processes of a test, and its readings.

use std::sync::Arc;

use super::hosts::Hosts;
use super::memory::Memory;
use super::{
    COUNT_MAX, FIRST_COUNT, FIRST_COUNT_OF_LONG, LONG_BYTES, Options, Place, READING_NS, READINGS, Row, Test,
    WHAT,
};
use crate::{
    error::{BenchError, Result},
    patterns::messages::{Members, number},
    pinned_pair::pinned,
    progress::Waiter,
};

/// What carries out a test.
pub(super) struct Running<'a> {
    test: Test,
    pairs: usize,
    /// Processor of this end, where it is not that of a process or a thread of its own.
    near_cpu: usize,
    ends: Ends<'a>,
}

enum Ends<'a> {
    /// Processes: pairs, or a group.
    Processes(Members),
    /// The same on two hosts.
    Hosts(&'a mut Hosts),
    /// Memory of another node.
    Memory(Box<Memory>),
}

/// Of one reading, in ns: of all, and the smallest and the largest of a member's.
#[derive(Clone, Copy)]
struct Reading {
    mean_ns: f64,
    min_ns: f64,
    max_ns: f64,
}

impl<'a> Running<'a> {
    pub(super) fn start(
        test: Test,
        options: &Options,
        place: &'a mut Place<'_>,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let pairs = test.pairs(options);
        let members = test.members(options);
        let memory_bytes = options.memory_bytes(test);
        let (near_cpu, ends) = match place {
            Place::Here(cpus) if test.is_of_memory() => {
                let Some(nodes) = &options.place else {
                    return Err(BenchError::Usage(format!("{WHAT} {}: no nodes are given", test.name())));
                };
                (cpus[0], Ends::Memory(Box::new(Memory::start(nodes, memory_bytes, waiter)?)))
            }
            Place::Here(cpus) => {
                let all: Vec<usize> = (0..members).map(|rank| cpus[rank % 2]).collect();
                // As the environment of the caller says.
                (cpus[0], Ends::Processes(Members::start_with(&all, &[], waiter)?))
            }
            Place::Hosts(hosts) => {
                let (_, [near, _], _) = hosts.place();
                if test.is_of_memory() {
                    (near, Ends::Memory(Box::new(hosts.memory(memory_bytes)?)))
                } else {
                    hosts.start(members)?;
                    (near, Ends::Hosts(hosts))
                }
            }
        };
        Ok(Self { test, pairs, near_cpu, ends })
    }

    /// The row of one size.
    pub(super) fn row(&mut self, size_bytes: usize, options: &Options) -> Result<Row> {
        if let Ends::Memory(memory) = &mut self.ends {
            memory.prove(self.test, size_bytes)?;
            let near = self.near_cpu;
            return pinned(near, || self.measured(size_bytes, options));
        }
        let proven = match &mut self.ends {
            Ends::Hosts(hosts) if !self.test.is_of_group() => hosts.prove(size_bytes),
            _ => Ok(()),
        };
        proven.and_then(|()| self.measured(size_bytes, options)).map_err(|error| BenchError::OtherEnd {
            what: WHAT,
            reason: format!(
                "{}: {error}: run it again; if it took too long, with smaller --sizes, or fewer --members, --pairs or \
                 --iterations",
                self.test.of(size_bytes)
            ),
        })
    }

    fn measured(&mut self, size_bytes: usize, options: &Options) -> Result<Row> {
        let window = if self.test.is_bandwidth() { options.window_of(size_bytes) } else { 1 };
        let count = match options.iterations {
            Some(count) => count,
            None => {
                let least = if size_bytes < LONG_BYTES { FIRST_COUNT } else { FIRST_COUNT_OF_LONG };
                let first = self.reading(size_bytes, least.max(window), window)?;
                // A round trip takes twice as long as what counts of it, and all pairs take turns.
                let one_ns = match self.test {
                    Test::Latency | Test::MultiLat => 2.0 * first.mean_ns,
                    _ => first.mean_ns,
                };
                ((READING_NS / one_ns.max(1.0)) as usize).clamp(least, COUNT_MAX)
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
            window,
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
        if let Ends::Memory(memory) = &mut self.ends {
            return Ok(Reading::of(&[memory.reading(self.test, size_bytes, count, window)?]));
        }
        let shape = format!("{size_bytes} {count}");
        let orders = match self.test {
            Test::Latency | Test::MultiLat => vec![format!("echo {shape}"), format!("answer {shape}")],
            Test::Bw | Test::Mr => {
                let shape = format!("{shape} {window} 1 {window}");
                vec![format!("send {shape}"), format!("receive {shape}")]
            }
            Test::Bibw => vec![format!("exchange {shape} {window}")],
            Test::Barrier => vec![format!("barrier {count}")],
            test => vec![format!("{} {shape}", test.name())],
        };
        let said = match &mut self.ends {
            Ends::Processes(members) => members.carry_out(&orders)?,
            Ends::Hosts(hosts) => hosts.carry_out(&orders)?,
            Ends::Memory(_) => Vec::new(),
        };
        let times =
            said.iter().step_by(orders.len()).map(|said| number(said)).collect::<Result<Vec<f64>>>()?;
        let longest = times.iter().copied().fold(0.0, f64::max);
        let (pairs, count) = (self.pairs as f64, count as f64);
        Ok(match self.test {
            Test::Bibw => Reading::of(&[longest / (2.0 * count)]),
            Test::Bw | Test::Mr => Reading::of(&[longest / (pairs * count)]),
            _ => Reading::of(&times),
        })
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
