//! The form of a figure in results: `tieline.figures/1`, described field by field in
//! `docs/schema.md`.
//!
//! Any reader can recompute a figure from its blocks: [`Figure::of`] only applies the arithmetic of
//! [`crate::stats::paired`] to them, with the seed in [`crate::env::Env`].

use serde::{Deserialize, Serialize};

use crate::{
    env::Env,
    layout,
    run::Disturbed,
    stats::{
        Interval, Summary,
        paired::{Block, Centre, MIN_BLOCKS, PairedRatio, RESAMPLES},
    },
    thresholds::Judged,
    verdict::{Goal, Verdict},
};

/// Name of the form. A change that breaks a reader changes the number.
pub const SCHEMA: &str = "tieline.figures/1";

/// A figure of rings counts if more than this share of its bytes went through them. The rest are those of the
/// first thousand uses of a connection, and those written while the reader slept.
pub const RINGS_ENOUGH: f64 = 0.85;

/// A set of figures of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// [`SCHEMA`].
    pub schema: String,
    /// The circumstances of the measurement.
    pub env: Env,
    /// The measured figures.
    pub figures: Vec<Figure>,
    /// The figures that were selected and could not be measured. A missing figure is not a pass.
    pub missing: Vec<Missing>,
    /// It was ended early: the figures were measured before that.
    #[serde(default)]
    pub partial: bool,
}

/// A figure that was planned and is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The ID.
    pub id: String,
    /// The reason, in words.
    pub reason: String,
    /// Why, for the code that decides by it.
    #[serde(default)]
    pub cause: Cause,
}

/// The reason why a figure was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It needs two processors, and this process may use one. The figure itself is not judged.
    TooFewCpus,
    /// The run ended before its turn. The figure itself is not judged.
    EndedEarly,
    /// It was measured, but other work on the machine left too few readings. The figure itself is
    /// not judged.
    Disturbed,
    /// Anything else; also what an older document, or one of a newer version, has.
    #[default]
    #[serde(other)]
    Other,
}

impl Missing {
    /// A figure that could not be measured is inconclusive; any other missing figure is a failure.
    const fn verdict(&self) -> Verdict {
        match self.cause {
            Cause::TooFewCpus | Cause::Disturbed | Cause::EndedEarly => Verdict::Inconclusive,
            Cause::Other => Verdict::Fail,
        }
    }
}

/// One figure with its reference.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// Name, as in the table of goals.
    pub id: String,
    /// Unit of `value`, `ci95`, `reference.value` and `blocks`.
    pub unit: String,
    /// The statistic of the blocks that `value` is: `p50`, `mean`, or `max`.
    pub stat: Stat,
    /// Single measurements behind all blocks of ours.
    pub n: u64,
    /// The figure.
    pub value: f64,
    /// Its 95 % confidence interval.
    pub ci95: Interval,
    /// The size of a message or block; `null` if there is none.
    pub size_bytes: Option<u64>,
    /// Processors used, ours first; empty if unpinned.
    pub cpus: Vec<usize>,
    /// Link actually taken: `shm`.
    pub path: String,
    /// The reference.
    pub reference: Reference,
    /// Value by reference.
    pub ratio: Ratio,
    /// The goal of the ratio.
    pub goal: Goal,
    /// `[ours, reference]` of every undisturbed block, in order of time.
    pub blocks: Vec<Block>,
    /// Blocks left out because the machine moved inside them.
    pub disturbed_blocks: u64,
    /// Those blocks: `[ours, reference, moved]`, `moved` being the larger by the smaller of the two
    /// outer readings.
    pub disturbed: Vec<Disturbed>,
    /// The verdict.
    pub verdict: Verdict,
    /// Every single measurement of ours, disturbed blocks and warm-up included, in ns: for the
    /// tails. `null` where single measurements are no durations.
    pub distribution: Option<Summary>,
    /// Facts that a reader needs to compare it (placement, batch, kernel of the copy, …).
    pub notes: Vec<String>,
    /// The share of the bytes that went through rings, from 0 to 1, for programs on sockets that
    /// were measured with rings. A goal that is met with too small a share is not a pass, because
    /// the kernel moved the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings_share: Option<f64>,
    /// The bounds from a file of thresholds, and their verdict; absent if the built-in goal
    /// decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<Judged>>,
}

