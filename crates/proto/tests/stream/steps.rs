//! What can happen next, and what comes of it. A wrong byte is found here, where it is taken.

use proto::stream::reader::{Purpose, Reader};
use proto::stream::withdraw::Withdraw;
use proto::stream::writer::{Occasion, Writer};
use proto::stream::{Do, Saw, Wait, Woken, Word, consent, path};

use crate::acts::act;
use crate::mutants::Mutant;
use crate::outcomes::{at_end, read, wrote};
use crate::world::{Case, Machine, Op, Process, World};

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
            Self::Kill(_) | Self::Wake(_) | Self::Hurry(_) => false,
            // Whoever spins for room looks at the clock.
            Self::Timer(who) => case.timers || world.processes[who].next == Some(Do::Sleep(Wait::Room)),
            Self::Overdue(_) => case.timers,
            _ => true,
        }
    }
}

/// What broke a promise.
pub(crate) type Broken = String;

/// Everything that can happen now.
pub(crate) fn choices(case: &Case, world: &World, out: &mut Vec<Choice>) {
    out.clear();
    if world.aborted {
        return;
    }
    let kernel = &world.kernel;
    if kernel.arrived < kernel.queue.len() || (kernel.finished && !kernel.fin_arrived) {
        out.push(Choice::Arrive);
    }
    for who in 0..world.processes.len() {
        of_process(case, world, who, out);
    }
}

fn of_process(case: &Case, world: &World, who: usize, out: &mut Vec<Choice>) {
    let process = &world.processes[who];
    if !process.is_alive {
        return;
    }
    if !process.stores.is_empty() {
        out.push(Choice::Flush(who));
    }
    if case.kill.contains(&who) && !world.has_killed {
        out.push(Choice::Kill(who));
    }
    match process.next {
        Some(next) => of_machine(case, world, who, next, out),
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

fn of_machine(case: &Case, world: &World, who: usize, next: Do, out: &mut Vec<Choice>) {
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
            let is_withdrawing = matches!(world.processes[who].machine, Machine::Withdrawing(_));
            case.timers && is_withdrawing && !(case.hurries && is_end_on_its_way)
        }
        Do::Pause => case.stops,
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
        Some(Op::Read(count)) => count - world.processes[who].moved,
        Some(Op::ReadToEnd(size) | Op::Peek(size)) => size,
        _ => 0,
    }
}

/// Raw calls are single steps, and happen when the kernel lets them.
fn may_begin(case: &Case, world: &World, op: Op) -> bool {
    let kernel = &world.kernel;
    match op {
        Op::RawWrite(_) => kernel.queue.len() < case.pipe as usize || world.end_is_gone(case, false),
        Op::RawRead(_) | Op::RawToEnd => kernel.arrived > 0 || kernel.fin_arrived || kernel.reset,
        _ => true,
    }
}

fn is_enabled(case: &Case, world: &World, who: usize, next: Do) -> bool {
    match next {
        Do::Lock(_) if case.mutant == Some(Mutant::NoLock) => true,
        Do::Lock(word) => world.lock_holder(who, word) == 0,
        Do::Sleep(wait) => wakes(case, world, who, wait),
        _ => true,
    }
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
    if case.is_writer(who) { world.end_is_gone(case, false) } else { kernel.reset || kernel.fin_arrived }
}

/// Lets it happen, and after it what nobody else can see or change.
pub(crate) fn apply(case: &Case, world: &mut World, choice: Choice) -> Result<(), Broken> {
    happen(case, world, choice)?;
    let (Choice::Step { who, .. }
    | Choice::Take { who, .. }
    | Choice::Hangup(who)
    | Choice::Timer(who)
    | Choice::Wake(who)
    | Choice::Hurry(who)
    | Choice::Visit(who)
    | Choice::Overdue(who)) = choice
    else {
        return Ok(());
    };
    while case.mutant != Some(Mutant::NoLock) && is_private(case, world, who) {
        happen(case, world, Choice::Step { who, all: true })?;
    }
    Ok(())
}

/// Looks at words that only the holder of its lock changes, bytes that nobody knows of yet, the way to the lock.
fn is_private(case: &Case, world: &World, who: usize) -> bool {
    let process = &world.processes[who];
    match process.next {
        Some(Do::Load(Word::Path | Word::Tail | Word::Base | Word::Cut | Word::Recall) | Do::Put { .. }) => {
            case.is_writer(who) && world.words[Word::WriteLock as usize] == who as u64 + 1
        }
        Some(Do::Load(Word::Head)) => !case.is_writer(who),
        Some(Do::Fence) => process.stores.is_empty(),
        Some(_) => false,
        None => {
            let op = world.op(case, who);
            let is_seen = matches!(
                op,
                None | Some(Op::RawWrite(_) | Op::RawRead(_) | Op::RawToEnd | Op::Renew | Op::BeforeSleep)
            );
            !is_seen
        }
    }
}

