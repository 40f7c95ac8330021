//! Sessions of managers over several rails: one that is cut ends none for good, and the status says over
//! which rail a session goes.

use tieline_tests::Watchdog;

use crate::lab::until;
use crate::namespaces::Hosts;
use crate::rails::session;

fn eth0(hosts: &Hosts, host: &str, state: &str) {
    hosts.must(host, &["ip", "link", "set", "eth0", state]);
}

#[test]
fn a_session_goes_over_another_rail_when_the_first_one_is_cut_at_either_end() {
    let watchdog = Watchdog::usual("a session whose rail is cut");
    for host in ["host1", "host2"] {
        let Some(hosts) = Hosts::up_with(2, &["--rails", "2"]) else { return };
        assert!(session(&hosts).contains("session valid, link ofi"), "{}", session(&hosts));
        eth0(&hosts, host, "down");
        until("the session over the second rail", || {
            session(&hosts).contains(": session valid over rail 2 (10.")
        });
        let (_, said, _) = hosts.tieline("host1", &["status", "--json"]);
        assert!(said.contains("\"address\": \"10."), "{said}");
        watchdog.progress();
        // While it lives nothing changes, and a new one is made at whichever address responds.
        eth0(&hosts, host, "up");
        let (status, out, err) = hosts.tieline("host2", &["node", "restart", "--node", "8"]);
        assert_eq!(status, 0, "{out}{err}");
        until("a session", || session(&hosts).contains(": session valid"));
    }
}

#[test]
fn managers_that_never_saw_each_other_connect_over_the_rail_that_responds() {
    let watchdog = Watchdog::usual("a first session over the second rail");
    let Some(hosts) = Hosts::up_with(2, &["--rails", "2"]) else { return };
    eth0(&hosts, "host1", "down");
    for (host, node) in [("host1", "4"), ("host2", "8")] {
        let (status, out, err) = hosts.tieline(host, &["node", "stop", "--node", node]);
        assert_eq!(status, 0, "{out}{err}");
    }
    for (host, node) in [("host1", "4"), ("host2", "8")] {
        let (status, out, err) = hosts.tieline(host, &["node", "start", "--node", node]);
        assert_eq!(status, 0, "{out}{err}");
        watchdog.progress();
    }
    // Before, a manager does not know the name of the other host.
    let line = || hosts.tieline("host1", &["status"]).1;
    let session = "node 4: node 8 on host2: session valid over rail 2 (10.";
    until("the session over the second rail", || line().contains(session));
}
