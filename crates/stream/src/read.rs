//! One read call.
//!
//! The order of the looks is the protocol:
//!
//! - The lock is taken by a sequentially consistent operation, and only then [`Word::Revoke`] is looked at:
//!   either the writer that revokes sees the lock, or this reader sees the revoke.
//! - [`Word::Tail`] before [`Word::SwitchOver`]: whoever sees a byte of the ring sees the switch-over offset
//!   that it stands behind.
//! - While the ring is revoked the writer publishes, hands back and opens between two looks. Then of its
//!   words only [`Word::SwitchOver`] is used, which was looked at last: the kernel's bytes before it come
//!   next. A withdrawn consent changes nothing for readers: whoever reads in the library may take what is in
//!   the ring.
//! - What the kernel holds is counted before the ring is looked at. Whatever the writer put into the ring
//!   before it gave the counted bytes (or the end) to the kernel is then visible; not more than was counted
//!   is read.

use crate::words::{Span, unread};
use crate::{Held, Memory, Outcome, Slept, Step, Wait, Woken, Word, consent, given};

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Bytes.
    Read,
    /// Bytes that stay (`MSG_PEEK`, which the caller also gives to [`Memory::receive`]).
    Peek,
    /// How many could be read (`poll`, `FIONREAD`): at least one that is next, not all that will come.
    Look,
}

/// One read call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Read {
    /// Size of the ring in bytes.
    capacity: u64,
    /// Room in the caller's buffer.
    want: u64,
    may_wait: bool,
    purpose: Purpose,
    /// This call is seen by the library, and so may those after it be.
    opens: bool,
    /// The highest switch-over offset that is known to have been reached. It stays true whatever happens, so
    /// it is kept between calls.
    reached: u64,
    /// A wait ended because the other end hung up.
    is_hung_up: bool,
    /// What the kernel held, once that was counted: under the lock, which is held since.
    held: Option<Held>,
    /// The kernel has told of the end: its FIN is among what was received, also if a reset has followed
    /// since.
    is_finished: bool,
    /// How often the connection was closed between the count of what the kernel holds and the look at what
    /// was taken of it.
    closed_meanwhile: u8,
}

/// What the writer's words said, each loaded once.
#[derive(Clone, Copy)]
struct Look {
    head: u64,
    revoke: u64,
    base: u64,
    tail: u64,
    switch_over: u64,
}

/// What comes next of the stream.
enum Next {
    /// These bytes of the ring.
    Ring(Span),
    /// The kernel's, of which so many come before those of the ring.
    Kernel { most: u64 },
    /// Nothing: the call ends.
    Ends(Outcome),
    /// Something has changed since the count: once more from the beginning.
    Again,
}

/// A connection is closed once: a count and a look after that are of one state.
const CLOSED_MEANWHILE_MOST: u8 = 2;

impl Read {
    /// A read of at most `want` bytes (not 0) through a ring of `capacity` bytes. With `opens` the writer may
    /// use the ring from now on. `reached` is what [`Read::reached`] said after an earlier call in this
    /// process, else 0.
    #[inline(always)]
    #[must_use]
    pub fn new(capacity: u64, want: u64, may_wait: bool, opens: bool, reached: u64) -> Self {
        Self {
            capacity,
            want,
            may_wait,
            purpose: Purpose::Read,
            opens,
            reached,
            is_hung_up: false,
            held: None,
            is_finished: false,
            closed_meanwhile: 0,
        }
    }

    /// The same call for another purpose.
    #[inline(always)]
    #[must_use]
    pub fn to(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// The highest switch-over offset known to have been reached: saves the next call asking the kernel.
    #[inline(always)]
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// One attempt.
    #[inline(always)]
    pub fn attempt<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        if self.held.is_none() {
            m.lock(Word::ReadLock)?;
            if m.load(Word::Consent)? == consent::NONE && self.opens {
                m.store(Word::Consent, consent::OPEN)?;
            }
        }
        let look = Look::now(m)?;
        match self.next(m, look)? {
            Next::Ring(span) => self.take(m, look.head, span),
            other => {
                m.rare()?;
                self.without_ring(m, look, &other)
            }
        }
    }

    /// What comes next is not in the ring, or nothing comes.
    #[inline]
    fn without_ring<M: Memory>(&mut self, m: &mut M, look: Look, next: &Next) -> Result<Step, M::Stop> {
        match (next, self.held) {
            (Next::Ring(_) | Next::Again, _) => self.again(m),
            (Next::Ends(outcome), _) => self.ends(m, *outcome),
            (&Next::Kernel { most }, Some(held)) => self.kernel(m, look, held, most),
            // What the kernel holds decides, and another look behind that.
            (Next::Kernel { .. }, None) => {
                let held = m.held()?;
                self.is_finished |= held == Held::End;
                self.held = Some(given::held(m, held)?);
                Ok(Step::Again)
            }
        }
    }

