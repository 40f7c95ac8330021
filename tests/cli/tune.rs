//! `tieline tune`: measures once, keeps the plan beside the clusters, and names what is wrong with a plan.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::Value;
use tieline_tests::{Cluster, Watchdog};

/// Runs a command with another plan than the tests' usual one; an empty name is as good as none.
fn run(cluster: &Cluster, arguments: &[&str], plan: &str) -> (i32, String, String) {
    let mut command = cluster.command(arguments).unwrap();
    let output = command.env("TIELINE_COPY_PLAN", plan).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn json(cluster: &Cluster, arguments: &[&str], plan: &str) -> Value {
    let (status, out, err) = run(cluster, arguments, plan);
    assert!(matches!(status, 0 | 3), "{arguments:?}: {err}");
    serde_json::from_str(&out).unwrap()
}

fn file(cluster: &Cluster) -> PathBuf {
    cluster.runtime_dir().join("copy-plan")
}

/// Measures until the machine is quiet enough for the plan to be kept; false if it never is.
fn is_kept(cluster: &Cluster) -> bool {
    (0..20).any(|_| {
        let (status, _, err) = run(cluster, &["tune", "--renew"], "");
        assert!(matches!(status, 0 | 3), "{err}");
        assert_eq!(status == 3, err.contains("the plan was not kept"), "{err}");
        assert_eq!(status == 0, file(cluster).exists());
        status == 0
    })
}

#[test]
fn a_plan_that_is_named_is_shown_and_a_wrong_one_is_refused_by_all() {
    let _watchdog = Watchdog::usual("named copy plans");
    let cluster = Cluster::empty().unwrap();
    let (status, out, _) = run(&cluster, &["tune", "--show"], "libc");
    assert_eq!(status, 0);
    assert!(
        out.contains("the C library's memcpy, by TIELINE_COPY_PLAN") && out.contains("any size  libc"),
        "{out}"
    );
    let shown = json(&cluster, &["tune", "--show", "--json"], "table");
    assert_eq!(
        (&shown["schema"], &shown["took_ms"], &shown["sizes"]),
        (&"tieline.tune/1".into(), &Value::Null, &Value::Array(vec![]))
    );
    assert!(!file(&cluster).exists());
    let other = cluster.runtime_dir().join("not-a-plan");
    std::fs::write(&other, "tieline\n").unwrap();
    for (plan, what) in
        [("/nonexistent/plan", "cannot be read"), (other.to_str().unwrap(), "it is not a copy plan")]
    {
        for command in [&["tune"][..], &["tune", "--show"], &["node", "run", "--node", "4"]] {
            let (status, _, err) = run(&cluster, command, plan);
            assert_eq!(status, 2, "{command:?}: {err}");
            assert!(
                err.contains(plan) && err.contains(what) && err.contains("unset it and run `tieline tune`"),
                "{err}"
            );
        }
    }
    assert_eq!(run(&cluster, &["tune", "--show", "--renew"], "").0, 2);
}

#[test]
fn what_was_measured_is_kept_for_this_machine_and_used() {
    let _watchdog = Watchdog::usual("a measured copy plan");
    let cluster = Cluster::empty().unwrap();
    assert!(run(&cluster, &["tune", "--show"], "").1.contains("to measure it: `tieline tune`"));
    let measured = json(&cluster, &["tune", "--json"], "");
    assert!(measured["took_ms"].as_f64().unwrap() > 0.0 && measured["sizes"].as_array().unwrap().len() > 10);
    if measured["kept"] != true && !is_kept(&cluster) {
        println!("not tested: other programs never let this machine be measured");
        return;
    }
    let path = file(&cluster);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    // Not again.
    let shown = json(&cluster, &["tune", "--json"], "");
    assert_eq!(shown["took_ms"], Value::Null);
    assert!(shown["origin"].as_str().unwrap().contains(path.to_str().unwrap()), "{shown}");
    // Nothing else is left beside it but the lock.
    let mut left: Vec<_> =
        std::fs::read_dir(cluster.runtime_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["copy-plan", "copy-plan.lock"]);
    // Of another machine it counts nothing.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\nmachine ", "\nmachine another ", 1)).unwrap();
    assert!(run(&cluster, &["tune", "--show"], "").1.contains("to measure it: `tieline tune`"));
}

#[test]
fn programs_follow_the_plan_that_their_manager_was_started_with() {
    let _watchdog = Watchdog::usual("the copy plan of programs");
    let cluster = Cluster::empty().unwrap();
    let (status, _, err) = run(&cluster, &["up", "--nodes", "1"], "libc");
    assert_eq!(status, 0, "{err}");
    let of_program = |variable: Option<&str>| {
        let mut peer = std::process::Command::new(env!("CARGO_BIN_EXE_tieline-peer"));
        cluster.set_environment(&mut peer);
        peer.env_remove("TIELINE_COPY_PLAN").arg("copy-plan").env("TIELINE_NODE", "4");
        if let Some(plan) = variable {
            peer.env("TIELINE_COPY_PLAN", plan);
        }
        String::from_utf8(peer.output().unwrap().stdout).unwrap()
    };
    let table = Some("table");
    assert!(of_program(None).split_whitespace().all(|kernel| kernel == "Libc"), "{}", of_program(None));
    let of_table = json(&cluster, &["tune", "--show", "--json"], "table")["ranges"].as_array().unwrap().len();
    let kinds: std::collections::BTreeSet<String> =
        of_program(table).split_whitespace().map(str::to_owned).collect();
    assert_eq!(kinds.len() > 1, of_table > 1, "{kinds:?}");
    // A wrong name keeps no program from running.
    assert!(of_program(Some("/nonexistent")).split_whitespace().all(|kernel| kernel == "Libc"));
}
