//! One write call, and the other occasions on which the library runs in the writer's process.
//!
//! What may be killed between any two steps: each word alone commits something, and whoever takes the lock
//! next goes on from the words.
//!
//! - *Opening* ([`crate::open`]): the ring is empty, [`Word::SwitchOver`] is what the kernel has got so far,
//!   then [`Word::Path`] says ring, then (behind a fence) the consent is looked at once more: either this
//!   sees a withdrawal, or the withdrawer sees the path.
//! - *Revoking* and *handing back* ([`crate::back`]): readers are asked to leave the ring alone; once none
//!   holds their lock, none will take a byte, and what is unread is given to the kernel.
//!
//! So whatever the kernel gets, bytes or the end, comes when nothing is unread in the ring, and a reader past
//! the library finds the whole stream in the kernel. The one exception is a reader that was stopped (by a
//! debugger, say) while it held the lock: the ring's bytes stay then, no bytes overtake them, and if an end
//! does, the readers' rule keeps the order.
//!
//! Nobody sleeps while ring bytes are unread: readers sleep in the kernel, where only what it carries wakes
//! them. So a writer looks at [`Word::Asleep`] before it uses the ring and, behind a fence, after it has
//! published; and before its own process sleeps it revokes.

use crate::words::unread;
use crate::{Locked, Memory, Outcome, Slept, Step, Wait, Woken, Word, consent, inline, path};

/// Messages of so many bytes and less are put into the ring whole, if they fit into an empty one: as many as
/// a pipe takes whole.
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

impl Occasion {
    #[inline(always)]
    fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteNow)
    }
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    pub(crate) occasion: Occasion,
    pub(crate) capacity: u64,
    /// No more bytes than that are left unread in the ring.
    pub(crate) limit: u64,
    want: u64,
    /// No more bytes than that are put into the ring at once.
    piece: u64,
    /// Whether the ring may be opened: the caller's policy (long enough on this connection, nothing difficult
    /// about it).
    may_open: bool,
    /// A wait has ended in a way after which waiting for the reader is over.
    is_overdue: bool,
    is_hung_up: bool,
    /// The call's bytes are in the ring, or went back from there: it will not write them again.
    pub(crate) is_published: bool,
    /// What the reader was last seen to have taken: never more than it has.
    pub(crate) head: u64,
    pub(crate) moved: u64,
}

/// The own words, loaded once under the lock and kept up to date.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) path: u64,
    pub(crate) tail: u64,
    pub(crate) base: u64,
    pub(crate) revoke: u64,
}

impl Write {
    /// A call with `want` bytes (0 where the occasion is no write). `head` is what [`Write::head`] said after
    /// an earlier call in this process, else 0.
    #[inline(always)]
    #[must_use]
    pub fn new(occasion: Occasion, capacity: u64, want: u64, may_open: bool, head: u64) -> Self {
        Self {
            occasion,
            capacity,
            limit: capacity,
            want,
            piece: u64::MAX,
            may_open,
            is_overdue: false,
            is_hung_up: false,
            is_published: false,
            head,
            moved: 0,
        }
    }

    /// What the reader was last seen to have taken: saves the next call a look.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The same call, which leaves no more than `limit` bytes (not 0) unread in the ring: as many as the
    /// kernel surely takes at once.
    #[inline(always)]
    #[must_use]
    pub fn limited(self, limit: u64) -> Self {
        Self { limit: limit.min(self.capacity), ..self }
    }

    /// The same call, which shows readers no more than `piece` bytes (not 0) at once, and ends then: they
    /// copy the first of a large write while the next are being written.
    #[inline(always)]
    #[must_use]
    pub fn in_pieces(self, piece: u64) -> Self {
        Self { piece, ..self }
    }

