//! Rules for facts: `FACT OP VALUE` on each line of a file, and `ignore FACT`.

use std::path::Path;

use super::{Deviation, Expected, Facts, NONE};
use crate::error::{FleetError, Result};

/// Longer is no file of rules.
const BYTES_MAX: u64 = 1 << 20;

/// The rules of a file.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    ignored: Vec<String>,
}

#[derive(Debug)]
struct Rule {
    /// As it stands in the file.
    text: String,
    /// With `*` for any text.
    fact: String,
    compare: Compare,
    value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    Same,
    Other,
    AtLeast,
    AtMost,
}

/// Reads the rules of a file.
///
/// # Errors
/// It cannot be read, or a line is no rule.
pub fn read_rules(path: &Path) -> Result<Rules> {
    let unreadable = |source| FleetError::Input { path: path.into(), source };
    let text =
        user_files::text(user_files::read(path, BYTES_MAX).map_err(unreadable)?).map_err(unreadable)?;
    parse(&text).map_err(|(line, why)| FleetError::Rule { path: path.into(), line, why })
}

pub(super) fn parse(text: &str) -> std::result::Result<Rules, (usize, String)> {
    let mut rules = Rules::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let wrong = |why: &str| (index + 1, format!("`{}` is no rule: {why}", line.escape_debug()));
        if line.is_empty() {
            continue;
        }
        if let Some(fact) = line.strip_prefix("ignore ") {
            rules.ignored.push(fact.trim().to_owned());
            continue;
        }
        let mut words = line.splitn(3, char::is_whitespace).map(str::trim);
        let (Some(fact), Some(compare), Some(value)) = (words.next(), words.next(), words.next()) else {
            return Err(wrong("write it as in `memory.gib >= 250` or `ignore cpu.microcode`"));
        };
        let compare = match compare {
            "=" => Compare::Same,
            "!=" => Compare::Other,
            ">=" => Compare::AtLeast,
            "<=" => Compare::AtMost,
            _ => return Err(wrong("compare with =, !=, >= or <=, with spaces around it")),
        };
        if matches!(compare, Compare::AtLeast | Compare::AtMost) && number(value).is_none() {
            return Err(wrong("give a number behind >= and <="));
        }
        rules.rules.push(Rule { text: line.into(), fact: fact.into(), compare, value: value.into() });
    }
    Ok(rules)
}

impl Rules {
    /// Whether a fact has a rule, or is ignored, so that it is not compared with that of other hosts.
    pub(super) fn covers(&self, fact: &str) -> bool {
        let mut all = self.ignored.iter().chain(self.rules.iter().map(|rule| &rule.fact));
        all.any(|pattern| matches(pattern, fact))
    }

    /// Which hosts do not keep which rule. A host without any fact of that name does not keep it.
    pub(super) fn broken(&self, hosts: &[(&str, &Facts)]) -> Vec<Deviation> {
        let mut found: Vec<Deviation> = Vec::new();
        let mut add = |host: &str, rule: &Rule, fact: &str, value: &str| {
            let is_same = |other: &&mut Deviation| {
                other.fact == fact
                    && other.value == value
                    && other.expected == Expected::Rule(rule.text.clone())
            };
            match found.iter_mut().find(is_same) {
                Some(other) => other.hosts.push(host.to_owned()),
                None => found.push(Deviation {
                    hosts: vec![host.to_owned()],
                    fact: fact.to_owned(),
                    value: value.to_owned(),
                    expected: Expected::Rule(rule.text.clone()),
                }),
            }
        };
        for rule in &self.rules {
            for (host, facts) in hosts {
                let mut of_it = facts.iter().filter(|(fact, _)| matches(&rule.fact, fact)).peekable();
                if of_it.peek().is_none() && !rule.is_kept(NONE) {
                    add(host, rule, &rule.fact, NONE);
                }
                for (fact, value) in of_it.filter(|(_, value)| !rule.is_kept(value)) {
                    add(host, rule, fact, value);
                }
            }
        }
        found
    }
}

impl Rule {
    fn is_kept(&self, value: &str) -> bool {
        match self.compare {
            Compare::Same => value == self.value,
            Compare::Other => value != self.value,
            Compare::AtLeast => number(value).zip(number(&self.value)).is_some_and(|(is, least)| is >= least),
            Compare::AtMost => number(value).zip(number(&self.value)).is_some_and(|(is, most)| is <= most),
        }
    }
}

/// The number with which a value begins; a unit may follow. `unlimited` is more than any.
fn number(value: &str) -> Option<f64> {
    match value.split_whitespace().next() {
        Some("unlimited") => Some(f64::INFINITY),
        Some(word) => word.parse().ok(),
        None => None,
    }
}

/// Whether a name is what a pattern says; `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| matches(behind, &rest[at..]))
}
