//! The known differences with a ring on each connection that cannot be mended, each with its
//! reason.
//!
//! A difference is looked at where it begins: in the first line that differs. What comes behind that is mostly its consequence. An entry
//! is as narrow as one can tell from the program and the two outcomes; each has a saved program in `corpus/known`, and a row in the table of
//! `docs/sockets.md`.

use crate::compare::{Difference, differences};
use crate::judge::Finding;
use crate::program::{ACTORS, Call, Program, Step, described};

/// One way to differ.
#[derive(Clone, Copy)]
pub struct Known {
    /// Its name, and that of its saved programs.
    pub name: &'static str,
    /// How the row of the table begins that tells of it.
    pub row: &'static str,
    /// Why it is so.
    pub reason: &'static str,
    is_it: fn(&Case<'_>) -> bool,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Known {}

/// All of them.
pub const ALL: [Known; 13] = [
    Known {
        name: "waits-for-a-writer",
        row: "a program that executes another one, copies the descriptor (`dup`)",
        reason: "bytes are in a ring that another process has written and only that process can take back, which it does in its next call \
                 that the library sees; this one has to wait for that before what the library does not see",
        is_it: |case| waits_for_a_writer(case) || was_waited_for_in_vain(case),
    },
    Known {
        name: "waits-since-before",
        row: "a thread that waits for a connection since its first bytes",
        reason: "its wait began before there was a ring and does not know of it, and the reads of another thread say that this end is awake",
        is_it: waits_since_before,
    },
    Known {
        name: "edge-again",
        row: "a program that waits for edges",
        reason: "an edge was told of bytes in a ring, which have gone back to the kernel since; the kernel does not know of that edge and \
                 tells of one of its own",
        is_it: |case| is_edge_again(case) || is_edge_again_for_many(case) || is_edge_again_for_nobody(case),
    },
    Known {
        name: "edge-not-repeated",
        row: "a program that waits for edges",
        reason: "bytes that come through the kernel have it tell once more that there is room; those of a ring do not",
        is_it: is_edge_not_repeated,
    },
    Known {
        name: "rings-first",
        row: "a program that waits for many with `epoll`",
        reason: "what rings have is told without asking the kernel, which is asked for the others at one wait in eight",
        is_it: is_rings_first,
    },
    Known {
        name: "other-one-first",
        row: "a program that waits for many with `epoll`",
        reason: "with room for fewer events than there are, rings come first, in the order of the library's table, not in that in which \
                 they became ready",
        is_it: is_other_one_first,
    },
    Known {
        name: "reset-for-end",
        row: "a program whose other end was closed while programs that it had started (`posix_spawn`, `vfork`) may have had it, too",
        reason: "the end that closed does not know whether another process has it, so it goes on taking bytes into its ring; the reader \
                 finds them there, unread, behind the end",
        is_it: is_reset_for_end,
    },
    Known {
        name: "end-for-reset",
        row: "a program whose other end was closed while programs that it had started (`posix_spawn`, `vfork`) may have had it, too",
        reason: "the end that closed with bytes unread does not know whether another process has it, which would go on, so it resets \
                 nothing",
        is_it: is_end_for_reset,
    },
    Known {
        name: "shut-down-over-bytes",
        row: "a program that shuts down both halves (`SHUT_RDWR`)",
        reason: "another process has written what is unread in the ring, and the kernel does not take it back any more",
        is_it: shut_down_over_bytes,
    },
    Known {
        name: "more-is-queued",
        row: "a program that asks how much can be read",
        reason: "a ring takes what the kernel would not have had room for yet",
        is_it: more_is_queued,
    },
    Known {
        name: "wrong-behind-bytes",
        row: "a program that gives addresses that are no memory",
        reason: "all of a vector is looked at before bytes of a ring are copied, not as much as they fill",
        is_it: wrong_behind_bytes,
    },
    Known {
        name: "killed-over-bytes",
        row: "a program whose other end was killed with bytes unread",
        reason: "the kernel did not hold the bytes that the killed end had not read, so it ended the connection instead of resetting it",
        is_it: killed_over_bytes,
    },
    Known {
        name: "writes-to-the-killed",
        row: "a program that writes to an end that was killed a moment ago",
        reason: "the killed end's last word is that it is awake, so a ring takes what fits into it, and the kernel, which knows better, refuses \
                 the rest",
        is_it: writes_to_the_killed,
    },
];

/// The entry that a difference is, if it is any.
#[must_use]
pub fn of(program: &Program, finding: &Finding) -> Option<Known> {
    let found = differences(&finding.plain, &finding.library);
    let first = found.iter().min_by_key(|difference| began(difference))?;
    let step = program.steps.get(first.at)?;
    let case = Case { program, finding, first, step };
    ALL.into_iter().find(|known| (known.is_it)(&case))
}

/// At which step a difference began: a call that blocks has come to something later.
fn began(difference: &Difference) -> usize {
    let later = |outcome: &str| {
        let (_, behind) = outcome.split_once(" step ")?;
        behind.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    let waits = |outcome: &str| outcome.starts_with("blocks") || outcome.starts_with("hangs");
    let step = |outcome: &str| later(outcome).or_else(|| (!waits(outcome)).then_some(difference.at + 1));
    let steps = [step(&difference.one), step(&difference.other)];
    steps.into_iter().flatten().min().unwrap_or(difference.at + 1)
}

/// Where a difference begins.
struct Case<'a> {
    program: &'a Program,
    finding: &'a Finding,
    first: &'a Difference,
    step: &'a Step,
}

impl<'a> Case<'a> {
    fn call(&self) -> &'static str {
        self.step.call.name()
    }

    /// The steps before it.
    fn before(&self) -> &'a [Step] {
        &self.program.steps[..self.first.at]
    }
}

