//! `tieline verify`: passes on a good cluster, fails on a bad one and names what is bad, leaves nothing behind.

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

fn left_in(cluster: &Cluster) -> Vec<String> {
    std::fs::read_dir(cluster.runtime_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_good_cluster_passes_and_nothing_is_left() {
    let _watchdog = Watchdog::usual("verify");
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["verify", "--nodes", "3", "--json"]).unwrap();
    let report: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    // A measurement on a machine that others use may be inconclusive; it is never a failure of the test.
    assert!(status == 0 || status == 3, "{out}{err}");
    assert_eq!(report["schema"], "tieline.verify/1");
    let steps: Vec<_> =
        report["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(steps, ["up", "status", "diag", "exchange", "load", "pairs", "scipp"]);
    for step in report["steps"].as_array().unwrap().iter().take(4) {
        assert_eq!(step["verdict"], "PASS", "{step}");
    }
    assert_eq!(report["exchange"]["pairs"].as_array().unwrap().len(), 6);
    assert_eq!(report["pairs"]["pairs"].as_array().unwrap().len(), 6);
    assert_eq!(report["load"]["instances"].as_array().unwrap().len(), 3);
    assert!(report["latency"].is_object());
    assert_eq!(left_in(&cluster), Vec::<String>::new());
}

#[test]
fn a_running_cluster_is_tested_and_left_running() {
    let _watchdog = Watchdog::usual("verify running");
    let cluster = Cluster::up(2).unwrap();
    let (status, out, err) = cluster.run(&["verify", "--running"]).unwrap();
    assert!(status == 0 || status == 3, "{out}{err}");
    assert!(out.contains("VERDICT: "), "{out}");
    let (status, ..) = cluster.run(&["status"]).unwrap();
    assert_eq!(status, 0);
}

#[test]
fn a_node_that_hangs_is_named_and_fails() {
    let _watchdog = Watchdog::usual("verify hung");
    let cluster = Cluster::up(3).unwrap();
    let pid = Pid::from_raw(cluster.manager_pid(1).unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let outcome = cluster.run(&["verify", "--running"]);
    kill_process(pid, Signal::CONT).unwrap();
    let (status, out, err) = outcome.unwrap();
    assert_eq!(status, 1, "{out}{err}");
    assert!(out.contains("node 8: its manager does not answer") && out.contains("VERDICT: FAIL"), "{out}");
    let diag = out.lines().find(|line| line.starts_with("diag ")).unwrap();
    assert!(
        diag.contains("FAIL") && diag.contains("2 of 3 nodes tested") && diag.contains("node 8"),
        "{diag}"
    );
    // The report is the status, so it does not send the reader there.
    assert!(!out.contains("Try `tieline status`"), "{out}");
}

#[test]
fn on_one_processor_what_cannot_be_measured_is_said_and_the_rest_is_checked() {
    let _watchdog = Watchdog::usual("verify on one processor");
    let cluster = Cluster::empty().unwrap();
    let on_one_cpu = |arguments: &[&str]| {
        let ours = cluster.command(&[]).unwrap();
        let mut command = std::process::Command::new("taskset");
        command.args(["-c", "0"]).arg(ours.get_program()).args(arguments);
        cluster.set_environment(&mut command);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, out) = on_one_cpu(&["verify", "--nodes", "2"]);
    assert_eq!(status, Some(3), "{out}");
    assert!(out.contains("SKIPPED") && out.contains("two processors"), "{out}");
    assert!(out.contains("VERDICT: INCONCLUSIVE") && out.contains("2 pairs"), "{out}");
    let (status, out) = on_one_cpu(&["bench", "acceptance", "--only", "scipp", "ring"]);
    assert_eq!(status, Some(3), "{out}");
    assert!(out.contains("verdict: INCONCLUSIVE") && out.contains("SKIPPED"), "{out}");
}

/// A cluster of four with one fault; what verify says of it.
fn verify_with(fault: &[&str]) -> (i32, String) {
    let cluster = Cluster::empty().unwrap();
    for words in [&["up", "--nodes", "4", "--faults"][..], fault] {
        let (status, out, err) = cluster.run(words).unwrap();
        assert_eq!(status, 0, "{words:?}: {out}{err}");
    }
    let (status, out, err) = cluster.run(&["verify", "--running"]).unwrap();
    (status, out + &err)
}

#[test]
fn planted_faults_are_found_and_the_culprit_is_named() {
    let _watchdog = Watchdog::usual("planted faults");
    for (fault, culprit) in [
        (&["link", "degrade", "8", "12", "--delay", "2us"][..], "link 8-12"),
        (&["link", "degrade", "4", "12", "--loss", "1%"], "link 4-12"),
        (&["link", "degrade", "4", "16", "--speed", "80%"], "link 4-16"),
        (&["link", "degrade", "8", "16", "--stall", "5ms/1s"], "link 8-16"),
        (&["link", "swap", "8", "12"], "nodes 8 and 12: swapped"),
    ] {
        let (status, out) = verify_with(fault);
        assert!(status == 1 && out.contains("VERDICT: FAIL"), "{fault:?}: {out}");
        assert!(out.contains(culprit), "{fault:?}: {out}");
    }
}
