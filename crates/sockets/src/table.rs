//! The kind of each descriptor.
//!
//! A fixed array indexed by the number, in memory that is touched where it is used. An entry is a word (what
//! it is, how often the number has been something new, when that was last known to be so, and which record
//! counts it) and the socket's cookie, which the kernel gives to each socket once and which is the same for
//! all its descriptors in all processes.
//!
//! Interposers that make or close descriptors write entries. What they can't see (a system call in assembly,
//! the C library's own) is found out by the cookie: an event after which such a thing is likely begins a new
//! epoch, and an entry from an older one is asked for again when it is next used. An empty entry means that
//! nothing is known, never that there is nothing.

mod early;
mod glance;

use libc::c_int;

#[cfg(test)]
pub(crate) use self::early::EARLY_USES;
pub(crate) use self::early::Early;
pub(crate) use self::glance::{Glance, NO_CONNECTION, brief, empties_all, gets_a_place, glance, is_counted};
use crate::near::{NEAR, Number as Entry, number as entry};
use crate::raw;
use crate::rings::late::Use;
use crate::sync::Ordering;
use crate::{environment, page, rings, state};

/// Numbers above are not followed.
pub(crate) const NUMBERS: usize = 1 << 16;

/// What a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Not known, or not open.
    Unknown = 0,
    /// No socket.
    Other = 1,
    /// A socket of TCP, over IPv4 or IPv6.
    Tcp = 2,
    /// A socket of TCP that listens.
    Listener = 3,
    /// Any other socket.
    Socket = 4,
}

impl Kind {
    fn of(number: u8) -> Self {
        match number {
            1 => Self::Other,
            2 => Self::Tcp,
            3 => Self::Listener,
            4 => Self::Socket,
            _ => Self::Unknown,
        }
    }

    /// Of a new socket, by the arguments that made it.
    pub(crate) fn of_socket(domain: c_int, kind: c_int, protocol: c_int) -> Self {
        let is_inet = domain == libc::AF_INET || domain == libc::AF_INET6;
        let is_stream = kind & 0xf == libc::SOCK_STREAM;
        if is_inet && is_stream && (protocol == 0 || protocol == libc::IPPROTO_TCP) {
            Self::Tcp
        } else {
            Self::Socket
        }
    }
}

/// The word of an entry, unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) kind: Kind,
    /// Who made it: the tag of [`state::holders`] then; 0 if that is not known, or if it has several numbers.
    pub(crate) maker: u8,
    /// One more than the number of its record; 0 for none.
    pub(crate) record: u16,
    /// When this was last known to be so; 0 for not since it was made.
    pub(crate) epoch: u16,
    /// How often the number has become something new.
    pub(crate) generation: u16,
}

impl Word {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.kind as u8)
            | u64::from(self.maker) << 8
            | u64::from(self.record) << 16
            | u64::from(self.epoch) << 32
            | u64::from(self.generation) << 48
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Self {
            kind: Kind::of(word as u8),
            maker: (word >> 8) as u8,
            record: (word >> 16) as u16,
            epoch: (word >> 32) as u16,
            generation: (word >> 48) as u16,
        }
    }
}

/// In the epoch, of which only the low half counts, and never as 0: the table was given up.
const GIVEN_UP: u32 = 1 << 31;

/// One more than the highest number of which anything is known, or was: bulk closes end here.
pub(crate) fn highest() -> u32 {
    NEAR.highest.load(Ordering::Relaxed)
}

// Relaxed in all of this file: an entry's word changes as one, the cookie beside it is written before the
// word names an epoch and is only compared, and what a thread knows of a descriptor that another one made, it
// knows from there.

/// The epoch as entries keep it; 0, which is none, once the table was given up.
fn epoch() -> u16 {
    let epoch = state::epoch();
    if epoch & GIVEN_UP != 0 { 0 } else { (epoch as u16).max(1) }
}

/// Whether what the word says was so in this epoch.
fn holds(word: Word) -> bool {
    word.epoch != 0 && word.epoch == epoch()
}

/// Something happened that may have closed or replaced descriptors unseen.
pub(crate) fn doubt() {
    // After two thousand million doubts it is given up.
    if state::next_epoch(1, 0) as u16 <= 1 {
        // From here on epochs come again, and the first two are kept as one: what is from those before is
        // from none.
        for fd in 0..highest() {
            change(fd as c_int, |word| Word { epoch: 0, ..word });
        }
    }
    empties_all();
}

/// One table can no longer describe the descriptors of all who run in this memory.
pub(crate) fn give_up() {
    state::next_epoch(0, GIVEN_UP);
    empties_all();
}

/// There is an entry for this number.
fn reaches(fd: c_int) {
    if highest() <= fd as u32 {
        NEAR.highest.fetch_max(fd as u32 + 1, Ordering::Relaxed);
    }
}

/// The number has become this.
pub(crate) fn made(fd: c_int, kind: Kind) {
    become_new(fd, kind, if kind == Kind::Tcp { state::holders() } else { 0 });
}

