//! The findings against a node: from its manager's report, the tests, and a host file.

use proto::wire::status::{LinkStatus, SessionState};
use tieline::NodeId;

use super::{HostFile, Level, LinkTest, NodeDiag};
use crate::status::{Misled, carries, session_name};

/// The other nodes that there should be.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others<'a> {
    /// Those that run here.
    pub(super) expected: &'a [NodeId],
    /// Those that have a report of their own beside this one, with their errors.
    pub(super) reported: &'a [NodeId],
    /// Links of nodes without a report that lead to a wrong node, and concern those that have one.
    pub(super) misled: &'a [Misled],
}

/// Fills in the nodes that are seen, and the findings.
/// `busy`: why no node is blamed for what was late, if so.
pub(super) fn judge(diag: &mut NodeDiag, others: Others<'_>, hosts: Option<&HostFile>, busy: Option<&str>) {
    let node = diag.node;
    if diag.adapters().is_empty() {
        diag.found(Level::Error, format!("node {node} has no adapter: see its log"));
    }
    if let Some(count) = diag.counters.map(|counters| counters.protocol_errors).filter(|count| *count > 0) {
        let text = format!("{count} malformed control message(s) since start: see the log of node {node}");
        diag.found(Level::Note, text);
    }
    self_test(diag, busy);
    diag.nodes_seen =
        diag.links.iter().filter(|link| carries(link)).map(|link| link.peer).chain([node]).collect();
    diag.nodes_seen.sort_unstable();
    links(diag);
    far_ends(diag, others);
    link_tests(diag, busy);
    if let Some(file) = hosts {
        host_file(diag, file, others);
    }
    unreachable_peers(diag, others, hosts);
}

/// How much it matters, and with which words, if what other work may have done is in doubt.
fn weigh(text: String, in_doubt: bool, busy: Option<&str>) -> (Level, String) {
    match busy.filter(|_| in_doubt) {
        Some(busy) => {
            (Level::Warning, format!("{text}; this decides nothing, because the machine was busy: {busy}"))
        }
        None => (Level::Error, text),
    }
}

fn self_test(diag: &mut NodeDiag, busy: Option<&str>) {
    let node = diag.node;
    if diag.self_test.is_empty() && diag.left_out.is_empty() {
        diag.found(Level::Error, format!("the self test of node {node} was planned and did not run"));
    }
    let failed: Vec<(Level, String)> = diag
        .self_test
        .iter()
        .filter_map(|test| {
            let error = test.error.as_ref()?;
            let text = format!(
                "self test `{}` of node {node}: {error}; see its log, and restart its programs",
                test.name
            );
            Some(weigh(text, test.in_doubt, busy))
        })
        .collect();
    failed.into_iter().for_each(|(level, text)| diag.found(level, text));
}

/// Links that are down on purpose, lead elsewhere, or are made worse.
fn links(diag: &mut NodeDiag) {
    let node = diag.node;
    let mut found: Vec<(Level, String)> = Vec::new();
    for link in &diag.links {
        let LinkStatus { peer, partner, adapter, .. } = link;
        found.extend(other_host(link));
        if link.taken_down {
            let down_s = link.since_ns as f64 / 1e9;
            found.push((Level::Error, format!(
                "link of adapter {adapter} to node {peer} was taken down {down_s:.1} s ago: `tieline link up {node} {peer}` brings it up"
            )));
        }
        // Of two swapped links, the first is reported for both.
        let reciprocal = diag.links.iter().any(|other| other.peer == *partner && other.partner == *peer);
        if partner != peer && reciprocal && peer < partner {
            found.push((Level::Error, format!(
                "the links of node {node} to nodes {peer} and {partner} are swapped: exchange the cables (`tieline cable` says \
                 whose; a swap made on purpose ends with `tieline link swap {peer} {partner}`)"
            )));
        } else if partner != peer && !reciprocal {
            found.push((Level::Error, format!(
                "the link of node {node} to node {peer} leads to node {partner} instead: see `tieline cable`"
            )));
        }
        if !link.faults.is_none() {
            found.push((Level::Note, format!(
                "the link to node {peer} is made worse on purpose ({}): `tieline link clear {node} {peer}` ends that", link.faults
            )));
        }
    }
    found.into_iter().for_each(|(level, text)| diag.found(level, text));
}

/// What there is to say of a link to another host, which is not tested.
fn other_host(link: &LinkStatus) -> Option<(Level, String)> {
    let LinkStatus { peer, peer_host, .. } = link;
    let host = if peer_host.is_empty() { "another host" } else { peer_host };
    match link.session {
        _ if !link.other_host => None,
        SessionState::Valid => Some((
            Level::Note,
            format!(
                "the link to node {peer} on {host} is not tested here: `tieline conntest` tests it, with the links between all nodes"
            ),
        )),
        SessionState::Revoked => None,
        lost => {
            let why = link.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            let state = session_name(lost);
            let text = format!(
                "the session with node {peer} on {host} is {state}{why}: see `tieline status` on that host"
            );
            Some((Level::Error, text))
        }
    }
}

