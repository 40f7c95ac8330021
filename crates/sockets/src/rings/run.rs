//! Carries out the calls of crate `stream` with system calls: on the words of two regions, the
//! kernel's connection, the program's bytes.

use core::convert::Infallible;

use libc::{c_int, timespec};
use stream::read::{Purpose, Read};
use stream::withdraw::Withdraw;
use stream::write::{Occasion, Write};
use stream::{
    Free, Held, Locked, Memory, Outcome, Sent, Shared, Slept, Step, Taken, Wait, Woken, Word, Written, given,
};

use super::blocked::{Blocked, Goes};
use super::conn::{Conn, Gone, Mover, Use};
use super::copy::{Bytes, each_piece};
use super::header::{CAPACITY, Header, moved, position};
use super::kernel::Takes;
use super::native::Native;
use super::{flight, kernel, lock, spin};
use crate::interposer::set_errno;
use crate::page::{self, Direction};
use crate::raw;
use crate::sync::{AtomicU64, Ordering, fence};

/// One call of the program, or of the library for it.
pub(crate) struct Call<'a, 'n> {
    pub(crate) conn: &'a Conn,
    pub(crate) own: &'static Header,
    pub(crate) peer: &'static Header,
    /// The number that the program used.
    pub(crate) fd: c_int,
    pub(crate) bytes: &'a Bytes,
    /// How many of them were moved before.
    done: usize,
    /// How many are being put into a ring, or taken from one.
    moving: u64,
    /// How many milliseconds it may wait for the other end to do its part; a call that may not wait at all
    /// gives that up sooner.
    patience: u32,
    is_writing: bool,
    /// Of a read: its flags, and whether its bytes stay where they are.
    flags: c_int,
    is_peek: bool,
    /// Of a read: the program's own call, made once the end has said that it sleeps.
    native: Option<&'a mut Native<'n>>,
    /// Of a read: who makes it, a mover but for the time of that call.
    user: Option<Use>,
    mover: Option<Mover>,
    /// Of a write: whether it waits for the kernel.
    waits_for_kernel: bool,
    waits: u32,
    /// The option that says how long the program's call may wait, which signals end as well; 0 for a call of
    /// the library's own.
    limit: c_int,
    blocked: Blocked,
    /// How the program's wait has ended.
    goes: Goes,
    lock: lock::Held,
}

/// Looks at the ring, spinning, before a writer that waits for room takes its bytes back.
const ROOM_CYCLES: u64 = 400_000;
/// Milliseconds for what the other end does by itself.
pub(crate) const PATIENT: u32 = 10_000;
pub(crate) const IMPATIENT: u32 = 20;
/// Times that a reader at work was waited for without success, until it is taken for stopped.
pub(crate) const STUCK: u32 = 8;
/// Cycles until it is looked for again: some milliseconds, later up to a second.
const STUCK_CYCLES: u64 = 20_000_000;

impl<'a, 'n> Call<'a, 'n> {
    pub(crate) fn new(conn: &'a Conn, fd: c_int, bytes: &'a Bytes) -> Option<Self> {
        let (own, peer) = conn.headers()?;
        Some(Self {
            conn,
            own,
            peer,
            fd,
            bytes,
            done: 0,
            moving: 0,
            patience: PATIENT,
            is_writing: false,
            flags: 0,
            is_peek: false,
            native: None,
            user: None,
            mover: None,
            waits_for_kernel: false,
            waits: 0,
            limit: 0,
            blocked: Blocked::new(),
            goes: Goes::On,
            lock: lock::Held::none(),
        })
    }

    /// The same with so much patience.
    pub(crate) fn within(self, patience: u32) -> Self {
        Self { patience, ..self }
    }

    /// The same behind so many bytes.
    pub(crate) fn behind(self, done: usize) -> Self {
        Self { done, ..self }
    }

    /// Reads; `native` is the program's own call.
    pub(crate) fn read(
        mut self,
        purpose: Purpose,
        may_wait: bool,
        flags: c_int,
        user: Use,
        native: &'a mut Native<'n>,
    ) -> Result<Outcome, Gone> {
        self.mover = Some(user.moves()?);
        self.user = Some(user);
        self.limit = libc::SO_RCVTIMEO;
        self.flags = flags;
        self.is_peek = purpose != Purpose::Read;
        self.native = Some(native);
        let want = (self.bytes.length as u64).max(1);
        let reached = self.conn.kept.reached.load(Ordering::Relaxed);
        let mut read = Read::new(CAPACITY, want, may_wait, true, reached).to(purpose);
        let outcome = self.attempts(|call| read.attempt(call));
        self.conn.kept.reached.fetch_max(read.reached(), Ordering::Relaxed);
        if let Some(mover) = self.mover.take() {
            mover.rests();
        }
        Ok(self.said(outcome))
    }

