//! Two documents of a whole verification, section by section.
//!
//! `benchmarks` are documents of benchmarks, matched by their form and, if there are several of
//! one, by their order. `latency.scipp` is one more. `pairs` are the pairs of nodes: half round
//! trip, time of a block, bandwidth.

use serde::Serialize;
use serde_json::Value;

use super::{Comparison, Options, documents, values};
use crate::{
    env::Env,
    figure::{Cause, Missing, Stat},
    results::{Beside, Document, DocumentError, Item, OF_VERIFY, said_schema, schema_of},
    stats::Interval,
    verdict::Verdict,
};

/// Form of the documents.
pub const VERIFY_SCHEMA: &str = "tieline.verify/1";
/// Name of the result's form.
pub const SCHEMA: &str = "tieline.compare_verify/1";
/// The name of a pair's reference: the other pairs of the same rounds.
const OTHERS: &str = "the other pairs";

/// Result of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Sections {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The old value.
    pub old: String,
    /// The new value.
    pub new: String,
    /// By section.
    pub sections: Vec<Section>,
    /// The worst of the sections.
    pub verdict: Verdict,
}

/// One section.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// The name.
    pub name: String,
    /// The comparison; `null` if there is none.
    pub comparison: Option<Comparison>,
    /// The reason why there is none, or a note.
    pub error: Option<String>,
    /// The verdict on the section.
    pub verdict: Verdict,
}

/// Whether a document is one of a whole verification.
pub fn is_one(value: &Value) -> bool {
    schema_of(value) == VERIFY_SCHEMA
}

/// Compares two documents, each with its label.
pub fn values_of(
    (old_name, old): (&str, &Value),
    (new_name, new): (&str, &Value),
    options: &Options,
) -> Result<Sections, DocumentError> {
    for (name, value) in [(old_name, old), (new_name, new)] {
        if !is_one(value) {
            return Err(DocumentError::WrongSchema {
                name: name.to_owned(),
                schema: said_schema(value),
                known: format!("`{VERIFY_SCHEMA}`"),
                wanted: OF_VERIFY,
            });
        }
    }
    let (before, now) = (benchmarks(old), benchmarks(new));
    let mut sections = Vec::new();
    for (name, value) in &before {
        let other = now.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
        sections.push(section(name, other, options, |other| {
            values((&format!("{old_name}, {name}"), value), (&format!("{new_name}, {name}"), other), options)
        }));
    }
    if let Some(pairs) = pairs(old_name, old) {
        let other = self::pairs(new_name, new);
        sections.push(section("pairs", other.as_ref(), options, |other| documents(&pairs, other, options)));
    }
    if sections.is_empty() {
        let (name, schema) = (old_name.to_owned(), VERIFY_SCHEMA.to_owned());
        return Err(DocumentError::Empty { name, schema });
    }
    // Speed that was measured beside other work, in either run, does not show what has changed.
    for (name, value) in [(old_name, old), (new_name, new)] {
        if let Some(busy) = value.get("busy").and_then(Value::as_str) {
            sections.iter_mut().for_each(|section| section.measured_beside_other_work(name, busy));
        }
    }
    let verdict = Verdict::overall(sections.iter().map(|section| section.verdict));
    Ok(Sections { schema: SCHEMA, old: old_name.to_owned(), new: new_name.to_owned(), sections, verdict })
}

impl Section {
    /// It cannot have failed, if it did.
    fn measured_beside_other_work(&mut self, name: &str, busy: &str) {
        if self.verdict == Verdict::Fail {
            self.verdict = Verdict::Inconclusive;
            let said = self.error.take().map_or(String::new(), |error| format!("{error}; "));
            self.error = Some(format!("{said}this decides nothing: in {name}, {busy}"));
        }
    }
}

/// Compares a section, if it is there now.
fn section<T>(
    name: &str,
    now: Option<T>,
    options: &Options,
    compare: impl FnOnce(T) -> Result<Comparison, DocumentError>,
) -> Section {
    let name = name.to_owned();
    let Some(now) = now else {
        let verdict = if options.missing_ok { Verdict::Pass } else { Verdict::Fail };
        return Section { name, comparison: None, error: Some("it is not there now".to_owned()), verdict };
    };
    match compare(now) {
        Ok(comparison) => {
            let verdict = comparison.verdict;
            Section { name, comparison: Some(comparison), error: None, verdict }
        }
        Err(error) => {
            Section { name, comparison: None, error: Some(error.to_string()), verdict: Verdict::Fail }
        }
    }
}

