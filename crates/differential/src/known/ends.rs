//! Known differences in how connections end.

use super::writers::writes_in_another_process;
use super::{Case, argument, is_one_of, processes};
use crate::program::call::Signal;
use crate::program::{Call, Step};

/// Calls after which another process may have what this one has, of which nothing is known.
const SHARES: &str = "posix_spawn vfork vfork_exit exec";
/// Calls that close numbers.
const CLOSES: &str = "close closefrom close_range dup2 dup3 exit exec";

fn has_closed_what_may_be_shared(case: &Case<'_>) -> bool {
    let is_any = |calls: &str| case.before().iter().any(|step| is_one_of(step.call.name(), calls));
    is_any(SHARES) && is_any(CLOSES)
}

/// A forked process that was killed has not said that it no longer has what another one closes.
fn was_closed_beside_the_killed(case: &Case<'_>) -> bool {
    let is_any = |calls: &str| case.before().iter().any(|step| is_one_of(step.call.name(), calls));
    // A write that the reset itself answers, or that follows another one, is of the entries on killed ends.
    let is_its_own = || !killed_over_bytes(case) && !wrote_to_the_killed(case);
    let is_one = case.call() == "recv" || reads_many_parts(case) || case.call() == "send" && is_its_own();
    is_one && has_died(case) && is_any("fork") && is_any(CLOSES)
}

/// Whether it reads into more parts than the library looks at.
pub(super) fn reads_many_parts(case: &Case<'_>) -> bool {
    case.call() == "wrong" && argument(case.step, "by").as_deref() == Some("readv_most")
}

const END: &str = "= 0 data=0:";
const RESET: &str = "= -1 ECONNRESET";

pub(super) fn is_reset_for_end(case: &Case<'_>) -> bool {
    let is_it = case.first.one.starts_with(END) && case.first.other == RESET;
    is_it && case.call() == "recv" && has_closed_what_may_be_shared(case)
}

/// The end that closed does not know whether another process has it, so its ring takes what fits into it.
pub(super) fn takes_a_part(case: &Case<'_>) -> bool {
    is_part_written(case) && !has_died(case) && has_closed_what_may_be_shared(case)
}

/// A write behind the end; the signal may end the program.
fn is_epipe(outcome: &str) -> bool {
    outcome == "died" || outcome.starts_with("= -1 EPIPE")
}

pub(super) fn is_end_for_reset(case: &Case<'_>) -> bool {
    // What goes back to the kernel afterwards finds nobody.
    let is_other = match case.call() {
        "recv" => case.first.other.starts_with(END) || case.first.other == "= -1 EPIPE",
        "wrong" => reads_many_parts(case) && case.first.other == "= 0",
        "ring" => case.first.other.contains(END) || case.first.other.contains("= EPIPE"),
        "send" | "sendfile" => {
            let count = |text: &str| text.trim_start_matches("= ").parse::<u64>().ok();
            let most = argument(case.step, "len").and_then(|len| len.parse().ok());
            let written = case.first.other.split(" offset=").next().and_then(count);
            // A file may be shorter than what was asked for.
            written.is_some_and(|written| Some(written) == most || written > 0 && case.call() == "sendfile")
                || case.first.one.starts_with(RESET) && is_epipe(&case.first.other)
                || (is_epipe(&case.first.one) || case.first.one.starts_with(RESET))
                    && case.first.other == "= -1 EFAULT"
        }
        "stdio" => is_epipe(&case.first.other),
        "aio" => case.first.other.contains("EPIPE"),
        "shutdown" => case.first.other == "= 0",
        "poll" | "epoll_wait" => !case.first.other.contains("ERR"),
        "address" => case.first.other.starts_with("= 0 "),
        "getsockopt" => case.first.other == "= 0 4:0",
        _ => false,
    };
    // By a signal.
    let is_reset = case.first.one.starts_with(RESET)
        || case.call() == "ring" && case.first.one.contains("= ECONNRESET")
        || case.call() == "aio" && case.first.one.contains("ECONNRESET")
        || case.call() == "getsockopt" && ["= 0 EPIPE", "= 0 ECONNRESET"].contains(&case.first.one.as_str())
        || is_one_of(case.call(), "address shutdown") && case.first.one.starts_with("= -1 ENOTCONN")
        || is_one_of(case.call(), "poll epoll_wait") && case.first.one.contains("|ERR|HUP")
        || case.call() != "recv" && case.first.one.starts_with("= -1 EPIPE")
        || case.call() != "recv" && case.first.one == "died";
    is_reset && is_other && (has_closed_what_may_be_shared(case) || was_closed_beside_the_killed(case))
}

