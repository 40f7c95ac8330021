//! One read call of whoever holds the reading end.
//!
//! The order of the looks is the protocol:
//!
//! - The lock is taken by a sequentially consistent operation, and only then [`Word::Recall`] is looked at: either the writer
//!   that recalls sees the lock, or this reader sees the recall.
//! - [`Word::Tail`] before [`Word::Cut`]: whoever sees a byte of the ring sees the cut that it stands behind.
//! - While the ring is recalled the writer publishes, hands back and opens between two looks. Then of its words only
//!   [`Word::Cut`] is used, which was looked at last: the kernel's bytes before it come next. A withdrawn consent changes
//!   nothing for readers: whoever reads in the library may take what is in the ring.
//! - What the kernel holds is counted before the ring is looked at. Whatever the writer put into the ring before it gave the
//!   counted bytes (or the end) to the kernel is then visible; not more than was counted is read.

use super::{Do, Held, Outcome, Saw, Span, Wait, Woken, Word, consent, span};

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Bytes.
    Read,
    /// Bytes that stay (`MSG_PEEK`, which the caller also gives to [`Do::Receive`]).
    Peek,
    /// How many could be read (`poll`, `FIONREAD`): at least one that is next, not all that will come.
    Look,
}

/// Where a read call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Start,
    Locking,
    OwnHead,
    OwnConsent,
    Consenting,
    SeesRecall,
    SeesBase,
    SeesTail,
    SeesCut,
    AsksTaken,
    Counting,
    Receiving,
    Taking,
    Taken,
    Unlocking(Outcome),
    /// Next is a wait for the writer to hand back.
    Yielding,
    Yielded,
    Resting,
    Arming,
    LooksAgainRecall,
    LooksAgainTail,
    Asleep,
    Disarming(After),
    Ended(Outcome),
}

/// What follows a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum After {
    Look(Woken),
    End(Outcome),
}

/// One read call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reader {
    at: At,
    /// Size of the ring in bytes.
    capacity: u64,
    /// Room in the caller's buffer.
    want: u64,
    may_wait: bool,
    purpose: Purpose,
    /// This call is seen by the library, and so may those after it be.
    opens: bool,
    /// The highest cut that is known to have been reached. It stays true whatever happens, so it is kept between calls.
    reached: u64,
    head: u64,
    /// A sleep ended because the other end hung up.
    is_hung_up: bool,
    recall: u64,
    tail: u64,
    cut: u64,
    base: u64,
    /// What the kernel held, once it was counted.
    held: Option<Held>,
    /// Bytes to take from the ring.
    taking: Span,
}

impl Reader {
    /// A read of at most `want` bytes (not 0) through a ring of `capacity` bytes. With `opens` the writer may use the ring from
    /// now on. `reached` is what [`Reader::reached`] said after an earlier call in this process, else 0.
    #[inline]
    #[must_use]
    pub fn new(capacity: u64, want: u64, may_wait: bool, opens: bool, reached: u64) -> Self {
        Self {
            at: At::Start,
            capacity,
            want,
            may_wait,
            purpose: Purpose::Read,
            opens,
            reached,
            head: 0,
            is_hung_up: false,
            recall: 0,
            tail: 0,
            cut: 0,
            base: 0,
            held: None,
            taking: Span { from: 0, to: 0 },
        }
    }

