//! Withdrawing: before a reader does what the library cannot see (stdio, exec, passing the
//! descriptor), everything returns to the kernel.
//!
//! Only the writer can give ring bytes to the kernel, so this waits for it, as long as the caller's timer
//! lets it. If nothing is unread it does not wait: the writer may sleep, and what it writes next it writes to
//! the kernel. A caller that gets [`Outcome::Unreturned`] has the choice between another wait and a reset;
//! going on would lose bytes.

use crate::words::unread;
use crate::{Memory, Outcome, Slept, Step, Wait, Woken, Word, consent, path};

/// One withdrawal of the consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Withdraw {
    capacity: u64,
    /// The consent from now on.
    consent: u64,
    is_stored: bool,
    /// The wait is over: what the next look finds decides.
    is_last_look: bool,
}

impl Withdraw {
    /// A withdrawal; the ring has `capacity` bytes.
    #[inline]
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { capacity, consent: consent::WITHDRAWN, is_stored: false, is_last_look: false }
    }

    /// The same, of a reader that stays in the library ([`consent::SEEN`]): what does not come back it reads
    /// from the ring.
    #[inline]
    #[must_use]
    pub fn seen(self) -> Self {
        Self { consent: consent::SEEN, ..self }
    }

    /// One attempt.
    #[inline]
    pub fn attempt<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        if !self.is_stored {
            self.store(m)?;
            self.is_stored = true;
        }
        let way = m.load(Word::Path)?;
        if path::is_back(way) {
            return self.wait(m, way);
        }
        let base = m.load(Word::Base)?;
        let tail = m.load(Word::Tail)?;
        let head = m.load(Word::Head)?;
        match unread(head, base, tail, self.capacity) {
            // Nothing is unread, unless it is being handed back since the path was looked at. If the path is
            // still the ring, and empty: a writer that puts bytes there from here on looks at the consent
            // after it.
            Some(left) if left.is_empty() => match m.load(Word::Path)? == way {
                true => Ok(Step::Ends(Outcome::Withdrawn)),
                false => Ok(Step::Again),
            },
            // The writer is at work or will come.
            _ if way == path::RING => self.wait(m, way),
            // The writer went on over the kernel behind them.
            Some(_) => Ok(Step::Ends(Outcome::Unreturned)),
            None => Ok(Step::Ends(Outcome::Corrupt)),
        }
    }

    /// Under the lock: a reader that holds it may be taking bytes by the old consent.
    #[inline]
    fn store<M: Memory>(&self, m: &mut M) -> Result<(), M::Stop> {
        m.lock(Word::ReadLock)?;
        // Else another process has withdrawn it for good.
        if m.load(Word::Consent)? != consent::WITHDRAWN {
            m.store(Word::Consent, self.consent)?;
        }
        m.unlock(Word::ReadLock)?;
        // Between the consent and the look at the path: see the writer, which opens the other way round.
        m.fence()
    }

    #[inline]
    fn wait<M: Memory>(&mut self, m: &mut M, way: u64) -> Result<Step, M::Stop> {
        if self.is_last_look {
            let outcome = if path::is_back(way) { Outcome::Returning } else { Outcome::Unreturned };
            return Ok(Step::Ends(outcome));
        }
        self.is_last_look = m.sleep(Wait::Return)? != Slept::Woken(Woken::Look);
        Ok(Step::Again)
    }
}
