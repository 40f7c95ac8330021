//! Results compared with older ones, judged by a file of thresholds, and ended early by a signal.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tieline_tests::{Cluster, Watchdog};

pub(super) fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A result of `acceptance` whose figures cost so many times their baseline of 40 ns.
pub(super) fn figures(ratios: &[(&str, f64)]) -> Value {
    let figure = |(id, ratio): &(&str, f64)| {
        let blocks: Vec<[f64; 2]> = (0..40)
            .map(|n| {
                let baseline = if n % 5 == 0 { 160.0 } else { 40.0 };
                [baseline * ratio * (1.0 + 0.001 * f64::from(n % 7)), baseline]
            })
            .collect();
        json!({
            "id": id, "unit": "ns", "stat": "p50", "n": 40, "value": 40.0 * ratio, "ci95": [40.0 * ratio, 40.0 * ratio],
            "size_bytes": 4, "cpus": [0, 1], "path": "shm",
            "reference": {"kind": "floor", "name": "a line", "version": "", "argv": [], "value": 40.0},
            "ratio": {"value": ratio, "ci95": [ratio, ratio]}, "goal": {"op": "<=", "limit": 1.1}, "blocks": blocks,
            "disturbed_blocks": 0, "disturbed": [], "verdict": "PASS", "distribution": null, "notes": [],
        })
    };
    let all: Vec<Value> = ratios.iter().map(figure).collect();
    json!({"schema": "tieline.figures/1", "env": env(), "figures": all, "missing": []})
}

fn env() -> Value {
    json!({
        "cpu_model": "a processor", "cpus_online": "0-1", "cpus_allowed": "0-1", "caches": [], "memory_bytes": 1, "kernel": "6.1",
        "kernel_command_line": "", "mitigations": [], "virtual_machine": true, "governor": null,
        "transparent_huge_pages": null, "smt": null,
        "clock": {"source": "tsc", "kernel_source": "tsc", "invariant": true, "step_ns": 1.0, "cost_ns": 1.0, "ticks_per_ns": 2.0},
        "load": [0.0, 0.0, 0.0], "steal_ms": null, "versions": {"tieline": "0.1.0"}, "argv": [], "seed": 1,
        "started_unix_s": 1, "elapsed_s": 1.0,
    })
}

