//! One write of the program.

use core::arch::asm;
use core::convert::Infallible;

use libc::c_int;
use stream::write::{Occasion, WHOLE, Write};
use stream::{Outcome, Shared, Word, consent, path, plain};

use super::fast::Puts;
use super::{Moves, is_nonblocking, with_errno, writes_unready};
use crate::hook::set_errno;
use crate::rings::blocked::{Blocked, Goes};
use crate::rings::conn::{Conn, Gone, Known, Mover, Use, state};
use crate::rings::copy::Bytes;
use crate::rings::flight::Flight;
use crate::rings::native::Native;
use crate::rings::pace::Room;
use crate::rings::run::Call;
use crate::rings::spin::Machine;
use crate::rings::words::{CAPACITY, INLINE_BYTES, Words};
use crate::rings::{kernel, leave, pair, spin};
use crate::sync::{Ordering, fence};

/// Flags that change nothing of where the bytes go.
const USUAL: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR;

/// A write on a connection of which everything comes through the kernel for now (see [`Conn::is_quiet`]): the program's own call, with no look at
/// the ring. None: it is not such a one. Inlined into the hook: behind a system call each return to a caller is mispredicted on many
/// processors, as the kernel has replaced what they had predicted.
#[inline(always)]
pub(crate) fn write_quietly(
    known: Known,
    fd: c_int,
    flags: c_int,
    mut call: impl FnMut() -> isize,
) -> Option<isize> {
    let conn = known.conn;
    if !conn.is(state::READY) || flags & !USUAL != 0 || !conn.is_quiet() {
        return None;
    }
    used_plainly(known, fd, || plain_by(conn, &mut call)).ok().flatten()
}

/// Writes: `native` is the program's own call.
#[inline(never)]
pub(crate) fn write(
    known: Known,
    fd: c_int,
    bytes: Option<&Bytes>,
    flags: c_int,
    native: &mut Native<'_>,
) -> Result<isize, Gone> {
    let conn = known.conn;
    if !conn.is(state::READY)
        && let Some(result) = writes_unready(known, fd, native)
    {
        if flags & libc::MSG_MORE != 0 {
            // It may have got a ring right behind it.
            super::held::notes(conn);
        }
        return Ok(result);
    }
    if flags & libc::MSG_MORE != 0 {
        return super::held::write(known, fd, native);
    }
    let Some(bytes) = bytes.filter(|bytes| bytes.length > 0 && flags & !USUAL == 0) else {
        if flags & !USUAL != 0 || bytes.is_none() {
            known.moving(|conn| leave::writing(conn, fd))?;
        }
        return used_plainly(known, fd, || plain(conn, native));
    };
    let Some((own, peer)) = conn.words() else { return Ok(native.call()) };
    if conn.pace.answers() && bytes.length <= INLINE_BYTES {
        answers(own);
    }
    if !bytes.is_there(false) {
        return used_plainly(known, fd, || plain(conn, native));
    }
    // One that may take several parts is a user before the first: it goes on with the connection that got that.
    let first = fits(conn, own, bytes.length).then(|| put(known, own, peer, bytes, 0));
    let moved = match first {
        Some(Moves::Moved(count)) => count,
        _ => 0,
    };
    if moved as usize == bytes.length {
        return Ok(moved);
    }
    let written = used(known, |user| Writing { known, user, own, peer, fd, bytes, flags }.all(first, native));
    match written {
        Ok(Ok(result)) => Ok(result),
        // Only if another thread has taken the room meanwhile.
        _ if moved > 0 => Ok(moved),
        _ => Err(Gone),
    }
}

/// A short message follows a read: its reader looks for it already, and has the line of the cache where it stands. That is fetched for writing
/// while the rest is looked at. (Of a stream it would take the line away from a reader that has yet to see what is there.)
#[inline(always)]
fn answers(own: &Words) {
    // SAFETY: a hint, which reads and writes nothing; processors that do not know it do nothing.
    unsafe {
        asm!("prefetchw [{0}]", in(reg) &raw const own.message.0, options(nostack, readonly, preserves_flags));
    }
}

/// Whether a short call finds room for all of a write, or moves nothing.
#[inline(always)]
fn fits(conn: &Conn, own: &Words, length: usize) -> bool {
    let length = length as u64;
    let unread = || {
        let head = conn.kept.head.load(Ordering::Relaxed);
        own.tail().wrapping_sub(head)
    };
    length <= WHOLE
        || length <= PIECE && unread().saturating_add(length) <= conn.kept.room.load(Ordering::Relaxed)
}

/// Acts as a user of the connection.
#[inline(always)]
fn used<T>(known: Known, act: impl FnOnce(Use) -> T) -> Result<T, Gone> {
    let user = known.enter()?;
    let acted = act(user);
    user.leave();
    Ok(acted)
}

