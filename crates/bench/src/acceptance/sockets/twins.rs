//! Figures of our own measuring program with rings.

use std::time::Duration;

use super::super::{Context, catalogue::Entry};
use crate::{
    cpus,
    error::{BenchError, Result},
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::programs::{
        share::Share,
        twins::{Idle, LINE_ROUNDS, Measure, Rates, Tails, Twin, with_ring},
    },
    run::{BlockPlan, Sides},
    stats::paired::Block,
    verdict::Goal,
};

const WHAT: &str = "a program at two processors";
/// Round trips of a reading for a tail: twenty of them are beyond 99.9 %.
const TAIL_ROUNDS: u32 = 20_000;
/// Round trips of a reading for a rate.
const ECHO_ROUNDS: u32 = 3000;
const REQUEST_ROUNDS: u32 = 1000;
const SHORT_ROUNDS: u32 = 500;
/// Idle connections, and how they are watched.
const IDLE: u32 = 10_000;
const WINDOWS: u32 = 4;
const WINDOW: Duration = Duration::from_secs(1);
/// The time of one reading of the plain program's round trips on two processors.
const SLOW_SECONDS: f64 = 0.6;

pub(super) fn measure(context: &mut Context<'_>, entry: &Entry, twin: Twin) -> Result<Figure> {
    match twin {
        Twin::Echo { size_bytes, goal } => echo(context, entry, size_bytes, goal),
        Twin::EchoTail { size_bytes, goal } => tail(context, entry, size_bytes, goal),
        Twin::OneCore { goal } => {
            let cpu = last_cpu()?;
            let note = "both ends on one processor; staying with the kernel is a way to keep this goal";
            rates(context, entry, (vec![[cpu; 2]], "echo", ECHO_ROUNDS), goal, Some(note))
        }
        Twin::Oversubscribed { goal } => {
            let cpus = cpus::pair(context.options.cpus, WHAT)?;
            let note =
                "four processes, two on each processor; staying with the kernel is a way to keep this goal";
            rates(context, entry, (vec![cpus; 2], "echo", ECHO_ROUNDS), goal, Some(note))
        }
        Twin::Request { goal } => {
            let cpu = last_cpu()?;
            let note =
                "both ends on one processor, where no wake-up of another hides what a connection costs";
            rates(context, entry, (vec![[cpu; 2]], "request", REQUEST_ROUNDS), goal, Some(note))
        }
        Twin::Short { messages, size_bytes, goal } => {
            let cpu = last_cpu()?;
            let order = format!("short {messages} {size_bytes}");
            let note =
                "both ends on one processor; staying with the kernel for as long is a way to keep this goal";
            rates(context, entry, (vec![[cpu; 2]], &order, SHORT_ROUNDS), goal, Some(note))
        }
        Twin::IdleTime { at_most } => idle_time(context, entry, at_most),
        Twin::IdleMemory { at_most } => idle_memory(context, entry, at_most),
    }
}

fn last_cpu() -> Result<usize> {
    Ok(cpus::allowed()?.last().copied().unwrap_or(0))
}

fn spec(entry: &Entry, unit: &'static str, goal: Goal, cpus: Vec<usize>) -> Spec {
    let mut spec = super::spec(entry, unit, goal, cpus);
    spec.path = "rings".to_owned();
    spec.reference = "the same program on the plain kernel".to_owned();
    spec
}

/// Measures the program with rings, compared with the lines of its own ring.
struct Echo {
    ours: Measure,
    size_bytes: u32,
}

impl Sides for Echo {
    fn ours(&mut self) -> Result<f64> {
        self.ours.latency(self.size_bytes, TAIL_ROUNDS).map(|both| both.median_ns)
    }

    fn reference(&mut self) -> Result<f64> {
        self.ours.line_ns(LINE_ROUNDS)
    }
}

fn echo(context: &mut Context<'_>, entry: &Entry, size_bytes: u32, goal: Goal) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    let ours = with_ring(cpus, &context.progress.waiter())?;
    let mut share = Ok(Share::default());
    let figure = context.paired(&plan, Echo { ours, size_bytes }, TAIL_ROUNDS.into(), |sides| {
        share = share_of(&sides.ours);
        let mut spec = spec(entry, "ns", goal, cpus.to_vec());
        spec.kind = ReferenceKind::Baseline;
        spec.size_bytes = Some(size_bytes.into());
        spec.reference = "half the round trip of the ring's own two cache lines".to_owned();
        spec.argv.clear();
        spec.version.clear();
        spec.notes
            .push("write and read, which wait; each round trip begins where the one before ended".to_owned());
        spec.notes.push(
            "reference: both ends count in the lines in which the messages travel, one for each direction"
                .to_owned(),
        );
        spec
    })?;
    Ok(figure.with_rings(share?.part()))
}

