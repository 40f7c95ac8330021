//! Reads the tables of the single benchmarks. Fields are looked up by name, so that a document of
//! an older program, which lacks some, is read as far as possible.

use serde_json::Value;

use super::{Beside, Document, Item, is_small_good};
use crate::{
    env::Env,
    figure::Stat,
    layout::table::size as shown,
    patterns::{intr_bench, pt2pt, scipp},
    rivals,
    stats::{Block, Interval},
};

/// Reads a document of one of the tools; an error describes what is wrong.
pub(super) fn document(name: &str, schema: &str, value: &Value) -> Result<Document, String> {
    let env: Env = match value.get("env") {
        Some(env) => serde_json::from_value(env.clone()).map_err(|error| format!("`env`: {error}"))?,
        None => return Err("there is no `env`".to_owned()),
    };
    let items = if schema == scipp::Report::SCHEMA {
        scipp(value)?
    } else if schema == crate::patterns::scibench2::Report::SCHEMA {
        rows(value, |row| paired_row(row, "scibench2", "GB/s", "bandwidth_gb_s", "rival", "rival_gb_s"))?
    } else if schema == crate::patterns::dma_bench::Report::SCHEMA {
        rows(value, |row| paired_row(row, "dma", "ns", "entry_ns", "reference", "reference_ns"))?
    } else if schema == pt2pt::Report::SCHEMA {
        rows(value, pt2pt_row)?
    } else if schema == intr_bench::Report::SCHEMA {
        intr(value)?
    } else if schema == crate::patterns::jitter::Report::SCHEMA {
        jitter(value)
    } else if schema == rivals::Report::SCHEMA {
        latency(value)?
    } else {
        limits(value)
    };
    let setting = [
        "cpus",
        "cpu",
        "nodes",
        "path",
        "mechanism",
        "placement",
        "way",
        "processes",
        "sharing",
        "pairs",
        "members",
        "window",
        "load_threads",
    ]
    .into_iter()
    .filter_map(|field| Some((field, value.get(field)?.to_string())))
    .collect();
    let partial = value.get("partial").and_then(Value::as_bool).unwrap_or(false);
    let (name, schema) = (name.to_owned(), schema.to_owned());
    Ok(Document { name, schema, env, setting, items, missing: Vec::new(), partial })
}

