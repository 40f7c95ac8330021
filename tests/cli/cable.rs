//! `tieline cable`: nothing is said against a good cluster, and each kind of fault is found and named once.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tieline_tests::{Cluster, Watchdog};

fn up(nodes: &str) -> Cluster {
    let cluster = Cluster::empty().unwrap();
    done(&cluster, &["up", "--nodes", nodes, "--faults"]);
    cluster
}

fn done(cluster: &Cluster, words: &[&str]) -> String {
    let (status, out, err) = cluster.run(words).unwrap();
    assert_eq!(status, 0, "{words:?}: {out}{err}");
    out
}

fn cable(cluster: &Cluster, words: &[&str]) -> (i32, Value) {
    let words = [&["cable", "--json"], words].concat();
    let (status, out, err) = cluster.run(&words).unwrap();
    (status, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

/// Kind and links of each deviation.
fn found(report: &Value) -> Vec<(String, Value)> {
    let all = report["deviations"].as_array().unwrap();
    all.iter().map(|one| (one["kind"].as_str().unwrap().to_owned(), one["links"].clone())).collect()
}

fn one(kind: &str, links: Value) -> Vec<(String, Value)> {
    vec![(kind.to_owned(), links)]
}

fn text(report: &Value) -> &str {
    report["deviations"][0]["text"].as_str().unwrap()
}

#[test]
fn a_good_cluster_has_no_deviation_from_any_plan_of_it() {
    let _watchdog = Watchdog::usual("cable on a good cluster");
    let (cluster, dir) = (up("4"), tempfile::tempdir().unwrap());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (status, report) = cable(&cluster, &[]);
    assert_eq!((status, &report["verdict"], found(&report)), (0, &"PASS".into(), vec![]), "{report:#}");
    assert_eq!(report["schema"], "tieline.cable/1");
    let link = &report["nodes"][0]["links"][1];
    assert_eq!(
        (&link["state"], &link["partner"], &link["link"]),
        (&"up".into(), &12.into(), &json!([4, 12]))
    );
    let generated = done(&cluster, &["cable", "--generate"]);
    assert_eq!(generated, done(&cluster, &["cable", "--generate", "--nodes", "4"]));
    std::fs::write(path("generated"), generated).unwrap();
    done(&cluster, &["cable", "--save", &path("saved")]);
    // By force another plan, and nothing else.
    done(&cluster, &["cable", "--save", &path("saved"), "--force"]);
    std::fs::write(path("precious"), "not a plan\n").unwrap();
    let (status, out, err) = cluster.run(&["cable", "--save", &path("precious"), "--force"]).unwrap();
    let said = "precious exists and is not a plan (line 1: ";
    assert!(
        status == 2 && out.is_empty() && err.contains(said) && err.lines().count() == 1,
        "{status} {out}{err}"
    );
    assert!(
        err.contains("so it is not replaced, not even with --force: give another name, or remove it"),
        "{err}"
    );
    assert_eq!(std::fs::read_to_string(path("precious")).unwrap(), "not a plan\n");
    for plan in ["generated", "saved"] {
        let (status, report) = cable(&cluster, &["--plan", &path(plan)]);
        assert_eq!((status, found(&report)), (0, vec![]), "{plan}: {report:#}");
        assert!(report["nodes"][0]["links"].as_array().unwrap().iter().all(|link| link["planned"] == true));
    }
    let out = done(&cluster, &["cable", "--quiet", "--node", "8"]);
    assert!(out.contains("as planned") && !out.contains("12-16"), "{out}");
    assert_eq!(out.lines().last(), Some("TEST RESULT: *PASSED*"), "{out}");
    let (status, _, err) = cluster.run(&["cable", "-q"]).unwrap();
    assert_eq!((status, err.as_str()), (0, ""));
}

#[test]
fn a_link_that_is_down_is_missing_and_two_swapped_cables_are_one_swap() {
    let _watchdog = Watchdog::usual("missing and swapped");
    let cluster = up("4");
    done(&cluster, &["link", "down", "4", "12"]);
    let (status, report) = cable(&cluster, &[]);
    assert_eq!((status, found(&report)), (1, one("missing", json!([[4, 12]]))), "{report:#}");
    assert!(text(&report).contains("taken down"), "{report:#}");
    let (status, report) = cable(&cluster, &["--node", "8"]);
    assert_eq!((status, found(&report)), (0, vec![]), "no link of node 8: {report:#}");
    done(&cluster, &["link", "up", "12", "4"]);
    done(&cluster, &["link", "swap", "8", "16"]);
    let (status, report) = cable(&cluster, &[]);
    let links = json!([[4, 8], [4, 16], [8, 12], [12, 16]]);
    assert_eq!((status, found(&report)), (1, one("swapped", links)), "{report:#}");
    assert!(text(&report).contains("nodes 8 and 16 are swapped"), "{report:#}");
    assert_eq!(report["nodes"][0]["links"][0]["partner"], 16);
    done(&cluster, &["link", "swap", "8", "16"]);
    assert_eq!(cable(&cluster, &[]).0, 0);
}

#[test]
fn one_node_whose_own_two_cables_are_swapped_is_named_itself() {
    let _watchdog = Watchdog::usual("two cables of a node");
    let cluster = up("4");
    let node = {
        let options = tieline::NodeOptions {
            node: Some(tieline::NodeId::new(4).unwrap()),
            cluster: Some(cluster.name().into()),
            runtime_dir: Some(cluster.runtime_dir().into()),
            name: None,
        };
        tieline::Node::attach_with(&options).unwrap()
    };
    let id = |number| tieline::NodeId::new(number).unwrap();
    let leads = |from, to| node.change_link(id(from), tieline::LinkChange::LeadsTo(Some(id(to)))).unwrap();
    leads(8, 12);
    let (status, report) = cable(&cluster, &[]);
    assert_eq!((status, found(&report)), (1, one("elsewhere", json!([[4, 8]]))), "{report:#}");
    assert_eq!(report["deviations"][0]["found"], 12);
    leads(12, 8);
    let (status, report) = cable(&cluster, &[]);
    assert_eq!((status, found(&report)), (1, one("swapped", json!([[4, 8], [4, 12]]))), "{report:#}");
    assert!(text(&report).starts_with("the cables of node 4 to nodes 8 and 12"), "{report:#}");
}

#[test]
fn a_killed_node_is_one_fault_and_what_is_not_planned_is_extra() {
    let _watchdog = Watchdog::usual("killed and extra");
    let (cluster, dir) = (Cluster::up(4).unwrap(), tempfile::tempdir().unwrap());
    let plan = dir.path().join("plan.toml").to_str().unwrap().to_owned();
    std::fs::write(&plan, "[[link]]\nends = [8, 4]\n[[link]]\nends = [12, 8]\n").unwrap();
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    let expected = [("extra", json!([[4, 12]])), ("extra", json!([[4, 16], [8, 16], [12, 16]]))];
    let expected: Vec<_> = expected.map(|(kind, links)| (kind.to_owned(), links)).into();
    assert_eq!((status, found(&report)), (1, expected), "{report:#}");
    let pid = Pid::from_raw(cluster.manager_pid(2).unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let (status, report) = cable(&cluster, &[]);
    assert_eq!(
        (status, found(&report)),
        (1, one("missing", json!([[4, 12], [8, 12], [12, 16]]))),
        "{report:#}"
    );
    assert!(text(&report).starts_with("node 12 does not respond"), "{report:#}");
    // Stopped in an orderly way it leaves no files, but the others have heard of it.
    done(&cluster, &["cable", "--generate"]);
    std::fs::write(&plan, done(&cluster, &["cable", "--generate", "--nodes", "4"])).unwrap();
    done(&cluster, &["node", "stop", "--node", "16"]);
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    let named: Vec<&Value> =
        report["deviations"].as_array().unwrap().iter().map(|one| &one["node"]).collect();
    assert_eq!((status, named), (1, vec![&12.into(), &16.into()]), "{report:#}");
}

#[test]
fn a_slow_link_is_found_by_the_limits_that_were_saved() {
    let _watchdog = Watchdog::usual("slow links");
    let (cluster, dir) = (up("3"), tempfile::tempdir().unwrap());
    let plan = dir.path().join("plan.toml").to_str().unwrap().to_owned();
    done(&cluster, &["cable", "--save", &plan, "--measure"]);
    let saved = std::fs::read_to_string(&plan).unwrap();
    assert_eq!(saved.matches("min_copy_percent = ").count(), 3, "{saved}");
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    assert!(found(&report).is_empty() && (status == 0 || status == 3 && was_busy(&report)), "{report:#}");
    assert_eq!(report["measured"].as_array().unwrap().len(), 6, "both directions of three links");
    done(&cluster, &["link", "down", "4", "12"]);
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    assert_eq!((status, found(&report)), (1, one("missing", json!([[4, 12]]))), "{report:#}");
    assert!(
        report["doubts"] == json!([]) || was_busy(&report),
        "the others are measured as before: {report:#}"
    );
    done(&cluster, &["link", "up", "4", "12"]);
    done(&cluster, &["link", "degrade", "8", "12", "--speed", "30%"]);
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    assert!(is_slow(status, &report, [8, 12]), "{report:#}");
    assert!(was_busy(&report) || text(&report).contains("min_copy_percent"), "{report:#}");
    done(&cluster, &["link", "clear"]);
    done(&cluster, &["link", "degrade", "4", "8", "--delay", "200us"]);
    std::fs::write(&plan, "[rates]\nmax_half_rtt_ns = 50000\n[[link]]\nends = [4, 8]\n[[link]]\nends = [4, 12]\n[[link]]\nends = [8, 12]\n").unwrap();
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    // On one processor there are no round trips between two.
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(is_slow(status, &report, [4, 8]), "{report:#}");
    }
    done(&cluster, &["link", "clear"]);
    std::fs::write(&plan, "nodes = [12]\n[[link]]\nends = [4, 8]\nmin_bandwidth_mb_s = 900000000\n").unwrap();
    let (status, report) = cable(&cluster, &["--plan", &plan, "--node", "8"]);
    assert_eq!(status, 1, "{report:#}");
    let slow = found(&report).contains(&("slow".to_owned(), json!([[4, 8]])));
    assert!(slow || was_busy(&report), "{report:#}");
}

/// Other work was at hand, and is the reason of what is in doubt.
fn was_busy(report: &Value) -> bool {
    let doubts = report["doubts"].as_array().unwrap();
    !doubts.is_empty() && doubts.iter().all(|doubt| doubt.as_str().unwrap().contains("the machine was busy"))
}

/// Just this link is slow; beside other work it is in doubt instead.
fn is_slow(status: i32, report: &Value, [a, b]: [u32; 2]) -> bool {
    let link = format!("link {a}-{b}:");
    let doubted =
        || report["doubts"].as_array().unwrap().iter().any(|doubt| doubt.as_str().unwrap().contains(&link));
    match status {
        1 => found(report) == one("slow", json!([[a, b]])),
        _ => status == 3 && found(report).is_empty() && was_busy(report) && doubted(),
    }
}

#[test]
fn a_plan_that_cannot_be_is_refused_with_its_line() {
    let _watchdog = Watchdog::usual("bad plans");
    let (cluster, dir) = (Cluster::up(2).unwrap(), tempfile::tempdir().unwrap());
    let plan = dir.path().join("plan.toml").to_str().unwrap().to_owned();
    for (content, words) in [
        ("[[link]\n", "line 1"),
        ("[[link]]\nends = [4, 8]\ncolour = 1\n", "line 3: unknown field `colour`"),
        ("[[link]]\nends = [4, 8]\n\n[[link]]\nends = [8, 4]\n", "line 5: link 4-8 is on line 2 already"),
        (
            "nodes = [4, 8]\n[[link]]\nends = [4, 40]\n",
            "line 3: node 40 is not in cluster `test`, which has nodes 4, 8",
        ),
    ] {
        std::fs::write(&plan, content).unwrap();
        let (status, out, err) = cluster.run(&["cable", "--plan", &plan]).unwrap();
        assert!(status == 2 && out.is_empty() && err.contains(words), "{content:?}: {status} {out}{err}");
    }
    for (words, expected, reason) in [
        (vec!["cable", "--plan", "/nowhere/plan.toml"], 2, "/nowhere/plan.toml cannot be read"),
        (vec!["cable", "--plan", "/dev/null"], 2, "not a regular file"),
        (vec!["cable", "--save", "/nowhere/plan.toml"], 4, "/nowhere/plan.toml cannot be written"),
        (vec!["cable", "--save", "/dev/full", "--force"], 4, "not a regular file"),
        (vec!["cable", "--save", &plan], 2, "--force"),
        (vec!["cable", "--generate", "--node", "4"], 2, "whole cluster"),
        (vec!["cable", "--node", "400"], 4, "400"),
        (vec!["cable", "--nodes", "3"], 2, "--generate"),
        (vec!["cable", "--plan", &plan, "--save", &plan], 2, "cannot be combined with"),
    ] {
        let (status, out, err) = cluster.run(&words).unwrap();
        assert!(status == expected && err.contains(reason), "{words:?}: {status} {out}{err}");
    }
    let (status, ..) =
        Cluster::empty().unwrap().run(&["cable"]).map(|(status, out, err)| (status, out + &err)).unwrap();
    assert_eq!(status, 4, "nothing runs there");
}

#[test]
fn a_plan_is_saved_whole_or_not_at_all_and_only_of_a_cluster_in_order() {
    let _watchdog = Watchdog::usual("saving plans");
    let (cluster, dir) = (up("3"), tempfile::tempdir().unwrap());
    let plan = dir.path().join("plan.toml");
    let name = plan.to_str().unwrap();
    done(&cluster, &["cable", "--save", name]);
    let before = std::fs::read_to_string(&plan).unwrap();
    // As on a full disk: not a byte more can be written.
    let binary = tieline_tests::cluster::tieline_binary().unwrap();
    let mut command = std::process::Command::new("sh");
    cluster.set_environment(&mut command);
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" cable --save \"$1\" --force";
    let output = command.args(["-c", script, binary.to_str().unwrap(), name]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(4) && err.contains("what was there before is unchanged"), "{err}");
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing half-written is left");
    done(&cluster, &["link", "down", "4", "8"]);
    let (status, out, err) = cluster.run(&["cable", "--save", name, "--force"]).unwrap();
    assert!(status == 1 && out.contains("[MISSING]") && err.contains("was not written"), "{out}{err}");
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), before);
}

