//! Figures of commands on many hosts.

use super::{
    Context,
    catalogue::Entry,
    managers::{figure, spec},
};
use crate::{
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::fleet::{DEAD, DEAD_LIMIT, Fleet, Load},
    run::BlockPlan,
    stats::paired::Block,
    verdict::Goal,
};

/// A reading takes seconds: so many times as long as another figure may.
const TIMES: u32 = 200;
/// Runs with hosts that do not answer: each takes as long as the time-out. The longest counts.
const DEAD_RUNS: usize = 3;
/// What a run may take beyond the time-out, in s.
const BEYOND_S: f64 = 1.0;

pub(super) fn measure(context: &mut Context<'_>, entry: &Entry, load: Load, goal: Goal) -> Result<Figure> {
    let fleet = Fleet::start(load, context.progress.waiter())?;
    if load == Load::Dead {
        return dead(context, entry, &fleet);
    }
    // The first run connects where connections are kept; elsewhere it is a warm-up as any.
    fleet.seconds(true)?;
    let argv = fleet.words(false);
    let plan = BlockPlan {
        disturbed_above: 0.5,
        warm_up_blocks: 1,
        half_width: 0.02,
        ..BlockPlan::against_rival(context.options.max_time * TIMES, context.options.seed)
    };
    let hosts = load.hosts();
    context.paired(&plan, fleet, 1, |_| Spec {
        kind: ReferenceKind::Rival,
        reference: load.rival().to_owned(),
        argv,
        goal,
        path: "ssh".to_owned(),
        ..spec(
            entry,
            "s",
            Stat::P50,
            f64::NAN,
            format!("{hosts} servers at ports of the loopback interface, each in a mount namespace; {hosts} at a time"),
        )
    })
}

/// The longest of some runs.
fn dead(context: &Context<'_>, entry: &Entry, fleet: &Fleet) -> Result<Figure> {
    let at_most = DEAD_LIMIT.as_secs_f64() + BEYOND_S;
    let (mut blocks, mut answers) = (Vec::new(), Vec::new());
    while blocks.len() < DEAD_RUNS && (blocks.is_empty() || !context.progress.stop()) {
        let took_s = fleet.seconds(true)?;
        answers.extend(fleet.last_answer_s(took_s));
        blocks.push(Block { ours: took_s, reference: at_most });
    }
    let last = answers.into_iter().fold(0.0, f64::max);
    let mut spec = spec(entry, "s", Stat::Max, at_most, format!("the longest of {}", blocks.len()));
    spec.notes.push(format!(
        "the last answer of the {} others was there after {last:.1} s at most",
        Load::Dead.hosts() - DEAD
    ));
    figure(Spec { path: "ssh".to_owned(), ..spec }, blocks, context.options.seed)
}