    /// How many bytes the call has put into the ring.
    #[inline(always)]
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether bytes of the call were published.
    #[inline(always)]
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.is_published
    }

    /// The same call when the caller has seen that the other end hung up: whether it still reads is for the
    /// kernel to find out, so the bytes go there.
    #[inline]
    #[must_use]
    pub fn hung_up(self) -> Self {
        Self { is_hung_up: true, is_overdue: true, may_open: false, ..self }
    }

    /// One attempt.
    #[inline(always)]
    pub fn attempt<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        let is_nested = m.lock(Word::WriteLock)? == Locked::Nested;
        let own = Own {
            path: m.load(Word::Path)?,
            tail: m.load(Word::Tail)?,
            base: m.load(Word::Base)?,
            revoke: m.load(Word::Revoke)?,
        };
        if is_nested {
            m.rare()?;
            return self.nested(m, own);
        }
        if own.path == path::RING && own.revoke == 0 {
            return self.through_ring(m, own);
        }
        m.rare()?;
        match own.path {
            // Whoever revoked died over it: once more from the beginning.
            path::RING => self.revoke(m, own),
            path::BACK | path::LAST => self.resume(m, own),
            _ => self.kernel(m, own),
        }
    }

    /// A call of a signal handler, between two steps of a call of the same thread, which may be copying bytes
    /// to behind the tail. It must not publish them once these here are under way, nor may anything else be
    /// put there before it has noticed: so these go through the kernel, and the interrupted call fails to
    /// advance the tail and begins again.
    #[cold]
    fn nested<M: Memory>(&mut self, m: &mut M, own: Own) -> Result<Step, M::Stop> {
        self.may_open = false;
        match own.path {
            path::RING => {
                m.interrupts()?;
                if self.occasion.is_write() { self.revoke(m, own) } else { self.through_ring(m, own) }
            }
            path::BACK | path::LAST => self.resume(m, own),
            _ => self.kernel(m, own),
        }
    }

    /// The ring is the path.
    #[inline(always)]
    pub(crate) fn through_ring<M: Memory>(&mut self, m: &mut M, own: Own) -> Result<Step, M::Stop> {
        if m.load(Word::Consent)? != consent::OPEN {
            // Withdrawn; but it may be given again at any time.
            m.rare()?;
            return self.revoke(m, own);
        }
        let is_asleep = m.load(Word::Asleep)? != 0;
        self.with_consent(m, own, is_asleep)
    }

    /// The reader's count changes with every read, so its cache line is only fetched when the ring seems too
    /// full.
    #[inline(always)]
    pub(crate) fn with_consent<M: Memory>(
        &mut self,
        m: &mut M,
        own: Own,
        is_asleep: bool,
    ) -> Result<Step, M::Stop> {
        let leaves = is_asleep || self.is_published;
        let most = self.want.min(self.limit).min(self.piece);
        self.head = m.kept(self.head)?;
        let puts = self.occasion.is_write() && !leaves;
        if puts && self.room(own, self.head) >= most {
            return self.put(m, own, most);
        }
        self.head = m.load(Word::Head)?;
        let room = self.room(own, self.head);
        if puts && room >= self.least() && !self.is_hung_up {
            return self.put(m, own, most.min(room));
        }
        m.rare()?;
        self.with_head(m, own, leaves)
    }

    /// The ring may be used, but there is more to it than room for some.
    #[inline]
    fn with_head<M: Memory>(&mut self, m: &mut M, own: Own, leaves: bool) -> Result<Step, M::Stop> {
        let Some(unread) = unread(self.head, own.base, own.tail, self.capacity) else {
            return ends(m, Outcome::Corrupt);
        };
        match self.occasion {
            Occasion::Finish | Occasion::ShutDown if unread.is_empty() => self.leave(m, own),
            Occasion::Finish | Occasion::ShutDown => self.revoke(m, own),
            Occasion::Overdue if !unread.is_empty() => self.revoke(m, own),
            _ if leaves && !unread.is_empty() => self.revoke(m, own),
            Occasion::Visit | Occasion::Overdue => ends(m, Outcome::Moved(0)),
            _ if leaves => self.leave(m, own),
            Occasion::Write if !self.is_overdue => self.wait_for_room(m),
            Occasion::Write | Occasion::WriteNow => self.revoke(m, own),
        }
    }

    /// How many bytes may be put into the ring, if the reader has taken so many.
    #[inline(always)]
    fn room(&self, own: Own, head: u64) -> u64 {
        unread(head, own.base, own.tail, self.capacity)
            .map_or(0, |unread| self.limit.saturating_sub(unread.len()))
    }

    /// The room below which nothing is put into the ring: a small message goes whole, as through the kernel,
    /// which several writers rely on.
    #[inline(always)]
    fn least(&self) -> u64 {
        if self.want <= WHOLE { self.want.min(self.limit) } else { 1 }
    }

    /// Puts so many bytes into the ring, for which there is room.
    #[inline(always)]
    fn put<M: Memory>(&mut self, m: &mut M, mut own: Own, len: u64) -> Result<Step, M::Stop> {
        m.put(own.tail, len)?;
        put_inline_copy(m, own.tail, len)?;
        let tail = own.tail.saturating_add(len);
        if !m.advance(Word::Tail, own.tail, tail)? {
            m.unlock(Word::WriteLock)?;
            return Ok(Step::Again);
        }
        own.tail = tail;
        self.moved = len;
        self.is_published = true;
        m.fence()?;
        // They went to sleep without having seen it: in the kernel they will. Or the consent was withdrawn.
        if m.load(Word::Asleep)? != 0 || m.load(Word::Consent)? != consent::OPEN {
            m.rare()?;
            return self.revoke(m, own);
        }
        ends(m, Outcome::Moved(len))
    }

    /// The kernel is the path.
    #[inline]
    fn kernel<M: Memory>(&mut self, m: &mut M, own: Own) -> Result<Step, M::Stop> {
        if m.load(Word::Opening)? != 0 {
            // Whoever was opening died over it.
            m.store(Word::Opening, 0)?;
        }
        if own.path == path::TCP && self.occasion == Occasion::ShutDown {
            return self.leave(m, own);
        }
        // Also if somebody else has handed back what this call published and then waited to.
        if self.is_published || self.want == 0 {
            return ends(m, Outcome::Moved(self.moved));
        }
        if own.path == path::TCP && self.may_open {
            return self.open(m, own);
        }
        ends(m, Outcome::Kernel)
    }

    /// The path is the kernel's from here on.
    #[inline]
    pub(crate) fn leave<M: Memory>(&mut self, m: &mut M, own: Own) -> Result<Step, M::Stop> {
        let is_last = self.occasion == Occasion::ShutDown || own.path == path::LAST;
        m.store(Word::Path, if is_last { path::SHUT } else { path::TCP })?;
        self.rest(m)
    }

    /// What is left to write goes to the kernel; with nothing left this is the end.
    #[inline]
    pub(crate) fn rest<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        let is_done = self.is_published || self.want == 0;
        ends(m, if is_done { Outcome::Moved(self.moved) } else { Outcome::Kernel })
    }

    /// Waits for room in the ring, without the lock.
    #[inline]
    pub(crate) fn wait_for_room<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        m.unlock(Word::WriteLock)?;
        match m.sleep(Wait::Room)? {
            Slept::Woken(Woken::Stop) => Ok(self.stopped()),
            slept => {
                self.is_hung_up |= slept == Slept::Woken(Woken::Hangup);
                self.is_overdue = self.is_hung_up || slept == Slept::Woken(Woken::Timer);
                Ok(Step::Again)
            }
        }
    }

    /// Waits until the kernel takes more of what goes back to it, without the lock.
    #[inline]
    pub(crate) fn wait_for_kernel<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        match self.occasion {
            Occasion::Write | Occasion::Finish | Occasion::ShutDown => {
                m.unlock(Word::WriteLock)?;
                match m.sleep(Wait::Writable)? {
                    Slept::Woken(Woken::Stop) => Ok(self.stopped()),
                    _ => Ok(Step::Again),
                }
            }
            // What is still to go back goes with the next call, or before this process sleeps.
            _ if self.is_published => ends(m, Outcome::Moved(self.moved)),
            _ => ends(m, Outcome::WouldBlock),
        }
    }

    /// A wait was stopped. Bytes that the ring has taken are written, whatever becomes of them.
    #[inline]
    fn stopped(&self) -> Step {
        if self.is_published { Step::moved(self.moved) } else { Step::Ends(Outcome::WouldBlock) }
    }
}

#[inline(always)]
pub(crate) fn ends<M: Memory>(m: &mut M, outcome: Outcome) -> Result<Step, M::Stop> {
    m.unlock(Word::WriteLock)?;
    Ok(Step::Ends(outcome))
}

/// Makes the copy of a message of `len` bytes at position `at`, which is not published yet; or voids that of
/// the last one.
#[inline(always)]
fn put_inline_copy<M: Memory>(m: &mut M, at: u64, len: u64) -> Result<(), M::Stop> {
    if !m.has_inline(len) {
        // Most messages behind one without a copy have none either: the line is only looked at.
        if m.load(Word::InlineAt)? != inline::NOTHING {
            m.store(Word::InlineAt, inline::NOTHING)?;
        }
        return Ok(());
    }
    m.store(Word::InlineAt, inline::NOTHING)?;
    m.order_stores()?;
    m.put_inline(len)?;
    m.store(Word::InlineAt, at)
}
