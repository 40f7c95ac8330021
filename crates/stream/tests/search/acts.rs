//! A step of a call, done to the world: the library's part, which the mutants get wrong.

use stream::{Free, Held, Sent, Slept, Taken, Woken, Word, Written, inline, path};

use crate::handlers;
use crate::mutants::{self, Mutant};
use crate::replay::{Do, Saw};
use crate::steps::{Broken, deliver};
use crate::world::{Case, Cell, Op, World};

/// Does it and says what the call sees of it.
pub(crate) fn act(case: &Case, world: &mut World, who: usize, what: Do, all: bool) -> Result<Saw, Broken> {
    let is = |mutant| case.mutant == Some(mutant);
    Ok(match what {
        Do::Lock(word) => {
            world.flush(who);
            if handlers::is_nested(case, world, who, word) {
                return Ok(Saw::Nested);
            }
            world.words[word as usize] = who as u64 + 1;
            world.processes[who].is_interrupted = false;
            Saw::Nothing
        }
        Do::Unlock(word) if handlers::is_nested(case, world, who, word) => Saw::Nothing,
        Do::Interrupt => {
            world.processes[handlers::INTERRUPTED].is_interrupted = !is(Mutant::NothingInterrupts);
            Saw::Nothing
        }
        Do::Advance(..) if world.processes[who].is_interrupted => {
            world.processes[who].is_short = false;
            Saw::Interrupted
        }
        Do::Unlock(word) => {
            late_copy(case, world, who)?;
            if let Some(switch_over) = world.processes[who].memory.switch_over.take() {
                world.store(case, who, Word::SwitchOver, switch_over);
            }
            world.store(case, who, word, 0);
            Saw::Nothing
        }
        Do::Load(word) => Saw::Value(mutants::load(case, world, who, word)),
        Do::WaitUntilFree(_) => Saw::Free(Free::Free),
        Do::Store(word, value) | Do::Advance(word, value) => {
            store(case, world, who, word, value)?;
            Saw::Nothing
        }
        Do::Increase(word) | Do::Decrease(word) => {
            let up = matches!(what, Do::Increase(_));
            let value = world.load(who, word);
            let value = if up { value + 1 } else { value.saturating_sub(1) };
            if is(Mutant::PlainArming) {
                world.store(case, who, word, value);
            } else {
                world.flush(who);
                world.words[word as usize] = value;
            }
            world.processes[who].memory.is_armed = up && is(Mutant::NoLookAfterArming);
            Saw::Nothing
        }
        Do::Parked => {
            world.flush(who);
            Saw::Value(world.parked)
        }
        Do::ExchangeParked(from, to) => {
            world.flush(who);
            if world.parked != from {
                return Ok(Saw::Otherwise);
            }
            world.parked = to;
            Saw::Nothing
        }
        Do::Inside => {
            world.flush(who);
            Saw::Value(if is(Mutant::WakesUnderReaders) { 0 } else { world.inside })
        }
        Do::Enter | Do::Exit => {
            world.flush(who);
            world.inside = if what == Do::Enter { world.inside + 1 } else { world.inside - 1 };
            Saw::Nothing
        }
        Do::Fence => {
            if !is(Mutant::NoFence) {
                world.flush(who);
            }
            Saw::Nothing
        }
        Do::Put { at, len } => {
            for i in 0..len {
                let place = ((at + i) % u64::from(case.ring)) as usize;
                world.ring[place] = world.committed + i as u32;
            }
            Saw::Nothing
        }
        Do::PutInline(at) => {
            world.change(case, who, Cell::Inline(at), u64::from(world.committed) + at as u64);
            Saw::Nothing
        }
        Do::TakeInline(at) => {
            let byte = world.look(who, Cell::Inline(at)) as u32;
            let copied = &mut world.processes[who].copied;
            copied.truncate(at);
            copied.push(byte);
            Saw::Nothing
        }
        Do::Take { at, len } => {
            let bytes = ring_bytes(case, world, at, len);
            if is_peek(case, world, who) {
                return peeked(world, bytes);
            }
            world.processes[who].copied = bytes;
            if is(Mutant::CopyAfterHead) {
                world.processes[who].memory.late = Some((at, len));
            }
            Saw::Nothing
        }
        Do::Sleep(_) => {
            world.processes[who].memory.seen[Word::Head as usize] = None;
            Saw::Slept(Slept::Woken(Woken::Look))
        }
        Do::Done(_) => Saw::Nothing,
        Do::AskTaken
        | Do::AskWritten
        | Do::AskRoom(_)
        | Do::Count
        | Do::Receive { .. }
        | Do::Send { .. }
        | Do::SendRing { .. } => {
            world.flush(who);
            in_kernel(case, world, who, what, all)?
        }
    })
}