pub(super) fn shut_down_over_bytes(case: &Case<'_>) -> bool {
    let is_both = |step: &Step| argument(step, "how").as_deref() == Some("both");
    let mut shuts = case.before().iter().filter(|step| step.call.name() == "shutdown" && is_both(step));
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    // What was unread is lost with the reset, or writes go on and have reset nothing.
    let is_it = match (tells_of_a_reset(case.call(), plain), tells_of_a_reset(case.call(), library)) {
        (false, true) => true,
        // Where somebody has died it is of that.
        (true, false) => !has_died(case) && succeeds_for_a_reset(case),
        (false, false) => case.call() == "recv" && (library == "died" || goes_on(plain, library)),
        (true, true) => false,
    };
    is_it && shuts.any(|step| writes_in_another_process(case, step))
}

/// Calls that make another number for a descriptor, or many: from there on the kernel alone is read.
const COPIES: &str = "dup dup2 dup3 dupfd scarcity crowd";

/// Nothing in place of bytes that another process has written, behind a shutdown of the reading half and a
/// copy.
pub(super) fn shut_reading_and_copied(case: &Case<'_>) -> bool {
    let is_reading = |step: &Step| argument(step, "how").as_deref() == Some("read");
    let shut = case.before().iter().position(|step| step.call.name() == "shutdown" && is_reading(step));
    let is_lost = case.first.one.starts_with("= ") && !case.first.one.starts_with("= -1");
    let is_it = case.call() == "recv" && is_lost && case.first.other.starts_with(END);
    let is_copied =
        |from: usize| case.before()[from..].iter().any(|step| is_one_of(step.call.name(), COPIES));
    is_it && shut.is_some_and(is_copied) && writes_in_another_process(case, case.step)
}

/// Whether an outcome tells that a connection was reset, or would if it had been.
fn tells_of_a_reset(call: &str, outcome: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| outcome.contains(word));
    match call {
        "recv" | "stdio" | "aio" | "wrong" | "splice" => has(&["ECONNRESET", "EPIPE"]),
        "send" | "sendfile" => outcome.starts_with(RESET) || is_epipe(outcome),
        "ring" => has(&["ECONNRESET", "EPIPE", "ERR|HUP"]),
        "poll" | "epoll_wait" | "crowd" => has(&["ERR"]),
        "address" | "shutdown" => has(&["ENOTCONN"]),
        "getsockopt" => ["= 0 EPIPE", "= 0 ECONNRESET"].contains(&outcome),
        _ => false,
    }
}

/// Whether the library's side is as the plain one would be without the reset that that one tells of.
fn succeeds_for_a_reset(case: &Case<'_>) -> bool {
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    let written = argument(case.step, "len").map(|length| format!("= {length}"));
    match case.call() {
        "send" | "sendfile" => {
            written.is_some_and(|written| library.split(" offset").next() == Some(&written))
        }
        "poll" | "epoll_wait" | "crowd" => library == plain.replace("|ERR", ""),
        "getsockopt" => library == "= 0 4:0",
        _ => library.starts_with("= 0") || case.call() == "recv" && library.starts_with("= "),
    }
}

/// Whether a read that has got some bytes has got those, and others behind them.
fn goes_on(plain: &str, library: &str) -> bool {
    let bytes = |outcome: &str| {
        let (count, data) = outcome.strip_prefix("= ")?.split_once(" data=")?;
        Some((count.parse::<u64>().ok()?, data.split(' ').next()?.rsplit(':').next()?.to_owned()))
    };
    let (Some((some, first)), Some((more, all))) = (bytes(plain), bytes(library)) else { return false };
    some > 0 && more > some && all.starts_with(&first)
}

/// Whether somebody has died before.
fn has_died(case: &Case<'_>) -> bool {
    died_at(case).is_some()
}

/// Whether it kills: by a signal that always does, or by one without a handler, of which the process has
/// ended.
fn is_kill(case: &Case<'_>, step: &Step) -> bool {
    let Call::Kill { actor, signal, .. } = &step.call else { return false };
    let ended = || {
        let process = processes(case.before()).get(actor.index()).copied()?;
        let end = format!("a{process} ended ");
        case.finding.library.iter().find_map(|line| line.strip_prefix(&end))
    };
    // The lowest bits of a wait status are the number of the signal (wait(2)).
    let is_of_it =
        |status: &str| status.parse::<i32>().map_or(true, |status| status & 0x7f == signal.number());
    *signal == Signal::Kill || ended().is_some_and(is_of_it)
}

