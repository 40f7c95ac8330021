//! Two ends, several processes each, and the kernel between them: everything that a step can change.

use std::collections::VecDeque;

use stream::Word;
use stream::words::WORDS;

use crate::mutants::Mutant;
use crate::replay::{Do, Running};

/// What a process does, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// Writes so many bytes and may be kept waiting.
    Write(u32),
    /// As [`Op::Write`], after it was seen that the other end has hung up (or has only shut down its writing
    /// half).
    WriteHungUp(u32),
    /// Tries to write so many bytes without waiting; what does not go is not written.
    TryWrite(u32),
    /// Tries again and again, until so many bytes are written.
    TryAll(u32),
    /// Writes so many bytes past the library.
    RawWrite(u32),
    /// Lets go of the descriptor, through the library.
    Close,
    /// Makes ready to sleep in the kernel: hands back what is unread, until nothing is.
    BeforeSleep,
    /// Shuts down the writing half for all who hold it, and lets go.
    ShutDown,
    /// Waits until it has read so many bytes.
    Read(u32),
    /// One read that does not wait.
    TryRead,
    /// Looks how many bytes could be read, without waiting.
    Look,
    /// Waits until there is something to read, as `poll` does.
    Poll,
    /// Waits for so many bytes at most, and leaves them there.
    Peek(u32),
    /// Reads until the end, with a buffer of so many bytes.
    ReadToEnd(u32),
    /// Withdraws the consent.
    Withdraw,
    /// Withdraws it, and goes on reading in the library.
    Seen,
    /// Gives it again.
    Renew,
    /// Reads so many bytes past the library.
    RawRead(u32),
    /// Reads past the library until the end.
    RawToEnd,
    /// Counts its process among the sleepers for longer than a call.
    Park,
    /// Counts it out.
    Wake,
    /// Waits until it has read so many bytes: from the kernel alone if its process is parked.
    ReadParked(u32),
    /// As [`Op::Read`], by a call that is about to sleep, and does so unless the ring has something.
    ReadAsleep(u32),
    /// As that, and then its process stays parked.
    ReadAndStay(u32),
    /// Reads, without waiting, until it has all that writers were told is written, and they are through.
    ReadWritten,
}

/// What a store changes: a word, or a byte of the inline copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    Word(Word),
    Inline(usize),
}

/// Bytes that an inline copy has room for.
pub(crate) const INLINE: usize = 2;