fn is_peek(case: &Case, world: &World, who: usize) -> bool {
    matches!(world.op(case, who), Some(Op::Peek(_)))
}

/// Bytes that a reader saw and left: the next ones?
pub(crate) fn peeked(world: &World, bytes: Vec<u32>) -> Result<Saw, Broken> {
    let is_next = bytes.iter().zip(world.delivered..).all(|(&byte, next)| byte == next);
    if is_next {
        Ok(Saw::Nothing)
    } else {
        Err(format!("{bytes:?} seen where byte {} is next", world.delivered))
    }
}

fn store(case: &Case, world: &mut World, who: usize, word: Word, value: u64) -> Result<(), Broken> {
    match (word, case.mutant) {
        (Word::Base, Some(Mutant::NoBase)) => return Ok(()),
        (Word::Given, Some(Mutant::GivenNotSaid)) => return Ok(()),
        (Word::Given, Some(Mutant::GivenNotTakenBack)) if value == 0 => return Ok(()),
        (Word::InlineAt, Some(Mutant::InlineNotVoided)) if value == inline::NOTHING => return Ok(()),
        (Word::SwitchOver, Some(Mutant::SwitchOverAfterTail)) => {
            world.processes[who].memory.switch_over = Some(value);
            return Ok(());
        }
        _ => {}
    }
    let before = world.load(who, word);
    world.store(case, who, word, value);
    match word {
        Word::Tail => {
            // From here on the program is told that they are written.
            world.committed += (value - before) as u32;
            world.processes[who].published = (value - before) as u32;
            let memory = &mut world.processes[who].memory;
            (memory.has_published, memory.is_opening) = (case.mutant.is_some(), false);
        }
        Word::Head if world.processes[who].memory.late.is_none() => deliver_copied(world, who)?,
        _ => {}
    }
    Ok(())
}

fn deliver_copied(world: &mut World, who: usize) -> Result<(), Broken> {
    let copied = std::mem::take(&mut world.processes[who].copied);
    copied.into_iter().try_for_each(|byte| deliver(world, byte))
}

fn late_copy(case: &Case, world: &mut World, who: usize) -> Result<(), Broken> {
    let Some((at, len)) = world.processes[who].memory.late.take() else { return Ok(()) };
    world.processes[who].copied = ring_bytes(case, world, at, len);
    deliver_copied(world, who)
}

fn ring_bytes(case: &Case, world: &World, at: u64, len: u64) -> Vec<u32> {
    (at..at + len).map(|i| world.ring[(i % u64::from(case.ring)) as usize]).collect()
}

