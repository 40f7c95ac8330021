//! The fast path: calls of crate `stream` that stop where a system call or a wait would be needed,
//! and are then repeated by [`Call`](crate::rings::run::Call).

use stream::{Free, Held, Locked, Memory, Sent, Shared, Slept, Taken, Wait, Word, Written};

use super::commit;
use crate::page::{self, Direction};
use crate::rings::conn::Known;
use crate::rings::copy::{Bytes, copy};
use crate::rings::header::{Header, INLINE_BYTES, moved, position};
use crate::rings::lock::Lock;
use crate::sync::{Ordering, fence};

/// Why such a call stopped: what comes next takes longer.
pub(super) struct Slow;

/// A call that puts bytes into the ring of its end, if it `WRITES`, or takes them from the other one's.
pub(super) struct Fast<'a, const WRITES: bool> {
    conn: Known,
    own: &'a Header,
    peer: &'a Header,
    bytes: &'a Bytes,
    /// How many of them were moved before.
    done: usize,
    /// How many are being moved now.
    moving: u64,
    /// Of a call that writes: the tail as it was found.
    tail: u64,
    is_locked: bool,
}

pub(super) type Puts<'a> = Fast<'a, true>;
pub(super) type Takes<'a> = Fast<'a, false>;

impl<'a, const WRITES: bool> Fast<'a, WRITES> {
    #[inline(always)]
    pub(super) fn new(conn: Known, own: &'a Header, peer: &'a Header, bytes: &'a Bytes, done: usize) -> Self {
        Self { conn, own, peer, bytes, done, moving: 0, tail: 0, is_locked: false }
    }

    fn own_lock(&self) -> &'a Lock {
        self.own.lock(if WRITES { Word::WriteLock } else { Word::ReadLock })
    }

    /// It has stopped: its lock is free again.
    #[inline(always)]
    pub(super) fn ends(&mut self) {
        if self.is_locked {
            self.is_locked = false;
            self.own_lock().release();
        }
    }
}

impl<const WRITES: bool> Shared for Fast<'_, WRITES> {
    type Stop = Slow;

    #[inline(always)]
    fn load(&mut self, word: Word) -> Result<u64, Slow> {
        let whose = if word.is_writers() == WRITES { self.own } else { self.peer };
        if word == Word::Tail {
            self.tail = whose.message.0.whole_tail();
            return Ok(position(self.tail));
        }
        let value = whose.word(word).load(Ordering::Acquire);
        if WRITES && word == Word::Head {
            // With the lock: the place may be another connection's as soon as that is free.
            self.conn.kept.head.store(value, Ordering::Relaxed);
        }
        Ok(value)
    }

    #[inline(always)]
    fn store(&mut self, word: Word, value: u64) -> Result<(), Slow> {
        if word != Word::InlineAt {
            return Err(Slow);
        }
        // Readers look with Acquire.
        self.own.word(word).store(value, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    fn increase(&mut self, _: Word) -> Result<(), Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn decrease(&mut self, _: Word) -> Result<(), Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn fence(&mut self) -> Result<(), Slow> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl<const WRITES: bool> Memory for Fast<'_, WRITES> {
    #[inline(always)]
    fn lock(&mut self, _: Word) -> Result<Locked, Slow> {
        self.is_locked = self.own_lock().try_take();
        // Else another thread is at work, or this is in a signal handler.
        if self.is_locked { Ok(Locked::Fresh) } else { Err(Slow) }
    }

    #[inline(always)]
    fn interrupts(&mut self) -> Result<(), Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn kept(&mut self, _: u64) -> Result<u64, Slow> {
        // Not right behind the lock: there the words are fetched, for which everything else would wait.
        if !self.conn.is_still() {
            return Err(Slow);
        }
        let kept = if WRITES { &self.conn.kept.head } else { &self.conn.kept.reached };
        Ok(kept.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn rare(&mut self) -> Result<(), Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn unlock(&mut self, _: Word) -> Result<(), Slow> {
        self.ends();
        Ok(())
    }

    #[inline(always)]
    fn wait_until_free(&mut self, _: Word) -> Result<Free, Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn advance(&mut self, word: Word, from: u64, to: u64) -> Result<bool, Slow> {
        // An ordinary store right behind those of the message: with a locked one a reader that looks
        // meanwhile would take the line away in between. It fails if a handler of this thread has moved it
        // meanwhile, or has said that it has come in between.
        let is_moved = if WRITES {
            commit(self.own.message.0.tail_word(), self.tail, moved(self.tail, to))
        } else {
            commit(self.own.word(word), from, to)
        };
        if is_moved {
            page::memory(
                self.conn.record(),
                if WRITES { Direction::Out } else { Direction::In },
                self.moving,
            );
        }
        Ok(is_moved)
    }

    #[inline(always)]
    fn put(&mut self, at: u64, len: u64) -> Result<(), Slow> {
        self.moving = len;
        // SAFETY: the ring of this end's region; the program's own bytes.
        unsafe { self.bytes.put(self.done, self.own.ring(), at, len as usize) };
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self, at: u64, len: u64) -> Result<(), Slow> {
        self.moving = len;
        // SAFETY: the ring of the other end's region; the program's own room, of which no more than its
        // length is used.
        unsafe { self.bytes.take(0, self.peer.ring(), at, len as usize) };
        Ok(())
    }

    #[inline(always)]
    fn has_inline(&self, len: u64) -> bool {
        len as usize <= INLINE_BYTES && self.bytes.place().is_some()
    }

    #[inline(always)]
    fn put_inline(&mut self, len: u64) -> Result<(), Slow> {
        if let Some(from) = self.bytes.place() {
            let to = self.own.message.0.inline.as_ptr().cast_mut().cast::<u8>();
            // SAFETY: the words' own room, which `has_inline` has found long enough; the program's own bytes.
            unsafe { copy(from.wrapping_add(self.done), to, len as usize) };
        }
        Ok(())
    }

    #[inline(always)]
    fn take_inline(&mut self, len: u64) -> Result<(), Slow> {
        self.moving = len;
        if let Some(to) = self.bytes.place() {
            // SAFETY: the words' own bytes, as many as there are at most; the program's own room, of which no
            // more than its length is used.
            unsafe { copy(self.peer.message.0.inline.as_ptr().cast(), to, len as usize) };
        }
        Ok(())
    }

    #[inline(always)]
    fn order_stores(&mut self) -> Result<(), Slow> {
        // The copy is made by assembly, which the compiler moves over no fence. Pairs with the Acquire of the
        // reader's `order_loads`, behind which it finds that the copy is no longer of the message that it
        // takes.
        fence(Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    fn order_loads(&mut self) -> Result<(), Slow> {
        fence(Ordering::Acquire);
        Ok(())
    }

    #[inline(always)]
    fn taken(&mut self) -> Result<Taken, Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn written(&mut self) -> Result<Written, Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn takes_all(&mut self, _: u64) -> Result<bool, Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn held(&mut self) -> Result<Held, Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn receive(&mut self, _: u64) -> Result<u64, Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn send_ring(&mut self, _: u64, _: u64) -> Result<Sent, Slow> {
        Err(Slow)
    }

    #[inline(always)]
    fn sleep(&mut self, _: Wait) -> Result<Slept, Slow> {
        Err(Slow)
    }
}
