//! One read or write of the program on a connection that has, or may get, rings.

use core::arch::asm;

use libc::c_int;
use proto::stream::reader::Purpose;
use proto::stream::writer::Occasion;
use proto::stream::{Outcome, consent, path};

use super::conn::{Conn, state};
use super::copy::{Bytes, copy};
use super::run::Call;
use super::words::{BESIDE, CAPACITY, Words};
use super::{epoll, kernel, leave, lock, pair, spin};
use crate::hook::set_errno;
use crate::page::{self, Way};
use crate::raw;
use crate::sync::{AtomicU64, Ordering};

/// No message stands beside its position.
const NOTHING_BESIDE: u64 = u64::MAX;

/// Looks at a ring between two looks at the kernel.
const LOOKS: u32 = 200;

/// Reads: `native` is the program's own call.
#[inline(never)]
pub(crate) fn read(
    conn: &'static Conn,
    fd: c_int,
    bytes: Option<Bytes>,
    flags: c_int,
    mut native: impl FnMut() -> isize,
) -> isize {
    match conn.state.load(Ordering::Acquire) {
        state::READY => {}
        state::MEETING => {
            let result = native();
            if result > 0 {
                pair::step(conn, fd);
            }
            return result;
        }
        _ => return native(),
    }
    let usual = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
    let Some(bytes) = bytes.filter(|bytes| bytes.length > 0 && flags & !usual == 0) else {
        if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) == 0 {
            leave::reading(conn, fd);
        }
        return native();
    };
    let bytes = if flags & libc::MSG_TRUNC != 0 { bytes.discarding() } else { bytes };
    let Some((own, peer)) = conn.words() else { return native() };
    if conn.parked.load(Ordering::Relaxed) != 0 {
        epoll::wakes(conn, own);
    }
    let is_peek = flags & libc::MSG_PEEK != 0;
    let wants_all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_DONTWAIT == 0 && !is_peek;
    if wants_all {
        // Rare, and it may have to go on reading from both sides.
        return all(conn, fd, &bytes, flags, &mut native);
    }
    let is_there = bytes.is_there(true);
    loop {
        if !is_there && !is_empty(own, peer) {
            set_errno(libc::EFAULT);
            return -1;
        }
        match take(conn, own, peer, &bytes, is_peek) {
            Fast::Moved(count) => return with_more(conn, fd, &bytes, flags, count, peer),
            Fast::Slow => {
                if let Some(result) = machine(conn, fd, &bytes, flags, false, &mut native) {
                    return with_more(conn, fd, &bytes, flags, result, peer);
                }
            }
            Fast::Nothing => {}
        }
        let may_wait = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd);
        if may_wait && look(conn, own, peer, fd) {
            continue;
        }
        // As a machine does that is about to sleep: say so, look again, and let the kernel do it.
        own.will.0.asleep.fetch_add(1, Ordering::SeqCst);
        let is_empty = peer.way.0.recall.load(Ordering::Acquire) == 0 && is_empty(own, peer);
        if is_empty {
            if may_wait {
                leave::settle_or_poll(fd);
            }
            let result = native();
            own.will.0.asleep.fetch_sub(1, Ordering::SeqCst);
            // Before its end a dead writer may have left something.
            if result == 0
                && let Some(left) = machine(conn, fd, &bytes, flags, false, &mut native)
            {
                return left;
            }
            return result;
        }
        own.will.0.asleep.fetch_sub(1, Ordering::SeqCst);
        if let Some(result) = machine(conn, fd, &bytes, flags, may_wait, &mut native) {
            return with_more(conn, fd, &bytes, flags, result, peer);
        }
        if !may_wait {
            set_errno(libc::EAGAIN);
            return -1;
        }
    }
}

