//! One command on one host runs its part on the other hosts: what it reports, what it needs, and what is left
//! when somebody goes.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tieline_tests::Watchdog;

use crate::lab::{Host, see_each_other, two_hosts, until};
use crate::namespaces::Hosts;

/// The agents that run, by their numbers, and the nodes that they are for; of the managers of this cluster
/// alone.
pub(crate) fn agents(hosts: &Hosts) -> Vec<(u32, String)> {
    let ours = |pid: u32| crate::namespaces::namespaces(&pid.to_string());
    let all: Vec<BTreeSet<String>> = (0..hosts.said["hosts"].as_array().unwrap().len())
        .map(|index| ours(hosts.first_process(index)))
        .collect();
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<&str> = line.split('\0').collect();
        let is_agent = words.first()?.ends_with("tieline-commands") && words.get(1) == Some(&"agent");
        (is_agent && all.contains(&ours(pid))).then(|| (pid, words[3].to_owned()))
    })
    .collect()
}

/// A load test on the first host that is under way: all instances are connected to all others.
struct Running {
    child: Child,
}

impl Running {
    /// `status` asks for the state of all nodes from the first host.
    fn new(mut command: Command, status: impl Fn() -> Value) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().unwrap();
        until("connections", || {
            let status = status();
            let own = status["nodes"].as_array().into_iter().flatten();
            let all: Vec<&Value> =
                own.chain(status["other_hosts"].as_array().into_iter().flatten()).collect();
            let connected = |node: &&&Value| {
                let programs = node["status"]["programs"].as_array().into_iter().flatten();
                let test = programs
                    .into_iter()
                    .find(|program| program["name"] == "conntest" && program["segments"] != 0);
                test.is_some_and(|test| test["imports"].as_u64() == Some(all.len() as u64 - 1))
            };
            all.len() > 1 && all.iter().filter(connected).count() == all.len()
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        Self { child }
    }

    fn on(hosts: &Hosts, seconds: &str) -> Self {
        let program = tieline_tests::cluster::tieline_binary().unwrap();
        let command =
            hosts.on("host1", &[program.to_str().unwrap(), "conntest", "--json", "--time", seconds]);
        Self::new(command, || {
            serde_json::from_str(&hosts.tieline("host1", &["status", "--json"]).1).unwrap_or_default()
        })
    }

    /// Its exit status and its report.
    fn report(self) -> (i32, Value) {
        let output = self.child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (
            output.status.code().unwrap(),
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}")),
        )
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// What the report says of a node.
fn instance(report: &Value, node: u64) -> &Value {
    let all = report["instances"].as_array().unwrap();
    all.iter().find(|instance| instance["node"] == node).unwrap_or_else(|| panic!("{report}"))
}

fn error(report: &Value, node: u64) -> String {
    instance(report, node)["error"].as_str().unwrap_or_else(|| panic!("{report}")).to_owned()
}

pub(crate) fn has_none_left(hosts: &Hosts) {
    until("the end of all agents", || agents(hosts).is_empty());
}

/// An agent has none of its manager's sockets, and of pipes only the one for its own errors.
fn shares_no_descriptor(pid: u32) {
    let of = |pid: &str| -> BTreeSet<String> {
        let all = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links =
            all.filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_str()?.to_owned()));
        links.filter(|link| link.starts_with("socket:[") || link.starts_with("pipe:[")).collect()
    };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    let (own, managers) = (of(&pid.to_string()), of(parent));
    let errors = std::fs::read_link(format!("/proc/{pid}/fd/2")).unwrap();
    let shared: Vec<&String> = own.intersection(&managers).collect();
    assert_eq!(shared, [errors.to_str().unwrap()], "{own:?} {managers:?}");
}

