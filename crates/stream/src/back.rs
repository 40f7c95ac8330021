//! Handing back: from the ring to the kernel.
//!
//! - *Revoking*: readers are asked to leave the ring alone ([`Word::Revoke`], fence); once none holds their
//!   lock, none will take a byte.
//! - *Handing back*, while no reader takes any: [`Word::SwitchOver`] moves to where the unread bytes will
//!   have been given to the kernel, then [`Word::Path`] says so, then [`Word::Base`] makes them void in the
//!   ring, then the kernel gets them. How many it has got is always `SwitchOver` less what the kernel counts.

use crate::words::unread;
use crate::write::{Occasion, Own, Write, ends};
use crate::{Free, Memory, Outcome, Sent, Step, Word, Written, given, path};

impl Write {
    /// Takes unread bytes out of the ring, and gives them to the kernel.
    #[cold]
    pub(crate) fn revoke<M: Memory>(&mut self, m: &mut M, mut own: Own) -> Result<Step, M::Stop> {
        own.revoke = 1;
        m.store(Word::Revoke, 1)?;
        m.fence()?;
        // A reader that looked before it was asked will be through at once; it takes no more after that.
        match m.wait_until_free(Word::ReadLock)? {
            Free::Free => self.hand_back(m, own),
            Free::Stopped => {
                m.store(Word::Revoke, 0)?;
                self.excused(m)
            }
        }
    }

    /// A reader was stopped at work: nothing that is written may overtake what is in the ring, but an end
    /// may.
    #[inline]
    fn excused<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        match self.occasion {
            Occasion::Finish | Occasion::ShutDown => {
                let own = Own { path: path::RING, tail: 0, base: 0, revoke: 0 };
                self.leave(m, own)
            }
            _ if self.is_published => ends(m, Outcome::Moved(self.moved)),
            Occasion::Write => self.wait_for_room(m),
            Occasion::WriteNow => ends(m, Outcome::WouldBlock),
            Occasion::Visit | Occasion::Overdue => ends(m, Outcome::Moved(0)),
        }
    }

    #[inline]
    fn hand_back<M: Memory>(&mut self, m: &mut M, mut own: Own) -> Result<Step, M::Stop> {
        let Written::Bytes(given) = m.written()? else { return self.stay(m, own) };
        if given > m.load(Word::SwitchOver)? {
            // Somebody wrote past the library, and the ring's bytes belong before that: they have to stay.
            return self.stay(m, own);
        }
        let head = m.load(Word::Head)?;
        let Some(unread) = unread(head, own.base, own.tail, self.capacity) else {
            return ends(m, Outcome::Corrupt);
        };
        let switch_over = given.saturating_add(unread.len());
        m.store(Word::SwitchOver, switch_over)?;
        // Once it is to be shut down, nobody else makes it a ring again before that is done.
        own.path = if self.occasion == Occasion::ShutDown { path::LAST } else { path::BACK };
        m.store(Word::Path, own.path)?;
        self.give_back(m, own, switch_over)
    }

    /// The ring's bytes cannot go back; what is written from here on goes behind them.
    #[inline]
    fn stay<M: Memory>(&mut self, m: &mut M, own: Own) -> Result<Step, M::Stop> {
        m.store(Word::Revoke, 0)?;
        self.leave(m, own)
    }

    /// Goes on with a hand-back that another call has begun.
    #[inline]
    pub(crate) fn resume<M: Memory>(&mut self, m: &mut M, mut own: Own) -> Result<Step, M::Stop> {
        if own.path == path::BACK && self.occasion == Occasion::ShutDown {
            own.path = path::LAST;
            m.store(Word::Path, path::LAST)?;
        }
        let switch_over = m.load(Word::SwitchOver)?;
        self.give_back(m, own, switch_over)
    }

    /// Gives to the kernel what is missing before the switch-over offset: the last bytes of the ring.
    #[inline]
    fn give_back<M: Memory>(&mut self, m: &mut M, own: Own, switch_over: u64) -> Result<Step, M::Stop> {
        m.store(Word::Base, own.tail)?;
        if own.revoke != 0 {
            m.store(Word::Revoke, 0)?;
        }
        loop {
            let given = match m.written()? {
                Written::Bytes(given) => given,
                Written::Unknown => return self.wait_for_kernel(m),
                Written::Broken => return self.refused(m),
            };
            let missing = switch_over.saturating_sub(given);
            let from = match own.tail.checked_sub(missing) {
                Some(_) if missing == 0 => return self.leave(m, Own { base: own.tail, ..own }),
                Some(from) if missing <= self.capacity => from,
                _ => return ends(m, Outcome::Corrupt),
            };
            given::take_back(m)?;
            match m.send_ring(from, missing)? {
                Sent::Bytes(_) => {}
                Sent::WouldBlock => {
                    // It may take long, and this process may end meanwhile.
                    given::stays(m, given)?;
                    return self.wait_for_kernel(m);
                }
                Sent::Broken => {
                    // Another thread has shut it down since: readers find the rest in the ring, if they know
                    // where it begins.
                    given::stays(m, given)?;
                    return self.refused(m);
                }
            }
        }
    }

    /// The connection is dead, or its writing half was shut down. The path stays as it is: it says that not
    /// all is in the kernel.
    #[inline]
    fn refused<M: Memory>(&mut self, m: &mut M) -> Result<Step, M::Stop> {
        ends(m, if self.is_published { Outcome::Moved(self.moved) } else { Outcome::Unreturned })
    }
}
