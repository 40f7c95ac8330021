//! Locks in shared memory between the holders of one end: threads of a process, and its children.
//!
//! A lock names its holder: the process ([`holder`](crate::holder::holder)) and a part of the address that
//! the thread has for itself. A short call, which makes no system call, holds it with the program's signals
//! open; so a signal handler of the thread may come to a lock that its own thread holds. Every other call
//! holds it with signals blocked.

use crate::holder;
use crate::raw;
use crate::state;
use crate::sync::{AtomicU64, Ordering};

/// Looks before a wait.
const LOOKS: u32 = 1000;
/// Every so many looks it is found out whether a process that lives has executed another program: that takes
/// longer than the other questions.
const MAPS_EVERY: u32 = 128;

/// One of them.
#[repr(C)]
pub(crate) struct Lock {
    /// Who holds it; 0 if nobody does.
    pub(crate) holder: AtomicU64,
    /// Where the stack was when a short call took it, of this end's processes alone.
    stack: AtomicU64,
}

/// This thread, as locks name it; never 0.
#[inline(always)]
pub(crate) fn own() -> u64 {
    u64::from(holder::holder()) << 32 | u64::from((state::thread() >> 6) as u32) & !SHORT
}

/// A short call holds it: for as long as a copy takes.
const SHORT: u64 = 1;

/// Where the stack is. It grows downwards.
#[inline(always)]
fn stack() -> u64 {
    let here: u64;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
    here
}

impl Lock {
    /// Takes it for a short call, if it is free.
    #[inline(always)]
    pub(crate) fn try_take(&self) -> bool {
        let here = stack();
        if self.changes(0, own() | SHORT) || self.is_taken_from_jump(here) {
            self.stack.store(here, Ordering::Relaxed);
            return true;
        }
        false
    }

    #[inline(always)]
    fn changes(&self, from: u64, to: u64) -> bool {
        self.holder.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    pub(crate) fn release(&self) {
        // Pairs with the Acquire of the next to take it.
        self.holder.store(0, Ordering::Release);
    }

    /// Whether a short call of another thread of this process has it.
    pub(crate) fn is_held_shortly(&self) -> bool {
        let holder = self.holder.load(Ordering::SeqCst);
        holder & SHORT != 0 && (holder >> 32) as u32 == holder::holder() && holder & !SHORT != own()
    }

    /// Whether a short call of this thread has it that will not go on, because a signal handler has jumped
    /// out of it: then it is this one's.
    ///
    /// Where the stacks are does not prove that: a handler may have a stack of its own of which the kernel
    /// does not tell (`SS_AUTODISARM`), or have put the thread onto another one (`swapcontext`). So it is
    /// concluded only in a program that has jumped.
    #[cold]
    #[inline(never)]
    fn is_taken_from_jump(&self, here: u64) -> bool {
        // What is interrupted stands above its handler on the stack.
        let is_above = || here < self.stack.load(Ordering::Relaxed);
        self.holder.load(Ordering::Relaxed) == own() | SHORT
            && state::has_jumped()
            && !is_above()
            && !is_on_signal_stack()
    }

    /// Takes it for a call with signals blocked, if it is free or this thread's own.
    fn try_take_long(&self) -> Option<Held> {
        let masked = Masked::begin();
        let is_nested = !self.changes(0, own());
        if is_nested && self.holder.load(Ordering::Relaxed) & !SHORT != own() {
            masked.end();
            return None;
        }
        Some(Held { masked, is_nested })
    }

    /// Waits until it may be free.
    fn waits(&self) {
        let mut looks = 0_u32;
        loop {
            let holder = self.holder.load(Ordering::SeqCst);
            if holder == 0 {
                return;
            }
            looks += 1;
            if looks < LOOKS {
                super::spin::relax();
                continue;
            }
            let process = (holder >> 32) as u32;
            if is_dead(holder, process) || looks.is_multiple_of(MAPS_EVERY) && self.was_left(process) {
                // Whoever takes it goes on from the words. Another one may have found out, too.
                self.changes(holder, 0);
                return;
            }
            super::run::sleep(100_000);
        }
    }
}

impl Lock {
    /// Whether the process that holds it has executed another program: its threads of before are no more
    /// then, and its memory of before is not there, which this lock lies in.
    #[cold]
    fn was_left(&self, process: u32) -> bool {
        if process == holder::holder() || !holder::is_number(process) || !holder::is_number(holder::holder())
        {
            return false;
        }
        let address = self.holder.as_ptr() as usize;
        super::own::with_descriptors(|| super::maps::has(process, address)).flatten() == Some(false)
    }
}

/// Whether this thread runs on the stack that it has for signal handlers: where that is says nothing about
/// what it interrupts.
fn is_on_signal_stack() -> bool {
    let mut now = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_ONSTACK, ss_size: 0 };
    if state::may_ask() {
        // SAFETY: room for what is written; nothing is changed.
        unsafe { raw::call(libc::SYS_sigaltstack, [0, (&raw mut now) as usize, 0, 0, 0, 0]) };
    }
    now.ss_flags & libc::SS_ONSTACK != 0
}

/// A lock that is held over what is not short: no signal handler of the program runs meanwhile.
pub(crate) struct Held {
    masked: Masked,
    /// The call of this thread that a signal has interrupted holds it, too, and goes on holding it.
    is_nested: bool,
}

impl Held {
    pub(crate) fn none() -> Self {
        Self { masked: Masked { signals: 0 }, is_nested: false }
    }

    /// Takes a lock. While it waits for it, signals are not blocked.
    pub(crate) fn take(lock: &Lock) -> Self {
        loop {
            if let Some(held) = lock.try_take_long() {
                return held;
            }
            lock.waits();
        }
    }

