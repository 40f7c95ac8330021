use serde_json::json;

use super::*;

fn read(schema: &str, more: Value) -> Document {
    let mut value = json!({"schema": schema, "env": Env::default()});
    for (field, content) in more.as_object().unwrap() {
        value[field] = content.clone();
    }
    Document::of("x.json", &value).unwrap()
}

fn ids(document: &Document) -> Vec<&str> {
    document.items.iter().map(|item| item.id.as_str()).collect()
}

#[test]
fn scipp_by_size_and_placement() {
    let rows = json!([
        {"size_bytes": 4, "half_rtt": {"p50_ns": 84.0, "p50_ci95_ns": [83.0, 85.0]}, "line_floor_ns": 80.0, "disturbed": 2,
         "pairs": [[84.0, 80.0], [88.0, 80.0], [92.0, 80.0]]},
        {"size_bytes": 8192, "half_rtt": {"p50_ns": 900.0, "p50_ci95_ns": [890.0, 910.0]}, "line_floor_ns": 90.0},
    ]);
    let document = read("tieline.scipp/1", json!({"placement": "own", "rows": rows, "partial": true}));
    assert_eq!(ids(&document), ["scipp.half_rtt.4B.own", "scipp.half_rtt.8KiB.own"]);
    assert!(document.partial && document.setting.contains(&("placement", "\"own\"".into())));
    let [with, without] = &document.items[..] else { panic!() };
    assert_eq!((with.blocks.len(), with.value, with.disturbed), (3, 88.0, 2));
    assert_eq!(with.beside.as_ref().unwrap().ratio, 1.1);
    // An older document has no readings: then the summary has to do.
    assert_eq!((without.value, without.beside.as_ref().unwrap().ratio), (900.0, 10.0));
}

/// Puts are never taken for stores.
#[test]
fn scipp_between_hosts_has_names_of_its_own() {
    let rows = json!([{"size_bytes": 4, "half_rtt": {"p50_ns": 9000.0}, "line_floor_ns": null, "pairs": []}]);
    let document =
        read("tieline.scipp/1", json!({"mechanism": "put", "placement": "own", "path": "ofi", "rows": rows}));
    assert_eq!(ids(&document), ["scipp.half_rtt.4B.put"]);
    assert!(document.items[0].beside.is_none() && document.items[0].value == 9000.0);
}

#[test]
fn tables_with_rivals() {
    let row = json!({"size_bytes": 1 << 20, "bandwidth_gb_s": 30.0, "rival": "memcpy", "rival_gb_s": 31.0, "ratio": 0.97,
                     "ratio_ci95": [0.96, 0.98], "pairs": [[30.0, 31.0]], "disturbed": 1});
    let document = read("tieline.scibench2/1", json!({"rows": [row], "way": "map"}));
    let item = &document.items[0];
    assert_eq!((item.id.as_str(), item.small_is_good, item.value), ("scibench2.1MiB", false, 30.0));
    assert_eq!(item.beside.as_ref().unwrap().name, "memcpy");
    let row =
        json!({"size_bytes": 64, "entry_ns": 6.0, "reference": "memcpy", "reference_ns": 12.0, "ratio": 0.5});
    let document = read("tieline.dma/1", json!({"rows": [row]}));
    assert_eq!((ids(&document), document.items[0].small_is_good), (vec!["dma.64B"], true));
}

#[test]
fn interrupts_and_transports_beside_their_baselines() {
    let figure = |name: &str, readings: &[f64]| json!({"name": name, "readings_ns": readings, "time": {"p50_ns": 7.0}});
    let figures = json!([
        figure("interrupt, both awake", &[150.0, 160.0]),
        figure("cache line, both looking", &[75.0, 80.0]),
        figure("interrupt to a sleeper, one way", &[]),
    ]);
    let document = read("tieline.intr/1", json!({"figures": figures}));
    assert_eq!(ids(&document), ["intr.spinning", "intr.sleeping"]);
    assert_eq!(document.items[0].beside.as_ref().unwrap().ratio, 2.0);
    assert!(document.items[1].beside.is_none() && document.items[1].value == 7.0);
    let rows = json!([
        {"name": "tieline, stores", "readings_ns": [60.0, 62.0], "bandwidth_gb_s": 9.0, "readings_gb_s": [9.0, 9.0]},
        {"name": "futex", "readings_ns": [4000.0, 4000.0]},
        {"name": "memcpy, one thread", "readings_gb_s": [10.0, 10.0]},
    ]);
    let document = read("tieline.latency/1", json!({"rows": rows}));
    assert_eq!(ids(&document), ["latency.stores.half_rtt", "latency.stores.bandwidth"]);
    assert_eq!(document.items[1].beside.as_ref().unwrap().ratio, 0.9);
}

#[test]
fn jitter_and_limits() {
    let document =
        read("tieline.jitter/1", json!({"rtt": {"p50_ns": 170.0, "p99_ns": 200.0, "max_ns": 5e6}}));
    assert_eq!(ids(&document), ["jitter.rtt.p50", "jitter.rtt.p99", "jitter.rtt.max"]);
    let document =
        read("tieline.jitter/1", json!({"mechanism": "put", "rtt": {"p50_ns": 9000.0, "max_ns": 5e6}}));
    assert_eq!(ids(&document), ["jitter.rtt.p50.put", "jitter.rtt.max.put"]);
    let summary = json!({"p50_ns": 40.0});
    let document = read(
        "tieline.limits/1",
        json!({"lines": [{"form": "one line", "half_rtt": summary}], "wake": summary,
               "copies": [{"size_bytes": 4096, "temperature": "hot", "time": summary}]}),
    );
    assert_eq!(ids(&document), ["limits.line.one_line", "limits.wake", "limits.copy.hot.4KiB"]);
}

/// Whatever is in a file: an error, never a panic.
#[test]
fn rubbish_is_refused() {
    for schema in SCHEMAS {
        for rest in [
            json!({}),
            json!({"env": 5}),
            json!({"rows": 5}),
            json!({"rows": [{}], "figures": [1], "rtt": []}),
        ] {
            let mut value = json!({"schema": schema, "env": Env::default()});
            for (field, content) in rest.as_object().unwrap() {
                value[field] = content.clone();
            }
            let error = Document::of("x.json", &value).unwrap_err().to_string();
            assert!(error.starts_with("x.json: "), "{schema}: {error}");
        }
    }
    for value in [json!(null), json!("x"), json!({"schema": 5})] {
        assert!(matches!(Document::of("x", &value), Err(DocumentError::WrongSchema { .. })));
    }
}
