//! One read of the program.

use core::cell::Cell;

use libc::c_int;
use stream::read::{Purpose, Read};
use stream::{Outcome, Step, consent, park, path};

use super::both::{all, more};
use super::fast::Takes;
use super::spin::{finds, may_spin, stays_asleep};
use super::told::waits_for_told;
use super::{Moves, is_empty, is_nonblocking, reads_unready, with_errno};
use crate::interposer::{get_errno, set_errno};
use crate::rings::blocked::Goes;
use crate::rings::conn::parked::Parking;
use crate::rings::conn::{Conn, Gone, Known, Use, state};
use crate::rings::copy::Bytes;
use crate::rings::header::{CAPACITY, Header};
use crate::rings::native::Native;
use crate::rings::run::Call;
use crate::rings::spin::{Machine, Spin};
use crate::rings::{epoll, leave, pair};
use crate::sync::Ordering;

/// Flags of reads that rings know.
pub(super) const USUAL: c_int = libc::MSG_DONTWAIT
    | libc::MSG_PEEK
    | libc::MSG_WAITALL
    | libc::MSG_NOSIGNAL
    | libc::MSG_CMSG_CLOEXEC
    | libc::MSG_TRUNC;

/// Reads: `native` is the program's own call.
#[inline(never)]
pub(crate) fn read(
    known: Known,
    fd: c_int,
    bytes: Option<&Bytes>,
    flags: c_int,
    native: &mut Native<'_>,
) -> Result<isize, Gone> {
    let conn = known.conn;
    if !conn.is(state::READY)
        && let Some(result) = reads_unready(known, fd, native)
    {
        return Ok(result);
    }
    let Some(bytes) = bytes.filter(|bytes| bytes.length > 0 && flags & !USUAL == 0) else {
        // Who wants no bytes waits for some all the same, in most calls, and leaves them.
        let wants_none = flags & !USUAL == 0 && bytes.is_some_and(|bytes| bytes.length == 0);
        if wants_none && conn.headers().is_some_and(|(own, peer)| !is_empty(own, peer)) {
            return Ok(0);
        }
        if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) == 0 {
            return by_kernel(known, fd, native);
        }
        let result = native.call();
        conn.said(result);
        return Ok(result);
    };
    let discarding;
    let bytes = if flags & libc::MSG_TRUNC != 0 {
        discarding = bytes.discarding();
        &discarding
    } else {
        bytes
    };
    let Some((own, peer)) = conn.headers() else { return Ok(native.call()) };
    if conn.sleep.parked.load(Ordering::Relaxed) != 0 {
        let user = known.enter()?;
        epoll::wakes(conn, own);
        user.leave();
    }
    let is_peek = flags & libc::MSG_PEEK != 0;
    let wants_all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_DONTWAIT == 0;
    if wants_all && !is_nonblocking(fd) {
        // Rare, and it may have to go on reading from both sides.
        return all(known, fd, bytes, flags, native);
    }
    let cut;
    let (bytes, room, lacks_a_part) = if bytes.is_there(true) {
        (bytes, usize::MAX, false)
    } else {
        let has_parts = bytes.place().is_none();
        cut = bytes.up_to_a_gap(CAPACITY as usize);
        // If not one byte can be written, the program's own buffer goes to the kernel, which returns
        // `EFAULT`.
        if cut.length > 0 { (&cut, cut.length, has_parts) } else { (bytes, 0, has_parts) }
    };
    conn.pace.lets_stream_go(&Machine, || peer.tail().wrapping_sub(own.head.0.load(Ordering::Relaxed)));
    // This read is the one that they were promised to.
    let promised = conn.told.promised.load(Ordering::Relaxed) != 0;
    if promised && !is_peek {
        conn.told.promised.store(0, Ordering::Relaxed);
    }
    // Only where it is needed, or every read would write it down.
    let call = || Reading { known, own, peer, fd, bytes, flags };
    loop {
        if goes_beyond(own, peer, room) {
            set_errno(libc::EFAULT);
            return Ok(-1);
        }
        match take(known, own, peer, bytes, is_peek) {
            Moves::Moved(count) => {
                promises(conn, is_peek);
                conn.pace.has_read();
                return Ok(call().with_more(count));
            }
            Moves::Nothing if finds_at_once(conn, own, peer, flags) => {}
            // Of several parts a later one is no memory. What comes may reach it, by whichever way: the
            // kernel returns an error then, and keeps all of it. (A length beyond the memory of a single
            // buffer may be meant, and costs the connection nothing.)
            _ if lacks_a_part => return by_kernel(known, fd, native),
            moves => {
                let user = known.enter()?;
                let result = call().waiting(user, moves, room, promised, native);
                user.leave();
                return result;
            }
        }
    }
}

