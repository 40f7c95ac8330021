//! Answers that are the same are one group.

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
