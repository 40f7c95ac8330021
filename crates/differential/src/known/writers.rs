//! Known differences of calls that wait for a writer of another process, and of waits that began
//! before there was a ring.

use super::{Case, argument, began, ends, is_one_of, processes};
use crate::program::Step;

/// Before these the library has bytes of rings go back: calls that make another number, or of which it does
/// not see what they read, or which process will.
const UNSEEN: &str = "dup dup2 dup3 dupfd pass exec posix_spawn vfork vfork_exit stdio ring aio crowd splice epoll_ctl wrong \
                      scarcity";
/// As those, with this argument.
const UNSEEN_WITH: [&str; 4] =
    ["close_range with=unshare", "recv by=recvmmsg", "send by=sendmmsg", "setsockopt option=rcvlowat"];

/// Whether what was in rings goes back before this step.
fn is_unseen(step: &Step) -> bool {
    let call = step.call.name();
    let has = |wanted: &str| {
        let (name, value) = wanted.split_once('=').unwrap_or((wanted, ""));
        argument(step, name).is_some_and(|values| values.split('+').any(|one| one == value))
    };
    let with = |unseen: &&str| {
        unseen.split_once(' ').is_some_and(|(unseen, argument)| unseen == call && has(argument))
    };
    is_one_of(call, UNSEEN) || UNSEEN_WITH.iter().any(with)
}

pub(super) fn waits_for_a_writer(case: &Case<'_>) -> bool {
    let waits = |outcome: &str| outcome.starts_with("hangs") || outcome.starts_with("blocks");
    (is_unseen(case.step) || closes_a_member(case))
        && waits(&case.first.other)
        && !waits(&case.first.one)
        && writes_in_another_process(case, case.step)
}

/// Whether it closes a number that is in an epoll: another process may have the connection, too, so that it
/// stays in there, and the kernel alone is to tell of it.
fn closes_a_member(case: &Case<'_>) -> bool {
    let fd = argument(case.step, "fd");
    let adds = |step: &Step| step.call.name() == "epoll_ctl" && argument(step, "member") == fd;
    case.call() == "close" && case.before().iter().any(adds)
}

/// What a killed process has written nobody can have go back, so the connection is reset before what the
/// library does not see.
pub(super) fn was_reset_behind_a_killed_writer(case: &Case<'_>) -> bool {
    let Some(died) = ends::died_at(case) else { return false };
    let (before, after) = case.before().split_at(died);
    let waits = |step: &Step| {
        is_unseen(step)
            && case.process(step) == case.process(case.step)
            && writes_in_another_process_before(before, step)
    };
    after.iter().any(waits) && is_of_a_reset(case)
}

/// The child of a `vfork` does not wait, and the kernel alone tells of a member that is waited for once: of
/// bytes that go back later it tells later.
pub(super) fn is_told_later(case: &Case<'_>) -> bool {
    let is_any = |calls: &str| case.before().iter().any(|step| is_one_of(step.call.name(), calls));
    let is_once = |step: &Step| {
        step.call.name() == "epoll_ctl"
            && argument(step, "events")
                .is_some_and(|events| events.split('+').any(|event| event == "oneshot"))
    };
    case.call() == "epoll_wait"
        && case.first.one.contains(":IN")
        && case.first.other == "= 0"
        && is_any("vfork vfork_exit")
        && case.before().iter().any(is_once)
        && writes_in_another_process(case, case.step)
}

/// The same, when it has waited for as long as it does: the connection is reset. What the child of a `vfork`
/// made another number of is waited for by its parent's next call.
pub(super) fn was_waited_for_in_vain(case: &Case<'_>) -> bool {
    let fd = argument(case.step, "fd");
    let copied = |step: &Step| step.call.name() == "vfork_exit" && argument(step, "fd") == fd;
    // These wait themselves, and then find the connection reset.
    let (is_aio, is_ring) = (case.call() == "aio", case.call() == "ring");
    let is_new = |word: &str| case.first.other.contains(word) && !case.first.one.contains(word);
    (is_aio || is_ring || case.before().iter().any(copied))
        && (is_new("ECONNRESET") || is_aio && is_new("EPIPE") || is_ring && is_new("ERR|HUP"))
        && writes_in_another_process(case, case.step)
}

/// The same, seen by any call behind one that waits by itself: another program is executed, or may be by the
/// child of a `vfork`.
pub(super) fn was_reset_behind_another_program(case: &Case<'_>) -> bool {
    let makes = |step: &Step| is_one_of(step.call.name(), "exec posix_spawn vfork vfork_exit");
    // A call that blocks has come to this later.
    let steps = &case.program.steps[..began(case.first).min(case.program.steps.len())];
    let waits = |(at, step)| makes(step) && writes_in_another_process_before(&steps[..at], step);
    steps.iter().enumerate().any(waits) && is_of_a_reset(case)
}

/// Whether the library's side differs as behind a reset.
fn is_of_a_reset(case: &Case<'_>) -> bool {
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    let is_new = |word: &str| library.contains(word) && !plain.contains(word);
    match case.call() {
        // `select` tells of it as of bytes. What the other end does afterwards makes no end of bytes of it.
        "poll" | "epoll_wait" => {
            is_new("HUP")
                || plain.starts_with("blocks") && is_told_of_one(library)
                || library.contains("ERR|HUP") && plain.replace("IN|", "").replace("|RDHUP", "") == library
        }
        "queued" => library == "= 0 count=0",
        "aio" => is_new("ECONNRESET"),
        "ring" => is_new("ECONNRESET") || is_new("ERR|HUP"),
        "getsockopt" => is_new("ECONNRESET") || is_new("EPIPE"),
        "crowd" => is_new("ERR|HUP"),
        "shutdown" => is_new("ENOTCONN"),
        // It can be connected anew.
        "connect" => plain.contains("EISCONN") && library == "= 0",
        // Its own address is none any more.
        "address" => {
            library.starts_with("= 0 :@") || library.starts_with("= 0 0.0.0.0:@") || is_new("ENOTCONN")
        }
        "recv" => is_new("-1 ECONNRESET") || plain.starts_with("blocks") && library == "= -1 ECONNRESET",
        _ => is_new("-1 ECONNRESET"),
    }
}