    pub(crate) fn is_nested(&self) -> bool {
        self.is_nested
    }

    pub(crate) fn release(&self, lock: &Lock) {
        if !self.is_nested {
            lock.release();
        }
        self.masked.end();
    }
}

/// A time in which no signal handler of the program runs in this thread.
pub(super) struct Masked {
    signals: u64,
}

impl Masked {
    pub(super) fn begin() -> Self {
        let mut signals = 0_u64;
        let all = u64::MAX;
        mask(&raw const all, &raw mut signals);
        Self { signals }
    }

    pub(super) fn end(&self) {
        mask(&raw const self.signals, core::ptr::null_mut());
    }
}

/// Sets the signals that wait.
fn mask(set: *const u64, old: *mut u64) {
    let how = libc::SIG_SETMASK as usize;
    // SAFETY: sets of the kernel's size, to read and to write.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, [how, set as usize, old as usize, 8, 0, 0]) };
}

/// Whether who holds a lock is proven to be no more. `known` is the process that may be, by a number that
/// means the same here; 0 for none.
pub(crate) fn is_dead(holder: u64, known: u32) -> bool {
    let process = (holder >> 32) as u32;
    if known == 0 || process != known || process == holder::holder() {
        return false;
    }
    if !holder::is_number(process) || !holder::is_number(holder::holder()) {
        // Numbers of one of them mean nothing to the other.
        return false;
    }
    super::own::with_descriptors(|| has_ended(process)).unwrap_or(false)
}

/// Whether there is no such process any more.
fn has_ended(process: u32) -> bool {
    // SAFETY: a new descriptor, closed below.
    let pidfd = unsafe { raw::call(libc::SYS_pidfd_open, [process as usize, 0, 0, 0, 0, 0]) };
    if pidfd < 0 {
        return pidfd == -(libc::ESRCH as isize);
    }
    // Of a process that has ended and was not waited for, the descriptor is readable.
    let has_ended = super::kernel::polled(pidfd as i32, libc::POLLIN, 0) != 0;
    // SAFETY: the descriptor from above.
    unsafe { raw::call(libc::SYS_close, [pidfd as usize, 0, 0, 0, 0, 0]) };
    has_ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Lock {
        Lock { holder: AtomicU64::new(0), stack: AtomicU64::new(0) }
    }

    /// Takes it further down the stack, as what a signal handler calls does.
    #[inline(never)]
    fn is_taken_below(lock: &Lock) -> bool {
        let room = core::hint::black_box([0_u8; 4096]);
        let is_taken = lock.try_take();
        core::hint::black_box(room);
        is_taken
    }

    #[test]
    fn what_a_handler_interrupts_keeps_its_lock() {
        let lock = free();
        assert!(lock.try_take());
        assert!(!is_taken_below(&lock));
        let nested = Held::take(&lock);
        assert!(nested.is_nested());
        nested.release(&lock);
        assert_eq!(
            lock.holder.load(Ordering::Relaxed),
            own() | SHORT,
            "the interrupted call goes on holding it"
        );
        lock.release();
        assert!(is_taken_below(&lock));
    }

    #[test]
    fn a_call_that_was_jumped_out_of_holds_nothing_up() {
        let lock = free();
        assert!(is_taken_below(&lock));
        if !state::has_jumped() {
            assert!(!lock.try_take(), "a thread may go on with it on another stack");
        }
        state::jumps();
        assert!(lock.try_take());
    }

    #[test]
    fn a_lock_of_another_thread_is_neither_nested_nor_free() {
        let lock = free();
        lock.holder.store((own() | SHORT) + 2, Ordering::Relaxed);
        lock.stack.store(0, Ordering::Relaxed);
        assert!(!lock.try_take());
        assert!(lock.try_take_long().is_none());
        assert!(lock.is_held_shortly());
    }

    /// Memory that children share.
    fn shared() -> &'static Lock {
        // SAFETY: a new descriptor and new memory of a page, which stay for the rest of the process; zeroes
        // are a free lock.
        unsafe {
            let fd = libc::memfd_create(c"lock".as_ptr(), 0);
            assert_eq!(libc::ftruncate(fd, 4096), 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let memory = libc::mmap(core::ptr::null_mut(), 4096, access, libc::MAP_SHARED, fd, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            &*memory.cast::<Lock>()
        }
    }

    #[test]
    fn a_lock_is_free_when_its_holder_has_executed_another_program_and_not_before() {
        let lock = shared();
        // SAFETY: the child makes calls of the kernel only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: arguments that end with 0 and null; the child ends in any case.
            unsafe {
                lock.holder.store(u64::from(libc::getpid() as u32) << 32 | 64, Ordering::SeqCst);
                while lock.stack.load(Ordering::SeqCst) == 0 {
                    libc::usleep(1000);
                }
                let (sleep, time) = (c"/bin/sleep".as_ptr(), c"60".as_ptr());
                libc::execl(sleep, sleep, time, core::ptr::null::<u8>());
                libc::_exit(1);
            }
        }
        while lock.holder.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(!lock.was_left(child as u32));
        lock.stack.store(1, Ordering::SeqCst);
        lock.waits();
        assert_eq!(lock.holder.load(Ordering::SeqCst), 0);
        // SAFETY: the child from above.
        unsafe {
            assert_eq!(libc::kill(child, libc::SIGKILL), 0, "it lives");
            libc::waitpid(child, core::ptr::null_mut(), 0);
        }
    }

    #[test]
    fn a_name_that_is_no_number_proves_no_death() {
        let nobody = 1_u32 << 31 | 4;
        assert!(!is_dead(u64::from(nobody) << 32, nobody));
    }
}