/// Links that lead elsewhere by the word of the node at their other end.
fn far_ends(diag: &mut NodeDiag, others: Others<'_>) {
    for Misled { end, peer, partner } in others.misled.iter().copied() {
        if [peer, partner].contains(&diag.node) {
            let text = format!(
                "the link of node {end} to node {peer} leads to node {partner} instead: see `tieline cable`"
            );
            diag.found(Level::Error, text);
        }
    }
}

fn link_tests(diag: &mut NodeDiag, busy: Option<&str>) {
    let node = diag.node;
    let failed: Vec<(Level, String)> = diag
        .link_tests
        .iter()
        .flat_map(|test| {
            test.failures().map(move |(why, in_doubt)| {
                let LinkTest { peer, .. } = test;
                let text = format!(
                    "link from node {node} to node {peer}: test transfer: {why}; `tieline conntest --peers {node},{peer}` shows whether data \
                     is lost or changed"
                );
                weigh(text, in_doubt, busy)
            })
        })
        .collect();
    failed.into_iter().for_each(|(level, text)| diag.found(level, text));
}

fn how(diag: &NodeDiag, peer: NodeId) -> String {
    match diag.links.iter().find(|link| link.peer == peer) {
        None => "never seen".to_owned(),
        Some(link) if link.taken_down => "link taken down".to_owned(),
        Some(link) if link.partner != peer => format!("link leads to node {}", link.partner),
        Some(link) => format!("session {}", session_name(link.session)),
    }
}

/// How much it matters that a node which runs here is not seen: a test that passes would say that all is
/// well. Where its link is down or leads elsewhere, or where it has a report of its own, the error is there,
/// and this is what follows from it.
fn not_seen(diag: &NodeDiag, peer: NodeId, others: Others<'_>) -> Level {
    match diag.links.iter().find(|link| link.peer == peer) {
        _ if others.reported.contains(&peer) => Level::Warning,
        Some(link) if link.taken_down || link.partner != peer => Level::Warning,
        _ => Level::Error,
    }
}

/// Nodes that run here and are not seen; the host file has named those that it lists.
fn unreachable_peers(diag: &mut NodeDiag, others: Others<'_>, hosts: Option<&HostFile>) {
    let node = diag.node;
    let is_listed = |peer: NodeId| hosts.is_some_and(|file| file.entry(peer).is_some());
    let missing = others.expected.iter().filter(|peer| !diag.nodes_seen.contains(peer) && !is_listed(**peer));
    for peer in missing.copied().collect::<Vec<_>>() {
        let how = how(diag, peer);
        diag.found(
            not_seen(diag, peer, others),
            format!("Node {peer} not reachable from node {node} ({how}), but is expected in this cluster"),
        );
    }
}

fn host_file(diag: &mut NodeDiag, file: &HostFile, others: Others<'_>) {
    let (node, name) = (diag.node, file.name());
    let mut found: Vec<(Level, String)> = Vec::new();
    let warning = |text| (Level::Warning, text);
    for entry in file.entries.iter().filter(|entry| !diag.nodes_seen.contains(&entry.node)) {
        // The file may name nodes of long ago. What runs here is another matter.
        let is_here = others.expected.contains(&entry.node);
        let level = if is_here { not_seen(diag, entry.node, others) } else { Level::Warning };
        let text = format!(
            "Node {} not reachable, but is an entry in the {name} file (line {}; {}){}",
            entry.node,
            entry.line,
            how(diag, entry.node),
            if is_here { "" } else { ": start it, or take the line out" }
        );
        found.push((level, text));
    }
    let host_of = |id: NodeId| match &diag.info {
        Some(info) if id == node => Some(info.host.clone()),
        _ => diag.links.iter().find(|link| link.peer == id).map(|link| link.peer_host.clone()),
    };
    for id in &diag.nodes_seen {
        let host = host_of(*id).unwrap_or_default();
        match file.entry(*id) {
            None if *id == node => found.push(warning(format!(
                "{name} does not specify the local host: add node {node}, host {host}"
            ))),
            None => found.push((
                Level::Note,
                format!("Node {id} (host {host}) is seen, but is not an entry in the {name} file"),
            )),
            Some(entry) if entry.host != host => found.push(warning(format!(
                "Node {id} is on host {host}, but on host {} in the {name} file (line {}): correct it",
                entry.host, entry.line
            ))),
            Some(_) => {}
        }
    }
    found.into_iter().for_each(|(level, text)| diag.found(level, text));
}
