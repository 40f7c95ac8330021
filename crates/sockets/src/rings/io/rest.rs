//! A write that takes more than one short call: in parts, by the state machine, or by the kernel.

use libc::c_int;
use stream::write::{Occasion, WHOLE};
use stream::{Outcome, consent, path};

use super::plain::{native_said, plain_once};
use super::write::{acknowledge, put};
use super::{Moves, is_nonblocking, with_errno};
use crate::interposer::set_errno;
use crate::rings::blocked::{Blocked, Goes};
use crate::rings::conn::{Conn, Gone, Known, Mover, Use};
use crate::rings::copy::Bytes;
use crate::rings::flight::Flight;
use crate::rings::header::Header;
use crate::rings::native::Native;
use crate::rings::pace::Room;
use crate::rings::run::Call;
use crate::rings::spin::Machine;
use crate::rings::{kernel, leave, pair, spin};
use crate::sync::Ordering;

/// A write that takes more than one short call. It goes on with the connection that it began with: as a
/// mover, but for the time of the program's own call.
pub(super) struct Writing<'a> {
    pub(super) known: Known,
    pub(super) user: Use,
    pub(super) own: &'static Header,
    pub(super) peer: &'static Header,
    pub(super) fd: c_int,
    pub(super) bytes: &'a Bytes,
    pub(super) flags: c_int,
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
    pub(super) fn all(&self, first: Option<Moves>, native: &mut Native<'_>) -> Result<isize, Gone> {
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
            Outcome::WouldBlock => {
                // The reader may be held up at work, and the kernel know of nothing that a program could wait
                // for.
                if !may_wait {
                    conn.asks(self.fd, kernel::tells_of_room);
                }
                // Of one that may wait, errno says why it has ended.
                if !may_wait && done == 0 {
                    set_errno(libc::EAGAIN);
                }
                ends(if done > 0 { done as isize } else { -1 })
            }
            Outcome::Kernel => Ok(self.rest(done, mover, native)?.map_or(Part::Again, Part::Ends)),
            // The kernel refuses what comes before this: the program is told why. It takes no more from
            // whoever has shut down; else it might, and bytes would be missing.
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
        if done == 0 && self.may_be_mixed() {
            let goes = self.waits_for_room();
            if goes != Goes::On {
                return Ok(Some(with_errno(-(goes.errno() as isize))));
            }
        }
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

    /// Sends what is behind `done` bytes as a call of the program would that waits, or does not; the result
    /// is the kernel's. Between its parts the number may become another's, so the library waits for room, and
    /// the kernel in no call that moves bytes.
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

    /// Whether other processes may write, too, and the kernel mix this message with theirs: of writers that
    /// wait for room in the middle of a message it lets any go on. Its buffer is small, as long as most bytes
    /// have gone through the ring, and has room for a small message whenever it says that it has some.
    fn may_be_mixed(&self) -> bool {
        let is_small = self.bytes.length as u64 <= WHOLE;
        is_small && self.known.conn.standing.shared.load(Ordering::Relaxed) != 0 && self.may_wait()
    }

    /// Waits until the kernel says that it has room, or why it will have none.
    fn waits_for_room(&self) -> Goes {
        let conn = self.known.conn;
        let mut waited = Blocked::new();
        while kernel::polled(conn.number(self.fd), libc::POLLOUT, 0) == 0 {
            let goes = self.waits(&mut waited);
            if goes != Goes::On {
                return goes;
            }
        }
        Goes::On
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

/// The room below which nothing of these bytes is put into the ring: a small message goes whole. See
/// [`WHOLE`].
#[inline(always)]
fn least(conn: &Conn, bytes: &Bytes) -> usize {
    let length = bytes.length;
    if length as u64 > WHOLE { 1 } else { length.min(conn.kept.room.load(Ordering::Relaxed) as usize) }
}

/// Whether a ring that has no room for `least` bytes gets some soon: its readers are awake, and on another
/// processor. `since` is when this write has first found it full.
#[cold]
#[inline(never)]
fn gets_room(conn: &Conn, own: &Header, peer: &Header, least: usize, since: &mut Option<u64>) -> bool {
    let will = &peer.reader.0;
    let head = peer.head.0.load(Ordering::Acquire);
    let unread = own.tail().wrapping_sub(head);
    let is_full = own.writer.0.path.load(Ordering::Relaxed) == path::RING
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
fn may_open(conn: &Conn, own: &Header, peer: &Header, fd: c_int) -> bool {
    let will = &peer.reader.0;
    if will.consent.load(Ordering::Acquire) != consent::OPEN || will.asleep.load(Ordering::Acquire) != 0 {
        return false;
    }
    let is_usable = !conn.is_sealed() && own.writer.0.path.load(Ordering::Relaxed) != path::SHUT;
    // Who is on this processor has been stopped awake: it cannot read before this thread sleeps, which it
    // does in the kernel.
    is_usable && spin::is_elsewhere(own, peer, spin::clock().1) && pair::knows_extra(conn, own, fd)
}

/// Whether what is written now goes to the kernel anyway.
pub(super) fn goes_to_kernel(conn: &Conn, fd: c_int) -> bool {
    conn.headers().is_none_or(|(own, peer)| {
        own.writer.0.path.load(Ordering::Relaxed) == path::TCP && !may_open(conn, own, peer, fd)
    })
}
