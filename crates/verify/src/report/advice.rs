//! The next steps: the document's own advice, else what follows from the failures.

use serde_json::Value;

use super::facts::Facts;
use super::read::{Judged, Read};
use super::suspects::{Suspect, Suspected};
use super::troubles::Trouble;

/// The most pieces of advice; more are not read.
const MOST: usize = 8;

/// One sentence or two each, the most important first.
pub(super) fn all(
    document: &Value,
    facts: &Facts,
    suspects: &[Suspected],
    troubles: &[Trouble],
) -> Vec<String> {
    let given = document.texts("advice");
    if !given.is_empty() {
        return given.into_iter().take(MOST * 2).map(Into::into).collect();
    }
    let mut advice: Vec<String> = Vec::new();
    advice.extend(about(document, suspects, facts));
    for node in document.items("status.nodes").iter().filter(|node| node.has("error") && !node.has("status"))
    {
        let id = node.count("node");
        let log = node.text("log").map_or(String::new(), |log| format!(" Its log is {log}."));
        advice.push(format!(
            "Node {id} does not respond: check its machine, then restart its manager with `tieline node restart --node {id}`.{log}"
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
        advice.push(
            "Nothing needs to be done. Keep this report: a later one beside it shows what has changed."
                .into(),
        );
    }
    advice.truncate(MOST);
    advice
}

/// One piece for all bad links, one for each other suspect.
fn about(document: &Value, suspects: &[Suspected], facts: &Facts) -> Vec<String> {
    let links: Vec<(u64, u64)> = suspects
        .iter()
        .filter_map(|suspected| match suspected.suspect {
            Suspect::Link(a, b) => Some((a, b)),
            _ => None,
        })
        .collect();
    let mut advice: Vec<String> =
        suspects.iter().filter_map(|suspected| about_other(&suspected.suspect)).collect();
    if !links.is_empty() {
        advice.insert(0, about_links(document, &links, facts));
    }
    advice
}

fn about_links(document: &Value, links: &[(u64, u64)], facts: &Facts) -> String {
    let names: Vec<String> = links.iter().take(MOST).map(|(a, b)| format!("{a}–{b}")).collect();
    let (names, one) = match &names[..] {
        [one] => (format!("Link {one}"), true),
        [first @ .., last] => (format!("Links {} and {last}", first.join(", ")), false),
        [] => return String::new(),
    };
    let (it, its, lies) = if one { ("it", "its", "this link") } else { ("them", "their", "these links") };
    let look = if !super::nodes::faults(document).is_empty() {
        "Faults were switched on on purpose on this cluster; `tieline link clear` ends them".to_owned()
    } else if is_one_machine(document) {
        format!(
            "Both ends are on one machine, so there is no cable: `tieline link list` shows what was done to {it}, `tieline diag` counts what was lost"
        )
    } else {
        format!("Check or replace {its} cable and ports, and read {its} counters with `tieline diag`")
    };
    let ends = if others_are_good(links, facts) {
        format!(
            " All other links of the nodes at {its} ends are good: those nodes work, the fault lies in {lies}."
        )
    } else {
        String::new()
    };
    format!("{names}: take work off {it}. {look}.{ends}")
}

/// Whether nothing is said against any other link of the nodes at the ends of these.
fn others_are_good(links: &[(u64, u64)], facts: &Facts) -> bool {
    let is_end = |node: &u64| links.iter().any(|(a, b)| a == node || b == node);
    let is_blamed = |from: u64, to: u64| links.contains(&(from, to)) || links.contains(&(to, from));
    let mut others = facts
        .pairs
        .iter()
        .filter(|((from, to), _)| (is_end(from) || is_end(to)) && !is_blamed(*from, *to))
        .map(|(_, pair)| pair.is_bad())
        .peekable();
    others.peek().is_some() && others.all(|bad| !bad)
}

fn is_one_machine(document: &Value) -> bool {
    let adapters = document.items("status.nodes").iter().flat_map(|node| node.items("status.info.adapters"));
    let mut kinds = adapters.filter_map(|adapter| adapter.at("kind").as_str()).peekable();
    kinds.peek().is_some() && kinds.all(|kind| kind == "shm")
}

fn about_other(suspect: &Suspect) -> Option<String> {
    let name = suspect.name();
    match suspect {
        Suspect::Link(..) => None,
        Suspect::Node(node) => Some(format!(
            "{name}: most of its links are bad and no link without it is, so check the node, not the cables: its load, its memory, its log, `tieline diag --node {node}`."
        )),
        Suspect::Swapped(a, b) => Some(format!(
            "{name}: exchange their cables, or correct the plan; connections to node {a} reach node {b}."
        )),
        Suspect::Other(_) => Some(format!("{name}: read the evidence below.")),
    }
}
