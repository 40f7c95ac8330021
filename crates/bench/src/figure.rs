//! The form in which a figure leaves the tool: `tieline.figures/1`, described field by field in `docs/schema.md`.
//!
//! A figure can be recomputed from its blocks by anybody: [`Figure::of`] does nothing but the arithmetic of
//! [`crate::stats::paired`] on them, with the seed that [`crate::env::Env`] names.

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

/// A set of figures of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and how it was measured.
    pub env: Env,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// What was asked for and could not be measured. A figure that is missing is no pass.
    pub missing: Vec<Missing>,
    /// It was ended early: what is there was measured until then.
    #[serde(default)]
    pub partial: bool,
}

/// A figure that was planned and is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which.
    pub id: String,
    /// Why, in words.
    pub reason: String,
    /// Why, for who decides by it.
    #[serde(default)]
    pub cause: Cause,
}

/// What kept a figure from being measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It begins between two processors, and this process may use one. That says nothing about what would be measured.
    TooFewCpus,
    /// The run was ended before its turn came.
    EndedEarly,
    /// Anything else; also what an older document, or one of a newer version, has.
    #[default]
    #[serde(other)]
    Other,
}

impl Missing {
    /// A figure without processors is in doubt; any other that is missing is no pass.
    const fn verdict(&self) -> Verdict {
        match self.cause {
            Cause::TooFewCpus => Verdict::Inconclusive,
            Cause::EndedEarly | Cause::Other => Verdict::Fail,
        }
    }
}

/// One figure beside its reference.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// Name, as in the table of goals.
    pub id: String,
    /// Unit of `value`, `ci95`, `reference.value` and `blocks`.
    pub unit: String,
    /// What `value` is of the blocks: `p50`, `mean`, or `max`.
    pub stat: Stat,
    /// Single measurements behind all blocks of ours.
    pub n: u64,
    /// The figure.
    pub value: f64,
    /// Its 95 % confidence interval.
    pub ci95: Interval,
    /// Message or block size; `null` where there is none.
    pub size_bytes: Option<u64>,
    /// Processors used, ours first; empty if unpinned.
    pub cpus: Vec<usize>,
    /// Link actually taken: `shm`.
    pub path: String,
    /// What it is compared with.
    pub reference: Reference,
    /// Value by reference.
    pub ratio: Ratio,
    /// What the ratio must keep.
    pub goal: Goal,
    /// `[ours, reference]` of every undisturbed block, in order of time.
    pub blocks: Vec<Block>,
    /// Blocks left out because the machine moved inside them.
    pub disturbed_blocks: u64,
    /// Those blocks: `[ours, reference, moved]`, `moved` being the larger by the smaller of the two outer readings.
    pub disturbed: Vec<Disturbed>,
    /// What came of it.
    pub verdict: Verdict,
    /// Every single measurement of ours, disturbed blocks and warm-up included, in ns: for the tails. `null` where single
    /// measurements are no durations.
    pub distribution: Option<Summary>,
    /// What a reader must know to compare it (placement, batch, kernel of the copy, …).
    pub notes: Vec<String>,
    /// What a file of thresholds asked of it, and what came of that; absent if the built-in goal decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<Judged>>,
}

/// How blocks become a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stat {
    /// Median of the blocks; ratio = median of the blocks' ratios.
    P50,
    /// Mean of the blocks; ratio of the means.
    Mean,
    /// The largest block, of readings that are not random (memory in use). Its interval is the value itself.
    Max,
}

/// What a figure is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Where it comes from.
    pub kind: ReferenceKind,
    /// What it is.
    pub name: String,
    /// Version of a rival; empty otherwise.
    pub version: String,
    /// Command line that runs the reference alone; empty if there is none.
    pub argv: Vec<String>,
    /// Median (or mean, or the constant) of the reference over the blocks.
    pub value: f64,
}

/// Where a reference comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferenceKind {
    /// What the machine allows at that moment.
    Floor,
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

