//! `intr`: round trips of interrupts between two nodes, with both sides awake and with both asleep.
//!
//! Half a round trip is what the classic program calls the unidirectional time. If both ends are
//! threads of this process, the wake-up of a sleeper is also timed one way, by the counter that
//! both processors share. The figures are compared with what the machine allows: the round trip of
//! a cache line, and of the bare futex and eventfd with both sides asleep; between hosts with libfabric's own
//! messages.

mod between_hosts;
mod echo;
mod report;

use std::{cell::RefCell, sync::Arc, time::Instant};

pub use echo::Mode;
use echo::{Course, PAUSE_NS_MAX, Process, ROUNDS_MAX, TASK_ECHO, Thread, answer};
pub use report::{Figure, Report};
use tieline::{Interrupt, InterruptNo, InterruptOptions, Node, NodeId};

use super::{
    attach::{CONNECT_TIMEOUT, Where, path_of},
    rendezvous::{self, Client, Order, ServeOptions, Service, Tool},
};
use crate::{
    baseline::{
        line::{FarThread, LineProbe, Lines},
        wake::one_way_ns,
    },
    env::{self, Env},
    error::{BenchError, Result},
    pinned_pair::{self, PinnedPair},
    progress::Progress,
    rivals::{
        Link,
        load::Load,
        ours::{Bells, bells},
        placement::Placement,
        wake,
    },
    stats::Samples,
    timer::Timer,
};

/// The options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes.
    pub place: Where,
    /// On which processors (a client uses the first for its end).
    pub placement: Placement,
    /// The number of readings of each value.
    pub readings: u32,
    /// Threads of competing load.
    pub load: usize,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Where::default(),
            placement: Placement::default(),
            readings: 31,
            load: 0,
            argv: Vec::new(),
        }
    }
}

impl Options {
    /// Checks what can be checked before anything is started, and returns the processors.
    pub fn check(&self) -> Result<[usize; 2]> {
        Load::check(self.load)?;
        if self.readings == 0 {
            return Err(BenchError::Usage("intr: 0 readings measure nothing".to_owned()));
        }
        self.placement.resolve("intr")
    }
}

/// The near ends of the two modes, and the far end that replies to them.
struct Ends<'a, 'env> {
    near: [Arc<Bells>; 2],
    far: Far<'a, 'env>,
}

enum Far<'a, 'env> {
    Threads([Arc<Bells>; 2], std::marker::PhantomData<&'env ()>),
    Process(&'a mut Client),
}

/// Measures with both ends in this process.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.check()?;
    let nodes = options.place.both()?;
    let bells = || -> Result<[Bells; 2]> {
        // Interrupts learn at their birth whether spinning can pay: not where both sides share a
        // processor.
        if cpus[0] == cpus[1] { pinned_pair::pinned(cpus[0], || bells(&nodes)) } else { bells(&nodes) }
    };
    let [near, far] = bells()?;
    // Others than those that are met awake: each learns for itself whether spinning pays.
    let [sleepy_near, sleepy_far] = bells()?;
    let ends = Ends {
        near: [Arc::new(near), Arc::new(sleepy_near)],
        far: Far::Threads([Arc::new(far), Arc::new(sleepy_far)], std::marker::PhantomData),
    };
    let ids = nodes.each_ref().map(|node| node.id().get());
    report(options, ids, cpus, path_of(&nodes[0]), ends, progress)
}

/// Measures with the far end in another process that runs [`serve`] on node `place.far` (which must
/// be given).
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.check()?;
    let mut mine = None;
    let mut client = Client::meet(&options.place, Tool::Intr, progress, |node| {
        let both = Inputs::new(node)?;
        let numbers = both.numbers();
        mine = Some(both);
        Ok(numbers)
    })?;
    let Some(mine) = mine else {
        return Err(BenchError::Usage("intr: no interrupts were made".to_owned()));
    };
    let near = mine.connect(&client.node, client.server, client.extra())?.map(Arc::new);
    let ids = [client.node.id().get(), client.server.get()];
    let path = client.path();
    let ends = Ends { near, far: Far::Process(&mut client) };
    let report = report(options, ids, cpus, path, ends, progress);
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = client.stop();
    report.and_then(|report| stopped.map(|()| report))
}