fn number(value: &Value, field: &str) -> Option<f64> {
    value.get(field)?.as_f64().filter(|number| number.is_finite())
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

fn interval(value: &Value, field: &str) -> Option<Interval> {
    let ends = value.get(field)?.as_array()?;
    match ends.iter().map(Value::as_f64).collect::<Option<Vec<_>>>()?[..] {
        [low, high] => Some(Interval::between(low, high)),
        _ => None,
    }
}

fn numbers(value: &Value, field: &str) -> Vec<f64> {
    let list = value.get(field).and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

/// `[[ours, reference], …]`; entries that are not pairs are left out.
fn pairs(value: &Value) -> Vec<Block> {
    let list = value.get("pairs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let pair = |pair: &Value| Some(Block { ours: pair.get(0)?.as_f64()?, reference: pair.get(1)?.as_f64()? });
    list.iter().filter_map(pair).collect()
}

/// One item of each row.
fn rows(value: &Value, of: impl Fn(&Value) -> Option<Item>) -> Result<Vec<Item>, String> {
    let rows = value.get("rows").and_then(Value::as_array).ok_or("there are no `rows`")?;
    let item = |(at, row)| of(row).ok_or_else(|| format!("row {} has no size or no value", at + 1));
    rows.iter().enumerate().map(item).collect()
}

/// An id's last part.
fn size(row: &Value) -> Option<String> {
    let bytes = row.get("size_bytes")?.as_u64()?;
    Some(shown(bytes).replace(' ', ""))
}

fn disturbed(row: &Value) -> usize {
    row.get("disturbed").and_then(Value::as_u64).unwrap_or(0) as usize
}

fn plain(id: String, unit: &str, value: f64, ci95: Option<Interval>) -> Item {
    let (unit, small_is_good) = (unit.to_owned(), is_small_good(unit));
    Item {
        id,
        unit,
        small_is_good,
        stat: Stat::P50,
        value,
        ci95,
        beside: None,
        blocks: vec![],
        disturbed: 0,
        verdict: None,
    }
}

/// Half round trips, or what else a summary is of.
fn of_summary(id: String, summary: &Value) -> Option<Item> {
    let value = number(summary, "p50_ns").or_else(|| number(summary, "mean_ns"))?;
    Some(plain(id, "ns", value, interval(summary, "p50_ci95_ns")))
}

fn scipp(value: &Value) -> Result<Vec<Item>, String> {
    let (how, name) = match (text(value, "mechanism"), text(value, "placement")) {
        ("put", _) => (".put", "libfabric's own messages of 8 bytes"),
        (_, "own") => (".own", "half the round trip of its cache lines"),
        _ => ("", "half the round trip of its cache lines"),
    };
    rows(value, |row| {
        let id = format!("scipp.half_rtt.{}{how}", size(row)?);
        let blocks = pairs(row);
        let mut item = match Item::of_blocks(id.clone(), "ns", blocks, Some(name.to_owned())) {
            Some(item) => item,
            None => {
                let mut item = of_summary(id, row.get("half_rtt")?)?;
                item.beside =
                    number(row, "line_floor_ns").filter(|baseline| *baseline > 0.0).map(|baseline| Beside {
                        name: name.to_owned(),
                        value: baseline,
                        ratio: item.value / baseline,
                        ratio_ci95: item.ci95.map(|ci| ci.scaled(1.0 / baseline)),
                    });
                item
            }
        };
        item.disturbed = disturbed(row);
        Some(item)
    })
}

/// A row with a value, what it is compared with, and the ratio of the two.
fn paired_row(row: &Value, tool: &str, unit: &str, value: &str, name: &str, beside: &str) -> Option<Item> {
    let mut item = plain(format!("{tool}.{}", size(row)?), unit, number(row, value)?, None);
    item.blocks = pairs(row);
    item.disturbed = disturbed(row);
    let ours: Vec<f64> = item.blocks.iter().map(|block| block.ours).collect();
    item.ci95 = crate::stats::median_interval(&ours);
    item.beside = number(row, beside).zip(number(row, "ratio")).map(|(value, ratio)| Beside {
        name: text(row, name).to_owned(),
        value,
        ratio,
        ratio_ci95: interval(row, "ratio_ci95"),
    });
    Some(item)
}

fn pt2pt_row(row: &Value) -> Option<Item> {
    let test = text(row, "test");
    let id = match size(row)?.as_str() {
        "0B" => format!("pt2pt.{test}"),
        size => format!("pt2pt.{test}.{size}"),
    };
    let mut item = plain(id, "ns", number(row, "ns")?, None);
    let readings = row.get("readings_ns").and_then(Value::as_array)?;
    let readings: Vec<f64> = readings.iter().filter_map(Value::as_f64).collect();
    item.ci95 = crate::stats::median_interval(&readings);
    Some(item)
}

/// The names of the rows of `intr`, and the figure that each is compared with.
const INTR: [(&str, &str, Option<&str>); 3] = [
    (intr_bench::Figure::SPINNING, "intr.spinning", Some("cache line, both looking")),
    (intr_bench::Figure::SLEEPING, "intr.sleeping.half_rtt", Some("futex, both asleep")),
    (intr_bench::Figure::ONE_WAY, "intr.sleeping", None),
];

fn intr(value: &Value) -> Result<Vec<Item>, String> {
    let figures = value.get("figures").and_then(Value::as_array).ok_or("there are no `figures`")?;
    let named = |name: &str| figures.iter().find(|figure| text(figure, "name") == name);
    let mut items = Vec::new();
    for (name, id, beside) in INTR {
        let Some(figure) = named(name) else { continue };
        let other = beside.and_then(|name| Some((name, named(name)?)));
        items.extend(beside_other(id, figure, ("readings_ns", "time"), "ns", other));
    }
    Ok(items)
}

/// A series of readings, compared with another one of the same run if both have the same length.
fn beside_other(
    id: &str,
    one: &Value,
    (readings, summary): (&str, &str),
    unit: &str,
    other: Option<(&str, &Value)>,
) -> Option<Item> {
    let ours = numbers(one, readings);
    let theirs = other.map(|(_, other)| numbers(other, readings)).unwrap_or_default();
    let paired = !theirs.is_empty() && theirs.len() == ours.len();
    // Without a partner the second column is ours again: the ratio is 1 and is not used.
    let column = if paired { &theirs } else { &ours };
    let blocks =
        ours.iter().zip(column).map(|(ours, reference)| Block { ours: *ours, reference: *reference });
    let name = other.filter(|_| paired).map(|(name, _)| name.to_owned());
    Item::of_blocks(id.to_owned(), unit, blocks.collect(), name)
        .or_else(|| of_summary(id.to_owned(), one.get(summary)?))
}

/// Ours among the transports.
const LATENCY: [(&str, &str); 3] =
    [("tieline, stores", "stores"), ("tieline, puts", "puts"), ("tieline, interrupt", "interrupt")];

fn latency(value: &Value) -> Result<Vec<Item>, String> {
    let rows = value.get("rows").and_then(Value::as_array).ok_or("there are no `rows`")?;
    let named = |name: &str| rows.iter().find(|row| text(row, "name") == name);
    let mut items = Vec::new();
    for (name, id) in LATENCY {
        let Some(row) = named(name) else { continue };
        let futex = (id == "interrupt").then_some("futex").and_then(|name| Some((name, named(name)?)));
        items.extend(beside_other(
            &format!("latency.{id}.half_rtt"),
            row,
            ("readings_ns", "half_rtt"),
            "ns",
            futex,
        ));
        let copy = named("memcpy, one thread").map(|row| ("memcpy, one thread", row));
        if number(row, "bandwidth_gb_s").is_some() {
            let id = format!("latency.{id}.bandwidth");
            items.extend(beside_other(&id, row, ("readings_gb_s", "none"), "GB/s", copy));
        }
    }
    Ok(items)
}

fn jitter(value: &Value) -> Vec<Item> {
    let rtt = value.get("rtt").unwrap_or(&Value::Null);
    // Puts between hosts are never taken for stores.
    let how = if text(value, "mechanism") == "put" { ".put" } else { "" };
    let id = |name: &str| format!("jitter.rtt.{name}{how}");
    let mut items: Vec<Item> = of_summary(id("p50"), rtt).into_iter().collect();
    for (field, name) in [("p99_ns", "p99"), ("p999_ns", "p99.9"), ("max_ns", "max")] {
        items.extend(number(rtt, field).map(|ns| plain(id(name), "ns", ns, None)));
    }
    items
}

fn limits(value: &Value) -> Vec<Item> {
    let list = |field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut items = Vec::new();
    for line in list("lines") {
        let id = format!("limits.line.{}", text(&line, "form").replace(' ', "_"));
        items.extend(line.get("half_rtt").and_then(|summary| of_summary(id, summary)));
    }
    items.extend(value.get("wake").and_then(|summary| of_summary("limits.wake".to_owned(), summary)));
    for copy in list("copies") {
        let Some(size) = size(&copy) else { continue };
        let id = format!("limits.copy.{}.{size}", text(&copy, "temperature"));
        items.extend(copy.get("time").and_then(|summary| of_summary(id, summary)));
    }
    items
}