#[test]
fn results_are_compared_with_older_ones() {
    let _watchdog = Watchdog::usual("compare");
    let cluster = Cluster::empty().unwrap();
    let file = |name: &str, value: &Value| {
        let path = cluster.runtime_dir().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = file("old.json", &figures(&[("a.b", 1.0), ("c.d", 1.0)]));
    let same = file("same.json", &figures(&[("a.b", 1.01), ("c.d", 1.0)]));
    let worse = file("worse.json", &figures(&[("a.b", 1.3), ("c.d", 0.5)]));
    let fewer = file("fewer.json", &figures(&[("a.b", 1.0)]));
    let compare = |more: &[&str]| cluster.run(&[&["bench", "compare"], more].concat()).unwrap();
    let (status, out, err) = compare(&[&old, &same]);
    assert!(status == 0 && out.ends_with("verdict: PASS\n"), "{out}{err}");
    let (status, out, _) = compare(&[&old, &worse, "--json"]);
    let report = json_of(&out);
    assert_eq!(
        (status, &report["schema"], &report["verdict"]),
        (1, &"tieline.compare/1".into(), &"FAIL".into())
    );
    assert_eq!([&report["figures"][0]["judgement"], &report["figures"][1]["judgement"]], ["worse", "better"]);
    assert_eq!(compare(&[&old, &worse, "--relative", "50%"]).0, 0);
    assert_eq!(compare(&[&old, &worse, "--absolute", "100ns"]).0, 0);
    let (status, out, _) = compare(&[&old, &fewer]);
    assert!(status == 1 && out.contains("c.d: not in"), "{out}");
    assert_eq!(compare(&[&old, &fewer, "--missing-ok"]).0, 0);
    let half = cluster.runtime_dir().join("half.json");
    std::fs::write(&half, "{\"schema\": \"tieline.figures/1\",\n").unwrap();
    let other = file("other.json", &json!({"schema": "tieline.status/1"}));
    let empty = file("empty.json", &figures(&[]));
    let verified = file("verified.json", &json!({"schema": "tieline.verify/1"}));
    for (files, words) in [
        (["/nonexistent.json", &old], &["/nonexistent.json", "cannot be read", "--json-file"][..]),
        ([half.to_str().unwrap(), &old], &["half.json, line 2: not JSON (EOF while parsing a value): give"]),
        (
            [&old, &other],
            &["other.json: its schema is `tieline.status/1`", "tieline.figures/1", "tieline.verify/1"],
        ),
        ([&old, &empty], &["empty.json", "nothing to compare"]),
        ([&old, &verified], &["tieline.verify/1", "two results of the same command"]),
    ] {
        let (status, out, err) = compare(&files);
        assert!(status == 2 && words.iter().all(|word| err.contains(word)), "{files:?}: {status} {out}{err}");
    }
    for wrong in [
        &["--relative", "5"][..],
        &["--absolute", "5"],
        &["--absolute", "5 parsecs"],
        &["--absolute", "5ns", "--absolute", "1us"],
    ] {
        assert_eq!(compare(&[&[old.as_str(), &same][..], wrong].concat()).0, 2, "{wrong:?}");
    }
}

#[test]
fn every_benchmark_is_comparable_with_itself() {
    let _watchdog = Watchdog::usual("compare all");
    let cluster = Cluster::up(2).unwrap();
    for (tool, more) in [
        ("scipp", &["--size", "4"][..]),
        ("scibench2", &["--sizes", "64", "--blocks", "12"]),
        ("dma", &["--sizes", "64", "--blocks", "12"]),
        ("intr", &["--readings", "12"]),
        ("jitter", &["--seconds", "0.2", "--idle-seconds", "0", "--memory", "8M"]),
        ("latency", &["--rounds", "12"]),
    ] {
        let path = cluster.runtime_dir().join(tool);
        let file = path.to_str().unwrap();
        let compared = || {
            let (status, out, err) = cluster.run(&[&["bench", tool, "--json"], more].concat()).unwrap();
            assert_eq!(status, 0, "{tool}: {err}");
            std::fs::write(&path, out).unwrap();
            cluster.run(&["bench", "compare", file, file, "--json"]).unwrap()
        };
        // So short a run may have no undisturbed moment, beside other work: then there is nothing to compare,
        // and it says so.
        let has_figures = |(_, out, _): &(i32, String, String)| !out.contains("without a single figure");
        let (status, out, err) = (0..10).map(|_| compared()).find(has_figures).expect("no figure, ten times");
        let report = json_of(&out);
        // On a busy machine too little may be undisturbed; nothing is worse than itself.
        assert!(matches!(status, 0 | 3), "{tool}: {out}{err}");
        assert!(!report["figures"].as_array().unwrap().is_empty(), "{tool}: {out}");
        assert_eq!(
            (report["differences"].as_array().unwrap().len(), &report["of"]),
            (0, &format!("tieline.{tool}/1").into())
        );
    }
}

#[test]
fn thresholds_judge_and_override() {
    let _watchdog = Watchdog::usual("thresholds");
    let cluster = Cluster::up(2).unwrap();
    let path = cluster.runtime_dir().join("mine.toml");
    let file = path.to_str().unwrap();
    let with = |text: &str, call: &[&str]| {
        std::fs::write(&path, text).unwrap();
        cluster.run(&[&["bench"], call, &["--thresholds", file]].concat()).unwrap()
    };
    let scipp = ["scipp", "--size", "4", "--json"];
    let (status, out, err) = with("[\"scipp.*\"]\nupper = \"10 s\"\nlower = \"0.1 ns\"\n", &scipp);
    let report = json_of(&out);
    assert_eq!(report["judged"]["figures"][0]["by"], "scipp.*", "{err}");
    // On a busy machine too many readings may be disturbed to judge.
    assert!(
        matches!(
            (status, report["judged"]["verdict"].as_str()),
            (0, Some("PASS")) | (3, Some("INCONCLUSIVE"))
        ),
        "{out}"
    );
    let (status, out, _) =
        with("[\"scibench2.64B\"]\nlower = \"100000 GB/s\"\n", &["scibench2", "--sizes", "64"]);
    assert!(matches!(status, 1 | 3) && out.contains("at least 100000 GB/s"), "{out}");
    let (status, out, _) =
        with("[\"connect_map\"]\nupper = \"1 ns\"\n", &["acceptance", "--only", "connect_map", "--json"]);
    let figure = &json_of(&out)["figures"][0];
    assert_eq!(
        (status, &figure["verdict"], &figure["judged"]["by"]),
        (1, &"FAIL".into(), &"connect_map".into())
    );
    for (text, call, words) in [
        ("[\"scip.*\"]\nupper_ratio = 1\n", &scipp[..], &["mine.toml, line 1", "`scip.*`"][..]),
        ("[\"scipp.*\"]\nuper_ratio = 1\n", &scipp, &["mine.toml, line 2", "`uper_ratio`", "expected"]),
        ("[\"dma.*\"]\nupper_ratio = 1\n", &scipp, &["no threshold for scipp"]),
        ("[\"dma.*\"]\nupper_ratio = 1\n", &["acceptance", "--only", "put"], &["no threshold for"]),
        ("", &["latency"], &["no threshold for latency"]),
        ("", &["jitter"], &["no threshold for jitter"]),
        ("", &["intr"], &["no threshold for intr"]),
    ] {
        let (status, out, err) = with(text, call);
        assert!(
            status == 2 && words.iter().all(|word| err.contains(word)),
            "{text} {call:?}: {status} {out}{err}"
        );
    }
    // One reading has no interval and decides nothing, however wide the limit.
    let once = "[\"scibench2.*\"]\nlower = \"1 kB/s\"\n[\"latency.stores.half_rtt\"]\nupper = \"60 s\"\n";
    for call in [&["scibench2", "--sizes", "64", "--blocks", "1"][..], &["latency", "--rounds", "1"]] {
        let (status, out, err) = with(once, call);
        assert!(status == 3 && out.contains("INCONCLUSIVE"), "{call:?}: {status} {out}{err}");
        assert!(!out.contains('…'), "an interval of one reading: {out}");
    }
    let (status, out, _) = cluster.run(&["bench", "thresholds"]).unwrap();
    assert!(status == 0 && out.contains("[\"connect_map\"]\nupper = \"200000 ns\""), "{out}");
    let (status, _, err) = with(&out, &["scipp", "--size", "4"]);
    assert!(matches!(status, 0 | 1 | 3), "{err}");
}

/// What a benchmark prints that is interrupted in the middle, and its status.
fn interrupted(arguments: &[&str], signal: Signal, group: bool) -> (Option<i32>, String, String) {
    let cluster = Cluster::empty().unwrap();
    let mut command = cluster.command(arguments).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    // Its first words say that it measures.
    let mut told = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains('%') {
        let mut line = String::new();
        assert_ne!(
            std::io::BufRead::read_line(&mut told, &mut line).unwrap(),
            0,
            "{arguments:?} ended: {said}"
        );
        said.push_str(&line);
    }
    std::thread::sleep(Duration::from_millis(600));
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) }.unwrap();
    std::io::Read::read_to_string(&mut told, &mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0, "{arguments:?} left something");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
}