/// From now on everything comes through the kernel, which reads for the program's own call.
#[cold]
fn by_kernel(known: Known, fd: c_int, native: &mut Native<'_>) -> Result<isize, Gone> {
    known.moving(|conn| leave::reading(conn, fd))?;
    let result = native.call();
    known.conn.said(result);
    Ok(result)
}

/// Whether what the ring holds goes beyond the memory that the program has given, of which so many bytes are
/// there. As of the kernel, no more than comes needs memory.
#[inline(always)]
fn goes_beyond(own: &Header, peer: &Header, room: usize) -> bool {
    room != usize::MAX && !is_empty(own, peer) && held(own, peer) > room as u64
}

fn held(own: &Header, peer: &Header) -> u64 {
    peer.tail().wrapping_sub(own.head.0.load(Ordering::Acquire))
}

/// A read.
struct Reading<'a> {
    known: Known,
    own: &'static Header,
    peer: &'static Header,
    fd: c_int,
    bytes: &'a Bytes,
    flags: c_int,
}

/// Whether a read may wait, which is asked once.
struct MayWait(Cell<Option<bool>>);

impl MayWait {
    fn get(&self, call: &Reading<'_>) -> bool {
        let ask = || call.flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(call.fd);
        let known = self.0.get().unwrap_or_else(ask);
        self.0.set(Some(known));
        known
    }
}

/// How a part of a read ended.
enum Part {
    Ends(isize),
    Again,
}