#[unsafe(link_section = ".text.near")]
fn become_new(fd: c_int, kind: Kind, maker: u8) {
    if kind == Kind::Unknown {
        return forget(fd);
    }
    let Some(entry) = entry(fd) else { return };
    // What has just been made is what it is, whatever happened before.
    let word = replace(fd, entry, Word { kind, maker, record: 0, epoch: epoch(), generation: 0 });
    reaches(fd);
    if maker != 0 && environment::has_rings() {
        glance::keeps_counted(fd, entry, word);
    }
}

/// The number is being closed or replaced: nothing is known of it.
pub(crate) fn forget(fd: c_int) {
    let Some(entry) = entry(fd) else { return };
    let old = Word::unpack(entry.word.load(Ordering::Relaxed));
    // If nothing was known, the page stays untouched.
    if old.kind != Kind::Unknown || old.record != 0 {
        replace(fd, entry, Word::unpack(0));
    }
}

/// The number becomes something new: this, in its next generation.
#[inline]
fn replace(fd: c_int, entry: &Entry, new: Word) -> u64 {
    let old = Word::unpack(entry.word.load(Ordering::Relaxed));
    entry.cookie.store(0, Ordering::Relaxed);
    let word = Word { generation: old.generation.wrapping_add(1), ..new }.pack();
    entry.word.store(word, Ordering::Relaxed);
    glance::empties(fd);
    if old.record != 0 {
        rings::late::ends(fd);
        page::release(old.record);
    }
    word
}

/// All numbers from `first` to `last` are being closed.
pub(crate) fn forget_range(first: u32, last: u32) {
    let end = highest().min(last.saturating_add(1));
    for fd in first..end {
        forget(fd as c_int);
    }
}

/// The connection stays with the kernel, whatever becomes of it.
pub(crate) fn stays(fd: c_int) {
    change(fd, |word| Word { maker: 0, ..word });
}

/// All of them do.
pub(crate) fn stay_all() {
    for fd in 0..highest() {
        stays(fd as c_int);
    }
}

