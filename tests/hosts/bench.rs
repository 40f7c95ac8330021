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

/// A stream of puts that lasts: it has memory on the other host, so it measures.
fn measuring(hosts: &Hosts) -> Child {
    let words = ["scibench2", "--rn", "8", "--sizes", "64,128,256", "--blocks", "100000", "--json"];
    let child = begun(hosts, "host1", &words);
    until("a measurement", || {
        let status: Value =
            serde_json::from_str(&hosts.tieline("host2", &["status", "--json"]).1).unwrap_or_default();
        let own = status["nodes"].as_array().into_iter().flatten();
        let mut programs = own.flat_map(|node| node["status"]["programs"].as_array().into_iter().flatten());
        programs.any(|program| program["name"] == "scibench2" && program["segments"] == 2)
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

#[test]
fn each_end_of_a_benchmark_can_be_started_by_hand_on_its_host() {
    let _watchdog = Watchdog::usual("a benchmark with a server on another host");
    let Some(hosts) = hosts() else { return };
    let server = begun(&hosts, "host2", &["scipp", "--server", "--rn", "4"]);
    let scipp = report(&hosts, &["scipp", "--client", "--rn", "8", "--size", "64"]);
    assert_eq!((&scipp["mechanism"], &scipp["rows"][0]["checked"]), (&"put".into(), &800.into()), "{scipp}");
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
    let error = failed(&["scipp", "--rn", "12"]);
    assert!(error.contains("node 12") && error.lines().count() == 1, "{error}");
    let error = failed(&["scipp", "--node", "8", "--rn", "4"]);
    assert!(error.contains("node 8 is on host2") && error.contains("run the command there"), "{error}");
    let error = failed(&["scibench2", "--rn", "8", "--way", "map"]);
    assert!(error.contains("cannot be mapped") && error.contains("--way put"), "{error}");
    let error = failed(&["jitter", "--rn", "8"]);
    assert!(error.contains("`tieline bench hosts --from 4 --to 8`"), "{error}");

    let child = measuring(&hosts);
    let (agent, _) = agents(&hosts).pop().unwrap();
    signal(agent, Signal::KILL);
    let (status, said, error) = text(&child.wait_with_output().unwrap());
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}{error}"));
    let why = said["error"].as_str().unwrap();
    assert!(
        status != 0 && why.contains("the end on node 8 of host2") && why.contains("killed by signal 9"),
        "{why}"
    );
    has_none_left(&hosts);

    // From a keyboard all get it: what was measured is printed, and the other end goes.
    let child = measuring(&hosts);
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    let (status, said, error) = text(&child.wait_with_output().unwrap());
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}{error}"));
    // Before the first row there is nothing to print.
    let has_none = report["error"].as_str().is_some_and(|why| why.contains("ended by a signal"));
    assert!(status == 130 && (report["partial"] == true || has_none), "{status} {report} {error}");
    has_none_left(&hosts);
    // Killed it can end nothing by itself.
    let mut child = measuring(&hosts);
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    has_none_left(&hosts);

    hosts.tieline("host2", &["node", "stop"]);
    until("the news", || failed(&["scipp", "--rn", "8"]).contains("was stopped"));
    let error = failed(&["scipp", "--rn", "8"]);
    assert!(
        error.contains("node 8 on host2 was stopped: start it there with `tieline node start"),
        "{error}"
    );
}
