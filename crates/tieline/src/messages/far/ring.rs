//! The ring of records between two queues of different hosts: what the sender composes and puts, and what the
//! receiver finds in its own memory.
//!
//! The ring lies in the receiver's memory. The sender composes records in a mirror of it, and puts what is
//! new there: first the bytes, then the place of their end (`TAIL_AT`). Puts of one thread to one memory
//! become visible in their order (`link::RemoteMemory`; threads that take turns under a lock count as one),
//! so who has seen the place finds all bytes before it. Nobody waits for a put to have arrived: several are
//! under way, and what is composed while no put can be begun goes with the next one.
//!
//! The receiver puts back how far it has read (`CREDIT_AT`): when that is a part of the ring, or when the
//! sender says that it wants room, with a bit beside its place.
//!
//! Each record begins with two words: its place since the beginning, with the ring's key, and its length.
//! Bytes of an earlier round, or of another ring, have another place. A record lies in one piece; what is
//! left before the end of the memory is skipped if the next one does not fit there.
//!
//! Nothing that the other side can write is trusted: a word is loaded once, checked, and then used.

#[cfg(test)]
mod scribbled;
#[cfg(test)]
mod tests;

use message_queue::lane::{Found, LaneError, RECORD_BYTES};
use shm::region::{Region, RegionOptions, Reserve};
use shm::window::Window;

use super::forms::{CREDIT_AT, RING_AT, TAIL_AT, form_bytes, read, store};

/// All places are multiples of it, so there is always room for the beginning of a record before the end.
const GRAIN: u64 = 16;
/// Beginning of a record.
const HEAD_BYTES: u64 = 16;
/// As a length: nothing is here, the next record stands at the beginning of the memory.
const SKIP: u64 = u64::MAX;
/// Beside the place of the end: the sender waits for room.
const WANTS_ROOM: u64 = 1;
/// The longest put: link `ofi` begins one up to this long without a wait.
const PUT_BYTES: u64 = 64 << 10;

/// Least and most bytes of a ring.
const LEAST_BYTES: u64 = 4 << 10;
const MOST_BYTES: u64 = 1 << 30;

/// The longest ring of a peer, unless this side has a longer one itself.
const OF_PEER_MOST_BYTES: u64 = 64 << 20;
/// Memory for the mirror of a longer one is only taken as records are composed in it.
const RESERVED_MOST_BYTES: usize = 1 << 20;

/// Nothing more goes to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// Puts to the peer's memory.
pub(super) trait Carrier {
    /// Begins a put behind all that were begun before, if that is possible without a wait: whether it was.
    fn try_put(&self, offset: usize, source: Window<'_>) -> Result<bool, Gone>;
}

/// The length of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    bytes: u64,
}

impl Ring {
    /// A ring of so many bytes, if there are rings of that length.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let is_one = bytes.is_power_of_two() && (LEAST_BYTES..=MOST_BYTES).contains(&bytes);
        is_one.then_some(Self { bytes })
    }

    /// That of a peer, of which this side has a mirror: a length that this side may be made to use.
    pub(super) fn of_peer(bytes: u64, own: Self) -> Option<Self> {
        Self::new(bytes).filter(|ring| ring.bytes <= own.bytes.max(OF_PEER_MOST_BYTES))
    }

    pub(super) fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// Longest record: with what may have to be skipped before it, it fits an empty ring.
    pub(super) fn max_record_bytes(self) -> usize {
        (self.bytes / 2 - HEAD_BYTES) as usize
    }

    /// Where a place lies in the memory, and how much follows there.
    fn at(self, place: u64) -> (u64, u64) {
        let at = place & (self.bytes - 1);
        (at, self.bytes - at)
    }
}

/// What a record of so many bytes takes.
fn taken_by(len: u64) -> u64 {
    HEAD_BYTES + len.next_multiple_of(GRAIN)
}

/// The sending end, and all that is put to the peer.
#[derive(Debug)]
pub(super) struct Outgoing {
    ring: Ring,
    /// The ring as the peer has it or will have it; behind it two forms on their way.
    mirror: Region,
    /// Of what the peer reads.
    key: u64,
    /// Of what the peer writes.
    own_key: u64,
    /// Records end here.
    tail: u64,
    /// Bytes up to here were put.
    put: u64,
    /// What the peer was last told of the end.
    told: Option<u64>,
    /// A record had no room since something was last composed.
    wants_room: bool,
    /// Up to here the peer has read.
    read: u64,
    /// Up to where this side has read what the peer has sent, and what the peer was last told of that.
    taken: u64,
    told_taken: u64,
}

