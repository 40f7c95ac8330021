//! Communication between controller, server and actors: words, semaphores and texts in shared
//! memory.
//!
//! Whoever writes a text posts a semaphore or stores a word (sequentially consistent) after it; who reads
//! waits for that.

use shm::sync::{AtomicU32, Ordering};

use crate::program::{ACTORS, Actor, NAMES, Name, SLOTS, STEPS, Slot};
use crate::sys::address::Address;
use crate::sys::memory::{Mapping, Semaphore};

/// The largest program, as text.
pub const PROGRAM_ROOM: usize = 64 * 1024;
/// Room for what one call came to.
const RECORD_ROOM: usize = 3072;
/// Records: one a step, and one a process for its last look at its descriptors.
const RECORDS: usize = STEPS + ACTORS;
/// So many ended processes are noted.
const ENDS: usize = 32;

const SEMAPHORES: usize = 256;
const MAILBOXES: usize = 4096;
const MAILBOX: usize = 512;
const SLOT_TABLE: usize = MAILBOXES + MAILBOX * ACTORS;
const NAME_TABLE: usize = SLOT_TABLE + 4 * SLOTS * ACTORS;
const NAME_ROOM: usize = 256;
const END_TABLE: usize = NAME_TABLE + NAME_ROOM * NAMES;
const PROGRAM: usize = (END_TABLE + 8 * ENDS + 4).next_multiple_of(64);
const RECORD_TABLE: usize = PROGRAM + PROGRAM_ROOM;
/// All of it.
const SIZE: usize = RECORD_TABLE + RECORD_ROOM * RECORDS;

/// Words at the front.
#[derive(Debug, Clone, Copy)]
pub enum Front {
    /// Bytes of the program's text.
    ProgramLen = 0,
    /// Process id of the server.
    ServerPid = 4,
    /// The server has a network of its own.
    OwnNetwork = 8,
    /// The first process of the program, once it runs.
    FirstPid = 12,
    /// How many ends are noted.
    Ends = 16,
    /// The processor that the next program runs on, if it is not to use all.
    Cpu = 20,
}

/// Words of an actor.
#[derive(Debug, Clone, Copy)]
pub enum Mail {
    /// It lives.
    Alive = 0,
    /// Its process.
    Pid = 4,
    /// Its thread.
    Tid = 8,
    /// The actor that its process began with: whose slots it uses.
    Founder = 12,
    /// What it shall do: 1 + the step, or [`LOOK`].
    Order = 16,
    /// 1 + the step that it has done last.
    Done = 20,
    /// How often it was told something of a signal: thirty-two words from here.
    Signals = 256,
}

/// The order to look at the descriptors of its process.
pub const LOOK: u32 = u32::MAX;

/// The memory of one lane.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    memory: Mapping,
}

impl Shared {
    /// New memory, and the path under which others open it.
    ///
    /// # Errors
    ///
    /// No memory left.
    pub fn create() -> anyhow::Result<(Self, String)> {
        let (memory, path) = Mapping::create(SIZE)?;
        Ok((Self { memory }, path))
    }

    /// Opens what the controller made.
    ///
    /// # Errors
    ///
    /// There is none at that path.
    pub fn open(path: &str) -> anyhow::Result<Self> {
        Ok(Self { memory: Mapping::open(path, SIZE)? })
    }

    /// Gives the memory back, when nobody uses it any more.
    pub fn discard(&self) {
        self.memory.discard();
    }

    /// A word at the front.
    #[must_use]
    pub fn front(&self, word: Front) -> &AtomicU32 {
        self.memory.word(word as usize)
    }

    /// What the controller waits on.
    #[must_use]
    pub fn to_controller(&self) -> Semaphore {
        self.memory.semaphore(SEMAPHORES)
    }

    /// What the server waits on.
    #[must_use]
    pub fn to_server(&self) -> Semaphore {
        self.memory.semaphore(SEMAPHORES + 64)
    }

    /// What the controller waits on for the server's answers.
    #[must_use]
    pub fn from_server(&self) -> Semaphore {
        self.memory.semaphore(SEMAPHORES + 128)
    }

    /// What an actor waits on.
    #[must_use]
    pub fn to_actor(&self, actor: Actor) -> Semaphore {
        self.memory.semaphore(SEMAPHORES + 192 + 64 * actor.index())
    }

    /// A word of an actor.
    #[must_use]
    pub fn mail(&self, actor: Actor, word: Mail) -> &AtomicU32 {
        self.memory.word(MAILBOXES + MAILBOX * actor.index() + word as usize)
    }

    /// How often this actor's handler ran for a signal.
    #[must_use]
    pub fn signals(&self, actor: Actor, signal: usize) -> &AtomicU32 {
        self.memory.word(self.signals_at(actor) + 4 * (signal & 31))
    }

    /// Where the handler counts: memory and offset.
    #[must_use]
    pub fn counters(&self, actor: Actor) -> (Mapping, usize) {
        (self.memory, self.signals_at(actor))
    }