/// Serves one [`client`] until it is done or gone.
pub fn serve(options: &ServeOptions) -> Result<()> {
    let mine = RefCell::new(None);
    let lay_out = |node: &Node| {
        let both = Inputs::new(node)?;
        let numbers = both.numbers();
        *mine.borrow_mut() = Some(both);
        Ok(numbers)
    };
    let begin = |node: &Node, theirs: u64| match mine.borrow_mut().take() {
        Some(both) => {
            Ok(Answerer { timer: Timer::new()?, ends: both.connect(node, options.client, theirs)? })
        }
        None => Err(BenchError::Usage("intr: no interrupts were made".to_owned())),
    };
    rendezvous::serve(options, Tool::Intr, lay_out, begin)
}

/// The interrupts of one end, by mode.
struct Inputs([Interrupt; 2]);

impl Inputs {
    fn new(node: &Node) -> Result<Self> {
        let create = || node.create_interrupt(&InterruptOptions::default());
        Ok(Self([create()?, create()?]))
    }

    /// The numbers that the other end is to use.
    fn numbers(&self) -> u64 {
        let [awake, asleep] = self.0.each_ref().map(|interrupt| u64::from(interrupt.number().0));
        awake << 32 | asleep
    }

    fn connect(self, node: &Node, other: NodeId, theirs: u64) -> Result<[Bells; 2]> {
        let connect = |number: u64| {
            node.connect_interrupt(other, InterruptNo((number & 0xffff_ffff) as u32), CONNECT_TIMEOUT)
        };
        let [awake, asleep] = self.0;
        Ok([Bells::new(awake, connect(theirs >> 32)?), Bells::new(asleep, connect(theirs)?)])
    }
}

/// The server's part.
struct Answerer {
    timer: Timer,
    ends: [Bells; 2],
}

impl Service for Answerer {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        let [mode, rounds, pause_ns] = order.arguments;
        let mode = Mode::ALL.into_iter().find(|known| *known as u64 == mode);
        match (order.task, mode) {
            (TASK_ECHO, Some(mode)) if rounds < ROUNDS_MAX && pause_ns <= PAUSE_NS_MAX => {
                let pause = self.timer.ticks(pause_ns);
                answer(&self.ends[mode as usize], 0, rounds, pause).map(|()| rounds)
            }
            _ => Err(BenchError::Usage("no such order".to_owned())),
        }
    }
}

fn report(
    options: &Options,
    nodes: [u32; 2],
    cpus: [usize; 2],
    path: String,
    ends: Ends<'_, '_>,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let timer = Timer::new()?;
    let (started, steal) = (Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), 0);
    let processes = if matches!(ends.far, Far::Process(_)) { 2 } else { 1 };
    let lines = Lines::new();
    let load = Load::start(options.load)?;
    let (figures, partial) = pinned_pair::on(cpus, |pair| {
        let _watched = match &ends.far {
            Far::Process(client) => Some(client.watch()),
            Far::Threads(..) => None,
        };
        let figures = figures(options, &timer, pair, ends, &lines, progress)?;
        Ok((figures, progress.stop()))
    })?;
    let load_threads = load.threads();
    drop(load);
    env.finish(started, steal);
    Ok(Report {
        schema: Report::SCHEMA.to_owned(),
        env,
        nodes,
        cpus,
        processes,
        path,
        load_threads,
        partial,
        figures,
    })
}

fn figures<'env>(
    options: &Options,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    ends: Ends<'_, 'env>,
    lines: &'env Lines,
    progress: &mut dyn Progress,
) -> Result<Vec<Figure>> {
    let Ends { near, mut far } = ends;
    if let Far::Process(client) = &mut far
        && client.is_between_hosts()
    {
        return between_hosts::figures(options, timer, pair, &near, client, progress);
    }
    let mut figures = Vec::new();
    // On one processor the two sides are never awake at the same time, and neither can watch the
    // other fall asleep.
    let apart = pair.cpus[0] != pair.cpus[1];
    if apart {
        progress.tell("both sides awake", 0.0);
        figures.extend(awake(options, timer, pair, &near[0], &mut far, lines, progress)?);
    }
    if progress.stop() {
        return Ok(figures);
    }
    progress.tell("both sides asleep", 0.3);
    figures.extend(asleep(options, timer, pair, &near[1], &mut far, progress)?);
    if let (Far::Threads([_, far], _), true) = (&far, apart && !progress.stop()) {
        progress.tell("one way to a sleeper", 0.8);
        figures.push(one_way(options, timer, pair, &near[1], far, progress)?);
    }
    Ok(figures)
}

