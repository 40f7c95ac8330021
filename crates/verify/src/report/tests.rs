//! Every section there and not, hostile texts, absurd numbers, many nodes: a page comes out, and nothing in
//! it is fetched.

use serde_json::{Value, json};

use super::*;

/// A document with every section, as a cluster of so many nodes would give it.
fn healthy(nodes: u64) -> Value {
    let ids: Vec<u64> = (1..=nodes).map(|node| node * 4).collect();
    let pairs: Vec<(u64, u64)> = ids
        .iter()
        .flat_map(|from| ids.iter().map(|to| (*from, *to)))
        .filter(|(from, to)| from != to)
        .collect();
    let time = json!({ "n": 5000, "min_ns": 50.0, "p50_ns": 61.6, "p90_ns": 77.0, "p99_ns": 102.0, "max_ns": 2846.5, "mean_ns": 65.0,
        "cdf": [[55.0, 0.01], [61.6, 0.5], [102.0, 0.99]] });
    let env = json!({ "cpu_model": "Some Processor", "kernel": "6.18.1", "mitigations": ["spectre_v2: Mitigation: Retpolines"],
        "clock": { "source": "tsc", "step_ns": 0.74, "cost_ns": 12.6, "invariant": true }, "versions": { "tieline": "0.1.0" },
        "load": [0.1, 0.2, 0.3], "steal_ms": 0.0, "started_unix_s": 1_795_273_706, "argv": ["tieline", "verify"] });
    let size_rows = |extra: fn(f64) -> Value| -> Vec<Value> {
        [4.0, 64.0, 1024.0, 65_536.0]
            .map(|size: f64| {
                let mut row = extra(size);
                row["size_bytes"] = json!(size as u64);
                row
            })
            .to_vec()
    };
    let scipp = json!({ "schema": "tieline.scipp/1", "env": env, "nodes": [4, 8], "cpus": [0, 1], "rows": size_rows(|size| json!({
        "half_rtt": { "n": 1000, "min_ns": 50.0, "p50_ns": 60.0 + size / 10.0, "p99_ns": 100.0 + size / 10.0, "max_ns": 1e6 },
        "line_floor_ns": 59.0, "batch": 3, "disturbed": 1, "readings": 15 })) });
    json!({
        "schema": "tieline.verify/1", "verdict": "PASS", "cluster": "lab", "duration_s": 61.0, "environment": env,
        "steps": [{ "name": "up", "verdict": "PASS", "detail": "all valid", "duration_s": 0.1 }],
        "status": { "verdict": "PASS", "problems": [], "nodes": ids.iter().map(|node| json!({ "node": node, "error": null, "log": "/var/log/n",
            "status": { "info": { "node": node, "host": "vm", "version": "0.1.0", "adapters": [{ "number": 0, "kind": "shm" }] },
            "links": [{ "peer": 8, "session": "valid", "heartbeats_missed": 0 }], "counters": {} } })).collect::<Vec<_>>() },
        "diag": { "verdict": "PASS", "disagreements": [], "nodes": ids.iter().map(|node| json!({ "node": node, "verdict": "PASS", "findings": [] })).collect::<Vec<_>>() },
        "exchange": { "verdict": "PASS", "pairs": pairs.iter().map(|(from, to)| json!({ "from": from, "to": to, "bytes": 741_200, "duration_ns": 1_834_091, "error": null })).collect::<Vec<_>>() },
        "load": { "verdict": "PASS", "partial": false, "culprits": [], "instances": ids.iter().map(|node| json!({ "node": node, "error": null,
            "peers": ids.iter().filter(|peer| *peer != node).map(|peer| json!({ "node": peer, "found": true, "error": null, "ledger": { "bytes_checked": 981_822_811_u64, "lost": 0 } })).collect::<Vec<_>>() })).collect::<Vec<_>>() },
        "pairs": { "verdict": "PASS", "block_bytes": 131_072, "copy_ns": 8900.0, "culprits": [], "obstacles": [], "pairs": pairs.iter().map(|(from, to)| json!({
            "pair": [from, to], "latency": { "p50_ns": 61.6, "ratio": 1.0, "ratio_ci95": [0.9, 1.1], "verdict": "PASS" },
            "block": { "p50_ns": 9100.0, "ratio": 1.0, "ratio_ci95": [0.9, 1.1], "verdict": "PASS" }, "bandwidth_bytes_per_s": 14.4e9,
            "stalls": 0, "problems": [], "verdict": "PASS" })).collect::<Vec<_>>() },
        "latency": { "verdict": "PASS", "ratio_to_floor": 1.03, "limit": 2.0, "scipp": scipp },
        "benchmarks": [
            scipp,
            { "schema": "tieline.scibench2/1", "env": env, "nodes": [4, 8], "cpu": 0, "rows": size_rows(|_| json!({ "bandwidth_gb_s": 27.7, "rival_gb_s": 49.8, "ratio": 0.56, "ratio_ci95": [0.55, 0.57], "time_ns": 2.3, "batch": 7, "rival": "memcpy", "blocks": 30, "disturbed": 0 })) },
            { "schema": "tieline.dma/1", "env": env, "nodes": [4, 8], "cpu": 0, "rows": size_rows(|_| json!({ "bandwidth_gb_s": 9.3, "entries": 256, "entry_ns": 6.9, "transfer_ns": 1758.6, "reference": "memcpy", "reference_ns": 11.5, "ratio": 0.6, "ratio_ci95": [0.59, 0.61] })) },
            { "schema": "tieline.intr/1", "env": env, "nodes": [4, 8], "cpus": [0, 1], "figures": [{ "name": "interrupt, both awake", "batch": 1, "time": time }] },
            { "schema": "tieline.limits/1", "env": env, "copies": [{ "size_bytes": 64, "temperature": "fresh", "batch": 1, "time": time }], "lines": [{ "form": "one line", "half_rtt": time }], "wake": time },
            { "schema": "tieline.jitter/1", "env": env, "nodes": [4, 8], "cpus": [0, 1], "length_ns": 3e9, "median_ns": 240.0, "threshold_ns": 288.0, "beyond": 9, "spikes_found": 2,
              "kept": { "round_trips": 12_164_779, "every": 1 }, "rtt": time, "distribution": [[134.8, 0.0], [240.0, 0.5], [4.8e6, 1.0]],
              "plot": (0..2000).map(|at| json!({ "at_ns": f64::from(at) * 1.5e6, "min_ns": 134.8, "max_ns": 10_000.0 + f64::from(at) })).collect::<Vec<_>>(),
              "spikes": [{ "at_ns": 1e9, "height_ns": 4.8e6, "cause": "steal", "period": 0 }, { "at_ns": 2e9, "height_ns": 5e4, "cause": "unexplained", "period": null }],
              "periods": [{ "period_ns": 1e6, "height_ns": 5e3, "height_max_ns": 3e5, "came": 2879, "due": 3000, "name": "5 us every 1 ms", "idle_too": true }],
              "causes": [{ "cause": "steal", "spikes": 1, "lost_ns": 3e5 }], "idle": [{ "cpu": 0, "rate_per_s": 1335.0, "threshold_ns": 62.9, "largest_ns": 277_285.9, "loss_percent": 0.62 }] },
        ],
    })
}