/// Changes what is known of a number, unless it becomes something else meanwhile. What does not change is not
/// written.
fn change(fd: c_int, how: impl Fn(Word) -> Word) {
    let Some(entry) = entry(fd) else { return };
    let word = entry.word.load(Ordering::Relaxed);
    let changed = how(Word::unpack(word)).pack();
    if changed != word {
        let _ = entry.word.compare_exchange(word, changed, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// `to` has become another number for what `from` is.
pub(crate) fn copied(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    become_new(to, kind(from), 0);
    stays(from);
}

/// What the number is, as far as is known.
pub(crate) fn kind(fd: c_int) -> Kind {
    entry(fd).map_or(Kind::Unknown, |entry| {
        let word = Word::unpack(entry.word.load(Ordering::Relaxed));
        if holds(word) { word.kind } else { Kind::Unknown }
    })
}

/// The socket has begun to listen.
pub(crate) fn listens(fd: c_int) {
    if kind(fd) == Kind::Tcp {
        made(fd, Kind::Listener);
    }
}

/// Bytes went through a connection that [`is_counted`].
#[inline(always)]
pub(crate) fn counted(fd: c_int, direction: page::Direction, bytes: u64) {
    let Some(entry) = entry(fd) else { return };
    let known = Word::unpack(entry.word.load(Ordering::Relaxed));
    let is_early = match known.record {
        // One that another thread has closed meanwhile is none any more.
        0 => known.kind == Kind::Tcp && early::counts(entry, direction, bytes),
        _ => rings::late::is_early(fd, bytes),
    };
    if !is_early {
        return used(fd, direction, bytes);
    }
    page::kernel(known.record, direction, bytes);
}

/// Bytes went through a descriptor of which nothing is known at a glance.
#[cold]
#[inline(never)]
pub(crate) fn used(fd: c_int, direction: page::Direction, bytes: u64) {
    let Some(entry) = entry(fd) else { return };
    let word = entry.word.load(Ordering::Relaxed);
    let known = Word::unpack(word);
    if !holds(known) || known.kind == Kind::Unknown {
        look_again(fd);
        // What cannot be asked for now is what it was when it was last known.
        let now = Word::unpack(entry.word.load(Ordering::Relaxed));
        if now.kind == Kind::Tcp {
            page::kernel(now.record, direction, bytes);
        }
        return;
    }
    if known.kind != Kind::Tcp {
        return glance::keeps(fd, entry, word);
    }
    if known.record == 0 {
        let is_early = !environment::is_forced() && early::counts(entry, direction, bytes);
        if !is_early && !early::is_cookie(entry.cookie.load(Ordering::Relaxed)) {
            look_again(fd);
        }
        // With the record that it may have got.
        return page::kernel(Word::unpack(entry.word.load(Ordering::Relaxed)).record, direction, bytes);
    }
    page::kernel(known.record, direction, bytes);
    match rings::late::counts(fd, bytes) {
        Use::Early => return glance::keeps_counted(fd, entry, word),
        Use::Due if begins(fd, entry, known) => return,
        _ => {}
    }
    if rings::conn::of(fd).is_none_or(|conn| conn.is(rings::conn::state::OVER)) {
        glance::keeps(fd, entry, word);
    }
}

/// A connection has been used for long: whether it may get a ring.
fn begins(fd: c_int, entry: &Entry, known: Word) -> bool {
    rings::pair::begin(fd, entry.cookie.load(Ordering::Relaxed), known.record, is_own(known))
}

/// As [`used`], by a child that borrows this memory and has descriptors of its own, of which nothing is known
/// here.
#[cold]
pub(crate) fn used_outside(fd: c_int, direction: page::Direction, bytes: u64) {
    if state::may_ask() && ask_kind(fd) == Kind::Tcp {
        page::kernel(0, direction, bytes);
    }
}

/// In the child of a fork: connections that have no record yet have not been used here.
pub(crate) fn forked() {
    for fd in 0..highest() {
        let Some(entry) = entry(fd as c_int) else { return };
        let word = Word::unpack(entry.word.load(Ordering::Relaxed));
        if word.kind == Kind::Tcp && word.record == 0 && entry.cookie.load(Ordering::Relaxed) != 0 {
            entry.cookie.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether this process has made it, and nobody else has it.
fn is_own(known: Word) -> bool {
    known.maker != 0 && known.maker == state::holders()
}

/// A connection has a record: whether it may get a ring, now or when it has been used for longer.
fn may_get_ring(fd: c_int, cookie: u64, known: Word) -> bool {
    let is_now = rings::forced::is_on() || rings::conn::of(fd).is_some() || !is_own(known);
    if is_now {
        return rings::pair::begin(fd, cookie, known.record, is_own(known));
    }
    rings::late::begins(fd)
}

/// Asks the kernel what the number is, and whether what was known of it still holds.
#[cold]
#[inline(never)]
pub(crate) fn look_again(fd: c_int) {
    let Some(entry) = entry(fd) else { return };
    let now = epoch();
    if !state::may_ask() || now == 0 {
        return;
    }
    let before = entry.word.load(Ordering::Relaxed);
    let kept = entry.cookie.load(Ordering::Relaxed);
    let old = Word::unpack(before);
    // Then its uses are counted where its cookie will be.
    let is_early = old.kind == Kind::Tcp && old.record == 0 && old.epoch == now;
    let (kind, cookie) = match raw::socket_option::<u64>(fd, libc::SO_COOKIE) {
        Ok(cookie) if is_early || (old.record != 0 && cookie == kept) => (old.kind, cookie),
        Ok(cookie) => (ask_kind(fd), cookie),
        Err(libc::ENOTSOCK) => (Kind::Other, 0),
        // Not open, or a kernel that gives no cookies: nothing is known, and asked for again.
        Err(_) => return,
    };
    let same = kind == old.kind && (cookie == kept || old.epoch == now);
    let generation = if same { old.generation } else { old.generation.wrapping_add(1) };
    let mut record = if same { old.record } else { 0 };
    // Another number for a connection that has a record.
    let is_copy = kind == Kind::Tcp && record == 0 && page::is_known(cookie);
    // If not even that is there, another thread may have put the cookie in its place.
    let early = Some(Early::unpack(kept)).filter(|early| is_early && early.uses > 0).unwrap_or_default();
    if kind == Kind::Tcp && record == 0 {
        record = page::take(fd, cookie, [early.bytes_in, early.bytes_out], is_copy);
    }
    entry.cookie.store(cookie, Ordering::Relaxed);
    reaches(fd);
    let maker = if same { old.maker } else { 0 };
    let after = Word { kind, maker, record, epoch: now, generation }.pack();
    if entry.word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        // Somebody closed it, or looked as well.
        if record != old.record {
            page::release(record);
        }
        return;
    }
    if record != old.record {
        page::release(old.record);
        match (early.uses > 0, is_copy) {
            (true, true) => page::used_before(),
            (false, false) if kind == Kind::Tcp => page::first_use(),
            _ => {}
        }
    }
    if kind != Kind::Tcp || !may_get_ring(fd, cookie, Word::unpack(after)) {
        glance::keeps(fd, entry, after);
    } else if rings::conn::of(fd).is_none() {
        glance::keeps_counted(fd, entry, after);
    }
}

/// What kind of socket it is, asked of the kernel.
fn ask_kind(fd: c_int) -> Kind {
    let ask = |option| raw::socket_option::<c_int>(fd, option).unwrap_or(-1);
    let kind = Kind::of_socket(ask(libc::SO_DOMAIN), ask(libc::SO_TYPE), ask(libc::SO_PROTOCOL));
    if kind == Kind::Tcp && ask(libc::SO_ACCEPTCONN) == 1 { Kind::Listener } else { kind }
}

/// For tests: the entry as it is.
#[cfg(test)]
pub(crate) fn word(fd: c_int) -> Word {
    entry(fd).map_or(Word::unpack(0), |entry| Word::unpack(entry.word.load(Ordering::Relaxed)))
}