#[test]
fn an_interrupted_benchmark_prints_what_it_has_and_says_that_it_is_partial() {
    let _watchdog = Watchdog::new("interrupted benchmarks", Duration::from_secs(300));
    let cases: [&[&str]; 7] = [
        &["bench", "scipp"],
        &["bench", "scibench2", "--blocks", "2000"],
        &["bench", "dma", "--blocks", "400"],
        &["bench", "intr", "--readings", "3000"],
        &["bench", "jitter", "--seconds", "60", "--idle-seconds", "0"],
        &["bench", "latency", "--rounds", "3000"],
        &["bench", "limits"],
    ];
    for (at, arguments) in cases.iter().enumerate() {
        let signal = [Signal::INT, Signal::TERM][at % 2];
        let (status, out, err) = interrupted(arguments, signal, at % 3 == 0);
        assert_eq!(status, Some(128 + signal.as_raw()), "{arguments:?}: {out}{err}");
        assert!(err.contains("the result is partial") && !out.is_empty(), "{arguments:?}: {out}{err}");
    }
}

#[test]
fn an_interrupted_acceptance_names_what_it_did_not_measure() {
    let _watchdog = Watchdog::usual("interrupted acceptance");
    let (status, out, err) = interrupted(&["bench", "acceptance", "--only", "put", "up"], Signal::INT, false);
    assert_eq!(status, Some(130), "{out}{err}");
    assert!(
        out.contains("up.64: not measured: the run ended before") && err.contains("the result is partial"),
        "{out}{err}"
    );
}

#[test]
fn an_acceptance_is_continued_with_what_it_has() {
    let _watchdog = Watchdog::usual("continued acceptance");
    let cluster = Cluster::empty().unwrap();
    let file = cluster.runtime_dir().join("run.json");
    let file = file.to_str().unwrap();
    let go = |only: &str| {
        let (status, out, err) =
            cluster.run(&["bench", "acceptance", "--only", only, "--json", "--resume", file]).unwrap();
        assert!(matches!(status, 0 | 1 | 3), "{out}{err}");
        (json_of(&out)["figures"].clone(), err)
    };
    let (first, err) = go("harness.overhead");
    // A line for each finished figure, although the result is JSON.
    let lines: Vec<&str> = err.lines().filter(|line| line.starts_with("harness.overhead: ")).collect();
    assert!(lines.len() == 1 && lines[0].contains("ratio"), "{err}");
    let (again, err) = go("harness.overhead");
    assert_eq!(again[0]["blocks"], first[0]["blocks"], "it was measured again: {err}");
    assert!(err.contains("1 figures were finished before; 0 are left"), "{err}");
    let kept = json_of(&std::fs::read_to_string(file).unwrap());
    assert_eq!((&kept["partial"], kept["figures"].as_array().unwrap().len()), (&true.into(), 1));
    std::fs::write(file, "no figures").unwrap();
    let (status, _, err) =
        cluster.run(&["bench", "acceptance", "--only", "harness.overhead", "--resume", file]).unwrap();
    assert!(
        status == 2
            && err.contains("run.json cannot be continued: it is not JSON that --resume wrote (line 1: "),
        "{status}: {err}"
    );
}
