//! What can happen next.

use stream::{Wait, Word, consent};

use crate::handlers;
use crate::mutants::Mutant;
use crate::replay::{Call, Do};
use crate::world::{Case, Op, World};

/// Something that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Choice {
    /// A process goes one step on; a kernel call moves one byte only, if not `all`.
    Step {
        who: usize,
        all: bool,
    },
    /// A blocking call in the kernel ends with so many bytes, without any lock; with none, it took the error.
    Take {
        who: usize,
        count: u32,
    },
    /// A spinning wait is told that the other end hung up.
    Hangup(usize),
    /// Its oldest store becomes visible.
    Flush(usize),
    /// A byte, or the end, arrives at the reading end.
    Arrive,
    /// Its wait was long enough.
    Timer(usize),
    /// Its sleep ends for no reason.
    Wake(usize),
    /// The connection is reset.
    Reset,
    /// Both directions have ended.
    Closed,
    /// It ends, whatever does not fit into the kernel.
    Hurry(usize),
    /// The library is called in an idle writer.
    Visit(usize),
    Overdue(usize),
    Kill(usize),
}

impl Choice {
    /// Things that need not happen for the stream to finish.
    pub(crate) fn is_help(self, case: &Case, world: &World) -> bool {
        match self {
            Self::Kill(_) | Self::Wake(_) | Self::Hurry(_) | Self::Reset | Self::Closed => false,
            // Whoever spins for room looks at the clock.
            Self::Timer(who) => case.timers || world.processes[who].next == Some(Do::Sleep(Wait::Room)),
            Self::Overdue(_) => case.timers,
            _ => true,
        }
    }
}

/// Everything that can happen now.
pub(crate) fn choices(case: &Case, world: &World, out: &mut Vec<Choice>) {
    out.clear();
    if world.aborted {
        return;
    }
    let kernel = &world.kernel;
    let is_fin_on_its_way = kernel.finished && !kernel.fin_arrived && !kernel.reset;
    if kernel.arrived < kernel.queue.len() || is_fin_on_its_way {
        out.push(Choice::Arrive);
    }
    let has_one_ended = |who: usize| world.processes[who].has_closed || !world.processes[who].is_alive;
    if case.resets && !kernel.reset && !kernel.closed && (0..case.writers.len()).any(has_one_ended) {
        out.push(Choice::Reset);
    }
    if case.closes && kernel.fin_arrived && !kernel.reset && !kernel.closed {
        out.push(Choice::Closed);
    }
    for who in 0..world.processes.len() {
        of_process(case, world, who, out);
    }
}

fn of_process(case: &Case, world: &World, who: usize, out: &mut Vec<Choice>) {
    let process = &world.processes[who];
    if !process.is_alive || !handlers::may_go_on(case, world, who) {
        return;
    }
    if !process.stores.is_empty() {
        out.push(Choice::Flush(who));
    }
    if case.kill.contains(&who) && !world.has_killed {
        out.push(Choice::Kill(who));
    }
    match process.next {
        Some(next) => of_call(case, world, who, next, out),
        None => {
            if world.op(case, who).is_some_and(|op| may_begin(case, world, op)) {
                out.push(Choice::Step { who, all: true });
            }
            if case.is_writer(who) && !process.has_closed {
                if case.has_visits() {
                    out.push(Choice::Visit(who));
                }
                if case.overdue {
                    out.push(Choice::Overdue(who));
                }
            }
        }
    }
}

