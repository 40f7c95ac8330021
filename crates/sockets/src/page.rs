//! The counters that `tieline sockets stat` reads.
//!
//! When a process first uses a connection it takes a slot in the file that the launcher made, and counts
//! there. Without a file, without a free slot, on a file system that could run full under a mapping: it
//! counts in memory of its own, and there are no statistics.
//!
//! A byte is counted once at each end, when the call that moved it is known to have: what the kernel moved
//! behind the program's own call, what went through a ring under that ring's lock. Counters of bytes only
//! grow, also where a record changes hands, so no thread can undo what another one counts.
//!
//! The constructor maps the file, whole: then there is one thread, and nobody who could close, copy or
//! inherit the descriptor that this takes. It is the only one that the library ever has for all of a process;
//! two ends that meet ([`crate::rings::pair`]) have a few for as long as that takes.

mod file;

use core::arch::asm;

use libc::c_int;
use sockets_rules::layout::{self, Note, Reason, head, record};

use self::file::{File, claim};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::{environment, raw, state};

/// A record's number (plus one) when all are taken.
const NONE_LEFT: u16 = u16::MAX;
/// Whether bytes come into the program or leave it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    In,
    Out,
}

/// The numbers of a process without a slot, in the lines of the cache that those of a slot are in.
#[repr(align(64))]
struct Own([AtomicU64; layout::SLOT_WORDS]);

static OWN: Own = Own([const { AtomicU64::new(0) }; layout::SLOT_WORDS]);
/// The file, once it is mapped; also in the children of forks.
static FILE: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// Whether a slot was looked for: [`HAS_LOOKED`], or the thread that is at it, or 0.
static LOOKING: AtomicUsize = AtomicUsize::new(0);
/// No thread has this address for itself.
const HAS_LOOKED: usize = 1;
/// Whether numbers stand in the file.
static FILE_SLOT: AtomicU32 = AtomicU32::new(0);
/// Whether the process ends.
static ENDS: AtomicU32 = AtomicU32::new(0);
/// Which records are taken, and one more than the highest that ever was.
static TAKEN: [AtomicU64; layout::RECORDS.div_ceil(64)] =
    [const { AtomicU64::new(0) }; layout::RECORDS.div_ceil(64)];
static EVER_TAKEN: AtomicUsize = AtomicUsize::new(0);

// Relaxed in all of this file: these are counters; nothing else is learnt from them.

/// A word of this slot.
#[inline(always)]
fn word_of(slot: *mut AtomicU64, at: usize) -> &'static AtomicU64 {
    let at = if at < layout::SLOT_WORDS { at } else { 0 };
    // SAFETY: a slot is `OWN`, or lies in the file that the constructor mapped, which stays mapped for good.
    // `at` lies in it.
    unsafe { &*slot.add(at) }
}

/// A word of the numbers, to count bytes or connections in: the process has a slot from here on, if it can
/// have one.
#[inline(always)]
fn word(at: usize) -> &'static AtomicU64 {
    let slot = state::slot();
    word_of(if slot.is_null() { attach_once() } else { slot }, at)
}

/// A word of the numbers as they stand now, for what is no reason to take a slot.
fn present(at: usize) -> &'static AtomicU64 {
    let slot = state::slot();
    word_of(if slot.is_null() { OWN.0.as_ptr().cast_mut() } else { slot }, at)
}

/// Adds, where only the holder of a lock counts: in one instruction, so that a signal handler of this thread,
/// which may have the lock as well, is not undone. Others would be.
#[inline(always)]
fn add_alone(word: &AtomicU64, number: u64) {
    // SAFETY: the word's own address.
    unsafe {
        asm!("add qword ptr [{word}], {number}", word = in(reg) word.as_ptr(), number = in(reg) number, options(nostack));
    }
}

fn add(at: usize, number: u64) {
    word(at).fetch_add(number, Ordering::Relaxed);
}

/// Place of a record, by its number plus one.
#[inline(always)]
fn place(record: u16) -> usize {
    layout::RECORDS_AT + (record as usize).wrapping_sub(1) * layout::RECORD_WORDS
}

/// Why a connection that is used for the first time is on TCP.
fn at_first() -> Reason {
    if environment::has_rings() { Reason::NotYet } else { Reason::WithoutRings }
}

/// Counts bytes that a call of the program has moved through the kernel. Of a connection without a record all
/// are counted together.
#[inline(always)]
pub(crate) fn kernel(record: u16, direction: Direction, bytes: u64) {
    let at = match (direction, is_recorded(record)) {
        (Direction::In, true) => place(record) + record::KERNEL_IN,
        (Direction::Out, true) => place(record) + record::KERNEL_OUT,
        (Direction::In, false) => head::of(at_first() as usize, head::KERNEL_IN),
        (Direction::Out, false) => head::of(at_first() as usize, head::KERNEL_OUT),
    };
    add(at, bytes);
}

