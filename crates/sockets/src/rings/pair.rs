//! How the two ends of a connection find each other, and prove who they are.
//!
//! Each end that finds its connection worth it binds a datagram socket to a name that follows from the connection's two
//! addresses (an abstract name: one per network namespace, as the addresses are). Whoever comes second finds the first there and says
//! who it is; each sends its region to an end that has proven itself. Nobody waits: each looks for the other's message when the program next uses
//! the connection, and until both have what they need everything stays with the kernel.
//!
//! Anybody can bind any name. What counts is what the kernel says: of the sender of the message (its user), and of the opposite
//! end of the connection (its user, inode and cookie, by sock_diag); the message has to name the same.

mod address;
mod diag;
mod message;

use libc::c_int;
use proto::stream::consent;
use sockets_rules::layout::Reason;

use self::address::Address;
use self::message::Meeting;
use super::conn::{self, Conn, parked, state as stage};
use super::kernel;
use super::words::{CAPACITY, MAGIC, REGION_BYTES, Words};
use crate::sync::{AtomicU32, Ordering};
use crate::{page, raw, state};

/// Uses of a connection until an end stops looking for the other.
const PATIENCE: u32 = 20_000;
/// Uses at each of which it looks.
const OFTEN: u32 = 200;

/// Set for good when the program does what no connection should be opened beside.
static STOPPED: AtomicU32 = AtomicU32::new(0);

/// No further connection gets a ring.
pub(crate) fn stop() {
    STOPPED.store(1, Ordering::Relaxed);
}

pub(crate) fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed) != 0
}

/// The program has begun to use a connection that it has made: whether it may get a ring.
pub(crate) fn begin(fd: c_int, cookie: u64, record: u16, is_own: bool) -> bool {
    if !crate::environment::has_rings() {
        return false;
    }
    let reason = if !state::may_ask() || is_stopped() {
        Reason::Confined
    } else if !is_own {
        Reason::Inherited
    } else {
        match conn::claim(fd, cookie, record) {
            Ok(conn) => {
                conn.because(Reason::Alone);
                return true;
            }
            Err(reason) => reason,
        }
    };
    page::because(record, reason);
    false
}

/// The program has used a connection whose ends have not met yet.
#[cold]
#[inline(never)]
pub(crate) fn step(conn: &'static Conn, fd: c_int) {
    if crate::environment::is_forced() {
        for _ in 0..4 {
            step_all();
        }
        return;
    }
    once(conn, fd);
}

fn once(conn: &'static Conn, fd: c_int) {
    if conn.at_it.swap(1, Ordering::Acquire) != 0 {
        return;
    }
    let uses = conn.uses.load(Ordering::Relaxed) + 1;
    conn.uses.store(uses, Ordering::Relaxed);
    let result = if is_stopped() || uses > PATIENCE {
        None
    } else if uses < OFTEN || uses.is_multiple_of(16) {
        proceed(conn, fd)
    } else {
        Some(())
    };
    if result.is_none() && conn.is(stage::MEETING) {
        end(conn);
        conn.over(stage::MEETING, Reason::NoOtherEnd);
    }
    // Pairs with the Acquire of who is at it next.
    conn.at_it.store(0, Ordering::Release);
}

/// As [`step`], for all: their ends may both be here.
fn step_all() {
    conn::for_each_meeting(|conn| once(conn, conn.fd()));
}

/// None: these two will not meet.
fn proceed(conn: &'static Conn, fd: c_int) -> Option<()> {
    let own = Address::own(fd)?;
    let peer = Address::peer(fd)?;
    if own == peer {
        return None;
    }
    let meeting = match conn.meeting.load(Ordering::Relaxed) {
        0 => {
            let meeting = Meeting::bind(own, peer)?;
            conn.meeting.store(meeting.number() as u32 + 1, Ordering::Relaxed);
            meeting
        }
        number => Meeting::of(number as c_int - 1),
    };
    let mut done = conn.done.load(Ordering::Relaxed);
    if done & SAID == 0 && meeting.finds(peer, own) {
        meeting.send(fd, conn.cookie.load(Ordering::Relaxed), None)?;
        done |= SAID;
    }
    // An honest end writes two.
    for _ in 0..LETTERS {
        let Some(letter) = meeting.receive() else { break };
        let is_sound = letter.is_from(own, peer) && (!letter.has_region() || letter.maps(conn));
        letter.close();
        if !is_sound {
            return None;
        }
        conn.peer_pid.store(letter.process(), Ordering::Relaxed);
        done |= PROVEN | if letter.has_region() { MAPPED } else { 0 };
    }
    if done & PROVEN != 0 && done & SENT == 0 {
        // It was there when it wrote.
        if !meeting.finds(peer, own) {
            return None;
        }
        send(conn, fd, &meeting)?;
        done |= SENT;
    }
    conn.done.store(done, Ordering::Relaxed);
    if done & (SENT | MAPPED) == SENT | MAPPED {
        let (words, _) = conn.words()?;
        // Until the program next reads, this end sleeps.
        conn.parked.store(parked::some(), Ordering::Relaxed);
        measure(conn, fd);
        words.will.0.processor.store(super::spin::clock().1, Ordering::Relaxed);
        // The other end looks with Acquire.
        words.will.0.consent.store(consent::OPEN, Ordering::Release);
        end(conn);
        conn::becomes_ready(conn);
    }
    Some(())
}

