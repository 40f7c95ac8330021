//! Sets of host names in one word: ranges such as `node[001-128,200]`, lists separated by commas, and the way
//! back: many names as one such word.

use std::collections::BTreeMap;
use std::fmt::Write;

/// More names than this come from a typing error, such as `node[1-1000000]`.
pub(crate) const NAMES_MAX: usize = 65_536;

/// The parts of a list: commas and spaces separate, except inside of brackets.
pub(crate) fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0_u32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            c if depth == 0 && (c == ',' || c.is_whitespace()) => {
                found.push(&text[begin..at]);
                begin = at + c.len_utf8();
            }
            _ => {}
        }
    }
    found.push(&text[begin..]);
    found.retain(|part| !part.is_empty());
    found
}

/// The names that one part stands for. Brackets with anything but numbers, such as those of an IPv6 address,
/// belong to the name.
///
/// # Errors
/// A range that is none, or too many names; the text says what to do.
pub(crate) fn expand(part: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some(open) = rest.find('[') {
        let close = rest[open..].find(']').map(|at| at + open);
        let Some(close) = close else {
            return Err(format!("`{part}` has a `[` without a `]`: write ranges as in `node[001-128,200]`"));
        };
        let inner = &rest[open + 1..close];
        let before = &rest[..open];
        rest = &rest[close + 1..];
        if !inner.bytes().all(|byte| byte.is_ascii_digit() || b",-".contains(&byte)) {
            names.iter_mut().for_each(|name| *name += &format!("{before}[{inner}]"));
            continue;
        }
        let numbers = numbers(inner).map_err(|why| format!("`{part}`: {why}"))?;
        if names.len().saturating_mul(numbers.len()) > NAMES_MAX {
            return Err(format!("`{part}` stands for more than {NAMES_MAX} hosts: write a smaller range"));
        }
        let with = |name: &String| {
            numbers.iter().map(move |number| format!("{name}{before}{number}")).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with).collect();
    }
    names.iter_mut().for_each(|name| *name += rest);
    Ok(names)
}

/// `001-128,200`: each number with the zeros that its range begins with.
fn numbers(inner: &str) -> Result<Vec<String>, String> {
    const NEXT: &str = "write ranges as in `node[001-128,200]`";
    let mut all = Vec::new();
    for range in inner.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number =
            |text: &str| text.parse::<u32>().map_err(|_| format!("`{range}` is no range of numbers: {NEXT}"));
        let (from, to) = (number(low)?, number(high)?);
        if from > to {
            return Err(format!("the range {range} ends before it begins: {NEXT}"));
        }
        if usize::try_from(to - from).unwrap_or(usize::MAX) >= NAMES_MAX {
            return Err(format!(
                "the range {range} stands for more than {NAMES_MAX} hosts: write a smaller one"
            ));
        }
        let width = if low.starts_with('0') { low.len() } else { 0 };
        all.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(all)
}

/// Names as one text, with ranges where several differ in their last number alone; each kind of name where
/// its first one stood.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut order: Vec<Stem<'a>> = Vec::new();
    let mut numbers: BTreeMap<Stem<'a>, Vec<u64>> = BTreeMap::new();
    for name in names {
        let (stem, number) = split(name);
        let of = numbers.entry(stem).or_insert_with(|| {
            order.push(stem);
            Vec::new()
        });
        of.extend(number);
    }
    let folded = order.iter().map(|stem| {
        let mut numbers = numbers.remove(stem).unwrap_or_default();
        numbers.sort_unstable();
        numbers.dedup();
        stem.with(&numbers)
    });
    folded.collect::<Vec<_>>().join(",")
}

/// A name without its last number. A width of 0 stands for numbers without leading zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stem<'a> {
    before: &'a str,
    after: &'a str,
    width: usize,
}

impl Stem<'_> {
    fn with(&self, numbers: &[u64]) -> String {
        let Self { before, after, width } = *self;
        match numbers {
            [] => before.to_owned(),
            [only] => format!("{before}{only:0width$}{after}"),
            _ => format!("{before}[{}]{after}", ranges(numbers, width)),
        }
    }
}

