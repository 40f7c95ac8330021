//! `tieline verify`: passes on a good cluster, fails on a bad one and names what is bad, leaves nothing
//! behind.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tieline_tests::{Cluster, Watchdog};

use crate::report::{TITLE, it_leaves_a_page_and_its_saved_result_makes_the_same};

fn left_in(cluster: &Cluster) -> Vec<String> {
    std::fs::read_dir(cluster.runtime_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_good_cluster_passes_leaves_a_page_and_nothing_else() {
    let _watchdog = Watchdog::usual("verify");
    let cluster = Cluster::empty().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("a.html");
    let call = ["verify", "--nodes", "3", "--json", "--report", page.to_str().unwrap(), "--title", TITLE];
    let (status, out, err) = cluster.run(&call).unwrap();
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    // A measurement on a machine that others use may be inconclusive; it is never a failure of the test.
    assert!(status == 0 || status == 3, "{out}{err}");
    assert_eq!(report["schema"], "tieline.verify/1");
    let steps: Vec<_> =
        report["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(
        steps,
        ["up", "status", "diag", "cable", "names", "exchange", "load", "pairs", "scipp", "curves", "closing"]
    );
    for step in report["steps"].as_array().unwrap().iter().take(7) {
        // Answers that are late beside other work are no pass.
        let late = step["name"] == "load" && !report["busy"].is_null() && step["verdict"] == "INCONCLUSIVE";
        assert!(late || step["verdict"] == "PASS", "{step}");
    }
    assert_eq!(report["exchange"]["pairs"].as_array().unwrap().len(), 6);
    assert_eq!(report["pairs"]["pairs"].as_array().unwrap().len(), 6);
    assert_eq!(report["load"]["instances"].as_array().unwrap().len(), 3);
    assert!(report["latency"].is_object());
    let schemas: Vec<&str> = report["benchmarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|document| document["schema"].as_str().unwrap())
        .collect();
    assert_eq!(schemas, ["tieline.scibench2/1", "tieline.dma/1", "tieline.intr/1", "tieline.jitter/1"]);
    assert!(report["partial"].is_null() && report["environment"]["kernel"].is_string(), "{report}");
    assert_eq!(left_in(&cluster), Vec::<String>::new());
    it_leaves_a_page_and_its_saved_result_makes_the_same(&out, dir.path());
}

#[test]
fn a_running_cluster_is_tested_and_left_running() {
    let _watchdog = Watchdog::usual("verify running");
    let cluster = Cluster::up(2).unwrap();
    let (status, out, err) = cluster.run(&["verify", "--running", "--quick"]).unwrap();
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
    let outcome = cluster.run(&["verify", "--running", "--quick"]);
    kill_process(pid, Signal::CONT).unwrap();
    let (status, out, err) = outcome.unwrap();
    assert_eq!(status, 1, "{out}{err}");
    assert!(out.contains("node 8: its manager does not respond") && out.contains("VERDICT: FAIL"), "{out}");
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

#[test]
fn health_is_one_line_about_the_running_cluster_and_names_what_is_wrong() {
    let _watchdog = Watchdog::usual("health");
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["verify", "--health"]).unwrap();
    assert_eq!((status, out.as_str()), (4, ""), "{err}");
    assert!(err.contains("tieline up"), "{err}");
    cluster.run(&["up", "--nodes", "3", "--faults"]).unwrap();
    let (status, out, err) = cluster.run(&["verify", "--health"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.starts_with("tieline verify --health: PASS: ") && out.lines().count() == 1, "{out}");
    assert!(out.contains("3 nodes (4, 8, 12; those that run; no --plan)"), "{out}");
    cluster.run(&["link", "degrade", "4", "12", "--corrupt", "50%"]).unwrap();
    let (status, out, err) = cluster.run(&["verify", "--health"]).unwrap();
    assert_eq!(status, 1, "{out}{err}");
    assert!(out.starts_with("tieline verify --health: FAIL: ") && out.lines().count() == 1, "{out}");
    assert!(out.contains("link 4-12"), "{out}");
}

/// A node that was stopped in an orderly way is not missed without a plan, and the line says so.
#[test]
fn health_misses_a_stopped_node_by_a_plan_and_says_when_it_has_none() {
    let _watchdog = Watchdog::usual("health of fewer nodes");
    let cluster = Cluster::up(3).unwrap();
    let plan = cluster.runtime_dir().join("plan.toml");
    let (status, text, err) = cluster.run(&["cable", "--generate"]).unwrap();
    assert_eq!(status, 0, "{err}");
    std::fs::write(&plan, text).unwrap();
    assert_eq!(cluster.run(&["node", "stop", "--node", "8"]).unwrap().0, 0);
    let (status, out, err) = cluster.run(&["verify", "--health"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("2 nodes (4, 12; those that run; no --plan)"), "{out}");
    let (status, out, err) = cluster.run(&["verify", "--health", "--plan", plan.to_str().unwrap()]).unwrap();
    assert!(status != 0 && format!("{out}{err}").contains("node 8"), "{status} {out}{err}");
}

#[test]
fn limits_plan_and_baseline_are_read_before_anything_starts_and_judge() {
    let _watchdog = Watchdog::new("verify beside files", std::time::Duration::from_secs(240));
    let cluster = Cluster::empty().unwrap();
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).to_string_lossy().into_owned();
    let write = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        path(name)
    };
    for (option, file, text) in [
        ("--plan", "plan.toml", "not a plan"),
        ("--thresholds", "limits.toml", "[nonsense]\n"),
        ("--baseline", "old.json", "{\"schema\": \"tieline.scipp/1\"}"),
        ("--baseline", "torn.json", "{"),
    ] {
        // A result of another command is no help.
        let next = if option == "--baseline" { ": give the output of `tieline verify --json`" } else { "" };
        let file = write(file, text);
        let (status, out, err) = cluster.run(&["verify", "--nodes", "2", option, &file]).unwrap();
        assert_eq!((status, out.as_str()), (2, ""), "{option}: {err}");
        assert!(err.contains(&file) && err.contains(next), "{option}: {err}");
    }
    // Nothing moves a byte in no time, so a limit of nothing is not kept; a plan with a node too many is not,
    // either.
    let limits = write("limits.toml", "[\"scipp.half_rtt.4B\"]\nupper = \"1 ns\"\n");
    let (_, plan, _) = cluster.run(&["cable", "--generate", "--nodes", "3"]).unwrap();
    let plan = write("plan.toml", &plan);
    let arguments = ["verify", "--nodes", "2", "--thresholds", &limits, "--plan", &plan, "--json"];
    let (status, out, err) = cluster.run(&arguments).unwrap();
    assert_eq!(status, 1, "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let came_to = |name: &str| {
        let steps = report["steps"].as_array().unwrap();
        steps.iter().find(|step| step["name"] == name).unwrap()["verdict"].as_str().unwrap()
    };
    assert_eq!(came_to("cable"), "FAIL", "{out}");
    // Beside other work speed is not judged, and does not pass.
    let not_kept = if report["busy"].is_null() { "FAIL" } else { "INCONCLUSIVE" };
    assert_eq!(came_to("thresholds"), not_kept, "{out}");
    // With itself as the baseline, what is read is only chance; the sections are there.
    let old = write("old.json", &out);
    let (status, out, err) = cluster.run(&["verify", "--nodes", "2", "--baseline", &old, "--json"]).unwrap();
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert!(status != 2 && status != 4, "{out}{err}");
    assert_eq!(report["baseline"]["schema"], "tieline.compare_verify/1");
    assert!(report["baseline"]["sections"].as_array().unwrap().len() >= 5, "{out}");
}

#[test]
fn a_signal_ends_it_with_what_there_is_and_nothing_is_left() {
    let _watchdog = Watchdog::usual("verify interrupted");
    let cluster = Cluster::empty().unwrap();
    let mut verify = cluster.command(&["verify", "--nodes", "3", "--thorough"]).unwrap();
    let mut child =
        verify.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Until the load runs, which takes 20 s.
    let mut said = String::new();
    let mut progress = std::io::BufReader::new(child.stderr.take().unwrap());
    while !said.contains("load:") {
        said.clear();
        assert_ne!(
            std::io::BufRead::read_line(&mut progress, &mut said).unwrap(),
            0,
            "it ended before the load"
        );
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let drain = std::thread::spawn(move || std::io::copy(&mut progress, &mut std::io::sink()));
    let output = child.wait_with_output().unwrap();
    drain.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("PARTIAL: ended early by a signal, in or after the step `load`"), "{out}");
    assert!(out.contains("VERDICT: INCONCLUSIVE") && !out.contains("\npairs "), "{out}");
    assert_eq!(left_in(&cluster), Vec::<String>::new());
}

#[test]
fn what_happens_to_the_cluster_during_the_test_is_named() {
    let _watchdog = Watchdog::new("verify of a changing cluster", std::time::Duration::from_secs(240));
    let whole = |change: &dyn Fn(&Cluster)| {
        let cluster = Cluster::empty().unwrap();
        let (status, ..) = cluster.run(&["up", "--nodes", "4", "--faults"]).unwrap();
        assert_eq!(status, 0);
        let mut child = cluster
            .command(&["verify", "--running", "--quick"])
            .unwrap()
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut progress = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("watching for stalls") {
            said.clear();
            assert_ne!(std::io::BufRead::read_line(&mut progress, &mut said).unwrap(), 0);
        }
        change(&cluster);
        let drain = std::thread::spawn(move || std::io::copy(&mut progress, &mut std::io::sink()));
        let output = child.wait_with_output().unwrap();
        drain.join().unwrap().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let run = |cluster: &Cluster, words: &[&str]| {
        let (status, out, err) = cluster.run(words).unwrap();
        assert_eq!(status, 0, "{words:?}: {out}{err}");
    };
    let (status, out) = whole(&|cluster| run(cluster, &["node", "restart", "--node", "12"]));
    assert_eq!(status, Some(1), "{out}");
    assert!(out.contains("  node 12\n") && out.contains("was restarted during the test"), "{out}");
    let (status, out) = whole(&|cluster| {
        run(cluster, &["link", "down", "8", "16"]);
        run(cluster, &["link", "up", "8", "16"]);
    });
    assert_eq!(status, Some(1), "{out}");
    assert!(out.contains("  link 8-16\n") && out.contains("during the test, down for"), "{out}");
}

#[test]
fn steps_that_fail_over_swapped_cables_point_to_the_swap_and_blame_nobody_else() {
    let _watchdog = Watchdog::usual("swapped cables");
    let cluster = Cluster::empty().unwrap();
    for words in [&["up", "--nodes", "3", "--faults"][..], &["link", "swap", "8", "12"]] {
        let (status, out, err) = cluster.run(words).unwrap();
        assert_eq!(status, 0, "{out}{err}");
    }
    let (status, out, err) = cluster.run(&["verify", "--running", "--quick", "--json"]).unwrap();
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!(status, 1, "{report:#}");
    let named = report["culprits"].as_array().unwrap();
    let suspects: Vec<&Value> = named.iter().map(|suspected| &suspected["suspect"]).collect();
    assert_eq!(suspects, [&serde_json::json!({ "swapped": [8, 12] })], "{report:#}");
    for step in report["steps"].as_array().unwrap() {
        let (name, detail) = (step["name"].as_str().unwrap(), step["detail"].as_str().unwrap());
        if ["names", "exchange", "load", "pairs", "scipp"].contains(&name) && step["verdict"] == "FAIL" {
            assert!(detail.contains("nodes 8 and 12 are swapped, see the step `cable`"), "{name}: {detail}");
        }
    }
    let load = report["load"]["culprits"].as_array().unwrap();
    assert!(load.iter().all(|suspected| suspected["suspect"] == *suspects[0]), "{load:?}");
}