    /// Nothing of the ring is due, but `most` bytes of the kernel.
    #[inline]
    fn kernel<M: Memory>(&mut self, m: &mut M, look: Look, held: Held, most: u64) -> Result<Step, M::Stop> {
        match held {
            Held::Bytes(count) if most > 0 => self.receive(m, count.min(most).min(self.want)),
            Held::End | Held::Error => self.ends(m, Outcome::Kernel),
            // Bytes that are not due, of a writer that may never come to the end of its work.
            Held::Bytes(_) if !self.may_wait && look.revoke != 0 => self.looks_for_hangup(m),
            _ if !self.may_wait => self.ends(m, Outcome::WouldBlock),
            // Somebody is at work, who does not know whether anybody sleeps. Or bytes of the ring are unread,
            // and those that come before them are on their way in the kernel: who slept there would take more
            // than those, or nothing once another reader took them.
            _ if look.revoke != 0 || held != Held::Nothing || most < u64::MAX => self.wait_for_return(m),
            _ => self.sleep(m, look),
        }
    }

    /// What comes next, by a look that was made behind the count of what the kernel holds, if that was
    /// counted.
    #[inline(always)]
    fn next<M: Memory>(&mut self, m: &mut M, look: Look) -> Result<Next, M::Stop> {
        let is_over = matches!(self.held, Some(Held::End | Held::Error));
        // The ring is no business of readers now. A writer that has finished or is dead hands nothing back.
        if look.revoke != 0 && !self.is_hung_up && !is_over {
            m.rare()?;
            return Ok(match given::taken(m, self.is_finished)? {
                Some(taken) => Next::Kernel { most: look.switch_over.saturating_sub(taken) },
                // Closed by a reset, and the order of what is left cannot be told: the connection ends here.
                None => self.not_told(),
            });
        }
        let Some(due) = unread(look.head, look.base, look.tail, self.capacity) else {
            return Ok(Next::Ends(Outcome::Corrupt));
        };
        // At the end, bytes that were to go back and did not come are still in the ring.
        if due.is_empty() && !(is_over && look.tail > look.head) {
            return Ok(Next::Kernel { most: u64::MAX });
        }
        self.reached = m.kept(self.reached)?;
        if look.switch_over > self.reached {
            m.rare()?;
            let Some(taken) = given::taken(m, self.is_finished)? else { return Ok(self.not_told()) };
            if taken < look.switch_over {
                return Ok(self.before_switch_over(look, look.switch_over - taken));
            }
            self.reached = look.switch_over;
        }
        Ok(if due.is_empty() { Next::Kernel { most: u64::MAX } } else { Next::Ring(due) })
    }

    /// The connection is closed, with bytes unread, and it cannot be told how many were taken. What the
    /// writer has done before it closed its end is visible to the next look: with a count of what the kernel
    /// holds now that decides. Where it does not, the writer died at work, and the order of what is left
    /// cannot be told: the connection ends here.
    #[cold]
    fn not_told(&mut self) -> Next {
        match self.held {
            None => Next::Kernel { most: 0 },
            Some(Held::Nothing | Held::Bytes(_)) if self.closed_meanwhile < CLOSED_MEANWHILE_MOST => {
                self.closed_meanwhile += 1;
                Next::Again
            }
            _ => Next::Ends(Outcome::Corrupt),
        }
    }

    /// There are bytes in the ring, and so many are `missing` before them.
    #[inline]
    fn before_switch_over(&self, look: Look, missing: u64) -> Next {
        match self.held {
            // An honest kernel delivers what was written before a FIN: the writer died while it handed back,
            // and the last of the ring is what did not get through.
            Some(Held::End) => match look.tail.checked_sub(missing) {
                Some(from) if missing <= self.capacity => {
                    Next::Ring(Span { from: from.max(look.head), to: look.tail })
                }
                _ => Next::Ends(Outcome::Corrupt),
            },
            // A reset loses what was on its way, so that the ring's bytes do not join on.
            Some(Held::Error) => Next::Ends(Outcome::Kernel),
            _ => Next::Kernel { most: missing },
        }
    }

