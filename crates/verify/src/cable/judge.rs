//! Compares links with a plan and reports each fault once, such as a dead node or two swapped
//! cables.

use std::collections::{BTreeMap, BTreeSet};

use proto::ids::AdapterNo;
use tieline::NodeId;

use super::plan::{Plan, PlannedLink, list};
use super::seen::{LinkReport, LinkState, NodeCables};
use super::{Deviation, Kind};

/// All nodes by their numbers.
type Nodes<'n> = BTreeMap<NodeId, &'n NodeCables>;

/// Whether a deviation is about a node.
pub(super) fn concerns(deviation: &Deviation, node: NodeId) -> bool {
    deviation.node == node
        || deviation.partner == Some(node)
        || deviation.links.iter().any(|link| link.contains(&node))
}

/// What is not as planned, in the order of [`Kind`], then of nodes.
pub(super) fn deviations(plan: &Plan, nodes: &[NodeCables]) -> Vec<Deviation> {
    let by_id: Nodes<'_> = nodes.iter().map(|node| (node.node, node)).collect();
    let mut found: Vec<Deviation> = nodes.iter().filter_map(|node| silent(plan, node)).collect();
    found.extend(plan.links.iter().filter_map(|link| missing(&by_id, link)));
    found.extend(misled(&by_id));
    found.extend(plan.links.iter().filter_map(|link| adapter(&by_id, link)));
    found.extend(extra(plan, nodes));
    found.sort_by_key(|deviation| (deviation.kind, deviation.node, deviation.partner));
    found
}

fn name([a, b]: [NodeId; 2]) -> String {
    format!("{a}-{b}")
}

fn names(links: &[[NodeId; 2]]) -> String {
    links.iter().map(|link| name(*link)).collect::<Vec<_>>().join(", ")
}

/// A planned node that does not respond, with all its links.
fn silent(plan: &Plan, node: &NodeCables) -> Option<Deviation> {
    let why = node.error.as_ref()?;
    let id = node.node;
    if !plan.nodes.contains(&id) {
        return None;
    }
    let links: Vec<[NodeId; 2]> =
        plan.links.iter().map(|link| link.ends).filter(|ends| ends.contains(&id)).collect();
    let lost = match links.as_slice() {
        [] => String::new(),
        [link] => format!("; its link {} is missing", name(*link)),
        several => format!("; its links {} are missing", names(several)),
    };
    let (host, next_step) = match &node.host {
        None => (String::new(), format!("restart it with `tieline node restart --node {id}`")),
        Some(host) => {
            (format!(" on {host}"), format!("see `tieline status` on {host}, and the network to it"))
        }
    };
    Some(Deviation {
        kind: Kind::Missing,
        node: id,
        adapter: AdapterNo(0),
        partner: None,
        found: None,
        links,
        text: format!("node {id}{host} does not respond: {why}{lost}"),
        next_step,
    })
}

/// A planned link, both ends of which answer, that is not up.
fn missing(nodes: &Nodes<'_>, link: &PlannedLink) -> Option<Deviation> {
    let [a, b] = link.ends;
    let (near, far) = (nodes.get(&a)?, nodes.get(&b)?);
    if near.error.is_some() || far.error.is_some() {
        return None;
    }
    let views = [(a, near.link_to(b)), (b, far.link_to(a))];
    let bad: Vec<(NodeId, Option<&LinkReport>)> =
        views.into_iter().filter(|(_, link)| link.is_none_or(|link| link.state != LinkState::Up)).collect();
    let (node, first) = *bad.first()?;
    let partner = if node == a { b } else { a };
    let seen: Vec<String> = bad.iter().map(|(node, link)| view(*node, *link)).collect();
    let next_step = match first.map(|link| link.state) {
        Some(LinkState::TakenDown) => format!("bring it up with `tieline link up {a} {b}`"),
        _ => format!(
            "check both ends with `tieline status --node {a}` and `tieline status --node {b}`, and read their logs"
        ),
    };
    Some(Deviation {
        kind: Kind::Missing,
        node,
        adapter: first.map_or_else(|| link.adapter_at(node).unwrap_or(AdapterNo(0)), |link| link.adapter),
        partner: Some(partner),
        found: None,
        links: vec![link.ends],
        text: format!("link {} is planned and not up: {}", name(link.ends), seen.join("; ")),
        next_step,
    })
}

/// How an end sees a link that is not up.
fn view(node: NodeId, link: Option<&LinkReport>) -> String {
    let Some(link) = link else { return format!("node {node} has never seen it") };
    let why = link.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let since_s = link.since_ns as f64 / 1e9;
    let LinkReport { adapter, state, .. } = link;
    format!("node {node}, adapter {adapter}: {} for {since_s:.1} s{why}", state.name())
}

/// Links that end at another node than they are named after: pairs in each other's place, and the rest.
fn misled(nodes: &Nodes<'_>) -> Vec<Deviation> {
    let misled: BTreeSet<(NodeId, NodeId, NodeId)> = nodes
        .values()
        .flat_map(|node| node.links.iter().map(|link| (node.node, link.peer, link.partner)))
        .filter(|(_, peer, partner)| peer != partner)
        .collect();
    let is_swap = |&(node, peer, partner): &(NodeId, NodeId, NodeId)| misled.contains(&(node, partner, peer));
    let mut swaps: BTreeMap<[NodeId; 2], Vec<NodeId>> = BTreeMap::new();
    for (node, peer, partner) in misled.iter().filter(|link| is_swap(link)) {
        if peer < partner {
            swaps.entry([*peer, *partner]).or_default().push(*node);
        }
    }
    let mut found: Vec<Deviation> =
        swaps.iter().map(|(pair, observers)| swapped(nodes, *pair, observers)).collect();
    for &(node, peer, partner) in misled.iter().filter(|link| !is_swap(link)) {
        let link = [node.min(peer), node.max(peer)];
        found.push(Deviation {
            kind: Kind::Elsewhere,
            node,
            adapter: adapter_of(nodes, node, peer),
            partner: Some(peer),
            found: Some(partner),
            links: vec![link],
            text: format!("link {} of node {node} ends at node {partner} instead of node {peer}", name(link)),
            next_step: format!("plug the cable of node {node} into node {peer} (a fault made on purpose ends with `tieline link clear {node} {peer}`)"),
        });
    }
    found
}

