//! Ways to get the protocol wrong. The calls stay as they are; what is wrong is how their steps are carried
//! out: a fence that is none, a look that repeats what was seen before, a count that leaves somebody out.

use stream::words::WORDS;
use stream::{Word, path};

use crate::replay::Call;
use crate::world::{Case, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    /// Fences order nothing.
    NoFence,
    /// The words of sleepers are stored plainly.
    PlainArming,
    /// After arming, what was seen before is believed.
    NoLookAfterArming,
    /// After publishing, the writer does not look whether anybody sleeps.
    NoAsleepAfterPublishing,
    /// When it opens the ring, the writer does not look whether anybody sleeps.
    NoAsleepWhenOpening,
    /// The writer never looks whether anybody sleeps.
    NoAsleep,
    /// The switch-over offset is published after the first bytes behind it.
    SwitchOverAfterTail,
    /// The switch-over offset is looked at before the tail.
    CutBeforeTail,
    /// What others have read from the kernel is not counted.
    CountsOwnReadsOnly,
    /// The end of the stream is counted as a byte that was read.
    FinIsAByte,
    /// What has arrived is counted as read.
    UnreadIsTaken,
    /// After counting what the kernel holds, the ring is not looked at again.
    NoLookAfterCounting,
    /// The kernel is read without regard to what was counted.
    ReadsMoreThanCounted,
    /// A withdrawal that found nothing unread does not look whether bytes are being handed back.
    WithdrawnByOldPath,
    /// Bytes are revoked although a reader is at work.
    RevokeIgnoresLock,
    /// What was handed back stays valid in the ring.
    NoBase,
    /// The ring is opened without looking at the consent again.
    OpenWithoutRecheck,
    /// The ring is opened while bytes of it are unread.
    OpenWhileUnread,
    /// Room is given back before it was read.
    CopyAfterHead,
    /// Locks exclude nobody.
    NoLock,
    /// The ring is opened although the kernel may not take back what it may hold.
    OpenWithoutRoom,
    /// The ring is opened although somebody writes to the kernel without the lock.
    OpenIgnoresPlain,
    /// Who writes to the kernel without the lock does not look whether the ring is being opened.
    PlainIgnoresOpening,
    /// A call of a signal handler does not tell the one that it interrupts.
    NothingInterrupts,
    /// An inline copy stays that of the last message while it is changed, or while a longer one has none.
    InlineNotVoided,
    /// After an inline copy was taken, the reader does not look whether it still is that message's.
    InlineNotLookedAtAgain,
    /// A parked process counts itself out without a look at who reads in trust of that.
    WakesUnderReaders,
    /// A parked process takes the ring for empty without a look.
    ParkedWithoutLook,
    /// Who could not hand everything back, because the kernel refuses it, says that nothing is left.
    RefusedIsDone,
    /// Who leaves bytes in the ring does not say what the kernel was given.
    GivenNotSaid,
    /// It is said although others write to the kernel meanwhile.
    GivenSaidBesideWrites,
    /// Who gives the kernel more leaves said what was said.
    GivenNotTakenBack,
    /// What is said is believed whatever has come.
    GivenNotCompared,
    /// The reader looks at it before it asks the kernel.
    GivenLookedAtEarly,
}

/// What a mutant remembers; empty without one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Memory {
    pub(crate) seen: [Option<u64>; WORDS],
    pub(crate) is_armed: bool,
    pub(crate) has_published: bool,
    /// Its call began with the kernel's path.
    pub(crate) is_opening: bool,
    pub(crate) switch_over: Option<u64>,
    pub(crate) late: Option<(u64, u64)>,
    /// Bytes read from the kernel by this process.
    pub(crate) took: u64,
}

impl Memory {
    pub(crate) fn end_call(&mut self) {
        *self = Self { took: self.took, ..Self::default() };
    }
}

/// What a process sees in a word of either end.
pub(crate) fn load(case: &Case, world: &mut World, who: usize, word: Word) -> u64 {
    let now = match word {
        Word::ReadLock | Word::WriteLock => world.lock_holder(who, word),
        _ => world.load(who, word),
    };
    let Some(mutant) = case.mutant else { return now };
    let old = world.processes[who].memory.seen[word as usize].unwrap_or(now);
    let is_writer = case.is_writer(who);
    match (mutant, word) {
        (Mutant::NoLookAfterArming, _) if world.processes[who].memory.is_armed => return old,
        (Mutant::NoLookAfterCounting, Word::Tail | Word::SwitchOver | Word::Base | Word::Revoke)
            if !is_writer =>
        {
            return remember(world, who, word, old);
        }
        (Mutant::CutBeforeTail, Word::SwitchOver) if !is_writer => return old,
        (Mutant::CutBeforeTail, Word::Revoke) => {
            let switch_over = world.load(who, Word::SwitchOver);
            remember(world, who, Word::SwitchOver, switch_over);
        }
        (Mutant::OpenWithoutRecheck, Word::Consent) if is_writer => return remember(world, who, word, old),
        (Mutant::NoAsleep, Word::Asleep) if is_writer => return 0,
        (Mutant::NoAsleepAfterPublishing, Word::Asleep) if world.processes[who].memory.has_published => {
            return 0;
        }
        (Mutant::NoAsleepWhenOpening, Word::Asleep) if world.processes[who].memory.is_opening => return 0,
        (Mutant::WithdrawnByOldPath, Word::Path)
            if !is_writer && world.processes[who].memory.seen[Word::Head as usize].is_some() =>
        {
            return old;
        }
        (Mutant::InlineNotLookedAtAgain, Word::InlineAt) if !is_writer => {
            return remember(world, who, word, old);
        }
        (Mutant::ParkedWithoutLook, Word::Head) if is_parking(world, who) => {
            return world.load(who, Word::Tail);
        }
        (Mutant::GivenLookedAtEarly, Word::Given) if !is_writer => return old,
        (Mutant::GivenLookedAtEarly, Word::Revoke) if !is_writer => {
            let given = world.load(who, Word::Given);
            remember(world, who, Word::Given, given);
        }
        (Mutant::GivenSaidBesideWrites, Word::Plain) if world.load(who, Word::Given) != 0 => return 0,
        (Mutant::OpenIgnoresPlain, Word::Plain) | (Mutant::PlainIgnoresOpening, Word::Opening) => return 0,
        (Mutant::OpenWhileUnread, Word::Head) if is_writer && world.load(who, Word::Path) == path::TCP => {
            return world.load(who, Word::Tail);
        }
        _ => {}
    }
    if is_writer && word == Word::Path {
        world.processes[who].memory.is_opening = now == path::TCP;
    }
    remember(world, who, word, now)
}

fn is_parking(world: &World, who: usize) -> bool {
    let running = world.processes[who].running.as_ref();
    running.is_some_and(|running| matches!(running.call, Call::Parking(_)))
}

fn remember(world: &mut World, who: usize, word: Word, value: u64) -> u64 {
    world.processes[who].memory.seen[word as usize] = Some(value);
    value
}
