//! Compares two logs of one program, ignoring numbers that the kernel chooses.

use std::collections::HashMap;

use crate::control::Log;
use crate::program::{Program, described};

/// A log as lines in which each port is named by the order in which ports appeared, and each process
/// likewise.
#[must_use]
pub fn canonical(log: &Log) -> Vec<String> {
    let mut names = Names::default();
    // What a call that blocked came to appeared when it came to it: were it named by its line, a call that
    // blocks for ever on one side would change the names in later lines.
    let mut order: Vec<usize> = (0..log.results.len()).collect();
    order.sort_by_key(|&at| came_at(&log.results[at]).map_or((at + 1, false), |step| (step, true)));
    let mut lines = vec![String::new(); log.results.len()];
    for at in order {
        lines[at] = names.replace(&log.results[at]);
    }
    lines.extend(
        log.tables
            .iter()
            .map(|(founder, table)| names.replace(&format!("a{founder} has at the end {table}"))),
    );
    lines.extend(log.ends.iter().map(|(founder, end)| names.replace(&format!("a{founder} ended {end}"))));
    lines
}

/// Behind which step (from 1 on) a call that blocked came to something.
pub(crate) fn came_at(outcome: &str) -> Option<usize> {
    let (_, behind) = outcome.split_once(" step ")?;
    behind.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The same lines without who has the same port or process as who.
pub(crate) fn without_names(lines: &[String]) -> Vec<String> {
    let strip = |line: &String| {
        let mut out = String::with_capacity(line.len());
        let mut parts = line.split('<');
        out.push_str(parts.next().unwrap_or(""));
        for part in parts {
            out.push_str(part.split_once('>').map_or(part, |(_, behind)| behind));
        }
        out
    };
    lines.iter().map(strip).collect()
}

#[derive(Default)]
struct Names {
    known: HashMap<String, usize>,
}

/// IPv4 and IPv6 have ports of their own: the same one in both is chance.
fn family(before: &str) -> &'static str {
    let host = before.strip_suffix(":@").and_then(|rest| rest.rsplit([' ', '=']).next());
    match host {
        Some(host) if !host.contains('.') => "6:",
        _ => "",
    }
}

impl Names {
    /// Replaces the digits behind each `@` and `%` by a letter.
    fn replace(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['@', '%']) {
            let (before, behind) = rest.split_at(at + 1);
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            out.push_str(before);
            if digits > 0 {
                let key = format!("{}{}{}", &before[at..], family(before), &behind[..digits]);
                let next = self.known.len();
                let number = *self.known.entry(key).or_insert(next);
                out.push_str(&format!("<{number}>"));
            }
            rest = &behind[digits..];
        }
        out.push_str(rest);
        out
    }
}

/// A line in which two logs differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Of which step, or behind the last one.
    pub at: usize,
    /// What the first log says.
    pub one: String,
    /// What the second one says.
    pub other: String,
}

/// All lines that differ.
#[must_use]
pub fn differences(one: &[String], other: &[String]) -> Vec<Difference> {
    let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or_else(|| "(nothing)".to_owned());
    (0..one.len().max(other.len()))
        .filter(|at| one.get(*at) != other.get(*at))
        .map(|at| Difference { at, one: line(one, at), other: line(other, at) })
        .collect()
}

/// The program with what came of it on either side: one line where they agree, two where not.
#[must_use]
pub fn side_by_side(program: &Program, one: &[String], other: &[String]) -> String {
    let mut out = String::new();
    for at in 0..one.len().max(other.len()) {
        let (left, right) =
            (one.get(at).map_or("(nothing)", |s| s), other.get(at).map_or("(nothing)", |s| s));
        let what = described(program, at);
        if left == right {
            out.push_str(&format!("    {what}\n        {left}\n"));
        } else {
            out.push_str(&format!("!   {what}\n  plain   {left}\n  library {right}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(results: &[&str]) -> Vec<String> {
        canonical(&Log {
            results: results.iter().map(|result| (*result).to_owned()).collect(),
            ..Log::default()
        })
    }

    #[test]
    fn numbers_of_the_kernel_are_compared_by_who_else_has_them() {
        let one = lines(&["= 0 127.0.0.1:@4000", "= %77", "from=127.0.0.1:@4000", "@5"]);
        let two = lines(&["= 0 127.0.0.1:@5", "= %4", "from=127.0.0.1:@5", "@6"]);
        assert_eq!(one, two);
        assert_eq!(one, ["= 0 127.0.0.1:@<0>", "= %<1>", "from=127.0.0.1:@<0>", "@<2>"]);
        assert_ne!(one, lines(&["= 0 127.0.0.1:@5", "= %4", "from=127.0.0.1:@6", "@6"]));
        let families = lines(&["= 0 127.0.0.1:@7 from=01:@7 to=0.0.0.0:@7"]);
        assert_eq!(families, ["= 0 127.0.0.1:@<0> from=01:@<1> to=0.0.0.0:@<0>"]);
    }

    #[test]
    fn a_call_that_blocks_for_ever_changes_no_later_name() {
        let one = lines(&["blocks, after step 3: = 5 from=01:@9", "= 0 01:@8", "= 0 01:@7"]);
        let two = lines(&["blocks", "= 0 01:@8", "= 0 01:@7"]);
        assert_eq!(one[0], "blocks, after step 3: = 5 from=01:@<2>");
        assert_eq!(one[1..], two[1..]);
    }

    #[test]
    fn without_names_only_the_places_of_ports_are_left() {
        let lines = lines(&["= 0 127.0.0.1:@4000 from=127.0.0.1:@4001", "= %7"]);
        assert_eq!(without_names(&lines), ["= 0 127.0.0.1:@ from=127.0.0.1:@", "= %"]);
    }

    #[test]
    fn a_line_that_one_side_lacks_is_a_difference() {
        let found = differences(&lines(&["a", "b"]), &lines(&["a"]));
        assert_eq!(found, [Difference { at: 1, one: "b".into(), other: "(nothing)".into() }]);
        assert!(differences(&lines(&["a"]), &lines(&["a"])).is_empty());
    }
}