/// The argument of a step under this name.
fn argument(step: &Step, name: &str) -> Option<String> {
    let text = step.text();
    text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Before these the library has bytes of rings go back: calls that make another number, or of which it does not see what they read, or which
/// process will.
const UNSEEN: &str = "dup dup2 dup3 dupfd pass exec posix_spawn vfork vfork_exit stdio ring aio crowd splice connect epoll_ctl wrong \
                      scarcity";
/// As those, with this argument.
const UNSEEN_WITH: [&str; 4] =
    ["close_range with=unshare", "recv by=recvmmsg", "send by=sendmmsg", "setsockopt option=rcvlowat"];

fn waits_for_a_writer(case: &Case<'_>) -> bool {
    let waits = |outcome: &str| outcome.starts_with("hangs") || outcome.starts_with("blocks");
    let has = |wanted: &str| {
        let (name, value) = wanted.split_once('=').unwrap_or((wanted, ""));
        argument(case.step, name).is_some_and(|values| values.split('+').any(|one| one == value))
    };
    let with = |unseen: &&str| {
        unseen.split_once(' ').is_some_and(|(call, argument)| call == case.call() && has(argument))
    };
    (is_one_of(case.call(), UNSEEN) || UNSEEN_WITH.iter().any(with))
        && waits(&case.first.other)
        && !waits(&case.first.one)
        && writes_in_another_process(case, case.step)
}

/// The same, when it has waited for as long as it does: the connection is reset. What the child of a `vfork` made another number of is waited
/// for by its parent's next call.
fn was_waited_for_in_vain(case: &Case<'_>) -> bool {
    let fd = argument(case.step, "fd");
    let copied = |step: &Step| step.call.name() == "vfork_exit" && argument(step, "fd") == fd;
    (case.call() == "aio" || case.before().iter().any(copied))
        && case.first.other.contains("ECONNRESET")
        && !case.first.one.contains("ECONNRESET")
        && writes_in_another_process(case, case.step)
}

/// Whether an actor of another process than this step's has written before.
fn writes_in_another_process(case: &Case<'_>, of: &Step) -> bool {
    let processes = processes(case.before());
    let process = |step: &Step| processes.get(step.actor.index()).copied();
    let mut writes = case.before().iter().filter(|step| is_one_of(step.call.name(), "send sendfile"));
    writes.any(|step| process(step) != process(of))
}

/// A wait that the kernel ends does not end, and another thread of the process reads meanwhile from a connection that it is for.
fn waits_since_before(case: &Case<'_>) -> bool {
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

/// In which process each actor is: the number of the actor that began it.
fn processes(steps: &[Step]) -> [usize; ACTORS] {
    let mut processes = std::array::from_fn(|at| at);
    for step in steps {
        if let Call::Spawn { actor } = &step.call {
            processes[actor.index()] = processes[step.actor.index()];
        }
    }
    processes
}

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

fn is_edge_again(case: &Case<'_>) -> bool {
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
fn is_edge_again_for_many(case: &Case<'_>) -> bool {
    let copies = |outcome: &str| outcome.split_once(" = ").map(|(_, told)| told.starts_with("0 "));
    case.call() == "crowd"
        && copies(&case.first.one) == Some(true)
        && copies(&case.first.other) == Some(false)
        && case.first.other.contains("*IN")
        && argument(case.step, "fd").is_some_and(|slot| is_epoll_with_an_edge(case, &slot))
}

/// The same of a wait that has no room to tell it: where there is nothing, the kernel does not look.
fn is_edge_again_for_nobody(case: &Case<'_>) -> bool {
    argument(case.step, "by").as_deref() == Some("epoll_wait_nowhere")
        && (case.first.one.as_str(), case.first.other.as_str()) == ("= 0", "= -1 EFAULT")
        && argument(case.step, "fd").is_some_and(|slot| is_epoll_with_an_edge(case, &slot))
}

/// Whether the slot is an epoll that has told an edge before.
fn is_epoll_with_an_edge(case: &Case<'_>, slot: &str) -> bool {
    let copied = case.before().iter().find(|step| {
        let to = match step.call.name() {
            "dup" | "dupfd" => argument(step, "to"),
            "dup2" | "dup3" => argument(step, "onto"),
            _ => None,
        };
        to.as_deref() == Some(slot)
    });
    let copied = copied.and_then(|step| argument(step, "fd"));
    let of_epoll = |step: &&Step, call: &str| {
        let epoll = argument(step, "fd");
        step.call.name() == call && (epoll.as_deref() == Some(slot) || epoll == copied && epoll.is_some())
    };
    case.before()
        .iter()
        .filter(|step| of_epoll(step, "epoll_ctl"))
        .filter_map(|step| argument(step, "member"))
        .any(|member| edge_was_told(case, &member, &["IN"]))
}

fn is_edge_not_repeated(case: &Case<'_>) -> bool {
    let (Some(plain), Some(library)) = (told(&case.first.one), told(&case.first.other)) else { return false };
    let repeated = more(&plain, &library);
    let was_told =
        |(slot, events): &(&str, Vec<&str>)| events == &["OUT"] && edge_was_told(case, slot, events);
    case.call() == "epoll_wait"
        && !repeated.is_empty()
        && more(&library, &plain).is_empty()
        && repeated.iter().all(was_told)
}

fn is_rings_first(case: &Case<'_>) -> bool {
    if case.call() != "epoll_wait" {
        return false;
    }
    let (Some(plain), Some(library)) = (told(&case.first.one), told(&case.first.other)) else { return false };
    // Fewer, or ready for less, and for bytes or room alone.
    let is_part = |(slot, events): &(&str, Vec<&str>)| {
        plain.iter().any(|(other, also)| other == slot && events.iter().all(|event| also.contains(event)))
            && events.iter().all(|event| ["IN", "OUT"].contains(event))
    };
    !library.is_empty() && library != plain && library.iter().all(is_part)
}

fn is_other_one_first(case: &Case<'_>) -> bool {
    let room = argument(case.step, "max").and_then(|max| max.parse::<usize>().ok());
    let (Some(plain), Some(library)) = (told(&case.first.one), told(&case.first.other)) else { return false };
    let members: Vec<String> = case
        .before()
        .iter()
        .filter(|step| step.call.name() == "epoll_ctl" && argument(step, "fd") == argument(case.step, "fd"))
        .filter_map(|step| argument(step, "member"))
        .collect();
    case.call() == "epoll_wait"
        && room == Some(plain.len())
        && room == Some(library.len())
        && members.len() > library.len()
        && library.iter().all(|(slot, _)| members.iter().any(|member| member == slot))
}

/// Calls after which another process may have what this one has, of which nothing is known.
const SHARES: &str = "posix_spawn vfork vfork_exit exec";
/// Calls that close numbers.
const CLOSES: &str = "close closefrom close_range dup2 dup3 exit";

fn is_one_of(call: &str, calls: &str) -> bool {
    calls.split(' ').any(|one| one == call)
}

fn has_closed_what_may_be_shared(case: &Case<'_>) -> bool {
    let is_any = |calls: &str| case.before().iter().any(|step| is_one_of(step.call.name(), calls));
    is_any(SHARES) && is_any(CLOSES)
}

const END: &str = "= 0 data=0:";
const RESET: &str = "= -1 ECONNRESET";

fn is_reset_for_end(case: &Case<'_>) -> bool {
    let is_it = case.first.one.starts_with(END) && case.first.other == RESET;
    is_it && case.call() == "recv" && has_closed_what_may_be_shared(case)
}

fn is_end_for_reset(case: &Case<'_>) -> bool {
    // What goes back to the kernel afterwards finds nobody.
    let is_other = match case.call() {
        "recv" => case.first.other.starts_with(END) || case.first.other == "= -1 EPIPE",
        "ring" => case.first.other.contains(END),
        "send" | "sendfile" => {
            let written = format!("= {}", argument(case.step, "len").unwrap_or_default());
            case.first.other.split(" offset=").next() == Some(written.as_str())
        }
        _ => false,
    };
    // By a signal.
    let is_reset = case.first.one.starts_with(RESET)
        || case.call() == "ring" && case.first.one.contains("= ECONNRESET ")
        || case.call() != "recv" && case.first.one.starts_with("= -1 EPIPE")
        || case.call() != "recv" && case.first.one == "died";
    is_reset && is_other && has_closed_what_may_be_shared(case)
}

fn shut_down_over_bytes(case: &Case<'_>) -> bool {
    let is_both = |step: &Step| argument(step, "how").as_deref() == Some("both");
    let mut shuts = case.before().iter().filter(|step| step.call.name() == "shutdown" && is_both(step));
    is_one_of(case.call(), "recv send")
        && (case.first.other == RESET || case.first.other == "died")
        && shuts.any(|step| writes_in_another_process(case, step))
}

fn more_is_queued(case: &Case<'_>) -> bool {
    let count =
        |outcome: &str| outcome.strip_prefix("= 0 count=").and_then(|count| count.parse::<u64>().ok());
    let (plain, library) = (count(&case.first.one), count(&case.first.other));
    // As much as comes into a full buffer.
    case.call() == "queued" && plain > Some(1 << 16) && library > plain
}

fn wrong_behind_bytes(case: &Case<'_>) -> bool {
    let by = argument(case.step, "by").unwrap_or_default();
    let count = case.first.one.strip_prefix("= ").and_then(|count| count.parse::<u64>().ok());
    case.call() == "wrong"
        && is_one_of(&by, "readv_second recvmsg_second")
        && count > Some(0)
        && case.first.other == "= -1 EFAULT"
}

/// Whether somebody has died before.
fn has_died(case: &Case<'_>) -> bool {
    let is_kill = |step: &Step| argument(step, "signal").as_deref() == Some("kill");
    case.finding.library.iter().take(case.first.at).any(|outcome| outcome == "died")
        || case.before().iter().any(|step| step.call.name() == "kill" && is_kill(step))
}

/// The kernel has reset it, and not under the library, before anybody has read that.
fn killed_over_bytes(case: &Case<'_>) -> bool {
    let (plain, library) = (case.first.one.as_str(), case.first.other.as_str());
    let written = argument(case.step, "len").map(|length| format!("= {length}"));
    let is_it = match case.call() {
        "shutdown" => (plain, library) == ("= -1 ENOTCONN", "= 0"),
        "poll" | "epoll_wait" => plain.contains("ERR") && !library.contains("ERR"),
        "send" => plain == RESET && Some(library) == written.as_deref(),
        _ => false,
    };
    is_it && has_died(case)
}

/// Part of a large write, and somebody has died before.
fn writes_to_the_killed(case: &Case<'_>) -> bool {
    let length = argument(case.step, "len").and_then(|length| length.parse::<u64>().ok());
    let written = |outcome: &str| outcome.strip_prefix("= ").and_then(|count| count.parse::<u64>().ok());
    let (all, part) = (written(&case.first.one), written(&case.first.other));
    case.call() == "send" && all.is_some() && all == length && part < all && part > Some(0) && has_died(case)
}

/// A difference in one line: what it is, and where it begins.
#[must_use]
pub fn line(program: &Program, finding: &Finding) -> String {
    let found = differences(&finding.plain, &finding.library);
    found.iter().min_by_key(|difference| began(difference)).map_or_else(String::new, |first| {
        let what = described(program, first.at);
        format!("{}: plain `{}`, library `{}`", what.trim(), first.one, first.other)
    })
}

#[cfg(test)]
mod tests;
