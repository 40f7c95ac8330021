//! What comes of what happens. A wrong byte is found here, where it is taken.

use stream::read::{Purpose, Read};
use stream::withdraw::Withdraw;
use stream::write::{Occasion, Write};
use stream::{Free, Outcome, Slept, Woken, Word, consent, path};

use crate::acts::act;
use crate::choices::Choice;
use crate::handlers;
use crate::mutants::Mutant;
use crate::outcomes::{at_end, read, wrote};
use crate::replay::{CHANGED, Call, Do, Parking, Running, Saw};
use crate::world::{Case, Op, Process, World};

/// What broke a promise.
pub(crate) type Broken = String;

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

/// Looks at words that only the holder of its lock changes, bytes that nobody knows of yet, the way to the
/// lock, and words that only the other processes of its end would look at.
fn is_private(case: &Case, world: &World, who: usize) -> bool {
    if handlers::may_begin(case, world) && who == handlers::INTERRUPTED {
        return false;
    }
    let process = &world.processes[who];
    let is_writer = case.is_writer(who);
    // A handler runs while what it interrupts does not.
    let is_alone = case.of_end(is_writer) - usize::from(is_writer && case.has_handler) == 1;
    let is_locked = world.words[Word::WriteLock as usize] == who as u64 + 1;
    match process.next {
        Some(
            Do::Load(Word::Path | Word::Tail | Word::Base | Word::SwitchOver | Word::Revoke | Word::Given)
            | Do::Put { .. },
        ) => is_writer && (is_locked || is_alone),
        Some(Do::Load(Word::InlineAt)) => is_writer && (is_locked || is_alone),
        // They only go to the store buffer.
        Some(Do::PutInline(_) | Do::Store(Word::InlineAt, _)) => case.buffered,
        Some(Do::Load(Word::Opening)) => is_locked || is_alone,
        Some(Do::Load(Word::Plain)) => is_alone,
        Some(Do::Store(Word::Opening, _)) => is_alone && !case.buffered,
        // They make all stores before them visible.
        Some(Do::Increase(Word::Plain) | Do::Decrease(Word::Plain) | Do::Lock(Word::WriteLock)) => {
            is_alone && process.stores.is_empty()
        }
        Some(Do::Unlock(Word::WriteLock)) => is_alone && !case.buffered,
        Some(Do::Load(Word::Head)) => !is_writer,
        Some(Do::Load(Word::Consent)) => !is_writer && is_alone,
        Some(Do::Fence) => process.stores.is_empty(),
        Some(_) => false,
        None => {
            let op = world.op(case, who);
            let is_seen = matches!(
                op,
                None | Some(
                    Op::RawWrite(_)
                        | Op::RawRead(_)
                        | Op::RawToEnd
                        | Op::Renew
                        | Op::BeforeSleep
                        | Op::ReadWritten
                )
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
        Choice::Reset => reset(case, world),
        Choice::Closed => world.kernel.closed = true,
        Choice::Wake(who) => return woken(case, world, who, Woken::Look),
        Choice::Hurry(who) => {
            world.processes[who].is_hurried = true;
            return woken(case, world, who, Woken::Stop);
        }
        Choice::Timer(who) if matches!(world.processes[who].next, Some(Do::WaitUntilFree(_))) => {
            return go_on(case, world, who, Saw::Free(Free::Stopped));
        }
        Choice::Timer(who) => return woken(case, world, who, Woken::Timer),
        Choice::Hangup(who) => return woken(case, world, who, Woken::Hangup),
        Choice::Take { who, count: 0 } => return go_on(case, world, who, Saw::Slept(Slept::Broken)),
        Choice::Take { who, count } => {
            world.flush(who);
            taken_asleep(case, world, who, count as usize)?;
            return go_on(case, world, who, Saw::Slept(Slept::Moved(u64::from(count))));
        }
        Choice::Visit(who) => return visit(case, world, who, Occasion::Visit),
        Choice::Overdue(who) => return visit(case, world, who, Occasion::Overdue),
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
    world.has_killed = true;
    ends(world, who);
    if handlers::is_interrupted_one(case, who) {
        ends(world, case.writers.len() - 1);
    }
    end_of_writers(case, world, case.reset_on_death);
}

fn ends(world: &mut World, who: usize) {
    // What the processor has retired becomes visible, whoever dies.
    world.flush(who);
    let process = &mut world.processes[who];
    process.is_alive = false;
    process.next = None;
    process.running = None;
    process.copied.clear();
    world.unsure += std::mem::take(&mut process.published);
}

/// The kernel counts who holds the descriptor.
pub(crate) fn end_of_writers(case: &Case, world: &mut World, by_reset: bool) {
    if world.kernel.finished || !world.end_is_gone(case, true) {
        return;
    }
    if by_reset {
        reset(case, world);
    } else {
        world.kernel.finished = true;
    }
}

/// What is on its way is lost.
fn reset(case: &Case, world: &mut World) {
    let is_end = world.end_is_gone(case, true) && !world.has_killed;
    let kernel = &mut world.kernel;
    kernel.is_whole = is_end && kernel.queue.len() == kernel.arrived;
    kernel.queue.truncate(kernel.arrived);
    kernel.reset = true;
}

fn visit(case: &Case, world: &mut World, who: usize, occasion: Occasion) -> Result<(), Broken> {
    let write = Write::new(occasion, u64::from(case.ring), 0, true, world.processes[who].head);
    enter(case, world, who, Call::Writing(write))
}

/// A process enters the library.
fn enter(case: &Case, world: &mut World, who: usize, call: Call) -> Result<(), Broken> {
    let mut running = Running::new(call, case.inline);
    let next = running.begin();
    world.processes[who].is_short =
        handlers::is_interrupted_one(case, who) && matches!(call, Call::Writing(_));
    world.processes[who].running = Some(running);
    wants(case, world, who, next)
}

/// A short call has come to a step that it does not make: it gives the lock back, and begins again with
/// signals blocked; what it has published is written, and is only seen to.
fn is_no_longer_short(case: &Case, world: &mut World, who: usize) -> Result<(), Broken> {
    world.processes[who].is_short = false;
    world.flush(who);
    world.words[Word::WriteLock as usize] = 0;
    let published = world.processes[who].published;
    if published == 0 {
        let running = world.processes[who].running.as_mut().ok_or("a step of no call")?;
        world.processes[who].next = Some(running.again());
        return Ok(());
    }
    wants(case, world, who, Do::Done(Outcome::Moved(u64::from(published))))?;
    visit(case, world, who, Occasion::Overdue)?;
    world.processes[who].is_short = false;
    Ok(())
}

fn woken(case: &Case, world: &mut World, who: usize, why: Woken) -> Result<(), Broken> {
    go_on(case, world, who, Saw::Slept(Slept::Woken(why)))
}

/// The next operation of a process.
fn begin(case: &Case, world: &mut World, who: usize) -> Result<(), Broken> {
    let Some(op) = world.op(case, who) else { return Ok(()) };
    let Process { moved, reached, head, .. } = world.processes[who];
    let ring = u64::from(case.ring);
    let writer = |occasion, want: u32| Call::Writing(Write::new(occasion, ring, u64::from(want), true, head));
    let read = |want: u32, wait| Read::new(ring, u64::from(want), wait, true, reached);
    let reader = |want: u32, wait| Call::Reading(read(want, wait));
    let call = match op {
        Op::Write(count) => writer(Occasion::Write, count - moved),
        Op::WriteHungUp(count) => {
            let write = Write::new(Occasion::Write, ring, u64::from(count - moved), true, head);
            Call::Writing(write.hung_up())
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
        Op::ReadWritten if has_all(case, world) => {
            finish_op(world, who);
            return Ok(());
        }
        Op::TryRead => reader(1, false),
        Op::ReadWritten => reader(2, false),
        Op::Look => Call::Reading(read(9, false).to(Purpose::Look)),
        Op::Poll => Call::Reading(read(9, true).to(Purpose::Look)),
        Op::Peek(most) => Call::Reading(read(most, true).to(Purpose::Peek)),
        Op::ReadToEnd(size) => reader(size, true),
        Op::Park => Call::Parking(Parking::Park),
        Op::Wake => Call::Parking(Parking::Wake),
        Op::ReadParked(_) => Call::Parking(Parking::Read),
        Op::ReadAsleep(_) => Call::Parking(Parking::Sleep { stays: false }),
        Op::ReadAndStay(_) => Call::Parking(Parking::Sleep { stays: true }),
        Op::Withdraw => Call::Withdrawing(Withdraw::new(ring)),
        Op::Seen => Call::Withdrawing(Withdraw::new(ring).seen()),
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
    enter(case, world, who, call)
}

/// Readers have all that was written, and nobody writes any more.
fn has_all(case: &Case, world: &World) -> bool {
    let writes = |who| world.op(case, who).is_some() || world.processes[who].next.is_some();
    world.delivered == world.committed && !(0..case.writers.len()).any(writes)
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
            if world.end_is_gone(case, false) || world.kernel.reset {
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
fn taken_asleep(case: &Case, world: &mut World, who: usize, count: usize) -> Result<(), Broken> {
    if matches!(world.op(case, who), Some(Op::Peek(_))) {
        let bytes = world.kernel.queue.iter().copied().take(count).collect();
        crate::acts::peeked(world, bytes)?;
    } else {
        receive(case, world, who, count)?;
    }
    Ok(())
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

/// Tells a call what it saw and notes what it wants next.
fn go_on(case: &Case, world: &mut World, who: usize, saw: Saw) -> Result<(), Broken> {
    let running = world.processes[who].running.as_mut().ok_or("a step of no call")?;
    let next = running.step(saw);
    wants(case, world, who, next)
}

fn wants(case: &Case, world: &mut World, who: usize, next: Do) -> Result<(), Broken> {
    world.processes[who].next = Some(next);
    if world.processes[who].is_short && !handlers::is_step_of_short(next) {
        return is_no_longer_short(case, world, who);
    }
    let Do::Done(outcome) = next else { return Ok(()) };
    let process = &mut world.processes[who];
    process.next = None;
    process.memory.end_call();
    process.published = 0;
    let ended = process.running.take().ok_or("an end of no call")?;
    match ended.call {
        Call::Reading(call) => process.reached = call.reached(),
        Call::Writing(call) => process.head = call.head(),
        _ => {}
    }
    match ended.call {
        // The rest goes through the kernel.
        Call::Writing(_) if outcome == Outcome::Kernel => match wanted_to_write(case, world, who) {
            Some(want) => enter(case, world, who, Call::Plain(u64::from(want))),
            None => Err("a write of nothing goes to the kernel".into()),
        },
        Call::Plain(_) if outcome == CHANGED => begin(case, world, who),
        Call::Writing(_) if is_ended_with_a_rest(case, world, who) => {
            enter(case, world, who, Call::Saying(u64::from(case.ring)))
        }
        // An ordinary read, also if somebody parks it in between.
        Call::Parking(Parking::Read | Parking::Sleep { .. }) if outcome == CHANGED => {
            let Process { moved, reached, .. } = world.processes[who];
            let Some(Op::ReadParked(count) | Op::ReadAsleep(count) | Op::ReadAndStay(count)) =
                world.op(case, who)
            else {
                return Err("a read of no op".into());
            };
            let ring = u64::from(case.ring);
            enter(
                case,
                world,
                who,
                Call::Reading(Read::new(ring, u64::from(count - moved), true, true, reached)),
            )
        }
        Call::Parking(Parking::Park | Parking::Wake) => {
            finish_op(world, who);
            Ok(())
        }
        Call::Writing(_) | Call::Plain(_) | Call::Saying(_) => wrote(case, world, who, outcome),
        _ => read(case, world, who, outcome),
    }
}

/// It has done what it can before it ends, and bytes stay in the ring.
fn is_ended_with_a_rest(case: &Case, world: &World, who: usize) -> bool {
    let is_end =
        world.processes[who].is_of_op && matches!(world.op(case, who), Some(Op::Close | Op::ShutDown));
    let word = |word| world.load(who, word);
    let is_left = word(Word::Head).max(word(Word::Base)) < word(Word::Tail);
    is_end && (is_left || path::is_back(word(Word::Path)))
}

/// What is left of the write that a process is at.
fn wanted_to_write(case: &Case, world: &World, who: usize) -> Option<u32> {
    match world.op(case, who)? {
        Op::Write(count) | Op::WriteHungUp(count) | Op::TryWrite(count) | Op::TryAll(count) => {
            Some(count - world.processes[who].moved)
        }
        _ => None,
    }
}
