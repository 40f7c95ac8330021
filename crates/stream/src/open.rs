//! Opening: from the kernel to the ring.
//!
//! Nothing of the ring is unread and nobody writes to the kernel meanwhile ([`crate::plain`]), so what the
//! kernel was given is where the ring's bytes will stand. And it has room for all that the ring may hold:
//! what has to go back then goes at once, and not only with further calls of the writer, who may never make
//! one.

use crate::words::unread;
use crate::write::{Own, Write, ends};
use crate::{Memory, Outcome, Step, Word, Written, consent, path};

impl Write {
    /// Opens the ring if the readers are there for it, and writes.
    #[inline]
    pub(crate) fn open<M: Memory>(&mut self, m: &mut M, own: Own) -> Result<Step, M::Stop> {
        if m.load(Word::Consent)? != consent::OPEN || m.load(Word::Asleep)? != 0 {
            return ends(m, Outcome::Kernel);
        }
        let head = m.load(Word::Head)?;
        match unread(head, own.base, own.tail, self.capacity) {
            Some(unread) if unread.is_empty() => {}
            // Bytes before those of the kernel are unread: another switch-over offset would stand before the
            // first.
            Some(_) => return ends(m, Outcome::Kernel),
            None => return ends(m, Outcome::Corrupt),
        }
        m.store(Word::Opening, 1)?;
        m.fence()?;
        let may_go_back = m.load(Word::Plain)? == 0 && m.takes_all(self.limit)?;
        let given = if may_go_back { m.written()? } else { Written::Unknown };
        let is_open = match given {
            Written::Bytes(given) => self.turn(m, given)?,
            // Nothing is lost by staying with the kernel.
            _ => false,
        };
        m.store(Word::Opening, 0)?;
        if is_open {
            return self.with_consent(m, Own { path: path::RING, ..own }, false);
        }
        ends(m, Outcome::Kernel)
    }

    /// Turns to the ring, unless readers have gone meanwhile.
    #[inline]
    fn turn<M: Memory>(&self, m: &mut M, given: u64) -> Result<bool, M::Stop> {
        m.store(Word::SwitchOver, given)?;
        m.store(Word::Path, path::RING)?;
        m.fence()?;
        if m.load(Word::Consent)? == consent::OPEN && m.load(Word::Asleep)? == 0 {
            return Ok(true);
        }
        m.store(Word::Path, path::TCP)?;
        Ok(false)
    }
}
