//! A peer of an end point: the lane to it, and what waits for room there.

use std::collections::VecDeque;

use shm::process::{NotRead, PidFd, ProcessMemory};
use shm::window::Window;

use crate::buffers::Buffers;
use crate::error::Error;
use crate::lane::{LaneError, Outlet, RECORD_BYTES};
use crate::name::Name;
use crate::paths::{Path, Paths};
use crate::settings::{Fetch, Settings};
use crate::wire::{Beginning, WORD_BYTES};

/// Room that messages of a lane's longest record leave for what precedes them.
pub(crate) const BEGINNING_BYTES: usize = crate::wire::BEGINNING_WORDS * WORD_BYTES;

/// Another end point.
#[derive(Debug)]
pub(crate) struct Peer<O> {
    pub(crate) name: Name,
    pub(crate) way: Way<O>,
    /// The way back.
    pub(crate) answers: Answers,
    /// Its process, once it is known.
    pub(crate) process: Process,
    /// Whether messages may be copied out of its memory.
    pub(crate) can_read: bool,
    /// What is chosen about the way of its long messages, and what was learnt of it.
    pub(crate) fetch: Fetch,
    pub(crate) paths: Paths,
    /// Its messages that come in parts.
    pub(crate) coming: Coming,
    /// Longest message that goes in one record.
    pub(crate) eager_max_bytes: usize,
    /// Up to here longer ones may go so, too, if that is measured to cost less; 0 if they never do.
    pub(crate) eager_longest_bytes: usize,
    /// Longest that is tried; 0 if none is.
    eager_trial_max_bytes: usize,
    /// What was learnt of them: [`Path::Ring`] is eager, [`Path::Read`] offered. Once there is one.
    eager_paths: Option<Box<Paths>>,
    /// Longest part of such a message in one record.
    pub(crate) cut_bytes: usize,
    /// Of a message that it has begun to send in parts, and not ended: the number of these.
    pub(crate) arriving: Option<u32>,
    /// Records of this crate's own that had no room, oldest first.
    pub(crate) backlog: VecDeque<Beginning>,
    /// Messages that had no room, by the number of their send, oldest first.
    pub(crate) waiting: VecDeque<u32>,
    /// Messages that are sent in parts.
    pub(crate) streams: VecDeque<Stream>,
}

/// Messages of a peer that come in parts, several at once. Times are in ticks without those of copies out of
/// other processes' memory.
#[derive(Debug, Default)]
pub(crate) struct Coming {
    /// Those that it was asked for and whose parts are not all here.
    pub(crate) open: u32,
    /// Of these, those whose parts are of no use any more.
    pub(crate) thrown: u32,
    /// Since when `bytes` are counted: since the last sample of what they cost, or the first was asked for.
    pub(crate) since: u64,
    /// Bytes of all of them since then.
    pub(crate) bytes: u64,
    /// When a part last came; 0: since the last look.
    pub(crate) moved_at: u64,
}

/// A message that may go eager and may be offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// How it goes.
    pub(crate) is_eager: bool,
    /// Whether its receiver is to say that it has it, for the time that it took.
    pub(crate) is_timed: bool,
    /// When its record went out, in ticks; 0 before.
    pub(crate) begun_at: u64,
}

/// The way to a peer.
#[derive(Debug)]
pub(crate) enum Way<O> {
    /// Nobody wanted to send anything yet, or the peer had no room for the question.
    Unknown,
    /// The peer was asked.
    Asked,
    Open(O),
    /// There will be none: what is told to whoever wants to send.
    Lost(Error),
}

/// Whether a peer can answer without having to open its way first: its program may have other things to do
/// than to make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Perhaps not; nobody needed an answer yet.
    Unasked,
    /// Somebody needs one.
    Needed,
    /// It was invited to open its way.
    Invited,
    /// Its way is open.
    Open,
}

/// The process of a peer.
#[derive(Debug)]
pub(crate) enum Process {
    Unknown,
    /// Its memory cannot be read.
    Seen(PidFd),
    Readable(ProcessMemory),
}

impl Process {
    pub(crate) fn of(process: Option<PidFd>) -> Self {
        match process.map(ProcessMemory::of) {
            None => Self::Unknown,
            Some(Ok(memory)) => Self::Readable(memory),
            Some(Err(process)) => Self::Seen(process),
        }
    }

    /// Whether it is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        let process = match self {
            Self::Unknown => return false,
            Self::Seen(process) => process,
            Self::Readable(memory) => memory.process(),
        };
        process.proof_of_death().is_some()
    }
}

/// A message that is sent in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Our operation.
    pub(crate) send: u32,
    /// The receiver's operation.
    pub(crate) receive: u32,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