/// Whether a wait has ended with one descriptor, at once or by a later step.
fn is_told_of_one(outcome: &str) -> bool {
    let came = outcome.strip_prefix("blocks, after step ").and_then(|rest| rest.split_once(": "));
    came.map_or(outcome, |(_, came)| came).starts_with("= 1 ")
}

/// Its own reading half is shut down, so nobody asks for what another process writes; read past the library,
/// or by a copy of the descriptor, it would still be there.
pub(super) fn is_read_behind_a_shutdown(case: &Case<'_>) -> bool {
    let shuts = |step: &Step| {
        step.call.name() == "shutdown" && argument(step, "how").is_some_and(|how| how != "write")
    };
    let is_end = match case.call() {
        "stdio" => case.first.other.contains("data=0:"),
        "splice" => case.first.other == "= 0",
        "recv" => case.first.other.starts_with("= 0 data=0:") && is_behind_a_copy(case),
        "wrong" => ends::reads_many_parts(case) && case.first.other == "= 0",
        _ => false,
    };
    is_end && case.before().iter().any(shuts) && writes_in_another_process(case, case.step)
}

/// Whether this process has made a copy of the descriptor before, so that the connection has left its rings.
fn is_behind_a_copy(case: &Case<'_>) -> bool {
    let fd = argument(case.step, "fd");
    let copies = |step: &Step| {
        is_one_of(step.call.name(), "dup dup2 dup3 dupfd")
            && case.process(step) == case.process(case.step)
            && [argument(step, "fd"), argument(step, "to"), argument(step, "onto")].contains(&fd)
    };
    fd.is_some() && case.before().iter().any(copies)
}

/// The same, seen by a later call: the step that waits is one that the test waits for, so it hangs in a hasty
/// run, and in a patient one the connection is reset behind it.
pub(super) fn has_hung_in_vain(case: &Case<'_>) -> bool {
    // A call that blocks has come to this later.
    let Some(hung) = case.finding.hung.filter(|hung| *hung < began(case.first)) else { return false };
    let Some(step) = case.program.steps.get(hung) else { return false };
    let before = &case.program.steps[..hung];
    is_of_a_reset(case) && is_unseen(step) && writes_in_another_process_before(before, step)
}

/// Whether an actor of another process than this step's has written before.
pub(super) fn writes_in_another_process(case: &Case<'_>, of: &Step) -> bool {
    writes_in_another_process_before(case.before(), of)
}

fn writes_in_another_process_before(before: &[Step], of: &Step) -> bool {
    let processes = processes(before);
    let process = |step: &Step| processes.get(step.actor.index()).copied();
    let mut writes = before.iter().filter(|step| is_one_of(step.call.name(), "send sendfile"));
    writes.any(|step| process(step) != process(of))
}

/// Whether another step of this process behind it is such a one.
fn is_any_behind(case: &Case<'_>, is_it: impl Fn(&Step) -> bool) -> bool {
    let processes = processes(&case.program.steps);
    let process = |step: &Step| processes.get(step.actor.index()).copied();
    let behind = &case.program.steps[case.first.at + 1..];
    behind.iter().any(|step| process(step) == process(case.step) && is_it(step))
}

/// Whether it goes on waiting where the kernel ends it with a later step.
fn is_stuck(case: &Case<'_>) -> bool {
    case.first.other == "blocks" && case.first.one.starts_with("blocks, after step ")
}

/// A wait that the kernel ends does not end, and another thread of the process reads meanwhile from a
/// connection that it is for.
pub(super) fn waits_since_before(case: &Case<'_>) -> bool {
    // It ends with a later call of the writer's, by a signal, or not.
    let is_stuck =
        case.first.other.starts_with("blocks") && case.first.one.starts_with("blocks, after step ");
    let awaited = argument(case.step, "set").unwrap_or_default();
    let is_awaited = |slot: &str| awaited.split(',').any(|one| one.split(':').next() == Some(slot));
    let reads = |step: &Step| {
        step.call.name() == "recv" && argument(step, "fd").is_some_and(|slot| is_awaited(&slot))
    };
    case.call() == "poll" && is_stuck && is_any_behind(case, reads)
}

/// The same of a read, beside one of another thread that began later.
pub(super) fn reads_since_before(case: &Case<'_>) -> bool {
    let slot = argument(case.step, "fd");
    let reads = |step: &Step| {
        step.call.name() == "recv" && step.actor != case.step.actor && argument(step, "fd") == slot
    };
    case.call() == "recv" && is_stuck(case) && is_any_behind(case, reads)
}

/// A read on a socket that another thread closes meanwhile begins again, because a handler restarts it
/// (signal(7)), on the connection that has its number by then.
pub(super) fn began_before(case: &Case<'_>) -> bool {
    let slot = argument(case.step, "fd");
    let closes = |step: &Step| {
        is_one_of(step.call.name(), "close dup2 dup3")
            && [argument(step, "fd"), argument(step, "onto")].contains(&slot)
    };
    let restarts = |step: &Step| {
        step.call.name() == "handle" && argument(step, "with").is_some_and(|with| with.contains("restart"))
    };
    case.call() == "recv"
        && is_stuck(case)
        && is_any_behind(case, closes)
        && case.before().iter().any(restarts)
}