/// The same by a call of the program's, of which the kernel may first hear when the number is another connection's.
#[inline(always)]
pub(super) fn used_plainly<T>(known: Known, fd: c_int, act: impl FnOnce() -> T) -> Result<T, Gone> {
    // Begun before the look whose number it is.
    let flight = Flight::over(fd);
    let acted = used(known, |_| act());
    flight.land();
    acted
}

/// A write that takes more than one short call. It goes on with the connection that it began with: as a mover, but for the time of the
/// program's own call.
struct Writing<'a> {
    known: Known,
    user: Use,
    own: &'static Words,
    peer: &'static Words,
    fd: c_int,
    bytes: &'a Bytes,
    flags: c_int,
}

/// How a part of a write ended.
enum Part {
    /// So many further bytes were written.
    Wrote(usize),
    /// That is what the program is told.
    Ends(isize),
    /// The way has changed.
    Again,
}

impl Writing<'_> {
    /// All of it; `first` is what came of its first part, if that was tried.
    #[inline(never)]
    fn all(&self, first: Option<Moves>, native: &mut Native<'_>) -> Result<isize, Gone> {
        let mut mover = Some(self.user.moves()?);
        let mut next = first;
        let (mut done, mut full_since) = (0, None);
        let result = loop {
            let moves = next.take().unwrap_or_else(|| put(self.known, self.own, self.peer, self.bytes, done));
            match self.part(moves, done, &mut full_since, &mut mover, native) {
                Ok(Part::Wrote(count)) => done += count,
                Ok(Part::Again) => {}
                Ok(Part::Ends(result)) => break Ok(result),
                Err(Gone) if done == 0 => break Err(Gone),
                Err(Gone) => break Ok(done as isize),
            }
            if done == self.bytes.length {
                break Ok(done as isize);
            }
        };
        if let Some(mover) = mover {
            mover.rests();
        }
        result
    }

    /// What comes behind `done` bytes; `moves` is what a short call has said of them.
    fn part(
        &self,
        moves: Moves,
        done: usize,
        full_since: &mut Option<u64>,
        mover: &mut Option<Mover>,
        native: &mut Native<'_>,
    ) -> Result<Part, Gone> {
        let Self { own, peer, fd, bytes, .. } = *self;
        let conn = self.known.conn;
        match moves {
            Moves::Moved(count) => return Ok(Part::Wrote(count as usize)),
            Moves::Nothing if !may_open(conn, own, peer, fd) => {
                // Else the way is changing, which the lock tells: its holder may be dead.
                if let Some(result) = self.rest(done, mover, native)? {
                    return Ok(Part::Ends(result));
                }
            }
            _ if gets_room(conn, own, peer, least(conn, bytes), full_since) => return Ok(Part::Again),
            _ => {}
        }
        self.by_machine(done, mover, native)
    }

    /// By the machine.
    fn by_machine(
        &self,
        done: usize,
        mover: &mut Option<Mover>,
        native: &mut Native<'_>,
    ) -> Result<Part, Gone> {
        let conn = self.known.conn;
        let may_wait = self.may_wait();
        let occasion = if may_wait { Occasion::Write } else { Occasion::WriteNow };
        let Some(call) = Call::new(conn, self.fd, self.bytes) else { return Ok(Part::Ends(native.call())) };
        let ends = |result| Ok(Part::Ends(result));
        match call.behind(done).write(occasion, !conn.is_sealed()) {
            Outcome::Moved(count) => {
                acknowledge(conn);
                Ok(Part::Wrote(count as usize))
            }
            Outcome::WouldBlock if done > 0 => ends(done as isize),
            Outcome::WouldBlock => {
                // Of one that may wait, errno says why it has ended.
                if !may_wait {
                    set_errno(libc::EAGAIN);
                }
                ends(-1)
            }
            Outcome::Kernel => Ok(self.rest(done, mover, native)?.map_or(Part::Again, Part::Ends)),
            // The kernel refuses what comes before this: the program is told why. It takes no more from whoever has shut down; else it
            // might, and bytes would be missing.
            Outcome::Unreturned if !conn.asks(self.fd, kernel::takes_more) => {
                ends(if done > 0 { done as isize } else { self.refused(native) })
            }
            _ => {
                leave::broken(conn, self.fd);
                ends(if done > 0 { done as isize } else { self.refused(native) })
            }
        }
    }

    fn may_wait(&self) -> bool {
        self.flags & libc::MSG_DONTWAIT == 0 && !self.known.conn.asks(self.fd, is_nonblocking)
    }

    /// A write that the kernel refuses: it says why.
    fn refused(&self, native: &mut Native<'_>) -> isize {
        if self.user.is_closed() {
            return self.known.conn.asks(self.fd, |fd| {
                with_errno(kernel::send_rest(fd, self.bytes, 0, self.flags | libc::MSG_DONTWAIT))
            });
        }
        native_said(self.known.conn, native)
    }

    /// The rest goes to the kernel. None: the way has changed.
    fn rest(
        &self,
        done: usize,
        mover: &mut Option<Mover>,
        native: &mut Native<'_>,
    ) -> Result<Option<isize>, Gone> {
        let conn = self.known.conn;
        // As in `used_plainly`.
        let flight = Flight::over(self.fd);
        let is_plain = done == 0 && !self.user.is_closed();
        if is_plain {
            // In the program's own call its thread may be cancelled.
            if let Some(mover) = mover.take() {
                mover.rests();
            }
            let result = plain_once(conn, native);
            flight.land();
            if result.is_none() {
                *mover = Some(self.user.moves()?);
            }
            return Ok(result);
        }
        flight.land();
        let mut parts = || with_errno(self.sends(done));
        let Some(result) = plain_once(conn, &mut Native::of(&mut parts)) else { return Ok(None) };
        Ok(Some(if result < 0 && done > 0 { done as isize } else { done as isize + result }))
    }

    /// Sends what is behind `done` bytes as a call of the program would that waits, or does not; the result is the kernel's. Between its
    /// parts the number may become another's, so the library waits for room, and the kernel in no call that moves bytes.
    fn sends(&self, done: usize) -> isize {
        let conn = self.known.conn;
        let (mut sent, mut waited) = (0, Blocked::new());
        loop {
            let flags = self.flags | libc::MSG_DONTWAIT;
            let send = |fd| kernel::send_rest(fd, self.bytes, done + sent, flags);
            let count = conn.gives(|| conn.asks(self.fd, send));
            if count > 0 {
                sent += count as usize;
                if done + sent == self.bytes.length || !conn.asks(self.fd, kernel::takes_more) {
                    return sent as isize;
                }
                continue;
            }
            conn.refused(count);
            let is_full = count == -(libc::EAGAIN as isize);
            let goes = if is_full && self.may_wait() { self.waits(&mut waited) } else { Goes::Over };
            // Why the kernel refuses what is left it says once: to the program's next call.
            if goes != Goes::On || sent > 0 && !conn.asks(self.fd, kernel::takes_more) {
                let error = if is_full { -(goes.errno() as isize) } else { count };
                return if sent > 0 { sent as isize } else { error };
            }
        }
    }

    /// Waits for room in the kernel, for a while.
    fn waits(&self, waited: &mut Blocked) -> Goes {
        const PART_MILLISECONDS: c_int = 100;
        let conn = self.known.conn;
        // Counted from before the first sleep.
        let goes = conn.asks(self.fd, |fd| waited.moves(fd, libc::SO_SNDTIMEO, 0));
        if goes != Goes::On {
            return goes;
        }
        let slept = kernel::sleeps(conn.number(self.fd), libc::POLLOUT, PART_MILLISECONDS);
        conn.asks(self.fd, |fd| waited.moves(fd, libc::SO_SNDTIMEO, slept))
    }
}

