//! Reports links that are down, slower than both ends allow, limited by a setting, or unlike their
//! neighbours.

use std::collections::BTreeMap;

use serde::Serialize;
use topology::{Kind, LinkSpec, PortIx};

use super::{Finding, rate_word};
use crate::snapshot::{PortFacts, Snapshot, fastest, widest};

/// Share of the links of a kind that must have a rate for the rest to be called slow.
const USUAL: f64 = 0.75;

/// A cable of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkLine {
    /// The one end.
    pub a: String,
    /// The other port.
    pub b: String,
    /// Width and speed.
    pub rate: String,
    /// States of both ends, where they are known.
    pub state: String,
}

/// All cables.
#[must_use]
pub fn links(snapshot: &Snapshot) -> Vec<LinkLine> {
    let line = |(a, b): (PortIx, PortIx)| {
        let state = |port| snapshot.port(port).map_or_else(|| "?".to_owned(), PortFacts::state_word);
        let (one, other) = (state(a), state(b));
        LinkLine {
            a: snapshot.place(a),
            b: snapshot.place(b),
            rate: rate_word(snapshot.rate(a)),
            state: if one == other { one } else { format!("{one}/{other}") },
        }
    };
    snapshot.graph.links().map(line).collect()
}

/// What is wrong with links.
pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = states(snapshot);
    for (a, b) in snapshot.graph.links() {
        if let (Some(one), Some(other)) = (snapshot.port(a), snapshot.port(b)) {
            found.extend(of_facts(snapshot, (a, one), (b, other)));
        }
    }
    found.extend(slow(snapshot));
    found
}

/// Links that are up, and not active.
fn states(snapshot: &Snapshot) -> Vec<Finding> {
    let mut idle = Vec::new();
    for (a, b) in snapshot.graph.links() {
        for port in [a, b] {
            if snapshot.port(port).is_some_and(|facts| !facts.is_active()) {
                idle.push(port);
            }
        }
    }
    if idle.is_empty() {
        return Vec::new();
    }
    let places: Vec<String> = idle.iter().map(|port| snapshot.place(*port)).collect();
    let all = idle.len() == snapshot.graph.link_count() * 2;
    if all || idle.len() > 20 {
        let which = if all {
            "no port with a cable is".to_owned()
        } else {
            format!("{} ports with a cable are not", idle.len())
        };
        let text =
            format!("{which} Active: no subnet manager (SM) has brought them up; the first is {}", places[0]);
        return vec![Finding::failed("not active", places.into_iter().take(20).collect(), text)];
    }
    let one = |(port, place): (&PortIx, String)| {
        let facts = snapshot.port(*port);
        let state = facts.map(PortFacts::state_word).unwrap_or_default();
        let text = format!(
            "{place} has a link, but its state is {state}, not Active: let the subnet manager (SM) sweep again"
        );
        Finding::failed("not active", vec![place], text)
    };
    idle.iter().zip(places).map(one).collect()
}

fn of_facts(snapshot: &Snapshot, a: (PortIx, &PortFacts), b: (PortIx, &PortFacts)) -> Vec<Finding> {
    let places = || vec![snapshot.place(a.0), snapshot.place(b.0)];
    let between = format!("{} to {}", snapshot.place(a.0), snapshot.place(b.0));
    let both = |of: fn(&PortFacts) -> (u8, u16)| {
        let ((width, speed), (other_width, other_speed)) = (of(a.1), of(b.1));
        LinkSpec { width: widest(width & other_width), speed: fastest(speed & other_speed) }
    };
    let active = LinkSpec { width: widest(a.1.width[2]), speed: fastest(a.1.speed[2]) };
    let enabled = both(|facts| (facts.width[1], facts.speed[1]));
    let supported = both(|facts| (facts.width[0], facts.speed[0]));
    let mut found = Vec::new();
    if !a.1.is_up() || active.mbps() == 0 {
        return found;
    }
    let less = |one: LinkSpec, than: LinkSpec| {
        one.width.lanes() < than.width.lanes() || one.speed.lane_mbps() < than.speed.lane_mbps()
    };
    if less(active, enabled) {
        let text = format!(
            "{between} runs at {}, but both ends enable {}: {}",
            rate_word(active),
            rate_word(enabled),
            "check the cable, or retrain the link"
        );
        found.push(Finding::failed("downgraded", places(), text));
    }
    if less(enabled, supported) {
        let text = format!(
            "{between} is limited to {}, but both ends support {}: enable it with `ibportstate`, if it is not meant to be limited",
            rate_word(enabled),
            rate_word(supported)
        );
        found.push(Finding::warning("misconfigured", places(), text));
    }
    let own = |facts: &PortFacts| LinkSpec { width: widest(facts.width[0]), speed: fastest(facts.speed[0]) };
    let (mine, theirs) = (own(a.1), own(b.1));
    if less(supported, mine) || less(supported, theirs) {
        let text =
            format!("{between}: one end supports {}, the other {}", rate_word(mine), rate_word(theirs));
        found.push(Finding::warning("mismatched", places(), text));
    }
    if a.1.mtu[1] != b.1.mtu[1] && a.1.is_active() && b.1.is_active() {
        let bytes = |mtu: u8| 128_u32.checked_shl(mtu.into()).unwrap_or(0);
        let text = format!(
            "{between}: the MTU is {} bytes at one end and {} at the other: let the subnet manager (SM) set it",
            bytes(a.1.mtu[1]),
            bytes(b.1.mtu[1])
        );
        found.push(Finding::failed("packet size", places(), text));
    }
    found
}

/// Links that are slower than most of their kind: between switches, or to hosts.
fn slow(snapshot: &Snapshot) -> Vec<Finding> {
    let graph = &snapshot.graph;
    let inner = |(a, b): (PortIx, PortIx)| {
        graph.kind(graph.owner(a)) == Kind::Switch && graph.kind(graph.owner(b)) == Kind::Switch
    };
    let mut found = Vec::new();
    for between in [true, false] {
        let of_kind: Vec<_> = graph.links().filter(|link| inner(*link) == between).collect();
        let mut rates: BTreeMap<u32, usize> = BTreeMap::new();
        for (a, _) in &of_kind {
            *rates.entry(snapshot.rate(*a).mbps()).or_default() += 1;
        }
        let what = if between { "between switches" } else { "to CAs" };
        rates.remove(&0);
        let Some((usual, count)) = rates.iter().map(|(rate, count)| (*rate, *count)).max_by_key(|one| one.1)
        else {
            continue;
        };
        if (count as f64) < of_kind.len() as f64 * USUAL {
            if rates.len() > 1 {
                let each = rates
                    .iter()
                    .map(|(rate, count)| format!("{count} of {} Gb/s", f64::from(*rate) / 1000.0));
                let text = format!("links {what} differ: {}", each.collect::<Vec<_>>().join(", "));
                found.push(Finding::warning("slow", Vec::new(), text));
            }
            continue;
        }
        for (a, b) in of_kind {
            let rate = snapshot.rate(a);
            if rate.mbps() == 0 || rate.mbps() >= usual {
                continue;
            }
            let places = vec![snapshot.place(a), snapshot.place(b)];
            let text = format!(
                "{} to {} runs at {}, but {count} links {what} run at {} Gb/s",
                places[0],
                places[1],
                rate_word(rate),
                f64::from(usual) / 1000.0
            );
            found.push(Finding::warning("slow", places, text));
        }
    }
    found
}