/// A read that has got some adds what it would have got with them if all came one way. Only a writer that has changed its way may
/// have left some on the other.
#[inline(always)]
fn with_more(conn: &'static Conn, fd: c_int, bytes: &Bytes, flags: c_int, got: isize, peer: &Words) -> isize {
    let is_one = peer.way.0.path.load(Ordering::Relaxed) == path::RING
        && peer.way.0.cut.load(Ordering::Relaxed) <= conn.told_cut.load(Ordering::Relaxed);
    if is_one || got <= 0 || got as usize >= bytes.length {
        return got;
    }
    more(conn, fd, bytes, flags, got, peer)
}

#[cold]
#[inline(never)]
fn more(conn: &'static Conn, fd: c_int, bytes: &Bytes, flags: c_int, got: isize, peer: &Words) -> isize {
    conn.told_cut.store(peer.way.0.cut.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut slices = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; super::copy::PARTS];
    if flags & libc::MSG_PEEK != 0 {
        return got + peek_more(conn, fd, bytes, got as usize);
    }
    let used = bytes.slice(got as usize, usize::MAX, &mut slices);
    // SAFETY: the parts are here.
    let Some(rest) = (unsafe { Bytes::parts(slices.as_ptr(), used) }) else { return got };
    let rest = if flags & libc::MSG_TRUNC != 0 { rest.discarding() } else { rest };
    let purpose = Purpose::Read;
    let truncates = flags & libc::MSG_TRUNC;
    let outcome = Call::new(conn, fd, &rest).map(|call| call.read(purpose, false, truncates, &mut || -1));
    match outcome {
        Some(Outcome::Moved(count)) => got + count as isize,
        _ => got,
    }
}

/// Looks at what the ring has behind bytes of the kernel that were looked at.
fn peek_more(conn: &Conn, fd: c_int, bytes: &Bytes, got: usize) -> isize {
    let Some((own, peer)) = conn.words() else { return 0 };
    let Some(taken) = kernel::taken(fd) else { return 0 };
    if !lock::try_take(&own.read_lock.0, lock::own()) {
        return 0;
    }
    let recall = peer.way.0.recall.load(Ordering::Acquire);
    let base = peer.way.0.base.load(Ordering::Acquire);
    let tail = peer.tail();
    let from = own.head.0.load(Ordering::Relaxed).max(base);
    // Only where the bytes of the kernel end just where those of the ring begin.
    let joins = recall == 0 && taken.checked_add(got as u64) == Some(peer.way.0.cut.load(Ordering::Acquire));
    let length = match tail.checked_sub(from) {
        Some(unread) if joins && unread <= CAPACITY => (unread as usize).min(bytes.length - got),
        _ => 0,
    };
    // SAFETY: the ring of the other end's region; the program's own room, behind what was written of it.
    unsafe { bytes.take(got, peer.ring(), from, length) };
    lock::release(&own.read_lock.0);
    length as isize
}

/// `MSG_WAITALL`: until there is no room left, an end, an error, or a signal.
#[cold]
fn all(
    conn: &'static Conn,
    fd: c_int,
    bytes: &Bytes,
    flags: c_int,
    native: &mut dyn FnMut() -> isize,
) -> isize {
    let Some((own, peer)) = conn.words() else { return native() };
    let mut done = 0_usize;
    loop {
        let mut slices = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; super::copy::PARTS];
        let used = bytes.slice(done, usize::MAX, &mut slices);
        // SAFETY: the parts are here.
        let Some(rest) = (unsafe { Bytes::parts(slices.as_ptr(), used) }) else { return done as isize };
        let rest = if flags & libc::MSG_TRUNC != 0 { rest.discarding() } else { rest };
        let is_whole = done == 0 && is_empty(own, peer) && peer.way.0.path.load(Ordering::Acquire) != path::RING;
        let some = flags & !libc::MSG_WAITALL;
        let got = if is_whole {
            // Nothing but the kernel has any: the program's own call waits for all of it.
            read(conn, fd, Some(rest), some, || native())
        } else {
            read(conn, fd, Some(rest), some, || with_errno(kernel::receive(fd, &rest, usize::MAX, some)))
        };
        match usize::try_from(got) {
            Ok(0) | Err(_) if done > 0 => return done as isize,
            Ok(0) | Err(_) => return got,
            Ok(count) => done += count,
        }
        if done >= bytes.length || is_whole && done == 0 {
            return done as isize;
        }
    }
}