fn happen(case: &Case, world: &mut World, choice: Choice) -> Result<(), Broken> {
    match choice {
        Choice::Arrive => arrive(world),
        Choice::Flush(who) => {
            world.flush_one(who);
        }
        Choice::Kill(who) => kill(case, world, who),
        Choice::Wake(who) => return go_on(case, world, who, Saw::Woken(Woken::Look)),
        Choice::Hurry(who) => {
            world.processes[who].is_hurried = true;
            return go_on(case, world, who, Saw::Woken(Woken::Stop));
        }
        Choice::Timer(who) => return go_on(case, world, who, Saw::Woken(Woken::Timer)),
        Choice::Hangup(who) => return go_on(case, world, who, Saw::Woken(Woken::Hangup)),
        Choice::Take { who, count: 0 } => return go_on(case, world, who, Saw::Broken),
        Choice::Take { who, count } => {
            world.flush(who);
            let saw = taken_asleep(case, world, who, count as usize)?;
            return go_on(case, world, who, saw);
        }
        Choice::Visit(who) => return enter(case, world, who, Occasion::Visit),
        Choice::Overdue(who) => return enter(case, world, who, Occasion::Overdue),
        Choice::Step { who, all } => {
            let next = world.processes[who].next;
            return match next {
                None => begin(case, world, who),
                Some(next) => {
                    let saw = act(case, world, who, next, all)?;
                    go_on(case, world, who, saw)
                }
            };
        }
    }
    Ok(())
}

fn arrive(world: &mut World) {
    let kernel = &mut world.kernel;
    if kernel.arrived < kernel.queue.len() {
        kernel.arrived += 1;
    } else {
        kernel.fin_arrived = true;
    }
}

fn kill(case: &Case, world: &mut World, who: usize) {
    // What the processor has retired becomes visible, whoever dies.
    world.flush(who);
    world.has_killed = true;
    let process = &mut world.processes[who];
    process.is_alive = false;
    process.next = None;
    process.machine = Machine::Idle;
    process.copied.clear();
    world.unsure += std::mem::take(&mut process.published);
    end_of_writers(case, world, case.reset_on_death);
}

/// The kernel counts who holds the descriptor.
pub(crate) fn end_of_writers(case: &Case, world: &mut World, by_reset: bool) {
    if world.kernel.finished || !world.end_is_gone(case, true) {
        return;
    }
    let kernel = &mut world.kernel;
    if by_reset {
        kernel.queue.truncate(kernel.arrived);
        kernel.reset = true;
    } else {
        kernel.finished = true;
    }
}

fn enter(case: &Case, world: &mut World, who: usize, occasion: Occasion) -> Result<(), Broken> {
    let ring = u64::from(case.ring);
    world.processes[who].machine =
        Machine::Writing(Writer::new(occasion, ring, 0, true, world.processes[who].head));
    go_on(case, world, who, Saw::Nothing)
}

/// The next operation of a process.
fn begin(case: &Case, world: &mut World, who: usize) -> Result<(), Broken> {
    let Some(op) = world.op(case, who) else { return Ok(()) };
    let Process { moved, reached, head, .. } = world.processes[who];
    let ring = u64::from(case.ring);
    let writer =
        |occasion, want: u32| Machine::Writing(Writer::new(occasion, ring, u64::from(want), true, head));
    let plain = |want: u32, wait| Reader::new(ring, u64::from(want), wait, true, reached);
    let reader = |want: u32, wait| Machine::Reading(plain(want, wait));
    world.processes[who].machine = match op {
        Op::Write(count) => writer(Occasion::Write, count - moved),
        Op::WriteHungUp(count) => {
            let writer = Writer::new(Occasion::Write, ring, u64::from(count - moved), true, head);
            Machine::Writing(writer.hung_up())
        }
        Op::TryWrite(count) | Op::TryAll(count) => writer(Occasion::WriteNow, count - moved),
        Op::BeforeSleep if is_ready_to_sleep(case, world, who) => {
            finish_op(world, who);
            return Ok(());
        }
        Op::BeforeSleep => writer(Occasion::Overdue, 0),
        Op::Close => writer(Occasion::Finish, 0),
        Op::ShutDown => writer(Occasion::ShutDown, 0),
        Op::Read(count) => reader(count - moved, true),
        Op::TryRead => reader(1, false),
        Op::Look => Machine::Reading(plain(9, false).to(Purpose::Look)),
        Op::Poll => Machine::Reading(plain(9, true).to(Purpose::Look)),
        Op::Peek(most) => Machine::Reading(plain(most, true).to(Purpose::Peek)),
        Op::ReadToEnd(size) => reader(size, true),
        Op::Withdraw => Machine::Withdrawing(Withdraw::new(ring)),
        Op::Seen => Machine::Withdrawing(Withdraw::new(ring).seen()),
        Op::Renew => {
            world.words[Word::Consent as usize] = consent::NONE;
            finish_op(world, who);
            return Ok(());
        }
        Op::RawWrite(_) | Op::RawRead(_) | Op::RawToEnd => return raw(case, world, who, op),
    };
    if matches!(op, Op::Look | Op::Poll) {
        // Another reader may take what it sees before it ends, asleep in the kernel without any lock.
        world.processes[who].moved = if case.readers.len() > 1 { world.delivered } else { 0 };
    }
    world.processes[who].is_of_op = true;
    go_on(case, world, who, Saw::Nothing)
}

