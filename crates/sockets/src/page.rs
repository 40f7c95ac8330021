//! Counting: where the numbers stand that `tieline sockets stat` reads.
//!
//! Until a process has used a connection they stand in memory of its own. Then, once, it takes a slot in the file that the launcher
//! made, and goes on counting there. Without a file, without a free slot, on a file system that could run full under a mapping:
//! it goes on in its own memory, and there are no statistics.
//!
//! The constructor maps the file, whole: then there is one thread, and nobody who could close, copy or inherit the descriptor that
//! this takes. It is the only one that the library ever has for all of a process; two ends that meet ([`crate::rings::pair`]) have a few
//! for as long as that takes.

use libc::{c_char, c_int, c_long};
use sockets_rules::layout::{self, Note, Reason, head, record};

use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::{environment, raw, state};

/// A record's number (plus one) when all are taken.
const NONE_LEFT: u16 = u16::MAX;
/// Which way bytes go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    In,
    Out,
}

/// The numbers of a process without a slot.
static OWN: [AtomicU64; layout::SLOT_WORDS] = [const { AtomicU64::new(0) }; layout::SLOT_WORDS];
/// The file, once it is mapped; also in the children of forks.
static FILE: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// Whether a slot was looked for.
static LOOKED: AtomicU32 = AtomicU32::new(0);
/// Whether numbers stand in the file.
static FILE_SLOT: AtomicU32 = AtomicU32::new(0);
/// Whether the process ends.
static ENDS: AtomicU32 = AtomicU32::new(0);
/// Which records are taken.
static TAKEN: [AtomicU64; layout::RECORDS.div_ceil(64)] =
    [const { AtomicU64::new(0) }; layout::RECORDS.div_ceil(64)];

// Relaxed in all of this file: these are counters; nothing else is learnt from them.

/// The numbers of a process without a slot, as a place to count in.
pub(crate) fn own() -> *mut AtomicU64 {
    OWN.as_ptr().cast_mut()
}

/// A word of the numbers.
#[inline]
fn word(at: usize) -> &'static AtomicU64 {
    let slot = state::slot();
    let at = if at < layout::SLOT_WORDS { at } else { 0 };
    if slot.is_null() {
        &OWN[at]
    } else {
        // SAFETY: a slot lies in the file that the constructor mapped, which stays mapped for good. `at` lies in it.
        unsafe { &*slot.add(at) }
    }
}

