//! From what the steps found to who is to blame, and what to do next.

use tieline::NodeId;

use super::closing::Changes;
use super::{Step, Verdict};
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

/// The command as it was started, whatever the path of its program, for a shell.
fn as_started(argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().skip(1).map(|word| for_shell(word)).collect();
    format!("tieline {}", if words.is_empty() { "verify".to_owned() } else { words.join(" ") })
}

/// A word that a shell takes for what it is.
fn for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What to do next, the most telling first.
pub(super) fn advice(
    culprits: &[Culprit],
    steps: &[Step],
    busy: Option<&str>,
    partial: Option<&str>,
    argv: &[String],
) -> Vec<String> {
    let mut advice: Vec<String> = culprits.iter().map(Culprit::next_step).collect();
    let in_doubt =
        |step: &&Step| step.verdict == Verdict::Inconclusive && !step.detail.starts_with(super::SKIPPED);
    let (spoilt, unsure): (Vec<&Step>, Vec<&Step>) =
        steps.iter().filter(in_doubt).partition(|step| busy.is_some() && super::busy::is_spoilt(step));
    let names = |steps: &[&Step]| steps.iter().map(|step| step.name).collect::<Vec<_>>();
    let (spoilt, unsure) = (names(&spoilt), names(&unsure));
    if let Some(why) = busy.filter(|_| !spoilt.is_empty()) {
        let what = spoilt.join(", ");
        advice.push(format!("{what}: {why}; run it again when that work has ended, or end it"));
    }
    if !unsure.is_empty() && partial.is_none() {
        let what = unsure.join(", ");
        advice.push(format!(
            "{what}: too close to the limit to say; measure longer with `tieline verify --thorough`"
        ));
    }
    // Each step says the same.
    let skipped = steps.iter().filter(|step| step.verdict == Verdict::Inconclusive);
    let mut skipped = skipped.filter_map(|step| step.detail.strip_prefix(super::SKIPPED)).collect::<Vec<_>>();
    skipped.dedup();
    advice.extend(skipped.into_iter().map(|why| format!("not everything could be tested: {why}")));
    if let Some(why) = partial {
        advice.push(format!("this is a part of the whole ({why}): run `{}` to its end", as_started(argv)));
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
        let argv = ["/opt/tieline", "verify", "--report", "Bob's page.html"].map(str::to_owned);
        assert_eq!(as_started(&argv), r"tieline verify --report 'Bob'\''s page.html'");
        let argv = ["/opt/tieline", "verify", "--running", "--quick"].map(str::to_owned);
        let advice = advice(&all, &[], None, Some("ended early by a signal"), &argv);
        assert!(
            advice[0].contains("nodes 8 and 12")
                && advice[1].contains("`tieline verify --running --quick` to its end"),
            "{advice:?}"
        );
    }

    #[test]
    fn who_is_in_doubt_because_of_other_work_is_not_told_to_measure_longer() {
        let step = |name, others_percent| Step {
            name,
            verdict: Verdict::Inconclusive,
            detail: String::new(),
            duration_s: 1.0,
            load: bench::noise::others::Load {
                processors: 2,
                others_percent: Some(others_percent),
                waited_percent: None,
            },
        };
        let steps = [step("pairs", 80.0), step("scipp", 1.0)];
        let busy = super::super::busy::reason(&steps);
        let both = advice(&[], &steps, busy.as_deref(), None, &[]);
        assert!(both[0].starts_with("pairs: the machine was busy: other work had 80 %"), "{both:?}");
        assert!(!both[0].contains("longer") && both[1].starts_with("scipp: too close"), "{both:?}");
        assert!(advice(&[], &[step("scipp", 1.0)], None, None, &[])[0].contains("measure longer"));
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
        assert!(advice(&alone, &[], None, None, &[])[0].starts_with("link 4-8:"));
        let node = Culprit { suspect: Suspect::Node(id(8)), evidence: vec!["it was restarted".into()] };
        let with_node = blamed(&Changes { culprits: vec![node] });
        assert_eq!(with_node.len(), 1, "{with_node:?}");
        assert_eq!((&with_node[0].suspect, with_node[0].evidence.len()), (&Suspect::Node(id(8)), 2));
    }
}