impl Reading<'_> {
    fn is_peek(&self) -> bool {
        self.flags & libc::MSG_PEEK != 0
    }

    /// A read that has found nothing by a short call. `moves` is what that has said.
    #[inline(never)]
    fn waiting(
        &self,
        user: Use,
        moves: Moves,
        room: usize,
        mut promised: bool,
        native: &mut Native<'_>,
    ) -> Result<isize, Gone> {
        let Self { known, own, peer, bytes, .. } = *self;
        let may_wait = MayWait(Cell::new(None));
        let mut next = Some(moves);
        let mut is_barred = false;
        loop {
            if goes_beyond(own, peer, room) {
                set_errno(libc::EFAULT);
                return Ok(-1);
            }
            let moves = next.take().unwrap_or_else(|| take(known, own, peer, bytes, self.is_peek()));
            let part = match moves {
                Moves::Moved(count) => {
                    promises(known.conn, self.is_peek());
                    return Ok(self.with_more(count));
                }
                Moves::Slow => {
                    is_barred = true;
                    self.by_machine(user, false, native)?.map(Part::Ends)
                }
                Moves::Nothing => None,
            };
            let part = match part {
                Some(part) => part,
                // What is there may not be taken: more looks find the same.
                None if is_barred => self.sleeping(user, &may_wait, &mut promised, None, native)?,
                None => self.without(user, &may_wait, &mut promised, native)?,
            };
            if let Part::Ends(result) = part {
                return Ok(result);
            }
        }
    }

    /// There was nothing in the ring.
    fn without(
        &self,
        user: Use,
        may_wait: &MayWait,
        promised: &mut bool,
        native: &mut Native<'_>,
    ) -> Result<Part, Gone> {
        let Self { own, peer, fd, flags, .. } = *self;
        let conn = self.known.conn;
        if finds_at_once(conn, own, peer, flags) {
            return Ok(Part::Again);
        }
        let mut spin = None;
        let begins = is_empty(own, peer) && may_spin(conn, own, peer, flags);
        if begins && conn.pace.may_be_blocking() {
            if !may_wait.get(self) {
                conn.pace.is_nonblocking();
            } else if finds(conn, own, peer, fd, &mut spin) {
                conn.pace.has_found();
                return Ok(Part::Again);
            }
        }
        let is_stream = self.is_stream_that_may_not_wait(may_wait);
        if conn.pace.is_bulk() || is_stream {
            let base = self.base_at_rest();
            let result = self.by_machine(user, false, native)?;
            conn.pace.sees_bulk(result.unwrap_or(0));
            if let Some(result) = result {
                return Ok(Part::Ends(result));
            }
            if is_stream && self.was_nothing(base) {
                return Ok(self.has_nothing(promised));
            }
        }
        self.sleeping(user, may_wait, promised, spin, native)
    }

    /// Whether this is a read of a stream, which the program goes on reading, and that does not wait. It need
    /// not count as asleep, which would send the writer to the kernel: its waits in between do.
    fn is_stream_that_may_not_wait(&self, may_wait: &MayWait) -> bool {
        self.known.conn.pace.is_of_stream(self.own.head.0.load(Ordering::Relaxed)) && !may_wait.get(self)
    }

    /// Where the writer's ring begins. None: bytes of it are on their way to the kernel.
    fn base_at_rest(&self) -> Option<u64> {
        let writer = &self.peer.writer.0;
        // In this order: a hand-back says that it has begun, and then where the ring begins after it.
        let base = writer.base.load(Ordering::Acquire);
        let path = writer.path.load(Ordering::Acquire);
        matches!(path, path::RING | path::TCP).then_some(base)
    }

    /// The machine has found nothing in the kernel and, after that, nothing in the ring. Whether there was
    /// nothing: no byte went from the ring to the kernel meanwhile. `base` is of [`Self::base_at_rest`],
    /// before that.
    fn was_nothing(&self, base: Option<u64>) -> bool {
        let Self { own, peer, .. } = *self;
        peer.writer.0.revoke.load(Ordering::Acquire) == 0
            && is_empty(own, peer)
            && base == Some(peer.writer.0.base.load(Ordering::Acquire))
    }

    /// The end of a read that may not wait, unless what the program was told of comes.
    fn has_nothing(&self, promised: &mut bool) -> Part {
        let Self { known: Known { conn, .. }, own, peer, fd, .. } = *self;
        if waits_for_told(conn, own, peer, fd, core::mem::take(promised)) {
            return Part::Again;
        }
        set_errno(libc::EAGAIN);
        Part::Ends(-1)
    }

    /// As a machine does that is about to sleep: says so, looks again, and lets the kernel do it.
    fn sleeping(
        &self,
        user: Use,
        may_wait: &MayWait,
        promised: &mut bool,
        spin: Option<Spin<'static>>,
        native: &mut Native<'_>,
    ) -> Result<Part, Gone> {
        let Self { own, peer, fd, .. } = *self;
        let conn = self.known.conn;
        let errno = get_errno();
        let Ok(slept) = park::sleep(&mut Parking { conn, own, peer }, |_| {
            let goes = if leave::owes() && may_wait.get(self) { leave::settle_or_poll(fd) } else { Goes::On };
            let result = if goes == Goes::On { native.call() } else { with_errno(-(goes.errno() as isize)) };
            Ok((result, result > 0 && stays_asleep(conn)))
        });
        let Some(result) = slept else {
            if let Some(result) = self.by_machine(user, may_wait.get(self), native)? {
                return Ok(Part::Ends(result));
            }
            if !may_wait.get(self) {
                return Ok(self.has_nothing(promised));
            }
            // Of one that may wait, errno says why it has ended.
            return Ok(Part::Ends(-1));
        };
        if user.is_closed() {
            // What the kernel has said of the connection that it was.
            return Ok(Part::Ends(result));
        }
        conn.said(result);
        conn.pace.sees_bulk(result);
        if result > 0 {
            conn.came(fd, peer);
            if let Some(spin) = spin {
                spin.slept();
            }
        } else if result < 0
            && *promised
            && !may_wait.get(self)
            && get_errno() == libc::EAGAIN
            && waits_for_told(conn, own, peer, fd, core::mem::take(promised))
        {
            set_errno(errno);
            return Ok(Part::Again);
        }
        // Before its end a dead writer may have left something. The number may have been closed meanwhile:
        // the end was said.
        let mut end = || 0;
        if result == 0
            && peer.tail() != own.head.0.load(Ordering::Acquire)
            && let Ok(Some(left)) = self.by_machine(user, false, &mut Native::of(&mut end))
        {
            return Ok(Part::Ends(left));
        }
        Ok(Part::Ends(self.ended(result)))
    }

    /// What the program is told of an end. An end that died with bytes unread was reset, of which the kernel
    /// does not know if they were in the ring.
    fn ended(&self, result: isize) -> isize {
        let Self { known: Known { conn, .. }, own, peer, fd, .. } = *self;
        let was_left = result == 0 && (!is_empty(peer, own) || conn.told.unread.load(Ordering::Relaxed) != 0);
        if !was_left || conn.told.reset.load(Ordering::Relaxed) != 0 {
            return result;
        }
        // An end that closes or exits in the library withdraws, and sees to it that the kernel resets it.
        let is_seen = peer.reader.0.consent.load(Ordering::Acquire) != consent::OPEN;
        let is_half_closed = matches!(peer.writer.0.path.load(Ordering::Acquire), path::SHUT | path::LAST);
        if is_seen || is_half_closed || !pair::is_alone(fd) || conn.told.reset.swap(1, Ordering::Relaxed) != 0
        {
            return result;
        }
        with_errno(-(libc::ECONNRESET as isize))
    }

    /// What a machine says; none for nothing now.
    #[cold]
    fn by_machine(&self, user: Use, may_wait: bool, native: &mut Native<'_>) -> Result<Option<isize>, Gone> {
        let Self { fd, bytes, flags, .. } = *self;
        let conn = self.known.conn;
        let purpose = if self.is_peek() { Purpose::Peek } else { Purpose::Read };
        let peek = flags & (libc::MSG_PEEK | libc::MSG_TRUNC);
        let mut last = None;
        let mut kept = || {
            let result = native.call();
            last = Some(result);
            result
        };
        let Some(call) = Call::new(conn, fd, bytes) else { return Ok(None) };
        let outcome = call.read(purpose, may_wait, peek, user, &mut Native::of(&mut kept))?;
        let result = match outcome {
            Outcome::Moved(count) => count as isize,
            Outcome::WouldBlock => return Ok(None),
            Outcome::Kernel => {
                let result = match last {
                    Some(result) if result < 0 || user.is_closed() => result,
                    _ => native.call(),
                };
                conn.said(result);
                if user.is_closed() { result } else { self.ended(result) }
            }
            _ => {
                let mover = user.moves()?;
                leave::broken(conn, fd);
                mover.rests();
                native.call()
            }
        };
        promises(conn, self.is_peek() && result > 0);
        Ok(Some(self.with_more(result)))
    }

    /// A read that has got some adds what it would have got with them if all came one way. Only a writer that
    /// has changed its way may have left some on the other.
    #[inline(always)]
    fn with_more(&self, got: isize) -> isize {
        let Self { known, peer, fd, bytes, flags, .. } = *self;
        let is_one = peer.writer.0.path.load(Ordering::Relaxed) == path::RING
            && peer.writer.0.switch_over.load(Ordering::Relaxed)
                <= known.kept.told_switch_over.load(Ordering::Relaxed);
        if is_one || got <= 0 || got as usize >= bytes.length {
            return got;
        }
        more(known, fd, bytes, flags, got, peer)
    }
}