/// A result of the kernel's, as the C library gives it.
fn with_errno(result: isize) -> isize {
    if result < 0 {
        set_errno(-result as c_int);
        return -1;
    }
    result
}

/// What a machine says; none for nothing now.
#[cold]
fn machine(
    conn: &'static Conn,
    fd: c_int,
    bytes: &Bytes,
    flags: c_int,
    may_wait: bool,
    native: &mut dyn FnMut() -> isize,
) -> Option<isize> {
    let purpose = if flags & libc::MSG_PEEK != 0 { Purpose::Peek } else { Purpose::Read };
    let peek = flags & (libc::MSG_PEEK | libc::MSG_TRUNC);
    let mut last = None;
    let outcome = Call::new(conn, fd, bytes)?.read(purpose, may_wait, peek, &mut || {
        let result = native();
        last = Some(result);
        result
    });
    match outcome {
        Outcome::Moved(count) => Some(count as isize),
        Outcome::Kernel => Some(match last {
            Some(result) if result < 0 => result,
            _ => native(),
        }),
        Outcome::WouldBlock => None,
        _ => {
            leave::broken(conn, fd);
            Some(native())
        }
    }
}

/// How a short way ended.
enum Fast {
    Moved(isize),
    Nothing,
    /// It is for the machine.
    Slow,
}

/// Nothing of the ring is unread.
#[inline(always)]
pub(crate) fn is_empty(own: &Words, peer: &Words) -> bool {
    let tail = peer.tail();
    tail == own.head.0.load(Ordering::Acquire) || tail == peer.way.0.base.load(Ordering::Acquire)
}

/// Takes bytes of the ring, if that is all there is to it.
#[inline(always)]
fn take(conn: &Conn, own: &Words, peer: &Words, bytes: &Bytes, is_peek: bool) -> Fast {
    if is_empty(own, peer) {
        return Fast::Nothing;
    }
    if !lock::try_take(&own.read_lock.0, lock::own()) {
        return Fast::Slow;
    }
    let taken = take_locked(conn, own, peer, bytes, is_peek);
    lock::release(&own.read_lock.0);
    match taken {
        Fast::Moved(count) if !is_peek => page::ring(Way::In, count as u64),
        _ => {}
    }
    taken
}

#[inline(always)]
fn take_locked(conn: &Conn, own: &Words, peer: &Words, bytes: &Bytes, is_peek: bool) -> Fast {
    // In the order in which the machine looks.
    let recall = peer.way.0.recall.load(Ordering::Acquire);
    let base = peer.way.0.base.load(Ordering::Acquire);
    let beside_at = peer.message.0.beside_at.load(Ordering::Acquire);
    let tail = peer.tail();
    let cut = peer.way.0.cut.load(Ordering::Acquire);
    let head = own.head.0.load(Ordering::Relaxed);
    if tail == head || tail == base {
        return Fast::Nothing;
    }
    // What went back to the kernel is not here any more.
    let from = head.max(base);
    let is_sound = from < tail && tail - from <= CAPACITY;
    if recall != 0 || !is_sound || cut > conn.reached.load(Ordering::Relaxed) {
        return Fast::Slow;
    }
    let length = ((tail - from) as usize).min(bytes.length);
    let is_beside = beside_at == from && (tail - from) as usize <= BESIDE;
    if !is_beside || !take_beside(peer, bytes, from, length) {
        // SAFETY: the ring of the other end's region; the program's own room, of which no more than its length is used.
        unsafe { bytes.take(0, peer.ring(), from, length) };
    }
    // A handler of this thread may have read meanwhile.
    if is_peek || commit(&own.head.0, head, from + length as u64) {
        Fast::Moved(length as isize)
    } else {
        Fast::Slow
    }
}

