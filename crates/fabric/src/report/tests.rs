use topology::build::{FatTree, fat_tree};
use topology::{Graph, PortIx};

use super::*;
use crate::counting::Counters;
use crate::files::bare;
use crate::snapshot::PortFacts;

const GOOD: PortFacts = PortFacts {
    state: 4,
    physical: 5,
    width: [3, 3, 2],
    speed: [0x77, 0x77, 0x40],
    mtu: [5, 5],
    sm_lid: 1,
    vls: 1,
};

fn snapshot() -> Snapshot {
    let mut snapshot = bare(tree(), "a test");
    snapshot.ports = vec![None; snapshot.graph.port_total()];
    for (a, b) in tree().links() {
        snapshot.ports[a.index()] = Some(GOOD);
        snapshot.ports[b.index()] = Some(GOOD);
    }
    snapshot
}

fn tree() -> Graph {
    fat_tree(&FatTree::new(4, 2)).unwrap()
}

fn first(snapshot: &Snapshot) -> (PortIx, PortIx) {
    snapshot.graph.links().next().unwrap()
}

fn kinds(snapshot: &Snapshot) -> Vec<&'static str> {
    let report = Report::of(snapshot, &Wanted::default()).unwrap();
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn what_ports_say_is_judged_beside_what_they_can() {
    assert_eq!(kinds(&snapshot()), Vec::<&str>::new());
    let with = |change: &dyn Fn(&mut PortFacts, &mut PortFacts)| {
        let mut snapshot = snapshot();
        let (a, b) = first(&snapshot);
        let (mut one, mut other) = (GOOD, GOOD);
        change(&mut one, &mut other);
        (snapshot.ports[a.index()], snapshot.ports[b.index()]) = (Some(one), Some(other));
        kinds(&snapshot)
    };
    let slower = with(&|one, other| (one.speed[2], other.speed[2]) = (0x20, 0x20));
    assert_eq!(slower, ["downgraded"]);
    let narrower = with(&|one, other| (one.width[2], other.width[2]) = (1, 1));
    assert_eq!(narrower, ["downgraded"]);
    let limited = with(&|one, other| (one.speed[1], one.speed[2], other.speed[2]) = (0x37, 0x20, 0x20));
    assert_eq!(limited, ["misconfigured"]);
    let older = with(&|one, other| {
        (one.speed, other.speed[2]) = ([0x37, 0x37, 0x20], 0x20);
    });
    assert_eq!(older, ["mismatched"]);
    assert_eq!(with(&|one, _| one.state = 2), ["not active"]);
    assert_eq!(with(&|one, _| one.mtu[1] = 4), ["packet size"]);
}

#[test]
fn counters_are_judged_by_what_they_grew_and_one_that_went_back_was_cleared() {
    let at = |errors: u64| {
        let mut snapshot = snapshot();
        let counters = Counters { symbol_errors: errors, ..Counters::default() };
        snapshot.counters = Some([(first(&snapshot).0, counters)].into());
        snapshot
    };
    let found = |before: u64, now: u64| {
        let (before, now) = (at(before), at(now));
        let wanted = Wanted { since: Some(&before), ..Wanted::default() };
        Report::of(&now, &wanted).unwrap().findings.len()
    };
    assert_eq!((found(0, 10), found(0, 11), found(1_000, 1_005), found(1_000, 11)), (0, 1, 0, 1));
    let worst = worst(&at(7), None, Category::Integrity).unwrap();
    assert_eq!(worst.ports.len(), 1);
    assert_eq!(worst.ports[0].1, 7);
}

#[test]
fn nodes_that_are_gone_and_cables_that_moved_are_told_from_each_other() {
    let before = snapshot();
    let mut now = snapshot();
    let (a, b) = before
        .graph
        .links()
        .find(|(a, b)| {
            [a, b].iter().all(|port| before.graph.kind(before.graph.owner(**port)) == Kind::Switch)
        })
        .unwrap();
    now.graph = before.graph.without(&[a], &[]);
    let wanted = Wanted { since: Some(&before), ..Wanted::default() };
    let report = Report::of(&now, &wanted).unwrap();
    assert_eq!(report.counts, [("link gone", 1)].into());
    assert_eq!(report.findings[0].places, [before.place(a), before.place(b)]);
    // Its ends say that the link is up: then it was not unplugged.
    let end = before.place(a);
    let text = &report.findings[0].text;
    assert!(
        text.ends_with(&format!(" was not seen in this sweep: the node behind {end} did not respond")),
        "{text}"
    );
    for port in [a, b] {
        now.ports[port.index()] = Some(PortFacts { state: 1, physical: 2, ..GOOD });
    }
    let report = Report::of(&now, &wanted).unwrap();
    let gone = report.findings.iter().find(|finding| finding.kind == "link gone").unwrap();
    assert!(gone.text.ends_with(" is gone"), "{}", gone.text);
    now.graph = before.graph.without(&[], &[before.graph.owner(b)]);
    let report = Report::of(&now, &wanted).unwrap();
    assert_eq!(report.counts.get("gone"), Some(&1), "{:?}", report.counts);
    assert_eq!(report.verdict, Verdict::Fail);
}

