//! Benchmarks between two nodes on two hosts: what they measure and by what, and what is said when the other
//! end is missing or dies.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tieline_tests::Watchdog;

use crate::agents::{agents, has_none_left, signal};
use crate::lab::until;
use crate::namespaces::{Hosts, text};

/// Two hosts with libfabric.
fn hosts() -> Option<Hosts> {
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        println!("skipped: {error}");
        return None;
    }
    Hosts::up(2)
}

/// The report of a benchmark from host1.
fn report(hosts: &Hosts, words: &[&str]) -> Value {
    let (status, said, error) = hosts.tieline("host1", &[&["bench"], words, &["--json"]].concat());
    assert_eq!(status, 0, "{words:?}: {said}{error}");
    serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}{error}"))
}

/// A benchmark on a host, in the background.
fn begun(hosts: &Hosts, host: &str, words: &[&str]) -> Child {
    let program = tieline_tests::cluster::tieline_binary().unwrap();
    let mut command: Command = hosts.on(host, &[&[program.to_str().unwrap(), "bench"], words].concat());
    use std::os::unix::process::CommandExt;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.spawn().unwrap()
}

/// A benchmark that lasts, and the segments and imports that its server has while it measures.
type Lasting = (&'static [&'static str], [u64; 2]);

/// A stream of puts: it has memory on the other host.
const STREAM: Lasting = (&["scibench2", "--sizes", "64,128,256", "--blocks", "100000"], [2, 1]);
const JITTER: Lasting = (&["jitter", "--seconds", "600", "--idle-seconds", "0"], [1, 1]);
/// Each end puts into memory of the other one, and triggers its interrupt.
const LATENCY: Lasting = (&["latency", "--rounds", "100000"], [2, 3]);

fn measuring(hosts: &Hosts, (words, counts): Lasting) -> Child {
    let child = begun(hosts, "host1", &[words, &["--rn", "8", "--json"]].concat());
    until("a measurement", || {
        let status: Value =
            serde_json::from_str(&hosts.tieline("host2", &["status", "--json"]).1).unwrap_or_default();
        let own = status["nodes"].as_array().into_iter().flatten();
        let mut programs = own.flat_map(|node| node["status"]["programs"].as_array().into_iter().flatten());
        let has = |program: &Value| ["segments", "imports"].map(|name| program[name].as_u64());
        programs.any(|program| program["name"] == words[0] && has(program) == counts.map(Some))
    });
    child
}

fn is_more(row: &Value, name: &str) {
    assert!(row[name].as_f64() > Some(0.0), "{name}: {row}");
}

#[test]
fn benchmarks_measure_between_hosts_by_put_and_say_so() {
    let _watchdog = Watchdog::usual("benchmarks between hosts");
    let Some(hosts) = hosts() else { return };
    for (size, bytes) in [("4", 4), ("8K", 8192)] {
        let scipp = report(&hosts, &["scipp", "--rn", "8", "--size", size]);
        assert_eq!(
            [&scipp["schema"], &scipp["mechanism"], &scipp["path"], &scipp["placement"]],
            ["tieline.scipp/1", "put", "ofi", "own"],
            "{scipp}"
        );
        assert_eq!(scipp["nodes"], serde_json::json!([4, 8]), "{scipp}");
        let row = &scipp["rows"][0];
        assert_eq!((&row["size_bytes"], &row["checked"]), (&bytes.into(), &800.into()), "{scipp}");
        is_more(&row["half_rtt"], "min_ns");
        is_more(row, "line_floor_ns");
    }
    let stores = report(&hosts, &["scibench2", "--rn", "8", "--sizes", "64,64K", "--blocks", "3"]);
    assert_eq!((&stores["way"], &stores["path"]), (&"put".into(), &"ofi".into()), "{stores}");
    let rows = stores["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{stores}");
    for row in rows {
        is_more(row, "bandwidth_gb_s");
        is_more(row, "rival_gb_s");
        assert!(row["rival"].as_str().unwrap().starts_with("libfabric's own writes"), "{row}");
    }
    let dma = report(&hosts, &["dma", "--rn", "8", "--sizes", "64,64K", "--blocks", "3"]);
    assert_eq!((&dma["path"], dma["rows"].as_array().unwrap().len()), (&"ofi".into(), 2), "{dma}");
    is_more(&dma["rows"][1], "bandwidth_gb_s");
    for (words, header) in [
        (&["scipp", "--rn", "8", "--size", "4"][..], "over ofi by put (no stores between hosts), processor "),
        (
            &["scibench2", "--rn", "8", "--sizes", "64", "--blocks", "1"],
            "node 4 puts into memory of node 8 over ofi",
        ),
        (
            &["dma", "--rn", "8", "--sizes", "4K", "--blocks", "1"],
            "over ofi by put (no stores between hosts)",
        ),
    ] {
        let (status, table, error) = hosts.tieline("host1", &[&["bench"], words].concat());
        assert!(status == 0 && table.contains(header), "{table}{error}");
    }
    has_none_left(&hosts);
}