const SECTIONS: [&str; 9] =
    ["next", "figures", "pairs", "steps", "curves", "distributions", "jitter", "nodes", "environment"];

fn has(page: &str, section: &str) -> bool {
    page.contains(&format!("<section id=\"{section}\""))
}

/// What a browser would fetch.
fn fetched(page: &str) -> Option<&'static str> {
    ["http:", "https:", "src=", "@import", "url(", "<script", "<link", "<iframe", "<img", "javascript:"]
        .into_iter()
        .find(|word| page.contains(word))
}

#[test]
fn everything_is_told_and_nothing_is_fetched() {
    let page = render(&healthy(4)).unwrap();
    for section in SECTIONS {
        assert!(has(&page, section), "{section}");
    }
    assert!(!has(&page, "wrong"));
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">") && page.contains("default-src 'none'"));
    assert_eq!(fetched(&page), None);
    for text in [
        "All 4 nodes and all 12 pairs",
        "Some Processor",
        "Retpolines",
        "the host took the processor",
        "14.4",
        "1.02×",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn each_section_may_be_absent_or_something_else() {
    let whole = healthy(3);
    let names: Vec<String> =
        whole.as_object().unwrap().keys().filter(|name| *name != "schema").cloned().collect();
    for name in &names {
        for instead in
            [Value::Null, json!([]), json!({}), json!("text"), json!(-1), json!([[1, "x"], null, {}])]
        {
            let mut document = whole.clone();
            document[name] = instead.clone();
            let page = render(&document).unwrap_or_else(|error| panic!("{name} {instead}: {error}"));
            assert!(page.contains("</html>"), "{name} {instead}");
        }
        let mut document = whole.clone();
        document.as_object_mut().unwrap().remove(name);
        render(&document).unwrap();
    }
    let bare = render(&json!({ "schema": "tieline.verify/1" })).unwrap();
    assert!(
        bare.contains("INCONCLUSIVE")
            && !bare.contains("\"word\"><span class=\"symbol\" aria-hidden=\"true\">✓")
    );
    assert!(SECTIONS[1..].iter().all(|section| !has(&bare, section)));
}

/// Replaces every leaf of a document.
fn everywhere(value: &mut Value, change: &impl Fn(&Value) -> Option<Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| everywhere(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| everywhere(field, change)),
        leaf => {
            if let Some(new) = change(leaf) {
                *leaf = new;
            }
        }
    }
}

