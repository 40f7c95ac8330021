//! What is found, and how it is shown.

use super::compare::compare;
use super::judge::{Others, judge};
use super::*;
use proto::ids::AdapterNo;

fn view(verbosity: u8) -> View {
    View { verbosity, tool: "tieline diag" }
}

fn info() -> NodeInfo {
    NodeInfo {
        node: NodeId::new(4).unwrap(),
        cluster: "c".into(),
        host: "hetty".into(),
        version: "0".into(),
        manager_pid: 7,
        incarnation: 9,
        adapters: Vec::new(),
        faults: false,
        rails: Vec::new(),
    }
}

fn seen(node: u32, sees: &[u32]) -> NodeDiag {
    let id = |id| NodeId::new(id).unwrap();
    NodeDiag {
        nodes_seen: sees.iter().copied().map(id).collect(),
        verdict: Verdict::Pass,
        ..NodeDiag::untested(id(node))
    }
}

#[test]
fn the_node_that_disagrees_is_named_with_the_difference() {
    let nodes = [seen(4, &[4, 8, 12]), seen(8, &[4, 8]), seen(12, &[4, 8, 12])];
    let all: Vec<&NodeDiag> = nodes.iter().collect();
    let next = ": `tieline cable` shows the links that are down";
    assert_eq!(compare(&all), [format!("node 8 sees another topology than most, without node 12{next}")]);
    assert!(compare(&all[..1]).is_empty());
    // Of two that disagree neither is most of them.
    let apart = [seen(4, &[4]), seen(8, &[8])];
    let both: Vec<&NodeDiag> = apart.iter().collect();
    let own = |node: u32| format!("node {node} sees another topology than the others: node {node}{next}");
    assert_eq!(compare(&both), [own(4), own(8)]);
    // A link between two of three is down: the third sees all, and nothing is wrong with it.
    let one_link = [seen(4, &[4, 12]), seen(8, &[8, 12]), seen(12, &[4, 8, 12])];
    let without =
        |node, other| format!("node {node} sees another topology than others, without node {other}{next}");
    assert_eq!(compare(&one_link.iter().collect::<Vec<_>>()), [without(4, 8), without(8, 4)]);
}

#[test]
fn a_node_that_is_not_seen_and_a_failed_self_test_are_errors() {
    let mut diag = seen(4, &[]);
    diag.self_test = vec![SelfTest {
        name: "memory pattern".into(),
        error: Some("byte 3".into()),
        in_doubt: false,
        duration_ns: 0,
    }];
    let both = [4, 8].map(|node| NodeId::new(node).unwrap());
    judge(&mut diag, Others { expected: &both, reported: &both[..1], misled: &[] }, None, None);
    let errors: Vec<_> = diag.findings.iter().filter(|found| found.level == Level::Error).collect();
    assert!(errors.iter().any(|found| found.text.contains("Node 8 not reachable")), "{errors:?}");
    assert!(errors.iter().any(|found| found.text.contains("memory pattern")), "{errors:?}");
}

#[test]
fn a_node_that_is_not_seen_and_has_a_report_of_its_own_is_a_warning_of_the_others() {
    let mut diag = seen(4, &[]);
    let both = [4, 8].map(|node| NodeId::new(node).unwrap());
    judge(&mut diag, Others { expected: &both, reported: &both, misled: &[] }, None, None);
    let of_8 = diag.findings.iter().find(|found| found.text.contains("Node 8 not reachable"));
    assert_eq!(of_8.map(|found| found.level), Some(Level::Warning), "{:?}", diag.findings);
}

#[test]
fn the_closing_result_is_that_of_the_whole() {
    let dead = NodeDiag::silent(NodeId::new(8).unwrap(), "its manager is gone");
    let report = DiagReport {
        nodes: vec![seen(4, &[4]), dead, seen(12, &[12])],
        disagreements: Vec::new(),
        verdict: Verdict::Fail,
        system: System::default(),
        hosts: None,
        load: Load::default(),
    };
    let text = report.render(view(1));
    assert_eq!(text.lines().last(), Some("TEST RESULT: *FAILED*"), "{text}");
    assert!(text.contains("All nodes: 3 tested, 1 failed (8)"), "{text}");
    let brief = report.render(view(0));
    assert!(brief.contains("its manager is gone") && !brief.contains("TOPOLOGY"), "{brief}");
    assert_eq!(brief.lines().last(), Some("TEST RESULT: *FAILED*"), "{brief}");
}

#[test]
fn all_counters_are_shown_at_the_highest_level_only() {
    let mut one = seen(4, &[4]);
    one.info = Some(info());
    one.counters = Some(Counters { requests: 77, ..Counters::default() });
    let report = DiagReport {
        nodes: vec![one],
        disagreements: Vec::new(),
        verdict: Verdict::Pass,
        system: System::default(),
        hosts: None,
        load: Load::default(),
    };
    assert!(report.render(view(9)).contains("requests") && report.render(view(9)).contains("77"));
    assert!(!report.render(view(1)).contains("requests"));
    assert_eq!(report.render(view(1)).matches("TEST RESULT: *PASSED*").count(), 1);
}

/// A node of which a transfer and a link's doorbell were late, on a machine where others had so much.
fn late(others_percent: f64) -> NodeDiag {
    let part = |name: &str| SelfTest {
        name: name.into(),
        error: Some("nothing happened within the time given".into()),
        in_doubt: true,
        duration_ns: 0,
    };
    let peer = NodeId::new(8).unwrap();
    let mut diag = NodeDiag { info: Some(info()), ..seen(4, &[]) };
    diag.info.as_mut().unwrap().adapters.push(AdapterInfo {
        number: AdapterNo(0),
        kind: "shm".into(),
        capabilities: Vec::new(),
    });
    diag.self_test = vec![part("DMA")];
    diag.link_tests = vec![LinkTest { peer, parts: vec![part("doorbell")], error: None }];
    let load = Load { processors: 2, others_percent: Some(others_percent), waited_percent: None };
    diag.hold_to(&load);
    judge(&mut diag, Others::default(), None, load.reason().as_deref());
    diag.conclude();
    diag
}

#[test]
fn what_is_late_on_a_busy_machine_is_in_doubt_and_names_the_load() {
    let busy = late(80.0);
    assert_eq!((busy.verdict, busy.count(Level::Warning)), (Verdict::Inconclusive, 2), "{busy:?}");
    assert!(busy.findings[0].text.contains("other work used 80 % of the 2 processors"), "{busy:?}");
    let quiet = late(1.0);
    assert_eq!((quiet.verdict, quiet.count(Level::Error)), (Verdict::Fail, 2), "{quiet:?}");
    let mut wrong = late(80.0);
    wrong.self_test.push(SelfTest {
        name: "atomics".into(),
        error: Some("step 1".into()),
        in_doubt: false,
        duration_ns: 0,
    });
    wrong.findings.clear();
    judge(&mut wrong, Others::default(), None, Some("other work used 80 %"));
    wrong.conclude();
    assert_eq!(wrong.verdict, Verdict::Fail, "what is wrong is wrong beside other work, too");
}