/// A case: who does what, and what may happen.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) ring: u32,
    /// Bytes that the kernel holds on their way.
    pub(crate) pipe: u32,
    pub(crate) writers: Vec<Vec<Op>>,
    pub(crate) readers: Vec<Vec<Op>>,
    /// The last writer is a signal handler of the first one: it begins between two calls of that, or between
    /// two steps of a short one, and then runs to its end.
    pub(crate) has_handler: bool,
    /// Processes (writers first) of which one may be killed, at any step.
    pub(crate) kill: Vec<usize>,
    /// The death of the last writer is a reset: bytes on their way are lost, what arrived is not.
    pub(crate) reset_on_death: bool,
    /// Idle writers look in on their own accord when bytes lie unread for long.
    pub(crate) overdue: bool,
    /// Withdrawals may lose patience; without, the stream has to finish without any timer (a spin for room is
    /// none: it ends by itself).
    pub(crate) timers: bool,
    /// Sleeps may end for no reason.
    pub(crate) spurious: bool,
    /// Readers may be stopped for long while they hold their lock.
    pub(crate) stops: bool,
    /// Stores wait in a buffer, as the processor's do.
    pub(crate) buffered: bool,
    /// Who closes or shuts down may not wait until the kernel takes what goes back, unless a reader has left
    /// the library.
    pub(crate) hurries: bool,
    /// Once a writer has ended the connection may be reset at any time: bytes on their way are lost, what
    /// arrived is not.
    pub(crate) resets: bool,
    /// Once the end has arrived the other direction may end, too, at any time: the connection is closed, and
    /// what is unread stays readable.
    pub(crate) closes: bool,
    /// The kernel is asked whether it has room for what the ring may hold; else it says so in any case, as it
    /// does before others fill it.
    pub(crate) is_asked: bool,
    /// Messages of so many bytes and less have an inline copy; at most [`INLINE`].
    pub(crate) inline: u64,
    /// A withdrawal may fail, and so end the connection.
    pub(crate) may_abort: bool,
    pub(crate) mutant: Option<Mutant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) is_alive: bool,
    pub(crate) has_closed: bool,
    /// Index of the operation, and what it has moved.
    pub(crate) op: usize,
    pub(crate) moved: u32,
    /// The call that it is in, and that call's next step.
    pub(crate) running: Option<Running>,
    pub(crate) next: Option<Do>,
    /// Its call makes no system call: where one is needed it begins again, with signals blocked.
    pub(crate) is_short: bool,
    /// A handler has interrupted it since it has the lock.
    pub(crate) is_interrupted: bool,
    /// It ends without waiting for the kernel.
    pub(crate) is_hurried: bool,
    /// The call does the operation, and is not only there on a visit.
    pub(crate) is_of_op: bool,
    /// What [`stream::read::Read::reached`] said last.
    pub(crate) reached: u64,
    /// What [`stream::write::Write::head`] said last.
    pub(crate) head: u64,
    /// Stores that the others do not see yet.
    pub(crate) stores: VecDeque<(Cell, u64)>,
    /// Bytes that its call has published and has not told the program of.
    pub(crate) published: u32,
    /// Bytes copied from the ring, not yet taken.
    pub(crate) copied: Vec<u32>,
    /// For mutants: what they remember.
    pub(crate) memory: crate::mutants::Memory,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Kernel {
    /// Bytes given and not taken; the first `arrived` can be read.
    pub(crate) queue: VecDeque<u32>,
    pub(crate) arrived: usize,
    pub(crate) written: u64,
    pub(crate) taken: u64,
    /// No more will be written.
    pub(crate) finished: bool,
    pub(crate) fin_arrived: bool,
    pub(crate) reset: bool,
    /// Both directions have ended: its counters do not tell a FIN from a byte any more.
    pub(crate) closed: bool,
    /// It was reset behind the end of all writers, and nothing was on its way.
    pub(crate) is_whole: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) words: [u64; WORDS],
    pub(crate) inline: [u64; INLINE],
    pub(crate) ring: Vec<u32>,
    pub(crate) kernel: Kernel,
    /// Whether the reading process is parked, and how many of its threads read in trust of that: here readers
    /// are its threads.
    pub(crate) parked: u64,
    pub(crate) inside: u64,
    pub(crate) processes: Vec<Process>,
    /// Bytes that writers were told are written, and that readers got: also the number of the next.
    pub(crate) committed: u32,
    pub(crate) delivered: u32,
    pub(crate) has_killed: bool,
    /// Somebody had to reset the connection.
    pub(crate) aborted: bool,
    /// Bytes of a call in which the writer was killed: written or not, as TCP has it.
    pub(crate) unsure: u32,
    /// A reader went on before everything was handed back.
    pub(crate) at_risk: bool,
}

impl World {
    pub(crate) fn new(case: &Case) -> Self {
        let process = Process {
            is_alive: true,
            has_closed: false,
            op: 0,
            moved: 0,
            running: None,
            next: None,
            is_short: false,
            is_interrupted: false,
            is_hurried: false,
            is_of_op: false,
            reached: 0,
            head: 0,
            stores: VecDeque::new(),
            published: 0,
            copied: Vec::new(),
            memory: crate::mutants::Memory::default(),
        };
        Self {
            words: core::array::from_fn(|word| {
                if word == Word::InlineAt as usize { stream::inline::NOTHING } else { 0 }
            }),
            inline: [u64::MAX; INLINE],
            ring: vec![u32::MAX; case.ring as usize],
            kernel: Kernel::default(),
            parked: 0,
            inside: 0,
            processes: vec![process; case.writers.len() + case.readers.len()],
            committed: 0,
            delivered: 0,
            has_killed: false,
            aborted: false,
            unsure: 0,
            at_risk: false,
        }
    }

