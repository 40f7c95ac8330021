//! Snapshots that were edited or damaged: any file is a snapshot or an error, and what is a snapshot can
//! be reported on and written.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::report::{Category, Report, Wanted, render};

/// Values at which limits lie.
const NUMBERS: [i64; 16] =
    [-1, 0, 1, 2, 7, 8, 15, 16, 99, 254, 255, 256, 65_535, 65_536, u32::MAX as i64, i64::MAX];
const TEXTS: [&str; 8] = ["", "0x", "0xffffffffffffffff", "f", "ff00", "switch", "host", "\u{0}é\u{1b}[2J"];

/// A snapshot with everything in it that a file may hold.
fn whole() -> Value {
    let mut bytes = Vec::new();
    write(&tests::snapshot(), &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Takes the file as the commands do.
fn take(bytes: &[u8]) -> Result<(), String> {
    let snapshot = read(bytes, None, "a file")?;
    for worst in [Category::Integrity, Category::Data] {
        let wanted = Wanted {
            plan: Some(&snapshot),
            since: Some(&snapshot),
            worst: Some(worst),
            nodes: true,
            links: true,
            ..Wanted::default()
        };
        if let Ok(report) = Report::of(&snapshot, &wanted) {
            assert!(!render(&report).is_empty());
        }
    }
    let mut again = Vec::new();
    write(&snapshot, &mut again).unwrap();
    read(&again, None, "what was written")
        .map(drop)
        .map_err(|why| format!("what was written is no snapshot: {why}"))
}

/// Changes the place to which a path leads: each step names one of what is there, whatever there is. So a
/// field that stands once is changed as often as one of each port.
fn change(value: &mut Value, path: &[usize], how: u8, what: usize) {
    let Some((step, rest)) = path.split_first() else { return one(value, how, what) };
    let inner: Vec<&mut Value> = match value {
        Value::Array(all) => all.iter_mut().collect(),
        Value::Object(all) => all.values_mut().collect(),
        _ => return one(value, how, what),
    };
    let count = inner.len().max(1);
    if let Some(inner) = inner.into_iter().nth(step % count) {
        change(inner, rest, how, what);
    }
}

fn one(value: &mut Value, how: u8, what: usize) {
    match (&mut *value, how % 4) {
        (Value::Array(all), 0) if !all.is_empty() => drop(all.remove(what % all.len())),
        (Value::Array(all), 1) if !all.is_empty() => all.push(all[what % all.len()].clone()),
        (Value::Array(all), _) => all.reverse(),
        (Value::Object(all), 0 | 1) => {
            let key = all.keys().nth(what % all.len().max(1)).cloned();
            key.map(|key| all.remove(&key));
        }
        (Value::String(text), 0) => text.push_str(TEXTS[what % TEXTS.len()]),
        (Value::String(text), 1) => *text = text.chars().skip(what % 7).collect(),
        (Value::String(text), _) => *text = TEXTS[what % TEXTS.len()].to_owned(),
        (Value::Number(_), 0..3) => *value = json!(NUMBERS[what % NUMBERS.len()]),
        (_, 3) => *value = Value::Null,
        _ => *value = json!(NUMBERS[what % NUMBERS.len()]),
    }
}

#[test]
fn what_lies_beyond_the_list_of_nodes_is_an_error() {
    let with = |field: &str, value: Value| {
        let mut file = whole();
        file[field] = value;
        take(file.to_string().as_bytes())
    };
    let lanes = "0123456789abcdef";
    for (field, value) in [
        ("lane_maps", json!([{"node": 99, "from": 1, "to": 2, "lanes": lanes}])),
        ("lane_maps", json!([{"node": u32::MAX, "from": 1, "to": 2, "lanes": lanes}])),
        ("lane_maps", json!([{"node": 0, "from": 1, "to": 200, "lanes": lanes}])),
        ("links", json!([{"ends": [[99, 1], [0, 1]], "lanes": 4, "speed": "EDR"}])),
        ("links", json!([{"ends": [[0, 0], [1, 1]], "lanes": 4, "speed": "EDR"}])),
    ] {
        let got = with(field, value.clone());
        assert!(got.is_err(), "{value}");
    }
    // A fabric without nodes, and what still mentions them.
    assert!(with("nodes", json!([])).is_err());
    take(whole().to_string().as_bytes()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_file_is_a_snapshot_or_an_error(
        changes in prop::collection::vec(
            (prop::collection::vec(any::<usize>(), 0..6), any::<u8>(), any::<usize>()), 1..4,
        ),
    ) {
        let mut file = whole();
        for (path, how, what) in changes {
            change(&mut file, &path, how, what);
        }
        drop(take(file.to_string().as_bytes()));
    }

    #[test]
    fn a_damaged_file_is_a_snapshot_or_an_error(
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8), cut in any::<usize>(),
    ) {
        let mut bytes = whole().to_string().into_bytes();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut % 3 * (cut % bytes.len()) / 2);
        drop(take(&bytes));
    }
}