#[test]
fn text_of_strangers_does_not_become_markup() {
    let mut builder = topology::GraphBuilder::new();
    builder
        .node(topology::NodeSpec::new(Kind::Host, "<script>alert(1)</script>\u{7}\u{9b}31m\u{202e}", 1))
        .unwrap();
    let snapshot = bare(builder.finish(), "<b>");
    let report = Report::of(&snapshot, &Wanted { nodes: true, ..Wanted::default() }).unwrap();
    let page = page(&report, None);
    assert!(
        page.contains("&lt;script&gt;")
            && !page.contains("<script>")
            && !page.contains(['\u{7}', '\u{9b}', '\u{202e}']),
        "{page}"
    );
}

/// Without its spines a tree of two levels is as many islands as it has leaves.
#[test]
fn a_fabric_in_pieces_fails_and_the_pieces_are_named() {
    let mut snapshot = snapshot();
    let spines: Vec<_> = snapshot
        .graph
        .nodes_of(Kind::Switch)
        .filter(|node| snapshot.graph.name(*node).starts_with("spine"))
        .collect();
    let whole = snapshot.graph.clone();
    snapshot.graph = whole.without(&[], &spines);
    let report = Report::of(&snapshot, &Wanted::default()).unwrap();
    let cut = report.findings.iter().find(|finding| finding.kind == "cut").unwrap();
    assert_eq!((report.verdict, cut.weight), (Verdict::Fail, Weight::Failed));
    assert!(
        cut.text.contains("in 4 components") && cut.text.contains("2 CAs and 1 switch with leaf003"),
        "{}",
        cut.text
    );
    // One island of two, and two of three.
    snapshot.graph = whole.without(&[], &spines[1..]);
    assert_eq!(kinds(&snapshot), Vec::<&str>::new());
}

/// Two rails are two pieces by their cables, and every host is in both.
#[test]
fn two_rails_are_no_pieces() {
    let mut builder = topology::GraphBuilder::new();
    let switches = [("a", 1), ("b", 2)]
        .map(|(name, guid)| builder.node(topology::NodeSpec::new(Kind::Switch, name, 4).guid(guid)).unwrap());
    for number in 0..3_u8 {
        let name = format!("host{number}");
        let spec = topology::NodeSpec::new(Kind::Host, &name, 2).guid(u64::from(number) + 9);
        let host = builder.node(spec).unwrap();
        for (port, switch) in (1..).zip(switches) {
            builder.link((host, port), (switch, number + 1), topology::LinkSpec::EDR4X).unwrap();
        }
    }
    assert_eq!(kinds(&bare(builder.finish(), "rails")), Vec::<&str>::new());
}

#[test]
fn tables_that_lose_a_switch_fail_and_the_switch_is_named() {
    let (graph, lids) = crate::tables::tests::with_lids(&tree());
    let mut tables = topology::routing::route(
        &graph,
        &lids,
        &topology::routing::Request::by(topology::routing::Engine::FatTree),
    )
    .unwrap()
    .tables;
    let switch = |name: &str| graph.nodes_of(Kind::Switch).find(|node| graph.name(*node) == name).unwrap();
    let (leaf, spine) = (switch("leaf001"), switch("spine000"));
    let lid = graph.lid(graph.port(spine, 0).unwrap());
    let mut snapshot = bare(graph.clone(), "a test");
    snapshot.tables = Some(tables.clone());
    assert_eq!(kinds(&snapshot), Vec::<&str>::new());
    tables.set(leaf, lid, topology::routing::NO_PATH);
    snapshot.tables = Some(tables);
    let report = Report::of(&snapshot, &Wanted::default()).unwrap();
    assert_eq!(
        (report.verdict, report.counts.keys().copied().collect::<Vec<_>>()),
        (Verdict::Fail, vec!["switch unreachable"])
    );
    let text = &report.findings[0].text;
    assert!(text.contains("from leaf001 to spine000"), "{text}");
}

