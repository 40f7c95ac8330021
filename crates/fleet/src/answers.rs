//! Answers that are the same are one group.

use crate::host_set::fold;
use crate::remote::Answer;

/// Hosts that gave the same answer.
#[derive(Debug)]
pub struct Group {
    /// Their names, in the order of the list.
    pub hosts: Vec<String>,
    /// One of the answers.
    pub answer: Answer,
}

/// Groups answers: the same outcome, standard output and standard error, byte by byte. The largest group
/// comes first; of groups of one size the one whose first host comes first in the list.
pub fn grouped(answers: Vec<Answer>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for mut answer in answers {
        let same = groups.iter_mut().position(|group| is_same(&mut group.answer, &mut answer));
        match same.and_then(|at| groups.get_mut(at)) {
            Some(group) => group.hosts.push(answer.host),
            None => groups.push(Group { hosts: vec![answer.host.clone()], answer }),
        }
    }
    // The sort keeps the order of groups of one size.
    groups.sort_by_key(|group| std::cmp::Reverse(group.hosts.len()));
    groups
}

/// Reasons that name the host differ, and their groups would be no groups: they are compared by kind.
fn is_same(one: &mut Answer, other: &mut Answer) -> bool {
    let kind = |answer: &Answer| answer.failure.as_ref().map(|failure| failure.kind);
    kind(one) == kind(other) && one.out.is_same(&mut other.out) && one.err.is_same(&mut other.err)
}

/// So much of an answer is compared line by line.
const DIFF_BYTES: u64 = 1 << 20;
/// Lines around a difference.
const CONTEXT: usize = 2;

/// What differs between the standard output of two groups, as `diff -u` shows it; of long ones between their
/// first 1 MiB. Empty: nothing.
///
/// # Errors
/// Output that lies in a temporary file cannot be read.
pub fn difference(from: &mut Group, to: &mut Group) -> std::io::Result<String> {
    let (one, other) = (from.answer.out.first(DIFF_BYTES)?, to.answer.out.first(DIFF_BYTES)?);
    let (one, other) = (String::from_utf8_lossy(&one), String::from_utf8_lossy(&other));
    let diff = similar::TextDiff::from_lines(&one, &other);
    let names = [&from.hosts, &to.hosts].map(|hosts| fold(hosts.iter().map(String::as_str)));
    Ok(diff.unified_diff().context_radius(CONTEXT).header(&names[0], &names[1]).to_string())
}
