//! The two ends of jitter and latency in two processes: they find each other, notice when one is missing,
//! killed, or another tool or version; and every benchmark runs on one processor, on given ones, and under
//! load.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tieline::{SegmentId, SegmentOptions};
use tieline_tests::{Cluster, Watchdog};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn serve(cluster: &Cluster, tool: &str) -> Child {
    cluster
        .command(&["bench", tool, "-server", "-rn", "8", "--node", "4"])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a client says, and the report that it leaves in a file.
fn client(cluster: &Cluster, tool: &str, more: &[&str]) -> (i32, String, String, Option<Value>) {
    let file = cluster.runtime_dir().join("report.json");
    let call = ["bench", tool, "-client", "-rn", "4", "--node", "8", "-json", file.to_str().unwrap()];
    let (status, out, err) = cluster.run(&[&call[..], more].concat()).unwrap();
    let report = std::fs::read_to_string(&file).ok().map(|text| json(&text));
    (status, out, err, report)
}

const SHORT: [(&str, &[&str]); 2] = [
    ("jitter", &["--seconds", "0.3", "--idle-seconds", "0.1", "--memory", "8M"]),
    ("latency", &["--rounds", "2"]),
];

#[test]
fn jitter_and_latency_between_two_processes() {
    let _watchdog = Watchdog::usual("jitter and latency in two processes");
    let cluster = Cluster::up(2).unwrap();
    for (tool, short) in SHORT {
        let mut server = serve(&cluster, tool);
        let (status, out, err, report) = client(&cluster, tool, short);
        if status != 0 {
            drop(server.kill());
        }
        let output = server.wait_with_output().unwrap();
        assert!(
            status == 0 && output.status.success(),
            "{tool}: {out}{err}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report = report.unwrap();
        assert_eq!(report["schema"], format!("tieline.{tool}/1"));
        assert_eq!((&report["processes"], &report["nodes"]), (&2.into(), &serde_json::json!([8, 4])));
        assert_eq!(report["partial"], false);
        if tool == "jitter" {
            assert!(report["kept"]["round_trips"].as_u64().unwrap() > 0, "{report}");
            assert_eq!(report["idle"].as_array().unwrap().len(), 1);
        } else {
            let rows = report["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 7);
            assert!(rows[..6].iter().all(|row| row["half_rtt_ns"].as_f64().unwrap() > 0.0), "{report}");
            assert!(out.contains("two processes"), "{out}");
        }
    }
}

#[test]
fn latency_bench_prints_the_classic_table() {
    let _watchdog = Watchdog::usual("latency_bench");
    let cluster = Cluster::up(2).unwrap();
    let mut server = serve(&cluster, "latency");
    let (status, out, err, _) = client(&cluster, "latency", &["--rounds", "1", "--classic"]);
    if status != 0 {
        drop(server.kill());
    }
    assert_eq!(status, 0, "{err}");
    assert!(server.wait().unwrap().success());
    assert!(out.starts_with("Testing PINGPONG transfers (back-and-forth)\n"), "{out}");
    let rows: Vec<Vec<&str>> = out.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), rows[0][0], rows[30][0]), (31, "1", "65536"));
    assert!(rows.iter().all(|row| row.len() == 6 && row[4] == "Min:"), "{out}");
}

#[test]
fn an_absent_server_is_missed_in_time_and_named() {
    let _watchdog = Watchdog::usual("absent servers");
    let cluster = Cluster::up(2).unwrap();
    for (tool, short) in SHORT {
        let (status, _, err, _) = client(&cluster, tool, short);
        let advice = format!("start one there with `tieline bench {tool} --server --rn 8`");
        assert!(status == 4 && err.contains(&advice), "{tool}: {status} {err}");
        for end in ["--server", "--client"] {
            let (status, _, err) = cluster.run(&["bench", tool, end]).unwrap();
            assert!(status == 2 && err.contains("--rn is missing"), "{tool} {end}: {err}");
        }
    }
}