    /// The operation that a process is at; none if it is through.
    pub(crate) fn op(&self, case: &Case, who: usize) -> Option<Op> {
        let ops = case.ops(who);
        ops.get(self.processes[who].op).copied()
    }

    /// Nobody who lives has anything left to do.
    pub(crate) fn is_done(&self, case: &Case) -> bool {
        self.aborted
            || (0..self.processes.len()).all(|who| {
                let process = &self.processes[who];
                !process.is_alive || (self.op(case, who).is_none() && process.next.is_none())
            })
    }

    pub(crate) fn end_is_gone(&self, case: &Case, is_writing: bool) -> bool {
        let mut of_end = (0..self.processes.len()).filter(|&who| case.is_writer(who) == is_writing);
        of_end.all(|who| self.processes[who].has_closed || !self.processes[who].is_alive)
    }

    /// What a process sees in a word.
    pub(crate) fn load(&self, who: usize, word: Word) -> u64 {
        self.look(who, Cell::Word(word))
    }

    /// What a process sees: its own newest store, else what everybody sees.
    pub(crate) fn look(&self, who: usize, cell: Cell) -> u64 {
        let own = self.processes[who].stores.iter().rev().find(|(stored, _)| *stored == cell);
        own.map_or_else(
            || match cell {
                Cell::Word(word) => self.words[word as usize],
                Cell::Inline(at) => self.inline[at],
            },
            |(_, value)| *value,
        )
    }

    pub(crate) fn store(&mut self, case: &Case, who: usize, word: Word, value: u64) {
        self.change(case, who, Cell::Word(word), value);
    }

    pub(crate) fn change(&mut self, case: &Case, who: usize, cell: Cell, value: u64) {
        if case.buffered {
            self.processes[who].stores.push_back((cell, value));
        } else {
            self.set(cell, value);
        }
    }

    fn set(&mut self, cell: Cell, value: u64) {
        match cell {
            Cell::Word(word) => self.words[word as usize] = value,
            Cell::Inline(at) => self.inline[at] = value,
        }
    }

    /// Everybody sees what a process has stored.
    pub(crate) fn flush(&mut self, who: usize) {
        while self.flush_one(who) {}
    }

    pub(crate) fn flush_one(&mut self, who: usize) -> bool {
        let first = self.processes[who].stores.pop_front();
        if let Some((cell, value)) = first {
            self.set(cell, value);
        }
        first.is_some()
    }

    /// A lock's word, where 0 also stands for a holder that died.
    pub(crate) fn lock_holder(&self, who: usize, word: Word) -> u64 {
        let value = self.load(who, word);
        let is_dead = value > 0 && !self.processes[value as usize - 1].is_alive;
        if is_dead { 0 } else { value }
    }
}

impl Case {
    pub(crate) fn ops(&self, who: usize) -> &[Op] {
        if self.is_writer(who) { &self.writers[who] } else { &self.readers[who - self.writers.len()] }
    }

    /// Some reader withdraws its consent, so that writers have to look in, if they do not even sleep in the
    /// library's sight.
    pub(crate) fn has_visits(&self) -> bool {
        self.readers.iter().flatten().any(|op| matches!(op, Op::Withdraw | Op::Seen))
            && !self.writers.iter().flatten().any(|op| *op == Op::BeforeSleep)
    }

    /// How many processes an end has.
    pub(crate) fn of_end(&self, is_writing: bool) -> usize {
        if is_writing { self.writers.len() } else { self.readers.len() }
    }

    pub(crate) fn is_writer(&self, who: usize) -> bool {
        who < self.writers.len()
    }
}