/// Counts bytes that were put into a ring, or taken from one. Called by who has the ring's lock for that.
#[inline(always)]
pub(crate) fn memory(record: u16, direction: Direction, bytes: u64) {
    if !is_recorded(record) {
        return memory_together(direction, bytes);
    }
    let counter = match direction {
        Direction::In => record::MEMORY_IN,
        Direction::Out => record::PUT,
    };
    add_alone(word(place(record) + counter), bytes);
}

#[cold]
fn memory_together(direction: Direction, bytes: u64) {
    let counter = match direction {
        Direction::In => head::MEMORY_IN,
        Direction::Out => head::PUT,
    };
    add(counter, bytes);
}

/// Counts bytes of a ring that the kernel has taken, so that they did not go through memory.
pub(crate) fn returned(record: u16, bytes: u64) {
    let at = if is_recorded(record) { place(record) + record::RETURNED } else { head::RETURNED };
    add(at, bytes);
}

/// Counts bytes that were given to the kernel beside a ring, because their reader slept: they are counted
/// with others of the kernel, too.
pub(crate) fn asleep(record: u16, bytes: u64) {
    let at = if is_recorded(record) { place(record) + record::ASLEEP } else { head::ASLEEP };
    add(at, bytes);
}

/// Counts something that happened.
pub(crate) fn note(what: Note) {
    present(head::NOTES + what as usize).fetch_add(1, Ordering::Relaxed);
}

/// A connection is used for the first time.
#[unsafe(link_section = ".text.near")]
pub(crate) fn first_use() {
    add(head::CONNECTIONS, 1);
    add(head::of(at_first() as usize, head::BECAUSE), 1);
}

/// What was taken for another connection is one that was used before.
pub(crate) fn used_before() {
    word(head::CONNECTIONS).fetch_sub(1, Ordering::Relaxed);
    word(head::of(at_first() as usize, head::BECAUSE)).fetch_sub(1, Ordering::Relaxed);
}

/// Whether a connection has a record. Only those that are taken are looked at: a short connection would pay
/// for a look at all.
pub(crate) fn is_known(cookie: u64) -> bool {
    TAKEN.iter().enumerate().any(|(at, taken)| {
        let mut left = taken.load(Ordering::Relaxed);
        let mut is_it = false;
        while left != 0 && !is_it {
            let record = (at * 64) as u16 + left.trailing_zeros() as u16 + 1;
            left &= left - 1;
            is_it = present(place(record) + record::COOKIE).load(Ordering::Relaxed) == cookie;
        }
        is_it
    })
}

/// Whether a connection has a record of its own.
#[inline(always)]
pub(crate) fn is_recorded(record: u16) -> bool {
    usize::from(record).wrapping_sub(1) < layout::RECORDS
}

/// The process is about to execute something else, which goes on counting where this one ends; or that has
/// failed.
pub(crate) fn leaving(is_leaving: bool) {
    if FILE_SLOT.load(Ordering::Relaxed) != 0 {
        present(head::LEFT).store(u64::from(is_leaving), Ordering::Relaxed);
    }
}

/// Whether the process begins to end: only once.
pub(crate) fn ends() -> bool {
    ENDS.swap(1, Ordering::Relaxed) == 0
}

/// Gives the file's addresses back, if nothing was counted in it.
pub(crate) fn give_room() {
    let is_first = || LOOKING.compare_exchange(0, HAS_LOOKED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if !FILE.load(Ordering::Relaxed).is_null() && is_first() {
        let file = FILE.swap(core::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: whoever would look for a slot finds that somebody did, so nobody uses the mapping.
        unsafe { raw::call(libc::SYS_munmap, [file as usize, layout::FILE_BYTES, 0, 0, 0, 0]) };
    }
}

/// A record for a connection: its number plus one. What was moved before it had one is shown with it, and
/// counted elsewhere; a connection of which a record is there already `is_copy`.
pub(crate) fn take(fd: c_int, cookie: u64, before: [u64; 2], is_copy: bool) -> u16 {
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
                EVER_TAKEN.fetch_max(number + 1, Ordering::Relaxed);
                let record = number as u16 + 1;
                identify(record, u64::from(fd as u32) | if is_copy { record::COPY } else { 0 }, before);
                word(place(record) + record::COOKIE).store(cookie, Ordering::Relaxed);
                return record;
            }
        }
    }
    add(head::UNRECORDED, 1);
    NONE_LEFT
}

