//! Figures of the C API, measured by a C program.

use super::{
    Context,
    catalogue::{Entry, Sisci},
    pair::{Pair, alone},
};
use crate::{
    baseline::Shape,
    error::Result,
    figure::{Figure, ReferenceKind, Spec},
    patterns::{
        pio::Placement,
        scipp::{duplex::Duplex, near::Near, sides::ScippSides},
        sisci::{Beside, Measurer, Orders, PingPong},
    },
    pinned_pair,
    run::BlockPlan,
    verdict::Goal,
};

/// How both sides of the ping-pong take a reading: whether what happens between two samples counts
/// makes a tenth and more.
const SHAPE: Shape = Shape { warm_up: 32, samples: 312, batch: 64 };
/// Round trips of such a reading.
const ROUNDS: u32 = SHAPE.warm_up + SHAPE.samples * SHAPE.batch;
/// Bytes of a copy, and copies of one reading, of which the fastest counts.
const COPY_BYTES: u64 = 1 << 20;
const COPIES: u64 = 20;
/// Calls, and connections, of one reading.
const CALLS: u64 = 20_000;
const CONNECTS: u64 = 25;
/// Segment ids that people seldom choose, and how many a pair of processes takes.
const IDS_FROM: u32 = 0x5153_0000;
const IDS_EACH: u32 = 0x1000;

pub(super) fn measure(context: &mut Context<'_>, pair: &Pair, entry: &Entry, what: Sisci) -> Result<Figure> {
    match what {
        Sisci::PingPong { at_most } => ping_pong(context, pair, entry, at_most),
        Sisci::Copy { dma, goal } => copy(context, pair, entry, dma, goal),
        Sisci::Call { at_most } => fixed(context, pair, entry, ("call", CALLS), ("ns", at_most), |ns| ns),
        Sisci::Connect { at_most } => {
            fixed(context, pair, entry, ("connect", CONNECTS), ("us", at_most), |ns| ns / 1e3)
        }
        Sisci::Scale { at_most } => scale(context, pair, entry, at_most),
    }
}

/// Starts a pair of processes; several pairs take different numbers.
fn start(pair: &Pair, number: u32) -> Result<Measurer> {
    let [near, far] = &pair.nodes;
    let ids = IDS_FROM + number * IDS_EACH;
    Measurer::start(&pair.place, [near.id().get(), far.id().get()], pair.cpus, ids)
}

fn rival(context: &Context<'_>) -> BlockPlan {
    BlockPlan::against_rival(context.options.max_time, context.options.seed)
}

fn spec(pair: &Pair, entry: &Entry, unit: &'static str, goal: Goal, reference: &str) -> Spec {
    let mut spec = pair.spec(entry, unit, goal);
    spec.kind = ReferenceKind::Rival;
    spec.reference = reference.to_owned();
    spec.argv = alone(entry.id);
    spec
}

fn ping_pong(context: &mut Context<'_>, pair: &Pair, entry: &Entry, at_most: f64) -> Result<Figure> {
    let timer = context.timer;
    let plan = rival(context);
    let mut measurer = start(pair, 0)?;
    let duplex = Duplex::new(&pair.nodes)?;
    let [there, back] = duplex.share()?;
    measurer.use_lines(there, back)?;
    let (near, far) = duplex.ends(Placement::Own)?;
    let near = Near::new(near)?;
    pinned_pair::on(pair.cpus, |threads| {
        let rust = ScippSides::new(&timer, threads, near, far, 4)?.shaped(SHAPE);
        let sides = PingPong::new(measurer, rust, ROUNDS);
        context.paired(&plan, sides, 2 * u64::from(ROUNDS), |_| {
            let mut spec = spec(pair, entry, "ns", Goal::at_most(at_most), "the same through the Rust API");
            spec.size_bytes = Some(4);
            spec.notes.push("each direction in the receiver's segment, as programs in C do it".to_owned());
            spec.notes.push(
                "both in the same cache lines: the C programs attach to the Rust API's segments".to_owned(),
            );
            spec.notes
                .push("each reading is the faster of two: a tight loop, and one with a pause".to_owned());
            spec
        })
    })
}

fn copy(context: &mut Context<'_>, pair: &Pair, entry: &Entry, dma: bool, goal: Goal) -> Result<Figure> {
    let plan = rival(context);
    let (ours, plain) = if dma { ("dma", "local") } else { ("copy", "plain") };
    let sides = Orders {
        measurer: start(pair, 0)?,
        ours: format!("{ours} {COPIES}"),
        beside: Beside::Order(format!("{plain} {COPIES}")),
        convert: |ns| COPY_BYTES as f64 / ns,
    };
    context.paired(&plan, sides, COPIES, |_| {
        let mut spec = spec(pair, entry, "GB/s", goal, "memcpy from and to the same memory");
        spec.size_bytes = Some(COPY_BYTES);
        spec.cpus.truncate(1);
        spec.version = crate::env::libc_version().unwrap_or_default();
        spec.notes.push(format!("a reading is the fastest of {COPIES} copies"));
        spec
    })
}

fn fixed(
    context: &mut Context<'_>,
    pair: &Pair,
    entry: &Entry,
    (order, count): (&str, u64),
    (unit, at_most): (&'static str, f64),
    convert: fn(f64) -> f64,
) -> Result<Figure> {
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    let sides = Orders {
        measurer: start(pair, 0)?,
        ours: format!("{order} {count}"),
        beside: Beside::Fixed(at_most),
        convert,
    };
    context.paired(&plan, sides, count, |_| {
        let mut spec = pair.spec(entry, unit, Goal::at_most(1.0));
        spec.kind = ReferenceKind::Fixed;
        spec.reference = format!("at most {at_most} {unit}");
        spec.argv.clear();
        spec.cpus.truncate(1);
        spec
    })
}

fn scale(context: &mut Context<'_>, pair: &Pair, entry: &Entry, at_most: f64) -> Result<Figure> {
    let plan = rival(context);
    let (mut full, empty) = (start(pair, 0)?, start(pair, 1)?);
    full.near("fill")?;
    let order = format!("cycle {CONNECTS}");
    let sides = Orders {
        measurer: full,
        ours: order.clone(),
        beside: Beside::Other(Box::new(empty), order),
        convert: |ns| ns / 1e3,
    };
    context.paired(&plan, sides, CONNECTS, |_| {
        let mut spec =
            spec(pair, entry, "us", Goal::at_most(at_most), "the same in a process that holds nothing");
        spec.cpus.truncate(1);
        spec
    })
}