    /// Writes, or sees to it that what was written gets through. What is left to write is left to the
    /// program's own call ([`Outcome::Kernel`]).
    pub(crate) fn write(mut self, occasion: Occasion, may_open: bool) -> Outcome {
        self.is_writing = true;
        self.waits_for_kernel = occasion == Occasion::Write;
        self.limit = if occasion == Occasion::Write { libc::SO_SNDTIMEO } else { 0 };
        let want = match occasion {
            Occasion::Write | Occasion::WriteNow => (self.bytes.length - self.done) as u64,
            _ => 0,
        };
        let head = self.conn.kept.head.load(Ordering::Relaxed);
        let room = self.conn.kept.room.load(Ordering::Relaxed);
        let mut write = Write::new(occasion, CAPACITY, want, may_open, head).limited(room);
        let outcome = self.attempts(|call| write.attempt(call));
        self.conn.kept.head.store(write.head(), Ordering::Relaxed);
        self.said(outcome)
    }

    /// Has everything handed back before this end reads in a way that is not seen.
    pub(crate) fn withdraw(mut self, mut withdraw: Withdraw) -> Outcome {
        self.attempts(|call| withdraw.attempt(call))
    }

    /// Says, before an end, what the kernel was given, if bytes stay in the ring.
    pub(crate) fn says_given(mut self) {
        self.is_writing = true;
        let Ok(()) = given::say(&mut self, CAPACITY);
    }

    fn attempts(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<Step, Infallible>) -> Outcome {
        loop {
            let Ok(step) = attempt(self);
            if let Step::Ends(outcome) = step {
                return outcome;
            }
        }
    }

    /// A wait that has ended without anything ends the program's call, with the reason in errno.
    fn said(&self, outcome: Outcome) -> Outcome {
        if outcome == Outcome::WouldBlock && self.goes != Goes::On {
            set_errno(self.goes.errno());
        }
        outcome
    }

    /// What the kernel says, asked by the number that the socket has now.
    fn asks<T>(&self, call: impl FnOnce(c_int) -> T) -> T {
        self.conn.asks(self.fd, call)
    }

    fn word(&self, word: Word) -> &'static AtomicU64 {
        // Whose word it is depends on which direction the call is of.
        let is_own = word.is_writers() == self.is_writing;
        if is_own { self.own.word(word) } else { self.peer.word(word) }
    }

    /// Who holds a lock of the other end; 0 if nobody does or it is proven dead.
    fn holder(&self, word: Word) -> u64 {
        let value = self.word(word).load(Ordering::SeqCst);
        if value == 0 || lock::is_dead(value, self.conn.meeting.peer_pid.load(Ordering::Relaxed)) {
            self.conn.owed.stuck.store(0, Ordering::Relaxed);
            return 0;
        }
        value
    }

    /// A reader is at work.
    fn pause(&mut self) -> Woken {
        self.waits += 1;
        if self.waits < 2000 {
            spin::relax();
            return Woken::Look;
        }
        // That was a few microseconds, and then a tenth of a millisecond each; of who never gives it back not
        // again and again.
        let stuck = self.conn.owed.stuck.load(Ordering::Relaxed);
        if stuck >= STUCK || self.waits >= 2000 + 20 {
            self.conn.owed.stuck.store(stuck.saturating_add(1), Ordering::Relaxed);
            let rest = STUCK_CYCLES << stuck.saturating_sub(STUCK).min(6);
            self.conn.owed.again.store(spin::clock().0.wrapping_add(rest), Ordering::Relaxed);
            return Woken::Timer;
        }
        sleep(100_000);
        Woken::Look
    }

    /// Readers are awake: there will be room soon, or they are held up.
    fn wait_for_room(&mut self) -> Woken {
        if self.conn.is_stuck() && self.ends(sleep(1_000_000)) {
            return Woken::Stop;
        }
        let head = self.peer.word(Word::Head).load(Ordering::Acquire);
        let (start, _) = spin::clock();
        loop {
            if self.peer.word(Word::Head).load(Ordering::Acquire) != head {
                return Woken::Look;
            }
            let will = &self.peer.reader.0;
            let is_asleep = will.asleep.load(Ordering::Acquire) != 0;
            if is_asleep || spin::clock().0.wrapping_sub(start) > ROOM_CYCLES {
                return if self.asks(kernel::has_hung_up) { Woken::Hangup } else { Woken::Timer };
            }
            spin::relax();
        }
    }

    /// The other end hands back what this one waits for.
    fn wait_for_return(&mut self) -> Woken {
        self.waits += 1;
        // The other end may be in this process, or this process a copy of the one that has written.
        super::leave::settle();
        super::leave::settle_other_end(self.conn);
        if self.asks(kernel::has_hung_up) {
            return Woken::Hangup;
        }
        if self.limit == 0 && self.blocked.spent_milliseconds() >= self.patience {
            return Woken::Timer;
        }
        if self.waits > 8 && self.ends(sleep(1_000_000)) {
            return Woken::Stop;
        }
        Woken::Look
    }

    /// Whether the program's call has waited for long enough, or was interrupted. `slept` is what the kernel
    /// said of a part of that.
    fn ends(&mut self, slept: isize) -> bool {
        if self.limit != 0 {
            self.goes = self.conn.asks(self.fd, |fd| self.blocked.moves(fd, self.limit, slept));
        }
        self.goes != Goes::On
    }

    /// Bytes on their way back do not fit into the kernel.
    fn wait_for_kernel(&mut self) -> Woken {
        self.waits += 1;
        let may_wait = self.waits_for_kernel;
        if !may_wait && self.waits > 1 {
            // The reader finds the rest where it is.
            return Woken::Stop;
        }
        let most = if may_wait { 100 } else { 0 };
        let slept = kernel::sleeps(self.conn.number(self.fd), libc::POLLOUT, most);
        if self.ends(slept) { Woken::Stop } else { Woken::Look }
    }

    /// The program's own read, with this end among the sleepers.
    fn wait_for_bytes(&mut self) -> Slept {
        let (Some(native), Some(user)) = (self.native.as_mut(), self.user) else { return Slept::Broken };
        // In that call its thread may be cancelled.
        if let Some(mover) = self.mover.take() {
            mover.rests();
        }
        let count = native.call();
        self.mover = user.moves().ok();
        if self.mover.is_some() && count > 0 {
            self.asks(|fd| self.conn.came(fd, self.peer));
        }
        match count {
            count if count > 0 => Slept::Moved(count as u64),
            0 if self.mover.is_some() => Slept::Woken(Woken::Look),
            _ => Slept::Broken,
        }
    }
}