#[test]
fn one_command_tests_the_nodes_of_all_hosts() {
    let _watchdog = Watchdog::usual("conntest of all hosts");
    let Some(hosts) = Hosts::up(3) else { return };
    let running = Running::on(&hosts, "4");
    let there = agents(&hosts);
    assert_eq!(
        there.iter().map(|(_, node)| node.as_str()).collect::<BTreeSet<_>>(),
        BTreeSet::from(["12", "8"])
    );
    for (pid, _) in there {
        shares_no_descriptor(pid);
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(
            !environment.contains("TIELINE_LEASE") && !environment.contains("TIELINE_NODE"),
            "{environment}"
        );
    }
    let (_, report) = running.report();
    let nodes: Vec<(u64, &str)> = report["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["node"].as_u64().unwrap(), one["host"].as_str().unwrap()))
        .collect();
    assert_eq!(nodes, [(4, "host1"), (8, "host2"), (12, "host3")]);
    for node in [4, 8, 12] {
        let peers = instance(&report, node)["peers"].as_array().unwrap();
        assert_eq!(peers.len(), 2, "{report}");
        for peer in peers {
            let count = |name: &str| peer["ledger"][name].as_u64().unwrap();
            assert!(peer["found"] == true && count("bytes_checked") > 0, "{peer}");
            assert_eq!((count("corrupt"), count("lost"), count("out_of_order")), (0, 0, 0), "{peer}");
        }
    }
    has_none_left(&hosts);
    let program = tieline_tests::cluster::tieline_binary().unwrap();
    let table =
        hosts.on("host2", &[program.to_str().unwrap(), "conntest", "--time", "0.3"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    for line in [" Local node-id      : 4 on host1", " Local node-id      : 12 on host3"] {
        assert!(table.contains(line), "{table}");
    }
    assert!(!table.contains("did not run"), "{table}");
}

#[test]
fn an_agent_that_is_killed_is_named_and_the_others_go_on() {
    let _watchdog = Watchdog::usual("conntest and a killed agent");
    let Some(hosts) = Hosts::up(3) else { return };
    let running = Running::on(&hosts, "4");
    let (pid, _) = agents(&hosts).into_iter().find(|(_, node)| node == "8").unwrap();
    signal(pid, Signal::KILL);
    let (status, report) = running.report();
    assert_eq!((status, &report["verdict"]), (1, &"FAIL".into()));
    let said = error(&report, 8);
    assert!(said.contains("ended without a report (killed by signal 9)"), "{said}");
    let of = |node: u64, peer: u64| {
        let peers = instance(&report, node)["peers"].as_array().unwrap();
        peers.iter().find(|one| one["node"] == peer).unwrap().clone()
    };
    assert!(of(4, 12)["ledger"]["bytes_checked"].as_u64().unwrap() > 0);
    assert_eq!(of(12, 8)["presence"][1]["why"], "OwnerDied", "{report}");
    has_none_left(&hosts);
}

#[test]
fn a_manager_that_is_killed_takes_its_agent_along() {
    let _watchdog = Watchdog::usual("conntest and a killed manager");
    let Some(hosts) = Hosts::up(3) else { return };
    for (killed, node, in_order) in [("host3", 12, false), ("host3", 12, true), ("host1", 4, false)] {
        // Long enough for the manager to be found and killed meanwhile, also on a busy machine.
        let running = Running::on(&hosts, "10");
        let (_, info, _) = hosts.tieline(killed, &["query", "--json"]);
        let info: Value = serde_json::from_str(&info).unwrap();
        let signal = if in_order { "-TERM" } else { "-KILL" };
        hosts.must(killed, &["kill", signal, &info["manager_pid"].as_u64().unwrap().to_string()]);
        let (status, report) = running.report();
        assert_eq!((status, &report["verdict"]), (1, &"FAIL".into()), "{report}");
        // Of a host whose manager has gone, and of all the others if that was the manager of this host.
        let said = error(&report, if node == 4 { 8 } else { node });
        assert!(said.contains("ended without a report (") || said.contains("no agent"), "{said}");
        has_none_left(&hosts);
        let node = node.to_string();
        let program = tieline_tests::cluster::tieline_binary().unwrap();
        hosts.must(killed, &[program.to_str().unwrap(), "node", "start", "--node", &node]);
        until("all sessions", || hosts.tieline("host1", &["status"]).0 == 0);
    }
}

#[test]
fn an_interrupt_ends_it_on_all_hosts_and_each_reports_what_it_has() {
    let _watchdog = Watchdog::usual("conntest and Ctrl-C");
    let Some(hosts) = Hosts::up(3) else { return };
    let running = Running::on(&hosts, "3600");
    // From a keyboard all get it.
    kill_process_group(Pid::from_child(&running.child), Signal::INT).unwrap();
    let (status, report) = running.report();
    assert_eq!(status, 130, "{report}");
    assert_eq!(report["partial"], true);
    for node in [4, 8, 12] {
        assert!(instance(&report, node)["error"].is_null(), "{report}");
        assert_eq!(instance(&report, node)["peers"].as_array().unwrap().len(), 2);
    }
    has_none_left(&hosts);
    // Killed it can end nothing by itself.
    let mut running = Running::on(&hosts, "3600");
    signal(running.child.id(), Signal::KILL);
    running.child.wait().unwrap();
    has_none_left(&hosts);
}

/// A host whose processes are all stopped, as one that hangs.
#[test]
fn a_host_that_hangs_is_named_and_waited_for_no_longer_than_a_session() {
    let _watchdog = Watchdog::usual("conntest and a host that hangs");
    let Some(hosts) = Hosts::up(3) else { return };
    let all = |name: &str| {
        let inner = hosts.first_process(2).to_string();
        let there = crate::namespaces::namespaces(&inner);
        let pids = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        for pid in pids.filter(|pid| crate::namespaces::namespaces(&pid.to_string()) == there) {
            signal(pid, if name == "stop" { Signal::STOP } else { Signal::CONT });
        }
    };
    let running = Running::on(&hosts, "2");
    all("stop");
    let (status, report) = running.report();
    assert_eq!(status, 1, "{report}");
    let said = error(&report, 12);
    assert!(said.contains("the session with node 12 was lost: no heartbeat"), "{said}");
    assert!(instance(&report, 8)["error"].is_null(), "{report}");
    // It is no reason to wait for it at the start, either.
    let (status, said, _) = hosts.tieline("host1", &["conntest", "--json", "--time", "0.3"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &report["verdict"]), (1, &"FAIL".into()));
    let said = error(&report, 12);
    assert!(said.contains("the session with its manager is lost"), "{said}");
    let peers = instance(&report, 4)["peers"].as_array().unwrap();
    assert!(peers.len() == 1 && peers[0]["found"] == true, "{report}");
    all("continue");
    until("all sessions", || hosts.tieline("host1", &["status"]).0 == 0);
    has_none_left(&hosts);
}

#[test]
fn a_manager_that_allows_no_agents_is_named_with_the_key() {
    let _watchdog = Watchdog::usual("conntest and a manager that refuses");
    let Some((first, second)) = two_hosts() else { return };
    let config = second.folder().join("no-agents.toml");
    std::fs::write(&config, "[manager]\nagents = false\n").unwrap();
    second.tieline(&["node", "restart", "--node", "8", "--config", config.to_str().unwrap()]);
    see_each_other(&first, &second);
    let (is_well, said, _) = first.run(&["conntest", "--json", "--time", "0.3"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert!(!is_well && error(&report, 8).contains("`agents = false` under [manager]"), "{report}");
}

#[test]
fn another_users_request_for_an_agent_is_refused() {
    let _watchdog = Watchdog::usual("an agent for another user");
    let Some((first, second)) = two_hosts() else { return };
    let user = 54_321;
    if !as_user(&first, user, &["--version"]).status.success() {
        return println!(
            "skipped: the programs under test cannot be reached by another user, or `setpriv` is missing"
        );
    }
    let config = first.folder().join("all.toml");
    std::fs::write(&config, format!("[access]\nuids = [{user}]\n")).unwrap();
    first.tieline(&["node", "restart", "--node", "4", "--config", config.to_str().unwrap()]);
    see_each_other(&first, &second);
    let output = as_user(&first, user, &["conntest", "--json", "--time", "0.3"]);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let said = error(&report, 8);
    assert!(said.contains(&format!("user {user} may not run an agent at node 8")), "{said}");
}

fn as_user(host: &Host, uid: u32, words: &[&str]) -> Output {
    let program = tieline_tests::cluster::tieline_binary().unwrap();
    let mut command = host.command("setpriv");
    command.args(["--reuid", &uid.to_string(), "--regid", &uid.to_string(), "--clear-groups"]);
    command.arg(program).args(words).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_cable_that_is_out_for_a_while_is_an_outage_on_both_hosts() {
    let _watchdog = Watchdog::usual("conntest of all hosts and a cable");
    let Some((first, second)) = two_hosts() else { return };
    let program = tieline_tests::cluster::tieline_binary().unwrap();
    let mut command = first.command(program.to_str().unwrap());
    command.args(["conntest", "--json", "--time", "10"]);
    let running = Running::new(command, || {
        serde_json::from_str(&first.run(&["status", "--json"]).1).unwrap_or_default()
    });
    second.cable("down");
    // Twice as long as what makes a failure: beside other work a node may not have sent at first.
    std::thread::sleep(std::time::Duration::from_secs(4));
    second.cable("up");
    let (status, report) = running.report();
    assert_eq!((status, &report["verdict"]), (1, &"FAIL".into()));
    for node in [4, 8] {
        let ledger = &instance(&report, node)["peers"][0]["ledger"];
        assert!(ledger["failures"].as_u64().unwrap() >= 1, "{report}");
        assert_eq!((&ledger["lost"], &ledger["corrupt"]), (&0.into(), &0.into()), "{report}");
    }
}

#[test]
fn diag_tests_the_nodes_of_all_hosts_and_names_one_that_cannot_be() {
    let _watchdog = Watchdog::usual("diag of all hosts");
    let Some(hosts) = Hosts::up(3) else { return };
    let diag = || -> (i32, Value) {
        let (status, said, error) = hosts.tieline("host2", &["diag", "--json"]);
        (status, serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}{error}")))
    };
    let (_, report) = diag();
    let nodes = report["nodes"].as_array().unwrap();
    let tested: Vec<(u64, &str)> = nodes
        .iter()
        .map(|one| (one["node"].as_u64().unwrap(), one["info"]["host"].as_str().unwrap()))
        .collect();
    assert_eq!(tested, [(4, "host1"), (8, "host2"), (12, "host3")]);
    for node in nodes {
        assert!(!node["self_test"].as_array().unwrap().is_empty(), "{node}");
        assert_eq!(node["nodes_seen"], serde_json::json!([4, 8, 12]));
        assert!(node["verdict"] != "FAIL", "{node}");
    }
    assert_eq!(report["disagreements"], serde_json::json!([]));
    let (_, info, _) = hosts.tieline("host3", &["query", "--json"]);
    let info: Value = serde_json::from_str(&info).unwrap();
    hosts.must("host3", &["kill", "-STOP", &info["manager_pid"].as_u64().unwrap().to_string()]);
    until("its loss", || {
        let (_, said, _) = hosts.tieline("host2", &["status", "--json"]);
        let said: Value = serde_json::from_str(&said).unwrap_or_default();
        said["other_hosts"][1]["session"] == "lost"
    });
    let (status, report) = diag();
    let far = report["nodes"].as_array().unwrap().iter().find(|one| one["node"] == 12).unwrap();
    let said = far["findings"][0]["text"].as_str().unwrap();
    assert!(
        status == 1 && said.contains("node 12 cannot be tested: the session with its manager is lost"),
        "{said}"
    );
    hosts.must("host3", &["kill", "-CONT", &info["manager_pid"].as_u64().unwrap().to_string()]);
    has_none_left(&hosts);
}

/// Agents that end early are waited for, too: what is not waited for stays in the table of processes.
#[test]
fn agents_that_are_not_wanted_any_more_leave_no_process() {
    let watchdog = Watchdog::usual("agents that end early");
    let Some(hosts) = Hosts::up(2) else { return };
    for _ in 0..5 {
        for _ in 0..5 {
            let (status, out, err) = hosts.tieline("host1", &["diag", "--prod"]);
            assert_eq!(status, 0, "{out}{err}");
        }
        watchdog.progress();
    }
    for _ in 0..10 {
        let test = hosts.program(
            "host1",
            tieline_tests::cluster::tieline_binary().unwrap().to_str().unwrap(),
            &["conntest"],
        );
        std::thread::sleep(std::time::Duration::from_millis(60));
        test.0.signal(Signal::KILL).unwrap();
        drop(test);
        watchdog.progress();
    }
    let manager = hosts.first_process(1);
    let dead = || {
        let of = |pid: u32| {
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default()
        };
        let children = |pids: &str| {
            pids.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()).collect::<Vec<_>>()
        };
        let all: Vec<u32> = children(&of(manager)).into_iter().flat_map(|pid| children(&of(pid))).collect();
        all.into_iter()
            .filter(|pid| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.contains(") Z ")
            })
            .count()
    };
    until("the end of all agents", || agents(&hosts).is_empty() && dead() == 0);
}