/// Takes a small message from beside its position, if it is still there.
#[inline(always)]
fn take_beside(peer: &Words, bytes: &Bytes, from: u64, length: usize) -> bool {
    let Some(to) = bytes.place() else { return false };
    // SAFETY: the words' own bytes; the program's own room, of which no more than its length is used.
    unsafe { copy(peer.message.0.beside.as_ptr().cast(), to, length) };
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    peer.message.0.beside_at.load(Ordering::Acquire) == from
}

/// Changes a word that only holders of a lock change: between two instructions of this thread only its own signal handlers can have.
#[inline(always)]
fn commit(word: &AtomicU64, from: u64, to: u64) -> bool {
    let found: u64;
    // SAFETY: the word's own address; one instruction, so that no handler comes in between.
    unsafe {
        asm!("cmpxchg [{word}], {to}", word = in(reg) word.as_ptr(), to = in(reg) to, inout("rax") from => found, options(nostack));
    }
    found == from
}

/// Looks at the ring for a while. Whether there is something in it or in the kernel.
#[inline(always)]
fn look(conn: &Conn, own: &Words, peer: &Words, fd: c_int) -> bool {
    let (start, here) = spin::clock();
    if !spin::is_elsewhere(own, peer, here) || own.will.0.asleep.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let cycles = conn.spin.cycles();
    if cycles == 0 {
        return false;
    }
    let seen = peer.tail();
    let mut looks = 0_u32;
    loop {
        if peer.tail() != seen || !is_empty(own, peer) {
            conn.spin.paid();
            return true;
        }
        looks += 1;
        if looks % LOOKS == 0 {
            if kernel::unread(fd) != Some(0) {
                conn.spin.paid();
                return false;
            }
            let (now, here) = spin::clock();
            if now.wrapping_sub(start) > cycles || !spin::is_elsewhere(own, peer, here) {
                conn.spin.in_vain();
                return false;
            }
        }
        spin::relax();
    }
}

/// Whether calls on it may not wait.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: takes no pointer.
    let flags = unsafe { raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as c_int & libc::O_NONBLOCK != 0
}

/// Whether the number is a descriptor.
pub(crate) fn is_open(fd: c_int) -> bool {
    // SAFETY: takes no pointer.
    unsafe { raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]) >= 0 }
}

/// Writes: `native` is the program's own call.
#[inline(never)]
pub(crate) fn write(
    conn: &'static Conn,
    fd: c_int,
    bytes: Option<Bytes>,
    flags: c_int,
    mut native: impl FnMut() -> isize,
) -> isize {
    match conn.state.load(Ordering::Acquire) {
        state::READY => {}
        state::MEETING => {
            let result = native();
            if result > 0 {
                pair::step(conn, fd);
            }
            return result;
        }
        _ => return native(),
    }
    let usual = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR;
    let Some(bytes) = bytes.filter(|bytes| bytes.length > 0 && flags & !usual == 0) else {
        if flags & !usual != 0 || bytes.is_none() {
            leave::writing(conn, fd);
        }
        return plain(conn, &mut native);
    };
    let Some((own, peer)) = conn.words() else { return native() };
    if !bytes.is_there(false) {
        return plain(conn, &mut native);
    }
    let mut done = 0;
    loop {
        match put(conn, own, peer, &bytes, done) {
            Fast::Moved(count) => {
                done += count as usize;
                if done == bytes.length {
                    return done as isize;
                }
                continue;
            }
            Fast::Nothing if !may_open(conn, own, peer, fd) => {
                match rest(conn, fd, &bytes, done, flags, &mut native) {
                    Some(result) => return result,
                    None => continue,
                }
            }
            _ if done == 0 && gets_room(conn, own, peer) => continue,
            _ => {}
        }
        let may_wait = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd);
        let occasion = if may_wait { Occasion::Write } else { Occasion::WriteNow };
        if !may_wait && done > 0 {
            return done as isize;
        }
        let Some(call) = Call::new(conn, fd, &bytes) else { return native() };
        match call.behind(done).write(occasion, true) {
            Outcome::Moved(count) => {
                page::ring(Way::Out, count);
                done += count as usize;
                if done == bytes.length || !may_wait {
                    return done as isize;
                }
            }
            Outcome::WouldBlock if done > 0 => return done as isize,
            Outcome::WouldBlock if !may_wait => {
                set_errno(libc::EAGAIN);
                return -1;
            }
            Outcome::WouldBlock => {}
            Outcome::Kernel => {
                if let Some(result) = rest(conn, fd, &bytes, done, flags, &mut native) {
                    return result;
                }
            }
            _ => {
                leave::broken(conn, fd);
                return if done > 0 { done as isize } else { native() };
            }
        }
    }
}

