//! The machines of `proto::stream`, carried out: on the words of two regions, on the kernel's connection, on the program's bytes.

use libc::{c_int, timespec};
use proto::stream::reader::{Purpose, Reader};
use proto::stream::withdraw::Withdraw;
use proto::stream::writer::{Occasion, Writer};
use proto::stream::{Do, Held, Outcome, Saw, Wait, Woken, Word, path};

use super::blocked::{Blocked, Goes};
use super::conn::Conn;
use super::copy::{Bytes, each_piece};
use super::kernel::Ending;
use super::native::Native;
use super::words::{CAPACITY, Words, is_writers};
use super::{flight, kernel, lock, spin};
use crate::hook::set_errno;
use crate::page::{self, Way};
use crate::raw;
use crate::sync::{AtomicU64, Ordering, fence};

/// One call of the program, or of the library for it.
pub(crate) struct Call<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) own: &'static Words,
    pub(crate) peer: &'static Words,
    /// The number that the program used.
    pub(crate) fd: c_int,
    pub(crate) bytes: &'a Bytes,
    /// How many of them were moved before.
    done: usize,
    /// How many are being put into a ring, or taken from one.
    moving: u64,
    /// How many milliseconds it may wait for the other end to do its part; a call that may not wait at all gives that up sooner.
    patience: u32,
    is_writing: bool,
    /// The kernel has told of the other end's end.
    is_finished: bool,
    waits: u32,
    /// The option that says how long the program's call may wait, which signals end as well; 0 for a call of the library's own.
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
/// Times that a reader at work was waited for in vain, until it is taken for stopped.
pub(crate) const STUCK: u32 = 8;
/// Cycles until it is looked for again: some milliseconds, later up to a second.
const STUCK_CYCLES: u64 = 20_000_000;

impl<'a> Call<'a> {
    pub(crate) fn new(conn: &'a Conn, fd: c_int, bytes: &'a Bytes) -> Option<Self> {
        let (own, peer) = conn.words()?;
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
            is_finished: false,
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

    /// Reads; `native` is the program's own call, made once the end has said that it sleeps.
    pub(crate) fn read(
        mut self,
        purpose: Purpose,
        may_wait: bool,
        peek: c_int,
        native: &mut Native<'_>,
    ) -> Outcome {
        let want = (self.bytes.length as u64).max(1);
        self.limit = libc::SO_RCVTIMEO;
        let reached = self.conn.reached.load(Ordering::Relaxed);
        let mut machine = Reader::new(CAPACITY, want, may_wait, true, reached).to(purpose);
        let mut saw = Saw::Nothing;
        loop {
            saw = match machine.step(saw) {
                Do::Done(outcome) => {
                    self.conn.reached.fetch_max(machine.reached(), Ordering::Relaxed);
                    return self.said(outcome);
                }
                Do::Receive { most } => {
                    let flags = libc::MSG_DONTWAIT | peek;
                    match kernel::receive(self.fd, self.bytes, most as usize, flags) {
                        count if count > 0 => {
                            if purpose == Purpose::Read {
                                page::kernel(self.conn.record(), Way::In, count as u64);
                            }
                            self.conn.came(self.fd, self.peer);
                            Saw::Moved(count as u64)
                        }
                        error => {
                            self.conn.refused(error);
                            Saw::WouldBlock
                        }
                    }
                }
                Do::Take { at, len } => {
                    // SAFETY: the ring of the other end's region; the program's own room.
                    unsafe { self.bytes.take(0, self.peer.ring(), at, len as usize) };
                    self.moving = len;
                    Saw::Nothing
                }
                Do::Sleep(Wait::Readable) => match native.call() {
                    count if count > 0 => {
                        self.conn.came(self.fd, self.peer);
                        Saw::Moved(count as u64)
                    }
                    0 => Saw::Woken(Woken::Look),
                    _ => Saw::Broken,
                },
                what => self.act(what),
            };
        }
    }

    /// Writes, or sees to it that what was written gets through.
    pub(crate) fn write(mut self, occasion: Occasion, may_open: bool) -> Outcome {
        self.is_writing = true;
        self.limit = if occasion == Occasion::Write { libc::SO_SNDTIMEO } else { 0 };
        let want = match occasion {
            Occasion::Write | Occasion::WriteNow => (self.bytes.length - self.done) as u64,
            _ => 0,
        };
        let head = self.conn.head.load(Ordering::Relaxed);
        let room = self.conn.room.load(Ordering::Relaxed);
        let mut machine = Writer::new(occasion, CAPACITY, want, may_open, head).limited(room);
        let mut saw = Saw::Nothing;
        let outcome = loop {
            saw = match machine.step(saw) {
                Do::Done(outcome) => break outcome,
                // The program's own call does that, behind the lock.
                Do::Send { .. } => Saw::Broken,
                Do::Put { at, len } => {
                    // SAFETY: the ring of this end's region; the program's own bytes.
                    unsafe { self.bytes.put(self.done, self.own.ring(), at, len as usize) };
                    self.moving = len;
                    Saw::Nothing
                }
                Do::SendRing { at, len } => self.send_ring(at, len),
                Do::Sleep(Wait::Writable) => self.wait_for_kernel(occasion),
                what => self.act(what),
            };
        };
        self.conn.head.store(machine.head(), Ordering::Relaxed);
        self.said(outcome)
    }

    /// A wait that has ended without anything ends the program's call, with the reason in errno.
    fn said(&self, outcome: Outcome) -> Outcome {
        if outcome == Outcome::WouldBlock && self.goes != Goes::On {
            set_errno(self.goes.errno());
        }
        outcome
    }

    /// Has everything handed back before this end reads in a way that is not seen.
    pub(crate) fn withdraw(mut self, mut machine: Withdraw) -> Outcome {
        let mut saw = Saw::Nothing;
        loop {
            saw = match machine.step(saw) {
                Do::Done(outcome) => return outcome,
                what => self.act(what),
            };
        }
    }

    fn word(&self, word: Word) -> &'static AtomicU64 {
        // Whose word it is depends on which direction the machine is of.
        let is_own = is_writers(word) == self.is_writing;
        if is_own { self.own.word(word) } else { self.peer.word(word) }
    }

