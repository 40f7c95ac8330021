//! The result of a study as text.

use super::{Judged, Loss, Quality, Routed};

/// What is said of tables that were made.
#[must_use]
pub fn routed(switches: usize, identifiers: usize, routed: &Routed) -> String {
    let mut text = format!("engine: {}: {}\n", routed.engine.word(), routed.why);
    for remark in &routed.routing.remarks {
        text.push_str(&format!("  {remark}\n"));
    }
    text.push_str(&format!(
        "tables: {switches} switches, {identifiers} identifiers, made in {:.3} s, checked in {:.3} s\n",
        routed.seconds[0], routed.seconds[1]
    ));
    text
}

/// What the checker said.
#[must_use]
pub fn judged(judged: &Judged) -> String {
    let mut text = format!(
        "check: {} of {} pairs reach each other, over at most {} switches, on {} lanes\n",
        judged.pairs - judged.lost - judged.lost_aggregation - judged.cut,
        judged.pairs,
        judged.most_switches,
        judged.lanes
    );
    if judged.pairs == 0 {
        text.push_str("FAILED nothing to check: no switch carries a host\n");
    }
    if judged.cut > 0 {
        text.push_str(&format!("FAILED cut: {} pairs have no way of cables\n", judged.cut));
    }
    if judged.lost > 0 {
        text.push_str(&format!("FAILED unreachable: the tables lose {} pairs\n", judged.lost));
        for finding in &judged.findings {
            text.push_str(&format!("  {finding}\n"));
        }
    }
    if judged.lost_aggregation > 0 {
        text.push_str(&format!(
            "WARNING {} pairs with an aggregation node have no route: there is none up and down, and no lane was left for another\n",
            judged.lost_aggregation
        ));
    }
    if judged.lost_switches > 0 {
        text.push_str(&format!("WARNING the tables lose {} ways to or from switches: managers reach those by directed routes only\n", judged.lost_switches));
    }
    if judged.credit_loop.is_empty() {
        text.push_str("no credit loop between hosts; traffic to LIDs of switches is not judged\n");
    } else {
        let count = judged.credit_loop.len();
        text.push_str(&match &judged.not_judged {
            None => format!("FAILED credit loop of {count} cables:\n"),
            Some(why) => {
                format!(
                    "OPEN a credit loop of {count} cables if all traffic uses one lane; {why}; not judged:\n"
                )
            }
        });
        for wait in judged.credit_loop.iter().take(20) {
            text.push_str(&format!("  {wait}\n"));
        }
    }
    text
}

/// Names of the rows of a quality, and their values.
fn rows(quality: &Quality) -> Vec<(&'static str, String)> {
    let hops: Vec<String> = quality.hops.iter().map(|(cables, pairs)| format!("{cables}: {pairs}")).collect();
    let pair = |pair: &Option<(String, String)>| {
        pair.as_ref().map_or_else(|| "-".to_owned(), |(from, to)| format!("{from} to {to}"))
    };
    let at = |place: &Option<String>| place.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
    vec![
        ("destinations a port up, most", format!("{}{}", quality.most_up, at(&quality.most_up_at))),
        ("  mean", format!("{:.1}", quality.mean_up)),
        ("destinations a port down, most", format!("{}{}", quality.most_down, at(&quality.most_down_at))),
        ("  mean", format!("{:.1}", quality.mean_down)),
        ("pairs by cables", hops.join(", ")),
        ("pairs lost", quality.lost.to_string()),
        ("a longest way", pair(&quality.longest)),
        ("effective bisection", format!("{:.1} %", quality.bisection * 100.0)),
        ("  worst pattern", format!("{:.1} %", quality.bisection_worst * 100.0)),
        ("shifts", format!("{:.1} %", quality.shift * 100.0)),
        ("  worst shift", format!("{:.1} %", quality.shift_worst * 100.0)),
        ("a worst pair", pair(&quality.worst_pair)),
        (
            "single points of failure",
            format!(
                "{} switches, {} cables, {} hosts with one cable",
                quality.single.switches.len(),
                quality.single.cables.len(),
                quality.single.hosts_with_one_cable
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
        text.push_str(&format!("  {kind} {name}: {hosts} hosts on the smaller side\n"));
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
        text.push_str("FAILED the fabric falls apart: hosts are cut off from others\n");
    } else if loss.cut_off.is_empty() {
        text.push_str("no host is cut off\n");
    }
    if !loss.cut_off.is_empty() {
        let shown: Vec<&str> = loss.cut_off.iter().take(20).map(String::as_str).collect();
        text.push_str(&format!("FAILED {} hosts are cut off: {}\n", loss.cut_off.len(), shown.join(", ")));
    }
    text.push_str(&format!(
        "{} entries of {} switches change: {} blocks to write\n",
        loss.entries, loss.switches, loss.blocks
    ));
    text.push_str(&judged(&loss.judged));
    text.push_str(&beside(["before", "after"], &loss.before, &loss.after));
    text
}
