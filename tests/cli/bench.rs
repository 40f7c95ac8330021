//! `tieline bench`: the forms run and say what they measured. How fast they are is not asserted here.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn scipp_starts_what_it_needs_and_leaves_nothing() {
    let _watchdog = Watchdog::usual("scipp");
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["bench", "scipp", "--json"]).unwrap();
    assert_eq!(status, 0, "{err}");
    let report = json(&out);
    assert_eq!(report["schema"], "tieline.scipp/1");
    assert_eq!(report["path"], "shm");
    assert_eq!(report["nodes"], serde_json::json!([4, 8]));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 13);
    for row in rows {
        assert!(row["checked"].as_u64().unwrap() > 0, "{row}");
        assert!(row["half_rtt"]["min_ns"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["line_floor_ns"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0);
}

#[test]
fn scipp_between_two_processes_in_the_classic_layout() {
    let _watchdog = Watchdog::usual("scipp server and client");
    let cluster = Cluster::up(2).unwrap();
    let mut server = cluster
        .command(&["bench", "scipp", "--server", "--rn", "8", "--node", "4"])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Before its client is there.
    let mut said = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("waiting for the client on node 8"), "{said}");
    let client = cluster.run(&["bench", "scipp", "--client", "--rn", "4", "--node", "8", "--classic"]);
    let (status, out, err) = client.unwrap();
    if status != 0 {
        drop(server.kill());
    }
    assert_eq!(status, 0, "{out}{err}");
    assert!(server.wait().unwrap().success());
    assert!(out.contains("Ping Pong data transfer:"), "{out}");
    assert!(out.lines().any(|line| line.split_whitespace().next() == Some("8192")), "{out}");
}

#[test]
fn a_client_whose_server_is_killed_ends_with_the_reason() {
    let _watchdog = Watchdog::usual("scipp server killed");
    let cluster = Cluster::up(2).unwrap();
    let mut server = cluster
        .command(&["bench", "scipp", "--server", "--rn", "8", "--node", "4"])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let client = cluster
        .command(&["bench", "scipp", "--client", "--rn", "4", "--node", "8"])
        .unwrap()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Both have begun, however slowly commands start here.
    let has_begun = || {
        let (status, out, err) = cluster.run(&["status", "--json"]).unwrap();
        assert_eq!(status, 0, "{err}");
        ["scipp server", "scipp client"].iter().all(|name| out.contains(name))
    };
    while server.try_wait().unwrap().is_none() && !has_begun() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.kill().unwrap();
    server.wait().unwrap();
    let output = client.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(["is gone", "ended", "start it with"].iter().any(|words| said.contains(words)), "{said}");
}

#[test]
fn a_client_without_a_server_is_told_how_to_start_one() {
    let _watchdog = Watchdog::usual("scipp without a server");
    let cluster = Cluster::up(2).unwrap();
    let (status, _, err) = cluster.run(&["bench", "scipp", "--client", "--rn", "4"]).unwrap();
    assert_eq!(status, 4, "{err}");
    let advice = "start one there with `tieline bench scipp --server --node 4";
    assert!(err.contains("no scipp server responds on node 4") && err.contains(advice), "{err}");
}

#[test]
fn limits_are_those_of_this_machine() {
    let _watchdog = Watchdog::usual("limits");
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["bench", "limits", "--json"]).unwrap();
    assert_eq!(status, 0, "{err}");
    let report = json(&out);
    assert!(report["env"]["clock"]["step_ns"].as_f64().unwrap() > 0.0, "{report}");
}

/// A tool, what makes its plan short, and where its report has its lines.
struct Tool {
    name: &'static str,
    short: &'static [&'static str],
    lines: &'static str,
    /// How many lines the short plan has.
    count: usize,
    /// Fields of each line that are numbers above zero.
    fields: &'static [&'static str],
}

const SCIBENCH2: Tool = Tool {
    name: "scibench2",
    short: &["--sizes", "64,4K", "--blocks", "3"],
    lines: "rows",
    count: 2,
    fields: &["size_bytes", "time_ns", "bandwidth_gb_s", "rival_gb_s", "ratio", "batch", "stores", "blocks"],
};
const DMA: Tool = Tool {
    name: "dma",
    short: &["--sizes", "64,64K", "--blocks", "3"],
    lines: "rows",
    count: 2,
    fields: &[
        "size_bytes",
        "total_bytes",
        "entries",
        "transfer_ns",
        "entry_ns",
        "reference_ns",
        "ratio",
        "vectors",
    ],
};
const INTR: Tool = Tool {
    name: "intr",
    short: &["--readings", "2"],
    lines: "figures",
    count: 6,
    fields: &["p50_ns", "batch", "rounds"],
};
const LATENCY: Tool =
    Tool { name: "latency", short: &["--rounds", "2"], lines: "rows", count: 7, fields: &[] };
