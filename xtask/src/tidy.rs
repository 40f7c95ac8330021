//! The project's rules, as far as text can show them.
//!
//! A rule is a function from the tree to findings. A line may be exempted by a comment on it, or on the line
//! above: `tidy: allow(RULE): REASON`. An exemption without a reason, or one that exempts nothing, is itself
//! a finding.

mod atomics;
mod environment;
mod exemptions;
mod front;
mod layers;
mod length;
mod links;
mod modules;
mod orderings;
mod readme;
mod unsafety;
mod width;
mod words;

use anyhow::Result;

use crate::finding::Finding;
use crate::tree::Tree;

/// A rule.
type Rule = fn(&Tree) -> Result<Vec<Finding>>;

const RULES: [Rule; 12] = [
    length::check,
    width::check,
    words::check,
    unsafety::check,
    atomics::check,
    orderings::check,
    layers::check,
    front::check,
    links::check,
    modules::check,
    readme::check,
    environment::check,
];

/// Applies all rules; the findings come sorted by place.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for rule in RULES {
        findings.extend(rule(tree)?);
    }
    let mut findings = exemptions::apply(tree, findings);
    findings.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    findings.dedup();
    Ok(findings)
}

/// Findings of one rule, as `path:line`, for the rules' own tests.
#[cfg(test)]
fn places(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let findings = rule(&Tree::of(files)).unwrap();
    findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
}