#[test]
fn a_killed_end_is_noticed_by_the_other() {
    let _watchdog = Watchdog::usual("killed ends");
    for (tool, long) in [("jitter", ["--seconds", "600"]), ("latency", ["--rounds", "90000"])] {
        let cluster = Cluster::up(2).unwrap();
        let start = || {
            let call = ["bench", tool, "--client", "--rn", "4", "--node", "8"];
            let mut command = cluster.command(&[&call[..], &long].concat()).unwrap();
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let (mut server, client) = (serve(&cluster, tool), start());
        std::thread::sleep(Duration::from_millis(700));
        server.kill().unwrap();
        server.wait().unwrap();
        let output = client.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(4) && (said.contains("gone") || said.contains("no server")),
            "{tool}: {said}"
        );
        let mut server = serve(&cluster, tool);
        let mut delay = Duration::from_millis(700);
        // On a busy machine a client may be killed before it has found its server, which then waits for
        // another client.
        while server.try_wait().unwrap().is_none() {
            let mut client = start();
            std::thread::sleep(delay);
            client.kill().unwrap();
            client.wait().unwrap();
            let killed = Instant::now();
            while server.try_wait().unwrap().is_none() && killed.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(20));
            }
            delay *= 2;
        }
        let output = server.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(4) && (said.contains("gone") || said.contains("no client")),
            "{tool}: {said}"
        );
    }
}

/// The head of a rendezvous as another version would write it, at the place where the client looks for it.
#[test]
fn another_version_or_tool_at_the_other_end_is_named() {
    let _watchdog = Watchdog::usual("other versions");
    for (tool, number) in [("jitter", 4u64), ("latency", 5)] {
        for (form, theirs, words) in
            [(2, number, &["tieline 9.9.9", "same version"][..]), (1, 2, &["runs dma", "same tool"])]
        {
            let cluster = Cluster::up(2).unwrap();
            let node = cluster.attach(0).unwrap();
            let id = SegmentId(0x5e00_0000 | (number as u32) << 20 | 8);
            let segment = node.create_segment_with(&SegmentOptions::new(4096).id(id)).unwrap();
            let window = segment.window();
            window.put(64, b"9.9.9").unwrap();
            window.store_u64(8, form).unwrap();
            window.store_u64(16, theirs).unwrap();
            window.store_u64(0, u64::from_le_bytes(*b"tieline\x01")).unwrap();
            segment.make_available().unwrap();
            let (status, _, err, _) = client(&cluster, tool, &[]);
            assert!(
                status == 2 && words.iter().all(|word| err.contains(word)),
                "{tool} {form}: {status} {err}"
            );
        }
    }
}

#[test]
fn every_benchmark_runs_on_one_processor_on_given_ones_and_under_load() {
    let _watchdog = Watchdog::new("placements", Duration::from_secs(300));
    let cluster = Cluster::up(2).unwrap();
    for (tool, short) in [
        ("scipp", &["--size", "4"][..]),
        ("scibench2", &["--sizes", "64", "--blocks", "2"]),
        ("dma", &["--sizes", "64", "--blocks", "2"]),
        ("intr", &["--readings", "2"]),
        SHORT[0],
        SHORT[1],
    ] {
        for place in [&["--same-core"][..], &["--cpus", "0,1"], &["--load", "1"]] {
            let call = [&["bench", tool, "--json"], short, place].concat();
            let (status, out, err) = cluster.run(&call).unwrap();
            assert_eq!(status, 0, "{call:?}: {err}");
            let report = json(&out);
            assert_eq!(report["load_threads"], u32::from(place[0] == "--load"), "{call:?}");
            if place[0] == "--same-core" && report["cpus"].is_array() {
                assert_eq!(report["cpus"][0], report["cpus"][1], "{call:?}");
            }
        }
    }
}

/// A file that cannot be written is an error with its name, before anything is measured.
#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let _watchdog = Watchdog::usual("unwritable files");
    let cluster = Cluster::up(2).unwrap();
    for (tool, short) in [
        ("scibench2", &["--sizes", "64", "--blocks", "2"][..]),
        ("dma", &["--sizes", "64", "--blocks", "2"]),
        ("intr", &["--readings", "2"]),
        SHORT[0],
        SHORT[1],
    ] {
        for file in ["/dev/full", "/nonexistent/report.json"] {
            let call = [&["bench", tool, "--json-file", file], short].concat();
            let (status, out, err) = cluster.run(&call).unwrap();
            assert!(status == 4 && err.contains(file) && out.is_empty(), "{call:?}: {status} {out}{err}");
        }
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = cluster.command(&[&["bench", tool], short].concat()).unwrap();
        let output = command.stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(4) && err.contains("standard output"), "{tool}: {err}");
    }
}