#[test]
fn absurd_numbers_make_no_absurd_page() {
    for number in
        [json!(1e308), json!(-1e308), json!(-1), json!(0), json!(1e-300), json!(u64::MAX), json!(0.5)]
    {
        let mut document = healthy(3);
        everywhere(&mut document, &|leaf| leaf.is_number().then(|| number.clone()));
        let page = render(&document).unwrap();
        assert!(!page.contains("NaN") && !page.contains("inf") || page.contains("info"), "{number}");
        assert!(page.len() < MAX_BYTES / 2, "{number}: {}", page.len());
        // Coordinates of drawings stay on the sheet.
        assert!(!page.contains("e299\"") && !page.contains("d=\"MNaN"), "{number}");
    }
}

#[test]
fn empty_lists_and_single_points_survive() {
    let mut document = healthy(2);
    everywhere(&mut document, &|_| None);
    for benchmark in document["benchmarks"].as_array_mut().unwrap() {
        for list in ["rows", "figures", "copies", "plot", "distribution", "spikes", "periods"] {
            if let Some(items) = benchmark.get_mut(list).and_then(Value::as_array_mut) {
                items.truncate(1);
            }
        }
    }
    let page = render(&document).unwrap();
    assert!(has(&page, "curves") && page.contains("<circle class=\"mark l0\""));
    for benchmark in document["benchmarks"].as_array_mut().unwrap() {
        everywhere(benchmark, &|_| None);
        for (_, field) in benchmark.as_object_mut().unwrap() {
            if field.is_array() {
                *field = json!([]);
            }
        }
    }
    document["latency"] = Value::Null;
    let page = render(&document).unwrap();
    assert!(!has(&page, "curves") && !has(&page, "jitter"), "{page}");
}

