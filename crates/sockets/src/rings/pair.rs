//! How the two ends of a connection find each other and prove their identity.
//!
//! Each end that finds its connection worth it asks the kernel for the opposite end (its user, inode and
//! cookie, by sock_diag). If that is of the same user, it says in the user's registry where it is, looks
//! there for what the other one says, and believes it when the kernel says that just that process has the
//! opposite end. Then it makes its region, says which descriptor that is, and opens the other one's by
//! `/proc`. Nobody waits: each end takes a step when the program next uses the connection, and until both
//! have each other's region everything stays with the kernel.
//!
//! Nobody sends anything: there is nothing that another user could reach, and no descriptor comes from
//! anybody. What processes of the same user may write into the registry costs a look at `/proc`.

mod address;
mod diag;
mod entry;
mod offer;
mod processor;
mod registry;
mod user;

use libc::c_int;
use sockets_rules::layout::Reason;
use stream::consent;

use self::address::Address;
use self::diag::Opposite;
use self::entry::Entry;
pub(crate) use self::offer::Offer;
use self::offer::Refused;
use self::registry::Registry;
use super::conn::{self, Conn, Known, parked, state as stage};
use super::header::{CAPACITY, Header, MAGIC, REGION_BYTES};
use super::{forced, kernel, own, proc};
use crate::sync::{AtomicU32, Ordering};
use crate::{page, raw, state};

/// Uses of a connection until an end stops looking for the other, which has fewer if it reads many messages
/// at once.
const MAX_USES: u32 = 1 << 20;
/// Steps that may fail until then.
const MAX_FAILURES: u32 = 4;

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
pub(crate) fn step(conn: Known, fd: c_int) {
    if forced::is_on() {
        for _ in 0..4 {
            step_all();
        }
        return;
    }
    once(conn, fd);
}

fn once(known: Known, fd: c_int) {
    // One that is closed meets nobody, and its place waits for this.
    let Ok(user) = known.enter() else { return };
    once_as_user(known.conn, fd);
    user.leave();
}

fn once_as_user(conn: &'static Conn, fd: c_int) {
    if conn.meeting.at_it.swap(1, Ordering::Acquire) != 0 {
        return;
    }
    let uses = conn.meeting.uses.load(Ordering::Relaxed) + 1;
    conn.meeting.uses.store(uses, Ordering::Relaxed);
    let result = if is_stopped() || uses > MAX_USES {
        None
    } else if conn.has_done(PROVEN) || is_due(uses) || forced::is_on() {
        // What cannot be done now is done at another use.
        own::with_descriptors(|| proceed(conn, fd)).unwrap_or(Some(()))
    } else {
        Some(())
    };
    if result.is_none() {
        leaves(conn, Reason::NoOtherEnd);
    }
    // Pairs with the Acquire of who is at it next.
    conn.meeting.at_it.store(0, Ordering::Release);
    if conn.is(stage::OVER) {
        // Another thread may have given it up meanwhile.
        end(conn);
    }
}

/// Whether an end looks for the other one at this use: often at first, then more and more seldom.
fn is_due(uses: u32) -> bool {
    match uses {
        0..16 => true,
        16..256 => uses.is_multiple_of(16),
        256..4096 => uses.is_multiple_of(256),
        _ => uses.is_multiple_of(4096),
    }
}

/// As [`step`], for all: their ends may both be here.
fn step_all() {
    conn::for_each_meeting(|conn| {
        if let Ok(known) = conn.known() {
            once(known, conn.fd());
        }
    });
}

/// Whether the other end has proven who it is.
pub(crate) fn is_proven(conn: &Conn) -> bool {
    conn.has_done(PROVEN)
}

/// Whether the opposite end is of the same user, and a program has it: it may come.
pub(crate) fn is_accepted(conn: &Conn, fd: c_int) -> bool {
    let accepted = || opposite(fd).is_some_and(|end| end.inode != 0);
    conn.has_done(SAME_USER) && own::with_descriptors(accepted).unwrap_or(false)
}

/// Whether the socket is a connection that both ends have.
pub(crate) fn is_connected(fd: c_int) -> bool {
    Address::peer(fd).is_some()
}

/// What has been done: the opposite end is of the same user; its process has proven that it has it; this
/// end's region is made and said to be; the other one's is mapped. And how many steps have failed.
const SAME_USER: u32 = 1;
const PROVEN: u32 = 2;
const OFFERED: u32 = 4;
const MAPPED: u32 = 8;
const ONE_FAILURE: u32 = 16;