/// All documents of benchmarks, named by their form and, from the second of a form on, their
/// number.
fn benchmarks(value: &Value) -> Vec<(String, &Value)> {
    let list = value.get("benchmarks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let scipp = value.pointer("/latency/scipp").filter(|scipp| scipp.is_object());
    let mut named: Vec<(String, &Value)> = Vec::new();
    for document in list.iter().chain(scipp) {
        let form = schema_of(document).to_owned();
        let earlier = named.iter().filter(|(_, other)| schema_of(other) == form).count();
        named.push((if earlier == 0 { form } else { format!("{form}, number {}", earlier + 1) }, document));
    }
    named
}

/// The pairs of nodes as a document; `None` if none was measured.
fn pairs(name: &str, value: &Value) -> Option<Document> {
    let section = value.get("pairs").filter(|section| !section.is_null())?;
    let list = section.get("pairs").unwrap_or(section).as_array()?;
    let items: Vec<Item> = list.iter().flat_map(of_pair).collect();
    let env =
        value.get("env").and_then(|env| serde_json::from_value::<Env>(env.clone()).ok()).unwrap_or_default();
    let reason = section.get("error").and_then(Value::as_str);
    let whole = reason.map(|reason| Missing {
        id: "pairs".to_owned(),
        reason: reason.to_owned(),
        cause: Cause::Other,
    });
    let missing: Vec<Missing> = list.iter().flat_map(unread_of_pair).chain(whole).collect();
    let partial = section.get("partial").and_then(Value::as_bool).unwrap_or(false);
    let measured = !items.is_empty() || !missing.is_empty();
    measured.then(|| Document {
        name: format!("{name}, pairs"),
        schema: VERIFY_SCHEMA.to_owned(),
        env,
        setting: Vec::new(),
        items,
        missing,
        partial,
    })
}

/// The names of the measured values of a pair.
const OF_A_PAIR: [(&str, &str); 2] = [("latency", "half_rtt"), ("block", "block")];

fn id_of(pair: &Value, what: &str) -> Option<String> {
    let ends = pair.get("pair")?.as_array()?;
    let ends: Vec<String> = ends.iter().map(|node| node.to_string().trim_matches('"').to_owned()).collect();
    Some(format!("pairs.{}.{what}", ends.join("-")))
}

/// The values of a measured pair that had too few readings.
fn unread_of_pair(pair: &Value) -> Vec<Missing> {
    let unread = OF_A_PAIR.iter().filter(|(field, _)| pair.get(field).is_some_and(Value::is_null));
    let missing = unread.filter_map(|(_, what)| {
        let reason = "too few undisturbed readings".to_owned();
        Some(Missing { id: id_of(pair, what)?, reason, cause: Cause::Disturbed })
    });
    missing.collect()
}

/// The half round trip and the time of a block of one pair, each compared with the other pairs.
fn of_pair(pair: &Value) -> Vec<Item> {
    let item = |field: &str, what: &str| {
        let excess = pair.get(field)?;
        let value = excess.get("p50_ns")?.as_f64()?;
        let ratio = excess.get("ratio")?.as_f64().filter(|ratio| *ratio > 0.0)?;
        let ci = excess.get("ratio_ci95").and_then(|ci| serde_json::from_value::<Interval>(ci.clone()).ok());
        Some(Item {
            id: id_of(pair, what)?,
            unit: "ns".to_owned(),
            small_is_good: true,
            stat: Stat::P50,
            value,
            ci95: None,
            beside: Some(Beside { name: OTHERS.to_owned(), value: value / ratio, ratio, ratio_ci95: ci }),
            blocks: Vec::new(),
            disturbed: 0,
            verdict: excess.get("verdict").and_then(|verdict| serde_json::from_value(verdict.clone()).ok()),
        })
    };
    OF_A_PAIR.iter().filter_map(|(field, what)| item(field, what)).collect()
}

impl Sections {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            text.push_str(&format!("== {}: {}\n", section.name, section.verdict));
            if let Some(error) = &section.error {
                text.push_str(&format!("{error}\n"));
            }
            if let Some(comparison) = &section.comparison {
                text.push_str(&comparison.to_text());
            }
            text.push('\n');
        }
        text.push_str(&format!("overall verdict: {}\n", self.verdict));
        text
    }
}