/// Messages that are looked at in one step.
const LETTERS: u32 = 4;

/// How much the kernel takes at once: half of its buffer, of which the other half is what it keeps beside bytes.
pub(crate) fn measure(conn: &Conn, fd: c_int) {
    let buffer = raw::socket_option::<c_int>(fd, libc::SO_SNDBUF).unwrap_or(0);
    let room = u64::try_from(buffer / 2).unwrap_or(0).clamp(1, CAPACITY);
    conn.room.store(room, Ordering::Relaxed);
}

/// What has been done: this end has said who it is, the other one has proven who it is, this one's region was sent, the other one's is
/// mapped.
const SAID: u32 = 1;
const PROVEN: u32 = 2;
const SENT: u32 = 4;
const MAPPED: u32 = 8;

/// Makes this end's region and sends it.
fn send(conn: &'static Conn, fd: c_int, meeting: &Meeting) -> Option<()> {
    let region = region(conn)?;
    let sent = meeting.send(fd, conn.cookie.load(Ordering::Relaxed), Some(region));
    close(region);
    sent
}

/// A region in memory that nobody can shrink, and nobody but this end can write.
fn region(conn: &'static Conn) -> Option<c_int> {
    let flags = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as usize;
    // SAFETY: a name that ends with 0; a new descriptor.
    let fd =
        unsafe { raw::call(libc::SYS_memfd_create, [c"tieline-ring".as_ptr() as usize, flags, 0, 0, 0, 0]) };
    let fd = c_int::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    const SEALS: c_int =
        libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: numbers only.
    let is_long = unsafe { raw::call(libc::SYS_ftruncate, [fd as usize, REGION_BYTES, 0, 0, 0, 0]) } == 0;
    let is_made = is_long && conn::map(&conn.own, fd, true) && {
        // SAFETY: numbers only.
        unsafe {
            raw::call(libc::SYS_fcntl, [fd as usize, libc::F_ADD_SEALS as usize, SEALS as usize, 0, 0, 0])
                == 0
        }
    };
    // SAFETY: as in `Conn::words`.
    let words: Option<&'static Words> = unsafe { conn.own.load(Ordering::Relaxed).as_ref() };
    match words.filter(|_| is_made) {
        Some(words) => {
            words.will.0.asleep.store(1, Ordering::Relaxed);
            // Pairs with the Acquire of who maps it.
            words.magic.store(MAGIC ^ CAPACITY, Ordering::Release);
            Some(fd)
        }
        None => {
            close(fd);
            None
        }
    }
}

/// Nobody needs to find this end any more.
pub(crate) fn end(conn: &Conn) {
    let meeting = conn.meeting.swap(0, Ordering::Relaxed);
    if meeting != 0 {
        let meeting = Meeting::of(meeting as c_int - 1);
        meeting.empty();
        close(meeting.number());
    }
}

pub(super) fn close(fd: c_int) {
    // SAFETY: only ever descriptors of this library's own.
    unsafe { raw::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Connections whose ends have not met have got another holder: they stay with the kernel.
pub(crate) fn shared() {
    conn::shared();
    conn::for_each_meeting(|conn| {
        end(conn);
        conn.over(stage::MEETING, Reason::Inherited);
    });
}

/// Numbers from `first` to `last` are about to be closed: those of this library may be among them.
pub(crate) fn closing(first: c_int, last: c_int) {
    conn::for_each_meeting(|conn| {
        let meeting = conn.meeting.load(Ordering::Relaxed) as c_int - 1;
        if meeting >= 0 && (first..=last).contains(&meeting) {
            // The program closes it.
            Meeting::of(meeting).empty();
            conn.meeting.store(0, Ordering::Relaxed);
            conn.over(stage::MEETING, Reason::Unseen);
        }
    });
}

/// Whether it is known what the kernel counts too many; else it is asked, at most now and then.
pub(crate) fn knows_extra(conn: &Conn, own: &Words, fd: c_int) -> bool {
    if own.extra().is_some() {
        return true;
    }
    let uses = conn.uses.fetch_add(1, Ordering::Relaxed);
    if !uses.is_multiple_of(4) && uses > 64 {
        return false;
    }
    let known = Address::own(fd).zip(Address::peer(fd)).and_then(|(own, peer)| {
        let opposite = diag::opposite(own, peer)?;
        kernel::extra(fd, opposite.info?.received)
    });
    if let Some(extra) = known {
        own.way.0.extra.store(extra + 1, Ordering::Relaxed);
    }
    known.is_some()
}
