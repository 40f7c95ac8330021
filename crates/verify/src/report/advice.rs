//! What to do next: the document's own advice, else what follows from what failed.

use serde_json::Value;

use super::culprits::{Culprit, Suspect};
use super::facts::Facts;
use super::read::{Judged, Read};
use super::troubles::Trouble;

/// So many pieces; after that nobody reads on.
const MOST: usize = 8;

/// One sentence or two each, the most important first.
pub(super) fn all(document: &Value, facts: &Facts, culprits: &[Culprit], troubles: &[Trouble]) -> Vec<String> {
    let given = document.texts("advice");
    if !given.is_empty() {
        return given.into_iter().take(MOST * 2).map(Into::into).collect();
    }
    let mut advice: Vec<String> = Vec::new();
    advice.extend(culprits.iter().map(|culprit| about(culprit, facts)));
    for node in document.items("status.nodes").iter().filter(|node| node.has("error") && !node.has("status")) {
        let id = node.count("node");
        let log = node.text("log").map_or(String::new(), |log| format!(" Its log is {log}."));
        advice.push(format!(
            "Node {id} does not answer: look at its machine, then restart its manager with `tieline node restart --node {id}`.{log}"
        ));
    }
    let verdict = document.verdict();
    let failed = verdict == Some(Judged::Fail);
    if advice.is_empty() && failed {
        let errors: Vec<&Trouble> = troubles.iter().filter(|trouble| trouble.is_error).collect();
        advice.extend(errors.iter().take(3).map(|trouble| format!("{}: {}", trouble.place, trouble.text)));
    }
    if failed {
        advice.push("When that is repaired, run `tieline verify` again: a link counts as good once a whole run has passed.".into());
    }
    let unsure: Vec<String> = document
        .items("steps")
        .iter()
        .filter(|step| step.verdict() == Some(Judged::Unsure))
        .map(|step| super::steps::title(&step.text("name").unwrap_or_default()).into_owned())
        .collect();
    if !unsure.is_empty() {
        let what = unsure.join(", ");
        advice.push(format!(
            "Not sure: {what}. The machine was too busy or too unsteady to judge; run it again when nothing else runs on it."
        ));
    }
    if document.has("partial") && document.at("partial").as_bool() != Some(false) {
        advice.push("This run did not come to its end; run it again before you rely on it.".into());
    }
    if advice.is_empty() && verdict == Some(Judged::Pass) {
        advice.push("Nothing needs to be done. Keep this report: a later one beside it shows what has changed.".into());
    }
    advice.truncate(MOST);
    advice
}

fn about(culprit: &Culprit, facts: &Facts) -> String {
    let name = culprit.suspect.name();
    match culprit.suspect {
        Suspect::Link(a, b) => {
            let others = facts.pairs.iter().filter(|((from, to), _)| {
                [a, b].contains(from) != [a, b].contains(to)
            });
            let (mut good, mut all) = (0, 0);
            for (_, pair) in others {
                all += 1;
                good += usize::from(!pair.is_bad());
            }
            let ends = if all > 0 && good == all {
                format!(" All other links of nodes {a} and {b} are good, so both nodes work and the fault lies in this link.")
            } else {
                String::new()
            };
            format!(
                "{name}: take work off it, check or replace its cable and ports, and look at its counters with `tieline diag --node {a}` and `tieline diag --node {b}`.{ends}"
            )
        }
        Suspect::Node(node) => format!(
            "{name}: most of its links are bad and no link without it is, so look at the node itself, not at cables: its load, its memory, its log, `tieline diag --node {node}`."
        ),
        Suspect::Swapped(a, b) => format!(
            "{name}: exchange the two cables, or correct the plan; who calls node {a} reaches node {b}."
        ),
        Suspect::Other(_) => format!("{name}: read the evidence."),
    }
}