fn identify(record: u16, descriptor: u64, [bytes_in, bytes_out]: [u64; 2]) {
    // A call on the connection that had it before may have come back since.
    tell(state::slot_or(attach_once), record);
    let at = place(record);
    let [now_in, now_out] = counted(at);
    word(at + record::BEFORE_IN).store(now_in.wrapping_sub(bytes_in), Ordering::Relaxed);
    word(at + record::BEFORE_OUT).store(now_out.wrapping_sub(bytes_out), Ordering::Relaxed);
    let reason = at_first() as u64;
    word(at + record::DESCRIPTOR).store(descriptor | reason << 32, Ordering::Relaxed);
}

/// What a record has counted, of all connections that have had it.
fn counted(at: usize) -> [u64; 2] {
    let sum = |counters: [usize; 2]| {
        counters
            .iter()
            .fold(0_u64, |sum, counter| sum.wrapping_add(present(at + counter).load(Ordering::Relaxed)))
    };
    [sum([record::KERNEL_IN, record::MEMORY_IN]), sum([record::KERNEL_OUT, record::PUT])]
}

/// What a record's connection has moved through the kernel stands with the reason for that in the head,
/// before the record says another one.
fn tell(slot: *mut AtomicU64, record: u16) {
    let at = place(record);
    let reason = record::reason(word_of(slot, at + record::DESCRIPTOR).load(Ordering::Relaxed));
    if reason >= Reason::ALL.len() {
        return;
    }
    for (counter, told, by_reason) in [
        (record::KERNEL_IN, record::TOLD_IN, head::KERNEL_IN),
        (record::KERNEL_OUT, record::TOLD_OUT, head::KERNEL_OUT),
    ] {
        let counted = word_of(slot, at + counter).load(Ordering::Relaxed);
        // Of two threads that do this at once each tells what the other one has not. In this order a reader
        // who looks in between misses some, and sees none twice.
        let before = word_of(slot, at + told).fetch_max(counted, Ordering::Relaxed);
        if counted > before {
            word_of(slot, head::of(reason, by_reason)).fetch_add(counted - before, Ordering::Relaxed);
        }
    }
}

/// A connection is on TCP for another reason from here on, or for none.
pub(crate) fn because(record: u16, reason: Reason) {
    if !is_recorded(record) {
        return;
    }
    let at = place(record);
    if present(at + record::COOKIE).load(Ordering::Relaxed) == 0 {
        // In a child, whose parent had not counted it yet.
        return;
    }
    tell(state::slot_or(own), record);
    let descriptor = present(at + record::DESCRIPTOR);
    let changed = |kept: u64| Some(kept & !(0xff << 32) | (reason as u64) << 32);
    let Ok(kept) = descriptor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed) else { return };
    let before = record::reason(kept);
    if before < Reason::ALL.len() && kept & (record::INHERITED | record::COPY) == 0 {
        present(head::of(before, head::BECAUSE)).fetch_sub(1, Ordering::Relaxed);
        present(head::of(reason as usize, head::BECAUSE)).fetch_add(1, Ordering::Relaxed);
    }
}

fn own() -> *mut AtomicU64 {
    OWN.0.as_ptr().cast_mut()
}

/// Gives a record back; what it counted stays.
pub(crate) fn release(record: u16) {
    if !is_recorded(record) {
        return;
    }
    close_record(state::slot_or(own), record);
    let number = usize::from(record - 1);
    if let Some(words) = TAKEN.get(number / 64) {
        words.fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
    }
}

/// The connection of a record is no more.
fn close_record(slot: *mut AtomicU64, record: u16) {
    let at = place(record);
    if word_of(slot, at + record::COOKIE).swap(0, Ordering::Relaxed) == 0 {
        return;
    }
    // Whoever has it next has a reason of its own.
    tell(slot, record);
    let descriptor = word_of(slot, at + record::DESCRIPTOR);
    let kept = descriptor.fetch_and(!record::INHERITED, Ordering::Relaxed);
    let load = |word: usize| word_of(slot, at + word).load(Ordering::Relaxed);
    let was_used = [record::KERNEL_IN, record::MEMORY_IN, record::KERNEL_OUT, record::PUT]
        .iter()
        .fold(0_u64, |sum, counter| sum.wrapping_add(load(*counter)))
        != load(record::BEFORE_IN).wrapping_add(load(record::BEFORE_OUT));
    let reason = record::reason(kept);
    if kept & record::INHERITED != 0 && was_used && reason < Reason::ALL.len() {
        word_of(slot, head::CONNECTIONS).fetch_add(1, Ordering::Relaxed);
        word_of(slot, head::of(reason, head::BECAUSE)).fetch_add(1, Ordering::Relaxed);
    }
}

