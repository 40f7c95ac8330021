//! Our own socket program, `examples/sockets/measure.c`, with rings and on the plain kernel in
//! turn.

use std::{
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use sockets_rules::{ENV_LIBRARY, launch, statistics};

use super::{absent, entered, room::Room, share::Share};
use crate::{
    error::{BenchError, Result},
    patterns::{
        child_driver::{self, ChildDriver},
        manager::{cpu_time_ns, pss_bytes},
        sockets::PROGRAM,
    },
    progress::Waiter,
    run::Sides,
    verdict::Goal,
};

const WHAT: &str = "our own program on sockets";
/// Longest that one order may take: ten thousand connections take some seconds.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);
/// Round trips of a reading of a ring's lines, for each way to poll.
pub const LINE_ROUNDS: u32 = 10_000;
/// After this number of blocks all programs are started again: the places of their memory shift a
/// ratio for as long as they live.
const BLOCKS_OF_A_LIFE: usize = 5;

/// The measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Twin {
    /// The median of half a round trip on two processors, compared with that of the cache lines of
    /// the connection's own ring.
    Echo {
        /// Bytes of a message.
        size_bytes: u32,
        /// The goal of the ratio.
        goal: Goal,
    },
    /// The 99.9th percentile of half a round trip, compared with the plain program's median.
    EchoTail {
        /// Bytes of a message.
        size_bytes: u32,
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Round trips a second, both ends on one processor.
    OneCore {
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Those of two pairs at once on two processors.
    Oversubscribed {
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Connections a second, with a request and its response on each.
    Request {
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Connections a second on which the other end sends some messages.
    Short {
        /// The number of messages.
        messages: u32,
        /// Bytes of each.
        size_bytes: u32,
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Processor time of idle connections, in ms a minute at most.
    IdleTime {
        /// The limit, in ms a minute.
        at_most: f64,
    },
    /// Memory of an idle connection beyond the plain program's, in kB at most.
    IdleMemory {
        /// The limit, in kB.
        at_most: f64,
    },
}

/// Half round trips of one reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Median, in ns.
    pub median_ns: f64,
    /// 99.9 %, in ns.
    pub tail_ns: f64,
}

/// The program once.
pub struct Measure {
    child_driver: ChildDriver,
    waiter: Arc<dyn Waiter>,
    /// The file of its statistics, if it has rings.
    counted: Option<PathBuf>,
    /// Last: the folder is removed after the processes that use it.
    _room: Room,
}

impl Measure {
    /// Starts it: near ends on the first processor, far ends on the second.
    pub fn start(cpus: [usize; 2], rings: bool, waiter: Arc<dyn Waiter>) -> Result<Self> {
        let program = child_driver::find(PROGRAM, WHAT)?;
        let arguments = cpus.map(|cpu| cpu.to_string());
        let room = Room::new()?;
        let mut command = Command::new(&program);
        command.args(&arguments).env_remove("LD_PRELOAD");
        let mut counted = None;
        if rings {
            let own = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
            let library =
                launch::library(std::env::var_os(ENV_LIBRARY).as_deref(), &[own]).map_err(absent)?;
            let path = room.path().join("statistics");
            statistics::create(&path, true).map_err(absent)?;
            command.envs(entered(&program, &arguments, &launch::counted(&library, &path, true))?);
            counted = Some(path);
        }
        let mut all =
            Self { child_driver: ChildDriver::start(command, PROGRAM, WHAT)?, waiter, counted, _room: room };
        all.expect("ready")?;
        all.child_driver.say("inside libtieline")?;
        all.expect(if rings { "1" } else { "0" })?;
        Ok(all)
    }

    fn line(&mut self) -> Result<String> {
        self.child_driver.line_within(ORDER_TIMEOUT, &self.waiter)
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        let said = self.line()?;
        if said == wanted { Ok(()) } else { Err(other(format!("it said `{said}` instead of `{wanted}`"))) }
    }

    fn numbers(&mut self) -> Result<[f64; 2]> {
        let line = self.line()?;
        two_numbers(&line).ok_or_else(|| other(format!("it said `{line}` instead of two numbers")))
    }

    /// Runs this number of round trips of this size.
    pub fn latency(&mut self, size_bytes: u32, rounds: u32) -> Result<Latency> {
        self.child_driver.say(&format!("latency {size_bytes} {rounds}"))?;
        self.numbers().map(|[median_ns, tail_ns]| Latency { median_ns, tail_ns })
    }

    /// Half a round trip in the cache lines in which the messages of that connection travel, in ns:
    /// the lower median of two ways to poll, each with this number of round trips. An error if the
    /// connection has no ring.
    pub fn line_ns(&mut self, rounds: u32) -> Result<f64> {
        self.child_driver.say(&format!("lines {rounds}"))?;
        self.numbers().map(|[at_once_ns, paused_ns]| at_once_ns.min(paused_ns))
    }

    /// Opens this number of connections, or as many as are possible; returns their number, and the
    /// process that has their other ends.
    pub fn idle(&mut self, connections: u32) -> Result<(u32, u32)> {
        self.child_driver.say(&format!("idle {connections}"))?;
        self.numbers().map(|[opened, other]| (opened as u32, other as u32))
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.child_driver.id()
    }

    /// Adds what it and its other ends have counted until now.
    pub fn add_to(&self, share: &mut Share) -> Result<()> {
        self.counted.as_deref().map_or(Ok(()), |path| share.add(path))
    }
}

/// The cache lines of a ring of this program, as the baseline of other programs.
pub struct RingLines {
    measure: Measure,
    cpus: [usize; 2],
    waiter: Arc<dyn Waiter>,
}

impl RingLines {
    /// Starts the program between these processors.
    pub fn start(cpus: [usize; 2], waiter: Arc<dyn Waiter>) -> Result<Self> {
        let measure = with_ring(cpus, &waiter)?;
        Ok(Self { measure, cpus, waiter })
    }

    /// Another ring now and then: what a line costs depends on its address.
    pub fn next_block(&mut self, number: usize) -> Result<()> {
        if number > 0 && number.is_multiple_of(BLOCKS_OF_A_LIFE) {
            self.measure = with_ring(self.cpus, &self.waiter)?;
        }
        Ok(())
    }

    /// Half a round trip in them, in ns.
    pub fn half_round_trip_ns(&mut self) -> Result<f64> {
        self.measure.line_ns(LINE_ROUNDS)
    }
}

/// The program, whose first connection has got its ring.
pub fn with_ring(cpus: [usize; 2], waiter: &Arc<dyn Waiter>) -> Result<Measure> {
    let mut measure = Measure::start(cpus, true, Arc::clone(waiter))?;
    measure.latency(1, LINE_ROUNDS)?;
    Ok(measure)
}

fn other(reason: String) -> BenchError {
    BenchError::OtherEnd { what: WHAT, reason }
}

/// A line of exactly two positive numbers.
fn two_numbers(line: &str) -> Option<[f64; 2]> {
    let mut words =
        line.split_whitespace().map(|word| word.parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0));
    let both = [words.next()??, words.next()??];
    words.next().is_none().then_some(both)
}

/// The program with rings, once or several times at once, and the same plain: how much they do in a
/// second.
pub struct Rates {
    ours: Vec<Measure>,
    plain: Vec<Measure>,
    places: Vec<[usize; 2]>,
    waiter: Arc<dyn Waiter>,
    order: String,
    share: Share,
}

impl Rates {
    /// One program a place, all of which are given the order at once.
    pub fn start(places: Vec<[usize; 2]>, order: &str, rounds: u32, waiter: Arc<dyn Waiter>) -> Result<Self> {
        let order = format!("{order} {rounds}");
        let (ours, plain) = (start_all(&places, true, &waiter)?, start_all(&places, false, &waiter)?);
        Ok(Self { ours, plain, places, waiter, order, share: Share::default() })
    }

    /// The share of the bytes that went through rings so far.
    pub fn share(&self) -> Result<Share> {
        let mut share = self.share;
        self.ours.iter().try_for_each(|one| one.add_to(&mut share))?;
        Ok(share)
    }
}

fn start_all(places: &[[usize; 2]], rings: bool, waiter: &Arc<dyn Waiter>) -> Result<Vec<Measure>> {
    places.iter().map(|cpus| Measure::start(*cpus, rings, Arc::clone(waiter))).collect()
}

/// Millions a second of all together.
fn rate(all: &mut [Measure], order: &str) -> Result<f64> {
    all.iter_mut().try_for_each(|one| one.child_driver.say(order))?;
    let mut millions = 0.0;
    for one in all {
        let line = one.line()?;
        let ns: f64 = line.parse().map_err(|_| other(format!("`{line}` is not a number")))?;
        millions += 1e3 / ns;
    }
    Ok(millions)
}

impl Sides for Rates {
    fn next_block(&mut self, number: usize) -> Result<()> {
        if number > 0 && number.is_multiple_of(BLOCKS_OF_A_LIFE) {
            self.share = self.share()?;
            self.ours = start_all(&self.places, true, &self.waiter)?;
            self.plain = start_all(&self.places, false, &self.waiter)?;
        }
        Ok(())
    }

    fn ours(&mut self) -> Result<f64> {
        rate(&mut self.ours, &self.order)
    }

    fn reference(&mut self) -> Result<f64> {
        rate(&mut self.plain, &self.order)
    }
}

/// The 99.9th percentile of ours, compared with the median of the plain program.
pub struct Tails {
    /// With rings.
    pub ours: Measure,
    /// Without rings.
    pub plain: Measure,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Round trips of a reading.
    pub rounds: u32,
}

impl Sides for Tails {
    fn ours(&mut self) -> Result<f64> {
        self.ours.latency(self.size_bytes, self.rounds).map(|both| both.tail_ns)
    }

    fn reference(&mut self) -> Result<f64> {
        self.plain.latency(self.size_bytes, self.rounds).map(|both| both.median_ns)
    }
}

/// Connections on which nothing happens, and both processes that have them.
pub struct Idle {
    processes: [u32; 2],
    /// The number of connections.
    pub connections: u32,
    measure: Measure,
}

impl Idle {
    /// Opens and uses them, and lets everything settle.
    pub fn start(cpus: [usize; 2], rings: bool, connections: u32, waiter: Arc<dyn Waiter>) -> Result<Self> {
        let mut measure = Measure::start(cpus, rings, waiter)?;
        let (opened, other) = measure.idle(connections)?;
        std::thread::sleep(SETTLE);
        Ok(Self { processes: [measure.id(), other], connections: opened, measure })
    }

    /// Processor time that both use, in ms a minute, over a window.
    pub fn ms_a_minute(&self, window: Duration) -> Result<f64> {
        let used =
            || self.processes.iter().try_fold(0, |sum, pid| Ok::<u64, BenchError>(sum + cpu_time_ns(*pid)?));
        let (before, began) = (used()?, Instant::now());
        std::thread::sleep(window);
        let after = used()?;
        Ok(after.saturating_sub(before) as f64 / began.elapsed().as_nanos().max(1) as f64 * 60_000.0)
    }

    /// The share of the bytes that went through rings: a connection without rings costs nothing.
    pub fn share(&self) -> Result<Share> {
        let mut share = Share::default();
        self.measure.add_to(&mut share)?;
        Ok(share)
    }

    /// Proportional memory of both, in kB.
    pub fn kilobytes(&self) -> Result<f64> {
        let bytes =
            self.processes.iter().try_fold(0, |sum, pid| Ok::<u64, BenchError>(sum + pss_bytes(*pid)?))?;
        Ok(bytes as f64 / 1e3)
    }
}

/// After the last use of a connection its reader may still spin for more.
const SETTLE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_numbers() {
        assert_eq!(two_numbers("261.1 2703.3"), Some([261.1, 2703.3]));
        assert_eq!(two_numbers("10000 9736"), Some([10_000.0, 9736.0]));
        for wrong in ["", "261.1", "261.1 x", "1 2 3", "0 1", "1 -2", "nan 1", "1 inf"] {
            assert_eq!(two_numbers(wrong), None, "{wrong}");
        }
    }
}
