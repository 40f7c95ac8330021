//! Compares the acceptance figures of two builds, measured in turn.
//!
//! A **round** is one short run of `bench acceptance --only ID` by each build, one right after the
//! other; the build that runs first changes from round to round. The interval is computed from
//! runs, not from the blocks within them: the blocks of one run share its place in memory and its
//! way of waiting, and scatter less than runs do. Each round gives one ratio, new by old, inverted
//! where necessary so that above 1 is better. The figure's ratio is the median of these, with the
//! interval of [`order::median_interval`](crate::stats::order::median_interval), which assumes no
//! distribution.
//!
//! If the figure's reference is the machine or another program, the ratios to the reference in each
//! run are divided, so that a processor that moved between two runs cancels. If the reference is a
//! constant, or a part of this project that may have become slower too, the plain values are
//! divided.
//!
//! **The rule for "no worse"**: no interval wholly below [`LEAST`], twice. A figure whose interval
//! is wholly below it is measured once more after all others, and is worse if that is so again.

mod build;
mod judge;
mod render;
mod series;

use std::path::PathBuf;

use serde::Serialize;

pub use self::{
    build::{Build, Builds, Measures, NoReading, Reading},
    judge::{Judged, Outcome},
    series::{Limits, Round, Series},
};
use crate::{
    acceptance::catalogue::{self, Entry},
    compare::Basis,
    env::{self, Env},
    error::{BenchError, Result},
    progress::{Progress, Quiet},
    timer::Timer,
    verdict::Verdict,
};

/// Name of the form.
pub const SCHEMA: &str = "tieline.compare_builds/1";
/// A figure is worse if its interval lies wholly below this, twice.
pub const LEAST: f64 = 0.97;

/// The builds and the figures to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// The old and the new build, with their labels.
    pub builds: [Named; 2],
    /// As in [`crate::acceptance::Options::only`].
    pub only: Vec<String>,
    /// Processors, for both.
    pub cpus: Option<[usize; 2]>,
    /// Rounds of a figure.
    pub limits: Limits,
    /// Earlier figures that are missing now are no failure.
    pub missing_ok: bool,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

/// A program, and what people call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// A commit, or the program's path.
    pub name: String,
    /// `tieline` of that build; its other files are in the same folder.
    pub program: PathBuf,
}

/// One figure of both builds.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// The ID.
    pub id: String,
    /// Unit of the values.
    pub unit: String,
    /// Whether less of it is better.
    pub small_is_good: bool,
    /// The quotient that is compared: of the ratios to the reference, or of the values.
    pub basis: Basis,
    /// The rounds; once more if the first interval was wholly below [`LEAST`].
    pub series: Vec<Series>,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason of the outcome, or a note.
    pub why: Option<String>,
}

/// Result of a comparison of two builds.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The circumstances of the measurement.
    pub env: Env,
    /// The old build.
    pub before: Named,
    /// The new build.
    pub now: Named,
    /// [`LEAST`].
    pub least: f64,
    /// By figure.
    pub figures: Vec<Compared>,
    /// Figures that only the new build has.
    pub not_before: Vec<String>,
    /// Figures that only the old build has.
    pub not_now: Vec<String>,
    /// Whether those are no failure.
    pub missing_ok: bool,
    /// It was ended early: the figures were measured before that.
    pub partial: bool,
    /// `FAIL`: a figure is worse or missing. `INCONCLUSIVE`: a figure is inconclusive. Else `PASS`.
    pub verdict: Verdict,
}

/// The figures that can be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Figures of both.
    pub both: Vec<Entry>,
    /// Figures that only the new build has.
    pub not_before: Vec<String>,
    /// Figures that only the old build has.
    pub not_now: Vec<String>,
}

impl Plan {
    /// Divides the selected figures by the list of the old build.
    pub fn of(only: &[String], before: &[String]) -> Result<Self> {
        let (both, new): (Vec<Entry>, Vec<Entry>) =
            catalogue::select(only)?.into_iter().partition(|entry| before.iter().any(|id| id == entry.id));
        let gone = |id: &&String| !catalogue::ALL.iter().any(|entry| entry.id == id.as_str());
        // The name of a group also selects figures that the group no longer has.
        let meant = |id: &&String| only.is_empty() || only.iter().any(|name| catalogue::is_within(id, name));
        Ok(Self {
            both,
            not_before: new.iter().map(|entry| entry.id.to_owned()).collect(),
            not_now: before.iter().filter(gone).filter(meant).cloned().collect(),
        })
    }
}