    /// The same call for another purpose.
    #[inline]
    #[must_use]
    pub fn to(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// The highest cut known to have been reached: saves the next call asking the kernel.
    #[inline]
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Takes what came of the last [`Do`] and says the next.
    #[inline]
    pub fn step(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::Start, _) => self.go(At::Locking, Do::Lock(Word::ReadLock)),
            (At::Locking, _) => self.go(At::OwnHead, Do::Load(Word::Head)),
            (At::OwnHead, Saw::Value(head)) => {
                self.head = head;
                self.go(At::OwnConsent, Do::Load(Word::Consent))
            }
            (At::OwnConsent, Saw::Value(value)) => self.own_consent(value),
            (At::Consenting, _) => self.look(),
            (At::SeesRecall, Saw::Value(value)) => {
                self.recall = value;
                self.go(At::SeesBase, Do::Load(Word::Base))
            }
            (At::SeesBase, Saw::Value(value)) => {
                self.base = value;
                self.go(At::SeesTail, Do::Load(Word::Tail))
            }
            (At::SeesTail, Saw::Value(value)) => {
                self.tail = value;
                self.go(At::SeesCut, Do::Load(Word::Cut))
            }
            (At::SeesCut, Saw::Value(value)) => {
                self.cut = value;
                self.looked()
            }
            (At::AsksTaken, Saw::Value(taken)) => self.placed(taken),
            // Closed by a reset, and the order of what is left cannot be told: the connection ends here.
            (At::AsksTaken, Saw::Unknown) => self.end(Outcome::Corrupt),
            (At::Counting, Saw::Kernel(held)) => {
                self.held = Some(held);
                self.look()
            }
            (At::Receiving, Saw::Moved(count)) if count > 0 => self.end(Outcome::Moved(count)),
            // Somebody who takes no lock was faster.
            (At::Receiving, _) if self.may_wait => {
                self.held = None;
                self.look()
            }
            (At::Receiving, _) => self.end(Outcome::WouldBlock),
            (At::Taking, _) if self.purpose == Purpose::Peek => {
                self.end(Outcome::Moved(self.taking.to - self.taking.from))
            }
            (At::Taking, _) => self.go(At::Taken, Do::Store(Word::Head, self.taking.to)),
            (At::Taken, _) => self.end(Outcome::Moved(self.taking.to - self.taking.from)),
            (At::Unlocking(outcome), _) => self.go(At::Ended(outcome), Do::Done(outcome)),
            (At::Ended(outcome), _) => Do::Done(outcome),
            _ => self.rest(saw),
        }
    }

    /// The steps of a call that waits.
    #[inline]
    fn rest(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::Yielding, _) => self.go(At::Yielded, Do::Sleep(Wait::Return)),
            (At::Yielded, Saw::Woken(Woken::Stop)) => {
                self.go(At::Ended(Outcome::WouldBlock), Do::Done(Outcome::WouldBlock))
            }
            (At::Yielded, Saw::Woken(why)) => self.again(why),
            (At::Resting, _) => self.go(At::Arming, Do::Increase(Word::Asleep)),
            (At::Arming, _) => self.go(At::LooksAgainRecall, Do::Load(Word::Recall)),
            // Whatever changed since the look, the next look decides.
            (At::LooksAgainRecall, Saw::Value(value)) if value != self.recall => {
                self.disarm(After::Look(Woken::Look))
            }
            (At::LooksAgainRecall, Saw::Value(_)) => self.go(At::LooksAgainTail, Do::Load(Word::Tail)),
            (At::LooksAgainTail, Saw::Value(value)) if value != self.tail => {
                self.disarm(After::Look(Woken::Look))
            }
            (At::LooksAgainTail, Saw::Value(_)) => self.go(At::Asleep, Do::Sleep(Wait::Readable)),
            (At::Asleep, Saw::Woken(Woken::Stop)) => self.disarm(After::End(Outcome::WouldBlock)),
            (At::Asleep, Saw::Woken(why)) => self.disarm(After::Look(why)),
            (At::Asleep, Saw::Moved(count)) => self.disarm(After::End(Outcome::Moved(count))),
            // What the kernel said, it will not say again.
            (At::Asleep, Saw::Broken) => self.disarm(After::End(Outcome::Kernel)),
            (At::Disarming(After::End(outcome)), _) => self.go(At::Ended(outcome), Do::Done(outcome)),
            (At::Disarming(After::Look(why)), _) => self.again(why),
            // The caller answered what was not asked: end, and leave nothing locked.
            _ => self.end(Outcome::Corrupt),
        }
    }

    #[inline]
    fn go(&mut self, at: At, what: Do) -> Do {
        self.at = at;
        what
    }

    #[inline]
    fn end(&mut self, outcome: Outcome) -> Do {
        self.go(At::Unlocking(outcome), Do::Unlock(Word::ReadLock))
    }

    #[inline]
    fn disarm(&mut self, after: After) -> Do {
        self.go(At::Disarming(after), Do::Decrease(Word::Asleep))
    }

    /// Nothing that was seen before a sleep is believed after it.
    #[inline]
    fn again(&mut self, why: Woken) -> Do {
        let again = Self::new(self.capacity, self.want, self.may_wait, self.opens, self.reached);
        *self = Self { is_hung_up: self.is_hung_up || why == Woken::Hangup, ..again.to(self.purpose) };
        self.go(At::Locking, Do::Lock(Word::ReadLock))
    }

    /// A look at all that the writer says, in the order that matters.
    #[inline]
    fn look(&mut self) -> Do {
        self.go(At::SeesRecall, Do::Load(Word::Recall))
    }

    #[inline]
    fn own_consent(&mut self, value: u64) -> Do {
        if value == consent::NONE && self.opens {
            return self.go(At::Consenting, Do::Store(Word::Consent, consent::OPEN));
        }
        self.look()
    }

    /// The ring is no business of readers now. A writer that has finished or is dead hands nothing back.
    #[inline]
    fn frozen(&self) -> bool {
        self.recall != 0 && !self.is_hung_up && !matches!(self.held, Some(Held::End | Held::Error))
    }

    #[inline]
    fn looked(&mut self) -> Do {
        if self.frozen() {
            return self.go(At::AsksTaken, Do::AskTaken);
        }
        let Some(due) = span(self.head, self.base, self.tail, self.capacity) else {
            return self.end(Outcome::Corrupt);
        };
        let is_over = matches!(self.held, Some(Held::End | Held::Error));
        // At the end, bytes that were to go back and did not come are still in the ring.
        let may_be_left = is_over && self.tail > self.head;
        if due.from == due.to && !may_be_left {
            return self.nothing_due(u64::MAX);
        }
        if self.cut <= self.reached {
            return self.reached_cut(due);
        }
        self.go(At::AsksTaken, Do::AskTaken)
    }

    /// There are bytes in the ring; they stand behind the cut.
    #[inline]
    fn placed(&mut self, taken: u64) -> Do {
        if self.frozen() {
            return self.nothing_due(self.cut.saturating_sub(taken));
        }
        let Some(due) = span(self.head, self.base, self.tail, self.capacity) else {
            return self.end(Outcome::Corrupt);
        };
        if taken >= self.cut {
            self.reached = self.reached.max(self.cut);
            return self.reached_cut(due);
        }
        let missing = self.cut - taken;
        match self.held {
            // An honest kernel delivers what was written before a FIN: the writer died while it handed back, and the last
            // of the ring is what did not get through.
            Some(Held::End) => match self.tail.checked_sub(missing) {
                Some(from) if missing <= self.capacity => {
                    self.take(Span { from: from.max(self.head), to: self.tail })
                }
                _ => self.end(Outcome::Corrupt),
            },
            // A reset loses what was on its way, so that the ring's bytes do not join on.
            Some(Held::Error) => self.end(Outcome::Kernel),
            _ => self.nothing_due(missing),
        }
    }

    #[inline]
    fn reached_cut(&mut self, due: Span) -> Do {
        if due.from == due.to { self.nothing_due(u64::MAX) } else { self.take(due) }
    }

    #[inline]
    fn take(&mut self, due: Span) -> Do {
        let len = (due.to - due.from).min(self.want);
        if len == 0 {
            return self.end(Outcome::Kernel);
        }
        if self.purpose == Purpose::Look {
            return self.end(Outcome::Moved(len));
        }
        self.taking = Span { from: due.from, to: due.from + len };
        self.go(At::Taking, Do::Take { at: due.from, len })
    }

    /// Somebody is at work, who does not know whether anybody sleeps. Or bytes of the ring are unread, and those that come before
    /// them are on their way in the kernel: who slept there would take more than those, or nothing once another reader took them.
    #[inline]
    fn may_not_sleep(&self, held: Held, limit: u64) -> bool {
        self.recall != 0 || held != Held::Nothing || limit < u64::MAX
    }

    /// The ring has nothing for us; of the kernel's bytes the first `limit` come before the ring's.
    #[inline]
    fn nothing_due(&mut self, limit: u64) -> Do {
        match self.held {
            None => self.go(At::Counting, Do::Count),
            Some(Held::Bytes(count)) if limit > 0 => {
                let most = count.min(limit).min(self.want);
                if self.purpose == Purpose::Look {
                    return self.end(Outcome::Moved(most));
                }
                self.go(At::Receiving, Do::Receive { most })
            }
            Some(Held::End | Held::Error) => self.end(Outcome::Kernel),
            Some(held) if self.may_wait && self.may_not_sleep(held, limit) => {
                self.go(At::Yielding, Do::Unlock(Word::ReadLock))
            }
            Some(Held::Nothing | Held::Bytes(_)) if self.may_wait => {
                self.go(At::Resting, Do::Unlock(Word::ReadLock))
            }
            Some(Held::Nothing | Held::Bytes(_)) => self.end(Outcome::WouldBlock),
        }
    }
}