/// Nothing of the ring is unread, or it has to stay there.
fn is_ready_to_sleep(case: &Case, world: &World, who: usize) -> bool {
    let word = |word| world.load(who, word);
    match word(Word::Path) {
        path::RING => word(Word::Head).max(word(Word::Base)) == word(Word::Tail),
        way => !path::is_back(way) || world.end_is_gone(case, false) || world.kernel.finished,
    }
}

pub(crate) fn finish_op(world: &mut World, who: usize) {
    world.processes[who].op += 1;
    world.processes[who].moved = 0;
}

/// A call past the library, of one byte.
fn raw(case: &Case, world: &mut World, who: usize, op: Op) -> Result<(), Broken> {
    world.flush(who);
    let moved = match op {
        Op::RawWrite(_) => {
            if world.end_is_gone(case, false) {
                finish_op(world, who);
                return Ok(());
            }
            world.kernel.queue.push_back(world.committed);
            world.kernel.written += 1;
            world.committed += 1;
            1
        }
        _ if world.kernel.arrived > 0 => {
            receive(case, world, who, 1)?;
            1
        }
        _ => {
            at_end(world, world.unsure)?;
            finish_op(world, who);
            return Ok(());
        }
    };
    world.processes[who].moved += moved;
    if matches!(op, Op::RawWrite(count) | Op::RawRead(count) if world.processes[who].moved == count) {
        finish_op(world, who);
    }
    Ok(())
}

/// What a blocking call takes (or sees) of its own accord.
fn taken_asleep(case: &Case, world: &mut World, who: usize, count: usize) -> Result<Saw, Broken> {
    if matches!(world.op(case, who), Some(Op::Peek(_))) {
        let bytes = world.kernel.queue.iter().copied().take(count).collect();
        crate::acts::peeked(world, bytes)?;
    } else {
        receive(case, world, who, count)?;
    }
    Ok(Saw::Moved(count as u64))
}

pub(crate) fn receive(case: &Case, world: &mut World, who: usize, most: usize) -> Result<u64, Broken> {
    let count = most.min(world.kernel.arrived);
    for _ in 0..count {
        let byte = world.kernel.queue.pop_front().ok_or("the kernel's queue is shorter than it says")?;
        world.kernel.arrived -= 1;
        world.kernel.taken += 1;
        deliver(world, byte)?;
    }
    if case.mutant == Some(Mutant::CountsOwnReadsOnly) {
        world.processes[who].memory.took += count as u64;
    }
    Ok(count as u64)
}

pub(crate) fn deliver(world: &mut World, byte: u32) -> Result<(), Broken> {
    if byte != world.delivered {
        return Err(format!("byte {byte} where byte {} belongs", world.delivered));
    }
    world.delivered += 1;
    Ok(())
}

/// Tells a machine what it saw and notes what it wants next.
fn go_on(case: &Case, world: &mut World, who: usize, saw: Saw) -> Result<(), Broken> {
    let next = world.processes[who].machine.step(saw);
    world.processes[who].next = next;
    let Some(Do::Done(outcome)) = next else { return Ok(()) };
    match world.processes[who].machine {
        Machine::Reading(reader) => world.processes[who].reached = reader.reached(),
        Machine::Writing(writer) => world.processes[who].head = writer.head(),
        _ => {}
    }
    let was = world.processes[who].machine;
    world.processes[who].machine = Machine::Idle;
    world.processes[who].next = None;
    world.processes[who].memory.end_call();
    world.processes[who].published = 0;
    match was {
        Machine::Writing(_) => wrote(case, world, who, outcome),
        _ => read(case, world, who, outcome),
    }
}