/// What is known of a figure before it is measured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name.
    pub id: String,
    /// Unit.
    pub unit: &'static str,
    /// How blocks become a value.
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
    /// Computes a figure from its blocks. `None` if there is no undisturbed block, or a reference is 0.
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
            judged: None,
        })
    }

    /// Why the verdict is not what the ratio alone would say, if so.
    pub fn doubt(&self) -> Option<String> {
        if self.verdict != Verdict::Inconclusive {
            return None;
        }
        if let Some(why) = self.judged.as_ref().and_then(|judged| judged.why.clone()) {
            return Some(why);
        }
        Some(if self.blocks.len() < MIN_BLOCKS {
            format!(
                "only {} undisturbed blocks of the {MIN_BLOCKS} needed: give it more time",
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
    /// All figures together; something missing is a failure, unless only processors were lacking.
    pub fn verdict(&self) -> Verdict {
        let missing = self.missing.iter().map(Missing::verdict);
        Verdict::overall(self.figures.iter().map(|f| f.verdict).chain(missing))
    }

    /// Exit status of a command: 0 all passed, 1 something failed or is missing, 3 in doubt, 4 nothing could be measured.
    pub fn exit_status(&self) -> u8 {
        if self.figures.is_empty() && !self.lacks_only_cpus() { 4 } else { self.verdict().exit_status() }
    }

    /// Something is missing, and all of it for want of processors.
    pub fn lacks_only_cpus(&self) -> bool {
        !self.missing.is_empty() && self.missing.iter().all(|missing| missing.cause == Cause::TooFewCpus)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        layout::figures::render(self)
    }

    /// Comma-separated values, one line a figure.
    pub fn to_csv(&self) -> String {
        layout::figures::csv(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spec(stat: Stat, goal: Goal) -> Spec {
        Spec {
            id: "scipp.half_rtt.4B".to_owned(),
            unit: "ns",
            stat,
            size_bytes: Some(4),
            cpus: vec![0, 1],
            path: "shm".to_owned(),
            kind: ReferenceKind::Floor,
            reference: "one cache line, both ways".to_owned(),
            version: String::new(),
            argv: vec!["tieline".to_owned(), "bench".to_owned(), "limits".to_owned()],
            goal,
            distribution: None,
            notes: Vec::new(),
        }
    }

    pub(crate) fn blocks(n: usize, ours: f64, reference: f64) -> Vec<Block> {
        (0..n)
            .map(|i| {
                let placement = if i % 3 == 0 { 4.0 } else { 1.0 };
                Block { ours: ours * placement, reference: reference * placement }
            })
            .collect()
    }

    #[test]
    fn passes_and_fails() {
        let goal = Goal::at_most(1.1);
        let good = Figure::of(spec(Stat::P50, goal), 99, blocks(30, 42.0, 40.0), vec![], 1).unwrap();
        assert_eq!((good.verdict, good.value, good.reference.value, good.n), (Verdict::Pass, 42.0, 40.0, 99));
        assert!((good.ratio.value - 1.05).abs() < 1e-12 && good.doubt().is_none());
        let bad = Figure::of(spec(Stat::P50, goal), 99, blocks(30, 60.0, 40.0), vec![], 1).unwrap();
        assert_eq!(bad.verdict, Verdict::Fail);
        assert!(Figure::of(spec(Stat::P50, goal), 0, vec![], vec![], 1).is_none());
    }

    #[test]
    fn doubts_are_named() {
        let goal = Goal::at_most(1.1);
        let few = Figure::of(spec(Stat::P50, goal), 9, blocks(29, 40.0, 40.0), vec![], 1).unwrap();
        assert!(few.verdict == Verdict::Inconclusive && few.doubt().unwrap().contains("29 undisturbed"));
        let moved = vec![Disturbed { ours: 1.0, reference: 1.0, moved: 2.0 }; 31];
        let noisy = Figure::of(spec(Stat::P50, goal), 9, blocks(31, 40.0, 40.0), moved, 1).unwrap();
        assert!(noisy.verdict == Verdict::Inconclusive && noisy.doubt().unwrap().contains("quieter"));
        assert_eq!(noisy.disturbed_blocks, 31);
        let mut near = blocks(40, 44.0, 40.0);
        near.iter_mut().enumerate().for_each(|(i, b)| b.ours *= 0.98 + 0.001 * i as f64);
        let near = Figure::of(spec(Stat::P50, goal), 9, near, vec![], 1).unwrap();
        assert!(near.verdict == Verdict::Inconclusive && near.doubt().unwrap().contains("straddles"));
    }

    #[test]
    fn the_worst_reading_decides() {
        let goal = Goal::at_most(1.0);
        let run = vec![Block { ours: 5.0, reference: 8.0 }, Block { ours: 7.0, reference: 8.0 }];
        let figure = Figure::of(spec(Stat::Max, goal), 2, run, vec![], 1).unwrap();
        assert_eq!((figure.value, figure.ratio.value, figure.verdict), (7.0, 0.875, Verdict::Pass));
    }

    /// The names in the JSON are a promise.
    #[test]
    fn form() {
        let figure =
            Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 99, blocks(31, 42.0, 40.0), vec![], 1).unwrap();
        let json = serde_json::to_value(&figure).unwrap();
        let names: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut want = [
            "id",
            "unit",
            "stat",
            "n",
            "value",
            "ci95",
            "size_bytes",
            "cpus",
            "path",
            "reference",
            "ratio",
            "goal",
            "blocks",
            "disturbed_blocks",
            "disturbed",
            "verdict",
            "distribution",
            "notes",
        ];
        want.sort_unstable();
        assert_eq!(names, want);
        assert_eq!(json["stat"], "p50");
        assert_eq!(json["reference"]["kind"], "floor");
        assert_eq!(json["goal"], serde_json::json!({"op": "<=", "limit": 1.1}));
        assert_eq!(json["blocks"][1], serde_json::json!([42.0, 40.0]));
        assert_eq!(json["ratio"]["ci95"].as_array().unwrap().len(), 2);
        assert_eq!(json["verdict"], "PASS");
        let back: Figure = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&back).unwrap(), json);
    }

    /// Every field that can appear is described, by its name in code font.
    #[test]
    fn described() {
        fn names(value: &serde_json::Value, into: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(fields) => {
                    for (name, value) in fields {
                        into.push(name.clone());
                        names(value, into);
                    }
                }
                serde_json::Value::Array(items) => items.iter().take(1).for_each(|item| names(item, into)),
                _ => {}
            }
        }
        let mut samples = crate::stats::Samples::new(false).unwrap();
        (0..20_000).for_each(|n| samples.record_ns(f64::from(n)));
        let with_tails = Spec { distribution: samples.summary(), ..spec(Stat::P50, Goal::at_most(1.1)) };
        let figure = Figure::of(with_tails, 99, blocks(31, 42.0, 40.0), vec![], 1).unwrap();
        let missing = vec![Missing { id: "x".to_owned(), reason: "y".to_owned(), cause: Cause::TooFewCpus }];
        let env = Env { versions: Default::default(), ..Env::default() };
        let all = Figures { schema: SCHEMA.to_owned(), env, figures: vec![figure], missing, partial: false };
        let mut all_names = Vec::new();
        names(&serde_json::to_value(&all).unwrap(), &mut all_names);
        let text = include_str!("../../../docs/schema.md");
        let words: std::collections::HashSet<&str> =
            text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
        let absent: Vec<&String> = all_names.iter().filter(|name| !words.contains(name.as_str())).collect();
        assert!(absent.is_empty() && all_names.len() > 50, "{absent:?} of {all_names:?}");
    }

    #[test]
    fn missing_is_no_pass() {
        let figure =
            Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 99, blocks(31, 42.0, 40.0), vec![], 1).unwrap();
        let mut all = Figures {
            schema: SCHEMA.to_owned(),
            env: Env::default(),
            figures: vec![figure],
            missing: vec![],
            partial: false,
        };
        assert_eq!((all.verdict(), all.exit_status()), (Verdict::Pass, 0));
        all.missing.push(Missing {
            id: "up.64".to_owned(),
            reason: "no cluster".to_owned(),
            cause: Cause::Other,
        });
        assert_eq!((all.verdict(), all.exit_status()), (Verdict::Fail, 1));
        let measured = all.figures.clone();
        all.figures.clear();
        assert_eq!(all.exit_status(), 4);
        // Whatever the words are.
        all.missing[0].cause = Cause::TooFewCpus;
        assert_eq!((all.verdict(), all.exit_status()), (Verdict::Inconclusive, 3));
        all.figures = measured;
        assert_eq!((all.verdict(), all.exit_status()), (Verdict::Inconclusive, 3));
        let other = Missing { id: "x".into(), reason: "needs two processors".into(), cause: Cause::Other };
        all.missing.push(other);
        assert_eq!((all.verdict(), all.exit_status(), all.lacks_only_cpus()), (Verdict::Fail, 1, false));
    }

    #[test]
    fn a_cause_that_is_not_known_is_another() {
        let read = |text: &str| serde_json::from_str::<Missing>(text).unwrap().cause;
        assert_eq!(read(r#"{"id": "x", "reason": "y"}"#), Cause::Other);
        assert_eq!(read(r#"{"id": "x", "reason": "y", "cause": "full_moon"}"#), Cause::Other);
        assert_eq!(read(r#"{"id": "x", "reason": "y", "cause": "too_few_cpus"}"#), Cause::TooFewCpus);
    }
}
