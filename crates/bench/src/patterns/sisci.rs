//! The C API, measured by a C program: two processes, one on each node, that carry out orders.
//!
//! The program is `examples/sisci/measure.c`, which `./run build` puts next to `tieline`. It sleeps
//! between two orders, so that the reference can be measured in the same run, on the same
//! processors.

use std::process::Command;

use tieline::SegmentId;

use crate::{
    error::{BenchError, Result},
    patterns::{
        attach::Where,
        child_driver::{self, ChildDriver},
        pio,
    },
    poll::Poll,
    run::Sides,
};

/// Name of the program.
pub const PROGRAM: &str = "tieline-sisci-measure";
const WHAT: &str = "the C API";
/// The offset of the C program's word in the line of a place: the Rust API's messages of this size
/// do not reach it.
const WORD_OFFSET: usize = 32;

/// Starts one of the two processes; `command` runs the program.
fn start(
    mut command: Command,
    place: &Where,
    [node, peer]: [u32; 2],
    cpu: usize,
    ids: u32,
) -> Result<ChildDriver> {
    command.args([peer.to_string(), cpu.to_string(), ids.to_string()]).env("TIELINE_NODE", node.to_string());
    if let Some(dir) = &place.runtime_dir {
        command.env("TIELINE_RUNTIME_DIR", dir);
    }
    if let Some(cluster) = &place.cluster {
        command.env("TIELINE_CLUSTER", cluster);
    }
    ChildDriver::start(command, PROGRAM, WHAT)
}

/// Runs the program on this host.
fn here() -> Result<Command> {
    Ok(Command::new(child_driver::find(PROGRAM, WHAT)?))
}

/// Runs it on a host in a namespace, where its maps of segments of other hosts are shadows.
fn on_host(host: usize) -> Result<Command> {
    let own = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
    let mut command = Command::new(own);
    command.arg("on").arg(format!("host{host}")).arg("--").arg(child_driver::find(PROGRAM, WHAT)?);
    command.env("TIELINE_SISCI_SHADOW", "1");
    Ok(command)
}

/// The two processes.
#[derive(Debug)]
pub struct Measurer {
    near: ChildDriver,
    far: ChildDriver,
}

impl Measurer {
    /// Starts both, and waits until they are connected. They take segment ids from `ids` on, some
    /// thousand.
    pub fn start(place: &Where, nodes: [u32; 2], cpus: [usize; 2], ids: u32) -> Result<Self> {
        Self::start_by([here()?, here()?], place, nodes, cpus, ids)
    }

    /// The same on the first two hosts of a cluster of hosts in namespaces, with shadow maps.
    pub fn start_on_hosts(place: &Where, nodes: [u32; 2], cpus: [usize; 2], ids: u32) -> Result<Self> {
        Self::start_by([on_host(1)?, on_host(2)?], place, nodes, cpus, ids)
    }

    fn start_by(
        [near_by, far_by]: [Command; 2],
        place: &Where,
        [near, far]: [u32; 2],
        cpus: [usize; 2],
        ids: u32,
    ) -> Result<Self> {
        let mut both = Self {
            near: start(near_by, place, [near, far], cpus[0], ids)?,
            far: start(far_by, place, [far, near], cpus[1], ids)?,
        };
        both.near.ready()?;
        both.far.ready()?;
        Ok(both)
    }

    /// Returns the near process's reply to an order.
    pub fn near(&mut self, order: &str) -> Result<f64> {
        self.near.say(order)?;
        self.near.number()
    }

    /// Makes round trips use these segments, which must be shared with the programs of their nodes:
    /// `there` of the far node, `back` of the near one. What a line costs depends on where it lies,
    /// so both sides of a comparison use the same.
    pub fn use_lines(&mut self, there: SegmentId, back: SegmentId) -> Result<()> {
        let (SegmentId(there), SegmentId(back)) = (there, back);
        self.far.say(&format!("lines {there} {back}"))?;
        self.near(&format!("lines {back} {there}"))?;
        self.far.number().map(drop)
    }