/// None: these two will not meet.
fn proceed(conn: &'static Conn, fd: c_int) -> Option<()> {
    if !conn.has_done(SAME_USER) {
        let Some(opposite) = opposite(fd) else { return fails(conn) };
        let user = user::own()?;
        if opposite.user != user {
            // Before a program has accepted it, some kernels say that it is nobody's.
            return if opposite.inode == 0 { Some(()) } else { None };
        }
        conn.meeting.other.store(opposite.cookie, Ordering::Relaxed);
        conn.meeting.done.fetch_or(SAME_USER, Ordering::Relaxed);
    }
    if !conn.has_done(MAPPED) {
        // Who writes beyond this limit is ended by a signal (setrlimit(2)). It may have changed since the
        // last step.
        if raw::limit(libc::RLIMIT_FSIZE) < registry::FILE_BYTES as u64 {
            return None;
        }
        let Some(registry) = Registry::open() else { return fails(conn) };
        let result = meet(conn, fd, &registry);
        registry.close();
        result?;
    }
    if conn.has_done(OFFERED | MAPPED) {
        opens(conn, fd)?;
    }
    Some(())
}

/// A step has failed, which may be chance: the other end is just being made, or ends.
fn fails(conn: &Conn) -> Option<()> {
    let before = conn.meeting.done.fetch_add(ONE_FAILURE, Ordering::Relaxed);
    (before / ONE_FAILURE < MAX_FAILURES).then_some(())
}

/// What the kernel says of the other end of a connection inside this network namespace.
fn opposite(fd: c_int) -> Option<Opposite> {
    let own = Address::own(fd)?;
    let peer = Address::peer(fd)?;
    if own == peer {
        return None;
    }
    diag::opposite(own, peer)
}

/// Whether nobody has the other end any more: it is not only half closed.
pub(crate) fn is_alone(fd: c_int) -> bool {
    own::with_descriptors(|| opposite(fd).is_none_or(|end| end.inode == 0)).unwrap_or(false)
}

/// Looks for what the other end says, does what it allows, and says it. None: these two will not meet.
fn meet(conn: &'static Conn, fd: c_int, registry: &Registry) -> Option<()> {
    let cookie = conn.cookie.load(Ordering::Relaxed);
    let other = conn.meeting.other.load(Ordering::Relaxed);
    // What others say is not heard.
    let mut found = registry.find(other).filter(|entry| entry.other() == cookie);
    if let Some(entry) = found {
        let is_it = opposite(fd).is_some_and(|end| {
            end.user == user::own().unwrap_or(u32::MAX)
                && end.cookie == other
                && end.info.is_some_and(|info| info.is_established())
                && entry.is_of(&end)
        });
        if is_it {
            conn.meeting.peer_pid.store(entry.process(), Ordering::Relaxed);
            conn.meeting.done.fetch_or(PROVEN, Ordering::Relaxed);
        } else {
            fails(conn)?;
            found = None;
        }
    }
    let processor = processor_of(conn);
    let says = |conn: &Conn| {
        let (inode, number) = (stat(fd)?.st_ino, conn.meeting.offer.number());
        registry.publish(&Entry::new(cookie, other, inode, state::owner(), fd as u32, number, processor))
    };
    if found.is_some_and(|entry| never_run_at_once(processor, entry.processor())) {
        // The other end is to find the same.
        says(conn)?;
        leaves(conn, Reason::OneProcessor);
        return Some(());
    }
    if found.is_some() && !conn.has_done(OFFERED) {
        match Offer::make(conn, other) {
            Ok(()) => _ = conn.meeting.done.fetch_or(OFFERED, Ordering::Relaxed),
            Err(Refused::TooMany) => evict(conn),
            Err(Refused::NotHad) => return None,
        }
    }
    if let Some(region) = found.and_then(|entry| entry.region())
        && conn.has_done(OFFERED)
    {
        if maps(conn, region) {
            conn.meeting.done.fetch_or(MAPPED, Ordering::Relaxed);
        } else {
            fails(conn)?;
        }
    }
    says(conn)
}

/// The only processor of this end, as it was at the first look: both ends decide by the same two, whatever
/// changes meanwhile. Else one could leave, and the other look for it at each use.
fn processor_of(conn: &Conn) -> Option<u32> {
    let known = &conn.meeting.processor;
    if known.load(Ordering::Relaxed) == 0 {
        known.store(processor::only().map_or(1, |number| number + 2), Ordering::Relaxed);
    }
    known.load(Ordering::Relaxed).checked_sub(2)
}

/// Whether two ends have one and the same processor alone. Forced rings go through memory there, too.
fn never_run_at_once(one: Option<u32>, other: Option<u32>) -> bool {
    one.is_some() && one == other && !forced::is_on()
}

/// Maps the region of the other end, if it is one that cannot be taken away, and is of this connection.
fn maps(conn: &'static Conn, number: u32) -> bool {
    let process = conn.meeting.peer_pid.load(Ordering::Relaxed);
    let Some(fd) = proc::open_memory(process, number, b"tieline-ring", conn.meeting.offer.device()) else {
        return false;
    };
    const SEALS: isize = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) as isize;
    // SAFETY: numbers only.
    let seals = unsafe { raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GET_SEALS as usize, 0, 0, 0, 0]) };
    let is_long = stat(fd).is_some_and(|stat| stat.st_size as usize == REGION_BYTES);
    let is_mapped = seals >= 0 && seals & SEALS == SEALS && is_long && conn::map(&conn.peer, fd, false);
    close(fd);
    if !is_mapped {
        return false;
    }
    // SAFETY: mapped just now.
    let header = unsafe { &*conn.peer.load(Ordering::Relaxed) };
    let is_its = header.magic.load(Ordering::Acquire) == MAGIC ^ CAPACITY
        && header.cookie.load(Ordering::Relaxed) == conn.meeting.other.load(Ordering::Relaxed)
        && header.other.load(Ordering::Relaxed) == conn.cookie.load(Ordering::Relaxed);
    if is_its && let Some((own, _)) = conn.headers() {
        // The other end looks with Acquire.
        own.has_mapped.store(1, Ordering::Release);
    }
    is_its
}