/// A write that the kernel refuses.
fn native_said(conn: &Conn, native: &mut Native<'_>) -> isize {
    let result = native.call();
    conn.said(result);
    result
}

/// Puts bytes into the ring, if that is all there is to it. `Nothing`: the way is the kernel's.
#[inline(always)]
fn put(known: Known, own: &Words, peer: &Words, bytes: &Bytes, done: usize) -> Moves {
    let conn = known.conn;
    if own.way.0.path.load(Ordering::Relaxed) == path::TCP {
        return Moves::Nothing;
    }
    let room = conn.kept.room.load(Ordering::Relaxed);
    let want = (bytes.length - done) as u64;
    // What the reader has taken is read with the lock.
    let mut write = Write::new(Occasion::WriteNow, CAPACITY, want, false, 0).limited(room).in_pieces(PIECE);
    let mut fast = Puts::new(known, own, peer, bytes, done);
    let ended = write.attempt(&mut fast);
    fast.ends();
    if !write.is_published() {
        return Moves::Slow;
    }
    // Behind the fence that follows what was published: another thread that unsets it has seen that, or is seen here.
    if conn.owed.owes.load(Ordering::Relaxed) == 0 {
        leave::owe(conn);
    }
    conn.pace.has_written();
    acknowledge(conn);
    if ended.is_err() {
        // Readers went to sleep without having seen it.
        leave::overdue(known);
    }
    Moves::Moved(write.moved() as isize)
}