/// Adds. Not as one step: that would cost as much as all else in a hook. Where two threads count in one place at the same moment, one
/// of the two may be missing from the sum.
fn add(at: usize, number: u64) {
    let word = word(at);
    word.store(word.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

/// Place of a record, by its number plus one.
fn place(record: u16) -> usize {
    layout::RECORDS_AT + (record as usize).wrapping_sub(1) * layout::RECORD_WORDS
}

/// Counts bytes of a connection that has no record yet.
pub(crate) fn count(way: Way, bytes: u64) {
    match way {
        Way::In => add(head::BYTES_IN, bytes),
        Way::Out => add(head::BYTES_OUT, bytes),
    }
}

/// Counts bytes that went through a ring.
#[inline(always)]
pub(crate) fn ring(way: Way, bytes: u64) {
    match way {
        Way::In => add(head::RING_IN, bytes),
        Way::Out => add(head::RING_OUT, bytes),
    }
}

/// Takes bytes back that were counted: from now on they are among those of its record.
pub(crate) fn count_back(bytes_in: u64, bytes_out: u64) {
    add(head::BYTES_IN, bytes_in.wrapping_neg());
    add(head::BYTES_OUT, bytes_out.wrapping_neg());
}

/// Asks the kernel what a connection has moved, for when nobody can ask any more.
pub(crate) fn keep_bytes(record: u16, fd: c_int) {
    if !state::may_ask() {
        return;
    }
    let Some((bytes_in, bytes_out)) = raw::tcp_bytes(fd) else { return };
    if usize::from(record) > layout::RECORDS {
        // It is closed, or the process ends: then those without a record are counted together.
        count_back(bytes_in.wrapping_neg(), bytes_out.wrapping_neg());
        return;
    }
    let at = place(record);
    word(at + record::BYTES_IN).store(bytes_in, Ordering::Relaxed);
    word(at + record::BYTES_OUT).store(bytes_out, Ordering::Relaxed);
}

/// Counts something that happened.
pub(crate) fn note(what: Note) {
    add(head::NOTES + what as usize, 1);
}

/// A connection is used for the first time.
pub(crate) fn first_use() {
    attach_once();
    add(head::CONNECTIONS, 1);
    add(head::REASONS + Reason::NotYet as usize, 1);
}

/// What was taken for another connection is one that was used before.
pub(crate) fn used_before() {
    add(head::CONNECTIONS, u64::MAX);
    add(head::REASONS + Reason::NotYet as usize, u64::MAX);
}

/// Whether a connection has a record.
pub(crate) fn is_known(cookie: u64) -> bool {
    others(0, cookie)
}

/// Whether a connection has another record than this one.
fn others(than: u16, cookie: u64) -> bool {
    let is_taken = |record: u16| {
        let number = usize::from(record - 1);
        TAKEN.get(number / 64).is_some_and(|taken| taken.load(Ordering::Relaxed) & 1 << (number % 64) != 0)
    };
    (1..=layout::RECORDS as u16).any(|record| {
        record != than
            && is_taken(record)
            && word(place(record) + record::COOKIE).load(Ordering::Relaxed) == cookie
    })
}

/// Whether a connection has a record of its own.
pub(crate) fn is_recorded(record: u16) -> bool {
    (1..=layout::RECORDS).contains(&usize::from(record))
}

/// Goes on counting in the file, if there is one and this process does not yet.
pub(crate) fn attach_once() {
    if LOOKED.load(Ordering::Relaxed) == 0 && LOOKED.swap(1, Ordering::Relaxed) == 0 {
        attach();
    }
}

/// The process is about to execute something else, which goes on counting where this one ends; or that has failed.
pub(crate) fn leaving(is_leaving: bool) {
    if FILE_SLOT.load(Ordering::Relaxed) != 0 {
        word(head::LEFT).store(u64::from(is_leaving), Ordering::Relaxed);
    }
}

/// Whether the process begins to end: only once.
pub(crate) fn ends() -> bool {
    ENDS.swap(1, Ordering::Relaxed) == 0
}

/// Gives the file's addresses back, if nothing was counted in it.
pub(crate) fn give_room() {
    if !FILE.load(Ordering::Relaxed).is_null() && LOOKED.swap(1, Ordering::Relaxed) == 0 {
        let file = FILE.swap(core::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: whoever would look for a slot finds that somebody did, so nobody uses the mapping.
        unsafe { raw::call(libc::SYS_munmap, [file as usize, layout::FILE_BYTES, 0, 0, 0, 0]) };
    }
}

/// A record for a connection: its number plus one.
pub(crate) fn take(fd: c_int, cookie: u64) -> u16 {
    attach_once();
    for (at, words) in TAKEN.iter().enumerate() {
        loop {
            let taken = words.load(Ordering::Relaxed);
            let bit = (!taken).trailing_zeros() as usize;
            let number = at * 64 + bit;
            if bit == 64 || number >= layout::RECORDS {
                break;
            }
            let now = taken | 1 << bit;
            if words.compare_exchange(taken, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                let record = number as u16 + 1;
                identify(record, fd, cookie);
                return record;
            }
        }
    }
    add(head::UNRECORDED, 1);
    NONE_LEFT
}

fn identify(record: u16, fd: c_int, cookie: u64) {
    let at = place(record);
    for counter in [record::BYTES_IN, record::BYTES_OUT] {
        word(at + counter).store(0, Ordering::Relaxed);
    }
    let reason = Reason::NotYet as u64;
    word(at + record::DESCRIPTOR).store(u64::from(fd as u32) | reason << 32, Ordering::Relaxed);
    word(at + record::COOKIE).store(cookie, Ordering::Relaxed);
}

/// A connection is on TCP for another reason from here on, or for none.
pub(crate) fn because(record: u16, reason: Reason) {
    if !is_recorded(record) {
        return;
    }
    let descriptor = word(place(record) + record::DESCRIPTOR);
    let kept = descriptor.load(Ordering::Relaxed);
    let before = (kept >> 32) as usize;
    if before < Reason::ALL.len() {
        add(head::REASONS + before, u64::MAX);
        add(head::REASONS + reason as usize, 1);
        descriptor.store(kept & u64::from(u32::MAX) | (reason as u64) << 32, Ordering::Relaxed);
    }
}

/// Gives a record back; what it counted goes into the totals.
pub(crate) fn release(record: u16) {
    if record == 0 || usize::from(record) > layout::RECORDS {
        return;
    }
    let at = place(record);
    // Another number of it goes on.
    let is_copied = others(record, word(at + record::COOKIE).load(Ordering::Relaxed));
    word(at + record::COOKIE).store(0, Ordering::Relaxed);
    for (counter, total) in [(record::BYTES_IN, head::BYTES_IN), (record::BYTES_OUT, head::BYTES_OUT)] {
        let counted = word(at + counter);
        if !is_copied {
            add(total, counted.load(Ordering::Relaxed));
        }
        counted.store(0, Ordering::Relaxed);
    }
    let number = usize::from(record - 1);
    if let Some(words) = TAKEN.get(number / 64) {
        words.fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
    }
}

/// In the child of a fork: its numbers start anew, in its own memory, with the connections that it inherited.
pub(crate) fn forked(slot: *mut AtomicU64) {
    for at in 0..layout::RECORDS_AT {
        // Only what is not 0 is written: a page that nobody touches is not copied.
        store_own(at, 0);
    }
    for (at, words) in TAKEN.iter().enumerate() {
        let mut taken = words.load(Ordering::Relaxed);
        while taken != 0 {
            let record = (at * 64 + taken.trailing_zeros() as usize) as u16 + 1;
            taken &= taken - 1;
            let from = place(record);
            if !slot.is_null() && from + layout::RECORD_WORDS <= layout::SLOT_WORDS {
                for word in [record::COOKIE, record::DESCRIPTOR] {
                    // SAFETY: within the parent's slot, which is still mapped.
                    store_own(from + word, unsafe { (*slot.add(from + word)).load(Ordering::Relaxed) });
                }
            }
            for counter in [record::BYTES_IN, record::BYTES_OUT] {
                store_own(from + counter, 0);
            }
        }
    }
    LOOKED.store(0, Ordering::Relaxed);
    FILE_SLOT.store(0, Ordering::Relaxed);
    ENDS.store(0, Ordering::Relaxed);
}

fn store_own(at: usize, value: u64) {
    if let Some(word) = OWN.get(at)
        && word.load(Ordering::Relaxed) != value
    {
        word.store(value, Ordering::Relaxed);
    }
}

/// Maps the file. Called by the constructor alone.
pub(crate) fn map_file() {
    let Some(path) = environment::statistics() else { return };
    if raw::is_limited(libc::RLIMIT_AS) {
        // What is taken here the program would miss.
        return;
    }
    if let Some(file) = File::open(path) {
        FILE.store(file.map().unwrap_or(core::ptr::null_mut()), Ordering::Relaxed);
        file.close();
    }
}

/// Takes a slot in the file, and goes on counting there.
#[cold]
#[inline(never)]
fn attach() {
    let file = FILE.load(Ordering::Relaxed);
    if file.is_null() || !state::may_ask() {
        return;
    }
    // SAFETY: the file's first page, which stays mapped.
    let head = unsafe { core::slice::from_raw_parts(file, layout::HEAD_BYTES / 8) };
    let Some(number) = claim(head) else { return };
    // SAFETY: within the file, as `number` is below SLOTS.
    let slot = unsafe { file.add(layout::HEAD_BYTES / 8 + number * layout::SLOT_WORDS) };
    // SAFETY: within the slot, which nobody else has.
    let of_slot = |at: usize| unsafe { &*slot.add(at) };
    // The same process counted there, before it executed this program.
    let goes_on = of_slot(head::PID).load(Ordering::Relaxed) == u64::from(state::owner())
        && of_slot(head::LEFT).load(Ordering::Relaxed) == 1;
    if goes_on {
        close_records(&of_slot);
    }
    for (at, own) in OWN.iter().enumerate() {
        let before = if goes_on && at < layout::RECORDS_AT { of_slot(at).load(Ordering::Relaxed) } else { 0 };
        of_slot(at).store(own.load(Ordering::Relaxed).wrapping_add(before), Ordering::Relaxed);
    }
    of_slot(head::LEFT).store(0, Ordering::Relaxed);
    of_slot(head::PID).store(u64::from(state::owner()), Ordering::Relaxed);
    FILE_SLOT.store(1, Ordering::Relaxed);
    state::set_slot(slot);
}

/// What the records of a program counted that is no more goes into its totals.
fn close_records(of_slot: &impl Fn(usize) -> &'static AtomicU64) {
    for record in 1..=layout::RECORDS as u16 {
        let at = place(record);
        if of_slot(at + record::COOKIE).load(Ordering::Relaxed) == 0 {
            continue;
        }
        for (counter, total) in [(record::BYTES_IN, head::BYTES_IN), (record::BYTES_OUT, head::BYTES_OUT)] {
            let sum = of_slot(total).load(Ordering::Relaxed);
            let counted = of_slot(at + counter).load(Ordering::Relaxed);
            of_slot(total).store(sum.wrapping_add(counted), Ordering::Relaxed);
        }
    }
}

/// The file of statistics, while it is mapped. Has no destructor, as nothing here has.
struct File(usize);

impl File {
    /// Opens and checks it. Somebody may have put anything there, and after a change of the root or the user it is not ours.
    fn open(path: *const c_char) -> Option<Self> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        // SAFETY: a path that ends with 0.
        let fd = unsafe {
            raw::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path as usize, flags as usize, 0, 0, 0])
        };
        let file = Self(usize::try_from(fd).ok()?);
        if file.is_ours() && file.cannot_run_full() {
            Some(file)
        } else {
            file.close();
            None
        }
    }

    fn call(&self, number: c_long, [b, c, d]: [usize; 3]) -> isize {
        // SAFETY: calls on the library's own descriptor, whose pointers, if any, are to room of the size that the kernel writes.
        unsafe { raw::call(number, [self.0, b, c, d, 0, 0]) }
    }

    fn close(&self) {
        self.call(libc::SYS_close, [0; 3]);
    }

    fn is_ours(&self) -> bool {
        let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
        if self.call(libc::SYS_fstat, [stat.as_mut_ptr() as usize, 0, 0]) != 0 {
            return false;
        }
        // SAFETY: the kernel has filled it in.
        let stat = unsafe { stat.assume_init_ref() };
        // SAFETY: takes nothing, changes nothing.
        let user = unsafe { raw::call(libc::SYS_geteuid, [0; 6]) };
        stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && stat.st_mode & 0o022 == 0
            && stat.st_uid as isize == user
            && stat.st_size as usize == layout::FILE_BYTES
            // All of it is there already: a store to a page that the file system has no room for would end the program.
            && stat.st_blocks as usize * 512 >= layout::FILE_BYTES
    }

    /// Only file systems on which room that was reserved is there when it is written: elsewhere a store could end the program.
    fn cannot_run_full(&self) -> bool {
        let mut stat = core::mem::MaybeUninit::<libc::statfs>::uninit();
        if self.call(libc::SYS_fstatfs, [stat.as_mut_ptr() as usize, 0, 0]) != 0 {
            return false;
        }
        // SAFETY: the kernel has filled it in.
        let kind = unsafe { stat.assume_init_ref() }.f_type;
        const XFS: c_long = 0x5846_5342;
        [libc::TMPFS_MAGIC, libc::EXT4_SUPER_MAGIC, libc::OVERLAYFS_SUPER_MAGIC, XFS].contains(&kind)
    }

    fn map(&self) -> Option<*mut AtomicU64> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let shared = libc::MAP_SHARED as usize;
        // SAFETY: a new mapping, wherever the kernel likes.
        let mapped =
            unsafe { raw::call(libc::SYS_mmap, [0, layout::FILE_BYTES, protection, shared, self.0, 0]) };
        (mapped > 0).then_some(mapped as *mut AtomicU64)
    }
}

/// Writes this process's number to the place of a slot: its own from before it executed something, a free one, or a dead one's.
fn claim(words: &[AtomicU64]) -> Option<usize> {
    let own = u64::from(state::owner());
    if words.first()?.load(Ordering::Relaxed) != layout::MAGIC {
        return None;
    }
    let owners = words.get(layout::OWNERS..layout::OWNERS + layout::SLOTS)?;
    if let Some(mine) = owners.iter().position(|owner| owner.load(Ordering::Relaxed) == own) {
        return Some(mine);
    }
    let take = |owner: &AtomicU64, from| {
        owner.compare_exchange(from, own, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    owners.iter().position(|owner| take(owner, 0)).or_else(|| {
        owners.iter().position(|owner| {
            let other = owner.load(Ordering::Relaxed);
            // SAFETY: signal 0 only asks whether there is such a process.
            let asked = unsafe { raw::call(libc::SYS_kill, [other as usize, 0, 0, 0, 0, 0]) };
            asked == -(libc::ESRCH as isize) && take(owner, other)
        })
    })
}