/// Round trips are puts, and libfabric's own messages stand beside them; the noise is this host's.
#[test]
fn jitter_between_hosts_keeps_every_round_trip_of_puts() {
    let _watchdog = Watchdog::usual("jitter between hosts");
    let Some(hosts) = hosts() else { return };
    let short = ["jitter", "--rn", "8", "--seconds", "0.5", "--idle-seconds", "0.1"];
    let jitter = report(&hosts, &short);
    assert_eq!(
        [&jitter["schema"], &jitter["mechanism"], &jitter["path"]],
        ["tieline.jitter/1", "put", "ofi"],
        "{jitter}"
    );
    assert_eq!(
        (&jitter["nodes"], &jitter["processes"], &jitter["partial"]),
        (&serde_json::json!([4, 8]), &2.into(), &false.into()),
        "{jitter}"
    );
    assert_eq!(jitter["kept"]["every"], 1, "{jitter}");
    is_more(&jitter["kept"], "round_trips");
    assert_eq!(jitter["kept"]["round_trips"], jitter["rtt"]["n"], "{jitter}");
    is_more(&jitter["rtt"], "min_ns");
    let reference = &jitter["reference"];
    let name = reference["name"].as_str().unwrap();
    assert!(name.starts_with("libfabric's own messages of 8 bytes ("), "{jitter}");
    is_more(&reference["rtt"], "min_ns");
    let idle = jitter["idle"].as_array().unwrap();
    assert_eq!((idle.len(), &idle[0]["cpu"]), (1, &jitter["cpus"][0]), "{jitter}");
    assert!(jitter["spikes"].is_array() && jitter["periods"].is_array() && jitter["causes"].is_array());
    let (status, table, error) = hosts.tieline("host1", &[&["bench"], &short[..]].concat());
    assert_eq!(status, 0, "{table}{error}");
    for words in [
        "nodes 4 and 8 over ofi by put (no stores between hosts), processor ",
        "\nputs of 8 bytes ",
        "\nlibfabric's own messages of 8 bytes (",
        "\nspikes (beyond ",
        " of this host alone, not of the network or the other host:\n",
        "\nidle processor ",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    has_none_left(&hosts);
}

/// Ours by puts and interrupts stand beside what leads to another host; the rest is named.
#[test]
fn latency_between_hosts_compares_what_leads_there_and_names_the_rest() {
    let _watchdog = Watchdog::usual("latency between hosts");
    let Some(hosts) = hosts() else { return };
    let latency = report(&hosts, &["latency", "--rn", "8", "--rounds", "2"]);
    assert_eq!(
        [&latency["schema"], &latency["mechanism"], &latency["path"], &latency["sharing"]],
        ["tieline.latency/1", "put", "ofi", "two_cores"],
        "{latency}"
    );
    assert_eq!((&latency["rounds"], &latency["partial"]), (&2.into(), &false.into()), "{latency}");
    let rows = latency["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let transports = [
        "tieline, puts",
        "tieline, interrupt",
        "libfabric's own calls",
        "TCP, between hosts",
        "memcpy, one thread",
    ];
    assert_eq!(names, transports, "{latency}");
    for row in &rows[..4] {
        is_more(row, "half_rtt_ns");
    }
    for at in [0, 2, 3, 4] {
        is_more(&rows[at], "bandwidth_gb_s");
    }
    let left_out = latency["left_out"].as_array().unwrap();
    assert_eq!((left_out.len(), &left_out[0]["name"]), (1, &"futex, pipe, UNIX socket".into()), "{latency}");
    let carried = &latency["tcp_carried"];
    assert_eq!(carried["past_kernel"], 0, "{latency}");
    let (status, table, error) = hosts.tieline("host1", &["bench", "latency", "--rn", "8", "--rounds", "1"]);
    assert_eq!(status, 0, "{table}{error}");
    for words in [
        "over ofi by put (no stores between hosts; memcpy within this one), processor ",
        "\nleft out: futex, pipe, UNIX socket: they reach no other host\n",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let (status, table, error) =
        hosts.tieline("host1", &["bench", "latency", "--rn", "8", "--rounds", "1", "--classic"]);
    assert_eq!(status, 0, "{table}{error}");
    let mut lines = table.lines();
    assert_eq!(lines.nth(1), Some("Socket transfers are made over kernel TCP, between hosts."), "{table}");
    assert_eq!(lines.nth(1).and_then(|row| row.split_whitespace().next()), Some("1"), "{table}");
    has_none_left(&hosts);
}

/// Messages of pairs and groups, and memory of the other host; every test has a row for each size.
#[test]
fn pt2pt_between_hosts_measures_messages_groups_and_memory() {
    let _watchdog = Watchdog::usual("pt2pt between hosts");
    let Some(hosts) = hosts() else { return };
    let options = ["--rn", "8", "--sizes", "8,64K", "--iterations", "10", "--members", "3", "--window", "4"];
    let tests =
        ["latency", "bw", "bibw", "mr", "multi-lat", "barrier", "broadcast", "allreduce", "allgather"];
    let of_memory = ["alltoall", "put", "get", "put-bw", "get-bw", "fetch-add", "compare-swap"];
    let all = [&["pt2pt"][..], &tests, &of_memory, &options].concat();
    let pt2pt = report(&hosts, &all);
    assert_eq!([&pt2pt["schema"], &pt2pt["path"]], ["tieline.pt2pt/1", "ofi"], "{pt2pt}");
    assert_eq!((&pt2pt["nodes"], &pt2pt["partial"]), (&serde_json::json!([4, 8]), &false.into()), "{pt2pt}");
    let rows = pt2pt["rows"].as_array().unwrap();
    let of = |test: &str| -> Vec<u64> {
        let rows = rows.iter().filter(|row| row["test"] == test);
        rows.map(|row| row["size_bytes"].as_u64().unwrap()).collect()
    };
    for test in tests.iter().chain(&of_memory) {
        let sizes = match *test {
            "barrier" => vec![0],
            "fetch-add" | "compare-swap" => vec![8],
            _ => vec![8, 64 << 10],
        };
        assert_eq!(of(test), sizes, "{test}: {pt2pt}");
    }
    for row in rows {
        is_more(row, "ns");
        assert_eq!(
            (&row["iterations"], row["readings_ns"].as_array().unwrap().len()),
            (&10.into(), 5),
            "{row}"
        );
    }
    let words = |more: &[&str]| {
        let all = [&["bench", "pt2pt", "latency", "put"][..], &options, more].concat();
        let (status, table, error) = hosts.tieline("host1", &all);
        assert_eq!(status, 0, "{table}{error}");
        table
    };
    let table = words(&[]);
    assert!(table.starts_with("between nodes 4 and 8 over ofi, processor "), "{table}");
    assert!(table.contains("; node 8 takes no part\n"), "{table}");
    let osu = words(&["--layout", "osu"]);
    let sizes = osu.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let sizes: Vec<_> = sizes.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(sizes, ["8", "65536", "8", "65536"], "{osu}");
    has_none_left(&hosts);
}

#[test]
fn pt2pt_between_hosts_says_what_is_missing() {
    let _watchdog = Watchdog::usual("pt2pt and an end that is missing");
    let Some(hosts) = hosts() else { return };
    let failed = |words: &[&str]| {
        let (status, said, error) =
            hosts.tieline("host1", &[&["bench", "pt2pt", "latency", "--quiet"], words].concat());
        assert!(status != 0 && said.is_empty(), "{words:?}: {status} {said}{error}");
        assert_eq!(error.lines().count(), 1, "{words:?}: {error}");
        error
    };
    for (words, named) in [
        (&["--rn", "4"][..], "node 4 is on this host, and --rn names a node of another one: leave --rn out"),
        (&["--rn", "12"], "node 12"),
        (&["--server"], "--rn"),
        (&["--client", "--rn", "8"], "start one there with `tieline bench pt2pt --server --rn 4`"),
    ] {
        let error = failed(words);
        assert!(error.contains(named), "{words:?}: {error}");
    }
    // A queue of a program has the port of the far member.
    let port = (0x5e00_0000 + 4 * 64 + 1).to_string();
    let taken = hosts.program("host2", env!("CARGO_BIN_EXE_tieline-reach"), &["queue", &port]).ready();
    let error = failed(&["--rn", "8", "--sizes", "8"]);
    assert!(error.contains("the end on node 8: rank 1: ") && error.contains(&port), "{error}");
    drop(taken);
    has_none_left(&hosts);
}

#[test]
fn each_end_of_a_benchmark_can_be_started_by_hand_on_its_host() {
    let _watchdog = Watchdog::usual("a benchmark with a server on another host");
    let Some(hosts) = hosts() else { return };
    let server = begun(&hosts, "host2", &["scipp", "--server", "--rn", "4"]);
    let scipp = report(&hosts, &["scipp", "--client", "--rn", "8", "--size", "64"]);
    assert_eq!((&scipp["mechanism"], &scipp["rows"][0]["checked"]), (&"put".into(), &800.into()), "{scipp}");
    let (status, said, error) = text(&server.wait_with_output().unwrap());
    assert_eq!(status, 0, "{said}{error}");
    let server = begun(&hosts, "host2", &["jitter", "--server", "--rn", "4"]);
    let jitter =
        report(&hosts, &["jitter", "--client", "--rn", "8", "--seconds", "0.1", "--idle-seconds", "0"]);
    assert_eq!((&jitter["mechanism"], &jitter["idle"]), (&"put".into(), &serde_json::json!([])), "{jitter}");
    let (status, said, error) = text(&server.wait_with_output().unwrap());
    assert_eq!(status, 0, "{said}{error}");
    let server = begun(&hosts, "host2", &["pt2pt", "--server", "--rn", "4"]);
    let words = ["pt2pt", "latency", "--client", "--rn", "8", "--sizes", "8", "--iterations", "5"];
    let pt2pt = report(&hosts, &words);
    assert_eq!((&pt2pt["path"], pt2pt["rows"].as_array().unwrap().len()), (&"ofi".into(), 1), "{pt2pt}");
    let (status, said, error) = text(&server.wait_with_output().unwrap());
    assert_eq!(status, 0, "{said}{error}");
    assert!(agents(&hosts).is_empty());
}

#[test]
fn an_end_that_is_missing_or_dies_is_named_and_nothing_is_left() {
    let _watchdog = Watchdog::usual("a benchmark and the death of its other end");
    let Some(hosts) = hosts() else { return };
    let failed = |words: &[&str]| {
        let (status, said, error) = hosts.tieline("host1", &[&["bench"], words].concat());
        assert!(status != 0 && said.is_empty(), "{words:?}: {status} {said}{error}");
        error
    };
    for tool in ["scipp", "jitter", "latency"] {
        let error = failed(&[tool, "--rn", "12"]);
        assert!(error.contains("node 12") && error.lines().count() == 1, "{error}");
    }
    let error = failed(&["jitter", "--client", "--rn", "8"]);
    assert!(error.contains("start one there with `tieline bench jitter --server --rn 4`"), "{error}");
    let error = failed(&["scipp", "--node", "8", "--rn", "4"]);
    assert!(error.contains("node 8 is on host2") && error.contains("run the command there"), "{error}");
    let error = failed(&["scibench2", "--rn", "8", "--way", "map"]);
    assert!(error.contains("cannot be mapped") && error.contains("--way put"), "{error}");

    for lasting in [STREAM, JITTER, LATENCY] {
        ends_are_killed(&hosts, lasting);
    }

    hosts.tieline("host2", &["node", "stop"]);
    until("the news", || failed(&["scipp", "--rn", "8"]).contains("was stopped"));
    let error = failed(&["scipp", "--rn", "8"]);
    assert!(
        error.contains("node 8 on host2 was stopped: start it there with `tieline node start"),
        "{error}"
    );
}

/// The server is killed, the client gets Ctrl-C, the client is killed.
fn ends_are_killed(hosts: &Hosts, lasting: Lasting) {
    let child = measuring(hosts, lasting);
    let (agent, _) = agents(hosts).pop().unwrap();
    signal(agent, Signal::KILL);
    let (status, said, error) = text(&child.wait_with_output().unwrap());
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}{error}"));
    let why = said["error"].as_str().unwrap();
    assert!(
        status != 0 && why.contains("the end on node 8 of host2") && why.contains("killed by signal 9"),
        "{why}"
    );
    has_none_left(hosts);

    // From a keyboard all get it: what was measured is printed, and the other end goes.
    let child = measuring(hosts, lasting);
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    let (status, said, error) = text(&child.wait_with_output().unwrap());
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}{error}"));
    // Before the first figure there is nothing to print.
    let has_none = report["error"].as_str().is_some_and(|why| why.contains("ended by a signal"));
    assert!(status == 130 && (report["partial"] == true || has_none), "{status} {report} {error}");
    has_none_left(hosts);
    // Killed it can end nothing by itself.
    let mut child = measuring(hosts, lasting);
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    has_none_left(hosts);
}
