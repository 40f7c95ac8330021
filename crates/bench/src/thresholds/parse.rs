//! Parses a file of thresholds and reports each mistake with its line and what was expected.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Bounds, Threshold, Thresholds, ThresholdsError, ids};
use crate::quantity::Quantity;

/// The fields of an entry.
const FIELDS: &str = "target_ratio, lower_ratio, upper_ratio, target, lower and upper";

struct Reader<'t> {
    source: &'t str,
    text: &'t str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    fn wrong(&self, at: usize, message: impl Into<String>) -> ThresholdsError {
        let (source_name, line) = (self.source.to_owned(), self.line(at));
        ThresholdsError::Malformed { source_name, line, message: message.into() }
    }
}

pub(super) fn parse(source: &str, text: &str) -> Result<Thresholds, ThresholdsError> {
    let reader = Reader { source, text };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reader.wrong(
            at,
            format!("not TOML: {}: `tieline bench thresholds` prints a valid file", error.message()),
        )
    })?;
    let mut entries = Vec::new();
    for (name, value) in table.get_ref() {
        entries.push(entry(&reader, name.get_ref(), name.span().start, value)?);
    }
    // A table of TOML is sorted by name; people expect the order of the file.
    entries.sort_by_key(|entry| entry.line);
    Ok(Thresholds { source: source.to_owned(), entries })
}

fn entry(
    reader: &Reader<'_>,
    pattern: &str,
    at: usize,
    value: &Spanned<DeValue<'_>>,
) -> Result<Threshold, ThresholdsError> {
    let DeValue::Table(fields) = value.get_ref() else {
        let message = format!("`{pattern}` is not a table: expected [\"NAME\"] and below it {FIELDS}");
        return Err(reader.wrong(at, message));
    };
    // First, as it is the likelier mistake: [scipp.half_rtt.4B] is a table in a table in a table.
    if let Some((inner, _)) = fields.iter().find(|(_, value)| matches!(value.get_ref(), DeValue::Table(_))) {
        let message = format!(
            "`{pattern}.{}` without quotes is a table within a table: expected a quoted name, such as [\"scipp.half_rtt.4B\"]",
            inner.get_ref()
        );
        return Err(reader.wrong(inner.span().start, message));
    }
    let meant = ids::meant(pattern);
    if meant.is_empty() {
        let like = ids::like(pattern).map_or_else(String::new, |id| format!("; did you mean `{id}`?"));
        let message = format!(
            "no figure is called `{pattern}`, and none matches it{like} (`tieline bench thresholds` prints all names with a goal)"
        );
        return Err(reader.wrong(at, message));
    }
    let line = reader.line(at);
    let mut entry = Threshold {
        pattern: pattern.to_owned(),
        line,
        ratio: Bounds::default(),
        value: Bounds::default(),
        dimension: None,
    };
    let mut unit = String::new();
    for (name, value) in fields {
        field(reader, &mut entry, &mut unit, name, value)?;
    }
    if !(entry.ratio.judges() || entry.value.judges()) {
        let message = format!(
            "[\"{pattern}\"] judges nothing: expected at least one of lower_ratio, upper_ratio, lower, upper"
        );
        return Err(reader.wrong(at, message));
    }
    ordered(reader, at, pattern, &entry.ratio, "_ratio")?;
    ordered(reader, at, pattern, &entry.value, "")?;
    if let Some(dimension) = entry.dimension
        && let Some((id, other)) = meant.iter().find(|(_, other)| *other != dimension)
    {
        let message = format!(
            "[\"{pattern}\"] is given in {unit}, and `{id}` is measured in {}: expected a unit of that kind",
            other.unit()
        );
        return Err(reader.wrong(at, message));
    }
    Ok(entry)
}

fn field(
    reader: &Reader<'_>,
    entry: &mut Threshold,
    unit: &mut String,
    name: &Spanned<toml::de::DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
) -> Result<(), ThresholdsError> {
    let (text, at) = (name.get_ref().as_ref(), value.span().start);
    let (which, is_ratio) = match text.strip_suffix("_ratio") {
        Some(which) => (which, true),
        None => (text, false),
    };
    let bounds = if is_ratio { &mut entry.ratio } else { &mut entry.value };
    let slot = match which {
        "target" => &mut bounds.target,
        "lower" => &mut bounds.lower,
        "upper" => &mut bounds.upper,
        _ => {
            let message = format!("`{text}` is not a field of a threshold: expected {FIELDS}");
            return Err(reader.wrong(name.span().start, message));
        }
    };
    if is_ratio {
        *slot = Some(ratio(value.get_ref()).ok_or_else(|| {
            reader.wrong(
                at,
                format!("`{text}`: expected a number above 0 such as 1.1, to which the ratio is compared"),
            )
        })?);
        return Ok(());
    }
    let quantity = match value.get_ref() {
        DeValue::String(text) => Quantity::parse(text),
        _ => Err("expected text with a number and a unit, such as \"150 ns\"".to_owned()),
    };
    let quantity = quantity.map_err(|error| reader.wrong(at, format!("`{text}`: {error}")))?;
    if entry.dimension.is_some_and(|dimension| dimension != quantity.dimension) {
        return Err(
            reader.wrong(at, format!("`{text}`: expected a unit like that of the bounds before it, {unit}"))
        );
    }
    entry.dimension = Some(quantity.dimension);
    if let DeValue::String(text) = value.get_ref() {
        // As it was typed: what the value is kept in may be another one.
        *unit = text.trim_start_matches(|c: char| !c.is_alphabetic()).trim_end().to_owned();
    }
    *slot = Some(quantity.value);
    Ok(())
}

fn ratio(value: &DeValue<'_>) -> Option<f64> {
    let number: f64 = match value {
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok()?,
        DeValue::Integer(integer) if integer.radix() == 10 => {
            integer.as_str().replace('_', "").parse().ok()?
        }
        _ => return None,
    };
    (number.is_finite() && number > 0.0).then_some(number)
}

fn ordered(
    reader: &Reader<'_>,
    at: usize,
    pattern: &str,
    bounds: &Bounds,
    suffix: &str,
) -> Result<(), ThresholdsError> {
    let chain: Vec<f64> = [bounds.lower, bounds.target, bounds.upper].into_iter().flatten().collect();
    if chain.is_sorted() {
        return Ok(());
    }
    let message = format!(
        "[\"{pattern}\"]: expected lower{suffix} ≤ target{suffix} ≤ upper{suffix}, which no figure can satisfy"
    );
    Err(reader.wrong(at, message))
}