impl Shared for Call<'_, '_> {
    type Stop = Infallible;

    fn load(&mut self, word: Word) -> Result<u64, Infallible> {
        let value = self.word(word).load(Ordering::Acquire);
        if word == Word::Tail {
            return Ok(position(value));
        }
        if word == Word::Plain {
            // With a ring, or on the way back from it, nobody is in such a call: who looks like it finds out
            // that it is not the path.
            return Ok(value + u64::from(flight::is_any(self.conn.fd())));
        }
        Ok(value)
    }

    fn store(&mut self, word: Word, value: u64) -> Result<(), Infallible> {
        // The other end, and who has the lock next, look with Acquire.
        self.word(word).store(value, Ordering::Release);
        Ok(())
    }

    fn increase(&mut self, count: Word) -> Result<(), Infallible> {
        self.word(count).fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn decrease(&mut self, count: Word) -> Result<(), Infallible> {
        self.word(count).fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn fence(&mut self) -> Result<(), Infallible> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl Memory for Call<'_, '_> {
    fn lock(&mut self, lock: Word) -> Result<Locked, Infallible> {
        self.lock = lock::Held::take(self.own.lock(lock));
        Ok(if self.lock.is_nested() { Locked::Nested } else { Locked::Fresh })
    }

    fn interrupts(&mut self) -> Result<(), Infallible> {
        self.own.message.0.interrupts();
        Ok(())
    }

    fn unlock(&mut self, lock: Word) -> Result<(), Infallible> {
        self.lock.release(self.own.lock(lock));
        Ok(())
    }

    fn wait_until_free(&mut self, lock: Word) -> Result<Free, Infallible> {
        while self.holder(lock) != 0 {
            if self.pause() == Woken::Timer {
                return Ok(Free::Stopped);
            }
        }
        Ok(Free::Free)
    }

    fn advance(&mut self, word: Word, _: u64, to: u64) -> Result<bool, Infallible> {
        let direction = if self.is_writing { Direction::Out } else { Direction::In };
        // No handler of this thread runs while it holds the lock.
        if self.is_writing {
            let tail = self.own.message.0.tail_word();
            // Readers look with Acquire: they find what stands before it.
            tail.store(moved(tail.load(Ordering::Relaxed), to), Ordering::Release);
        } else {
            self.store(word, to)?;
        }
        page::memory(self.conn.record(), direction, self.moving);
        if self.is_writing {
            super::leave::owe(self.conn);
        }
        Ok(true)
    }

    fn put(&mut self, at: u64, len: u64) -> Result<(), Infallible> {
        // SAFETY: the ring of this end's region; the program's own bytes.
        unsafe { self.bytes.put(self.done, self.own.ring(), at, len as usize) };
        self.moving = len;
        Ok(())
    }

    fn take(&mut self, at: u64, len: u64) -> Result<(), Infallible> {
        // SAFETY: the ring of the other end's region; the program's own room.
        unsafe { self.bytes.take(0, self.peer.ring(), at, len as usize) };
        self.moving = len;
        Ok(())
    }

    fn taken(&mut self) -> Result<Taken, Infallible> {
        Ok(self.asks(|fd| kernel::taken(fd, self.conn.may_be_reset())))
    }

    fn written(&mut self) -> Result<Written, Infallible> {
        let Some(extra) = self.own.extra() else { return Ok(Written::Unknown) };
        Ok(match self.asks(|fd| kernel::written(fd, extra)) {
            Some(given) => Written::Bytes(given),
            None if self.asks(kernel::takes_more) => Written::Unknown,
            None => Written::Broken,
        })
    }

    fn takes_all(&mut self, len: u64) -> Result<bool, Infallible> {
        let writer = &self.own.writer.0;
        // What the kernel holds back would come before what is in the ring, which nobody holds back.
        let is_held = writer.held.load(Ordering::Relaxed) != 0 || self.asks(kernel::is_corked);
        if is_held || writer.sealed.load(Ordering::Acquire) != 0 {
            return Ok(false);
        }
        let queued = self.asks(kernel::unacknowledged).unwrap_or(u64::MAX);
        Ok(queued.saturating_add(len) <= self.asks(kernel::takes_at_once))
    }

    fn held(&mut self) -> Result<Held, Infallible> {
        Ok(self.asks(|fd| kernel::held(fd, self.conn.may_be_reset())))
    }

    fn receive(&mut self, most: u64) -> Result<u64, Infallible> {
        let flags = libc::MSG_DONTWAIT | self.flags;
        let count = self.asks(|fd| kernel::receive(fd, self.bytes, most as usize, flags));
        if count <= 0 {
            self.conn.refused(count);
            return Ok(0);
        }
        if !self.is_peek {
            page::kernel(self.conn.record(), Direction::In, count as u64);
        }
        self.asks(|fd| self.conn.came(fd, self.peer));
        Ok(count as u64)
    }

    fn send_ring(&mut self, at: u64, len: u64) -> Result<Sent, Infallible> {
        match self.asks(kernel::takes) {
            Takes::More => {}
            // See `Reading::ended`.
            Takes::ForAnEnded => self.conn.told.unread.store(1, Ordering::Relaxed),
            // Whoever asks the kernel first is told why: that is to be the program.
            Takes::Nothing => return Ok(Sent::Broken),
        }
        let mut sent = Sent::WouldBlock;
        each_piece(at, len as usize, |place, done, piece| {
            if done > 0 && sent != Sent::Bytes(done as u64) {
                return;
            }
            let ring = self.own.ring().wrapping_add(place);
            match self.asks(|fd| kernel::send(fd, ring, piece)) {
                count if count > 0 => {
                    page::returned(self.conn.record(), count as u64);
                    sent = Sent::Bytes((done as isize + count) as u64);
                }
                error if error != -(libc::EAGAIN as isize) && error != -(libc::EINTR as isize) => {
                    self.conn.refused(error);
                    if done == 0 {
                        sent = Sent::Broken;
                    }
                }
                _ => {}
            }
        });
        Ok(sent)
    }

    // Inlined, so that it can be seen that no write makes the program's own read.
    #[inline(always)]
    fn sleep(&mut self, wait: Wait) -> Result<Slept, Infallible> {
        Ok(match wait {
            Wait::Readable => self.wait_for_bytes(),
            Wait::Writable => Slept::Woken(self.wait_for_kernel()),
            Wait::Room => Slept::Woken(self.wait_for_room()),
            Wait::Return => Slept::Woken(self.wait_for_return()),
        })
    }
}

/// Sleeps for so many nanoseconds, or until a signal; what the kernel says of it.
pub(crate) fn sleep(nanoseconds: i64) -> isize {
    let time = timespec { tv_sec: 0, tv_nsec: nanoseconds };
    // SAFETY: a time to read; nothing to write.
    unsafe { raw::call(libc::SYS_nanosleep, [(&raw const time) as usize, 0, 0, 0, 0, 0]) }
}
