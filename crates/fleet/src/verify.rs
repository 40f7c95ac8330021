//! Compares the facts of hosts with rules and with each other, and names who deviates.

mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::reasons::Failure;
use crate::remote::{Answer, OnMany};
use crate::ssh::quoted;

pub use rules::{Rules, read_rules};

/// Prints the facts, on a host.
pub(crate) const SCRIPT: &str = include_str!("facts.sh");
/// More facts of one host are none.
const FACTS_BYTES_MAX: u64 = 1 << 20;
/// The fact with the host's clock, which is compared with this host's.
const CLOCK: &str = "clock";
/// A clock may differ by so much, besides what the connection took.
const CLOCK_S: u64 = 1;
/// What stands for a fact that a host does not have.
const NONE: &str = "none";

/// What is known of a host: by the name of the fact, its value.
pub type Facts = BTreeMap<String, String>;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// The hosts with this value.
    pub hosts: Vec<String>,
    /// The fact.
    pub fact: String,
    /// Its value there.
    pub value: String,
    /// What was expected.
    pub expected: Expected,
}

/// What a value is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// A rule, as it stands in the file.
    Rule(String),
    /// The value of so many of so many hosts.
    Majority {
        /// Their value.
        value: String,
        /// How many have it.
        have: usize,
        /// How many there are.
        of: usize,
    },
    /// No value is that of more than half of the hosts.
    NoMajority,
}

/// What came of it.
#[derive(Debug)]
pub struct Verified {
    /// By host: its facts, or why there are none; in the order of the list.
    pub hosts: Vec<(String, Result<Facts, Failure>)>,
    /// By fact.
    pub deviations: Vec<Deviation>,
}

impl OnMany<'_> {
    /// Collects the facts of each host, and compares them. `services` are units of systemd whose state is a
    /// fact.
    pub fn verify(
        &self,
        hosts: &[String],
        services: &[String],
        rules: &Rules,
        idle: impl FnMut(),
    ) -> Verified {
        let command = format!("services={}\n{SCRIPT}", quoted(&services.join(" ")));
        let mut all: Vec<Option<Result<Facts, Failure>>> = hosts.iter().map(|_| None).collect();
        let began = SystemTime::now();
        self.run(
            hosts,
            &command,
            |number, answer| {
                if let Some(slot) = all.get_mut(number) {
                    *slot = Some(facts(answer, began));
                }
            },
            idle,
        );
        let all = hosts.iter().cloned().zip(all);
        let all: Vec<_> = all.filter_map(|(host, facts)| Some((host, facts?))).collect();
        let known: Vec<(&str, &Facts)> =
            all.iter().filter_map(|(host, facts)| Some((host.as_str(), facts.as_ref().ok()?))).collect();
        let deviations = deviations(&known, rules);
        Verified { hosts: all, deviations }
    }
}

fn facts(mut answer: Answer, began: SystemTime) -> Result<Facts, Failure> {
    if let Some(failure) = answer.failure {
        return Err(failure);
    }
    let text = answer.out.first(FACTS_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let pair = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        let plain = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
        Some((plain(name), plain(value.trim())))
    };
    let mut facts: Facts = text.lines().filter_map(pair).collect();
    if let Some(clock) = facts.get_mut(CLOCK) {
        *clock = compared(clock, began, SystemTime::now(), answer.took);
    }
    Ok(facts)
}

/// A clock that shows no time between the start of the connection and its end is wrong, or this one is.
fn compared(clock: &str, began: SystemTime, now: SystemTime, took: Duration) -> String {
    let Ok(theirs) = clock.parse::<u64>() else { return clock.to_owned() };
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let earliest = seconds(began.max(now.checked_sub(took).unwrap_or(began)));
    if theirs + CLOCK_S < earliest {
        format!("{} s behind", earliest - theirs)
    } else if theirs > seconds(now) + CLOCK_S {
        format!("{} s ahead", theirs - seconds(now))
    } else {
        "as here".to_owned()
    }
}

fn deviations(hosts: &[(&str, &Facts)], rules: &Rules) -> Vec<Deviation> {
    let mut found = rules.broken(hosts);
    let names: BTreeSet<&String> = hosts.iter().flat_map(|(_, facts)| facts.keys()).collect();
    for fact in names.into_iter().filter(|fact| !rules.covers(fact)) {
        let mut by_value: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (host, facts) in hosts {
            let value = facts.get(fact).map_or(NONE, String::as_str);
            by_value.entry(value).or_default().push((*host).to_owned());
        }
        if by_value.len() == 1 && fact != CLOCK {
            continue;
        }
        let majority = by_value.iter().find(|(_, with)| with.len() * 2 > hosts.len());
        let expected = match majority {
            // Clocks are compared with this one, whatever most of them show.
            _ if fact == CLOCK => Expected::Majority {
                value: "as here".into(),
                have: count(&by_value, "as here"),
                of: hosts.len(),
            },
            Some((value, with)) => {
                Expected::Majority { value: (*value).to_owned(), have: with.len(), of: hosts.len() }
            }
            None => Expected::NoMajority,
        };
        for (value, hosts) in &by_value {
            if matches!(&expected, Expected::Majority { value: usual, .. } if usual == value) {
                continue;
            }
            found.push(Deviation {
                hosts: hosts.clone(),
                fact: fact.clone(),
                value: (*value).to_owned(),
                expected: expected.clone(),
            });
        }
    }
    found
}

fn count(by_value: &BTreeMap<&str, Vec<String>>, value: &str) -> usize {
    by_value.get(value).map_or(0, Vec::len)
}

#[cfg(test)]
mod tests;
