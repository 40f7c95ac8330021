//! Before a reader does what the library cannot see (stdio, exec, passing the descriptor on): everything back to the kernel.
//!
//! Only the writer can give ring bytes to the kernel, so this waits for it, as long as the caller's timer lets it. If nothing is
//! unread it does not wait: the writer may sleep, and what it writes next it writes to the kernel. A caller that gets [`Outcome::Unreturned`] has the choice between another wait and a reset; going on would lose bytes.

use super::{Do, Outcome, Saw, Wait, Woken, Word, consent, path, span};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Start,
    Locking,
    OwnConsent,
    Storing,
    Unlocking,
    Fencing,
    SeesPath,
    SeesBase,
    SeesTail,
    OwnHead,
    SeesPathAgain,
    Waiting,
    Ended(Outcome),
}

/// One withdrawal of the consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Withdraw {
    at: At,
    capacity: u64,
    /// The consent from now on.
    consent: u64,
    /// The wait is over: what the next look finds decides.
    last_look: bool,
    path: u64,
    tail: u64,
    base: u64,
}

impl Withdraw {
    /// A withdrawal; the ring has `capacity` bytes.
    #[inline]
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let consent = consent::WITHDRAWN;
        Self { at: At::Start, capacity, consent, last_look: false, path: path::TCP, tail: 0, base: 0 }
    }

    /// The same, of a reader that stays in the library ([`consent::SEEN`]): what does not come back it reads from the ring.
    #[inline]
    #[must_use]
    pub fn seen(self) -> Self {
        Self { consent: consent::SEEN, ..self }
    }

    /// Takes what came of the last [`Do`] and says the next.
    #[inline]
    pub fn step(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::Start, _) => self.go(At::Locking, Do::Lock(Word::ReadLock)),
            // Under the lock: a reader that holds it may be taking bytes by the old consent.
            (At::Locking, _) => self.go(At::OwnConsent, Do::Load(Word::Consent)),
            // Another process has withdrawn it for good.
            (At::OwnConsent, Saw::Value(consent::WITHDRAWN)) => {
                self.go(At::Unlocking, Do::Unlock(Word::ReadLock))
            }
            (At::OwnConsent, _) => self.go(At::Storing, Do::Store(Word::Consent, self.consent)),
            (At::Storing, _) => self.go(At::Unlocking, Do::Unlock(Word::ReadLock)),
            // Between the consent and the look at the path: see the writer, which opens the other way round.
            (At::Unlocking, _) => self.go(At::Fencing, Do::Fence),
            (At::Fencing, _) => self.go(At::SeesPath, Do::Load(Word::Path)),
            (At::SeesPath, Saw::Value(value)) => {
                self.path = value;
                if path::is_back(value) { self.sleep() } else { self.go(At::SeesBase, Do::Load(Word::Base)) }
            }
            (At::SeesBase, Saw::Value(value)) => {
                self.base = value;
                self.go(At::SeesTail, Do::Load(Word::Tail))
            }
            (At::SeesTail, Saw::Value(value)) => {
                self.tail = value;
                self.go(At::OwnHead, Do::Load(Word::Head))
            }
            (At::OwnHead, Saw::Value(head)) => {
                match span(head, self.base, self.tail, self.capacity) {
                    // Nothing is unread, unless it is being handed back since the path was looked at.
                    Some(left) if left.from == left.to => self.go(At::SeesPathAgain, Do::Load(Word::Path)),
                    // The writer is at work or will come.
                    _ if self.path == path::RING => self.sleep(),
                    // The writer went on over the kernel behind them.
                    Some(_) => self.end(Outcome::Unreturned),
                    None => self.end(Outcome::Corrupt),
                }
            }
            // Still the ring, and empty: a writer that puts bytes there from here on looks at the consent after it.
            (At::SeesPathAgain, Saw::Value(value)) if value == self.path => self.end(Outcome::Withdrawn),
            (At::SeesPathAgain, _) => self.go(At::SeesPath, Do::Load(Word::Path)),
            (At::Waiting, Saw::Woken(why)) => {
                self.last_look = why != Woken::Look;
                self.go(At::SeesPath, Do::Load(Word::Path))
            }
            (At::Ended(outcome), _) => Do::Done(outcome),
            // The caller answered what was not asked.
            _ => self.go(At::Ended(Outcome::Corrupt), Do::Done(Outcome::Corrupt)),
        }
    }

    #[inline]
    fn go(&mut self, at: At, what: Do) -> Do {
        self.at = at;
        what
    }

    #[inline]
    fn end(&mut self, outcome: Outcome) -> Do {
        self.go(At::Ended(outcome), Do::Done(outcome))
    }

    #[inline]
    fn sleep(&mut self) -> Do {
        if self.last_look {
            let is_returning = path::is_back(self.path);
            return self.end(if is_returning { Outcome::Returning } else { Outcome::Unreturned });
        }
        self.go(At::Waiting, Do::Sleep(Wait::Return))
    }
}
