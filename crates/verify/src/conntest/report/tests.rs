//! What the load test comes to, in words and as a verdict.

use super::*;

fn report(ledger: Ledger, load: Load) -> ConntestReport {
    let node = |id| NodeId::new(id).unwrap();
    let peer = |id, ledger| PeerReport {
        node: node(id),
        found: true,
        ledger,
        presence: Vec::new(),
        session_lost: None,
        unreachable: None,
        error: None,
    };
    let right = Ledger { blocks_checked: 1, bytes_checked: 100, ..Ledger::default() };
    let instance = |id, peers| InstanceReport {
        node: node(id),
        host: None,
        peers,
        manager_outages: Vec::new(),
        error: None,
    };
    let mut report = ConntestReport {
        schema: SCHEMA.to_owned(),
        verdict: Verdict::Fail,
        partial: false,
        ended_while_meeting: false,
        loops: 1,
        block_bytes: 8,
        min_bytes: 8,
        duration_s: 1.0,
        instances: vec![instance(4, vec![peer(8, ledger)]), instance(8, vec![peer(4, right)])],
        stopped: Vec::new(),
        suspects: Vec::new(),
        load,
    };
    report.judge();
    report
}

#[test]
fn a_node_that_was_stopped_in_order_is_named_and_is_no_failure() {
    let mut report =
        report(Ledger { blocks_checked: 1, bytes_checked: 8, ..Ledger::default() }, Load::default());
    let before = report.render();
    let stopped =
        |id, host: Option<&str>| Stopped { node: NodeId::new(id).unwrap(), host: host.map(str::to_owned) };
    report.stopped = vec![stopped(12, Some("host3")), stopped(16, None)];
    report.judge();
    assert_eq!(report.verdict, Verdict::Pass);
    for text in [
        "node 12 on host3 was stopped and took no part: `tieline node start --node 12` starts it there\n",
        "node 16 was stopped and took no part: `tieline node start --node 16` starts it\n",
    ] {
        assert!(report.render().contains(text) && !before.contains(text), "{}", report.render());
    }
}

#[test]
fn a_failure_names_the_thing_the_cause_and_the_next_step() {
    let lost = || report(Ledger { blocks_checked: 1, lost: 3, ..Ledger::default() }, Load::default());
    let of_link = "0 out of order: link 4-8: node 4 sees: 3 puts lost; 1 blocks were right: compare `tieline link list`";
    assert!(lost().summary().contains(of_link), "{}", lost().summary());
    let ended = "the manager of node 8 has ended: start it with `tieline node start --node 8`";
    let mut report = lost();
    report.instances[0].peers[0].error = Some(ended.to_owned());
    report.judge();
    assert!(report.summary().ends_with(&format!("link 4-8: node 4 sees: {ended}")), "{}", report.summary());
    report.instances[1].error = Some(ended.to_owned());
    assert!(report.summary().ends_with(&format!(": node 8 did not run: {ended}")), "{}", report.summary());
    report.instances.iter_mut().for_each(|instance| instance.error = None);
    report.suspects.clear();
    assert!(report.summary().contains("no node exchanged anything"), "{}", report.summary());
}

/// Data goes on without a manager.
#[test]
fn a_node_whose_manager_ended_has_failed_although_every_byte_arrived() {
    let right = Ledger { blocks_checked: 1, bytes_checked: 100, ..Ledger::default() };
    let mut report = report(right, Load::default());
    assert_eq!(report.verdict, Verdict::Pass);
    let outage =
        |lasted_ns| ManagerOutage { at_ns: 2_300_000_000, lasted_ns, why: "it closed the connection".into() };
    report.instances[1].manager_outages = vec![outage(None)];
    report.judge();
    assert_eq!((report.verdict, report.suspects.len()), (Verdict::Fail, 1));
    let ended = "ended at 2.3 s (it closed the connection): start it with `tieline node start --node 8`";
    let said = format!("1 outage, 0 puts lost, 0 corrupt, 0 out of order: node 8: its manager {ended}");
    assert!(report.summary().ends_with(&said), "{}", report.summary());
    assert!(report.render().contains(&format!(" manager of node 8 : {ended}\n")), "{}", report.render());
    // Its peer has seen it too: that speaks against the node, not against the link.
    let peer = &mut report.instances[0].peers[0];
    (peer.ledger.failures, peer.session_lost) = (1, Some("its manager closed the connection".into()));
    report.judge();
    assert_eq!(report.suspects.len(), 1, "{:?}", report.suspects);
    let seen = "link 4-8: node 4 sees: 1 outage, the longest 0.00 ms, the session with node 8's manager was lost (its manager \
                closed the connection)";
    assert!(report.suspects[0].evidence[1].starts_with(seen), "{:?}", report.suspects);
    // Alone that is enough.
    report.instances[1].manager_outages.clear();
    report.judge();
    assert_eq!((report.verdict, report.suspects[0].suspect.to_string()), (Verdict::Fail, "link 4-8".into()));
    // One that was back at the end has failed, too.
    report.instances[0].peers[0].ledger.failures = 0;
    report.instances[0].peers[0].session_lost = None;
    report.instances[1].manager_outages = vec![outage(Some(700_000_000))];
    report.judge();
    assert_eq!(report.verdict, Verdict::Fail);
    let back = "node 8: its manager ended at 2.3 s (it closed the connection) and was back 0.7 s later: read its manager's log";
    assert!(report.summary().contains(back), "{}", report.summary());
    // Where it is the only instance, it is no less to blame.
    report.instances.remove(0);
    report.instances[0].peers[0].found = false;
    report.judge();
    assert_eq!((report.verdict, report.suspects.len()), (Verdict::Fail, 1));
}

