//! Known differences in what poll, select and epoll report.

use super::{Case, argument, is_one_of};
use crate::program::Step;

/// A slot, and what it is ready for.
type Ready<'a> = (&'a str, Vec<&'a str>);

/// What a wait has told: the slots, each with what it is ready for.
fn told(outcome: &str) -> Option<Vec<(&str, Vec<&str>)>> {
    let count = outcome.strip_prefix("= ").or_else(|| outcome.split_once(": = ").map(|(_, rest)| rest))?;
    let mut words = count.split(' ');
    words.next()?.parse::<usize>().ok()?;
    words
        // Handlers that have run, as in `USR1x1`.
        .filter(|word| word.contains(':'))
        .map(|word| {
            let (slot, events) = word.split_once(':')?;
            Some((slot, events.split('|').collect()))
        })
        .collect()
}

/// The slots of an outcome that are not in the other one, or are ready for more there.
fn more<'a>(outcome: &[(&'a str, Vec<&'a str>)], than: &[(&str, Vec<&str>)]) -> Vec<(&'a str, Vec<&'a str>)> {
    let is_in = |slot: &str, events: &[&str]| {
        than.iter().any(|(other, also)| *other == slot && events.iter().all(|event| also.contains(event)))
    };
    outcome.iter().filter(|(slot, events)| !is_in(slot, events)).cloned().collect()
}

/// Whether an edge of this slot for these events was told before.
fn edge_was_told(case: &Case<'_>, slot: &str, events: &[&str]) -> bool {
    let is_edge = case.before().iter().any(|step| {
        step.call.name() == "epoll_ctl"
            && argument(step, "member").as_deref() == Some(slot)
            && argument(step, "events").is_some_and(|events| events.split('+').any(|event| event == "edge"))
    });
    let was_told = || {
        let outcomes = case.before().iter().zip(&case.finding.library);
        outcomes.filter(|(step, _)| step.call.name() == "epoll_wait").any(|(_, outcome)| {
            told(outcome).is_some_and(|told| {
                told.iter().any(|(other, also)| *other == slot && events.iter().all(|it| also.contains(it)))
            })
        })
    };
    is_edge && was_told()
}

pub(super) fn is_edge_again(case: &Case<'_>) -> bool {
    // The kernel has nothing to tell, so it waits, or lets a signal in.
    let has_nothing = ["blocks", "died", "= -1 EINTR"].iter().any(|start| case.first.one.starts_with(start));
    let plain = if has_nothing { Some(Vec::new()) } else { told(&case.first.one) };
    let (Some(plain), Some(library)) = (plain, told(&case.first.other)) else { return false };
    let again = more(&library, &plain);
    if again.is_empty() || !more(&plain, &library).is_empty() {
        return false;
    }
    // Who waits for an epoll is told that it has an edge.
    let is_of_epoll = |slot: &str, events: &[&str]| events == ["IN"] && is_epoll_with_an_edge(case, slot);
    match case.call() {
        "epoll_wait" => {
            again.iter().all(|(slot, events)| edge_was_told(case, slot, events) || is_of_epoll(slot, events))
        }
        "poll" => again.iter().all(|(slot, events)| is_of_epoll(slot, events)),
        _ => false,
    }
}

/// The same of a wait for many copies of an epoll, none of which has anything.
pub(super) fn is_edge_again_for_many(case: &Case<'_>) -> bool {
    let copies = |outcome: &str| outcome.split_once(" = ").map(|(_, told)| told.starts_with("0 "));
    case.call() == "crowd"
        && copies(&case.first.one) == Some(true)
        && copies(&case.first.other) == Some(false)
        && case.first.other.contains("*IN")
        && argument(case.step, "fd").is_some_and(|slot| is_epoll_with_an_edge(case, &slot))
}

/// The same of a wait that has no room to tell it: where there is nothing, the kernel does not look.
pub(super) fn is_edge_again_for_nobody(case: &Case<'_>) -> bool {
    argument(case.step, "by").as_deref() == Some("epoll_wait_nowhere")
        && (case.first.one.as_str(), case.first.other.as_str()) == ("= 0", "= -1 EFAULT")
        && argument(case.step, "fd").is_some_and(|slot| is_epoll_with_an_edge(case, &slot))
}

/// The same of a wait for the epoll that is cancelled where there is nothing.
pub(super) fn is_edge_again_for_a_cancelled(case: &Case<'_>) -> bool {
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    case.call() == "cancel"
        && argument(case.step, "at").is_some_and(|at| is_one_of(&at, "epoll poll select"))
        && plain.contains("cancelled returned nothing")
        && library.contains("ended returned 1")
        && argument(case.step, "fd").is_some_and(|slot| is_epoll_with_an_edge(case, &slot))
}