#[test]
fn a_link_that_hardly_moves_is_blamed_in_bounded_time_and_its_neighbours_are_not() {
    let _watchdog = Watchdog::usual("a link that hardly moves");
    let (cluster, dir) = (up("3"), tempfile::tempdir().unwrap());
    let plan = dir.path().join("plan.toml").to_str().unwrap().to_owned();
    done(&cluster, &["cable", "--save", &plan, "--measure"]);
    // A round of readings takes half a second, and then more than the whole time that there is.
    done(&cluster, &["link", "degrade", "4", "8", "--rate", "2MB"]);
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    assert!(is_slow(status, &report, [4, 8]), "{report:#}");
    // So slow is no matter of other work.
    done(&cluster, &["link", "degrade", "4", "8", "--rate", "100kB"]);
    let (status, report) = cable(&cluster, &["--plan", &plan]);
    assert_eq!((status, found(&report)), (1, one("unmeasured", json!([[4, 8]]))), "{report:#}");
}

#[test]
fn a_plan_without_a_cluster_asks_for_the_number_of_nodes() {
    let cluster = Cluster::empty().unwrap();
    let (status, _, said) = cluster.run(&["cable", "--generate"]).unwrap();
    assert!(status == 4 && said.contains("`tieline cable --generate --nodes 8`"), "{status}: {said}");
}