#[test]
fn who_has_no_peer_has_not_passed() {
    let mut alone = report(Ledger::default(), Load::default());
    alone.instances.truncate(1);
    alone.instances[0].peers.clear();
    alone.judge();
    assert_eq!(alone.verdict, Verdict::Inconclusive);
    assert!(alone.render().contains("there is no peer to test"), "{}", alone.render());
}

#[test]
fn an_only_instance_says_what_its_peers_lack() {
    let mut alone = report(Ledger::default(), Load::default());
    assert!(!alone.render().contains("no instance answered"));
    alone.instances.truncate(1);
    let mut other = alone.instances[0].peers[0].clone();
    other.node = NodeId::new(12).unwrap();
    alone.instances[0].peers.push(other);
    alone.instances[0].peers[0].found = false;
    alone.judge();
    assert!(alone.render().contains("no instance answered on node 8: with --node"), "{}", alone.render());
    assert_eq!((alone.verdict, alone.suspects.len()), (Verdict::Fail, 1));
    alone.instances[0].peers[1].found = false;
    alone.judge();
    // It does not blame itself for the others' absence.
    assert_eq!((alone.verdict, alone.suspects.len()), (Verdict::Inconclusive, 0));
    let text =
        "no other node took part: nodes 8, 12 have no instance. Start each with `tieline conntest --node N`";
    assert!(alone.render().contains(text), "{}", alone.render());
    alone.instances[0].peers[1].unreachable = Some("the link is down".into());
    alone.judge();
    assert_eq!(alone.verdict, Verdict::Fail);
}

#[test]
fn who_was_not_waited_for_is_not_blamed_for_being_late() {
    let ended = |ended_while_meeting, unreachable: Option<&str>| {
        let mut report = report(Ledger::default(), Load::default());
        (report.partial, report.ended_while_meeting) = (true, ended_while_meeting);
        let peer = &mut report.instances[0].peers[0];
        (peer.found, peer.unreachable) = (false, unreachable.map(str::to_owned));
        report.judge();
        (report.verdict, report.suspects.len())
    };
    assert_eq!(ended(true, None), (Verdict::Inconclusive, 0));
    assert_eq!(ended(false, None), (Verdict::Fail, 1), "it was waited for in vain");
    assert_eq!(ended(true, Some("the link is down")), (Verdict::Fail, 1), "it cannot be reached");
}

#[test]
fn beside_other_work_nobody_is_blamed_for_being_late_but_for_what_is_lost() {
    let load = |percent| Load { processors: 2, others_percent: Some(percent), waited_percent: None };
    let late = Ledger { failures: 1, longest_failure_ns: 2_000_000_000, ..Ledger::default() };
    let of = |ledger, percent| {
        let report = report(ledger, load(percent));
        (report.verdict, report.suspects.len())
    };
    assert_eq!(of(late, 2.0), (Verdict::Fail, 1));
    assert_eq!(of(late, 80.0), (Verdict::Inconclusive, 0));
    for hard in [
        Ledger { lost: 1, ..late },
        Ledger { corrupt: 1, ..late },
        Ledger { out_of_order: 1, ..late },
        Ledger { refused: 1, ..late },
    ] {
        assert_eq!(of(hard, 80.0), (Verdict::Fail, 1), "{hard:?}");
    }
    assert_eq!(of(Ledger::default(), 80.0), (Verdict::Pass, 0));
    let of_peer = |change: &dyn Fn(&mut PeerReport)| {
        let mut report = report(Ledger::default(), load(80.0));
        change(&mut report.instances[0].peers[0]);
        report.judge();
        (report.verdict, report.suspects.len())
    };
    assert_eq!(of_peer(&|peer| peer.found = false), (Verdict::Inconclusive, 0), "it did not respond");
    let down = Some("the link is down".to_owned());
    assert_eq!(
        of_peer(&|peer| (peer.found, peer.unreachable) = (false, down.clone())),
        (Verdict::Fail, 1),
        "it cannot be reached"
    );
}
