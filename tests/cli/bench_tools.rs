//! The benchmarks between two nodes run in all their forms, short, and print what they should. How fast
//! anything is, is not asserted here.

use std::process::{Child, Stdio};

use tieline_tests::{Cluster, Watchdog};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs a tool on a cluster of its own, and looks that nothing is left.
fn alone(arguments: &[&str]) -> (i32, String, String) {
    let cluster = Cluster::empty().unwrap();
    let result = cluster.run(arguments).unwrap();
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0, "{arguments:?} left something");
    result
}

fn serve(cluster: &Cluster, tool: &str, rn: &str, node: &str) -> Child {
    cluster
        .command(&["bench", tool, "-server", "-rn", rn, "--node", node])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A server and a client in two processes, on nodes 4 and 8.
fn two_processes(tool: &str, more: &[&str]) -> String {
    let cluster = Cluster::up(2).unwrap();
    let mut server = serve(&cluster, tool, "8", "4");
    let mut arguments = vec!["bench", tool, "-client", "-rn", "4", "--node", "8"];
    arguments.extend(more);
    let (status, out, err) = cluster.run(&arguments).unwrap();
    if status != 0 {
        drop(server.kill());
    }
    assert_eq!(status, 0, "{out}{err}");
    assert!(server.wait().unwrap().success());
    out
}

#[test]
fn scibench2_measures_stores_beside_the_best_copy() {
    let _watchdog = Watchdog::usual("scibench2");
    let (status, out, err) = alone(&["bench", "scibench2", "--sizes", "64,4K,1M", "--blocks", "2", "--json"]);
    assert_eq!(status, 0, "{err}");
    let report = json(&out);
    assert_eq!((&report["schema"], &report["path"]), (&"tieline.scibench2/1".into(), &"shm".into()));
    let sizes: Vec<u64> =
        report["rows"].as_array().unwrap().iter().map(|row| row["size_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 4096, 1 << 20]);
    for row in report["rows"].as_array().unwrap() {
        assert!(
            row["bandwidth_gb_s"].as_f64().unwrap() > 0.0 && row["ratio"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        assert!(row["rival"].as_str().is_some_and(|name| !name.is_empty()), "{row}");
    }
}

#[test]
fn scibench2_between_two_processes() {
    let _watchdog = Watchdog::usual("scibench2 server and client");
    let out = two_processes("scibench2", &["--sizes", "64,8K", "--blocks", "2", "--way", "put", "--classic"]);
    let first: Vec<&str> = out.lines().skip(4).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first, ["64", "8192"], "{out}");
    assert!(out.contains("MBytes/s"), "{out}");
}

#[test]
fn dma_prints_the_classic_table() {
    let _watchdog = Watchdog::usual("dma");
    let (status, out, err) =
        alone(&["bench", "dma", "--sizes", "64,4K,32M,64M", "--blocks", "1", "--classic"]);
    assert_eq!(status, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[1], "  Message    Total     Vector     Transfer     Transfer time      Bandwidth");
    let starts: Vec<String> =
        lines[4..].iter().map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(starts, ["64 16384 256", "4096 1048576 256", "33554432 67108864 2", "67108864 67108864 1"]);
}

#[test]
fn dma_between_two_processes() {
    let _watchdog = Watchdog::usual("dma server and client");
    let report = json(&two_processes("dma", &["--sizes", "64,64K", "--blocks", "1", "--json"]));
    assert_eq!(report["schema"], "tieline.dma/1");
    assert_eq!(report["nodes"], serde_json::json!([8, 4]));
    assert_eq!(report["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn intr_prints_the_classic_lines() {
    let _watchdog = Watchdog::usual("intr");
    let (status, out, err) = alone(&["bench", "intr", "--readings", "2", "--classic"]);
    assert_eq!(status, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(
        lines[0].starts_with("Average unidirectional interrupt time : ") && lines[0].ends_with(" us."),
        "{out}"
    );
    assert!(
        lines[1].starts_with("Average round trip     interrupt time : ") && lines[1].ends_with(" us."),
        "{out}"
    );
}

#[test]
fn intr_between_two_processes() {
    let _watchdog = Watchdog::usual("intr server and client");
    let report = json(&two_processes("intr", &["--readings", "2", "--json"]));
    assert_eq!((&report["schema"], &report["processes"]), (&"tieline.intr/1".into(), &2.into()));
    let figures = report["figures"].as_array().unwrap();
    let names: Vec<&str> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    for name in
        ["interrupt, both awake", "interrupt, both asleep", "futex, both asleep", "eventfd, both asleep"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(figures.iter().all(|figure| figure["time"]["n"].as_u64().unwrap() > 0), "{report}");
}

#[test]
fn jitter_keeps_every_round_trip() {
    let _watchdog = Watchdog::usual("jitter");
    let (status, out, err) =
        alone(&["bench", "jitter", "--seconds", "0.3", "--idle-seconds", "0.1", "--memory", "64M", "--json"]);
    assert_eq!(status, 0, "{err}");
    let report = json(&out);
    assert_eq!(report["schema"], "tieline.jitter/1");
    let trips = report["kept"]["round_trips"].as_u64().unwrap();
    assert_eq!((report["kept"]["every"].as_u64(), report["rtt"]["n"].as_u64()), (Some(1), Some(trips)));
    let plot = report["plot"].as_array().unwrap();
    assert!(!plot.is_empty() && plot.len() <= 2000);
    assert_eq!(report["idle"].as_array().unwrap().len(), 2);
    let last = report["distribution"].as_array().unwrap().last().unwrap();
    assert_eq!(last[1], 1.0);
    let (status, out, err) =
        alone(&["bench", "jitter", "--seconds", "0.2", "--idle-seconds", "0", "--memory", "16K"]);
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("the longest of each"), "{out}");
}

#[test]
fn latency_compares_all_transports() {
    let _watchdog = Watchdog::usual("latency");
    for (place, more) in
        [("two_cores", &[][..]), ("same_core", &["--same-core"]), ("two_cores", &["--load", "1"])]
    {
        let mut arguments = vec!["bench", "latency", "--rounds", "2", "--json"];
        arguments.extend(more);
        let (status, out, err) = alone(&arguments);
        assert_eq!(status, 0, "{more:?}: {err}");
        let report = json(&out);
        assert_eq!((&report["schema"], &report["sharing"]), (&"tieline.latency/1".into(), &place.into()));
        let rows = report["rows"].as_array().unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        let all = [
            "tieline, stores",
            "tieline, interrupt",
            "futex",
            "pipe",
            "UNIX socket",
            "TCP, loopback",
            "memcpy, one thread",
        ];
        assert_eq!(names, all);
        for row in &rows[..6] {
            assert!(row["half_rtt_ns"].as_f64().unwrap() > 0.0, "{row}");
        }
        assert!(
            rows.iter().filter(|row| row["bandwidth_gb_s"].as_f64().is_some_and(|rate| rate > 0.0)).count()
                == 5
        );
    }
}

#[test]
fn harness_overhead_and_the_tables_are_among_the_figures() {
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["bench", "acceptance", "--list"]).unwrap();
    assert_eq!(status, 0, "{err}");
    for id in [
        "scibench2.64B",
        "scibench2.1MiB",
        "dma.64B.hot",
        "dma.64MiB.cold",
        "copy.worst",
        "tune.repeat",
        "harness.overhead",
    ] {
        assert!(out.lines().any(|line| line.split_whitespace().next() == Some(id)), "{id}: {out}");
    }
}

#[test]
fn bad_input_is_explained() {
    let _watchdog = Watchdog::usual("bad input");
    let cluster = Cluster::empty().unwrap();
    for (arguments, words) in [
        (&["bench", "scibench2", "--sizes", "0"][..], &["0 bytes"][..]),
        (&["bench", "dma", "--sizes", "9000G"], &["memory", "smaller"]),
        (&["bench", "scibench2", "--sizes", "4x"], &["--sizes 4x", "4K"]),
        (&["bench", "latency", "--cpus", "0,9999"], &["--cpus 9999: this machine has no such processor"]),
        (&["bench", "intr", "--cpus", "9999"], &["--cpus 9999: this machine has no such processor"]),
        (&["bench", "jitter", "--cpus", "9999"], &["--cpus 9999: this machine has no such processor"]),
        (&["bench", "scipp", "--cpus", "0,9999"], &["--cpus 9999: this machine has no such processor"]),
        (
            &["bench", "acceptance", "--cpus", "0,9999"],
            &["--cpus 9999: this machine has no such processor (it has "],
        ),
        (
            &["bench", "acceptance", "--seconds", "0"],
            &["--seconds 0: give more than 0 and at most 3600 seconds"],
        ),
        (&["bench", "limits", "--cpus", "0,9999"], &["--cpus 9999: this machine has no such processor"]),
        (
            &["bench", "compare-builds", "/none", "/none", "--cpus", "0,9999"],
            &["--cpus 9999: this machine has no such processor"],
        ),
        (&["bench", "scipp", "--cpus", "0", "--same-core"], &["--same-core"]),
        (&["bench", "dma", "--load", "100000", "--sizes", "64"], &["100000", "at most"]),
        (&["bench", "intr", "--readings", "0"], &["0"]),
        (&["bench", "latency", "--rounds", "0"], &["0"]),
        (&["bench", "jitter", "--memory", "9000G"], &["memory"]),
        (&["bench", "jitter", "--memory", "0"], &["--memory 0: too small: give at least 1K"]),
        (&["bench", "jitter", "--seconds", "0"], &["--seconds 0: give"]),
        (&["bench", "latency", "--load", "100000"], &["100000", "at most"]),
        (&["bench", "dma", "--server"], &["--rn"]),
        (&["bench", "dma", "--client", "--node", "4", "--rn", "4"], &["node 4 is this end", "--rn names"]),
        (&["bench", "scipp", "--client", "--node", "4", "--rn", "4"], &["node 4 is this end", "--rn names"]),
        (&["bench", "scipp", "--server", "--node", "8", "--rn", "8"], &["node 8 is this end"]),
        (&["bench", "scipp", "--size", "abc"], &["--size abc", "not a size", "4K"]),
        (&["bench", "scipp", "--size", "16K"], &["8192 bytes"]),
        (&["bench", "intr", "--server", "--client", "--rn", "4"], &["--client"]),
    ] {
        let (status, out, err) = cluster.run(arguments).unwrap();
        assert_eq!(status, 2, "{arguments:?}: {out}{err}");
        assert!(words.iter().all(|word| err.contains(word)), "{arguments:?}: {err}");
    }
}

#[test]
fn a_client_without_a_server_says_how_to_start_one() {
    let _watchdog = Watchdog::usual("no server");
    let cluster = Cluster::up(2).unwrap();
    let (status, _, err) =
        cluster.run(&["bench", "dma", "--client", "--rn", "4", "--node", "8", "--sizes", "64"]).unwrap();
    assert_eq!(status, 4, "{err}");
    assert!(err.contains("no server") && err.contains("tieline bench dma --server --rn 8"), "{err}");
    // One that waits for a node that there is not would wait in vain.
    let (status, _, err) = cluster.run(&["bench", "dma", "--server", "--node", "4", "--rn", "100"]).unwrap();
    assert!(status == 4 && err.contains("no node 100 here (there are: 4, 8)"), "{err}");
}

#[test]
fn a_client_whose_server_is_killed_ends_with_the_reason() {
    let _watchdog = Watchdog::usual("server killed");
    let cluster = Cluster::up(2).unwrap();
    let mut server = serve(&cluster, "intr", "8", "4");
    let client = cluster
        .command(&["bench", "intr", "--client", "--rn", "4", "--node", "8", "--readings", "10000"])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    server.kill().unwrap();
    server.wait().unwrap();
    let output = client.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        ["gone", "ended", "no server", "did not respond"].iter().any(|words| said.contains(words)),
        "{said}"
    );
}