    fn act(&mut self, what: Do) -> Saw {
        match what {
            Do::Lock(word) => self.lock = lock::Held::take(self.word(word)),
            Do::Unlock(word) => {
                if word == Word::WriteLock {
                    // Before somebody else has it, or a handler of this thread runs. Pairs with the Acquire of who writes without it.
                    self.own.way.0.opening.store(0, Ordering::Release);
                }
                self.lock.release(self.word(word));
            }
            Do::Load(word @ (Word::ReadLock | Word::WriteLock)) => return Saw::Value(self.holder(word)),
            Do::Load(word) => return Saw::Value(self.word(word).load(Ordering::Acquire)),
            Do::Store(Word::Tail, tail) => {
                // What stands beside it is not this message: readers look with Acquire, and find out.
                self.own.message.0.beside_at.store(u64::MAX - 1, Ordering::Release);
                // The other end, and who has the lock next, look with Acquire.
                self.own.message.0.tail.store(tail, Ordering::Release);
                page::memory(self.conn.record(), Way::Out, self.moving);
                super::leave::owe(self.conn);
            }
            Do::Store(Word::Head, head) => {
                // The other end, and who has the lock next, look with Acquire.
                self.own.head.0.store(head, Ordering::Release);
                page::memory(self.conn.record(), Way::In, self.moving);
            }
            // The other end, and who has the lock next, look with Acquire.
            Do::Store(word, value) => self.word(word).store(value, Ordering::Release),
            Do::Increase(word) => {
                self.word(word).fetch_add(1, Ordering::SeqCst);
            }
            Do::Decrease(word) => {
                self.word(word).fetch_sub(1, Ordering::SeqCst);
            }
            Do::Fence => fence(Ordering::SeqCst),
            Do::AskTaken => {
                let ending = Ending { is_finished: self.is_finished, ..self.conn.ending(self.peer) };
                return kernel::taken(self.fd, ending).map_or(Saw::Unknown, Saw::Value);
            }
            Do::AskWritten => return self.written(),
            Do::Count => {
                let ending = self.conn.ending(self.peer);
                let held = kernel::held(self.fd, ending);
                // With what was given known, all of it having come need not be a FIN.
                self.is_finished |= held == Held::End && ending.given.is_none();
                return Saw::Kernel(held);
            }
            Do::Pause => return Saw::Woken(self.pause()),
            Do::Sleep(Wait::Room) => return Saw::Woken(self.wait_for_room()),
            Do::Sleep(_) => return Saw::Woken(self.wait_for_return()),
            _ => {}
        }
        Saw::Nothing
    }

    /// What the kernel has got from this end; not to be had while somebody writes there without the lock.
    fn written(&self) -> Saw {
        self.own.way.0.opening.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // With a ring, or on the way back from it, nobody is in such a call: who looks like it finds out that it is not the way.
        let is_plain = self.own.way.0.path.load(Ordering::Relaxed) == path::TCP
            && (self.own.way.0.plain.load(Ordering::SeqCst) != 0 || flight::is_any(self.conn.fd()));
        let Some(extra) = self.own.extra().filter(|_| !is_plain) else { return Saw::Unknown };
        match kernel::written(self.fd, extra) {
            Some(given) => Saw::Value(given),
            None if kernel::takes_more(self.fd) => Saw::Unknown,
            None => Saw::Broken,
        }
    }