/// At which step somebody has died first, or is found dead. One that exits has closed what it had.
pub(super) fn died_at(case: &Case<'_>) -> Option<usize> {
    let steps = case.before().iter().zip(&case.finding.library);
    steps.into_iter().position(|(step, outcome)| {
        let is_dead = outcome == "died" && step.call.name() != "exit" || outcome == "dead";
        is_dead || is_kill(case, step)
    })
}

/// Whether a descriptor has `ERR` in the first of two outcomes of a wait, and not in the second.
fn misses_an_error(plain: &str, library: &str) -> bool {
    let is_err = |entry: &&str| entry.contains("ERR");
    let slot = |entry: &str| entry.split(':').next().map(str::to_owned);
    plain
        .split_whitespace()
        .filter(is_err)
        .any(|with| !library.split_whitespace().filter(is_err).any(|entry| slot(entry) == slot(with)))
}

/// The kernel has reset it, and not under the library, before anybody has read that.
pub(super) fn killed_over_bytes(case: &Case<'_>) -> bool {
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    let written = argument(case.step, "len").map(|length| format!("= {length}"));
    let is_it = match case.call() {
        "shutdown" | "address" | "getsockopt" | "crowd" => {
            tells_of_a_reset(case.call(), plain) && succeeds_for_a_reset(case)
        }
        "poll" | "epoll_wait" => misses_an_error(plain, library),
        // The address of a connection that was reset is free at once.
        "bind" => plain == "= 0" && library == "= -1 EADDRINUSE",
        // What goes back to the kernel finds nobody there, and what is written behind it is an error.
        "send" => {
            plain == RESET && (Some(library) == written.as_deref() || is_epipe(library))
                || is_epipe(plain) && library == RESET
        }
        "stdio" => plain.starts_with(RESET) && is_epipe(library),
        _ => false,
    };
    is_it && has_died(case)
}

/// Part of a large write, and somebody has died before.
pub(super) fn writes_to_the_killed(case: &Case<'_>) -> bool {
    is_part_written(case) && has_died(case)
}

/// Whether the library returns a part of a write that the kernel takes whole.
fn is_part_written(case: &Case<'_>) -> bool {
    let length = argument(case.step, "len").and_then(|length| length.parse::<u64>().ok());
    let written = |outcome: &str| outcome.strip_prefix("= ").and_then(|count| count.parse::<u64>().ok());
    let (all, part) = (written(&case.first.one), written(&case.first.other));
    case.call() == "send" && all.is_some() && all == length && part < all && part > Some(0)
}

/// What a write to an end that was killed makes of later calls: the kernel has learned of the death, and the
/// ring has taken the bytes.
pub(super) fn wrote_to_the_killed(case: &Case<'_>) -> bool {
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    let written = argument(case.step, "len").map(|length| format!("= {length}"));
    let is_it = match case.call() {
        "recv" => (plain.starts_with(END) || is_epipe(plain)) && library == RESET,
        // It looks at what is to be written before it would be refused.
        "send" => is_epipe(plain) && (Some(library) == written.as_deref() || library == "= -1 EFAULT"),
        _ => false,
    };
    let is_same = |step: &Step| {
        step.call.name() == "send"
            && case.process(step) == case.process(case.step)
            && argument(step, "fd") == argument(case.step, "fd")
    };
    // Or it had shut down both halves, which the kernel answers like that.
    let shuts =
        |step: &Step| step.call.name() == "shutdown" && argument(step, "how").as_deref() == Some("both");
    is_it
        && died_at(case).is_some_and(|died| {
            let (before, after) = case.before().split_at(died);
            after.iter().skip(1).any(is_same) || before.iter().any(shuts)
        })
}

/// What goes back to the kernel after the reset was read finds nobody there, which is an error once more.
pub(super) fn killed_over_bytes_later(case: &Case<'_>) -> bool {
    let is_read = |(step, outcome): (&Step, &String)| step.call.name() == "recv" && outcome == RESET;
    let mut steps = case.before().iter().zip(&case.finding.library);
    is_one_of(case.call(), "poll epoll_wait ring")
        && case.first.one.contains("HUP")
        && !case.first.one.contains("ERR")
        && case.first.other.replacen("|ERR", "", 1) == case.first.one
        && has_died(case)
        && steps.any(is_read)
}