#[test]
fn hostile_texts_stay_texts() {
    let evil = "\"><script>alert(1)</script><img src=x onerror=y>' & </title></style>\u{202e}`<b>`";
    let mut document = healthy(3);
    everywhere(&mut document, &|leaf| {
        let known = ["PASS", "FAIL", "shm", "fresh", "hot", "cold", "valid"];
        let text = leaf.as_str()?;
        (!known.contains(&text) && !text.starts_with("tieline.")).then(|| json!(evil))
    });
    document["verdict"] = json!("FAIL");
    document["partial"] = json!(evil);
    document["advice"] = json!([evil]);
    document["status"]["problems"] = json!([evil]);
    document["pairs"]["culprits"] = json!([{ "suspect": { evil: [evil] }, "evidence": [evil] }]);
    let page = render(&document).unwrap();
    for markup in ["<script", "<img", "</title></style>", "<b>`", "'<b>"] {
        assert!(!page.contains(markup), "{markup}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_eq!(page.matches("</style>").count(), 1);
    // Every quote in an attribute is escaped: what follows a name of an attribute is ours.
    assert!(!page.contains(" onerror=y>"), "an attribute was opened");
}

#[test]
fn long_texts_are_cut_and_long_lists_counted() {
    let mut document = healthy(2);
    document["verdict"] = json!("FAIL");
    document["cluster"] = json!("x".repeat(100_000));
    document["status"]["problems"] =
        json!((0..5000).map(|at| format!("problem {at} {}", "y".repeat(2000))).collect::<Vec<_>>());
    let page = render(&document).unwrap();
    assert!(page.len() < 300_000, "{}", page.len());
    assert!(page.contains("more characters") && page.contains("And 4940 more."));
}

#[test]
fn sixty_four_nodes_fit_and_so_do_more() {
    for nodes in [9, 64, 100] {
        let page = render(&healthy(nodes)).unwrap();
        assert!(page.len() <= MAX_BYTES, "{nodes}: {}", page.len());
        assert!(has(&page, "pairs"));
        let cells = page.matches("<td class=\"").count();
        assert!(cells >= usize::try_from(nodes.min(64) * (nodes.min(64) - 1)).unwrap(), "{nodes}: {cells}");
    }
    let page = render(&healthy(64)).unwrap();
    assert!(
        page.contains("matrix-latency") && page.contains("matrix-bandwidth") && page.contains("matrix-data")
    );
    assert!(render(&healthy(100)).unwrap().contains("36 others are left out"));
}

#[test]
fn a_suspect_is_named_first_and_the_pair_is_marked_without_colour() {
    let mut document = healthy(4);
    document["verdict"] = json!("FAIL");
    let pair = &mut document["pairs"]["pairs"][1];
    assert_eq!(pair["pair"], json!([4, 12]));
    pair["block"] = json!({ "p50_ns": 28_000.0, "ratio": 3.1, "ratio_ci95": [3.0, 3.2], "verdict": "FAIL" });
    pair["bandwidth_bytes_per_s"] = json!(4.6e9);
    pair["verdict"] = json!("FAIL");
    pair["problems"] =
        json!(["bandwidth: a block of 128 KiB takes 28000 ns, 3.10 x that of the other pairs"]);
    document["pairs"]["culprits"] = json!([{ "suspect": { "link": [4, 12] },
        "evidence": ["from node 4 to node 12, bandwidth: a block of 128 KiB takes 28000 ns, 3.10 x that of the other pairs"] }]);
    document["pairs"]["pairs"][1]["again"] = json!([{ "what": "block", "ratio": 2.9, "verdict": "FAIL" }, { "what": "latency", "verdict": "PASS" }]);
    let page = render(&document).unwrap();
    assert!(page.contains("3.10×, again 2.90×"), "each reading");
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no `{text}`"));
    assert!(at("Link 4–12 carries only 32\u{a0}% of what the others carry") < at("id=\"next\""));
    assert!(at("id=\"next\"") < at("Link 4–12: take work off it") && at("id=\"wrong\"") < at("id=\"pairs\""));
    assert!(page.contains("<td class=\"e x\">4.60<b>✕</b></td>"), "the cell is marked");
    assert!(page.contains("11 of 12"));
}

#[test]
fn what_is_not_sure_is_no_headline_and_what_failed_always_is_one() {
    let mut document = healthy(3);
    document["verdict"] = json!("FAIL");
    document["exchange"]["pairs"][1]["error"] = json!("byte 7 is 0x00, should be 0xd7");
    let page = render(&document).unwrap();
    let said = "from node 4 to node 12: byte 7 is 0x00, should be 0xd7";
    assert!(page.find(said).unwrap() < page.find("id=\"next\"").unwrap(), "the only problem is the headline");
    document["exchange"]["pairs"][2]["error"] = json!("byte 7 is 0x00, should be 0xd7");
    assert!(render(&document).unwrap().contains("from node 4 to node 12 and 1 other pair: byte 7"));
    let pair = &mut document["pairs"]["pairs"][0];
    pair["latency"]["verdict"] = json!("INCONCLUSIVE");
    pair["latency"]["ratio"] = json!(1.41);
    pair["block"] = json!({ "p50_ns": 18_000, "ratio": 2.0, "verdict": "FAIL" });
    document["pairs"]["culprits"] = json!([{ "suspect": { "link": [4, 8] }, "evidence": ["latency: a half round trip", "bandwidth: a block of 128 KiB"] }]);
    let page = render(&document).unwrap();
    assert!(
        page.contains("Link 4–8 carries only 50\u{a0}% of what the others carry.")
            && !page.contains("1.41× as long")
    );
}

#[test]
fn a_partial_result_says_so_before_the_verdict() {
    for (field, value) in [("partial", json!("ended by Ctrl-C after two steps")), ("partial", json!(true))] {
        let mut document = healthy(2);
        document[field] = value;
        let page = render(&document).unwrap();
        assert!(page.find("This result is partial").unwrap() < page.find("class=\"word\"").unwrap());
    }
    let mut document = healthy(2);
    document["load"]["partial"] = json!(true);
    assert!(render(&document).unwrap().contains("The load test was ended early"));
}

#[test]
fn evidence_stands_once_and_figures_without_a_limit_say_so() {
    let mut document = healthy(3);
    document["verdict"] = json!("FAIL");
    let suspected =
        json!([{ "suspect": { "link": [4, 8] }, "evidence": ["seen once: `tieline link up 4 8`"] }]);
    document["culprits"] = suspected.clone();
    document["cable"]["culprits"] = suspected;
    for step in ["names", "curves", "closing"] {
        let said = json!({ "name": step, "verdict": "PASS", "detail": "", "duration_s": 0.1 });
        document["steps"].as_array_mut().unwrap().push(said);
    }
    let page = render(&document).unwrap();
    assert_eq!(page.matches("seen once: <code>tieline link up 4 8</code>").count(), 1);
    assert_eq!(page.matches("(not judged)").count(), 2);
    assert!(page.contains("Names of the nodes") && page.contains("Only what is marked"));
}

#[test]
fn what_is_worse_than_an_earlier_run_is_told() {
    let mut document = healthy(2);
    document["verdict"] = json!("FAIL");
    document["baseline"] = json!({ "old": "r.json", "verdict": "FAIL", "sections": [{ "name": "pairs", "verdict": "FAIL", "error": null,
        "comparison": { "figures": [
            { "id": "pairs.4-8.block", "judgement": "worse", "unit": "ns", "old": 8_120.0, "new": 12_300.0, "change": 1.515, "change_ci95": [1.49, 1.54] },
            { "id": "pairs.4-8.latency", "judgement": "same", "unit": "ns", "old": 60.0, "new": 61.0 },
            { "id": "<b>", "judgement": "inconclusive", "why": "too few blocks" }], "missing": [{ "id": "pairs.8-4.block", "reason": null }] } }] });
    let page = render(&document).unwrap();
    assert!(page.contains("Beside an earlier run") && page.contains("1 figure is as before"), "{page}");
    for said in [
        "Worse: 1",
        "8120\u{a0}ns",
        "1.51× (1.49×–1.54×)",
        "Missing now: 1",
        "pairs.8-4.block",
        "too few blocks",
        "&lt;b&gt;",
    ] {
        assert!(page.contains(said), "no `{said}`: {page}");
    }
    assert!(has(&page, "wrong") && !page.contains("A test failed."));
    assert!(page.contains("Comparison with an earlier run") && page.contains("pairs: 1 worse, 1 missing"));
}

#[test]
fn a_busy_machine_stands_beside_the_verdict() {
    let mut document = healthy(2);
    document["verdict"] = json!("INCONCLUSIVE");
    document["busy"] = json!("the machine was busy: other work used 63 % of the 2 processors (in pairs)");
    let page = render(&document).unwrap();
    let said =
        page.find("The machine was busy: other work used 63 % of the 2 processors (in pairs).").unwrap();
    assert!(page.find("class=\"word\"").unwrap() < said && said < page.find("<nav").unwrap());
}

#[test]
fn the_documents_own_advice_wins_and_a_verdict_that_is_unknown_is_no_pass() {
    let mut document = healthy(2);
    document["advice"] = json!(["Replace the cable of port 3, then `tieline verify`."]);
    let page = render(&document).unwrap();
    assert!(
        page.contains("Replace the cable of port 3, then <code>tieline verify</code>.")
            && !page.contains("Nothing needs to be done")
    );
    document["verdict"] = json!("SPLENDID");
    assert!(render(&document).unwrap().contains("<title>INCONCLUSIVE"));
}

#[test]
fn another_document_is_refused_by_name() {
    for (document, word) in [
        (json!({ "schema": "tieline.figures/1" }), "tieline.figures/1"),
        (json!({}), "its schema is missing"),
        (json!([1]), "its schema is missing"),
        (json!(null), "its schema is missing"),
    ] {
        let error = render(&document).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("verify --json"), "{error}");
    }
}
