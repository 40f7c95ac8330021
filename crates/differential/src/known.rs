//! The known differences with a ring on each connection that cannot be mended, each with its
//! reason.
//!
//! A difference is looked at where it begins: in the first line that differs. What comes behind that is
//! mostly its consequence. An entry is as narrow as one can tell from the program and the two outcomes; each
//! has a saved program in `corpus/known`, and a row in the table of `docs/sockets.md`.

mod edges;
mod ends;
mod writers;

use crate::compare::{Difference, came_at, differences};
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
pub const ALL: [Known; 14] = [
    Known {
        name: "waits-for-a-writer",
        row: "a program that executes another one, copies the descriptor (`dup`)",
        reason: "bytes are in a ring that another process has written and only that process can take back, which it does in its next call \
                 that the library sees; this one has to wait for that before what the library does not see",
        is_it: |case| {
            writers::waits_for_a_writer(case)
                || writers::was_waited_for_in_vain(case)
                || writers::was_reset_behind_a_killed_writer(case)
                || writers::has_hung_in_vain(case)
                || writers::was_reset_behind_another_program(case)
                || writers::is_read_behind_a_shutdown(case)
                || writers::is_told_later(case)
        },
    },
    Known {
        name: "waits-since-before",
        row: "a thread that waits for a connection, or reads from it, since its first bytes",
        reason: "its wait began before there was a ring and does not know of it, and the reads of another thread say that this end is awake",
        is_it: |case| {
            writers::waits_since_before(case)
                || writers::reads_since_before(case)
                || writers::began_before(case)
        },
    },
    Known {
        name: "edge-again",
        row: "a program that waits for edges",
        reason: "an edge was told of bytes in a ring, which have gone back to the kernel since; the kernel does not know of that edge and \
                 tells of one of its own",
        is_it: |case| {
            edges::is_edge_again(case)
                || edges::is_edge_again_for_many(case)
                || edges::is_edge_again_for_nobody(case)
                || edges::is_edge_again_for_a_cancelled(case)
        },
    },
    Known {
        name: "edge-not-repeated",
        row: "a program that waits for edges",
        reason: "bytes that come through the kernel have it tell once more that there is room, and its acknowledgement of a shutdown once more of \
                 the end, when it comes behind the wait, and a shutdown by another process once more of bytes that are unread; those of a \
                 ring do not",
        is_it: |case| edges::is_edge_not_repeated(case) || edges::is_edge_not_repeated_for_many(case),
    },
    Known {
        name: "rings-first",
        row: "a program that waits for many with `epoll`",
        reason: "what rings have is told without asking the kernel, which is asked for the others at one wait in eight",
        is_it: edges::is_rings_first,
    },
    Known {
        name: "other-one-first",
        row: "a program that waits for many with `epoll`",
        reason: "with room for fewer events than there are, rings come first, in the order of the library's table, not in that in which \
                 they became ready",
        is_it: edges::is_other_one_first,
    },
    Known {
        name: "reset-for-end",
        row: "a program whose other end was closed while programs that it had started (`posix_spawn`, `vfork`) may have had it, too",
        reason: "the end that closed does not know whether another process has it, so it goes on taking bytes into its ring; the reader \
                 finds them there, unread, behind the end",
        is_it: |case| ends::is_reset_for_end(case) || ends::takes_a_part(case),
    },
    Known {
        name: "end-for-reset",
        row: "a program whose other end was closed while programs that it had started (`posix_spawn`, `vfork`) may have had it, too",
        reason: "the end that closed with bytes unread does not know whether another process has it, which would go on, so it resets \
                 nothing",
        is_it: ends::is_end_for_reset,
    },
    Known {
        name: "shut-down-over-bytes",
        row: "a program that shuts down both halves (`SHUT_RDWR`)",
        reason: "another process has written what is unread in the ring, and the kernel does not take it back any more",
        is_it: ends::shut_down_over_bytes,
    },
    Known {
        name: "shut-reading-and-copied",
        row: "a program that shuts down its reading half (`SHUT_RD`)",
        reason: "another process has written what is unread in the ring; after a shutdown of the reading half nobody asks it to return \
                 that, and a copied descriptor reads from the kernel alone",
        is_it: ends::shut_reading_and_copied,
    },
    Known {
        name: "more-is-queued",
        row: "a program that asks how much can be read",
        reason: "a ring takes what the kernel would not have had room for yet",
        is_it: more_is_queued,
    },
    Known {
        name: "killed-over-bytes",
        row: "a program whose other end was killed with bytes unread",
        reason: "the kernel did not hold the bytes that the killed end had not read, so it ended the connection instead of resetting it",
        is_it: |case| ends::killed_over_bytes(case) || ends::killed_over_bytes_later(case),
    },
    Known {
        name: "writes-to-the-killed",
        row: "a program that writes to an end that was killed",
        reason: "the killed end's last word is that it is awake, so a ring takes what fits into it, and the kernel, which knows better, refuses \
                 the rest",
        is_it: |case| ends::writes_to_the_killed(case) || ends::wrote_to_the_killed(case),
    },
    Known {
        name: "cancelled-first",
        row: "a thread that another one cancels when it begins to wait for descriptors",
        reason: "with rings forced a wait first looks for the other ends of connections, and a cancel that comes meanwhile comes before the look at \
                 what there is",
        is_it: edges::is_cancelled_first,
    },
];

/// The entry that a difference is, if it is any.
#[must_use]
pub fn of(program: &Program, finding: &Finding) -> Option<Known> {
    let found = differences(&finding.plain, &finding.library);
    let first = first(&found)?;
    let step = program.steps.get(first.at)?;
    let case = Case { program, finding, first, step };
    ALL.into_iter().find(|known| (known.is_it)(&case))
}

/// The difference that came first; of two, the one of the step itself, not of a call that blocked until then.
fn first(found: &[Difference]) -> Option<&Difference> {
    found.iter().min_by_key(|difference| (began(difference), difference.at + 1 != began(difference)))
}

/// At which step a difference began: a call that blocks has come to something later.
fn began(difference: &Difference) -> usize {
    let waits = |outcome: &str| outcome.starts_with("blocks") || outcome.starts_with("hangs");
    let step = |outcome: &str| came_at(outcome).or_else(|| (!waits(outcome)).then_some(difference.at + 1));
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

    /// In which process an actor is, as far as the steps before tell.
    fn process(&self, step: &Step) -> Option<usize> {
        processes(self.before()).get(step.actor.index()).copied()
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

fn is_one_of(call: &str, calls: &str) -> bool {
    calls.split(' ').any(|one| one == call)
}

fn more_is_queued(case: &Case<'_>) -> bool {
    let count =
        |outcome: &str| outcome.strip_prefix("= 0 count=").and_then(|count| count.parse::<u64>().ok());
    let (plain, library) = (count(&case.first.one), count(&case.first.other));
    // As much as comes into a full buffer.
    case.call() == "queued" && plain > Some(1 << 16) && library > plain
}

/// A difference in one line: what it is, and where it begins.
#[must_use]
pub fn line(program: &Program, finding: &Finding) -> String {
    let found = differences(&finding.plain, &finding.library);
    first(&found).map_or_else(String::new, |first| {
        let what = described(program, first.at);
        format!("{}: plain `{}`, library `{}`", what.trim(), first.one, first.other)
    })
}

#[cfg(test)]
mod tests;
