//! What each descriptor's number is now.
//!
//! A fixed array indexed by the number, in memory that is touched where it is used. An entry is a word (what it is, how often
//! the number has been something new, when that was last known to be so, and which record counts it) and the socket's cookie, which
//! the kernel gives to each socket once and which is the same for all its descriptors in all processes.
//!
//! Hooks that make or close descriptors write entries. What they can't see (a system call in assembly, the C library's own) is
//! found out by the cookie: an event after which such a thing is likely begins a new epoch, and an entry from an older one is
//! asked for again when it is next used. An empty entry means that nothing is known, never that there is nothing.

use libc::c_int;

use crate::raw;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::{page, state};

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
            | u64::from(self.record) << 16
            | u64::from(self.epoch) << 32
            | u64::from(self.generation) << 48
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Self {
            kind: Kind::of(word as u8),
            record: (word >> 16) as u16,
            epoch: (word >> 32) as u16,
            generation: (word >> 48) as u16,
        }
    }
}

struct Entry {
    word: AtomicU64,
    cookie: AtomicU64,
}

static TABLE: [Entry; NUMBERS] =
    [const { Entry { word: AtomicU64::new(0), cookie: AtomicU64::new(0) } }; NUMBERS];

/// In the epoch, of which only the low half counts, and never as 0: the table was given up.
const GIVEN_UP: u32 = 1 << 31;

/// One more than the highest number with an entry: bulk closes end here.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

fn entry(fd: c_int) -> Option<&'static Entry> {
    usize::try_from(fd).ok().and_then(|at| TABLE.get(at))
}

// Relaxed in all of this file: an entry's word changes as one, the cookie beside it is written before the word names an epoch and
// is only compared, and what a thread knows of a descriptor that another one made, it knows from there.

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
    state::next_epoch(1, 0);
    nothing_brief();
}

/// Bytes are not of an epoch: they are emptied.
fn nothing_brief() {
    for fd in 0..HIGHEST.load(Ordering::Relaxed).min(state::BRIEF as u32) {
        if let Some(brief) = state::brief(fd as c_int) {
            brief.store(0, Ordering::Relaxed);
        }
    }
}

/// One table can no longer describe the descriptors of all who run in this memory.
pub(crate) fn give_up() {
    state::next_epoch(0, GIVEN_UP);
    nothing_brief();
}

/// There is an entry for this number.
fn reaches(fd: c_int) {
    if HIGHEST.load(Ordering::Relaxed) <= fd as u32 {
        HIGHEST.fetch_max(fd as u32 + 1, Ordering::Relaxed);
    }
}

/// The number has become this.
pub(crate) fn made(fd: c_int, kind: Kind) {
    let Some(entry) = entry(fd) else { return };
    let old = Word::unpack(entry.word.load(Ordering::Relaxed));
    if old.kind == Kind::Unknown && kind == Kind::Unknown && old.record == 0 {
        // Nothing was known, and nothing is: the page stays untouched.
        return;
    }
    entry.cookie.store(0, Ordering::Relaxed);
    // What has just been made is what it is, whatever happened before.
    let epoch = if kind == Kind::Unknown { 0 } else { epoch() };
    let word = Word { kind, record: 0, epoch, generation: old.generation.wrapping_add(1) };
    entry.word.store(word.pack(), Ordering::Relaxed);
    if let Some(brief) = state::brief(fd)
        && brief.load(Ordering::Relaxed) != 0
    {
        brief.store(0, Ordering::Relaxed);
    }
    reaches(fd);
    page::release(old.record);
}

/// The number is being closed or replaced: nothing is known of it.
pub(crate) fn forget(fd: c_int) {
    made(fd, Kind::Unknown);
}

/// All numbers from `first` to `last` are being closed.
pub(crate) fn forget_range(first: u32, last: u32) {
    let end = HIGHEST.load(Ordering::Relaxed).min(last.saturating_add(1));
    for fd in first..end {
        forget(fd as c_int);
    }
}