const JITTER: Tool = Tool {
    name: "jitter",
    short: &["--seconds", "0.5", "--idle-seconds", "0.1", "--memory", "8M"],
    lines: "plot",
    count: 0,
    fields: &[],
};

/// Whether the machine can have both ends awake at once.
fn two_processors() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    if !enough {
        println!("skipped: needs two processors");
    }
    enough
}

impl Tool {
    /// Checks what every report of the tool has.
    fn check(&self, report: &serde_json::Value, count: usize) {
        assert_eq!(report["schema"], format!("tieline.{}/1", self.name));
        assert_eq!(report["path"], "shm");
        assert!(report["env"]["clock"]["step_ns"].as_f64().unwrap() > 0.0, "{}", report["env"]);
        let lines = report[self.lines].as_array().unwrap();
        if count > 0 {
            assert_eq!(lines.len(), count, "{report}");
        }
        for line in lines {
            // Where other work disturbed every block, none is counted.
            let all_disturbed =
                line["blocks"] == 0 && line["disturbed"].as_u64().is_some_and(|count| count > 0);
            for field in self.fields {
                let value = line[field].as_f64();
                assert!(value.is_some_and(|value| value > 0.0 || all_disturbed), "{field}: {line}");
            }
        }
    }

    /// Runs it with both ends of its own, on a cluster that it starts and removes.
    fn alone(&self) -> serde_json::Value {
        let _watchdog = Watchdog::usual(self.name);
        let cluster = Cluster::empty().unwrap();
        let call = [&["bench", self.name, "--json"], self.short].concat();
        let (status, out, err) = cluster.run(&call).unwrap();
        assert_eq!(status, 0, "{err}");
        let report = json(&out);
        self.check(&report, self.count);
        assert_eq!(report["nodes"], serde_json::json!([4, 8]));
        assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0);
        report
    }

    /// Runs its ends in two processes, called as of old; gives what the client printed, and the report that
    /// it left.
    fn apart(&self, count: usize) -> (String, serde_json::Value) {
        let _watchdog = Watchdog::usual(self.name);
        let cluster = Cluster::up(2).unwrap();
        let file = cluster.runtime_dir().join("report.json");
        let mut server = cluster
            .command(&["bench", self.name, "-server", "-rn", "8", "--node", "4"])
            .unwrap()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let client = ["bench", self.name, "-client", "-rn", "4", "--node", "8", "--classic", "-json"];
        let call = [&client[..], &[file.to_str().unwrap()], self.short].concat();
        let (status, out, err) = cluster.run(&call).unwrap();
        if status != 0 {
            drop(server.kill());
        }
        assert!(server.wait().unwrap().success(), "{out}{err}");
        assert_eq!(status, 0, "{out}{err}");
        let report = json(&std::fs::read_to_string(&file).unwrap());
        self.check(&report, count);
        assert_eq!(report["nodes"], serde_json::json!([8, 4]));
        (out, report)
    }
}

/// The lines of a classic table that begin with a number, in columns.
fn columns(table: &str) -> Vec<Vec<&str>> {
    let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| words.first().is_some_and(|word| word.parse::<u64>().is_ok())).collect()
}

#[test]
fn scibench2_measures_blocks_by_size() {
    let report = SCIBENCH2.alone();
    assert_eq!(report["way"], "map");
    assert_eq!([&report["rows"][0]["size_bytes"], &report["rows"][1]["size_bytes"]], [64, 4096]);
}

#[test]
fn scibench2_between_two_processes_prints_the_classic_table() {
    let (out, _) = SCIBENCH2.apart(2);
    assert!(out.contains("Block") && out.contains("Bandwidth"), "{out}");
    let lines = columns(&out);
    assert_eq!(lines.len(), 2, "{out}");
    for (line, size) in lines.iter().zip(["64", "4096"]) {
        assert_eq!([line[0], line[2], line[4]], [size, "us", "MBytes/s"], "{out}");
    }
}

#[test]
fn dma_measures_vectors_by_size() {
    let report = DMA.alone();
    for row in report["rows"].as_array().unwrap() {
        let [size, entries, total] =
            ["size_bytes", "entries", "total_bytes"].map(|field| row[field].as_u64().unwrap());
        assert_eq!(size * entries, total, "{row}");
    }
}

#[test]
fn dma_between_two_processes_prints_the_classic_table() {
    let (out, _) = DMA.apart(2);
    assert!(out.contains("Vector") && out.contains("Transfer time"), "{out}");
    let lines = columns(&out);
    assert_eq!(lines.len(), 2, "{out}");
    for (line, begins) in lines.iter().zip([["64", "16384", "256"], ["65536", "16777216", "256"]]) {
        assert_eq!(line[..3], begins, "{out}");
        assert_eq!([line[4], line[6], line[8]], ["us", "us", "MBytes/s"], "{out}");
    }
}