    fn signals_at(&self, actor: Actor) -> usize {
        MAILBOXES + MAILBOX * actor.index() + Mail::Signals as usize
    }

    /// The number that a slot holds, or -1.
    #[must_use]
    pub fn slot(&self, founder: Actor, slot: Slot) -> i32 {
        self.slot_word(founder, slot).load(Ordering::SeqCst).cast_signed()
    }

    /// Puts a number into a slot.
    pub fn set_slot(&self, founder: Actor, slot: Slot, fd: i32) {
        self.slot_word(founder, slot).store(fd.cast_unsigned(), Ordering::SeqCst);
    }

    /// A forked process starts with its parent's slots.
    pub fn inherit_slots(&self, parent: Actor, child: Actor) {
        for slot in (0..SLOTS as u8).map(Slot) {
            self.set_slot(child, slot, self.slot(parent, slot));
        }
    }

    fn slot_word(&self, founder: Actor, slot: Slot) -> &AtomicU32 {
        self.memory.word(SLOT_TABLE + 4 * (SLOTS * founder.index() + slot.index()))
    }

    /// Keeps an address.
    pub fn set_name(&self, name: Name, address: &Address) {
        let at = NAME_TABLE + NAME_ROOM * name.index();
        self.memory.put(at + 4, &address.0);
        self.memory.word(at).store(address.0.len() as u32, Ordering::SeqCst);
    }

    /// An address that was kept; an empty one if none was.
    #[must_use]
    pub fn name(&self, name: Name) -> Address {
        let at = NAME_TABLE + NAME_ROOM * name.index();
        let len = self.memory.word(at).load(Ordering::SeqCst) as usize;
        Address(self.memory.get(at + 4, len.min(NAME_ROOM - 4)))
    }

    /// Gives a program to the server.
    pub fn set_program(&self, text: &str) {
        assert!(text.len() <= PROGRAM_ROOM, "a program of {} bytes is too long", text.len());
        self.memory.put(PROGRAM, text.as_bytes());
        self.front(Front::ProgramLen).store(text.len() as u32, Ordering::SeqCst);
    }

    /// The program's text.
    #[must_use]
    pub fn program(&self) -> String {
        let len = self.front(Front::ProgramLen).load(Ordering::SeqCst) as usize;
        String::from_utf8_lossy(&self.memory.get(PROGRAM, len.min(PROGRAM_ROOM))).into_owned()
    }

    /// Notes what a call came to. What does not fit is cut off.
    pub fn set_record(&self, record: usize, text: &str) {
        let at = RECORD_TABLE + RECORD_ROOM * record;
        let bytes = &text.as_bytes()[..text.len().min(RECORD_ROOM - 4)];
        self.memory.put(at + 4, bytes);
        self.memory.word(at).store(bytes.len() as u32, Ordering::SeqCst);
    }

    /// What a call came to.
    #[must_use]
    pub fn record(&self, record: usize) -> String {
        let at = RECORD_TABLE + RECORD_ROOM * record;
        let len = self.memory.word(at).load(Ordering::SeqCst) as usize;
        String::from_utf8_lossy(&self.memory.get(at + 4, len.min(RECORD_ROOM - 4))).into_owned()
    }

    /// The server notes how a process ended.
    pub fn note_end(&self, pid: u32, status: i32) {
        let at = self.front(Front::Ends).load(Ordering::SeqCst) as usize;
        if at < ENDS {
            self.memory.word(END_TABLE + 8 * at).store(pid, Ordering::SeqCst);
            self.memory.word(END_TABLE + 8 * at + 4).store(status.cast_unsigned(), Ordering::SeqCst);
            self.front(Front::Ends).store(at as u32 + 1, Ordering::SeqCst);
        }
    }

    /// How processes ended: process and status.
    #[must_use]
    pub fn ends(&self) -> Vec<(u32, i32)> {
        let count = (self.front(Front::Ends).load(Ordering::SeqCst) as usize).min(ENDS);
        (0..count)
            .map(|at| END_TABLE + 8 * at)
            .map(|at| {
                (
                    self.memory.word(at).load(Ordering::SeqCst),
                    self.memory.word(at + 4).load(Ordering::SeqCst).cast_signed(),
                )
            })
            .collect()
    }

    /// Makes everything as it is before a program, of this many steps.
    pub fn reset(&self) {
        self.memory.put(MAILBOXES, &[0; MAILBOX * ACTORS]);
        self.memory.put(SLOT_TABLE, &[0xff; 4 * SLOTS * ACTORS]);
        for name in 0..NAMES {
            self.memory.word(NAME_TABLE + NAME_ROOM * name).store(0, Ordering::SeqCst);
        }
        for record in 0..RECORDS {
            self.memory.word(RECORD_TABLE + RECORD_ROOM * record).store(0, Ordering::SeqCst);
        }
        self.front(Front::Ends).store(0, Ordering::SeqCst);
        self.front(Front::FirstPid).store(0, Ordering::SeqCst);
        self.to_controller().reset();
        for actor in (0..ACTORS as u8).map(Actor) {
            self.to_actor(actor).reset();
        }
    }
}
