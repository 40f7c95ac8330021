//! `tieline link` makes links fail for real, and `tieline conntest` finds it and names the link.

use serde_json::Value;
use tieline::{Error, NodeId, NodeOptions, SegmentId, SequenceStatus};
use tieline_tests::{Cluster, Watchdog};

fn up(nodes: &str) -> Cluster {
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["up", "--nodes", nodes, "--faults"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    cluster
}

fn done(cluster: &Cluster, words: &[&str]) -> String {
    let (status, out, err) = cluster.run(words).unwrap();
    assert_eq!(status, 0, "{words:?}: {out}{err}");
    out
}

/// A short load test: its exit status and report.
fn conntest(cluster: &Cluster) -> (i32, Value) {
    let words = ["conntest", "--time", "0.5", "--wait", "2", "--json"];
    let (status, out, err) = cluster.run(&words).unwrap();
    (status, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

fn suspects(report: &Value) -> Vec<String> {
    report["culprits"].as_array().unwrap().iter().map(|suspected| suspected["suspect"].to_string()).collect()
}

fn total(report: &Value, counter: &str) -> u64 {
    let instances = report["instances"].as_array().unwrap();
    let peers = instances.iter().flat_map(|instance| instance["peers"].as_array().unwrap());
    peers.map(|peer| peer["ledger"][counter].as_u64().unwrap()).sum()
}

/// All is well. On a busy machine a run may be INCONCLUSIVE, and is repeated; none may be FAIL.
fn passes(cluster: &Cluster) -> Value {
    let (mut status, mut report) = conntest(cluster);
    for _ in 0..20 {
        if status == 0 {
            break;
        }
        assert_eq!(report["verdict"], "INCONCLUSIVE", "{report:#}");
        (status, report) = conntest(cluster);
    }
    assert_eq!((status, &report["verdict"]), (0, &"PASS".into()), "{report:#}");
    report
}

#[test]
fn conntest_passes_on_good_links_and_names_the_bad_one_by_what_is_wrong() {
    let _watchdog = Watchdog::usual("conntest and faults");
    let cluster = up("4");
    assert!(total(&passes(&cluster), "bytes_checked") > 0);
    // A duplicate that is late destroys what was put after it, which is found as old content or as a missing
    // word. Blocks in the wrong order are seen only by a reader that looks between the two; on a busy machine
    // few do, so more are reordered.
    for (fault, share, counter) in [
        ("--loss", "1%", "lost"),
        ("--corrupt", "1%", "corrupt"),
        ("--reorder", "30%", "out_of_order"),
        ("--duplicate", "1%", "lost"),
    ] {
        done(&cluster, &["link", "degrade", "8", "12", fault, share]);
        // Beside other work few blocks are sent in so short a time: such a share of them may be none, or show
        // in another way.
        let mut runs = 0;
        let is_shown = |report: &Value| total(report, counter) > 0;
        let (status, report) = loop {
            let (status, report) = conntest(&cluster);
            runs += 1;
            if is_shown(&report) || runs == 20 {
                break (status, report);
            }
        };
        assert!(is_shown(&report), "{fault}: not in {runs} runs: {report:#}");
        assert_eq!((status, &report["verdict"]), (1, &"FAIL".into()), "{fault}: {report:#}");
        assert_eq!(suspects(&report), [r#"{"link":[8,12]}"#], "{fault}");
        done(&cluster, &["link", "clear", "8", "12"]);
    }
    done(&cluster, &["link", "down", "4", "16"]);
    let (status, report) = conntest(&cluster);
    assert_eq!((status, suspects(&report)), (1, vec![r#"{"link":[4,16]}"#.to_owned()]));
    done(&cluster, &["link", "up", "16", "4"]);
    passes(&cluster);
}

#[test]
fn a_link_is_degraded_in_both_directions_or_in_none() {
    let _watchdog = Watchdog::usual("a link that is degraded in one direction");
    let cluster = up("2");
    // One end takes faults, the other does not any more.
    done(&cluster, &["node", "restart", "--node", "8"]);
    let refused = |fault: &[&str]| {
        let words = [&["link", "degrade", "4", "8"], fault].concat();
        let (status, _, err) = cluster.run(&words).unwrap();
        let said = "tieline: link 4-8 was not changed: node 8 runs without fault injection: ";
        assert!(status == 4 && err.starts_with(said), "{err}");
    };
    refused(&["--loss", "1%"]);
    assert!(!done(&cluster, &["link", "list"]).contains("loss"));
    done(&cluster, &["link", "degrade", "4", "8", "--loss", "1%", "--one-way"]);
    refused(&["--delay", "2us"]);
    let list = done(&cluster, &["link", "list"]);
    assert!(list.contains("loss") && !list.contains("delay"), "{list}");
}

#[test]
fn a_flap_during_the_run_is_counted_timed_and_healed() {
    let _watchdog = Watchdog::usual("a flap");
    let before = std::time::Instant::now();
    let cluster = up("3");
    // The flaps have to fall into the run: a machine on which commands start slowly gets a longer one.
    let time_s = (6 + 10 * before.elapsed().as_secs()).to_string();
    let test = cluster
        .command(&["conntest", "--time", &time_s, "--json"])
        .unwrap()
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // All three instances are there: beside other work their start takes longer than any pause.
    while done(&cluster, &["status", "--json"]).matches("\"conntest\"").count() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(700));
    done(&cluster, &["link", "flap", "4", "8", "--count", "2", "--down", "150ms", "--up", "300ms"]);
    let output = test.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(suspects(&report), [r#"{"link":[4,8]}"#]);
    assert!(total(&report, "failures") >= 2, "{report:#}");
    let peer = &report["instances"][0]["peers"][0];
    assert!(peer["ledger"]["longest_failure_ns"].as_u64().unwrap() >= 100_000_000, "{peer:#}");
    let out = done(&cluster, &["link", "list"]);
    assert!(!out.contains("taken down"), "{out}");
}

#[test]
fn a_link_that_is_down_stops_puts_triggers_and_raw_stores_and_sequences_tell() {
    let _watchdog = Watchdog::usual("raw stores");
    let cluster = up("2");
    let attach = |node| {
        let options = NodeOptions {
            node: Some(NodeId::new(node).unwrap()),
            cluster: Some(cluster.name().into()),
            runtime_dir: Some(cluster.runtime_dir().into()),
            name: None,
        };
        tieline::Node::attach_with(&options).unwrap()
    };
    let (owner, writer) = (attach(8), attach(4));
    let segment = owner.create_segment(SegmentId(7), 4096).unwrap();
    segment.make_available().unwrap();
    let patience = std::time::Duration::from_secs(5);
    let remote = writer.connect_segment(owner.id(), SegmentId(7), patience).unwrap();
    let map = remote.map().unwrap();
    let mut sequence = remote.sequence().unwrap();
    map.window().unwrap().put(0, &[1]).unwrap();
    let stored = || {
        let mut byte = [0];
        segment.window().get(0, &mut byte).unwrap();
        byte[0]
    };
    assert_eq!(stored(), 1);
    done(&cluster, &["link", "down", "4", "8"]);
    let error = remote.put(0, &[2]).unwrap_err();
    assert!(matches!(error, Error::Link(_)) && error.to_string().contains("is down"), "{error}");
    // The library's thread hears of it a moment later than the state page shows it.
    let mut seen = [1];
    while seen == [1] {
        map.window().unwrap().get(0, &mut seen).unwrap();
    }
    map.window().unwrap().put(0, &[3]).unwrap();
    assert_eq!(stored(), 1, "a raw store has reached memory behind a link that is down");
    assert_eq!(sequence.check().unwrap(), SequenceStatus::Retriable);
    done(&cluster, &["link", "up", "4", "8"]);
    remote.put(1, &[9]).unwrap();
    while seen != [1] {
        map.window().unwrap().get(0, &mut seen).unwrap();
    }
    map.window().unwrap().put(0, &[4]).unwrap();
    assert_eq!(stored(), 4);
}

#[test]
fn what_cannot_be_done_to_a_link_is_refused_with_the_reason() {
    let _watchdog = Watchdog::usual("refused changes");
    let cluster = Cluster::up(2).unwrap();
    for (words, expected, reason) in [
        (vec!["link", "degrade", "4", "8", "--loss", "1%"], 4, "up --faults"),
        (vec!["link", "down", "4", "4"], 2, "no link to itself"),
        (vec!["link", "down", "4", "400"], 4, "node 400"),
        (vec!["link", "down", "400", "4"], 4, "no node 400 here (there are: 4, 8)"),
        (vec!["link", "degrade", "4", "8"], 2, "--delay"),
        (vec!["link", "degrade", "4", "8", "--loss", "200%"], 2, "percent"),
        (vec!["link", "swap", "4", "8"], 2, "start three"),
        (vec!["conntest", "--size", "0"], 2, "give 1 to"),
        (vec!["conntest", "--time", "0"], 2, "--time"),
        (vec!["conntest", "--throttle=-1"], 2, "throttle"),
    ] {
        let (status, out, err) = cluster.run(&words).unwrap();
        assert!(status == expected && err.contains(reason), "{words:?}: {status} {out}{err}");
    }
}

/// What is wrong on the command line is wrong whether or not a cluster runs.
#[test]
fn wrong_options_are_2_without_a_cluster_too() {
    let cluster = Cluster::empty().unwrap();
    for (words, reason) in [
        (&["conntest", "-t", "0"][..], "--time 0: give"),
        (&["conntest", "-t", "nan"], "--time NaN: give"),
        (&["conntest", "-t", "-1"], "--time -1: give"),
        (&["conntest", "--wait", "0"], "--wait 0: give"),
        (&["conntest", "--size", "0"], "--size 0: give 1 to"),
        (&["conntest", "--size", "8K", "--min-size", "16K"], "--min-size 16K is above --size 8K"),
        (&["conntest", "--throttle", "0"], "--throttle 0: give"),
        (&["conntest", "--throttle", "-5"], "--throttle -5: give"),
        (&["conntest", "--peers", "4"], "--peers names node 4 only"),
        (&["conntest", "--peers", "4,4"], "--peers names node 4 only"),
        (&["status", "--node", "-4"], "--node -4: "),
        (&["bench", "scipp", "--size", "-1"], "--size -1: "),
        (&["link", "down", "4", "4"], "no link to itself"),
        (&["link", "clear", "4", "4"], "no link to itself"),
        (&["link", "swap", "4", "4"], "with itself"),
        (&["link", "degrade", "4", "8", "--stall", "600ms/1s"], "half of the period at most"),
    ] {
        let (status, out, err) = cluster.run(words).unwrap();
        assert!(status == 2 && err.contains(reason), "{words:?}: {status} {out}{err}");
    }
}

#[test]
fn a_benchmark_over_a_link_that_loses_data_fails_and_names_the_link() {
    let _watchdog = Watchdog::usual("benchmarks over a bad link");
    let cluster = up("2");
    let tools: [&[&str]; 3] = [&["scibench2"], &["scibench2", "--way", "put"], &["dma"]];
    let bench = |tool: &[&str]| {
        let short = ["--node", "4", "--rn", "8", "--sizes", "64,4K", "--blocks", "1", "--json"];
        cluster.run(&[&["bench"], tool, &short].concat()).unwrap()
    };
    for (fault, share) in [("--loss", "5%"), ("--corrupt", "5%")] {
        done(&cluster, &["link", "degrade", "4", "8", fault, share]);
        for tool in tools {
            let (status, out, err) = bench(tool);
            assert_eq!(status, 1, "{tool:?} {fault}: {out}{err}");
            assert!(err.contains("link 4-8") && err.contains("was lost or changed"), "{tool:?}: {err}");
            let said: Value = serde_json::from_str(&out).unwrap();
            assert_eq!((&said["schema"], &said["status"]), (&"tieline.error/1".into(), &1.into()));
        }
    }
    let mut server =
        cluster.command(&["bench", "dma", "--server", "--node", "8", "--rn", "4"]).unwrap().spawn().unwrap();
    let client = ["bench", "dma", "--client", "--node", "4", "--rn", "8", "--sizes", "64", "--blocks", "1"];
    let (status, out, err) = cluster.run(&client).unwrap();
    drop(server.kill());
    server.wait().unwrap();
    assert!(status == 1 && err.contains("link 4-8"), "{status}: {out}{err}");
    done(&cluster, &["link", "clear"]);
    for tool in tools {
        let (status, out, err) = bench(tool);
        assert_eq!(status, 0, "{tool:?} on a good link: {out}{err}");
    }
}

#[test]
fn a_flap_that_is_killed_leaves_the_link_down_until_it_is_brought_up() {
    let _watchdog = Watchdog::usual("a killed flap");
    let cluster = up("2");
    let words = ["link", "flap", "4", "8", "--count", "1", "--down", "600s", "--up", "1s", "--quiet"];
    let mut flap = cluster.command(&words).unwrap().spawn().unwrap();
    while !done(&cluster, &["link", "list"]).contains("taken down") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    flap.kill().unwrap();
    flap.wait().unwrap();
    assert!(done(&cluster, &["link", "list"]).contains("taken down"));
    let options = NodeOptions {
        node: Some(NodeId::new(4).unwrap()),
        cluster: Some(cluster.name().into()),
        runtime_dir: Some(cluster.runtime_dir().into()),
        name: None,
    };
    let node = tieline::Node::attach_with(&options).unwrap();
    let refused =
        node.connect_segment(NodeId::new(8).unwrap(), SegmentId(7), std::time::Duration::ZERO).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("node 8 is not reachable (its link was taken down; `tieline link up 4 8`"),
        "{text}"
    );
    let out = done(&cluster, &["link", "up", "4", "8"]);
    assert!(!out.contains("taken down"), "{out}");
}