/// The statistic that makes a value of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stat {
    /// Median of the blocks; ratio = median of the blocks' ratios.
    P50,
    /// Mean of the blocks; ratio of the means.
    Mean,
    /// The largest block, of readings that are not random (memory in use). Its interval is the
    /// value itself.
    Max,
}

/// The reference of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The kind of reference.
    pub kind: ReferenceKind,
    /// The name.
    pub name: String,
    /// Version of a rival; empty otherwise.
    pub version: String,
    /// Command line that runs the reference alone; empty if there is none.
    pub argv: Vec<String>,
    /// Median (or mean, or the constant) of the reference over the blocks.
    pub value: f64,
}

/// The kinds of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferenceKind {
    /// What the machine allows at that moment.
    #[serde(rename = "floor")]
    Baseline,
    /// Another implementation, measured in the same run.
    Rival,
    /// A number of the goal itself.
    Fixed,
}

/// Value by reference, with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: Interval,
}

/// The facts of a figure that are known before it is measured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name.
    pub id: String,
    /// Unit.
    pub unit: &'static str,
    /// The statistic of the blocks.
    pub stat: Stat,
    /// Message or block size.
    pub size_bytes: Option<u64>,
    /// Processors.
    pub cpus: Vec<usize>,
    /// Link taken.
    pub path: String,
    /// Kind of reference.
    pub kind: ReferenceKind,
    /// Name of the reference.
    pub reference: String,
    /// Version of a rival.
    pub version: String,
    /// Command of the reference.
    pub argv: Vec<String>,
    /// Goal of the ratio.
    pub goal: Goal,
    /// All single measurements.
    pub distribution: Option<Summary>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Figure {
    /// Computes a figure from its blocks. `None` if there is no undisturbed block, or a reference
    /// is 0.
    pub fn of(spec: Spec, n: u64, blocks: Vec<Block>, disturbed: Vec<Disturbed>, seed: u64) -> Option<Self> {
        let (paired, verdict) = match spec.stat {
            Stat::P50 | Stat::Mean => {
                let centre = if spec.stat == Stat::Mean { Centre::Mean } else { Centre::Median };
                let paired = PairedRatio::of(&blocks, centre, RESAMPLES, seed)?;
                (paired, Verdict::of_blocks(spec.goal, paired.ratio_ci95, blocks.len(), disturbed.len()))
            }
            Stat::Max => {
                let paired = worst(&blocks)?;
                (paired, Verdict::of(spec.goal, paired.ratio_ci95))
            }
        };
        Some(Self {
            id: spec.id,
            unit: spec.unit.to_owned(),
            stat: spec.stat,
            n,
            value: paired.ours,
            ci95: paired.ours_ci95,
            size_bytes: spec.size_bytes,
            cpus: spec.cpus,
            path: spec.path,
            reference: Reference {
                kind: spec.kind,
                name: spec.reference,
                version: spec.version,
                argv: spec.argv,
                value: paired.reference,
            },
            ratio: Ratio { value: paired.ratio, ci95: paired.ratio_ci95 },
            goal: spec.goal,
            blocks,
            disturbed_blocks: disturbed.len() as u64,
            disturbed,
            verdict,
            distribution: spec.distribution,
            notes: spec.notes,
            rings_share: None,
            judged: None,
        })
    }

    /// On one line.
    pub fn to_line(&self) -> String {
        let digits = layout::table::three_digits;
        format!(
            "{}: {} {}, ratio {:.3} ({:.3} … {:.3}) to {}, goal {} {}: {}",
            self.id,
            digits(self.value),
            self.unit,
            self.ratio.value,
            self.ratio.ci95.low,
            self.ratio.ci95.high,
            self.reference.name,
            self.goal.op,
            digits(self.goal.limit),
            self.verdict
        )
    }

    /// The same, of which this share of the bytes went through rings.
    #[must_use]
    pub fn with_rings(mut self, share: f64) -> Self {
        self.rings_share = Some(share);
        self.verdict = self.counted(self.verdict);
        self
    }

    /// Whether too few bytes went through rings for a pass.
    fn lacks_rings(&self) -> bool {
        self.rings_share.is_some_and(|share| share <= RINGS_ENOUGH)
    }

    /// The verdict in view of the share of rings: a pass with too small a share is inconclusive. A
    /// failure stays a failure.
    pub(crate) fn counted(&self, verdict: Verdict) -> Verdict {
        if verdict == Verdict::Pass && self.lacks_rings() { Verdict::Inconclusive } else { verdict }
    }

    /// The share of rings in words, if it is too small.
    fn share_doubt(&self) -> Option<String> {
        let share = self.rings_share.filter(|_| self.lacks_rings())?;
        Some(format!(
            "{:.1} % of the bytes went through rings; a goal can be met only above {:.0} %",
            share * 100.0,
            RINGS_ENOUGH * 100.0
        ))
    }

    /// The reason why the verdict differs from what the ratio alone would give, and any reason why
    /// it is not a verdict on rings.
    pub fn doubt(&self) -> Option<String> {
        let share = self.share_doubt();
        if share.is_some() || self.verdict != Verdict::Inconclusive {
            return share;
        }
        if let Some(why) = self.judged.as_ref().and_then(|judged| judged.why.clone()) {
            return Some(why);
        }
        Some(if self.blocks.len() < MIN_BLOCKS {
            format!(
                "only {} undisturbed blocks of the {MIN_BLOCKS} needed: measure longer",
                self.blocks.len()
            )
        } else if self.blocks.len() as u64 <= self.disturbed_blocks {
            "most blocks were disturbed: measure on a quieter machine".to_owned()
        } else {
            "the interval straddles the limit: give it more time".to_owned()
        })
    }
}

