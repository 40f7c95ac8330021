//! The table of nodes: which of them responded, their facts, their links.

use maud::{Markup, html};
use serde_json::Value;

use super::read::{Judged, Read};
use super::{number, steps};

fn links(node: &Value) -> &[Value] {
    let own = node.items("status.links");
    if own.is_empty() { node.items("links") } else { own }
}

/// What was done to a link on purpose, in words; nothing if nothing.
pub(super) fn on_purpose(link: &Value) -> Option<String> {
    let faults: Vec<String> = link
        .at("faults")
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.as_f64().is_some_and(|value| value != 0.0))
        .take(12)
        .map(|(name, value)| format!("{} {value}", super::read::shortened(name, 30)))
        .collect();
    let down = (link.at("taken_down").as_bool() == Some(true)).then(|| "taken down".to_owned());
    let all: Vec<String> = down.into_iter().chain(faults).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Links on which faults were switched on: `from → to: what`.
pub(super) fn faults(document: &Value) -> Vec<String> {
    let of = |node: &Value| -> Vec<String> {
        let from = node.count("node");
        let links = links(node).iter();
        links
            .filter_map(|link| Some(format!("{from} → {}: {}", link.count("peer"), on_purpose(link)?)))
            .collect()
    };
    let all = document.items("status.nodes").iter().chain(document.items("status.other_hosts"));
    all.flat_map(of).take(60).collect()
}

fn session_summary(node: &Value) -> (usize, usize) {
    let links = links(node);
    (links.iter().filter(|link| link.at("session").as_str() == Some("valid")).count(), links.len())
}

/// The section.
pub(super) fn section(document: &Value) -> Option<Markup> {
    let nodes: Vec<&Value> =
        document.items("status.nodes").iter().chain(document.items("status.other_hosts")).collect();
    if nodes.is_empty() {
        return None;
    }
    let diag_of =
        |node: u64| document.items("diag.nodes").iter().find(|diag| diag.at("node").as_u64() == Some(node));
    let faults = faults(document);
    Some(html! {
        @if !faults.is_empty() {
            div.notice {
                p { strong { "Faults were switched on on purpose." } " " code { "tieline link clear" } " ends them." }
                ul { @for fault in &faults { li { (fault) } } }
            }
        }
        div.scroll tabindex="0" role="region" aria-label="Nodes" {
            table.nodes {
                thead { tr {
                    th scope="col" { "Node" } th scope="col" { "Host" } th scope="col" { "Static test" } th scope="col" { "Links up" }
                    th scope="col" { "Heartbeats missed" } th scope="col" { "Sessions lost" } th scope="col" { "Version" }
                } }
                tbody {
                    @for node in nodes.iter().take(256) {
                        @let (valid, all) = session_summary(node);
                        @let missed = links(node).iter().map(|link| link.count("heartbeats_missed")).fold(0, u64::saturating_add);
                        tr {
                            th scope="row" { (node.count("node")) }
                            @if let Some(error) = node.text("error") { td.left colspan="6" { (steps::badge(Judged::Fail)) " " @if let Some(host) = node.text("host") { "on " (host) ": " } (error) } } @else {
                                td { (node.text("status.info.host").unwrap_or_default()) }
                                td { @if let Some(judged) = diag_of(node.count("node")).and_then(Read::verdict) { (steps::badge(judged)) } @else { "–" } }
                                td { (valid) " of " (all) }
                                td { (number::count(missed)) }
                                td { (number::count(node.count("status.counters.sessions_lost"))) }
                                td { (node.text("status.info.version").unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
        }
    })
}
