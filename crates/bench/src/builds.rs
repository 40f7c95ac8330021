//! Compares the acceptance figures of two builds, measured in turn.
//!
//! A **round** is one short run of `bench acceptance --only ID` by each build, one right after the other; which comes first
//! changes from round to round. The runs, not the blocks within them, are what the interval rests on: blocks of one run share
//! its place in memory and its choice of how to wait, and scatter less than runs do. Of each round counts one ratio, now by
//! before, turned so that above 1 is better; the figure's ratio is their median, with the interval of
//! [`order::median_interval`](crate::stats::order::median_interval), which assumes no distribution.
//!
//! What is divided are the ratios to what stood beside the figure in each run, if that is the machine or a program of others:
//! so a processor that moved between two runs cancels. It is the plain value where the figure's reference is a constant, or
//! something of our own, which may have become slower with it.
//!
//! **The rule for "no worse"**: no interval wholly below [`LEAST`], twice. A figure whose interval is, is measured once more
//! after all others, and is worse if it is so again.

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

/// What to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// The build of before and the one of now, with the names that people know them by.
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
    /// `tieline` of that build; its companions lie beside it.
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
    /// What is divided: the ratio to what stands beside it, or the value.
    pub basis: Basis,
    /// The rounds; once more if the first interval was wholly below [`LEAST`].
    pub series: Vec<Series>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, or what else to know.
    pub why: Option<String>,
}

/// Result of a comparison of two builds.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Where and how it was measured.
    pub env: Env,
    /// The build of before.
    pub before: Named,
    /// The build of now.
    pub now: Named,
    /// [`LEAST`].
    pub least: f64,
    /// By figure.
    pub figures: Vec<Compared>,
    /// Figures that only the build of now knows.
    pub not_before: Vec<String>,
    /// Figures that only the build of before knows.
    pub not_now: Vec<String>,
    /// Whether those are no failure.
    pub missing_ok: bool,
    /// It was ended early: what is there was measured until then.
    pub partial: bool,
    /// `FAIL`: something is worse, or no longer there. `INCONCLUSIVE`: something cannot be said. Else `PASS`.
    pub verdict: Verdict,
}

/// What there is to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Figures of both.
    pub both: Vec<Entry>,
    /// Figures that only the build of now knows.
    pub not_before: Vec<String>,
    /// Figures that only the build of before knows.
    pub not_now: Vec<String>,
}

impl Plan {
    /// Of the figures that were asked for, by what the build of before knows.
    pub fn of(only: &[String], before: &[String]) -> Result<Self> {
        let (both, new): (Vec<Entry>, Vec<Entry>) =
            catalogue::select(only)?.into_iter().partition(|entry| before.iter().any(|id| id == entry.id));
        let gone = |id: &&String| !catalogue::ALL.iter().any(|entry| entry.id == id.as_str());
        // A group's name reaches also what has left the group.
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
    // Before any program is looked at: a name that nothing has is wrong whatever they say.
    catalogue::select(&options.only)?;
    let builds = Builds::new(options, Quiet.waiter())?;
    Plan::of(&options.only, &builds.before().ids()?)
}

/// Measures what was asked for, of both builds in turn.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Comparison> {
    let plan = plan(options)?;
    measure(options, plan, &mut Builds::new(options, progress.waiter())?, progress)
}

/// As [`run`], of anything that measures.
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
    // Last, so that another time decides than the one that looked bad.
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

    /// Exit status of a command: 0 nothing is worse, 1 something is worse or no longer there, 3 something is inconclusive.
    pub fn exit_status(&self) -> u8 {
        self.verdict.exit_status()
    }

    /// How many figures came to this.
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
