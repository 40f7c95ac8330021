//! From the findings of all steps to the suspects.

use tieline::NodeId;

use super::closing::Changes;
use crate::cable::{CableReport, Deviation, Kind};
use crate::conntest::ConntestReport;
use crate::exchange::ExchangeReport;
use crate::pairs::{NamesReport, PairsReport};
use crate::speed::SpeedReport;
use crate::suspect::{Suspect, Suspected};
use crate::swap::Swaps;

/// Evidence against a node or link.
pub(super) struct Findings<'a> {
    /// Nodes of other hosts that gave no report.
    pub(super) absent: &'a [Suspected],
    pub(super) changes: &'a Changes,
    pub(super) cable: Option<&'a CableReport>,
    pub(super) swaps: &'a Swaps,
    pub(super) names: &'a NamesReport,
    pub(super) exchange: &'a ExchangeReport,
    pub(super) load: Option<&'a ConntestReport>,
    pub(super) pairs: Option<&'a PairsReport>,
    pub(super) between_hosts: Option<&'a SpeedReport>,
    /// What the tests of one pair have found.
    pub(super) pair: &'a [Suspected],
}

/// What all steps say, each suspect once.
pub(super) fn suspects(nodes: &[NodeId], findings: &Findings<'_>) -> Vec<Suspected> {
    let Findings { absent, changes, cable, swaps, names, exchange, load, pairs, between_hosts, pair } =
        findings;
    let failed = exchange.bad_links(|from, to| names.obstacle(from, to).is_some());
    let said = cable
        .iter()
        .flat_map(|cable| cable.deviations.iter().map(of_deviation))
        .chain(absent.iter().cloned())
        .chain(changes.suspects.iter().cloned())
        .chain(names.suspects(nodes))
        .chain(swaps.name(nodes, failed))
        .chain(load.iter().flat_map(|load| load.suspects.clone()))
        .chain(pairs.iter().flat_map(|pairs| pairs.suspects.clone()))
        .chain(between_hosts.iter().flat_map(|speeds| speeds.suspects.clone()));
    let mut all: Vec<Suspected> = Vec::new();
    for suspected in said.chain(pair.iter().cloned()) {
        // One pair of many was measured: what was found there is no news of a node that is to blame already.
        let of_pair = pair.contains(&suspected);
        if let Some(known) =
            all.iter_mut().find(|known| of_pair && known.suspect.explains(&suspected.suspect))
        {
            known.evidence.extend(suspected.evidence);
            continue;
        }
        match all.iter_mut().find(|known| known.suspect == suspected.suspect) {
            Some(known) => known.evidence.extend(suspected.evidence),
            None => all.push(suspected),
        }
    }
    for suspected in &mut all {
        let mut seen = std::collections::BTreeSet::new();
        suspected.evidence.retain(|evidence| seen.insert(evidence.clone()));
    }
    all
}

fn of_deviation(deviation: &Deviation) -> Suspected {
    let suspect = match (deviation.kind, deviation.partner) {
        (Kind::Swapped, Some(other)) => Suspect::Swapped([deviation.node, other]),
        (_, Some(partner)) => Suspect::Link([deviation.node.min(partner), deviation.node.max(partner)]),
        (_, None) => Suspect::Node(deviation.node),
    };
    Suspected { suspect, evidence: vec![deviation.text.clone()] }
}

#[cfg(test)]
mod tests {
    use tieline::NodeId;

    use super::*;

    #[test]
    fn a_swap_that_two_steps_saw_is_one_suspect() {
        let id = |number| NodeId::new(number).unwrap();
        let mut swap = Suspected::swapped([id(8), id(12)]);
        swap.evidence.push("as seen by node 4".into());
        let names = NamesReport { swapped: vec![[id(8), id(12)]], ..NamesReport::of_nobody() };
        let exchange = ExchangeReport::of_nothing();
        let findings = Findings {
            absent: &[],
            changes: &Changes::default(),
            cable: None,
            swaps: &Swaps::default(),
            names: &names,
            exchange: &exchange,
            load: None,
            pairs: None,
            between_hosts: None,
            pair: &[],
        };
        let all = suspects(&[id(4), id(8), id(12)], &findings);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].suspect, swap.suspect);
    }

    #[test]
    fn what_one_pair_shows_blames_its_link_unless_a_node_of_it_is_to_blame() {
        let id = |number| NodeId::new(number).unwrap();
        let pair = [Suspected {
            suspect: Suspect::Link([id(4), id(8)]),
            evidence: vec!["latency: it did not respond".into()],
        }];
        let names = NamesReport::of_nobody();
        let exchange = ExchangeReport::of_nothing();
        let blamed = |changes: &Changes| {
            let findings = Findings {
                absent: &[],
                changes,
                cable: None,
                swaps: &Swaps::default(),
                names: &names,
                exchange: &exchange,
                load: None,
                pairs: None,
                between_hosts: None,
                pair: &pair,
            };
            suspects(&[id(4), id(8), id(12)], &findings)
        };
        let alone = blamed(&Changes::default());
        assert_eq!(alone, pair, "named as any other link");
        let node = Suspected { suspect: Suspect::Node(id(8)), evidence: vec!["it was restarted".into()] };
        let with_node = blamed(&Changes { suspects: vec![node], ..Changes::default() });
        assert_eq!(with_node.len(), 1, "{with_node:?}");
        assert_eq!((&with_node[0].suspect, with_node[0].evidence.len()), (&Suspect::Node(id(8)), 2));
    }
}