    fn send_ring(&self, at: u64, length: u64) -> Saw {
        if !kernel::takes_more(self.fd) {
            // Whoever asks the kernel first is told why: that is to be the program.
            return Saw::Broken;
        }
        self.own.way.0.given.store(0, Ordering::SeqCst);
        let mut sent = Saw::WouldBlock;
        each_piece(at, length as usize, |place, done, piece| {
            if done > 0 && sent != Saw::Moved(done as u64) {
                return;
            }
            let ring = self.own.ring().wrapping_add(place);
            match kernel::send(self.fd, ring, piece) {
                count if count > 0 => {
                    page::returned(self.conn.record(), count as u64);
                    sent = Saw::Moved((done as isize + count) as u64);
                }
                error if error != -(libc::EAGAIN as isize) && error != -(libc::EINTR as isize) => {
                    self.conn.refused(error);
                    if done == 0 {
                        sent = Saw::Broken;
                    }
                }
                _ => {}
            }
        });
        if sent == Saw::WouldBlock {
            // It may take long, and this process may be killed meanwhile.
            super::leave::says_given(self.conn, self.fd);
        }
        sent
    }

    /// Who holds a lock of the other end; 0 if nobody does or it is proven dead.
    fn holder(&self, word: Word) -> u64 {
        let value = self.word(word).load(Ordering::SeqCst);
        if value == 0 || lock::is_dead(value, self.conn.peer_pid.load(Ordering::Relaxed)) {
            self.conn.stuck.store(0, Ordering::Relaxed);
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
        // That was a few microseconds, and then a tenth of a millisecond each; of who never gives it back not again and again.
        let stuck = self.conn.stuck.load(Ordering::Relaxed);
        if stuck >= STUCK || self.waits >= 2000 + 20 {
            self.conn.stuck.store(stuck.saturating_add(1), Ordering::Relaxed);
            let rest = STUCK_CYCLES << stuck.saturating_sub(STUCK).min(6);
            self.conn.again.store(spin::clock().0.wrapping_add(rest), Ordering::Relaxed);
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
            let will = &self.peer.will.0;
            let is_asleep = will.asleep.load(Ordering::Acquire) != 0;
            if is_asleep || spin::clock().0.wrapping_sub(start) > ROOM_CYCLES {
                return if kernel::has_hung_up(self.fd) { Woken::Hangup } else { Woken::Timer };
            }
            spin::relax();
        }
    }

    /// The other end hands back what this one waits for.
    fn wait_for_return(&mut self) -> Woken {
        self.waits += 1;
        if kernel::has_hung_up(self.fd) {
            return Woken::Hangup;
        }
        if self.limit == 0 && self.blocked.spent_milliseconds() >= self.patience {
            return Woken::Timer;
        }
        // The other end may be in this process.
        super::leave::settle();
        if self.waits > 8 && self.ends(sleep(1_000_000)) {
            return Woken::Stop;
        }
        Woken::Look
    }

    /// Whether the program's call has waited for long enough, or was interrupted. `slept` is what the kernel said of a part of that.
    fn ends(&mut self, slept: isize) -> bool {
        if self.limit != 0 {
            self.goes = self.blocked.moves(self.fd, self.limit, slept);
        }
        self.goes != Goes::On
    }

    /// Bytes on their way back do not fit into the kernel.
    fn wait_for_kernel(&mut self, occasion: Occasion) -> Saw {
        self.waits += 1;
        let may_wait = matches!(occasion, Occasion::Write);
        if !may_wait && self.waits > 1 {
            // The reader finds the rest where it is.
            return Saw::Woken(Woken::Stop);
        }
        let mut one = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
        let most: usize = if may_wait { 100 } else { 0 };
        // SAFETY: one entry, which is the call's to write.
        let slept = unsafe { raw::call(libc::SYS_poll, [(&raw mut one) as usize, 1, most, 0, 0, 0]) };
        Saw::Woken(if self.ends(slept) { Woken::Stop } else { Woken::Look })
    }
}

/// Sleeps for so many nanoseconds, or until a signal; what the kernel says of it.
pub(crate) fn sleep(nanoseconds: i64) -> isize {
    let time = timespec { tv_sec: 0, tv_nsec: nanoseconds };
    // SAFETY: a time to read; nothing to write.
    unsafe { raw::call(libc::SYS_nanosleep, [(&raw const time) as usize, 0, 0, 0, 0, 0]) }
}
