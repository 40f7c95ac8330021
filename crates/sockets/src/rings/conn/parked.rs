//! Parking: this process counts as asleep for longer than one call (see `stream::park`).

use core::convert::Infallible;

pub(crate) use stream::park::EMPTY;
use stream::{Entry, Process, Shared, Word};

use super::{Conn, Gone, Known, Use};
use crate::rings::header::{Header, position};
use crate::sync::{AtomicU64, Ordering, fence};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number for the time for which it is parked from here on.
pub(crate) fn some() -> u64 {
    NEXT.fetch_add(2, Ordering::Relaxed)
}

/// A reading end, for calls about being parked.
pub(crate) struct Parking<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) own: &'a Header,
    pub(crate) peer: &'a Header,
}

impl Parking<'_> {
    fn word(&self, word: Word) -> &AtomicU64 {
        // It reads: the writers' words are the other end's.
        if word.is_writers() { self.peer.word(word) } else { self.own.word(word) }
    }
}

impl Shared for Parking<'_> {
    type Stop = Infallible;

    #[inline(always)]
    fn load(&mut self, word: Word) -> Result<u64, Infallible> {
        let value = self.word(word).load(Ordering::Acquire);
        Ok(if word == Word::Tail { position(value) } else { value })
    }

    #[inline(always)]
    fn store(&mut self, word: Word, value: u64) -> Result<(), Infallible> {
        // The other end looks with Acquire.
        self.word(word).store(value, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    fn increase(&mut self, count: Word) -> Result<(), Infallible> {
        self.word(count).fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn decrease(&mut self, count: Word) -> Result<(), Infallible> {
        self.word(count).fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn fence(&mut self) -> Result<(), Infallible> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl Process for Parking<'_> {
    #[inline(always)]
    fn parked(&mut self) -> Result<u64, Infallible> {
        Ok(self.conn.sleep.parked.load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn exchange_parked(&mut self, from: u64, to: u64) -> Result<bool, Infallible> {
        Ok(self.conn.sleep.parked.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok())
    }

    #[inline(always)]
    fn inside(&mut self) -> Result<u64, Infallible> {
        Ok(self.conn.users.inside())
    }
}

/// A read of a thread that trusts in its process being parked: a user meanwhile.
pub(crate) struct Entering {
    known: Known,
    user: Option<Use>,
}

impl Entering {
    #[inline(always)]
    pub(crate) fn new(known: Known) -> Self {
        Self { known, user: None }
    }
}

impl Entry for Entering {
    type Stop = Gone;

    #[inline(always)]
    fn enter(&mut self) -> Result<(), Gone> {
        self.user = Some(self.known.enter_inside()?);
        Ok(())
    }

    #[inline(always)]
    fn parked(&mut self) -> Result<u64, Gone> {
        Ok(self.known.sleep.parked.load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn exit(&mut self) -> Result<(), Gone> {
        if let Some(user) = self.user.take() {
            user.leave();
        }
        Ok(())
    }
}
