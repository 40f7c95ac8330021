//! From the findings of all steps to the suspects.

use tieline::NodeId;

use super::closing::Changes;
use crate::cable::{CableReport, Deviation, Kind};
use crate::conntest::ConntestReport;
use crate::culprit::{Culprit, Suspect};
use crate::exchange::ExchangeReport;
use crate::pairs::{NamesReport, PairsReport};
use crate::swap::Swaps;

/// What speaks against somebody.
pub(super) struct Findings<'a> {
    pub(super) changes: &'a Changes,
    pub(super) cable: Option<&'a CableReport>,
    pub(super) swaps: &'a Swaps,
    pub(super) names: &'a NamesReport,
    pub(super) exchange: &'a ExchangeReport,
    pub(super) load: Option<&'a ConntestReport>,
    pub(super) pairs: Option<&'a PairsReport>,
    /// What the tests of one pair have found.
    pub(super) pair: &'a [Culprit],
}

/// What all steps say, each culprit once.
pub(super) fn culprits(nodes: &[NodeId], findings: &Findings<'_>) -> Vec<Culprit> {
    let Findings { changes, cable, swaps, names, exchange, load, pairs, pair } = findings;
    let failed = exchange.bad_links(|from, to| names.obstacle(from, to).is_some());
    let said = cable
        .iter()
        .flat_map(|cable| cable.deviations.iter().map(of_deviation))
        .chain(changes.culprits.iter().cloned())
        .chain(names.culprits(nodes))
        .chain(swaps.name(nodes, failed))
        .chain(load.iter().flat_map(|load| load.culprits.clone()))
        .chain(pairs.iter().flat_map(|pairs| pairs.culprits.clone()));
    let mut all: Vec<Culprit> = Vec::new();
    for culprit in said.chain(pair.iter().cloned()) {
        // One pair of many was measured: what was found there is no news of a node that is to blame already.
        let of_pair = pair.contains(&culprit);
        if let Some(known) = all.iter_mut().find(|known| of_pair && known.suspect.explains(&culprit.suspect))
        {
            known.evidence.extend(culprit.evidence);
            continue;
        }
        match all.iter_mut().find(|known| known.suspect == culprit.suspect) {
            Some(known) => known.evidence.extend(culprit.evidence),
            None => all.push(culprit),
        }
    }
    for culprit in &mut all {
        let mut seen = std::collections::BTreeSet::new();
        culprit.evidence.retain(|evidence| seen.insert(evidence.clone()));
    }
    all
}

fn of_deviation(deviation: &Deviation) -> Culprit {
    let suspect = match (deviation.kind, deviation.partner) {
        (Kind::Swapped, Some(other)) => Suspect::Swapped([deviation.node, other]),
        (_, Some(partner)) => Suspect::Link([deviation.node.min(partner), deviation.node.max(partner)]),
        (_, None) => Suspect::Node(deviation.node),
    };
    Culprit { suspect, evidence: vec![deviation.text.clone()] }
}

#[cfg(test)]
mod tests {
    use tieline::NodeId;

    use super::*;

    #[test]
    fn a_swap_that_two_steps_saw_is_one_culprit() {
        let id = |number| NodeId::new(number).unwrap();
        let mut swap = Culprit::swapped([id(8), id(12)]);
        swap.evidence.push("as seen by node 4".into());
        let names = NamesReport { swapped: vec![[id(8), id(12)]], ..NamesReport::of_nobody() };
        let exchange = ExchangeReport::of_nothing();
        let findings = Findings {
            changes: &Changes::default(),
            cable: None,
            swaps: &Swaps::default(),
            names: &names,
            exchange: &exchange,
            load: None,
            pairs: None,
            pair: &[],
        };
        let all = culprits(&[id(4), id(8), id(12)], &findings);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].suspect, swap.suspect);
    }

    #[test]
    fn what_one_pair_shows_blames_its_link_unless_a_node_of_it_is_to_blame() {
        let id = |number| NodeId::new(number).unwrap();
        let pair = [Culprit {
            suspect: Suspect::Link([id(4), id(8)]),
            evidence: vec!["latency: it did not answer".into()],
        }];
        let names = NamesReport::of_nobody();
        let exchange = ExchangeReport::of_nothing();
        let blamed = |changes: &Changes| {
            let findings = Findings {
                changes,
                cable: None,
                swaps: &Swaps::default(),
                names: &names,
                exchange: &exchange,
                load: None,
                pairs: None,
                pair: &pair,
            };
            culprits(&[id(4), id(8), id(12)], &findings)
        };
        let alone = blamed(&Changes::default());
        assert_eq!(alone, pair, "named as any other link");
        let node = Culprit { suspect: Suspect::Node(id(8)), evidence: vec!["it was restarted".into()] };
        let with_node = blamed(&Changes { culprits: vec![node], ..Changes::default() });
        assert_eq!(with_node.len(), 1, "{with_node:?}");
        assert_eq!((&with_node[0].suspect, with_node[0].evidence.len()), (&Suspect::Node(id(8)), 2));
    }
}
