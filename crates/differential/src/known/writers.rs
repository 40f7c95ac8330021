//! Known differences of calls that wait for a writer of another process, and of waits that began
//! before there was a ring.

use super::{Case, argument, is_one_of, processes};
use crate::program::Step;

/// Before these the library has bytes of rings go back: calls that make another number, or of which it does not see what they read, or which
/// process will.
const UNSEEN: &str = "dup dup2 dup3 dupfd pass exec posix_spawn vfork vfork_exit stdio ring aio crowd splice connect epoll_ctl wrong \
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
    is_unseen(case.step)
        && waits(&case.first.other)
        && !waits(&case.first.one)
        && writes_in_another_process(case, case.step)
}

/// The same, when it has waited for as long as it does: the connection is reset. What the child of a `vfork` made another number of is waited
/// for by its parent's next call.
pub(super) fn was_waited_for_in_vain(case: &Case<'_>) -> bool {
    let fd = argument(case.step, "fd");
    let copied = |step: &Step| step.call.name() == "vfork_exit" && argument(step, "fd") == fd;
    (case.call() == "aio" || case.before().iter().any(copied))
        && case.first.other.contains("ECONNRESET")
        && !case.first.one.contains("ECONNRESET")
        && writes_in_another_process(case, case.step)
}

/// The same, seen by a later call: the step that waits is one that the test waits for, so it hangs in a hasty run, and in a patient one the
/// connection is reset behind it.
pub(super) fn has_hung_in_vain(case: &Case<'_>) -> bool {
    let Some(hung) = case.finding.hung.filter(|hung| *hung < case.first.at) else { return false };
    let Some(step) = case.program.steps.get(hung) else { return false };
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    let is_new = |word: &str| library.contains(word) && !plain.contains(word);
    let is_reset = match case.call() {
        "poll" | "epoll_wait" => is_new("HUP"),
        "queued" => library == "= 0 count=0",
        _ => is_new("-1 ECONNRESET"),
    };
    let before = &case.program.steps[..hung];
    is_reset && is_unseen(step) && writes_in_another_process_before(before, step)
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

/// A wait that the kernel ends does not end, and another thread of the process reads meanwhile from a connection that it is for.
pub(super) fn waits_since_before(case: &Case<'_>) -> bool {
    // It ends with a later call of the writer's, by a signal, or not.
    let is_stuck =
        case.first.other.starts_with("blocks") && case.first.one.starts_with("blocks, after step ");
    let behind = &case.program.steps[case.first.at + 1..];
    let processes = processes(&case.program.steps);
    let process = |step: &Step| processes.get(step.actor.index()).copied();
    let awaited = argument(case.step, "set").unwrap_or_default();
    let is_awaited = |slot: &str| awaited.split(',').any(|one| one.split(':').next() == Some(slot));
    let reads = |step: &Step| {
        step.call.name() == "recv"
            && process(step) == process(case.step)
            && argument(step, "fd").is_some_and(|slot| is_awaited(&slot))
    };
    case.call() == "poll" && is_stuck && behind.iter().any(reads)
}
