//! Reports what changed between two snapshots. Counters are compared where they are judged, in
//! `errors`.

use mad::values::PhysicalState;
use topology::{PortIx, counted};

use super::plan::Twins;
use super::{Finding, rate_word};
use crate::names::{label, place, text};
use crate::snapshot::Snapshot;

/// What changed. What is worse than before is a failure; what is only different, a warning.
pub(super) fn findings(before: &Snapshot, now: &Snapshot) -> Vec<Finding> {
    let (old, new) = (&before.graph, &now.graph);
    let twins = Twins::by_guid(old, new);
    let mut found = Vec::new();
    for node in old.nodes().filter(|node| !old.is_dead(*node)) {
        let name = label(old, node);
        match twins.there[node.index()] {
            None => {
                let text = format!("{} {name} was there before and is gone", old.kind(node).word());
                found.push(Finding::failed("gone", vec![name], text));
            }
            Some(twin) if text(new, twin) != text(old, node) => {
                let text = format!("{name} is now called {}", label(new, twin));
                found.push(Finding::warning("renamed", vec![name], text));
            }
            Some(_) => {}
        }
    }
    for node in &twins.rest {
        let name = label(new, *node);
        let text = format!("{} {name} is new", new.kind(*node).word());
        found.push(Finding::warning("new", vec![name], text));
    }
    for (a, b) in old.links() {
        let here = |port| twins.port(old, new, port);
        // The missing node has been reported.
        let (Some(one), Some(other)) = (here(a), here(b)) else { continue };
        if new.peer(one) == Some(other) {
            found.extend(same_cable(before, now, a, one, other));
            continue;
        }
        let places = vec![place(new, one), place(new, other)];
        let led: Vec<String> = [one, other]
            .iter()
            .filter_map(|port| Some((port, new.peer(*port)?)))
            .map(|(port, peer)| format!("{} now leads to {}", place(new, *port), place(new, peer)))
            .collect();
        // An end whose link is up is not unplugged: what is behind it gave no response.
        let up = [one, other].into_iter().zip(&places).find(|(port, _)| {
            led.is_empty() && now.port(*port).is_some_and(|facts| facts.physical == PhysicalState::LINK_UP.0)
        });
        let text = match up {
            Some((_, end)) => format!(
                "the link from {} to {} was not seen in this sweep: the node behind {end} did not respond",
                places[0], places[1]
            ),
            None => format!(
                "the link from {} to {} is gone{}{}",
                places[0],
                places[1],
                if led.is_empty() { "" } else { ": " },
                led.join(", ")
            ),
        };
        found.push(Finding::failed("link gone", places, text));
    }
    new_links(before, now, &mut found);
    tables(before, now, &mut found);
    found
}

fn same_cable(before: &Snapshot, now: &Snapshot, old: PortIx, one: PortIx, other: PortIx) -> Option<Finding> {
    let (was, is) = (before.rate(old), now.rate(one));
    if was == is || was.mbps() == 0 || is.mbps() == 0 {
        return None;
    }
    let places = vec![now.place(one), now.place(other)];
    let text = format!(
        "{} to {} ran at {} before and runs at {} now",
        places[0],
        places[1],
        rate_word(was),
        rate_word(is)
    );
    let finding = if is.mbps() < was.mbps() { Finding::failed } else { Finding::warning };
    Some(finding("rate", places, text))
}

fn new_links(before: &Snapshot, now: &Snapshot, found: &mut Vec<Finding>) {
    let (old, new) = (&before.graph, &now.graph);
    let back = Twins::by_guid(new, old);
    for (a, b) in new.links() {
        let was = |port| back.port(new, old, port);
        let (one, other) = (was(a), was(b));
        if one.is_some() && one.and_then(|one| old.peer(one)) == other {
            continue;
        }
        let places = vec![place(new, a), place(new, b)];
        let text = format!("a link from {} to {} is new", places[0], places[1]);
        found.push(Finding::warning("new link", places, text));
    }
}

/// How many entries of tables changed, where both have the same nodes in the same places.
fn tables(before: &Snapshot, now: &Snapshot, found: &mut Vec<Finding>) {
    let (Some(old), Some(new)) = (&before.tables, &now.tables) else { return };
    let by_guid = |snapshot: &Snapshot, guid| snapshot.graph.node_by_guid(guid);
    let (mut changed, mut switches) = (0_u64, 0_u64);
    for switch in new.switches() {
        let guid = now.graph.node_guid(*switch);
        let Some(row) = by_guid(before, guid).and_then(|node| old.index_of(node)) else { continue };
        let Some(mine) = new.index_of(*switch) else { continue };
        let (a, b) = (old.table(row), new.table(mine));
        let differ = a.iter().zip(b).filter(|(a, b)| a != b).count() + a.len().abs_diff(b.len());
        changed += differ as u64;
        switches += u64::from(differ > 0);
    }
    if changed > 0 {
        let text = format!("{} of {} changed", counted(changed, "LFT entry"), counted(switches, "switch"));
        found.push(Finding::warning("tables", Vec::new(), text));
    }
}
