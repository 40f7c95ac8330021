//! From what the steps found to who is to blame, and what to do next.

use tieline::NodeId;

use super::closing::Changes;
use super::{Step, Verdict};
use crate::cable::{CableReport, Deviation, Kind};
use crate::conntest::ConntestReport;
use crate::culprit::{self, Culprit, Suspect};
use crate::exchange::ExchangeReport;
use crate::pairs::{NamesReport, PairsReport};

/// What speaks against somebody.
pub(super) struct Findings<'a> {
    pub(super) changes: &'a Changes,
    pub(super) cable: Option<&'a CableReport>,
    pub(super) names: &'a NamesReport,
    pub(super) exchange: &'a ExchangeReport,
    pub(super) load: Option<&'a ConntestReport>,
    pub(super) pairs: Option<&'a PairsReport>,
}

/// What all steps say, each culprit once.
pub(super) fn culprits(nodes: &[NodeId], findings: &Findings<'_>) -> Vec<Culprit> {
    let Findings { changes, cable, names, exchange, load, pairs } = findings;
    let failed: Vec<_> = exchange
        .failures()
        .filter(|pair| names.obstacle(pair.from, pair.to).is_none())
        .map(|pair| {
            let error = pair.error.as_deref().unwrap_or_default();
            let ends = [pair.from.min(pair.to), pair.from.max(pair.to)];
            (ends, format!("from node {} to node {}, {error}", pair.from, pair.to))
        })
        .collect();
    let said = cable
        .iter()
        .flat_map(|cable| cable.deviations.iter().map(of_deviation))
        .chain(changes.culprits.iter().cloned())
        .chain(names.culprits(nodes))
        .chain(culprit::name(nodes, &failed))
        .chain(load.iter().flat_map(|load| load.culprits.clone()))
        .chain(pairs.iter().flat_map(|pairs| pairs.culprits.clone()));
    let mut all: Vec<Culprit> = Vec::new();
    for culprit in said {
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

/// What to do next, the most telling first.
pub(super) fn advice(culprits: &[Culprit], steps: &[Step], partial: Option<&str>) -> Vec<String> {
    let mut advice: Vec<String> = culprits.iter().map(Culprit::next_step).collect();
    let unsure: Vec<&str> = steps
        .iter()
        .filter(|step| step.verdict == Verdict::Inconclusive && !step.detail.starts_with(super::SKIPPED))
        .map(|step| step.name)
        .collect();
    if !unsure.is_empty() && partial.is_none() {
        let what = unsure.join(", ");
        advice.push(format!(
            "{what}: too close to the limit to say; measure longer with `tieline verify --thorough`"
        ));
    }
    if let Some(why) = partial {
        advice.push(format!("this is a part of the whole ({why}): run `tieline verify` to its end"));
    }
    advice
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
        let names = NamesReport {
            right: 0,
            obstacles: Vec::new(),
            swapped: vec![[id(8), id(12)]],
            error: None,
            verdict: Verdict::Fail,
        };
        let exchange = ExchangeReport { pairs: Vec::new(), verdict: Verdict::Pass };
        let findings = Findings {
            changes: &Changes::default(),
            cable: None,
            names: &names,
            exchange: &exchange,
            load: None,
            pairs: None,
        };
        let all = culprits(&[id(4), id(8), id(12)], &findings);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].suspect, swap.suspect);
        let advice = advice(&all, &[], Some("ended early by a signal"));
        assert!(advice[0].contains("nodes 8 and 12") && advice[1].contains("to its end"), "{advice:?}");
    }
}
