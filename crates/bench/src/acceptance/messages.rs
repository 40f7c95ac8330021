//! Figures of message queues, beside UCX, beside MPI and beside a cache line.

use super::{
    Context,
    catalogue::{Beside, Entry, Messages},
    pair::alone,
};
use crate::{
    baseline::line::Lines,
    cpus,
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::messages::{
        AboveLine, BesideRival, BesideShm, Fi, Implementation, Load, Mpi, Ours, OverProvider, Provider,
        Rival, Ucx,
    },
    pinned_pair,
    run::BlockPlan,
    verdict::Goal,
};

const WHAT: &str = "messages between two processes";
/// As many times as long as others a figure is measured whose readings start programs.
const RIVAL_TIMES: u32 = 10;

pub(super) fn measure(context: &mut Context<'_>, entry: &Entry, what: Messages) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    match what.beside {
        Beside::Line => over_line(context, entry, what.load, what.goal, cpus),
        Beside::OpenMpiItself => over_provider(context, entry, what, cpus),
        Beside::Shm => beside_shm(context, entry, what, cpus),
        Beside::Ucx | Beside::Mpi(_) => beside_rival(context, entry, what, cpus),
    }
}

fn over_provider(
    context: &mut Context<'_>,
    entry: &Entry,
    what: Messages,
    cpus: [usize; 2],
) -> Result<Figure> {
    let Messages { load, goal, .. } = what;
    let waiter = context.progress.waiter();
    let (over, own) = (Implementation::OpenMpiOverTieline, Implementation::OpenMpi);
    let sides =
        OverProvider { ours: Mpi::new(over, cpus, &waiter)?, own: Mpi::new(own, cpus, &waiter)?, load };
    let plan = BlockPlan::against_rival(context.options.max_time * RIVAL_TIMES, context.options.seed);
    context.paired(&plan, sides, load.count(), |_| {
        let mut spec = spec(entry, load, goal, cpus);
        spec.reference = "the same program over the transport that Open MPI chooses".to_owned();
        (spec.version, spec.argv) = (own.version(), own.argv(load, cpus));
        spec.notes.push(format!("ours: `{}` with FI_PROVIDER_PATH", over.argv(load, cpus).join(" ")));
        spec.notes.push("both are started for each reading, and not counted while they start".to_owned());
        spec
    })
}

fn beside_shm(context: &mut Context<'_>, entry: &Entry, what: Messages, cpus: [usize; 2]) -> Result<Figure> {
    let Messages { load, goal, .. } = what;
    let waiter = context.progress.waiter();
    let [ours, shm] = [Provider::Tieline, Provider::Shm].map(|provider| Fi::new(provider, cpus, &waiter));
    let sides = BesideShm { ours: ours?, shm: shm?, load };
    let plan = BlockPlan::against_rival(context.options.max_time * RIVAL_TIMES, context.options.seed);
    context.paired(&plan, sides, load.count(), |_| {
        let mut spec = spec(entry, load, goal, cpus);
        spec.reference = "the same program over libfabric's provider shm".to_owned();
        (spec.version, spec.argv) = (Fi::version(), Fi::argv(Provider::Shm, load, cpus));
        let ours = Fi::argv(Provider::Tieline, load, cpus).join(" ");
        spec.notes.push(format!("ours: `{ours}` with FI_PROVIDER_PATH"));
        spec.notes.push("both are started for each reading, and not counted while they start".to_owned());
        spec
    })
}

fn beside_rival(
    context: &mut Context<'_>,
    entry: &Entry,
    what: Messages,
    cpus: [usize; 2],
) -> Result<Figure> {
    let Messages { load, beside, goal } = what;
    let waiter = context.progress.waiter();
    let rival = match beside {
        Beside::Mpi(implementation) => Rival::Mpi(Mpi::new(implementation, cpus, &waiter)?),
        _ => Rival::Ucx(Ucx::new(cpus, &waiter)?),
    };
    let ours = Ours::start(load, cpus, &waiter)?;
    let plan = BlockPlan::against_rival(context.options.max_time * RIVAL_TIMES, context.options.seed);
    context.paired(&plan, BesideRival { ours, rival, load }, load.count(), |_| {
        let mut spec = spec(entry, load, goal, cpus);
        spec.kind = ReferenceKind::Rival;
        (spec.reference, spec.version, spec.argv) = match beside {
            Beside::Mpi(mpi) => (
                format!("{}, a program that sends and receives", mpi.name()),
                mpi.version(),
                mpi.argv(load, cpus),
            ),
            _ => ("UCX by shared memory, ucx_perftest".to_owned(), Ucx::version(), Ucx::argv(load)),
        };
        spec.notes.push("the rival is started for each reading, and not counted while it starts".to_owned());
        spec
    })
}

fn over_line(
    context: &mut Context<'_>,
    entry: &Entry,
    load: Load,
    goal: Goal,
    cpus: [usize; 2],
) -> Result<Figure> {
    let timer = context.timer;
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    let ours = Ours::start(load, cpus, &context.progress.waiter())?;
    let lines = Lines::new();
    pinned_pair::on(cpus, |pair| {
        let sides = AboveLine::new(ours, load, &timer, pair, &lines)?;
        context.paired(&plan, sides, load.count(), |_| {
            let mut spec = spec(entry, load, goal, cpus);
            spec.kind = ReferenceKind::Baseline;
            spec.reference = "half the round trip of one cache line".to_owned();
            spec
        })
    })
}

fn spec(entry: &Entry, load: Load, goal: Goal, cpus: [usize; 2]) -> Spec {
    Spec {
        id: entry.id.to_owned(),
        unit: load.unit(),
        stat: Stat::P50,
        size_bytes: Some(load.size_bytes()),
        cpus: cpus.to_vec(),
        path: "shm".to_owned(),
        kind: ReferenceKind::Rival,
        reference: String::new(),
        version: String::new(),
        argv: alone(entry.id),
        goal,
        distribution: None,
        notes: vec![
            entry.what.to_owned(),
            "two processes, each on one processor; a reading is the mean of all messages".to_owned(),
        ],
    }
}
