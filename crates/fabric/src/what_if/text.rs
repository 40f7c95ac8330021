//! The results as text.

use topology::{counted, verb};

use super::{Judged, Loss, Quality, Routed};

/// The text about computed tables.
#[must_use]
pub fn routed(switches: usize, lids: usize, routed: &Routed) -> String {
    let mut text = format!("engine: {}: {}\n", routed.engine.word(), routed.why);
    for note in &routed.routing.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text.push_str(&format!(
        "forwarding tables (LFTs): {}, {}, computed in {:.3} s, checked in {:.3} s\n",
        counted(switches, "switch"),
        counted(lids, "LID"),
        routed.seconds[0],
        routed.seconds[1]
    ));
    text
}

/// The text about a check.
#[must_use]
pub fn judged(judged: &Judged) -> String {
    let mut text = format!(
        "check: {} of {} of a leaf switch and a destination LID routed, over at most {}, on {}\n",
        judged.pairs - judged.lost - judged.lost_aggregation - judged.cut,
        counted(judged.pairs, "pair"),
        counted(judged.most_switches, "switch"),
        counted(judged.vls, "VL")
    );
    if judged.pairs == 0 {
        text.push_str("FAILED nothing to check: no CA is connected to a switch\n");
    }
    if judged.cut > 0 {
        text.push_str(&format!(
            "FAILED partitioned: no cables connect the two ends of {}\n",
            counted(judged.cut, "pair")
        ));
    }
    if judged.lost > 0 {
        text.push_str(&format!("FAILED unreachable: {} without a route\n", counted(judged.lost, "pair")));
        for finding in &judged.findings {
            text.push_str(&format!("  {finding}\n"));
        }
    }
    if judged.lost_aggregation > 0 {
        text.push_str(&format!(
            "WARNING {} with an aggregation node {} no route: no up/down route exists, and no VL was free for another\n",
            counted(judged.lost_aggregation, "pair"),
            verb(judged.lost_aggregation, "has", "have")
        ));
    }
    if judged.lost_switches > 0 {
        text.push_str(&format!(
            "WARNING {} to or from switches {} missing: subnet managers reach those switches by directed routes (DR) only\n",
            counted(judged.lost_switches, "route"),
            verb(judged.lost_switches, "is", "are")
        ));
    }
    text.push_str(&credit_loop(judged));
    text
}

fn credit_loop(judged: &Judged) -> String {
    if judged.credit_loop.is_empty() {
        return "no credit loop between CAs; traffic to LIDs of switches is not judged\n".to_owned();
    }
    let cables = counted(judged.credit_loop.len(), "cable");
    let mut text = match &judged.not_judged {
        None => format!("FAILED credit loop (deadlock) of {cables}:\n"),
        Some(why) => {
            format!(
                "INCONCLUSIVE possible credit loop of {cables}, if all traffic uses one VL; {why}; not judged:\n"
            )
        }
    };
    for wait in judged.credit_loop.iter().take(20) {
        text.push_str(&format!("  {wait}\n"));
    }
    text
}

/// Names of the rows of a quality, and their values.
fn rows(quality: &Quality) -> Vec<(&'static str, String)> {
    let hops: Vec<String> = quality.hops.iter().map(|(links, pairs)| format!("{links}: {pairs}")).collect();
    let pair = |pair: &Option<(String, String)>| {
        pair.as_ref().map_or_else(|| "-".to_owned(), |(from, to)| format!("{from} to {to}"))
    };
    let at = |place: &Option<String>| place.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
    vec![
        ("max LIDs routed per uplink", format!("{}{}", quality.most_up, at(&quality.most_up_at))),
        ("  mean", format!("{:.1}", quality.mean_up)),
        ("max LIDs routed per downlink", format!("{}{}", quality.most_down, at(&quality.most_down_at))),
        ("  mean", format!("{:.1}", quality.mean_down)),
        ("hop histogram, links: CA pairs", hops.join(", ")),
        ("CA pairs without a route", quality.lost.to_string()),
        ("a max-hop path", pair(&quality.longest)),
        ("effective bisection bandwidth", format!("{:.1} %", quality.bisection * 100.0)),
        ("  worst pattern", format!("{:.1} %", quality.bisection_worst * 100.0)),
        ("shift patterns", format!("{:.1} %", quality.shift * 100.0)),
        ("  worst shift", format!("{:.1} %", quality.shift_worst * 100.0)),
        ("a most congested CA pair", pair(&quality.worst_pair)),
        (
            "single points of failure",
            format!(
                "{}, {}, {} with one cable",
                counted(quality.single.switches.len(), "switch"),
                counted(quality.single.cables.len(), "cable"),
                counted(quality.single.hosts_with_one_cable, "CA")
            ),
        ),
    ]
}

/// What tables are worth.
#[must_use]
pub fn quality(quality: &Quality) -> String {
    let mut text: String =
        rows(quality).into_iter().map(|(name, value)| format!("{name:<32}{value}\n")).collect();
    let switches = quality.single.switches.iter().map(|one| ("switch", one));
    let cables = quality.single.cables.iter().map(|one| ("cable", one));
    for (kind, (name, hosts)) in switches.chain(cables).take(20) {
        text.push_str(&format!("  {kind} {name}: {} on the smaller side\n", counted(*hosts, "CA")));
    }
    text
}

/// Two of them side by side.
#[must_use]
pub fn beside(names: [&str; 2], one: &Quality, other: &Quality) -> String {
    let (one, other) = (rows(one), rows(other));
    let width = one.iter().map(|row| row.1.len()).chain([names[0].len()]).max().unwrap_or(0) + 2;
    let mut text = format!("{:<32}{:<width$}{}\n", "", names[0], names[1]);
    for ((name, before), (_, after)) in one.iter().zip(&other) {
        let mark = if before == after { "" } else { "  *" };
        text.push_str(&format!("{name:<32}{before:<width$}{after}{mark}\n"));
    }
    text
}

/// What a loss would do.
#[must_use]
pub fn loss(loss: &Loss) -> String {
    let mut text = format!("without {}, routed by {}:\n", loss.without.join(", "), loss.engine);
    if loss.judged.cut > 0 {
        text.push_str("FAILED the fabric is partitioned: CAs are disconnected from others\n");
    } else if loss.cut_off.is_empty() {
        text.push_str("no CA is disconnected\n");
    }
    if !loss.cut_off.is_empty() {
        let shown: Vec<&str> = loss.cut_off.iter().take(20).map(String::as_str).collect();
        let count = loss.cut_off.len();
        let is = verb(count, "is", "are");
        text.push_str(&format!("FAILED {} {is} disconnected: {}\n", counted(count, "CA"), shown.join(", ")));
    }
    text.push_str(&format!(
        "{} of {} {}: {} to write\n",
        counted(loss.entries, "LFT entry"),
        counted(loss.switches, "switch"),
        verb(loss.entries, "changes", "change"),
        counted(loss.blocks, "LFT block")
    ));
    text.push_str(&judged(&loss.judged));
    text.push_str(&beside(["before", "after"], &loss.before, &loss.after));
    text
}
