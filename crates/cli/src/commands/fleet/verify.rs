//! `tieline fleet verify`.

use std::fmt::Write;

use ::fleet::{Deviation, Expected, Rules, Verified, fold, read_rules};
use serde_json::{Value, json};

use super::{Reach, places};
use crate::args::FleetVerify;
use crate::exit::{FAIL, Outcome, PASS};
use crate::output::Output;

pub(super) fn run(arguments: &FleetVerify, output: Output) -> Outcome {
    let rules = arguments.rules.as_deref().map(read_rules).transpose()?.unwrap_or_else(Rules::default);
    if arguments.select.resume.is_some() {
        return Err(super::super::usage("`tieline fleet verify` compares all hosts: leave out --resume"));
    }
    let reach = Reach::new(&arguments.select)?;
    let all = reach.many().verify(&reach.hosts, &arguments.services, &rules, || {
        output.passing("collecting the facts of the hosts");
    });
    output.progress_done();
    if let Some(path) = &arguments.select.punch_list {
        let failed = failed(&all);
        places::punch(path, failed.iter().map(|(host, kind, why)| (*host, *kind, why.as_str())))?;
    }
    output.form(
        "tieline.fleet-verify/1",
        || Ok(to_json(&all)),
        || {
            let facts = if arguments.facts { facts(&all) } else { String::new() };
            facts + &to_text(&all)
        },
    )?;
    let is_right = all.deviations.is_empty() && all.hosts.iter().all(|(_, facts)| facts.is_ok());
    Ok(if is_right { PASS } else { FAIL })
}

/// What was expected, in words.
fn expected(of: &Expected) -> String {
    match of {
        Expected::Rule(rule) => format!("the rule is `{rule}`"),
        Expected::Majority { value, have: 0, .. } => format!("expected: {value}"),
        Expected::Majority { value, have, of } => format!("{have} of {of} hosts have {value}"),
        Expected::NoMajority => "hosts differ, and no value is that of most".to_owned(),
    }
}

fn sentence(one: &Deviation) -> String {
    format!("{} is {} ({})", one.fact, one.value, expected(&one.expected))
}

fn to_text(all: &Verified) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    for one in &all.deviations {
        let _ = writeln!(text, "{}: {}", fold(one.hosts.iter().map(String::as_str)), sentence(one));
    }
    let silent = all.hosts.iter().filter_map(|(host, facts)| Some((host, facts.as_ref().err()?)));
    for (host, failure) in silent.clone() {
        let _ = writeln!(text, "{host}: FAILED: {}", failure.why);
    }
    let failed = silent.count();
    let mut deviating: Vec<&String> = all.deviations.iter().flat_map(|one| &one.hosts).collect();
    deviating.sort();
    deviating.dedup();
    let hosts = all.hosts.len();
    let _ = match (deviating.len(), failed) {
        (0, 0) => writeln!(text, "{hosts} hosts, none deviates"),
        (some, 0) => writeln!(text, "{some} of {hosts} hosts deviate"),
        (some, failed) => writeln!(text, "{some} of {hosts} hosts deviate, {failed} could not be examined"),
    };
    text
}

fn facts(all: &Verified) -> String {
    let mut text = String::new();
    for (host, facts) in all.hosts.iter().filter_map(|(host, facts)| Some((host, facts.as_ref().ok()?))) {
        let _ = writeln!(text, "---- {host} ----");
        for (name, value) in facts {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    text
}

/// Each host that could not be examined, or deviates, with the kind and the reason.
fn failed(all: &Verified) -> Vec<(&str, &'static str, String)> {
    let mut failed = Vec::new();
    for (host, facts) in &all.hosts {
        if let Err(failure) = facts {
            failed.push((host.as_str(), failure.kind.name(), failure.why.clone()));
        }
        let deviations = all.deviations.iter().filter(|one| one.hosts.contains(host));
        failed.extend(deviations.map(|one| (host.as_str(), places::DEVIATES, sentence(one))));
    }
    failed
}

fn to_json(all: &Verified) -> Value {
    let hosts = all.hosts.iter().map(|(host, facts)| match facts {
        Ok(facts) => json!({ "host": host, "facts": facts }),
        Err(failure) => {
            json!({ "host": host, "facts": null, "kind": failure.kind.name(), "error": failure.why })
        }
    });
    let deviations = all.deviations.iter().map(|one| {
        let (rule, usual, have) = match &one.expected {
            Expected::Rule(rule) => (Some(rule), None, None),
            Expected::Majority { value, have, .. } => (None, Some(value), Some(have)),
            Expected::NoMajority => (None, None, None),
        };
        json!({ "hosts": one.hosts, "fact": one.fact, "value": one.value, "rule": rule, "usual": usual, "usual_hosts": have })
    });
    json!({ "hosts": hosts.collect::<Vec<_>>(), "deviations": deviations.collect::<Vec<_>>() })
}
