//! Whose memory this is: the process's own, a child's that shares it for a moment, or a child's
//! copy.
//!
//! One word, read at each interposer. It lies on a page that the kernel empties in the child of any fork,
//! also of one that no interposer saw (`forkpty`, a system call in assembly), so a child finds 0 there and
//! begins anew.
//!
//! The child of a `vfork` runs in its parent's memory with descriptors of its own: what it closes its parent
//! keeps. It must change nothing here. While a thread is between `vfork` and its return from it, each
//! interposer asks the kernel which process it is in.

use crate::near::NEAR;
use crate::raw;
use crate::sync::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::{page, table};

/// The word when nothing is special. The rest of it counts those who may have a child in their memory.
pub(crate) const RUNNING: u32 = 1;
/// Each of those.
const ONE_CHILD: u32 = 2;

/// What each interposer reads, in one page and mostly one line of the cache: after a system call little of
/// what is the program's is left there, and each further line costs more than all that an interposer
/// computes.
#[repr(C, align(4096))]
pub(crate) struct Wiped {
    word: AtomicU32,
    /// When entries of the table were last doubted; see [`table`].
    epoch: AtomicU32,
    /// Where is counted: the slot in the statistics file, or the process's own memory; null until bytes are
    /// counted. See [`page`].
    slot: AtomicPtr<AtomicU64>,
    /// Where the next definitions of the commonest calls are; see [`crate::interposer`].
    next: [AtomicUsize; HOT],
    /// What the table says of low numbers, in a byte each; see [`table`].
    brief: [AtomicU8; BRIEF],
}

/// How many numbers have a byte there.
pub(crate) const BRIEF: usize = 4096 - 64;

/// How many calls have their next definition in that line.
pub(crate) const HOT: usize = 6;

const _: () = assert!(size_of::<Wiped>() == 4096 && core::mem::offset_of!(Wiped, word) == 0);

/// Where the bytes of low numbers begin.
pub(crate) const BRIEF_AT: usize = core::mem::offset_of!(Wiped, brief);
/// Where the next definitions begin.
pub(crate) const HOT_AT: usize = core::mem::offset_of!(Wiped, next);

pub(crate) static WIPED: Wiped = Wiped {
    word: AtomicU32::new(0),
    epoch: AtomicU32::new(0),
    slot: AtomicPtr::new(core::ptr::null_mut()),
    next: [const { AtomicUsize::new(0) }; HOT],
    brief: [const { AtomicU8::new(0) }; BRIEF],
};

/// The epoch, for a child that finds it wiped.
static EPOCH: AtomicU32 = AtomicU32::new(1);
/// The slot, for a child to learn from what its parent knew.
static SLOT: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

/// The process that the table describes; 0 before the first interposer.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// One that could not be asked for its number.
const UNKNOWN: u32 = u32::MAX;

/// Threads that called `vfork` and have not been seen since, by the address that each has for itself. Their
/// children have the same.
static FORKERS: [AtomicUsize; 128] = [const { AtomicUsize::new(0) }; 128];

/// Set once the program has a filter of system calls: it may end the process for a call that the program
/// itself never makes.
static FILTERED: AtomicU32 = AtomicU32::new(0);

/// Whether nothing may be noted, because this is not the process that the table describes.
#[inline]
pub(crate) fn outside() -> bool {
    // Relaxed, as all in this file: what one process or thread must see of another here, the kernel orders
    // (fork, vfork).
    WIPED.word.load(Ordering::Relaxed) != RUNNING && is_outside()
}

#[cold]
#[inline(never)]
fn is_outside() -> bool {
    if WIPED.word.load(Ordering::Relaxed) == 0 {
        begin();
        return false;
    }
    let own = thread();
    for forker in &FORKERS {
        if forker.load(Ordering::Relaxed) != own {
            continue;
        }
        // It is back, or this is its child.
        if !may_ask() {
            table::give_up();
        } else if raw::getpid() != OWNER.load(Ordering::Relaxed) {
            return true;
        }
        if forker.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            WIPED.word.fetch_sub(ONE_CHILD, Ordering::Relaxed);
        }
    }
    false
}

/// The address that this thread has for itself: the first word of its block, which the psABI wants to hold
/// its own address.
pub(crate) fn thread() -> usize {
    let own: usize;
    // SAFETY: every thread of a program with a C library has such a block.
    unsafe { core::arch::asm!("mov {}, fs:0", out(reg) own, options(nostack, readonly, preserves_flags)) };
    own
}

/// The number of this process, if it may be asked for.
fn process() -> u32 {
    if may_ask() { raw::getpid() } else { UNKNOWN }
}

/// A process begins: its first interposer or constructor, or the first in a child with its own copy of the
/// memory.
fn begin() {
    if OWNER.load(Ordering::Relaxed) == 0 && crate::filter::is_inherited() {
        FILTERED.store(1, Ordering::Relaxed);
    }
    let forked = OWNER.swap(process(), Ordering::Relaxed) != 0;
    WIPED.epoch.store(EPOCH.load(Ordering::Relaxed), Ordering::Relaxed);
    if forked {
        for forker in &FORKERS {
            forker.store(0, Ordering::Relaxed);
        }
        page::forked(SLOT.swap(core::ptr::null_mut(), Ordering::Relaxed));
        shares_descriptors();
        table::forked();
        crate::holder::forked();
        crate::rings::conn::forked();
        crate::rings::epoll::forked();
        crate::rings::own::forked();
        crate::rings::closing::forked();
    }
    WIPED.slot.store(core::ptr::null_mut(), Ordering::Relaxed);
    if may_ask() {
        wipe_on_fork();
    }
    let _ = WIPED.word.compare_exchange(0, RUNNING, Ordering::Relaxed, Ordering::Relaxed);
}

