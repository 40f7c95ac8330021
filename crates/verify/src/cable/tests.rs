//! What is called a deviation, and how often.

use proto::wire::status::ReducedRail;

use super::judge::deviations;
use super::*;

fn id(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn link(node: u32, peer: u32) -> LinkReport {
    LinkReport {
        adapter: AdapterNo(0),
        link: [id(node.min(peer)), id(node.max(peer))],
        peer: id(peer),
        partner: id(peer),
        peer_host: "h".into(),
        state: LinkState::Up,
        reason: None,
        since_ns: 1_500_000_000,
        downtime_ns: 0,
        changes: 1,
        rails: Vec::new(),
        planned: false,
        problems: Vec::new(),
    }
}

fn mesh(nodes: &[u32]) -> (Plan, Vec<NodeCables>) {
    let cables = |node: &u32| NodeCables {
        host: None,
        node: id(*node),
        error: None,
        links: nodes.iter().filter(|peer| *peer != node).map(|peer| link(*node, *peer)).collect(),
    };
    let ids: Vec<NodeId> = nodes.iter().map(|node| id(*node)).collect();
    (Plan::full_mesh(&ids), nodes.iter().map(cables).collect())
}

fn at(nodes: &mut [NodeCables], node: u32, peer: u32) -> &mut LinkReport {
    let node = nodes.iter_mut().find(|one| one.node == id(node)).unwrap();
    node.links.iter_mut().find(|link| link.peer == id(peer)).unwrap()
}

fn mislead(nodes: &mut [NodeCables], node: u32, [a, b]: [u32; 2]) {
    at(nodes, node, a).partner = id(b);
    at(nodes, node, b).partner = id(a);
}

fn kinds(plan: &Plan, nodes: &[NodeCables]) -> Vec<(Kind, u32)> {
    deviations(plan, nodes).iter().map(|one| (one.kind, one.node.get())).collect()
}

#[test]
fn what_is_as_planned_is_no_deviation() {
    let (plan, nodes) = mesh(&[4, 8, 12, 16]);
    assert!(deviations(&plan, &nodes).is_empty());
}

#[test]
fn a_link_that_is_down_at_either_end_is_one_missing_link_with_both_views() {
    let (plan, mut nodes) = mesh(&[4, 8, 12]);
    at(&mut nodes, 8, 4).state = LinkState::Lost;
    at(&mut nodes, 8, 4).reason = Some("nothing was heard".into());
    let found = deviations(&plan, &nodes);
    assert_eq!((found.len(), found[0].kind, found[0].node), (1, Kind::Missing, id(8)));
    assert!(
        found[0].text.contains("node 8, adapter 0: lost for 1.5 s (nothing was heard)"),
        "{}",
        found[0].text
    );
    at(&mut nodes, 4, 8).state = LinkState::TakenDown;
    let found = deviations(&plan, &nodes);
    assert!(found[0].text.contains("node 4, adapter 0: taken down") && found[0].text.contains("node 8"));
    assert!(found.len() == 1 && found[0].next_step.contains("tieline link up 4 8"), "{found:?}");
}

#[test]
fn a_link_that_an_end_has_never_seen_is_missing() {
    let (plan, mut nodes) = mesh(&[4, 8]);
    nodes[0].links.clear();
    let found = deviations(&plan, &nodes);
    assert!(found.len() == 1 && found[0].text.contains("node 4 has never seen it"), "{found:?}");
}

#[test]
fn a_node_that_does_not_answer_is_one_fault_and_not_one_for_each_link() {
    let (plan, mut nodes) = mesh(&[4, 8, 12, 16]);
    nodes[1] = NodeCables { node: id(8), host: None, error: Some("killed".into()), links: Vec::new() };
    for node in [4, 12, 16] {
        at(&mut nodes, node, 8).state = LinkState::Lost;
    }
    let found = deviations(&plan, &nodes);
    assert_eq!(kinds(&plan, &nodes), [(Kind::Missing, 8)]);
    assert!(found[0].links.len() == 3 && found[0].text.contains("killed"), "{found:?}");
}

#[test]
fn swapped_nodes_are_one_swap_whoever_sees_it() {
    let (plan, mut nodes) = mesh(&[4, 8, 12, 16]);
    for node in [4, 16] {
        mislead(&mut nodes, node, [8, 12]);
    }
    let found = deviations(&plan, &nodes);
    assert_eq!(kinds(&plan, &nodes), [(Kind::Swapped, 8)]);
    assert_eq!((found[0].partner, found[0].links.len()), (Some(id(12)), 4));
    assert!(found[0].text.contains("nodes 8 and 12 are swapped") && found[0].text.contains("4, 16"));
    let (_, mut nodes) = mesh(&[4, 8, 12, 16, 20]);
    for node in [4, 16] {
        mislead(&mut nodes, node, [8, 12]);
    }
    let found = deviations(&Plan::full_mesh(&[4, 8, 12, 16, 20].map(id)), &nodes);
    assert!(found.len() == 1 && found[0].text.contains("nodes 20 find both in their places"), "{found:?}");
}

#[test]
fn two_cables_of_one_node_in_each_others_place_are_its_own() {
    let (plan, mut nodes) = mesh(&[4, 8, 12, 16]);
    mislead(&mut nodes, 4, [8, 12]);
    let found = deviations(&plan, &nodes);
    assert_eq!((found.len(), found[0].kind), (1, Kind::Swapped));
    assert!(found[0].text.starts_with("the cables of node 4 to nodes 8 and 12 are swapped"), "{found:?}");
    assert_eq!(found[0].links, [[4, 8], [4, 12]].map(|link| link.map(id)));
}

#[test]
fn a_link_that_ends_elsewhere_without_an_exchange_is_no_swap() {
    let (plan, mut nodes) = mesh(&[4, 8, 12]);
    at(&mut nodes, 4, 8).partner = id(12);
    let found = deviations(&plan, &nodes);
    assert_eq!((found.len(), found[0].kind, found[0].found), (1, Kind::Elsewhere, Some(id(12))));
}

#[test]
fn what_is_not_in_the_plan_is_extra_a_node_once_with_its_links() {
    let (_, nodes) = mesh(&[4, 8, 12]);
    let plan = Plan::full_mesh(&[4, 8].map(id));
    let found = deviations(&plan, &nodes);
    assert_eq!((found.len(), found[0].kind, found[0].node), (1, Kind::Extra, id(12)));
    assert_eq!(found[0].links.len(), 2);
    let mut chain = Plan::full_mesh(&[4, 8, 12].map(id));
    chain.links.retain(|link| link.ends != [id(4), id(12)]);
    let found = deviations(&chain, &nodes);
    assert_eq!((found.len(), found[0].kind, found[0].partner), (1, Kind::Extra, Some(id(12))));
}

#[test]
fn a_link_on_another_adapter_is_named_with_both() {
    let (mut plan, nodes) = mesh(&[4, 8]);
    plan.links[0].adapters = [AdapterNo(0), AdapterNo(1)];
    let found = deviations(&plan, &nodes);
    assert_eq!((found.len(), found[0].kind, found[0].node), (1, Kind::Adapter, id(8)));
    assert!(found[0].text.contains("adapter 0 of node 8, planned is adapter 1"), "{found:?}");
}

#[test]
fn what_stands_becomes_a_plan_that_it_keeps() {
    let (plan, nodes) = mesh(&[4, 8, 12]);
    let report = CableReport {
        verdict: Verdict::Pass,
        cluster: "c".into(),
        plan: plan.clone(),
        nodes: nodes.clone(),
        measured: Vec::new(),
        deviations: Vec::new(),
        doubts: Vec::new(),
        partial: false,
    };
    assert_eq!((report.as_plan().links, report.as_plan().nodes), (plan.links, plan.nodes));
    assert!(deviations(&report.as_plan(), &nodes).is_empty());
    assert_eq!(report.render().lines().last(), Some("TEST RESULT: *PASSED*"));
}

#[test]
fn rails_stand_below_their_link_with_what_does_not_use_them() {
    let (plan, mut nodes) = mesh(&[4, 8]);
    let rail = |number, there, reduced| RailReport { number, here: [10, 0, 0, 1].into(), there, reduced };
    let reduced =
        ReducedRail { peer: id(8), rail: 2, connections: 2, since_ns: 2_500_000_000, why: "a test".into() };
    let there = Some([10, 0, 0, 2].into());
    at(&mut nodes, 4, 8).rails =
        vec![rail(1, there, None), rail(2, there, Some(reduced)), rail(3, None, None)];
    let report = CableReport {
        verdict: Verdict::Pass,
        cluster: "test".into(),
        plan,
        nodes,
        measured: Vec::new(),
        deviations: Vec::new(),
        doubts: Vec::new(),
        partial: false,
    };
    let text = report.render();
    for line in [
        "rail 1: 10.0.0.1 - 10.0.0.2\n",
        "rail 2: 10.0.0.1 - 10.0.0.2, not used by 2 connections for 2.5 s (a test)\n",
        "rail 3: 10.0.0.1 - no such rail there\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