fn share_of(measure: &Measure) -> Result<Share> {
    let mut share = Share::default();
    measure.add_to(&mut share)?;
    Ok(share)
}

fn tail(context: &mut Context<'_>, entry: &Entry, size_bytes: u32, goal: Goal) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
    let plan = super::programs::plan(context, plan, SLOW_SECONDS, 3.0);
    let start = |rings| Measure::start(cpus, rings, context.progress.waiter());
    let sides = Tails { ours: start(true)?, plain: start(false)?, size_bytes, rounds: TAIL_ROUNDS };
    let mut share = Ok(Share::default());
    let figure = context.paired(&plan, sides, TAIL_ROUNDS.into(), |sides| {
        share = share_of(&sides.ours);
        let mut spec = spec(entry, "ns", goal, cpus.to_vec());
        spec.size_bytes = Some(size_bytes.into());
        spec.notes.push(format!(
            "ours: half the time within which 99.9 % of {TAIL_ROUNDS} round trips end; reference: the plain program's median"
        ));
        spec
    })?;
    Ok(figure.with_rings(share?.part()))
}

fn rates(
    context: &mut Context<'_>,
    entry: &Entry,
    (places, order, rounds): (Vec<[usize; 2]>, &str, u32),
    goal: Goal,
    note: Option<&str>,
) -> Result<Figure> {
    let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
    let plan = BlockPlan { half_width: plan.half_width, ..super::programs::plan(context, plan, 0.1, 3.0) };
    let mut cpus = places.concat();
    cpus.sort_unstable();
    cpus.dedup();
    let samples = u64::from(rounds) * places.len() as u64;
    let sides = Rates::start(places, order, rounds, context.progress.waiter())?;
    let mut share = Ok(Share::default());
    let mut figure = context.paired(&plan, sides, samples, |sides| {
        share = sides.share();
        let mut spec = spec(entry, "M/s", goal, cpus);
        spec.notes.extend(note.map(ToOwned::to_owned));
        spec
    })?;
    figure.notes.push(format!("{:.1} % of the bytes went through rings", share?.part() * 100.0));
    Ok(figure)
}

fn opened(idle: &Idle) -> Result<String> {
    let fewer = "; more descriptors are not allowed here (`ulimit -Hn`)";
    Ok(format!(
        "{} connections within one machine, both ends, 1,024 of them used 600 times before and the others 32 times; {:.1} % of those bytes went through rings{}",
        idle.connections,
        idle.share()?.part() * 100.0,
        if idle.connections < IDLE { fewer } else { "" }
    ))
}

fn idle_time(context: &mut Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    let idle = Idle::start(cpus, true, IDLE, context.progress.waiter())?;
    let mut blocks = Vec::new();
    for _ in 0..WINDOWS {
        if context.progress.stop() {
            return Err(BenchError::Stopped { what: entry.id });
        }
        blocks.push(Block { ours: idle.ms_a_minute(WINDOW)?, reference: at_most });
    }
    let mut spec = spec(entry, "ms/min", Goal::at_most(1.0), cpus.to_vec());
    spec.notes.push(opened(&idle)?);
    spec.notes.push(format!("both processes together; the most of {WINDOWS} windows of a second, scaled to a minute: 600 ms are 1 % of a processor"));
    fixed(context, spec, at_most, blocks)
}

fn idle_memory(context: &mut Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    let start = |rings| Idle::start(cpus, rings, IDLE, context.progress.waiter());
    // One after the other: both at once would need twice the descriptors.
    let plain = {
        let plain = start(false)?;
        plain.kilobytes()? / f64::from(plain.connections.max(1))
    };
    let idle = start(true)?;
    let ours = idle.kilobytes()? / f64::from(idle.connections.max(1));
    let mut spec = spec(entry, "kB", Goal::at_most(1.0), cpus.to_vec());
    spec.notes.push(opened(&idle)?);
    spec.notes.push(format!(
        "proportional memory of both processes by connections: {ours:.2} kB with rings, {plain:.2} kB plain; what the kernel has for \
         a connection is not in it"
    ));
    fixed(context, spec, at_most, vec![Block { ours: (ours - plain).max(0.0), reference: at_most }])
}

/// A reading compared with the number of the goal.
fn fixed(context: &Context<'_>, mut spec: Spec, at_most: f64, blocks: Vec<Block>) -> Result<Figure> {
    spec.stat = Stat::Max;
    spec.kind = ReferenceKind::Fixed;
    spec.reference = format!("at most {at_most} {}", spec.unit);
    spec.argv.clear();
    spec.version.clear();
    super::super::managers::figure(spec, blocks, context.options.seed)
}