/// Puts bytes into the ring, if that is all there is to it. `Nothing`: the way is the kernel's.
#[inline(always)]
fn put(conn: &Conn, own: &Words, peer: &Words, bytes: &Bytes, done: usize) -> Fast {
    if own.way.0.path.load(Ordering::Relaxed) == path::TCP {
        return Fast::Nothing;
    }
    if !lock::try_take(&own.write_lock.0, lock::own()) {
        return Fast::Slow;
    }
    let put = put_locked(conn, own, peer, bytes, done);
    lock::release(&own.write_lock.0);
    if let Fast::Moved(count) = put {
        page::ring(Way::Out, count as u64);
        let will = &peer.will.0;
        if will.asleep.load(Ordering::Acquire) != 0 || will.consent.load(Ordering::Acquire) != consent::OPEN {
            // They went to sleep without having seen it.
            leave::overdue(conn, conn.fd());
        }
    }
    put
}

#[inline(always)]
fn put_locked(conn: &Conn, own: &Words, peer: &Words, bytes: &Bytes, done: usize) -> Fast {
    let will = &peer.will.0;
    let is_ring = own.way.0.path.load(Ordering::Relaxed) == path::RING
        && own.way.0.recall.load(Ordering::Relaxed) == 0
        && will.consent.load(Ordering::Acquire) == consent::OPEN
        && will.asleep.load(Ordering::Acquire) == 0;
    if !is_ring {
        return Fast::Slow;
    }
    let tail = own.message.0.tail.load(Ordering::Relaxed);
    let base = own.way.0.base.load(Ordering::Relaxed);
    let want = bytes.length - done;
    let room = |head: u64| {
        let from = head.max(base);
        let limit = conn.room.load(Ordering::Relaxed);
        if from <= tail && tail - from <= limit { (limit - (tail - from)) as usize } else { 0 }
    };
    let mut free = room(conn.head.load(Ordering::Relaxed));
    if free < want {
        let head = peer.head.0.load(Ordering::Acquire);
        free = room(head);
        conn.head.store(head, Ordering::Relaxed);
    }
    let length = want.min(free);
    if length == 0 {
        return Fast::Slow;
    }
    // SAFETY: the ring of this end's region; the program's own bytes.
    unsafe { bytes.put(done, own.ring(), tail, length) };
    put_beside(own, bytes, done, tail, length);
    let published = tail + length as u64;
    // Also the fence behind which the other end is looked at. It fails if a handler of this thread has written meanwhile.
    if own.message.0.tail.compare_exchange(tail, published, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return Fast::Slow;
    }
    if conn.owes.load(Ordering::Relaxed) == 0 {
        conn.owes.store(1, Ordering::Relaxed);
    }
    Fast::Moved(length as isize)
}

/// Cycles to look for room in a full ring, also for a write that may not wait: what it says then costs more than what a reader at
/// work takes.
const ROOM_CYCLES: u64 = 100_000;