/// The largest reading, as a certain value.
fn worst(blocks: &[Block]) -> Option<PairedRatio> {
    let block = blocks.iter().copied().max_by(|a, b| a.ours.total_cmp(&b.ours))?;
    let ratio = block.ratio()?;
    Some(PairedRatio {
        ours: block.ours,
        ours_ci95: Interval::point(block.ours),
        reference: block.reference,
        ratio,
        ratio_ci95: Interval::point(ratio),
        blocks: blocks.len(),
    })
}

impl Figures {
    /// All figures together; something missing is a failure, or in doubt, by its [`Cause`].
    pub fn verdict(&self) -> Verdict {
        let missing = self.missing.iter().map(Missing::verdict);
        Verdict::overall(self.figures.iter().map(|f| f.verdict).chain(missing))
    }

    /// Exit status of a command: 0 all passed, 1 something failed or is missing, 3 in doubt, 4
    /// nothing could be measured.
    pub fn exit_status(&self) -> u8 {
        if self.figures.is_empty() && !self.lacks_only_cpus() { 4 } else { self.verdict().exit_status() }
    }

    /// Something is missing, and all of it for want of processors.
    pub fn lacks_only_cpus(&self) -> bool {
        !self.missing.is_empty() && self.missing.iter().all(|missing| missing.cause == Cause::TooFewCpus)
    }

    /// The figures as text.
    pub fn to_text(&self) -> String {
        layout::figures::render(self)
    }

    /// Comma-separated values, one line a figure.
    pub fn to_csv(&self) -> String {
        layout::figures::csv(self)
    }
}

#[cfg(test)]
pub(crate) mod tests;