fn ranges(numbers: &[u64], width: usize) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < numbers.len() {
        let mut end = at;
        while end + 1 < numbers.len() && numbers[end + 1] == numbers[end] + 1 {
            end += 1;
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = match end - at {
            0 => write!(text, "{comma}{:0width$}", numbers[at]),
            _ => write!(text, "{comma}{:0width$}-{:0width$}", numbers[at], numbers[end]),
        };
        at = end + 1;
    }
    text
}

/// Where the last number of the first component of a name stands. Addresses are not taken apart: a range over
/// the last number of 10.0.0.1 would read as if all numbers between were meant to be names.
fn split(name: &str) -> (Stem<'_>, Option<u64>) {
    let whole = (Stem { before: name, after: "", width: 0 }, None);
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    if host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok() {
        return whole;
    }
    let user = name.len() - host.len();
    let end_of_first = user + host.find('.').unwrap_or(host.len());
    let Some(last) = name[user..end_of_first].rfind(|c: char| c.is_ascii_digit()).map(|at| user + at + 1)
    else {
        return whole;
    };
    let first = name[user..last].rfind(|c: char| !c.is_ascii_digit()).map_or(user, |at| {
        let c = name[user + at..].chars().next().map_or(1, char::len_utf8);
        user + at + c
    });
    let digits = &name[first..last];
    let width = if digits.starts_with('0') && digits.len() > 1 { digits.len() } else { 0 };
    match digits.parse::<u64>() {
        Ok(number) if digits.len() < 19 => {
            (Stem { before: &name[..first], after: &name[last..], width: fixed(width, digits) }, Some(number))
        }
        _ => whole,
    }
}

/// Numbers of three digits go with those that are filled up to three: `node099`, `node100`.
fn fixed(width: usize, digits: &str) -> usize {
    if width > 0 {
        width
    } else if digits.len() > 1 {
        digits.len()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_expanded_as_slurm_writes_them() {
        assert_eq!(expand("node[001-003,200]").unwrap(), ["node001", "node002", "node003", "node200"]);
        assert_eq!(
            expand("r[1-2]n[09-10].lan").unwrap(),
            ["r1n09.lan", "r1n10.lan", "r2n09.lan", "r2n10.lan"]
        );
        assert_eq!(expand("me@[fd00::3]").unwrap(), ["me@[fd00::3]"]);
        assert_eq!(expand("plain").unwrap(), ["plain"]);
        assert_eq!(expand("n[0-1]").unwrap(), ["n0", "n1"]);
        for (wrong, said) in [
            ("n[1-", "without a `]`"),
            ("n[3-1]", "ends before it begins"),
            ("n[]", "is no range of numbers"),
            ("n[1-2-3]", "is no range of numbers"),
            ("n[1-99999999]", "more than 65536 hosts"),
            ("n[1-60000]m[1-60000]", "more than 65536 hosts"),
            ("n[99999999999]", "is no range of numbers"),
        ] {
            let why = expand(wrong).unwrap_err();
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }

    #[test]
    fn lists_are_taken_apart_outside_of_brackets() {
        assert_eq!(parts("a,b[1,2] c,,!d"), ["a", "b[1,2]", "c", "!d"]);
        assert!(parts(" , ").is_empty());
    }

    #[test]
    fn names_are_folded_and_expand_to_the_same() {
        for (names, folded) in [
            (vec!["node001", "node002", "node003", "node200"], "node[001-003,200]"),
            (vec!["a", "b2", "b1"], "a,b[1-2]"),
            (vec!["n9", "n10", "n11"], "n9,n[10-11]"),
            (vec!["n098", "n099", "n100"], "n[098-100]"),
            (vec!["r1n1.lan", "r1n2.lan", "r2n1.lan"], "r1n[1-2].lan,r2n1.lan"),
            (vec!["10.0.0.1", "10.0.0.2"], "10.0.0.1,10.0.0.2"),
            (vec!["me@[fd00::3]", "äö3", "äö4"], "me@[fd00::3],äö[3-4]"),
        ] {
            assert_eq!(fold(names.iter().copied()), folded);
            let mut back: Vec<String> = parts(folded).iter().flat_map(|part| expand(part).unwrap()).collect();
            let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            back.sort();
            names.sort();
            assert_eq!(back, names);
        }
        assert_eq!(fold([]), "");
    }
}