/// Whether a ring that is full gets room soon: its readers are awake, and on another processor.
#[cold]
#[inline(never)]
fn gets_room(conn: &Conn, own: &Words, peer: &Words) -> bool {
    let will = &peer.will.0;
    let (start, here) = spin::clock();
    let head = peer.head.0.load(Ordering::Acquire);
    let is_full = own.way.0.path.load(Ordering::Relaxed) == path::RING
        && own.message.0.tail.load(Ordering::Relaxed).wrapping_sub(head) >= conn.room.load(Ordering::Relaxed);
    if !is_full || !spin::is_elsewhere(own, peer, here) || conn.full.cycles() == 0 {
        return false;
    }
    loop {
        let is_awake = will.asleep.load(Ordering::Acquire) == 0 && will.consent.load(Ordering::Acquire) == consent::OPEN;
        if peer.head.0.load(Ordering::Acquire) != head {
            conn.full.paid();
            return true;
        }
        if !is_awake || spin::clock().0.wrapping_sub(start) > ROOM_CYCLES {
            conn.full.in_vain();
            return false;
        }
        spin::relax();
    }
}

/// Puts a small message beside its position, too.
#[inline(always)]
fn put_beside(own: &Words, bytes: &Bytes, done: usize, tail: u64, length: usize) {
    let message = &own.message.0;
    match bytes.place() {
        Some(from) if length <= BESIDE => {
            // Readers of the last one find out that it is gone.
            message.beside_at.store(NOTHING_BESIDE, Ordering::Release);
            let beside = message.beside.as_ptr().cast_mut().cast::<u8>();
            // SAFETY: the words' own room, which is long enough; the program's own bytes.
            unsafe { copy(from.wrapping_add(done), beside, length) };
            // Unless a handler of this thread has written another one here.
            commit(&message.beside_at, NOTHING_BESIDE, tail);
        }
        _ => {
            if message.beside_at.load(Ordering::Relaxed) != NOTHING_BESIDE {
                message.beside_at.store(NOTHING_BESIDE, Ordering::Release);
            }
        }
    }
}

/// Whether it is worth trying to go through the ring from here on.
fn may_open(conn: &Conn, own: &Words, peer: &Words, fd: c_int) -> bool {
    let will = &peer.will.0;
    if will.consent.load(Ordering::Acquire) != consent::OPEN || will.asleep.load(Ordering::Acquire) != 0 {
        return false;
    }
    let is_usable = conn.sealed.load(Ordering::Relaxed) == 0 && own.way.0.path.load(Ordering::Relaxed) != path::SHUT;
    is_usable && pair::knows_extra(conn, fd)
}

/// The rest of a write goes to the kernel. None: the way has changed.
fn rest(
    conn: &Conn,
    fd: c_int,
    bytes: &Bytes,
    done: usize,
    flags: c_int,
    native: &mut dyn FnMut() -> isize,
) -> Option<isize> {
    if done == 0 {
        return plain_once(conn, native);
    }
    let result = plain_once(conn, &mut || with_errno(kernel::send_rest(fd, bytes, done, flags)))?;
    Some(if result < 0 { done as isize } else { done as isize + result })
}

/// A write of the program to the kernel, whatever the way was.
fn plain(conn: &Conn, native: &mut dyn FnMut() -> isize) -> isize {
    match plain_once(conn, native) {
        Some(result) => result,
        None => native(),
    }
}

/// A write to the kernel without the lock; nobody opens the ring meanwhile. None: somebody has.
fn plain_once(conn: &Conn, native: &mut dyn FnMut() -> isize) -> Option<isize> {
    let Some((own, _)) = conn.words() else { return Some(native()) };
    let way = &own.way.0;
    way.plain.fetch_add(1, Ordering::SeqCst);
    let is_kernels = way.opening.load(Ordering::SeqCst) == 0
        && matches!(way.path.load(Ordering::SeqCst), path::TCP | path::SHUT);
    let result = is_kernels.then(native);
    way.plain.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Bytes of a ring that are unread, if it has one.
pub(crate) fn unread(fd: c_int) -> Option<c_int> {
    let (own, peer) = super::conn::ready(fd)?.words()?;
    if is_empty(own, peer) {
        return None;
    }
    let unread = peer.tail().saturating_sub(own.head.0.load(Ordering::Acquire));
    Some(unread.min(CAPACITY) as c_int)
}
