//! `bench acceptance`: every figure that has a goal, compared with its reference, with its verdict.
//!
//! [`catalogue`] lists the figures and their goals; `pair`, `alone` and `managers` measure them. A
//! figure that could not be measured is listed as missing, with the reason, and counts as a
//! failure.

mod access;
mod alone;
pub mod catalogue;
mod copies;
mod fabric;
mod fleet;
mod managers;
mod messages;
mod ofi;
mod pair;
mod resume;
mod shadow;
mod sisci;
mod sockets;
mod tests_of_clusters;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use catalogue::{Entry, Needs};
use resume::Kept;

use crate::{
    best::{self, Field},
    cluster::ClusterControl,
    env::{self, Env},
    error::{BenchError, Result},
    figure::{Cause, Figure, Figures, Missing, ReferenceKind, SCHEMA, Spec},
    patterns::attach::Where,
    progress::Progress,
    run::{self, BlockPlan, Sides},
    thresholds::Thresholds,
    timer::Timer,
};

/// The figures to measure, and the time for them.
#[derive(Debug, Clone)]
pub struct Options {
    /// Figures, by whole names or by their beginnings up to a dot (`put`, `scipp.half_rtt`); empty:
    /// all.
    pub only: Vec<String>,
    /// Two nodes of a running cluster; `None`: a cluster is started for it.
    pub place: Option<Where>,
    /// The limits from a file, for the figures that it names; they replace the built-in goals.
    pub thresholds: Option<Thresholds>,
    /// Compare routes with all of OpenSM's engines on twenty damaged trees, and on large fabrics of
    /// each kind: hours instead of minutes.
    pub rivals: bool,
    /// Processors; `None` for a choice.
    pub cpus: Option<[usize; 2]>,
    /// Time for the blocks of one figure at most.
    pub max_time: Duration,
    /// Keeps finished figures in this file, and takes over those that are there.
    pub resume: Option<PathBuf>,
    /// The seed of the order of sides and of resampling.
    pub seed: u64,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            only: Vec::new(),
            place: None,
            thresholds: None,
            rivals: false,
            cpus: None,
            max_time: Duration::from_secs(6),
            resume: None,
            seed: 1,
            argv: Vec::new(),
        }
    }
}

/// The reason of a figure that was not measured because the run ended before its turn.
#[derive(Debug, thiserror::Error)]
#[error("the run ended before this figure was measured")]
struct EndedEarly;

/// Why a figure is missing.
trait Why: std::fmt::Display {
    fn cause(&self) -> Cause;
}

impl Why for EndedEarly {
    fn cause(&self) -> Cause {
        Cause::EndedEarly
    }
}

impl Why for BenchError {
    fn cause(&self) -> Cause {
        match self {
            Self::TooFewCpus { .. } => Cause::TooFewCpus,
            Self::Stopped { .. } => Cause::EndedEarly,
            _ => Cause::Other,
        }
    }
}

/// The state that every measurement needs.
struct Context<'a> {
    options: &'a Options,
    timer: Timer,
    progress: &'a mut dyn Progress,
    figures: Vec<Figure>,
    missing: Vec<Missing>,
    planned: usize,
    kept: Option<Kept>,
}

/// Measures the selected figures.
pub fn run(
    options: &Options,
    cluster: Option<&mut dyn ClusterControl>,
    progress: &mut dyn Progress,
) -> Result<Figures> {
    let entries = catalogue::select(&options.only)?;
    let timer = Timer::new()?;
    let (started, steal) = (Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), options.seed);
    let planned = entries.len();
    let kept = options.resume.as_deref().map(|path| Kept::open(path, &env)).transpose()?;
    let asked = |figure: &Figure| entries.iter().any(|entry| entry.id == figure.id);
    let figures: Vec<Figure> =
        kept.as_ref().map(Kept::figures).unwrap_or_default().into_iter().filter(asked).collect();
    let left: Vec<Entry> =
        entries.iter().copied().filter(|entry| !figures.iter().any(|figure| figure.id == entry.id)).collect();
    if !figures.is_empty() {
        progress.finished(&format!(
            "{} figures were finished before; {} are left",
            figures.len(),
            left.len()
        ));
    }
    let mut context = Context { options, timer, progress, figures, missing: Vec::new(), planned, kept };
    let of = |needs: Needs| left.iter().copied().filter(|entry| entry.needs == needs).collect::<Vec<_>>();
    alone::measure(&mut context, &of(Needs::Nothing));
    fabric::measure(&mut context, &of(Needs::Nothing));
    let mut cluster = cluster;
    pair::measure(&mut context, &of(Needs::Pair), &mut cluster);
    managers::measure_idle(&mut context, &of(Needs::Nine), &mut cluster, managers::IDLE);
    managers::measure_up(&mut context, &of(Needs::SixtyFour), &mut cluster, managers::MANY);
    managers::measure_idle(&mut context, &of(Needs::FourHosts), &mut cluster, managers::FOUR_HOSTS);
    managers::measure_idle(&mut context, &of(Needs::SixteenHosts), &mut cluster, managers::IDLE_HOSTS);
    managers::measure_up(&mut context, &of(Needs::SixtyFourHosts), &mut cluster, managers::MANY_HOSTS);
    let partial = context.progress.stop();
    let Context { mut figures, missing, .. } = context;
    let place = |id: &str| entries.iter().position(|entry| entry.id == id);
    figures.sort_by_key(|figure| place(&figure.id));
    env.finish(started, steal);
    let mut all = Figures { schema: SCHEMA.to_owned(), env, figures, missing, partial };
    if let Some(thresholds) = &options.thresholds {
        thresholds.apply(&mut all);
    }
    Ok(all)
}