/// `to` has become another number for what `from` is.
pub(crate) fn copied(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    made(to, kind(from));
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

/// Uses of a connection before the kernel is asked for its cookie: short ones never pay for it.
const EARLY_USES: u64 = 4;

/// What is known of a number at a glance: the number of its record plus one, [`NO_CONNECTION`], or 0 for nothing.
#[inline(always)]
pub(crate) fn brief(fd: c_int) -> u8 {
    state::brief(fd).map_or(0, |brief| brief.load(Ordering::Relaxed))
}

/// Of a number that is none that is counted.
pub(crate) const NO_CONNECTION: u8 = 255;
const _: () = assert!(sockets_rules::layout::RECORDS < NO_CONNECTION as usize);

/// Keeps in the byte what the word says, if that still is so.
fn keep_brief(fd: c_int, entry: &Entry, word: u64) {
    let Some(brief) = state::brief(fd) else { return };
    let Word { kind, record, .. } = Word::unpack(word);
    let value = match (kind, u8::try_from(record)) {
        (Kind::Unknown, _) => 0,
        (Kind::Tcp, Ok(record)) if usize::from(record) <= sockets_rules::layout::RECORDS => record,
        (Kind::Tcp, _) => 0,
        _ => NO_CONNECTION,
    };
    brief.store(value, Ordering::Relaxed);
    // Who closes it changes the word first, and then looks at the byte: but for his moment in between, one of the two sees the other,
    // and then a closed connection's record counts what is another's, until that number is used for something new.
    fence(Ordering::SeqCst);
    if entry.word.load(Ordering::Relaxed) != word || !holds(Word::unpack(word)) {
        brief.store(0, Ordering::Relaxed);
    }
}

/// The record that counts what goes through this descriptor: only a connection of TCP has one. A new one is counted with all
/// others until it has been used some times.
#[cold]
#[inline(never)]
pub(crate) fn record_of(fd: c_int) -> Option<u16> {
    let entry = entry(fd)?;
    let word = Word::unpack(entry.word.load(Ordering::Relaxed));
    if holds(word) {
        if word.record != 0 || (word.kind != Kind::Tcp && word.kind != Kind::Unknown) {
            keep_brief(fd, entry, word.pack());
            return word.record.checked_sub(1);
        }
        if word.kind == Kind::Tcp {
            return early(fd, entry);
        }
    }
    look_again(fd)
}

/// A use of a connection that has no record yet. Until it has one, its uses are counted in the place of its cookie.
#[cold]
#[inline(never)]
fn early(fd: c_int, entry: &Entry) -> Option<u16> {
    let uses = entry.cookie.load(Ordering::Relaxed);
    if uses == 0 {
        page::first_use();
    }
    if uses >= EARLY_USES {
        return look_again(fd);
    }
    entry.cookie.store(uses + 1, Ordering::Relaxed);
    Some(page::TOGETHER)
}

/// Asks the kernel what the number is, and what was known of it still holds.
#[cold]
#[inline(never)]
pub(crate) fn look_again(fd: c_int) -> Option<u16> {
    let entry = entry(fd)?;
    let now = epoch();
    if !state::may_ask() || now == 0 {
        return None;
    }
    let before = entry.word.load(Ordering::Relaxed);
    let old = Word::unpack(before);
    let (kind, cookie) = match raw::socket_option::<u64>(fd, libc::SO_COOKIE) {
        Ok(cookie) if old.record != 0 && cookie == entry.cookie.load(Ordering::Relaxed) => (old.kind, cookie),
        Ok(cookie) if old.kind == Kind::Tcp && old.record == 0 && old.epoch == now => (Kind::Tcp, cookie),
        Ok(cookie) => (ask_kind(fd), cookie),
        Err(libc::ENOTSOCK) => (Kind::Other, 0),
        // Not open, or a kernel that gives no cookies: nothing is known, and asked for again.
        Err(_) => return None,
    };
    let same = kind == old.kind && (cookie == entry.cookie.load(Ordering::Relaxed) || old.epoch == now);
    // Uses were counted there, so it has been counted.
    let counted = old.kind == Kind::Tcp && old.record == 0 && old.epoch == now;
    let generation = if same { old.generation } else { old.generation.wrapping_add(1) };
    let mut record = if same { old.record } else { 0 };
    if kind == Kind::Tcp && record == 0 {
        if !counted {
            page::first_use();
        }
        record = page::take(fd, cookie);
    }
    entry.cookie.store(cookie, Ordering::Relaxed);
    reaches(fd);
    let after = Word { kind, record, epoch: now, generation }.pack();
    let changed = entry.word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if !changed {
        // Somebody closed it, or looked as well.
        if record != old.record {
            page::release(record);
        }
        return None;
    }
    if record != old.record {
        page::release(old.record);
    }
    record.checked_sub(1)
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