/// A wait that finds something, or is cancelled before that, as the moment is: it takes longer to look.
pub(super) fn is_cancelled_first(case: &Case<'_>) -> bool {
    let meets = |step: &Step| {
        is_one_of(step.call.name(), "connect accept") && case.process(step) == case.process(case.step)
    };
    case.call() == "cancel"
        && argument(case.step, "at").is_some_and(|at| is_one_of(&at, "epoll poll select"))
        && case.first.one.contains("ended returned ")
        && !case.first.one.contains("ended returned 0")
        && case.first.other.contains("cancelled returned nothing")
        && case.before().iter().any(meets)
}

/// Whether the slot is an epoll that has told an edge before.
fn is_epoll_with_an_edge(case: &Case<'_>, slot: &str) -> bool {
    is_epoll_that_told(case, slot, "IN")
}

/// How deep the kernel lets epolls be in epolls.
const NESTED_MAX: usize = 5;

/// Whether the slot is an epoll, or a copy of one, that has told an edge for this event before, or that such
/// a one is in.
fn is_epoll_that_told(case: &Case<'_>, slot: &str, event: &str) -> bool {
    is_epoll_that_told_within(case, slot, event, NESTED_MAX)
}

fn is_epoll_that_told_within(case: &Case<'_>, slot: &str, event: &str, depth: usize) -> bool {
    let copied = copied_from(case, slot).or_else(|| passed(case, slot));
    let of_epoll = |step: &&Step, call: &str| {
        let epoll = argument(step, "fd");
        let is_copy = epoll == copied && epoll.is_some();
        step.call.name() == call
            && (epoll.as_deref() == Some(slot) || is_copy || have_one_number(case, &epoll, slot))
    };
    case.before()
        .iter()
        .filter(|step| of_epoll(step, "epoll_ctl"))
        .filter_map(|step| argument(step, "member"))
        .any(|member| {
            edge_was_told(case, &member, &[event])
                || depth > 0 && is_epoll_that_told_within(case, &member, event, depth - 1)
        })
}

/// Of which slot this one is a copy.
fn copied_from(case: &Case<'_>, slot: &str) -> Option<String> {
    let copied = case.before().iter().find(|step| {
        let to = match step.call.name() {
            "dup" | "dupfd" => argument(step, "to"),
            "dup2" | "dup3" | "vfork" => argument(step, "onto"),
            _ => None,
        };
        to.as_deref() == Some(slot)
    });
    copied.and_then(|step| argument(step, "fd"))
}

/// Whether an epoll has the number that this slot had before it was closed.
fn have_one_number(case: &Case<'_>, epoll: &Option<String>, slot: &str) -> bool {
    let number = |slot: &str| {
        let outcomes = case.before().iter().zip(&case.finding.library).rev();
        outcomes.into_iter().find_map(|(step, outcome)| match step.call.name() {
            "socketpair" | "pipe" => {
                let (one, other) = outcome.strip_prefix("= 0 fds=")?.split_once(',')?;
                let nth =
                    ["to", "other"].iter().position(|name| argument(step, name).as_deref() == Some(slot))?;
                Some([one, other][nth].to_owned())
            }
            _ if argument(step, "to").as_deref() == Some(slot) => {
                outcome.strip_prefix("= ")?.split(' ').next().map(str::to_owned)
            }
            _ => None,
        })
    };
    let of_epoll = epoll.as_deref().and_then(number);
    of_epoll.is_some() && of_epoll == number(slot)
}

/// What was passed and taken as this slot.
fn passed(case: &Case<'_>, slot: &str) -> Option<String> {
    let at = |step: &Step| argument(step, "to")?.split(',').position(|one| one == slot);
    let takes = |step: &Step| if step.call.name() == "take" { at(step) } else { None };
    let (when, place) =
        case.before().iter().enumerate().rev().find_map(|(when, step)| Some((when, takes(step)?)))?;
    let mut passes = case.before()[..when].iter().rev().filter(|step| step.call.name() == "pass");
    passes.next().and_then(|step| argument(step, "what")?.split(',').nth(place).map(str::to_owned))
}

pub(super) fn is_edge_not_repeated(case: &Case<'_>) -> bool {
    let waits = case.first.other == "blocks";
    let library = if waits { Some(Vec::new()) } else { told(&case.first.other) };
    let (Some(plain), Some(library)) = (told(&case.first.one), library) else { return false };
    let repeated = more(&plain, &library);
    // Who asks whether an epoll has anything is told that it has.
    let is_of_epoll = |(slot, events): &(&str, Vec<&str>)| {
        events == &["IN"] && is_epoll_that_told(case, slot, "OUT") && !has_unread(case)
    };
    if case.call() == "poll" {
        return !repeated.is_empty() && more(&library, &plain).is_empty() && repeated.iter().all(is_of_epoll);
    }
    let was_told = |(slot, events): &(&str, Vec<&str>)| {
        let is_of_shutdown = events.contains(&"HUP") && has_shut_down(case)
            || events == &["IN"] && is_shut_down_elsewhere(case, slot);
        (events == &["OUT"] || is_of_shutdown) && edge_was_told(case, slot, events)
    };
    case.call() == "epoll_wait"
        && !repeated.is_empty()
        && more(&library, &plain).is_empty()
        && repeated.iter().all(was_told)
}

