//! The matrix of what carries the data of each pair: shared memory within a host, libfabric between hosts,
//! and over how many rails.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::facts::Pair;
use super::read::Read;

/// What the managers say of each pair; nothing if all is shared memory, which the page says elsewhere.
fn links(document: &Value) -> Option<BTreeMap<Pair, String>> {
    let nodes = || document.items("status.nodes").iter().chain(document.items("status.other_hosts"));
    let rails = |node: u64| {
        let there = nodes().find(|one| one.at("node").as_u64() == Some(node));
        there.map_or(0, |one| one.items("status.info.rails").len())
    };
    let mut links = BTreeMap::new();
    let mut is_mixed = false;
    for node in nodes() {
        let Some(from) = node.at("node").as_u64() else { continue };
        for link in node.items("status.links") {
            let Some(to) = link.at("peer").as_u64() else { continue };
            let text = match link.text("session").as_deref() {
                _ if link.at("taken_down").as_bool() == Some(true) => "down".into(),
                Some("valid") => match (link.text("kind"), rails(from).min(rails(to))) {
                    (Some(kind), 0 | 1) => kind.into(),
                    (Some(kind), rails) => format!("{kind} ×{rails}"),
                    (None, _) => "shm".into(),
                },
                session => session.unwrap_or("?").to_owned(),
            };
            is_mixed |= link.at("other_host").as_bool() == Some(true);
            links.insert((from, to), text);
        }
    }
    is_mixed.then_some(links)
}

/// The matrix.
pub(super) fn table(document: &Value, nodes: &[u64]) -> Option<Markup> {
    let links = links(document)?;
    Some(html! {
        figure.matrix.some id="matrix-link" {
            figcaption {
                h3 { "Link" }
                p.said { "What carries the data of each pair, as the manager of the row's node has it: shm is shared memory within a host, ofi libfabric between hosts, and ×2 that there are two rails. Where nothing is carried, why: the state of the session, or down for a link that was taken down." }
            }
            div.scroll tabindex="0" role="region" aria-label="Matrix: Link" {
                table.pairs {
                    caption.hidden { "Link: rows and columns are nodes." }
                    thead { tr {
                        th.corner { span { "to\u{a0}→" br; "from\u{a0}↓" } }
                        @for node in nodes { th scope="col" { span { (node) } } }
                    } }
                    tbody {
                        @for from in nodes { tr {
                            th scope="row" { (from) }
                            @for to in nodes {
                                @if from == to { td.self {} } @else {
                                    td.n { (links.get(&(*from, *to)).map_or("–", String::as_str)) }
                                }
                            }
                        } }
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_pair_has_its_link_and_rails_and_one_host_has_no_such_matrix() {
        let link = |peer, far, kind, session| json!({"peer": peer, "other_host": far, "kind": kind, "session": session});
        let status = |rails: &[&str], links: &[Value]| json!({"info": {"rails": rails}, "links": links});
        let far = link(8, true, "ofi", "valid");
        let here = json!([
            {"node": 4, "status": status(&["a", "b"], &[far, link(12, false, "shm", "valid"), link(16, true, "ofi", "lost")])},
            {"node": 12, "status": status(&[], &[link(4, false, "shm", "valid")])},
        ]);
        let there = json!([{"node": 8, "status": status(&["c", "d"], &[link(4, true, "ofi", "valid")])}]);
        let down =
            json!({"peer": 4, "other_host": true, "kind": "ofi", "session": "valid", "taken_down": true});
        let links = |document: &Value| links(document).unwrap_or_default();
        let all = links(&json!({"status": {"nodes": here, "other_hosts": there}}));
        assert_eq!((&*all[&(4, 8)], &*all[&(8, 4)]), ("ofi ×2", "ofi ×2"));
        assert_eq!((&*all[&(4, 12)], &*all[&(4, 16)]), ("shm", "lost"));
        let all = links(&json!({"status": {"nodes": [{"node": 8, "status": status(&[], &[down])}]}}));
        assert_eq!(&*all[&(8, 4)], "down");
        assert!(links(&json!({"status": {"nodes": [here[1]]}})).is_empty());
    }
}