/// A ring of four, in both directions: a cycle if all traffic is on one VL.
fn ring() -> Snapshot {
    let mut builder = topology::GraphBuilder::new();
    let switches: Vec<_> = (0..4)
        .map(|number| {
            let name = format!("ring{number}");
            builder.node(topology::NodeSpec::new(Kind::Switch, &name, 3).guid(number + 1)).unwrap()
        })
        .collect();
    for (number, switch) in switches.iter().enumerate() {
        let name = format!("host{number}");
        let spec = topology::NodeSpec::new(Kind::Host, &name, 1).guid(number as u64 + 11);
        let host = builder.node(spec).unwrap();
        builder.link((host, 1), (*switch, 3), topology::LinkSpec::EDR4X).unwrap();
        let next = switches[(number + 1) % 4];
        builder.link((*switch, 1), (next, 2), topology::LinkSpec::EDR4X).unwrap();
    }
    let (graph, lids) = crate::tables::tests::with_lids(&builder.finish());
    let mut tables = topology::routing::Tables::empty(std::sync::Arc::clone(&lids), &switches);
    for (lid, end) in lids.iter() {
        let home = graph.peer(end).map_or(graph.owner(end), |peer| graph.owner(peer));
        for switch in &switches {
            let own = if graph.owner(end) == home { 0 } else { 3 };
            tables.set(*switch, lid, if *switch == home { own } else { 1 });
        }
    }
    let mut snapshot = bare(graph, "a ring");
    snapshot.tables = Some(tables);
    snapshot
}

fn loop_of(snapshot: &Snapshot) -> (Verdict, Weight, String) {
    let report = Report::of(snapshot, &Wanted::default()).unwrap();
    let found = report.findings.iter().find(|finding| finding.kind == "credit loop");
    let found = found.unwrap_or_else(|| panic!("{:?}", report.findings));
    (report.verdict, found.weight, found.text.clone())
}

fn loop_text_of(snapshot: &Snapshot) -> &'static str {
    Report::of(snapshot, &Wanted::default()).unwrap().routes.unwrap().loop_text()
}

#[test]
fn a_cycle_of_cables_is_a_credit_loop_only_where_all_levels_share_a_vl() {
    let mut snapshot = ring();
    let (verdict, weight, text) = loop_of(&snapshot);
    assert_eq!((verdict, weight), (Verdict::Inconclusive, Weight::Open), "{text}");
    assert!(text.contains("not known") && text.contains("not judged"), "{text}");
    assert_eq!(loop_text_of(&snapshot), "a possible credit loop");
    // All ports have one VL.
    snapshot.ports = vec![Some(GOOD); snapshot.graph.port_total()];
    assert_eq!(loop_of(&snapshot).1, Weight::Failed);
    assert_eq!(loop_text_of(&snapshot), "a credit loop");
    // Several, and nobody knows which levels go where; then levels that go to several; then all levels on
    // one.
    snapshot.ports = vec![Some(PortFacts { vls: 8, ..GOOD }); snapshot.graph.port_total()];
    assert!(loop_of(&snapshot).2.contains("8 VLs are in use"));
    let turns: Vec<_> = snapshot.graph.nodes_of(Kind::Switch).collect();
    for node in &turns {
        let port = |number| snapshot.graph.port(*node, number).unwrap();
        let turn = (port(2), port(1));
        snapshot.vl_maps.insert(turn, std::array::from_fn(|level| level as u8 % 2));
    }
    let (verdict, _, text) = loop_of(&snapshot);
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(text.contains("VLs in use: 0, 1;") && text.contains("not judged"), "{text}");
    snapshot.vl_maps.values_mut().for_each(|map| *map = [1; 16]);
    assert_eq!(loop_of(&snapshot).1, Weight::Failed);
    // A level that is dropped takes no VL.
    snapshot.vl_maps.values_mut().for_each(|map| map[5] = 15);
    assert_eq!(loop_of(&snapshot).1, Weight::Failed);
    let checked = check(&snapshot.graph, snapshot.tables.as_ref().unwrap());
    let judged = crate::what_if::Judged::of_snapshot(&snapshot, &checked);
    assert_eq!((judged.good, judged.is_open()), (false, false));
    snapshot.vl_maps.clear();
    assert!(crate::what_if::Judged::of_snapshot(&snapshot, &checked).is_open());
}