fn of_call(case: &Case, world: &World, who: usize, next: Do, out: &mut Vec<Choice>) {
    if is_enabled(case, world, who, next) {
        out.push(Choice::Step { who, all: true });
        if can_be_partial(world, next) {
            out.push(Choice::Step { who, all: false });
        }
    }
    let is_timed = match next {
        Do::Sleep(Wait::Room) => true,
        // A reader waits for the writer to come to the end of what it does, however long that is.
        Do::Sleep(Wait::Return) => {
            let hurries = world.processes.iter().any(|process| process.is_hurried);
            let is_end_on_its_way = hurries || world.kernel.finished && !world.kernel.fin_arrived;
            let running = world.processes[who].running.as_ref();
            let is_withdrawing = running.is_some_and(|running| matches!(running.call, Call::Withdrawing(_)));
            case.timers && is_withdrawing && !(case.hurries && is_end_on_its_way)
        }
        Do::WaitUntilFree(word) => case.stops && world.lock_holder(who, word) != 0,
        _ => false,
    };
    if is_timed {
        out.push(Choice::Timer(who));
    }
    match next {
        Do::Sleep(Wait::Readable) => {
            let most = wanted(case, world, who).min(world.kernel.arrived as u32);
            let nothing_but_an_error = world.kernel.reset && world.kernel.arrived == 0;
            let counts = [(0, nothing_but_an_error), (1, most > 0), (most, most > 1)];
            let possible = counts.into_iter().filter(|(_, is_possible)| *is_possible);
            out.extend(possible.map(|(count, _)| Choice::Take { who, count }));
        }
        Do::Sleep(Wait::Room | Wait::Return) if has_hung_up(case, world, who) => {
            out.push(Choice::Hangup(who));
        }
        _ => {}
    }
    if case.hurries && next == Do::Sleep(Wait::Writable) && may_hurry(case, world, who) {
        out.push(Choice::Hurry(who));
    }
    if case.spurious && matches!(next, Do::Sleep(Wait::Readable | Wait::Writable)) {
        out.push(Choice::Wake(who));
    }
}

/// Whoever reads finds the rest in the ring.
fn may_hurry(case: &Case, world: &World, who: usize) -> bool {
    matches!(world.op(case, who), Some(Op::Close | Op::ShutDown))
        && world.load(who, Word::Consent) != consent::WITHDRAWN
}

/// Room in the buffer of the program's read call.
fn wanted(case: &Case, world: &World, who: usize) -> u32 {
    match world.op(case, who) {
        Some(Op::Read(count) | Op::ReadParked(count) | Op::ReadAsleep(count) | Op::ReadAndStay(count)) => {
            count - world.processes[who].moved
        }
        Some(Op::ReadToEnd(size) | Op::Peek(size)) => size,
        _ => 0,
    }
}

/// Raw calls are single steps, and happen when the kernel lets them.
fn may_begin(case: &Case, world: &World, op: Op) -> bool {
    let kernel = &world.kernel;
    match op {
        Op::RawWrite(_) => {
            kernel.queue.len() < case.pipe as usize || kernel.reset || world.end_is_gone(case, false)
        }
        Op::RawRead(_) | Op::RawToEnd => kernel.arrived > 0 || kernel.fin_arrived || kernel.reset,
        _ => true,
    }
}

fn is_enabled(case: &Case, world: &World, who: usize, next: Do) -> bool {
    match next {
        Do::Lock(_) if case.mutant == Some(Mutant::NoLock) => true,
        Do::Lock(word) => world.lock_holder(who, word) == 0 || handlers::is_nested(case, world, who, word),
        Do::WaitUntilFree(_) if case.mutant == Some(Mutant::RevokeIgnoresLock) => true,
        Do::WaitUntilFree(word) => world.lock_holder(who, word) == 0,
        Do::Send { .. } if may_wait(case, world, who) => wakes(case, world, who, Wait::Writable),
        Do::Sleep(wait) => wakes(case, world, who, wait),
        _ => true,
    }
}

/// Whether the program's own call waits until the kernel takes something.
fn may_wait(case: &Case, world: &World, who: usize) -> bool {
    !matches!(world.op(case, who), Some(Op::TryWrite(_) | Op::TryAll(_)))
}

fn can_be_partial(world: &World, next: Do) -> bool {
    match next {
        Do::Receive { most } => most > 1 && world.kernel.arrived > 1,
        Do::Send { most } | Do::SendRing { len: most, .. } => most > 1,
        _ => false,
    }
}

fn wakes(case: &Case, world: &World, who: usize, wait: Wait) -> bool {
    let kernel = &world.kernel;
    match wait {
        Wait::Readable => kernel.arrived > 0 || has_hung_up(case, world, who),
        Wait::Writable => kernel.queue.len() < case.pipe as usize || has_hung_up(case, world, who),
        Wait::Room | Wait::Return => true,
    }
}

pub(crate) fn has_hung_up(case: &Case, world: &World, who: usize) -> bool {
    let kernel = &world.kernel;
    if case.is_writer(who) {
        kernel.reset || world.end_is_gone(case, false)
    } else {
        kernel.reset || kernel.fin_arrived
    }
}