/// In the child of a fork: its numbers start anew, in its own memory, with the connections that it inherited.
pub(crate) fn forked(slot: *mut AtomicU64) {
    for at in 0..layout::RECORDS_AT {
        // Only what is not 0 is written: a page that nobody touches is not copied.
        store_own(at, 0);
    }
    for number in 0..EVER_TAKEN.load(Ordering::Relaxed).min(layout::RECORDS) {
        let from = place(number as u16 + 1);
        let is_taken = TAKEN
            .get(number / 64)
            .is_some_and(|taken| taken.load(Ordering::Relaxed) & 1 << (number % 64) != 0);
        let of_parent =
            |at: usize| if slot.is_null() { 0 } else { word_of(slot, from + at).load(Ordering::Relaxed) };
        let (cookie, descriptor) = (of_parent(record::COOKIE), of_parent(record::DESCRIPTOR));
        for at in from..from + layout::RECORD_WORDS {
            store_own(at, 0);
        }
        if is_taken && cookie != 0 {
            store_own(from + record::COOKIE, cookie);
            store_own(from + record::DESCRIPTOR, descriptor | record::INHERITED);
        }
    }
    LOOKING.store(0, Ordering::Relaxed);
    FILE_SLOT.store(0, Ordering::Relaxed);
    ENDS.store(0, Ordering::Relaxed);
}

fn store_own(at: usize, value: u64) {
    if let Some(word) = OWN.0.get(at)
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

/// Waits of a tenth of a millisecond for another thread that takes the slot: much longer than that takes.
const WAITS: u32 = 1000;

/// Takes a slot in the file, if there is one and this process has none yet; where is counted from now on.
#[cold]
#[inline(never)]
fn attach_once() -> *mut AtomicU64 {
    let thread = state::thread();
    match LOOKING.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            let slot = attach().unwrap_or_else(own);
            state::set_slot(slot);
            if slot != own() {
                // What a signal handler of this thread has counted meanwhile.
                join(slot);
            }
            LOOKING.store(HAS_LOOKED, Ordering::Relaxed);
        }
        Err(HAS_LOOKED) => state::set_slot(own()),
        // A handler of the thread that is at it.
        Err(other) if other == thread => return own(),
        Err(_) => {
            let mut waits = 0;
            while state::slot().is_null() && waits < WAITS && state::may_ask() {
                crate::rings::sleep(100_000);
                waits += 1;
            }
        }
    }
    state::slot_or(own)
}

/// A slot in the file, with the connections that this process has.
fn attach() -> Option<*mut AtomicU64> {
    let file = FILE.load(Ordering::Relaxed);
    if file.is_null() || !state::may_ask() {
        return None;
    }
    // SAFETY: the file's first page, which stays mapped.
    let words = unsafe { core::slice::from_raw_parts(file, layout::HEAD_BYTES / 8) };
    let number = claim(words)?;
    // SAFETY: within the file, as `number` is below SLOTS.
    let slot = unsafe { file.add(layout::HEAD_BYTES / 8 + number * layout::SLOT_WORDS) };
    let of_slot = |at: usize| word_of(slot, at);
    // The same process counted there, before it executed this program.
    let goes_on = of_slot(head::PID).load(Ordering::Relaxed) == u64::from(state::owner())
        && of_slot(head::LEFT).load(Ordering::Relaxed) == 1;
    if goes_on {
        (1..=layout::RECORDS as u16).for_each(|record| close_record(slot, record));
    } else {
        // The number first: until it stands there again nobody reads the slot.
        for at in 0..layout::SLOT_WORDS {
            of_slot(at).store(0, Ordering::Relaxed);
        }
    }
    for number in 0..EVER_TAKEN.load(Ordering::Relaxed).min(layout::RECORDS) {
        let at = place(number as u16 + 1);
        for word in [record::DESCRIPTOR, record::COOKIE] {
            of_slot(at + word).store(word_of(own(), at + word).load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    join(slot);
    of_slot(head::LEFT).store(0, Ordering::Relaxed);
    of_slot(head::PID).store(u64::from(state::owner()), Ordering::Relaxed);
    FILE_SLOT.store(1, Ordering::Relaxed);
    Some(slot)
}

/// What was counted in the process's own memory is counted in the slot.
fn join(slot: *mut AtomicU64) {
    let is_counter = |at: usize| match at.checked_sub(layout::RECORDS_AT) {
        None => at != head::PID && at != head::LEFT,
        Some(behind) => behind % layout::RECORD_WORDS > record::BEFORE_OUT,
    };
    let end =
        layout::RECORDS_AT + EVER_TAKEN.load(Ordering::Relaxed).min(layout::RECORDS) * layout::RECORD_WORDS;
    for (at, own) in OWN.0.iter().enumerate().take(end) {
        if is_counter(at) && own.load(Ordering::Relaxed) != 0 {
            word_of(slot, at).fetch_add(own.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// For tests: a number as it stands now.
#[cfg(test)]
pub(crate) fn number(at: usize) -> u64 {
    present(at).load(Ordering::Relaxed)
}

/// For tests: the place of a record.
#[cfg(test)]
pub(crate) fn place_of(record: u16) -> usize {
    place(record)
}