#[test]
fn intr_measures_those_awake_and_those_asleep() {
    if !two_processors() {
        return;
    }
    let report = INTR.alone();
    assert_eq!(report["processes"], 1);
    let figures = report["figures"].as_array().unwrap();
    for mode in ["spinning", "sleeping"] {
        assert!(figures.iter().any(|figure| figure["mode"] == mode), "{report}");
    }
    assert_eq!(figures.iter().filter(|figure| figure["one_way"] == true).count(), 1, "{report}");
}

#[test]
fn intr_between_two_processes_prints_the_classic_lines() {
    if !two_processors() {
        return;
    }
    // Nobody times one way between two processes.
    let (out, report) = INTR.apart(5);
    assert_eq!(report["processes"], 2);
    for line in ["Average unidirectional interrupt time :", "Average round trip     interrupt time :"] {
        assert!(out.lines().any(|said| said.starts_with(line) && said.ends_with(" us.")), "{out}");
    }
}

#[test]
fn latency_compares_every_transport_in_one_run() {
    if !two_processors() {
        return;
    }
    let report = LATENCY.alone();
    let names: Vec<&str> =
        report["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    for name in ["tieline, stores", "futex", "pipe", "UNIX socket", "TCP, loopback", "memcpy, one thread"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for row in report["rows"].as_array().unwrap() {
        let figures = ["half_rtt_ns", "bandwidth_gb_s"].map(|field| row[field].as_f64());
        assert!(figures.iter().any(|figure| figure.is_some_and(|value| value > 0.0)), "{row}");
    }
}

#[test]
fn jitter_counts_every_round_trip() {
    if !two_processors() {
        return;
    }
    let report = JITTER.alone();
    assert!(report["kept"]["round_trips"].as_u64().unwrap() > 0, "{}", report["kept"]);
    assert_eq!(report["kept"]["ended_early"], false);
    assert_eq!(report["idle"].as_array().unwrap().len(), 2);
    assert!(report["threshold_ns"].as_f64().unwrap() > report["median_ns"].as_f64().unwrap());
    assert!(!report["plot"].as_array().unwrap().is_empty());
    let caused: u64 =
        report["causes"].as_array().unwrap().iter().map(|cause| cause["spikes"].as_u64().unwrap()).sum();
    assert_eq!(caused, report["spikes_found"].as_u64().unwrap());
}

#[test]
fn what_cannot_be_measured_is_wrong_usage() {
    let _watchdog = Watchdog::usual("wrong usage of benchmarks");
    let cluster = Cluster::up(2).unwrap();
    for (call, reason) in [
        (&["dma", "--sizes", "0"][..], "a block of 0 bytes has no bandwidth"),
        (&["scibench2", "--sizes", "64,x"], "x"),
        (&["scibench2", "--sizes", "100000G"], "give smaller sizes"),
        (&["scibench2", "--server"], "--rn is missing"),
        (&["intr", "--client"], "--rn is missing"),
        (&["jitter", "--seconds", "0"], "give more than 0"),
        (&["jitter", "--seconds", "nan"], "give more than 0"),
        (&["scibench2", "--cpus", "4095,0"], "4095"),
        (&["dma", "--cpus", "0,4095"], "4095"),
        (&["latency", "--cpus", "0,4095"], "4095"),
    ] {
        let (status, out, err) = cluster.run(&[&["bench"], call].concat()).unwrap();
        assert_eq!(status, 2, "{call:?}: {out}{err}");
        assert!(err.contains(reason), "{call:?}: {err}");
    }
}

#[test]
fn a_client_of_any_tool_without_a_server_is_told_how_to_start_one() {
    let _watchdog = Watchdog::usual("benchmarks without a server");
    let cluster = Cluster::up(2).unwrap();
    let (status, _, err) = cluster.run(&["bench", "dma", "--client", "--rn", "4"]).unwrap();
    assert_ne!(status, 0, "{err}");
    assert!(err.contains("start one there with `tieline bench dma --server --rn 8`"), "{err}");
}

