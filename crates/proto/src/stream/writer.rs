//! One write call of whoever holds the writing end, and the other occasions on which the library is in its process.
//!
//! What may be killed between any two steps: each word alone commits something, and whoever takes the lock next goes on from
//! the words.
//!
//! - *Opening*: the ring is empty, [`Word::Cut`] is what the kernel has got so far, then [`Word::Path`] says ring, then (behind
//!   a fence) the consent is looked at once more: either this sees a withdrawal, or the withdrawer sees the path.
//! - *Handing back* unread bytes, of which no reader takes any meanwhile: `Cut` moves to where they will have been given to the
//!   kernel, then `Path` says so, then [`Word::Base`] makes them void in the ring, then the kernel gets them. How many it has
//!   got is always `Cut` less what the kernel counts.
//! - *Recalling*: readers are asked to leave the ring alone ([`Word::Recall`], fence); once none holds their lock, none will take a
//!   byte, and the bytes are handed back.
//!
//! So whatever the kernel gets, bytes or the end, comes when nothing is unread in the ring, and a reader past the library
//! finds the whole stream in the kernel. The one exception is a reader that was stopped (by a debugger, say) while it held
//! the lock: the ring's bytes stay then, no bytes overtake them, and if an end does, the readers' rule keeps the order.
//! Nobody sleeps while ring bytes are unread: readers sleep in the kernel, where only what it carries wakes them. So a writer
//! looks at [`Word::Asleep`] before it uses the ring and, behind a fence, after it has published; and before its own process
//! sleeps it recalls.

mod back;

use super::{Do, Outcome, Saw, Wait, Woken, Word, consent, path, span};

/// Messages of so many bytes and less are put into the ring whole, if they fit into an empty one: as many as a pipe takes whole.
pub const WHOLE: u64 = 4096;

/// On which occasion the library is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// The program writes and may be kept waiting.
    Write,
    /// The program writes and may not be kept waiting.
    WriteNow,
    /// The library is in this process for another reason: has the consent been withdrawn?
    Visit,
    /// This process is about to sleep in the kernel, or ring bytes lie unread for long: take them back.
    Overdue,
    /// The program is about to close, or to write in a way that is not seen.
    Finish,
    /// The program is about to shut down the writing half, for everybody who holds it.
    ShutDown,
}

/// What follows a look at a word of the other end, or a store to an own one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Start,
    Locking,
    OwnPath,
    OwnTail,
    OwnBase,
    OwnRecall,
    OwnCut,
    // The ring.
    SeesConsent,
    SeesAsleep,
    SeesHead,
    Putting,
    Publishing,
    PublishedFence,
    PublishedSeesAsleep,
    PublishedSeesConsent,
    // Waiting for room.
    Resting,
    WaitsForRoom,
    // Recall.
    Recalling,
    RecallFence,
    SeesReadLock,
    Pausing,
    Excusing,
    // Handing back.
    Lasts,
    BackAsksWritten,
    BackOwnCut,
    BackSeesHead,
    BackCuts,
    BackTurns,
    BackVoids,
    BackReleases,
    BackAsksRest,
    BackSends,
    // Leaving the ring for the kernel.
    Leaving,
    // Opening.
    OpenSeesConsent,
    OpenSeesAsleep,
    OpenSeesHead,
    OpenAsksWritten,
    OpenCuts,
    OpenTurns,
    OpenFence,
    OpenSeesConsentAgain,
    OpenSeesAsleepAgain,
    // The kernel.
    Sending,
    // The ends.
    Unlocking(Outcome),
    UnlockingToWait,
    WaitsForKernel,
    Ended(Outcome),
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Writer {
    at: At,
    occasion: Occasion,
    capacity: u64,
    /// No more bytes than that are put into the ring.
    limit: u64,
    want: u64,
    /// Whether the ring may be opened: the caller's policy (long enough on this connection, nothing difficult about it).
    may_open: bool,
    /// A sleep has ended in a way after which waiting for the reader is over.
    is_overdue: bool,
    is_hung_up: bool,
    /// Somebody has written past the library since the ring was opened.
    is_foreign: bool,
    /// Readers sleep: the ring is to be left.
    is_asleep: bool,
    /// The call's bytes are in the ring, or went back from there: it will not write them again.
    is_published: bool,
    path: u64,
    tail: u64,
    base: u64,
    recall: u64,
    cut: u64,
    written: u64,
    /// What the reader was last seen to have taken: never more than it has.
    head: u64,
    moved: u64,
}