impl Context<'_> {
    /// Whether the run was ended; then the figure is missing for that.
    fn is_ended(&mut self, id: &str) -> bool {
        let ended = self.progress.stop();
        if ended {
            self.miss(id, &EndedEarly);
        }
        ended
    }

    /// Reports the figure that is measured now.
    fn tell(&mut self, id: &str) {
        let done = self.figures.len() + self.missing.len();
        self.progress.tell(id, done as f64 / self.planned.max(1) as f64);
    }

    /// Stores a figure, or the reason why there is none.
    fn keep(&mut self, id: &str, figure: Result<Figure>) {
        match figure {
            Ok(figure) => {
                self.progress.finished(&figure.to_line());
                self.keep_in_file(&figure);
                self.figures.push(figure);
            }
            Err(error) => {
                self.progress.finished(&format!("{id}: not measured: {error}"));
                self.miss(id, &error);
            }
        }
    }

    /// A figure that could not be kept is in the result all the same.
    fn keep_in_file(&mut self, figure: &Figure) {
        // One that was ended early rests on fewer blocks than it would: it is measured again.
        if self.progress.stop() {
            return;
        }
        if let Some(Err(error)) = self.kept.as_mut().map(|kept| kept.add(figure)) {
            self.progress.finished(&error.to_string());
        }
    }

    fn miss(&mut self, id: &str, why: &dyn Why) {
        self.missing.push(Missing { id: id.to_owned(), reason: why.to_string(), cause: why.cause() });
    }

    fn miss_all(&mut self, entries: &[Entry], why: &dyn Why) {
        entries.iter().for_each(|entry| self.miss(entry.id, why));
    }

    /// Runs a plan and makes the figure. `finish` is called after the blocks, for what is known
    /// only then.
    fn paired<S: Sides>(
        &mut self,
        plan: &BlockPlan,
        mut sides: S,
        samples_per_reading: u64,
        finish: impl FnOnce(&S) -> Spec,
    ) -> Result<Figure> {
        let progress = &*self.progress;
        let run = run::run_until(plan, &mut sides, &mut |_, _| {}, &|| progress.stop())?;
        let spec = finish(&sides);
        let id = spec.id.clone();
        let n = run.ours_readings * samples_per_reading;
        Figure::of(spec, n, run.blocks, run.disturbed, plan.seed).ok_or(BenchError::NoBlocks { id })
    }

    /// As [`Self::paired`], against the best of several rivals. `value` converts a time to the
    /// figure's unit, which `finish` names.
    fn against_best<F: Field>(
        &mut self,
        plan: &BlockPlan,
        mut field: F,
        samples_per_reading: u64,
        value: impl Fn(f64) -> f64,
        finish: impl FnOnce(&F) -> Spec,
    ) -> Result<Figure> {
        let progress = &*self.progress;
        let run = best::run_until(plan, &mut field, &|| progress.stop())?;
        let mut spec = finish(&field);
        spec.kind = ReferenceKind::Rival;
        spec.reference = run.names(&field);
        spec.argv = pair::alone(&spec.id);
        let trials: Vec<String> = run
            .trials
            .iter()
            .map(|(other, ns)| format!("{} {:.1} {}", field.name(*other), value(*ns), spec.unit))
            .collect();
        spec.notes.push(format!("before the run: {}", trials.join("; ")));
        spec.notes.push(
            "the best of one half of the blocks is the reference of the other half, and the other way round"
                .to_owned(),
        );
        let (id, n) = (spec.id.clone(), run.ours_readings * samples_per_reading);
        Figure::of(spec, n, run.blocks(&value), run.disturbed(&value), plan.seed)
            .ok_or(BenchError::NoBlocks { id })
    }
}

/// Returns the cluster to start, or the reason why there is none.
fn control<'c>(
    cluster: &'c mut Option<&mut dyn ClusterControl>,
    id: &str,
) -> Result<&'c mut dyn ClusterControl> {
    match cluster {
        Some(cluster) => Ok(&mut **cluster),
        None => Err(BenchError::NoCluster { id: id.to_owned() }),
    }
}

/// The reason in the words of the code that controls the cluster.
fn control_error(error: impl std::fmt::Display) -> BenchError {
    BenchError::Cluster(error.to_string())
}

#[cfg(test)]
mod tests;