fn echo<'a, 'env>(timer: &Timer, far: &'a mut Far<'_, 'env>, mode: Mode) -> Box<dyn echo::Echo<'env> + 'a> {
    match far {
        Far::Threads(ends, _) => Box::new(Thread(Arc::clone(&ends[mode as usize]), *timer)),
        Far::Process(client) => Box::new(Process { client, mode }),
    }
}

fn awake<'env>(
    options: &Options,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    near: &Arc<Bells>,
    far: &mut Far<'_, 'env>,
    lines: &'env Lines,
    progress: &dyn Progress,
) -> Result<[Figure; 2]> {
    let mode = Mode::Spinning;
    let mut course = Course::new(timer, pair, mode, Arc::clone(near), echo(timer, far, mode))?;
    let words = lines.one();
    let mut line = LineProbe::new(timer, &mut FarThread { pair: &mut *pair, words }, words)?;
    let (mut ours, mut baseline, mut all) = (Vec::new(), Vec::new(), Samples::new(false)?);
    for reading in 0..options.readings {
        if reading > 0 && progress.stop() {
            break;
        }
        baseline.push(line.half_round_trip_ns(
            timer,
            &mut FarThread { pair: &mut *pair, words },
            Some(&mut all),
        )?);
        ours.push(course.half_ns(timer, pair)?);
    }
    let batch = line.batch();
    Ok([
        Figure::half(Figure::SPINNING, mode, &course.all, &ours, course.batch(), course.rounds),
        Figure::half("cache line, both looking", mode, &all, &baseline, batch, all.len() * u64::from(batch)),
    ])
}

fn asleep<'env>(
    options: &Options,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    near: &Arc<Bells>,
    far: &mut Far<'_, 'env>,
    progress: &dyn Progress,
) -> Result<[Figure; 3]> {
    let mode = Mode::Sleeping;
    let mut ours = Course::new(timer, pair, mode, Arc::clone(near), echo(timer, far, mode))?;
    let [near_end, far_end] = wake::futex().ends();
    let mut futex = Course::new(timer, pair, mode, near_end, Box::new(Thread(far_end, *timer)))?;
    let [near_end, far_end] = wake::event_fd()?.ends();
    let mut event_fd = Course::new(timer, pair, mode, near_end, Box::new(Thread(far_end, *timer)))?;
    let mut readings: [Vec<f64>; 3] = Default::default();
    for round in 0..options.readings as usize {
        if round > 0 && progress.stop() {
            break;
        }
        // Each is first, second and last equally often.
        for turn in 0..3 {
            let which = (round + turn) % 3;
            let ns = match which {
                0 => ours.half_ns(timer, pair)?,
                1 => futex.half_ns(timer, pair)?,
                _ => event_fd.half_ns(timer, pair)?,
            };
            readings[which].push(ns);
        }
    }
    Ok([
        Figure::half(Figure::SLEEPING, mode, &ours.all, &readings[0], 1, ours.rounds),
        Figure::half("futex, both asleep", mode, &futex.all, &readings[1], 1, futex.rounds),
        Figure::half("eventfd, both asleep", mode, &event_fd.all, &readings[2], 1, event_fd.rounds),
    ])
}

fn one_way<'env>(
    options: &Options,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    near: &Arc<Bells>,
    far: &Arc<Bells>,
    progress: &dyn Progress,
) -> Result<Figure> {
    let (mut all, mut readings) = (Samples::new(false)?, Vec::new());
    for reading in 0..options.readings {
        if reading > 0 && progress.stop() {
            break;
        }
        let (near, far) = (Arc::clone(near), Arc::clone(far));
        let ring = move |n: u32| near.send(u64::from(n));
        let sleep = move |n: u32| far.receive(u64::from(n));
        readings.push(one_way_ns(timer, pair, ring, sleep, Some(&mut all))?);
    }
    let rounds = all.len();
    Ok(Figure { one_way: true, ..Figure::half(Figure::ONE_WAY, Mode::Sleeping, &all, &readings, 1, rounds) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let none = Options { readings: 0, ..Options::default() };
        assert!(matches!(run(&none, &mut crate::progress::Quiet), Err(BenchError::Usage(_))));
        assert_eq!(echo::WHAT, Tool::Intr.name());
    }
}
