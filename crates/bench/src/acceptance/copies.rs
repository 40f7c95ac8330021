//! Figures of copies by the plan of this process, and of measuring such a plan.

use super::{
    Context,
    catalogue::{Copies, Entry},
    pair::alone,
};
use crate::{
    error::{BenchError, Result},
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::copies::{self, Cell, Worst},
    pinned_pair,
    stats::paired::Block,
    verdict::Goal,
};

/// Plans that are measured for their time.
const PLANS: usize = 5;
/// The number of cells that a note lists.
const LISTED: usize = 8;

pub(super) fn measure(context: &mut Context<'_>, entry: &Entry, what: Copies, cpu: usize) -> Result<Figure> {
    let seed = context.options.seed;
    let progress = &mut *context.progress;
    let figure = |spec: Spec, n: u64, blocks: Vec<Block>| {
        let id = spec.id.clone();
        Figure::of(spec, n, blocks, Vec::new(), seed).ok_or(BenchError::NoBlocks { id })
    };
    match what {
        Copies::Worst { goal } => {
            let worst = pinned_pair::pinned(cpu, move || copies::worst(seed, &|| progress.stop()))?;
            let cell = worst.cell();
            let gb_s = |ns: f64| cell.bytes as f64 / ns;
            // The reference by the end of the interval that is nearest to the goal: only a whole
            // interval below it fails.
            let block =
                Block { ours: gb_s(cell.memcpy_ns) * cell.ratio.high, reference: gb_s(cell.memcpy_ns) };
            figure(worst_spec(entry, cpu, goal, &worst), worst.readings, vec![block])
        }
        Copies::TuneTime { at_most } => {
            let seconds = pinned_pair::pinned(cpu, || {
                (0..PLANS).map(|_| copies::tune_s()).collect::<Result<Vec<_>>>()
            })?;
            let blocks = seconds.iter().map(|ours| Block { ours: *ours, reference: at_most }).collect();
            let mut spec = spec(entry, "s", cpu, Goal::at_most(1.0));
            spec.kind = ReferenceKind::Fixed;
            spec.reference = format!("at most {at_most} s");
            spec.argv.clear();
            spec.notes
                .push(format!("the longest of {PLANS} measurements, with the allocation of their memory"));
            figure(spec, PLANS as u64, blocks)
        }
        Copies::TuneRepeat { goal } => {
            let repeat = pinned_pair::pinned(cpu, move || copies::repeat(&|| progress.stop()))?;
            let mut spec = spec(entry, "ns", cpu, goal);
            spec.kind = ReferenceKind::Rival;
            spec.reference = "the same size by the other plan, the faster of both".to_owned();
            spec.size_bytes = Some(repeat.bytes as u64);
            spec.notes.push(format!(
                "{} of {} sizes got another kernel; for these both kernels were timed in turn, and the result \
                 is the geometric mean over hot and cold bytes",
                repeat.differ, repeat.sizes
            ));
            let block = Block { ours: repeat.slower_ns, reference: repeat.faster_ns };
            figure(spec, repeat.readings, vec![block])
        }
    }
}

fn spec(entry: &Entry, unit: &'static str, cpu: usize, goal: Goal) -> Spec {
    Spec {
        id: entry.id.to_owned(),
        unit,
        stat: Stat::Max,
        size_bytes: None,
        cpus: vec![cpu],
        path: "none".to_owned(),
        kind: ReferenceKind::Rival,
        reference: String::new(),
        version: crate::env::libc_version().unwrap_or_default(),
        argv: alone(entry.id),
        goal,
        distribution: None,
        notes: vec![entry.what.to_owned()],
    }
}

fn worst_spec(entry: &Entry, cpu: usize, goal: Goal, worst: &Worst) -> Spec {
    let mut spec = spec(entry, "GB/s", cpu, goal);
    let cell = worst.cell();
    spec.size_bytes = Some(cell.bytes as u64);
    spec.reference = format!("memcpy of {}", cell.place());
    let comparisons = worst.cells.len();
    spec.notes.push(format!(
        "{comparisons} comparisons; their intervals hold together with 95 % confidence. The ratio is the upper \
         end of the lowest interval: the goal is missed if a whole interval misses it"
    ));
    spec.notes.push(format!(
        "below {} bytes the reference is memcpy + {} ns",
        copies::SHORT_BYTES,
        copies::SHORT_NS
    ));
    let lowest: Vec<String> = worst.cells.iter().take(LISTED).map(Cell::to_text).collect();
    spec.notes.push(format!("the lowest: {}", lowest.join("; ")));
    let below = worst.cells.iter().filter(|cell| cell.median < goal.limit).count();
    spec.notes.push(format!("medians below {}: {below} of {comparisons}", goal.limit));
    spec
}