/// The connection gets its ring as soon as both have mapped each other's region. None: the other end has
/// given up.
fn opens(conn: &'static Conn, fd: c_int) -> Option<()> {
    let (own, peer) = conn.headers()?;
    if peer.reader.0.consent.load(Ordering::Acquire) == consent::WITHDRAWN {
        return None;
    }
    if peer.has_mapped.load(Ordering::Acquire) == 0 {
        return Some(());
    }
    end(conn);
    // Until the program next reads, this end sleeps.
    conn.sleep.parked.store(parked::some(), Ordering::Relaxed);
    measure(conn, fd);
    own.reader.0.processor.store(super::spin::clock().1, Ordering::Relaxed);
    // The other end looks with Acquire.
    own.reader.0.consent.store(consent::OPEN, Ordering::Release);
    conn::becomes_ready(conn);
    forced::opened(conn);
    Some(())
}

/// Too many regions wait for their other ends: one of those gives up.
fn evict(own: &Conn) {
    let mut is_done = false;
    conn::for_each_meeting(|conn| {
        if !is_done
            && !core::ptr::eq(conn, own)
            && conn.meeting.offer.number().is_some()
            && conn.meeting.at_it.swap(1, Ordering::Acquire) == 0
        {
            leaves(conn, Reason::NoOtherEnd);
            // Pairs with the Acquire of who is at it next.
            conn.meeting.at_it.store(0, Ordering::Release);
            is_done = true;
        }
    });
}

/// How much may be unread in the ring: what the kernel takes at once.
pub(crate) fn measure(conn: &Conn, fd: c_int) {
    let room = kernel::takes_at_once(fd).clamp(1, CAPACITY);
    conn.kept.room.store(room, Ordering::Relaxed);
}

/// An end that looks for the other one gives up.
pub(crate) fn leaves(conn: &Conn, reason: Reason) {
    if conn.is(stage::MEETING) && conn.has_done(OFFERED) {
        // SAFETY: as in `Conn::headers`.
        let own: Option<&'static Header> = unsafe { conn.own.load(Ordering::Acquire).as_ref() };
        if let Some(own) = own {
            // The other end may have mapped it. It looks with Acquire.
            own.reader.0.consent.store(consent::WITHDRAWN, Ordering::Release);
        }
    }
    conn.over(stage::MEETING, reason);
    end(conn);
}

/// Nobody needs to find this end any more.
pub(crate) fn end(conn: &Conn) {
    conn.meeting.offer.end();
}

pub(super) fn close(fd: c_int) {
    // SAFETY: only ever descriptors of this library's own.
    unsafe { raw::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

fn stat(fd: c_int) -> Option<libc::stat> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for what is written.
    let result = unsafe { raw::call(libc::SYS_fstat, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: the kernel has filled it in.
    if result == 0 { Some(unsafe { stat.assume_init() }) } else { None }
}

/// Somebody may have all connections whose calls are not seen: those whose ends have not met stay with the
/// kernel.
pub(crate) fn shared() {
    conn::shared();
    conn::for_each_meeting(|conn| leaves(conn, Reason::Inherited));
}

/// As [`shared`]; it is a copy of this process.
pub(crate) fn has_forked() {
    conn::has_forked();
    conn::for_each_meeting(|conn| leaves(conn, Reason::Inherited));
}

/// Numbers from `first` to `last` are about to be closed by the program: a region's may be among them.
pub(crate) fn closing(first: c_int, last: c_int) {
    if offer::is_any() {
        conn::for_each_meeting(|conn| {
            if conn.meeting.offer.is_in(first, last) {
                leaves(conn, Reason::Unseen);
            }
        });
    }
}

/// Whether it is known what the kernel counts too many; else it is asked, at most now and then.
pub(crate) fn knows_extra(conn: &Conn, own: &Header, fd: c_int) -> bool {
    if own.extra().is_some() {
        return true;
    }
    let uses = conn.meeting.uses.fetch_add(1, Ordering::Relaxed);
    if !uses.is_multiple_of(4) && uses > 64 && !forced::is_on() {
        return false;
    }
    let ask = || kernel::extra(fd, || Some(opposite(fd)?.info?.received));
    let known = own::with_descriptors(ask).flatten();
    if let Some(extra) = known {
        own.writer.0.extra.store(extra + 1, Ordering::Relaxed);
    }
    known.is_some()
}