/// What was looked at in the ring is there for the next read, whichever way it comes by then.
#[inline(always)]
fn promises(conn: &Conn, is_peek: bool) {
    if is_peek {
        conn.told.promised.store(1, Ordering::Relaxed);
    }
}

/// Spins at once, where earlier spins were hits.
#[inline(always)]
fn finds_at_once(conn: &Conn, own: &Header, peer: &Header, flags: c_int) -> bool {
    flags & libc::MSG_DONTWAIT == 0 && conn.pace.finds_at_once(&Machine, || !is_empty(own, peer))
}

/// Takes bytes of the ring, if that is all there is to it.
#[inline(always)]
fn take(known: Known, own: &Header, peer: &Header, bytes: &Bytes, is_peek: bool) -> Moves {
    if is_empty(own, peer) {
        return Moves::Nothing;
    }
    let purpose = if is_peek { Purpose::Peek } else { Purpose::Read };
    // What was reached is read with the lock.
    let mut read = Read::new(CAPACITY, bytes.length as u64, false, true, 0).to(purpose);
    let mut fast = Takes::new(known, own, peer, bytes, 0);
    let ended = read.attempt(&mut fast);
    fast.ends();
    match ended {
        Ok(Step::Ends(Outcome::Moved(count))) => Moves::Moved(count as isize),
        // Another thread was faster.
        _ if is_empty(own, peer) => Moves::Nothing,
        _ => Moves::Slow,
    }
}