fn adapter_of(nodes: &Nodes<'_>, node: NodeId, peer: NodeId) -> AdapterNo {
    nodes.get(&node).and_then(|node| node.link_to(peer)).map_or(AdapterNo(0), |link| link.adapter)
}

fn swapped(nodes: &Nodes<'_>, [a, b]: [NodeId; 2], observers: &[NodeId]) -> Deviation {
    let links: Vec<[NodeId; 2]> =
        observers.iter().flat_map(|node| [a, b].map(|end| [*node.min(&end), *node.max(&end)])).collect();
    // Others that have links to both, and find each where it belongs.
    let content: Vec<NodeId> = nodes
        .values()
        .filter(|node| !observers.contains(&node.node) && ![a, b].contains(&node.node))
        .filter(|node| node.link_to(a).is_some() && node.link_to(b).is_some())
        .map(|node| node.node)
        .collect();
    let text = match (observers, content.as_slice()) {
        ([only], _) => format!(
            "the cables of node {only} to nodes {a} and {b} are swapped: its link {} leads to node {b}, its link {} to node {a}",
            name([*only.min(&a), *only.max(&a)]),
            name([*only.min(&b), *only.max(&b)])
        ),
        (_, []) => format!(
            "nodes {a} and {b} are swapped: a connection to one of them reaches the other (seen from nodes {})",
            list(observers)
        ),
        _ => format!(
            "the cables of nodes {} to nodes {a} and {b} are swapped; nodes {} find both in their places",
            list(observers),
            list(&content)
        ),
    };
    Deviation {
        kind: Kind::Swapped,
        node: a,
        adapter: observers.first().map_or(AdapterNo(0), |node| adapter_of(nodes, *node, a)),
        partner: Some(b),
        found: None,
        links,
        text,
        next_step: format!(
            "exchange the two cables (a swap made on purpose ends with `tieline link swap {a} {b}`)"
        ),
    }
}

/// A planned link that is plugged into another adapter.
fn adapter(nodes: &Nodes<'_>, link: &PlannedLink) -> Option<Deviation> {
    let [a, b] = link.ends;
    [(a, b), (b, a)].into_iter().find_map(|(node, peer)| {
        let (planned, found) = (link.adapter_at(node)?, nodes.get(&node)?.link_to(peer)?.adapter);
        (planned != found).then(|| Deviation {
            kind: Kind::Adapter,
            node,
            adapter: found,
            partner: Some(peer),
            found: None,
            links: vec![link.ends],
            text: format!(
                "link {} is on adapter {found} of node {node}, planned is adapter {planned}",
                name(link.ends)
            ),
            next_step: format!(
                "plug it into adapter {planned} of node {node}, or correct `adapters` in the plan"
            ),
        })
    })
}

/// What is up and not planned: nodes with all their links, then single links.
fn extra(plan: &Plan, nodes: &[NodeCables]) -> Vec<Deviation> {
    let up = nodes.iter().flat_map(|node| {
        node.links.iter().filter(|link| link.state == LinkState::Up).map(|link| (node.node, link))
    });
    let mut links: BTreeMap<[NodeId; 2], (NodeId, AdapterNo, NodeId)> = BTreeMap::new();
    for (node, link) in up.filter(|(_, link)| plan.link(link.link[0], link.link[1]).is_none()) {
        links.entry(link.link).or_insert((node, link.adapter, link.peer));
    }
    let stranger = |node: &NodeId| !plan.nodes.contains(node);
    let strangers = nodes.iter().filter(|node| stranger(&node.node) && node.error.is_none());
    let mut found: Vec<Deviation> = strangers
        .map(|node| {
            let id = node.node;
            let its: Vec<[NodeId; 2]> = links.keys().copied().filter(|link| link.contains(&id)).collect();
            let with = match its.as_slice() {
                [] => String::new(),
                [link] => format!(" (link {})", name(*link)),
                several => format!(" (links {})", names(several)),
            };
            Deviation {
                kind: Kind::Extra,
                node: id,
                adapter: node.links.first().map_or(AdapterNo(0), |link| link.adapter),
                partner: None,
                found: None,
                links: its,
                text: format!("node {id} is not in the plan{with}"),
                next_step: format!("add it to the plan, or stop it with `tieline node stop --node {id}`"),
            }
        })
        .collect();
    found.extend(links.into_iter().filter(|(link, _)| !link.iter().any(stranger)).map(
        |(link, (node, adapter, peer))| Deviation {
            kind: Kind::Extra,
            node,
            adapter,
            partner: Some(peer),
            found: None,
            links: vec![link],
            text: format!("link {} is up and not in the plan", name(link)),
            next_step: format!(
                "add it to the plan, or take it down with `tieline link down {} {}`",
                link[0], link[1]
            ),
        },
    ));
    found
}