/// The same, seen by who waits for copies of the epoll: it has nothing more to tell.
pub(super) fn is_edge_not_repeated_for_many(case: &Case<'_>) -> bool {
    let copies = |outcome: &str| outcome.split_once(" = ").map(|(_, told)| told.starts_with("0 "));
    case.call() == "crowd"
        && copies(&case.first.one) == Some(false)
        && copies(&case.first.other) == Some(true)
        && case.first.one.contains("*IN")
        && argument(case.step, "fd").is_some_and(|slot| {
            is_epoll_that_told(case, &slot, "OUT") && !has_unread(case)
                || is_epoll_that_told(case, &slot, "HUP") && has_shut_down(case)
        })
}

/// Whether somebody has shut down both halves: the kernel repeats that edge when the other end acknowledges
/// it, up to 40 ms later (tcp(7), delayed acknowledgement), which depends on how much came through the kernel
/// before.
fn has_shut_down(case: &Case<'_>) -> bool {
    case.before()
        .iter()
        .any(|step| step.call.name() == "shutdown" && argument(step, "how").as_deref() == Some("both"))
}

/// Whether another process has shut down a half of this connection since the last wait: the kernel wakes all
/// who wait for the socket, and they find the bytes that are still unread.
fn is_shut_down_elsewhere(case: &Case<'_>, slot: &str) -> bool {
    let mut since = case.before().iter().rev().take_while(|step| step.call.name() != "epoll_wait");
    since.any(|step| {
        step.call.name() == "shutdown"
            && argument(step, "fd").as_deref() == Some(slot)
            && case.process(step) != case.process(case.step)
    })
}

/// Whether the last step of this process that moves bytes has put some into a connection: an edge for those
/// must be told.
fn has_unread(case: &Case<'_>) -> bool {
    let moves = |step: &&Step| is_one_of(step.call.name(), "send sendfile recv");
    case.before().iter().rev().find(moves).is_none_or(|step| step.call.name() != "recv")
}

pub(super) fn is_rings_first(case: &Case<'_>) -> bool {
    if case.call() != "epoll_wait" {
        return false;
    }
    let (Some(plain), Some(library)) = (told(&case.first.one), told(&case.first.other)) else { return false };
    // Fewer, or ready for less, and for bytes or room alone.
    let is_part = |(slot, events): &(&str, Vec<&str>)| {
        plain.iter().any(|(other, also)| other == slot && events.iter().all(|event| also.contains(event)))
            && events.iter().all(|event| ["IN", "OUT"].contains(event))
    };
    let is_asked_last = argument(case.step, "max").is_some_and(|max| max == library.len().to_string());
    !library.is_empty()
        && library != plain
        && (library.iter().all(is_part) || is_asked_last && lacks_input_only(&plain, &library))
}

/// Where a ring's event takes the last room, the kernel is asked for what else it has of that descriptor, but
/// not for bytes.
fn lacks_input_only(plain: &[Ready<'_>], library: &[Ready<'_>]) -> bool {
    let is_same = |one: &Ready<'_>, other: &Ready<'_>| {
        let without: Vec<_> = one.1.iter().copied().filter(|event| *event != "IN").collect();
        one.0 == other.0 && (one.1 == other.1 || other.1.contains(&"OUT") && without == other.1)
    };
    plain.len() == library.len() && plain.iter().zip(library).all(|(one, other)| is_same(one, other))
}

pub(super) fn is_other_one_first(case: &Case<'_>) -> bool {
    let room = argument(case.step, "max").and_then(|max| max.parse::<usize>().ok());
    let (Some(plain), Some(library)) = (told(&case.first.one), told(&case.first.other)) else { return false };
    let epoll = argument(case.step, "fd").unwrap_or_default();
    let is_it = |slot: &str| {
        slot == epoll
            || copied_from(case, slot).as_deref() == Some(&epoll)
            || copied_from(case, &epoll).as_deref() == Some(slot)
    };
    let members: Vec<String> = case
        .before()
        .iter()
        .filter(|step| step.call.name() == "epoll_ctl" && argument(step, "fd").is_some_and(|fd| is_it(&fd)))
        .filter_map(|step| argument(step, "member"))
        .collect();
    case.call() == "epoll_wait"
        && room == Some(plain.len())
        && room == Some(library.len())
        && members.len() > library.len()
        && library.iter().all(|(slot, _)| members.iter().any(|member| member == slot))
}
