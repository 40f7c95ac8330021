//! Compares two results of one command: worse, better, unchanged, or undecided.
//!
//! [`files`] and [`values`] take the documents as they are, [`verify::values_of`] those of a whole
//! verification, section by section. A figure that was there before and is not there now is a
//! failure, as one that got worse: a test that silently no longer runs is the commonest way to pass
//! it.

mod judge;
mod render;
mod tolerance;
pub mod verify;

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

pub use self::{judge::BLOCKS_MIN, tolerance::Tolerance};
use crate::{
    env::Env,
    figure::Cause,
    results::{self, Document, DocumentError},
    stats::Interval,
    verdict::Verdict,
};

/// Name of the form.
pub const SCHEMA: &str = "tieline.compare/1";

/// The options of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The smallest difference that counts.
    pub tolerance: Tolerance,
    /// A figure that is no longer there is no failure.
    pub missing_ok: bool,
    /// The seed of resampling and shuffling.
    pub seed: u64,
}

/// The compared quantity of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The ratio to the reference of the same run: both documents have the same reference.
    Ratio,
    /// The plain value: the references differ, or there is none.
    Value,
}

/// The judgement on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// Beyond both tolerances, in the wrong direction.
    Worse,
    /// Beyond both, in the right one.
    Better,
    /// Within one of them, surely.
    Same,
    /// The interval, or too few blocks, leave it open.
    Inconclusive,
}

impl Judgement {
    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Same => "same",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// One figure before and after.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// The ID.
    pub id: String,
    /// Unit of the values and of the difference.
    pub unit: String,
    /// The compared quantity.
    pub basis: Basis,
    /// The reference in both runs; `null` if plain values are compared.
    pub beside: Option<String>,
    /// Value before.
    pub old: f64,
    /// Value now.
    pub new: f64,
    /// New by old: of the ratios to the reference, or of the values.
    pub change: Option<f64>,
    /// Its 95 % interval.
    pub change_ci95: Option<Interval>,
    /// The change in the unit, at the old reference.
    pub difference: Option<f64>,
    /// The probability of such a difference of plain values by chance, by a permutation test.
    pub chance: Option<f64>,
    /// Undisturbed blocks before and now.
    pub blocks: [usize; 2],
    /// The verdicts that the two documents have for it.
    pub verdicts: [Option<Verdict>; 2],
    /// The judgement.
    pub judgement: Judgement,
    /// The reason of the judgement, or a note.
    pub why: Option<String>,
}

/// A circumstance that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of the value.
    pub what: String,
    /// The old value.
    pub old: String,
    /// The new value.
    pub new: String,
}

/// A figure of only one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OneSided {
    /// The ID.
    pub id: String,
    /// Why it is not on the other side, where that is known.
    pub reason: Option<String>,
    /// It was measured, but other work on the machine left too few readings, so it is not known
    /// whether it got worse.
    pub disturbed: bool,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Source {
    /// Its path, or its place in another document.
    pub name: String,
    /// When it was measured, in seconds since 1970.
    pub started_unix_s: u64,
    /// It was ended early.
    pub partial: bool,
}

/// Result of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Form of the two documents.
    pub of: String,
    /// The old build or result.
    pub old: Source,
    /// The new build or result.
    pub new: Source,
    /// The smallest difference that counts.
    pub tolerance: Tolerance,
    /// Machine, placement and versions, where they are not the same.
    pub differences: Vec<Difference>,
    /// By figure, in the order of the old document.
    pub figures: Vec<Change>,
    /// Figures of before that are not there now.
    pub missing: Vec<OneSided>,
    /// Whether those are allowed to be missing.
    pub missing_ok: bool,
    /// Figures of now that were not there before.
    pub added: Vec<OneSided>,
    /// `FAIL`: a figure is worse or missing. `INCONCLUSIVE`: a figure cannot be judged, or is
    /// missing because the machine was disturbed. Else `PASS`.
    pub verdict: Verdict,
}

/// Compares two files.
pub fn files(old: &Path, new: &Path, options: &Options) -> Result<Comparison, DocumentError> {
    let read = |path| results::read_json(path, results::OF_BENCHMARKS);
    let (a, b) = (read(old)?, read(new)?);
    values((&old.display().to_string(), &a), (&new.display().to_string(), &b), options)
}

/// Compares two documents, each with its label.
pub fn values(
    (old_name, old): (&str, &Value),
    (new_name, new): (&str, &Value),
    options: &Options,
) -> Result<Comparison, DocumentError> {
    documents(&Document::of(old_name, old)?, &Document::of(new_name, new)?, options)
}