    /// Sets the way in which both wait.
    fn poll(&mut self, poll: Poll) -> Result<()> {
        let order = if poll == Poll::Paused { "paused" } else { "tight" };
        self.far.say(order)?;
        self.near(order)?;
        self.far.number().map(drop)
    }

    /// Half a round trip between the two, in ns, at one of the places.
    pub fn half_round_trip_ns(&mut self, rounds: u32, place: usize) -> Result<f64> {
        let at = pio::line_offset(place) + WORD_OFFSET;
        self.far.say(&format!("echo {rounds} {at}"))?;
        self.near.say(&format!("ping {rounds} {at}"))?;
        let half_ns = self.near.number()?;
        self.far.number()?;
        Ok(half_ns)
    }
}

/// Round trips whose way of waiting is set from outside.
pub trait SetPoll: Sides {
    /// Makes both ends wait in this way.
    fn set_poll(&mut self, poll: Poll);
}

/// The C program's round trips, compared with those of the Rust API.
///
/// Each reading of either is the faster of the two ways to wait. Which one that is depends on where
/// the processors and the lines are at the moment: one that was chosen in advance by each side would
/// decide the comparison.
#[derive(Debug)]
pub struct PingPong<R> {
    measurer: Measurer,
    rust: R,
    rounds: u32,
    place: usize,
}

impl<R: SetPoll> PingPong<R> {
    /// `rounds` round trips a reading; what `rust` calls ours is the reference.
    pub fn new(measurer: Measurer, rust: R, rounds: u32) -> Self {
        Self { measurer, rust, rounds, place: 0 }
    }
}

impl<R: SetPoll> Sides for PingPong<R> {
    fn next_block(&mut self, number: usize) -> Result<()> {
        self.place = number % pio::PLACES;
        self.rust.next_block(number)
    }

    fn ours(&mut self) -> Result<f64> {
        faster(|poll| {
            self.measurer.poll(poll)?;
            self.measurer.half_round_trip_ns(self.rounds, self.place)
        })
    }

    fn reference(&mut self) -> Result<f64> {
        faster(|poll| {
            self.rust.set_poll(poll);
            self.rust.ours()
        })
    }
}

/// The reading of the way to wait that is faster.
fn faster(mut reading: impl FnMut(Poll) -> Result<f64>) -> Result<f64> {
    let [tight, paused] = Poll::SPINNING;
    Ok(reading(tight)?.min(reading(paused)?))
}

/// The reference of an order.
#[derive(Debug)]
pub enum Beside {
    /// Another order to the same program.
    Order(String),
    /// An order to another pair of processes.
    Other(Box<Measurer>, String),
    /// A number.
    Fixed(f64),
}

/// An order, compared with a reference.
#[derive(Debug)]
pub struct Orders {
    /// The program that carries it out.
    pub measurer: Measurer,
    /// The order that is measured.
    pub ours: String,
    /// The reference.
    pub beside: Beside,
    /// Converts the nanoseconds of the reply to the figure's unit, on both sides unless the
    /// reference is fixed.
    pub convert: fn(f64) -> f64,
}

impl Sides for Orders {
    fn ours(&mut self) -> Result<f64> {
        self.measurer.near(&self.ours).map(self.convert)
    }

    fn reference(&mut self) -> Result<f64> {
        match &mut self.beside {
            Beside::Order(order) => self.measurer.near(order).map(self.convert),
            Beside::Other(measurer, order) => measurer.near(order).map(self.convert),
            Beside::Fixed(value) => Ok(*value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_of_the_way_to_wait_that_is_faster_at_the_moment() {
        let of = |tight: f64, paused: f64| {
            faster(|poll| Ok(if poll == Poll::Tight { tight } else { paused })).unwrap()
        };
        assert_eq!(of(51.0, 31.0), 31.0);
        assert_eq!(of(26.0, 31.0), 26.0);
        let gone = |_| Err(BenchError::Usage("gone".into()));
        assert!(faster(gone).is_err(), "a side that is gone is no reading");
    }
}