fn in_kernel(case: &Case, world: &mut World, who: usize, what: Do, all: bool) -> Result<Saw, Broken> {
    let kernel = &world.kernel;
    Ok(match what {
        Do::AskTaken if kernel.reset || kernel.closed => {
            let (received, unread) = (received(case, world), kernel.arrived as u64);
            let otherwise = (unread == 0).then_some(received);
            Saw::Taken(Taken::Closed { received, unread, otherwise })
        }
        Do::AskTaken => Saw::Taken(Taken::Bytes(match case.mutant {
            Some(Mutant::CountsOwnReadsOnly) => world.processes[who].memory.took,
            Some(Mutant::FinIsAByte) => kernel.taken + u64::from(kernel.fin_arrived),
            Some(Mutant::UnreadIsTaken) => kernel.taken + kernel.arrived as u64,
            _ => kernel.taken,
        })),
        Do::AskWritten if kernel.reset || kernel.finished || world.end_is_gone(case, false) => {
            if case.mutant == Some(Mutant::RefusedIsDone) && path::is_back(world.load(who, Word::Path)) {
                world.store(case, who, Word::Path, path::SHUT);
            }
            Saw::Written(Written::Broken)
        }
        Do::AskWritten if is_said_beside_writes(case, world) => {
            Saw::Written(Written::Bytes(world.words[Word::Given as usize] - 1))
        }
        Do::AskWritten => Saw::Written(Written::Bytes(kernel.written)),
        // What others write past the library may take the room away afterwards.
        Do::AskRoom(len) => {
            let has_room = kernel.queue.len() as u64 + len <= u64::from(case.pipe);
            Saw::Room(has_room || !case.is_asked || case.mutant == Some(Mutant::OpenWithoutRoom))
        }
        Do::Count => Saw::Held(match kernel.arrived {
            0 if kernel.reset || kernel.closed => Held::Closed { received: received(case, world) },
            0 if kernel.fin_arrived => Held::End,
            0 => Held::Nothing,
            count => Held::Bytes(count as u64),
        }),
        Do::Receive { most } => {
            let most =
                if case.mutant == Some(Mutant::ReadsMoreThanCounted) { kernel.arrived as u64 } else { most };
            let most = if all { most } else { 1 };
            if is_peek(case, world, who) {
                let bytes: Vec<u32> = world.kernel.queue.iter().copied().take(most as usize).collect();
                peeked(world, bytes)?;
                return Ok(Saw::Received(most));
            }
            Saw::Received(crate::steps::receive(case, world, who, most as usize)?)
        }
        Do::Send { most } => {
            let room = room(case, world, most, all);
            let bytes: Vec<u32> = (world.committed..).take(room).collect();
            let sent = send(case, world, &bytes);
            if let Sent::Bytes(count) = sent {
                world.committed += count as u32;
            }
            Saw::Sent(sent)
        }
        Do::SendRing { at, len } => {
            let room = room(case, world, len, all);
            let bytes = ring_bytes(case, world, at, room as u64);
            Saw::Sent(send(case, world, &bytes))
        }
        _ => Saw::Nothing,
    })
}

fn is_said_beside_writes(case: &Case, world: &World) -> bool {
    case.mutant == Some(Mutant::GivenSaidBesideWrites) && world.words[Word::Given as usize] != 0
}

/// As the kernel counts: a FIN is one.
fn received(case: &Case, world: &World) -> u64 {
    let kernel = &world.kernel;
    let said = world.words[Word::Given as usize];
    if case.mutant == Some(Mutant::GivenNotCompared) && said != 0 {
        return said - 1;
    }
    kernel.taken + kernel.arrived as u64 + u64::from(kernel.fin_arrived)
}

fn room(case: &Case, world: &World, most: u64, all: bool) -> usize {
    let most = if all { most } else { 1 };
    (case.pipe as usize - world.kernel.queue.len()).min(most as usize)
}

fn send(case: &Case, world: &mut World, bytes: &[u32]) -> Sent {
    if world.end_is_gone(case, false) || world.kernel.finished || world.kernel.reset {
        return Sent::Broken;
    }
    if bytes.is_empty() {
        return Sent::WouldBlock;
    }
    world.kernel.queue.extend(bytes);
    world.kernel.written += bytes.len() as u64;
    Sent::Bytes(bytes.len() as u64)
}