/// The plan: the figures that would be compared.
pub fn plan(options: &Options) -> Result<Plan> {
    // Checked before any program is run: a name that no figure has is wrong in any case.
    catalogue::select(&options.only)?;
    let builds = Builds::new(options, Quiet.waiter())?;
    Plan::of(&options.only, &builds.before().ids()?)
}

/// Measures the selected figures of both builds in turn.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Comparison> {
    let plan = plan(options)?;
    measure(options, plan, &mut Builds::new(options, progress.waiter())?, progress)
}

/// As [`run`], with any source of readings.
fn measure(
    options: &Options,
    plan: Plan,
    builds: &mut dyn Measures,
    progress: &mut dyn Progress,
) -> Result<Comparison> {
    let timer = Timer::new()?;
    let (started, steal) = (std::time::Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), 0);
    let mut figures: Vec<(Entry, Vec<Series>)> = Vec::new();
    for (at, entry) in plan.both.iter().enumerate() {
        let mut tell = |text: &str, share: f64| {
            progress.tell(text, (at as f64 + share) / plan.both.len() as f64);
            progress.stop()
        };
        let series = series::measure(entry, options.limits, builds, &mut tell);
        figures.push((*entry, vec![series]));
        if progress.stop() {
            break;
        }
    }
    // After all others, so that the second measurement is made at another time than the first.
    for (entry, series) in &mut figures {
        let doubted = series.first().is_some_and(judge::is_below);
        if doubted && !progress.stop() {
            let mut tell = |text: &str, share: f64| {
                progress.tell(&format!("{text}, the second time"), share);
                progress.stop()
            };
            series.push(series::measure(entry, options.limits, builds, &mut tell));
        }
    }
    let partial = progress.stop();
    env.finish(started, steal);
    let figures = figures.into_iter().map(|(entry, series)| judge::compared(&entry, series)).collect();
    let [before, now] = options.builds.clone();
    let mut all = Comparison {
        schema: SCHEMA,
        env,
        before,
        now,
        least: LEAST,
        figures,
        not_before: plan.not_before,
        not_now: plan.not_now,
        missing_ok: options.missing_ok,
        partial,
        verdict: Verdict::Inconclusive,
    };
    if !partial && !all.figures.is_empty() && all.figures.iter().all(|figure| figure.is_without_rounds()) {
        let why = all.figures.first().and_then(|figure| figure.why.clone()).unwrap_or_default();
        return Err(BenchError::Build { reason: format!("no figure could be measured: {why}") });
    }
    all.verdict = all.judged();
    Ok(all)
}

impl Compared {
    /// Nothing is known of it, on either side.
    fn is_without_rounds(&self) -> bool {
        self.outcome == Outcome::Inconclusive
            && self.series.iter().all(|series| series.rounds.is_empty() && series.disturbed.is_empty())
    }
}

impl Comparison {
    fn judged(&self) -> Verdict {
        let of = |figure: &Compared| match figure.outcome {
            Outcome::Worse => Verdict::Fail,
            Outcome::Inconclusive => Verdict::Inconclusive,
            Outcome::NoWorse | Outcome::Better => Verdict::Pass,
        };
        let gone = self.not_now.iter().filter(|_| !self.missing_ok).map(|_| Verdict::Fail);
        let ended = self.partial.then_some(Verdict::Inconclusive);
        Verdict::overall(self.figures.iter().map(of).chain(gone).chain(ended))
    }

    /// Exit status of a command: 0 nothing is worse, 1 something is worse or no longer there, 3
    /// something is inconclusive.
    pub fn exit_status(&self) -> u8 {
        self.verdict.exit_status()
    }

    /// The number of figures with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.figures.iter().filter(|figure| figure.outcome == outcome).count()
    }

    /// The result as text.
    pub fn to_text(&self) -> String {
        render::text(self)
    }
}

#[cfg(test)]
mod tests;