#[test]
fn pt2pt_measures_each_test_and_prints_the_layout_of_osu() {
    if !two_processors() {
        return;
    }
    let _watchdog = Watchdog::usual("pt2pt");
    let cluster = Cluster::empty().unwrap();
    let tests = ["latency", "bw", "bibw", "mr", "multi-lat", "barrier", "broadcast", "allreduce"];
    let options =
        ["--sizes", "8,64K", "--iterations", "20", "--members", "3", "--pairs", "2", "--window", "8"];
    let all: Vec<&str> = ["bench", "pt2pt", "allgather", "alltoall", "--json"]
        .into_iter()
        .chain(tests)
        .chain(options)
        .collect();
    let (status, out, err) = cluster.run(&all).unwrap();
    assert_eq!(status, 0, "{err}");
    let report = json(&out);
    let rows = report["rows"].as_array().unwrap();
    // A barrier has no size.
    assert_eq!(rows.len(), 2 * 9 + 1, "{report}");
    for row in rows {
        assert!(
            row["ns"].as_f64().unwrap() > 0.0 && row["readings_ns"].as_array().unwrap().len() == 5,
            "{row}"
        );
        assert_eq!(row["iterations"], 20, "{row}");
    }
    let osu: Vec<&str> = ["bench", "pt2pt", "latency", "mr", "barrier", "--layout", "osu", "--quiet"]
        .into_iter()
        .chain(options)
        .collect();
    let (status, out, err) = cluster.run(&osu).unwrap();
    assert_eq!(status, 0, "{err}");
    // As scripts read it: lines without `#`, the size first.
    let lines: Vec<Vec<f64>> = out
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .collect();
    let columns: Vec<usize> = lines.iter().map(Vec::len).collect();
    assert_eq!(columns, [2, 2, 3, 3, 4], "{out}");
    assert_eq!([lines[0][0], lines[1][0], lines[2][0], lines[3][0]], [8.0, 65536.0, 8.0, 65536.0], "{out}");
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0);
}

#[test]
fn pt2pt_measures_memory_of_another_node() {
    if !two_processors() {
        return;
    }
    let _watchdog = Watchdog::usual("pt2pt of memory");
    let cluster = Cluster::empty().unwrap();
    let of_memory = |more: &[&str]| {
        let tests = ["bench", "pt2pt", "put", "get", "put-bw", "get-bw", "fetch-add", "compare-swap"];
        let options = ["--sizes", "1,4K,1M", "--iterations", "50", "--window", "8", "--quiet"];
        let all: Vec<&str> = tests.into_iter().chain(options).chain(more.iter().copied()).collect();
        let (status, out, err) = cluster.run(&all).unwrap();
        assert_eq!((status, err.as_str()), (0, ""));
        out
    };
    let report = json(&of_memory(&["--json"]));
    let rows = report["rows"].as_array().unwrap();
    let of = |test: &str| -> Vec<(u64, u64)> {
        let rows = rows.iter().filter(|row| row["test"] == test);
        rows.map(|row| (row["size_bytes"].as_u64().unwrap(), row["window"].as_u64().unwrap())).collect()
    };
    assert_eq!(of("put"), [(1, 1), (4096, 1), (1 << 20, 1)]);
    assert_eq!((of("get-bw"), of("fetch-add")), (vec![(1, 8), (4096, 8), (1 << 20, 8)], vec![(8, 1)]));
    assert!(rows.len() == 14 && rows.iter().all(|row| row["ns"].as_f64().unwrap() > 0.0), "{report}");
    let out = of_memory(&["--layout", "osu"]);
    assert_eq!(out.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count(), 14, "{out}");
    assert!(out.contains("as OSU MPI_Get latency Test v7.4"), "{out}");
    // Its cluster is gone.
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0);
}

#[test]
fn a_signal_ends_pt2pt_of_memory_early() {
    if !two_processors() {
        return;
    }
    let _watchdog = Watchdog::usual("pt2pt of memory that is interrupted");
    let cluster = Cluster::empty().unwrap();
    // Hours of it.
    let words = ["bench", "pt2pt", "put", "--sizes", "4M", "--iterations", "10000000"];
    let mut command = cluster.command(&words).unwrap();
    let mut bench = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut errors = bench.stderr.take().unwrap();
    while !said.contains("put of 4 MiB") {
        let mut byte = [0];
        assert_ne!(errors.read(&mut byte).unwrap(), 0, "{said}");
        said.push(char::from(byte[0]));
    }
    let pid = Pid::from_raw(bench.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("the result is partial"), "{said}");
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0);
}

#[test]
fn pt2pt_says_what_it_cannot_measure() {
    let cluster = Cluster::empty().unwrap();
    for (arguments, named) in [
        (&["latency", "store"][..], "store: it is no test: give latency, bw,"),
        (&["mr", "--pairs", "0"], "--pairs 0: give a number from 1 to 64"),
        (&["barrier", "--members", "1"], "--members 1: give a number from 2 to 64"),
        (&["bw", "--window", "0"], "--window 0: give the messages under way"),
        (&["bw", "--sizes", "0"], "--sizes: a block of 0 bytes"),
        (&["alltoall", "--sizes", "1G", "--members", "64"], "--sizes 1 GiB: this needs"),
    ] {
        let all: Vec<&str> = ["bench", "pt2pt"].into_iter().chain(arguments.iter().copied()).collect();
        let (status, out, err) = cluster.run(&all).unwrap();
        assert_eq!((status, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(named), "{arguments:?}: {err}");
    }
}