impl Writer {
    /// A call with `want` bytes (0 where the occasion is no write). `head` is what [`Writer::head`] said after an earlier call in
    /// this process, else 0.
    #[inline]
    #[must_use]
    pub fn new(occasion: Occasion, capacity: u64, want: u64, may_open: bool, head: u64) -> Self {
        Self {
            at: At::Start,
            occasion,
            capacity,
            limit: capacity,
            want,
            may_open,
            is_overdue: false,
            is_hung_up: false,
            is_foreign: false,
            is_asleep: false,
            is_published: false,
            path: path::TCP,
            tail: 0,
            base: 0,
            recall: 0,
            cut: 0,
            written: 0,
            head,
            moved: 0,
        }
    }

    /// What the reader was last seen to have taken: saves the next call a look.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The same call, which leaves no more than `limit` bytes (not 0) unread in the ring: as many as the kernel surely takes at once.
    #[inline]
    #[must_use]
    pub fn limited(self, limit: u64) -> Self {
        Self { limit: limit.min(self.capacity), ..self }
    }

    /// The same call when the caller has seen that the other end hung up: whether it still reads is for the kernel to find
    /// out, so the bytes go there.
    #[inline]
    #[must_use]
    pub fn hung_up(self) -> Self {
        Self { is_hung_up: true, is_overdue: true, may_open: false, ..self }
    }