/// What came through the kernel is acknowledged when it is answered, also if the answer goes through the ring.
#[inline(always)]
fn acknowledge(conn: &Conn) {
    if conn.owed.unacknowledged.load(Ordering::Relaxed) != 0 {
        conn.owed.unacknowledged.store(0, Ordering::Relaxed);
        kernel::acknowledge(conn.fd());
    }
}

/// The room below which nothing of these bytes is put into the ring: a small message goes whole. See [`WHOLE`].
#[inline(always)]
fn least(conn: &Conn, bytes: &Bytes) -> usize {
    let length = bytes.length;
    if length as u64 > WHOLE { 1 } else { length.min(conn.kept.room.load(Ordering::Relaxed) as usize) }
}

/// Bytes that are shown to readers at once: they copy the first of a large write while the next are being written.
const PIECE: u64 = 32 << 10;

/// Whether a ring that has no room for `least` bytes gets some soon: its readers are awake, and on another processor. `since` is when this
/// write has first found it full.
#[cold]
#[inline(never)]
fn gets_room(conn: &Conn, own: &Words, peer: &Words, least: usize, since: &mut Option<u64>) -> bool {
    let will = &peer.will.0;
    let head = peer.head.0.load(Ordering::Acquire);
    let unread = own.tail().wrapping_sub(head);
    let is_full = own.way.0.path.load(Ordering::Relaxed) == path::RING
        && unread.saturating_add(least as u64) > conn.kept.room.load(Ordering::Relaxed);
    if !is_full || !spin::is_elsewhere(own, peer, spin::clock().1) {
        return false;
    }
    conn.pace.gets_room(&Machine, since, || {
        let is_awake =
            will.asleep.load(Ordering::Acquire) == 0 && will.consent.load(Ordering::Acquire) == consent::OPEN;
        match peer.head.0.load(Ordering::Acquire) {
            now if now != head => Room::Some,
            _ if is_awake => Room::NotYet,
            _ => Room::Never,
        }
    })
}

/// Whether it is worth trying to go through the ring from here on.
fn may_open(conn: &Conn, own: &Words, peer: &Words, fd: c_int) -> bool {
    let will = &peer.will.0;
    if will.consent.load(Ordering::Acquire) != consent::OPEN || will.asleep.load(Ordering::Acquire) != 0 {
        return false;
    }
    let is_usable = !conn.is_sealed() && own.way.0.path.load(Ordering::Relaxed) != path::SHUT;
    // Who is on this processor has been stopped awake: it cannot read before this thread sleeps, which it does in the kernel.
    is_usable && spin::is_elsewhere(own, peer, spin::clock().1) && pair::knows_extra(conn, own, fd)
}

/// Whether what is written now goes to the kernel anyway.
pub(super) fn goes_to_kernel(conn: &Conn, fd: c_int) -> bool {
    conn.words().is_none_or(|(own, peer)| {
        own.way.0.path.load(Ordering::Relaxed) == path::TCP && !may_open(conn, own, peer, fd)
    })
}

/// A write of the program to the kernel, whatever the way was.
pub(super) fn plain(conn: &Conn, native: &mut Native<'_>) -> isize {
    plain_once(conn, native).unwrap_or_else(|| native_said(conn, native))
}

/// A write to the kernel without the lock; nobody opens the ring meanwhile. None: somebody has.
pub(super) fn plain_once(conn: &Conn, native: &mut Native<'_>) -> Option<isize> {
    plain_by(conn, &mut || native.call())
}

#[inline(always)]
fn plain_by(conn: &Conn, call: &mut impl FnMut() -> isize) -> Option<isize> {
    let Some((own, _)) = conn.words() else { return Some(call()) };
    let way = &own.way.0;
    let Ok(result) = plain::write(&mut WithoutLock(own), |_| {
        let held = way.held.load(Ordering::Relaxed);
        let result = call();
        if held != 0 && result > 0 {
            // Sent with what was held back, unless another thread has had the kernel hold back more since.
            let _ = way.held.compare_exchange(held, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
        conn.said(result);
        Ok(result)
    });
    result
}

/// The words of a writing end, for a call that holds no lock.
struct WithoutLock<'a>(&'a Words);

impl Shared for WithoutLock<'_> {
    type Stop = Infallible;

    #[inline(always)]
    fn load(&mut self, word: Word) -> Result<u64, Infallible> {
        Ok(self.0.word(word).load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn store(&mut self, word: Word, value: u64) -> Result<(), Infallible> {
        self.0.word(word).store(value, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn increase(&mut self, count: Word) -> Result<(), Infallible> {
        self.0.word(count).fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn decrease(&mut self, count: Word) -> Result<(), Infallible> {
        self.0.word(count).fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn fence(&mut self) -> Result<(), Infallible> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}