impl<O: Outlet> Peer<O> {
    pub(crate) fn new(name: Name, settings: &Settings) -> Self {
        let Settings { fetch, eager_max_bytes, cut_bytes, .. } = *settings;
        let eager_trial_max_bytes = if settings.measures_eager { settings.eager_trial_max_bytes } else { 0 };
        Self {
            name,
            way: Way::Unknown,
            answers: Answers::Unasked,
            process: Process::Unknown,
            can_read: fetch != Fetch::InParts,
            fetch,
            paths: Paths::default(),
            coming: Coming::default(),
            eager_max_bytes,
            eager_longest_bytes: 0,
            eager_trial_max_bytes,
            eager_paths: None,
            cut_bytes: cut_bytes.max(1),
            arriving: None,
            backlog: VecDeque::new(),
            waiting: VecDeque::new(),
            streams: VecDeque::new(),
        }
    }

    /// The way is open.
    pub(crate) fn open(&mut self, outlet: O) {
        let longest = outlet.max_record_bytes().saturating_sub(BEGINNING_BYTES);
        self.eager_max_bytes = self.eager_max_bytes.min(longest);
        self.eager_longest_bytes = longest.min(self.eager_trial_max_bytes);
        self.way = Way::Open(outlet);
    }

    /// How a message goes that may be eager and may be offered; `None` if its length decides.
    pub(crate) fn trial(&mut self, len: usize) -> Option<Trial> {
        if len <= self.eager_max_bytes || len > self.eager_longest_bytes {
            return None;
        }
        let paths = self.eager_paths.get_or_insert_default();
        let path = paths.choose(len);
        // An offered one is answered in any case.
        let is_timed = path == Path::Read || paths.wants_sample(len, path);
        Some(Trial { is_eager: path == Path::Ring, is_timed, begun_at: 0 })
    }

    /// Its receiver has said that it has it.
    pub(crate) fn note_trial(&mut self, trial: &Trial, len: usize, now: u64) {
        if let Some(paths) = self.eager_paths.as_deref_mut().filter(|_| trial.begun_at != 0) {
            let path = if trial.is_eager { Path::Ring } else { Path::Read };
            paths.note(path, len, now.saturating_sub(trial.begun_at));
        }
    }

    /// Whether messages of it may still come.
    #[inline]
    pub(crate) fn is_not_lost(&self) -> bool {
        !matches!(self.way, Way::Lost(_))
    }

    /// Whether a message that is sent now overtakes nothing.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.backlog.is_empty() && self.waiting.is_empty()
    }

    /// Whether messages can be copied out of its memory.
    pub(crate) fn can_be_read(&self) -> bool {
        self.can_read && matches!(self.process, Process::Readable(_))
    }

    /// Copies `len` bytes out of its memory: what it has offered, and not taken back meanwhile.
    pub(crate) fn read(&self, into: &mut Buffers, address: u64, len: usize) -> Result<(), NotRead> {
        if self.has_taken_back() {
            return Err(NotRead::Forbidden);
        }
        let read = match &self.process {
            Process::Readable(memory) => into.fill_by_reading(memory, address, len),
            _ => return Err(NotRead::Forbidden),
        };
        match read {
            _ if self.is_closed() => Err(NotRead::Ended),
            // Its program uses the memory otherwise by now: it sends what it was.
            _ if self.has_taken_back() => Err(NotRead::Forbidden),
            read => read,
        }
    }

    /// Whether it is to be asked for what it has offered.
    fn has_taken_back(&self) -> bool {
        matches!(&self.way, Way::Open(outlet) if outlet.has_taken_back())
    }

    /// Whether it has ended as far as this queue can send to it.
    pub(crate) fn takes_no_more(&self) -> bool {
        matches!(&self.way, Way::Open(outlet) if outlet.is_closed() || outlet.has_stopped())
    }

    /// Whether it has closed its end point although it had offered memory that its program uses otherwise
    /// then, or takes nothing from here any more.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(&self.way, Way::Open(outlet) if outlet.is_closed())
    }

    /// Whether a message of this length is to be copied out of its memory, if it can be.
    pub(crate) fn reads(&mut self, len: usize) -> bool {
        self.fetch != Fetch::Measured || self.paths.choose(len) == Path::Read
    }

    /// Whether something waits for room.
    pub(crate) fn is_busy(&self) -> bool {
        !self.is_clear() || !self.streams.is_empty()
    }

    /// Whether a message of this length finds room in parts, if the way is open.
    pub(crate) fn room_for_parts(&mut self, len: usize) -> Result<(), LaneError> {
        let Way::Open(outlet) = &mut self.way else { return Err(LaneError::Full) };
        let records = len.div_ceil(self.cut_bytes);
        outlet.find_room(len + records * (BEGINNING_BYTES + RECORD_BYTES))
    }

    /// Sends one record, if the way is open and has room: the words and what `fill` puts behind them.
    #[inline]
    pub(crate) fn record(
        &mut self,
        words: &[u64],
        payload_bytes: usize,
        fill: impl FnOnce(&Window<'_>, usize),
    ) -> Result<(), LaneError> {
        let Way::Open(outlet) = &mut self.way else { return Err(LaneError::Full) };
        let at = words.len() * WORD_BYTES;
        outlet.send(at + payload_bytes, |record| {
            for (place, word) in words.iter().enumerate() {
                // The room was reserved with at least this length.
                let _ = record.store_u64(place * WORD_BYTES, *word);
            }
            fill(record, at);
        })
    }
}