    /// Takes what came of the last [`Do`] and says the next.
    #[inline]
    pub fn step(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::Start, _) => self.lock(),
            (At::Locking, _) => self.go(At::OwnPath, Do::Load(Word::Path)),
            (At::OwnPath, Saw::Value(value)) => {
                self.path = value;
                self.go(At::OwnTail, Do::Load(Word::Tail))
            }
            (At::OwnTail, Saw::Value(value)) => {
                self.tail = value;
                self.go(At::OwnBase, Do::Load(Word::Base))
            }
            (At::OwnBase, Saw::Value(value)) => {
                self.base = value;
                self.go(At::OwnRecall, Do::Load(Word::Recall))
            }
            (At::OwnRecall, Saw::Value(value)) => {
                self.recall = value;
                self.begin()
            }
            (At::SeesConsent, Saw::Value(consent::OPEN)) => self.go(At::SeesAsleep, Do::Load(Word::Asleep)),
            // Withdrawn; but it may be given again at any time.
            (At::SeesConsent, Saw::Value(_)) => self.recall(),
            (At::SeesAsleep, Saw::Value(asleep)) => {
                self.is_asleep = asleep != 0;
                self.consented()
            }
            (At::SeesHead, Saw::Value(head)) => self.with_head(head),
            (At::Putting, _) => {
                let tail = self.tail.saturating_add(self.moved);
                self.go(At::Publishing, Do::Store(Word::Tail, tail))
            }
            (At::Publishing, _) => {
                self.tail = self.tail.saturating_add(self.moved);
                self.is_published = true;
                self.go(At::PublishedFence, Do::Fence)
            }
            (At::PublishedFence, _) => self.go(At::PublishedSeesAsleep, Do::Load(Word::Asleep)),
            (At::PublishedSeesAsleep, Saw::Value(0)) => {
                self.go(At::PublishedSeesConsent, Do::Load(Word::Consent))
            }
            // They went to sleep without having seen it: in the kernel they will.
            (At::PublishedSeesAsleep, Saw::Value(_)) => self.recall(),
            (At::PublishedSeesConsent, Saw::Value(consent::OPEN)) => self.end(Outcome::Moved(self.moved)),
            (At::PublishedSeesConsent, Saw::Value(_)) => self.recall(),
            (At::Sending, Saw::Moved(count)) => self.end(Outcome::Moved(count)),
            (At::Sending, Saw::WouldBlock) => self.wait_for_kernel(),
            (At::Sending, _) => self.end(Outcome::Kernel),
            (At::Unlocking(outcome), _) => self.go(At::Ended(outcome), Do::Done(outcome)),
            (At::UnlockingToWait, _) => self.go(At::WaitsForKernel, Do::Sleep(Wait::Writable)),
            (At::WaitsForKernel, Saw::Woken(Woken::Stop)) => self.stopped(),
            (At::WaitsForKernel, _) => self.lock(),
            (At::Ended(outcome), _) => Do::Done(outcome),
            _ => self.seldom(saw),
        }
    }

    #[inline]
    fn seldom(&mut self, saw: Saw) -> Do {
        match self.at {
            At::Resting | At::WaitsForRoom => self.rest(saw),
            At::Recalling | At::RecallFence | At::SeesReadLock | At::Pausing | At::Excusing => {
                self.recalling(saw)
            }
            At::OpenSeesConsent
            | At::OpenSeesAsleep
            | At::OpenSeesHead
            | At::OpenAsksWritten
            | At::OpenCuts
            | At::OpenTurns
            | At::OpenFence
            | At::OpenSeesConsentAgain
            | At::OpenSeesAsleepAgain => self.opening(saw),
            _ => self.handing_back(saw),
        }
    }

    #[inline]
    fn go(&mut self, at: At, what: Do) -> Do {
        self.at = at;
        what
    }

    #[inline]
    fn end(&mut self, outcome: Outcome) -> Do {
        self.go(At::Unlocking(outcome), Do::Unlock(Word::WriteLock))
    }

    #[inline]
    fn lock(&mut self) -> Do {
        // Nothing that was seen before a sleep is believed after it.
        let again = Self::new(self.occasion, self.capacity, self.want, self.may_open, self.head);
        *self = Self {
            is_overdue: self.is_overdue,
            is_hung_up: self.is_hung_up,
            is_published: self.is_published,
            moved: self.moved,
            limit: self.limit,
            ..again
        };
        self.go(At::Locking, Do::Lock(Word::WriteLock))
    }

    /// The own words are known: what is there to do?
    #[inline]
    fn begin(&mut self) -> Do {
        match self.path {
            path::BACK if self.occasion == Occasion::ShutDown => {
                self.path = path::LAST;
                self.go(At::Lasts, Do::Store(Word::Path, path::LAST))
            }
            path::BACK | path::LAST => self.go(At::OwnCut, Do::Load(Word::Cut)),
            path::RING => {
                if self.recall != 0 {
                    // Whoever recalled died over it; do it once more from the beginning.
                    return self.recall();
                }
                self.go(At::SeesConsent, Do::Load(Word::Consent))
            }
            path::TCP if self.occasion == Occasion::ShutDown => self.leave(),
            // Somebody else has handed them back while this call waited to.
            _ if self.is_published => self.end(Outcome::Moved(self.moved)),
            _ if self.want == 0 => self.end(Outcome::Moved(0)),
            path::TCP if self.may_open => self.go(At::OpenSeesConsent, Do::Load(Word::Consent)),
            _ => self.send(),
        }
    }

    /// The reader's count changes with every read, so its cache line is only fetched when the ring seems too full.
    #[inline]
    fn consented(&mut self) -> Do {
        let is_write = matches!(self.occasion, Occasion::Write | Occasion::WriteNow);
        let room = span(self.head, self.base, self.tail, self.capacity)
            .map_or(0, |unread| self.limit.saturating_sub(unread.to - unread.from));
        if is_write && !self.is_asleep && !self.is_published && room >= self.want.min(self.limit) {
            return self.with_head(self.head);
        }
        self.go(At::SeesHead, Do::Load(Word::Head))
    }

    /// The ring may be used, and the reader has taken `head` bytes of it.
    #[inline]
    fn with_head(&mut self, head: u64) -> Do {
        let Some(unread) = span(head, self.base, self.tail, self.capacity) else {
            return self.end(Outcome::Corrupt);
        };
        self.head = head;
        let unread = unread.to - unread.from;
        let leaves = self.is_asleep || self.is_published;
        match self.occasion {
            Occasion::Finish | Occasion::ShutDown if unread > 0 => self.recall(),
            Occasion::Finish | Occasion::ShutDown => self.leave(),
            Occasion::Overdue if unread > 0 => self.recall(),
            _ if leaves && unread > 0 => self.recall(),
            Occasion::Visit | Occasion::Overdue => self.end(Outcome::Moved(0)),
            _ if leaves => self.leave(),
            Occasion::Write | Occasion::WriteNow
                if self.limit.saturating_sub(unread) >= self.least() && !self.is_hung_up =>
            {
                self.moved = self.want.min(self.limit - unread);
                self.go(At::Putting, Do::Put { at: self.tail, len: self.moved })
            }
            Occasion::Write if !self.is_overdue => self.go(At::Resting, Do::Unlock(Word::WriteLock)),
            Occasion::Write | Occasion::WriteNow => self.recall(),
        }
    }

    /// The room below which nothing is put into the ring: a small message goes whole, as through the kernel, which several writers rely on.
    #[inline]
    fn least(&self) -> u64 {
        if self.want <= WHOLE { self.want.min(self.limit) } else { 1 }
    }

    /// Bytes for the kernel; with none to write this is the end.
    #[inline]
    fn send(&mut self) -> Do {
        if self.is_published || self.want == 0 {
            return self.end(Outcome::Moved(self.moved));
        }
        self.go(At::Sending, Do::Send { most: self.want })
    }

    #[inline]
    fn wait_for_kernel(&mut self) -> Do {
        match self.occasion {
            Occasion::Write | Occasion::Finish | Occasion::ShutDown => {
                self.go(At::UnlockingToWait, Do::Unlock(Word::WriteLock))
            }
            // What is still to go back goes with the next call, or before this process sleeps.
            _ if self.is_published => self.end(Outcome::Moved(self.moved)),
            _ => self.end(Outcome::WouldBlock),
        }
    }

    /// A wait was stopped. Bytes that the ring has taken are written, whatever becomes of them.
    #[inline]
    fn stopped(&mut self) -> Do {
        let outcome = if self.is_published { Outcome::Moved(self.moved) } else { Outcome::WouldBlock };
        self.go(At::Ended(outcome), Do::Done(outcome))
    }

    // Waiting for room in the ring.

    #[inline]
    fn rest(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::Resting, _) => self.go(At::WaitsForRoom, Do::Sleep(Wait::Room)),
            (At::WaitsForRoom, Saw::Woken(Woken::Stop)) => self.stopped(),
            (At::WaitsForRoom, Saw::Woken(why)) => {
                self.is_hung_up |= why == Woken::Hangup;
                self.is_overdue = self.is_hung_up || why == Woken::Timer;
                self.lock()
            }
            _ => self.end(Outcome::Corrupt),
        }
    }

    // From the kernel to the ring.

    #[inline]
    fn opening(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::OpenSeesConsent, Saw::Value(consent::OPEN)) => {
                self.go(At::OpenSeesAsleep, Do::Load(Word::Asleep))
            }
            (At::OpenSeesAsleep, Saw::Value(0)) => self.go(At::OpenSeesHead, Do::Load(Word::Head)),
            (At::OpenSeesConsent | At::OpenSeesAsleep, _) => self.send(),
            (At::OpenSeesHead, Saw::Value(head)) => match span(head, self.base, self.tail, self.capacity) {
                Some(unread) if unread.from == unread.to => self.go(At::OpenAsksWritten, Do::AskWritten),
                // Bytes before those of the kernel are unread: another cut would stand before the first.
                Some(_) => self.send(),
                None => self.end(Outcome::Corrupt),
            },
            (At::OpenAsksWritten, Saw::Value(written)) => {
                self.go(At::OpenCuts, Do::Store(Word::Cut, written))
            }
            // Nothing is lost by staying with the kernel.
            (At::OpenAsksWritten, _) => self.send(),
            (At::OpenCuts, _) => self.go(At::OpenTurns, Do::Store(Word::Path, path::RING)),
            (At::OpenTurns, _) => self.go(At::OpenFence, Do::Fence),
            (At::OpenFence, _) => self.go(At::OpenSeesConsentAgain, Do::Load(Word::Consent)),
            (At::OpenSeesConsentAgain, Saw::Value(consent::OPEN)) => {
                self.go(At::OpenSeesAsleepAgain, Do::Load(Word::Asleep))
            }
            (At::OpenSeesAsleepAgain, Saw::Value(0)) => {
                self.path = path::RING;
                self.consented()
            }
            (At::OpenSeesConsentAgain | At::OpenSeesAsleepAgain, _) => self.leave(),
            _ => self.end(Outcome::Corrupt),
        }
    }
}