/// Has the kernel empty the page in the child of any fork. Where it cannot, only forks that an interposer
/// sees are known.
fn wipe_on_fork() {
    let start = (&raw const WIPED) as usize;
    // SAFETY: the page holds nothing but the word, which may become 0 in a child.
    unsafe {
        raw::call(libc::SYS_madvise, [start, size_of::<Wiped>(), libc::MADV_WIPEONFORK as usize, 0, 0, 0])
    };
}

/// The constructor has run, or a fork has returned in the child.
pub(crate) fn started() {
    if WIPED.word.load(Ordering::Relaxed) == 0 {
        begin();
    }
}

/// An interposer saw a fork return in the child.
pub(crate) fn forked() {
    // Where the kernel has emptied the page, an interposer in a handler of the fork may have begun already.
    if !may_ask() || OWNER.load(Ordering::Relaxed) != raw::getpid() {
        WIPED.word.store(0, Ordering::Relaxed);
        WIPED.slot.store(core::ptr::null_mut(), Ordering::Relaxed);
        begin();
    }
}

/// This thread is about to make a child that borrows its memory until it executes something.
pub(crate) fn lends_memory() {
    if outside() {
        return;
    }
    if may_ask() {
        let own = thread();
        // Counted before it has its place: another thread that looks in between finds that it is not itself.
        WIPED.word.fetch_add(ONE_CHILD, Ordering::Relaxed);
        for forker in &FORKERS {
            if forker.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
        WIPED.word.fetch_sub(ONE_CHILD, Ordering::Relaxed);
    }
    // It can't be told from its child.
    table::give_up();
}

/// A process will share this memory for good, or a thread will have descriptors of its own: one table can't
/// describe both.
pub(crate) fn shares_memory() {
    if !outside() {
        crate::rings::leave::everything();
        table::give_up();
    }
}

/// Whether the program has ever jumped out of functions (`longjmp`).
static JUMPED: AtomicU32 = AtomicU32::new(0);

/// The program is about to jump, perhaps out of a signal handler and of the call that it interrupted.
pub(crate) fn jumps() {
    JUMPED.store(1, Ordering::Relaxed);
}

/// Whether it has. Without that, what a signal handler has interrupted goes on, on whichever stack the thread
/// is by now.
pub(crate) fn has_jumped() -> bool {
    JUMPED.load(Ordering::Relaxed) != 0
}

/// The program sets a filter of system calls, or a child does that has its memory. Who is who can't be asked
/// from now on.
pub(crate) fn filtered() {
    FILTERED.store(1, Ordering::Relaxed);
    if WIPED.word.load(Ordering::Relaxed) > RUNNING {
        table::give_up();
        for forker in &FORKERS {
            forker.store(0, Ordering::Relaxed);
        }
        WIPED.word.store(RUNNING, Ordering::Relaxed);
    }
}

/// Whether the library may make system calls of its own.
pub(crate) fn may_ask() -> bool {
    FILTERED.load(Ordering::Relaxed) == 0
}

/// The epoch: entries of the table that are from an older one are asked for again.
#[inline]
pub(crate) fn epoch() -> u32 {
    WIPED.epoch.load(Ordering::Relaxed)
}

/// Begins another epoch: later by so many, or with a bit set for good. Of two threads that do so at once
/// neither undoes the other's.
pub(crate) fn next_epoch(later: u32, bit: u32) -> u32 {
    let epoch = EPOCH.fetch_add(later, Ordering::Relaxed).wrapping_add(later) | bit;
    EPOCH.fetch_or(bit, Ordering::Relaxed);
    WIPED.epoch.fetch_max(epoch, Ordering::Relaxed);
    epoch
}

/// The byte of a low number.
#[inline(always)]
pub(crate) fn brief(fd: i32) -> Option<&'static AtomicU8> {
    WIPED.brief.get(usize::try_from(fd).ok()?)
}

/// The place of the next definition of one of the commonest calls: of those that move bytes, and behind them
/// of those that make and close connections.
#[inline(always)]
pub(crate) fn next(hot: usize) -> Option<&'static AtomicUsize> {
    match hot.checked_sub(HOT) {
        None => WIPED.next.get(hot),
        Some(near) => NEAR.next.get(near),
    }
}

/// Where is counted; null until bytes are.
#[inline(always)]
pub(crate) fn slot() -> *mut AtomicU64 {
    WIPED.slot.load(Ordering::Relaxed)
}

/// The same; another place where it is null.
#[inline(always)]
pub(crate) fn slot_or(other: impl FnOnce() -> *mut AtomicU64) -> *mut AtomicU64 {
    let slot = slot();
    if slot.is_null() { other() } else { slot }
}

/// From now on this is counted in.
pub(crate) fn set_slot(slot: *mut AtomicU64) {
    SLOT.store(slot, Ordering::Relaxed);
    WIPED.slot.store(slot, Ordering::Relaxed);
}

/// How often descriptors of this process have got another holder, as a tag that is never 0: a connection that
/// was made under another one may have holders that are not known.
pub(crate) fn holders() -> u8 {
    (NEAR.holders.load(Ordering::Relaxed) % TAGS) as u8 + 1
}

/// A child was made, which has all descriptors.
pub(crate) fn shares_descriptors() {
    if NEAR.holders.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(TAGS) {
        // From here on tags come again: what was made under one before is not to be taken for the process's
        // own.
        table::stay_all();
    }
}

/// How many tags there are.
const TAGS: u32 = 255;

/// Number of this process, as it was when it began.
pub(crate) fn owner() -> u32 {
    OWNER.load(Ordering::Relaxed)
}