    /// Bytes of the ring.
    #[inline(always)]
    fn take<M: Memory>(&mut self, m: &mut M, head: u64, due: Span) -> Result<Step, M::Stop> {
        let len = due.len().min(self.want);
        if len == 0 {
            return self.ends(m, Outcome::Kernel);
        }
        if self.purpose == Purpose::Look {
            return self.ends(m, Outcome::Moved(len));
        }
        if !take_inline_copy(m, due.from, len)? {
            m.take(due.from, len)?;
        }
        if self.purpose == Purpose::Read && !m.advance(Word::Head, head, due.from + len)? {
            return self.again(m);
        }
        self.ends(m, Outcome::Moved(len))
    }

    /// Bytes of the kernel.
    #[inline]
    fn receive<M: Memory>(&mut self, m: &mut M, most: u64) -> Result<Step, M::Stop> {
        if self.purpose == Purpose::Look {
            return self.ends(m, Outcome::Moved(most));
        }
        match m.receive(most)? {
            // Somebody who takes no lock was faster.
            0 if self.may_wait => self.again(m),
            0 => self.ends(m, Outcome::WouldBlock),
            count => self.ends(m, Outcome::Moved(count)),
        }
    }

    /// As [`Self::wait_for_return`], without waiting: a writer that has finished or is dead returns nothing
    /// more, and what there is comes next.
    #[cold]
    fn looks_for_hangup<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        self.unlock(m)?;
        Ok(match m.sleep(Wait::Return)? {
            slept @ Slept::Woken(Woken::Hangup) if !self.is_hung_up => self.looks_again(slept),
            _ => Step::Ends(Outcome::WouldBlock),
        })
    }

    #[inline]
    fn wait_for_return<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        self.unlock(m)?;
        match m.sleep(Wait::Return)? {
            Slept::Woken(Woken::Stop) => Ok(Step::Ends(Outcome::WouldBlock)),
            slept => Ok(self.looks_again(slept)),
        }
    }

    /// Sleeps in the kernel. The count of sleepers comes before the look behind which they do; a writer
    /// publishes and then looks at the count: one of the two sees the other.
    #[inline]
    fn sleep<M: Memory>(&mut self, m: &mut M, look: Look) -> Result<Step, M::Stop> {
        self.unlock(m)?;
        m.increase(Word::Asleep)?;
        // Whatever changed since the look, the next look decides.
        let is_as_before = m.load(Word::Revoke)? == look.revoke && m.load(Word::Tail)? == look.tail;
        let slept = if is_as_before { m.sleep(Wait::Readable)? } else { Slept::Woken(Woken::Look) };
        m.decrease(Word::Asleep)?;
        Ok(match slept {
            Slept::Woken(Woken::Stop) => Step::Ends(Outcome::WouldBlock),
            Slept::Moved(count) => Step::moved(count),
            // What the kernel said, it will not say again.
            Slept::Broken => Step::Ends(Outcome::Kernel),
            slept => self.looks_again(slept),
        })
    }

    #[inline]
    fn looks_again(&mut self, slept: Slept) -> Step {
        self.is_hung_up |= slept == Slept::Woken(Woken::Hangup);
        Step::Again
    }

    /// What was counted under the lock says nothing without it.
    #[inline(always)]
    fn unlock<M: Memory>(&mut self, m: &mut M) -> Result<(), M::Stop> {
        self.held = None;
        m.unlock(Word::ReadLock)
    }

    #[inline(always)]
    fn ends<M: Memory>(&mut self, m: &mut M, outcome: Outcome) -> Result<Step, M::Stop> {
        self.unlock(m)?;
        Ok(Step::Ends(outcome))
    }

    #[inline]
    fn again<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        self.unlock(m)?;
        Ok(Step::Again)
    }
}

impl Look {
    /// In the order that matters.
    #[inline(always)]
    fn now<M: Memory>(m: &mut M) -> Result<Self, M::Stop> {
        Ok(Self {
            head: m.load(Word::Head)?,
            revoke: m.load(Word::Revoke)?,
            base: m.load(Word::Base)?,
            tail: m.load(Word::Tail)?,
            switch_over: m.load(Word::SwitchOver)?,
        })
    }
}

/// Takes the first `len` unread bytes, from position `from` on, from the copy. False: they are not there.
#[inline(always)]
fn take_inline_copy<M: Memory>(m: &mut M, from: u64, len: u64) -> Result<bool, M::Stop> {
    if !m.has_inline(len) || m.load(Word::InlineAt)? != from {
        return Ok(false);
    }
    m.take_inline(len)?;
    m.order_loads()?;
    Ok(m.load(Word::InlineAt)? == from)
}
