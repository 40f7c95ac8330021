//! Nodes of other hosts in the report on the services: the session, and the link that carries data.

use std::fmt::Write;

use proto::wire::status::{LinkKind, LinkStatus, NodeStatus, SessionState};

use super::{is_revoked, session_name};

/// What leads to other hosts.
pub(super) fn links(status: &NodeStatus) -> impl Iterator<Item = &LinkStatus> {
    status.links.iter().filter(|link| link.other_host)
}

/// In a few words; `None`: the node knows of no other host.
pub(super) fn summary(status: &NodeStatus) -> Option<String> {
    let all = links(status).filter(|link| !is_revoked(link)).count();
    let valid = links(status).filter(|link| link.session == SessionState::Valid).count();
    (all > 0).then(|| format!("{valid} of {all} sessions valid, link {}", LinkKind::Ofi.name()))
}

/// Of heartbeats of a session that is valid, where it was measured.
fn round_trip(link: &LinkStatus) -> String {
    match (link.session, link.round_trip_ns, link.least_round_trip_ns) {
        (SessionState::Valid, Some(latest), Some(least)) => {
            let ms = |ns: u64| ns as f64 / 1e6;
            format!(", round trip {:.2} ms (least {:.2} ms)", ms(latest), ms(least))
        }
        _ => String::new(),
    }
}

/// A line for each node of another host, as each node of this host sees it.
pub(super) fn write<'s>(text: &mut String, nodes: impl Iterator<Item = &'s NodeStatus>) {
    for status in nodes {
        for link in links(status) {
            let host = if link.peer_host.is_empty() { "another host" } else { &link.peer_host };
            let (node, peer, session) = (status.info.node, link.peer, session_name(link.session));
            if is_revoked(link) {
                let why = link.reason.as_deref().unwrap_or("its certificate was revoked");
                let _ = writeln!(text, "node {node}: node {peer} on {host}: {why}");
                continue;
            }
            let (kind, trip) = (link.kind.name(), round_trip(link));
            let _ =
                writeln!(text, "node {node}: node {peer} on {host}: session {session}, link {kind}{trip}");
        }
    }
}