impl Outgoing {
    /// The sending end of a peer's ring. `key` is that of the peer's memory, `own_key` that of the own one.
    pub(super) fn new(ring: Ring, key: u64, own_key: u64) -> shm::Result<Self> {
        let len = ring.bytes() + 2 * form_bytes(1);
        let reserve = if len > RESERVED_MOST_BYTES { Reserve::Lazy } else { Reserve::Eager };
        let mirror = Region::create(&RegionOptions { reserve, ..RegionOptions::new("tieline-far", len) })?;
        let (tail, put, told, wants_room, read, taken, told_taken) = (0, 0, None, false, 0, 0, 0);
        Ok(Self { ring, mirror, key, own_key, tail, put, told, wants_room, read, taken, told_taken })
    }

    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Of what the peer reads.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// Composes a record, as an outlet sends it; [`Self::flush`] puts it.
    pub(super) fn send(
        &mut self,
        own: &Window<'_>,
        len: usize,
        fill: impl FnOnce(&Window<'_>),
    ) -> Result<(), LaneError> {
        if len > self.ring.max_record_bytes() {
            return Err(LaneError::TooLong);
        }
        let taken = taken_by(len as u64);
        let (at, rest) = self.ring.at(self.tail);
        let skipped = if taken > rest { rest } else { 0 };
        self.make_room(own, skipped + taken)?;
        let mirror = self.mirror.window();
        if skipped > 0 {
            self.begin_record(&mirror, at, SKIP)?;
            self.tail += skipped;
        }
        let (at, _) = self.ring.at(self.tail);
        self.begin_record(&mirror, at, len as u64)?;
        let record = mirror.sub((at + HEAD_BYTES) as usize, len);
        fill(&record.map_err(|_| LaneError::Broken(OUT_OF_MIRROR))?);
        self.tail += taken;
        self.wants_room = false;
        Ok(())
    }

    fn begin_record(&self, mirror: &Window<'_>, at: u64, len: u64) -> Result<(), LaneError> {
        let stored = mirror.store_u64(at as usize, self.tail ^ self.key);
        let stored = stored.and_then(|()| mirror.store_u64(at as usize + 8, len));
        stored.map_err(|_| LaneError::Broken(OUT_OF_MIRROR))
    }

    /// As of an outlet.
    pub(super) fn find_room(&mut self, own: &Window<'_>, bytes: usize) -> Result<(), LaneError> {
        if bytes > self.ring.max_record_bytes() {
            return Err(LaneError::TooLong);
        }
        // Of each record RECORD_BYTES were counted for what it takes more than its bytes.
        const { assert!(RECORD_BYTES as u64 >= HEAD_BYTES + GRAIN) };
        let bytes = taken_by(bytes as u64);
        let (_, rest) = self.ring.at(self.tail);
        // Records in a row skip at most what one of this length would skip.
        let skipped = if bytes > rest { rest } else { 0 };
        self.make_room(own, skipped + bytes)
    }

    fn make_room(&mut self, own: &Window<'_>, bytes: u64) -> Result<(), LaneError> {
        if self.tail + bytes - self.read > self.ring.bytes {
            self.look_at_credit(own)?;
        }
        if self.tail + bytes - self.read > self.ring.bytes {
            self.wants_room = true;
            return Err(LaneError::Full);
        }
        Ok(())
    }

    fn look_at_credit(&mut self, own: &Window<'_>) -> Result<(), LaneError> {
        let Some([read]) = read::<1>(own, CREDIT_AT, self.own_key) else { return Ok(()) };
        if read < self.read || read > self.tail || !read.is_multiple_of(GRAIN) {
            return Err(LaneError::Broken("a place of its reading that was never reached"));
        }
        self.read = read;
        // Of what was to be put again.
        self.put = self.put.max(read);
        Ok(())
    }

    /// This side has read so far; [`Self::flush`] says so to the peer.
    pub(super) fn give_back(&mut self, taken: u64) {
        self.taken = taken;
    }

    /// The peer is told once more how far this side has read: a put whose arrival shows that it is there.
    pub(super) fn probe(&mut self) {
        // Another place than was told.
        self.told_taken = u64::MAX;
    }

    /// Puts what is new, as far as puts can be begun without a wait: whether that was all.
    pub(super) fn flush(&mut self, to: &impl Carrier) -> Result<bool, Gone> {
        let mirror = self.mirror.window();
        if self.told_taken != self.taken {
            if !put_word(&mirror, self.ring.bytes() + form_bytes(1), (self.taken, self.key), (to, CREDIT_AT))?
            {
                return Ok(false);
            }
            self.told_taken = self.taken;
        }
        while self.put < self.tail {
            let (at, rest) = self.ring.at(self.put);
            let len = (self.tail - self.put).min(rest).min(PUT_BYTES);
            let bytes = mirror.sub(at as usize, len as usize).map_err(|_| Gone)?;
            if !to.try_put(RING_AT + at as usize, bytes)? {
                return Ok(false);
            }
            self.put += len;
        }
        let end = if self.wants_room { self.tail | WANTS_ROOM } else { self.tail };
        if self.told != Some(end) {
            if !put_word(&mirror, self.ring.bytes(), (end, self.key), (to, TAIL_AT))? {
                return Ok(false);
            }
            self.told = Some(end);
        }
        Ok(true)
    }

    /// Nobody knows what has arrived of what was put: all of it that the peer may not have read is put again.
    /// It finds the same bytes in the same places, whether it has seen them or not.
    pub(super) fn put_again(&mut self) {
        (self.put, self.told) = (self.read, None);
        self.probe();
    }
}

const OUT_OF_MIRROR: &str = "a place outside of the ring";

/// Puts a form of one word, by way of memory that it has to itself.
fn put_word(
    mirror: &Window<'_>,
    by: usize,
    (word, key): (u64, u64),
    (to, offset): (&impl Carrier, usize),
) -> Result<bool, Gone> {
    store(mirror, by, word, key).map_err(|_| Gone)?;
    to.try_put(offset, mirror.sub(by, form_bytes(1)).map_err(|_| Gone)?)
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Incoming {
    ring: Ring,
    key: u64,
    /// The next record.
    head: u64,
    /// The end of records, as it was last seen.
    tail: u64,
    /// The peer waits for room.
    wants_room: bool,
    /// What the peer knows of what was read here.
    given_back: u64,
}

impl Incoming {
    /// The receiving end of a ring with that key.
    pub(super) fn new(ring: Ring, key: u64) -> Self {
        let (head, tail, wants_room, given_back) = (0, 0, false, 0);
        Self { ring, key, head, tail, wants_room, given_back }
    }

    /// Whether no record is there, as far as can be told without an error.
    pub(super) fn is_empty(&self, own: &Window<'_>) -> bool {
        let is_new = |[end]: [u64; 1]| end & !WANTS_ROOM != self.tail;
        self.head == self.tail && !read::<1>(own, TAIL_AT, self.key).is_some_and(is_new)
    }

    /// Whether another record was seen.
    pub(super) fn knows_more(&self) -> bool {
        self.head != self.tail
    }

    fn look_at_tail(&mut self, own: &Window<'_>) -> Result<(), LaneError> {
        let Some([end]) = read::<1>(own, TAIL_AT, self.key) else { return Ok(()) };
        let (tail, wants_room) = (end & !WANTS_ROOM, end & WANTS_ROOM != 0);
        // In order: an earlier end does not come after a later one.
        if tail < self.tail || tail - self.head > self.ring.bytes || !tail.is_multiple_of(GRAIN) {
            return Err(LaneError::Broken("an impossible end of its records"));
        }
        (self.tail, self.wants_room) = (tail, wants_room);
        Ok(())
    }

    /// As of an inlet.
    pub(super) fn take_if<R>(
        &mut self,
        own: &Window<'_>,
        look: impl FnOnce(&Window<'_>) -> Option<R>,
    ) -> Result<Found<R>, LaneError> {
        const NONSENSE: LaneError = LaneError::Broken("a record of an impossible length");
        if self.head == self.tail {
            self.look_at_tail(own)?;
        }
        while self.head != self.tail {
            let (at, rest) = self.ring.at(self.head);
            let (at, there) = (RING_AT + at as usize, self.tail - self.head);
            let word = |at| own.load_u64(at).map_err(|_| NONSENSE);
            if word(at)? != self.head ^ self.key {
                return Err(LaneError::Broken("a record that is not in its place"));
            }
            let len = word(at + 8)?;
            if len == SKIP {
                if rest > there {
                    return Err(NONSENSE);
                }
                self.head += rest;
                continue;
            }
            if len > self.ring.max_record_bytes() as u64 || taken_by(len) > rest.min(there) {
                return Err(NONSENSE);
            }
            let record = own.sub(at + HEAD_BYTES as usize, len as usize).map_err(|_| NONSENSE)?;
            let Some(result) = look(&record) else { return Ok(Found::Left) };
            self.head += taken_by(len);
            return Ok(Found::Taken(result));
        }
        Ok(Found::Nothing)
    }

    /// How far was read, if it is time to tell the peer. `is_idle`: nothing could be taken just now.
    pub(super) fn due(&mut self, is_idle: bool) -> Option<u64> {
        let unknown = self.head - self.given_back;
        let is_much = unknown >= self.ring.bytes / 4;
        // Whoever waits for room need not be told of each record.
        let is_wanted = self.wants_room && (unknown >= self.ring.bytes / 8 || is_idle && unknown > 0);
        (is_much || is_wanted).then(|| {
            self.given_back = self.head;
            self.head
        })
    }
}
