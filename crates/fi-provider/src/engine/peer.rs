//! What an end point knows of another one: the way there, and what waits to go it.

use std::collections::VecDeque;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use shm::ring::PushError;
use shm::ring::record::{Claim, Producer, ProducerHalf};

use super::meet::Meeting;
use super::name::Name;
use super::pull;
use super::wire::{HEAD_BYTES, Head, Kind};

/// Memory of a ring for one direction between two end points.
const RING_BYTES: usize = 256 << 10;
/// Bytes of an offered message that one record takes.
const PART_BYTES: usize = 32 << 10;

/// Another end point.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: Name,
    /// Its process; known when it has said hello.
    pub(crate) pid: Option<u32>,
    /// Whether messages are copied out of its memory.
    pub(crate) can_pull: bool,
    way: Way,
    /// Records that had no room, oldest first; short ones of this crate's own, never messages.
    backlog: VecDeque<Head>,
    streams: VecDeque<Stream>,
}

#[derive(Debug)]
enum Way {
    /// Nobody wanted to send anything yet.
    Unknown,
    /// The ring is made, and the peer's queue had no room for the word of it.
    Made(ProducerHalf),
    /// The peer was told.
    Told(ProducerHalf),
    Open(Box<Producer>),
    /// The peer is wrong or hostile.
    Broken,
}

/// A message that is sent in parts.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Our operation.
    pub(crate) send: u32,
    /// The receiver's operation.
    pub(crate) receive: u32,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// Try again after progress.
    NotNow,
    /// The peer is not there, or wrong.
    Lost(Errno),
}

impl Peer {
    pub(crate) fn new(name: Name) -> Self {
        Self {
            name,
            pid: None,
            can_pull: pull::is_wanted(),
            way: Way::Unknown,
            backlog: VecDeque::new(),
            streams: VecDeque::new(),
        }
    }

    /// The ring to it, if there is one. Else it is asked for one.
    #[inline]
    fn producer(&mut self, meeting: &Meeting) -> Result<&mut Producer, NotSent> {
        if !matches!(self.way, Way::Open(_)) {
            self.ask(meeting)?;
        }
        match &mut self.way {
            Way::Open(producer) => Ok(producer),
            Way::Broken => Err(NotSent::Lost(Errno::CONNABORTED)),
            _ => Err(NotSent::NotNow),
        }
    }

    /// Whether there is a ring to it.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.way, Way::Open(_))
    }

    /// Asks for a ring unless that was done.
    pub(crate) fn reach(&mut self, meeting: &Meeting) -> Result<(), NotSent> {
        self.producer(meeting).map(|_| ())
    }

    #[cold]
    fn ask(&mut self, meeting: &Meeting) -> Result<(), NotSent> {
        if matches!(self.way, Way::Unknown) {
            self.way = Way::Made(ProducerHalf::create(RING_BYTES).map_err(|_| NotSent::Lost(Errno::NOMEM))?);
        }
        if let Way::Made(half) = &self.way {
            match meeting.hello(&self.name, half.fd()) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => return Err(NotSent::NotNow),
                Err(errno) => return Err(NotSent::Lost(errno)),
            }
            if let Way::Made(half) = std::mem::replace(&mut self.way, Way::Broken) {
                self.way = Way::Told(half);
            }
        }
        Ok(())
    }

    /// The peer has answered. An answer to nothing is left alone.
    pub(crate) fn welcome(&mut self, words: OwnedFd) {
        match std::mem::replace(&mut self.way, Way::Broken) {
            Way::Told(half) => {
                if let Ok(producer) = half.connect(words) {
                    self.way = Way::Open(Box::new(producer));
                }
            }
            other => self.way = other,
        }
    }

    /// Writes a whole short record, which is a message's: never before what waits.
    #[inline]
    pub(crate) fn push(&mut self, meeting: &Meeting, record: &[u8]) -> Result<(), NotSent> {
        let is_free = self.backlog.is_empty();
        let producer = self.producer(meeting)?;
        if !is_free {
            return Err(NotSent::NotNow);
        }
        let pushed = producer.push(record).map_err(not_pushed);
        self.note(pushed)
    }

    /// Writes a record of `len` bytes in place.
    #[inline]
    pub(crate) fn write(
        &mut self,
        meeting: &Meeting,
        len: usize,
        fill: impl FnOnce(&Claim<'_>),
    ) -> Result<(), NotSent> {
        let is_free = self.backlog.is_empty();
        let producer = self.producer(meeting)?;
        if !is_free {
            return Err(NotSent::NotNow);
        }
        let written = producer.reserve(len).map_err(not_pushed).map(|claim| {
            fill(&claim);
            claim.commit();
        });
        self.note(written)
    }

    fn note<T>(&mut self, outcome: Result<T, NotSent>) -> Result<T, NotSent> {
        if matches!(outcome, Err(NotSent::Lost(_))) {
            self.way = Way::Broken;
        }
        outcome
    }

    /// Writes a record of this crate's own, or keeps it until there is room. Returns whether something waits.
    pub(crate) fn tell(&mut self, meeting: &Meeting, head: Head) -> bool {
        if let Err(NotSent::NotNow) = self.push(meeting, &head.bytes()) {
            self.backlog.push_back(head);
        }
        self.is_busy()
    }

    /// From now on this message goes in parts.
    pub(crate) fn begin(&mut self, stream: Stream) {
        self.streams.push_back(stream);
    }

    /// Our operation has ended: nothing more of it goes out, whatever the peer has asked for.
    pub(crate) fn forget(&mut self, send: u32) {
        self.streams.retain(|stream| stream.send != send);
    }

    /// Whether something waits for room.
    pub(crate) fn is_busy(&self) -> bool {
        !self.backlog.is_empty() || !self.streams.is_empty()
    }

    /// Writes what waits, as far as there is room: `fill` puts so many bytes of an operation, from a place on, into a record.
    pub(crate) fn pump(
        &mut self,
        meeting: &Meeting,
        fill: impl Fn(u32, usize, usize, &Claim<'_>),
    ) -> Result<(), NotSent> {
        while let Some(head) = self.backlog.front() {
            let bytes = head.bytes();
            let pushed = self.producer(meeting)?.push(&bytes).map_err(not_pushed);
            self.note(pushed)?;
            self.backlog.pop_front();
        }
        while let Some(stream) = self.streams.front() {
            let (send, at, len) = (stream.send, stream.at, PART_BYTES.min(stream.end - stream.at));
            let head = Head { kind: Kind::Part, flags: 0, id: stream.receive, first: 0, second: 0 };
            self.write(meeting, HEAD_BYTES + len, |claim| {
                // The room was reserved with this length.
                let _ = claim.window().put(0, &head.bytes());
                fill(send, at, len, claim);
            })?;
            if let Some(stream) = self.streams.front_mut() {
                stream.at += len;
                if stream.at == stream.end {
                    self.streams.pop_front();
                }
            }
        }
        Ok(())
    }
}

fn not_pushed(error: PushError) -> NotSent {
    match error {
        PushError::Full => NotSent::NotNow,
        PushError::TooLong { .. } => NotSent::Lost(Errno::MSGSIZE),
        PushError::Corrupt { .. } => NotSent::Lost(Errno::CONNABORTED),
    }
}