/// Compares two documents that have been read.
pub fn documents(old: &Document, new: &Document, options: &Options) -> Result<Comparison, DocumentError> {
    if old.schema != new.schema {
        return Err(DocumentError::Unlike {
            old_name: old.name.clone(),
            old: old.schema.clone(),
            new_name: new.name.clone(),
            new: new.schema.clone(),
        });
    }
    let find = |document: &Document, id: &str| document.items.iter().position(|item| item.id == id);
    let mut figures = Vec::new();
    let mut missing = Vec::new();
    for item in &old.items {
        match find(new, &item.id) {
            Some(at) => figures.push(judge::judge(item, &new.items[at], &options.tolerance, options.seed)),
            None => missing.push(one_sided(&item.id, new)),
        }
    }
    let is_added = |id: &&str| find(old, id).is_none();
    let added = new.items.iter().map(|item| item.id.as_str()).filter(is_added).map(|id| one_sided(id, old));
    let mut comparison = Comparison {
        schema: SCHEMA,
        of: old.schema.clone(),
        old: source(old),
        new: source(new),
        tolerance: options.tolerance.clone(),
        differences: differences(old, new),
        figures,
        missing,
        missing_ok: options.missing_ok,
        added: added.collect(),
        verdict: Verdict::Inconclusive,
    };
    comparison.verdict = comparison.judged();
    Ok(comparison)
}

fn source(document: &Document) -> Source {
    let (name, partial) = (document.name.clone(), document.partial);
    Source { name, started_unix_s: document.env.started_unix_s, partial }
}

/// A figure that `other` does not have, with the reason, if the document gives one.
fn one_sided(id: &str, other: &Document) -> OneSided {
    let missing = other.missing.iter().find(|missing| missing.id == id);
    let reason = missing.map(|missing| missing.reason.clone());
    let reason = reason.or_else(|| other.partial.then(|| "that run was ended early".to_owned()));
    let disturbed = missing.is_some_and(|missing| missing.cause == Cause::Disturbed);
    OneSided { id: id.to_owned(), reason, disturbed }
}

impl Comparison {
    fn judged(&self) -> Verdict {
        let of = |change: &Change| match change.judgement {
            Judgement::Worse => Verdict::Fail,
            Judgement::Inconclusive => Verdict::Inconclusive,
            Judgement::Better | Judgement::Same => Verdict::Pass,
        };
        let missing =
            self.missing.iter().filter(|_| !self.missing_ok).map(|missing| match missing.disturbed {
                true => Verdict::Inconclusive,
                false => Verdict::Fail,
            });
        Verdict::overall(self.figures.iter().map(of).chain(missing))
    }

    /// Exit status of a command: 0 nothing worse, 1 something worse or missing, 3 something is
    /// inconclusive.
    pub fn exit_status(&self) -> u8 {
        self.verdict.exit_status()
    }

    /// The number of figures with this judgement.
    pub fn count(&self, judgement: Judgement) -> usize {
        self.figures.iter().filter(|change| change.judgement == judgement).count()
    }

    /// The result as text.
    pub fn to_text(&self) -> String {
        render::text(self)
    }
}

/// Circumstances that are not the same on both sides.
fn differences(old: &Document, new: &Document) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut add = |what: &str, old: String, new: String| {
        if old != new {
            all.push(Difference { what: what.to_owned(), old, new });
        }
    };
    for ((what, a), (_, b)) in circumstances(&old.env).into_iter().zip(circumstances(&new.env)) {
        add(what, a, b);
    }
    let both: std::collections::BTreeSet<&String> =
        old.env.versions.keys().chain(new.env.versions.keys()).collect();
    let version =
        |env: &Env, name: &String| env.versions.get(name).cloned().unwrap_or_else(|| "none".to_owned());
    for name in both {
        add(&format!("version of {name}"), version(&old.env, name), version(&new.env, name));
    }
    let setting = |document: &Document, what: &str| {
        let found = document.setting.iter().find(|(name, _)| *name == what);
        found.map_or_else(|| "unknown".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&str> = old.setting.iter().chain(&new.setting).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        add(name, setting(old, name), setting(new, name));
    }
    all
}

/// The facts of a machine that must be equal for a fair comparison.
fn circumstances(env: &Env) -> Vec<(&'static str, String)> {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    vec![
        ("processor", env.cpu_model.clone()),
        ("processors online", env.cpus_online.clone()),
        ("processors allowed", env.cpus_allowed.clone()),
        ("caches", env.caches.join(", ")),
        ("memory", format!("{} MiB", env.memory_bytes >> 20)),
        ("kernel", env.kernel.clone()),
        ("kernel command line", env.kernel_command_line.clone()),
        ("mitigations", env.mitigations.join("; ")),
        ("virtual machine", env.virtual_machine.to_string()),
        ("governor", or_none(&env.governor)),
        ("transparent huge pages", or_none(&env.transparent_huge_pages)),
        ("smt", or_none(&env.smt)),
        ("clock", env.clock.source.clone()),
    ]
}

#[cfg(test)]
mod tests;
