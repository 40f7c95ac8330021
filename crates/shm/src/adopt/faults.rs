//! Delays stores to memory that is being replaced: they fault, and are tried again.
//!
//! The handler of SIGSEGV is installed with the first replacement and stays, because a thread may have
//! faulted and not yet have come to it when the replacement ends. Whatever is not its business goes to the
//! handler that was there before. A program that installs a handler of its own later is served too: the next
//! replacement puts one of ours over it again, another function every time, so that handlers that call the
//! one before them never call in a circle.

use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr;

use crate::origin::Origin;
use crate::process::SignalsBlocked;
use crate::sync::plain::{AtomicU32, AtomicUsize, Ordering};
use crate::{Error, Result};
use rustix::io::Errno;

/// `si_code`: the page is there, the access is not allowed (`asm-generic/siginfo.h`).
const SEGV_ACCERR: c_int = 2;
/// How often a program may put a handler of its own over ours.
const LEVELS: usize = 8;

/// The process that replaces memory at the moment, or 0: there is one replacement at a time.
static TURN: AtomicU32 = AtomicU32::new(0);
/// The range whose stores wait; the start is 0 if there is none.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
/// How often stores to a range began to wait. A fault that is judged while this changes is judged again.
static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// What a signal went to before.
struct Before {
    handler: AtomicUsize,
    flags: AtomicUsize,
}

static BEFORE: [Before; LEVELS] =
    [const { Before { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicUsize::new(0) } }; LEVELS];
/// How many of ours are installed. Written by the one that has the turn.
static INSTALLED: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
const OURS: [Handler; LEVELS] = [
    on_fault::<0>,
    on_fault::<1>,
    on_fault::<2>,
    on_fault::<3>,
    on_fault::<4>,
    on_fault::<5>,
    on_fault::<6>,
    on_fault::<7>,
];

/// The right to replace memory, of one thread of the process at a time.
#[derive(Debug)]
pub(super) struct Replacement {
    /// A handler of the program that stored to the memory would wait for the very thread that it interrupts.
    _quiet: SignalsBlocked,
}

impl Replacement {
    /// Waits for its turn. Another thread's takes as long as copying the memory does.
    pub(super) fn begin() -> Result<Self> {
        let quiet = SignalsBlocked::here();
        let here = Origin::here().pid();
        loop {
            // Acquire: pairs with the Release in `drop`.
            let seen = TURN.load(Ordering::Acquire);
            // A turn of another process is what a forked child has inherited from a thread that it does not
            // have.
            if seen != here && TURN.compare_exchange(seen, here, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                if seen != 0 {
                    free_inherited();
                }
                break;
            }
            rustix::thread::sched_yield();
        }
        let this = Self { _quiet: quiet };
        this.let_go();
        install()?;
        Ok(this)
    }

    /// Stores to this range wait from now on.
    pub(super) fn hold_up(&self, start: usize, end: usize) {
        END.store(end, Ordering::Relaxed);
        // Release: pairs with the Acquire in `holder_of`.
        START.store(start, Ordering::Release);
        // After the range and before the pages are protected: a fault that finds neither the range nor a new
        // count was not caused by this replacement.
        CHANGES.fetch_add(1, Ordering::SeqCst);
    }

    /// They continue.
    pub(super) fn let_go(&self) {
        START.store(0, Ordering::Relaxed);
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        self.let_go();
        // Release: pairs with the Acquire in `begin`.
        TURN.store(0, Ordering::Release);
    }
}

/// Puts one of ours on top, unless it is there.
fn install() -> Result<()> {
    let failed = |errno| Error::System { what: "sigaction(SIGSEGV)", errno };
    // SAFETY: a sigaction is plain integers, for which zeroes are valid.
    let mut before: libc::sigaction = unsafe { zeroed() };
    // SAFETY: with no new action (null) the call only writes the present one.
    if unsafe { libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut before) } != 0 {
        return Err(failed(Errno::INVAL));
    }
    if OURS.iter().any(|ours| *ours as usize == before.sa_sigaction) {
        return Ok(());
    }
    let level = INSTALLED.load(Ordering::Relaxed);
    let (Some(place), Some(ours)) = (BEFORE.get(level), OURS.get(level)) else {
        // The program installs handlers again and again, and drops ours each time.
        return Err(failed(Errno::MFILE));
    };
    place.flags.store(usize::try_from(before.sa_flags).unwrap_or(0), Ordering::Relaxed);
    // Release: pairs with the Acquire in `pass_on`.
    place.handler.store(before.sa_sigaction, Ordering::Release);
    INSTALLED.store(level + 1, Ordering::Relaxed);
    let mut action = before;
    action.sa_sigaction = *ours as usize;
    // What else the handler before relied on stays as it is: other signals blocked, or this one not.
    let kept = libc::SA_NODEFER | libc::SA_RESTART;
    action.sa_flags = before.sa_flags & kept | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is a function of this type, and does nothing that a signal handler must not.
    match unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(failed(Errno::INVAL)),
    }
}

extern "C" fn on_fault<const LEVEL: usize>(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel calls it with all three; errno is the thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        let is_ours = (*info).si_code > 0 && is_ours((*info).si_code, (*info).si_addr().addr(), context);
        *errno = kept;
        if !is_ours {
            pass_on(LEVEL, signal, info, context);
        }
    }
}

/// Whether the instruction is to be tried again.
fn is_ours(code: c_int, address: usize, context: *mut c_void) -> bool {
    let is_store = code == SEGV_ACCERR && may_be_store(address, context);
    is_to_be_repeated(address, |address| is_store && is_writable(address))
}

/// Whether the range of a replacement holds the address up, or did so when the access faulted.
fn is_to_be_repeated(address: usize, is_writable: impl FnOnce(usize) -> bool) -> bool {
    let changes = CHANGES.load(Ordering::SeqCst);
    match holder_of(address) {
        Some(Holder::Here) => {
            rustix::thread::sched_yield();
            return true;
        }
        Some(Holder::Parent) => {
            free_inherited();
            return true;
        }
        None => {}
    }
    // A store that faulted while the page was protected, and is examined when it is so no more; or when the
    // next replacement has protected it again.
    is_writable(address) || CHANGES.load(Ordering::SeqCst) != changes
}

/// The process whose replacement holds an address up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Here,
    /// The process that this one was forked from, in the middle of a replacement by another thread.
    Parent,
}

fn holder_of(address: usize) -> Option<Holder> {
    // Acquire: pairs with the Release in `hold_up`. An end of a later range is no harm: the store is tried
    // again, and judged anew.
    let start = START.load(Ordering::Acquire);
    if start == 0 || !(start..END.load(Ordering::Relaxed)).contains(&address) {
        return None;
    }
    let is_here = TURN.load(Ordering::Relaxed) == Origin::here().pid();
    Some(if is_here { Holder::Here } else { Holder::Parent })
}

/// Makes writable what the parent's thread had protected when another of its threads forked: that thread is
/// not here to go on. What lies there is whole, as nothing was stored to it since: the memory of before, or
/// already that of after.
fn free_inherited() {
    let (start, end) = (START.load(Ordering::Acquire), END.load(Ordering::Relaxed));
    if start == 0 {
        return;
    }
    // SAFETY: the range was readable and writable before the parent protected it. It fails where the program
    // has unmapped some of it since.
    unsafe {
        libc::mprotect(
            ptr::with_exposed_provenance_mut(start),
            end - start,
            libc::PROT_READ | libc::PROT_WRITE,
        );
    }
    // Release: pairs with the Acquire in `holder_of`: whoever finds no range finds the pages writable. A
    // thread that does the same at this moment has made the same writable. What the program protects from
    // now on stays protected.
    let _ = START.compare_exchange(start, 0, Ordering::Release, Ordering::Relaxed);
}

/// Nothing that can be written makes a store fault; an instruction that is fetched from there does, and
/// always will.
#[cfg(target_arch = "x86_64")]
fn may_be_store(_address: usize, context: *mut c_void) -> bool {
    /// Bit of the page fault's error code: a write.
    const WRITE: i64 = 2;
    // SAFETY: the kernel hands a handler with SA_SIGINFO a ucontext.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_ERR as usize] & WRITE != 0
}

/// Nothing that can be written makes a store fault; an instruction that is fetched from there does, and
/// always will.
#[cfg(target_arch = "aarch64")]
fn may_be_store(address: usize, context: *mut c_void) -> bool {
    // SAFETY: the kernel hands a handler with SA_SIGINFO a ucontext.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    usize::try_from(context.uc_mcontext.pc) != Ok(address)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn may_be_store(_address: usize, _context: *mut c_void) -> bool {
    false
}

/// Whether a store to the address would succeed: the kernel is asked to OR it with 0, atomically (futex(2),
/// FUTEX_WAKE_OP). A process that waits for the word may be woken without a reason, as always.
fn is_writable(address: usize) -> bool {
    const OR_0: u32 = libc::FUTEX_OP_OR as u32 & 0xf;
    static NOBODY_WAITS: AtomicU32 = AtomicU32::new(0);
    let word = address & !3;
    // SAFETY: the kernel checks the address, and changes nothing there.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex,
            NOBODY_WAITS.as_ptr(),
            libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG,
            0,
            0_usize,
            word,
            (OR_0 << 28).cast_signed(),
        )
    };
    done >= 0
}

/// The previous handler of the signal.
fn pass_on(level: usize, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get(level) else { return };
    // Acquire: pairs with the Release in `install`.
    let handler = before.handler.load(Ordering::Acquire);
    let has_info = before.flags.load(Ordering::Relaxed) & libc::SA_SIGINFO.cast_unsigned() as usize != 0;
    // SAFETY: the kernel calls handlers with a valid info.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match handler {
        libc::SIG_IGN if is_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => end(signal, is_sent),
        handler if has_info => {
            // SAFETY: it was installed with SA_SIGINFO, so it is a function of this type.
            let handler = unsafe { core::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: it was installed without SA_SIGINFO, so it is a function of this type.
            let handler = unsafe { core::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

/// The program ends as it would without us: the fault comes again, where a debugger looks for it.
fn end(signal: c_int, is_sent: bool) {
    // SAFETY: a sigaction is plain integers, for which zeroes are valid: the default action, nothing blocked.
    let default: libc::sigaction = unsafe { zeroed() };
    // SAFETY: both calls are allowed in a handler. The signal is blocked until the handler returns.
    unsafe {
        libc::sigaction(signal, &raw const default, ptr::null_mut());
        if is_sent {
            libc::raise(signal);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_judged_again_where_the_next_replacement_begins_meanwhile() {
        let replacement = Replacement::begin().unwrap();
        let (start, end) = (0x1000, 0x3000);
        assert!(!is_to_be_repeated(0x2000, |_| false), "a fault of the program");
        let next_begins = |_| {
            replacement.hold_up(start, end);
            false
        };
        assert!(is_to_be_repeated(0x2000, next_begins));
        assert_eq!(holder_of(0x2000), Some(Holder::Here));
        assert_eq!((holder_of(0x0fff), holder_of(0x3000)), (None, None));
        let one_comes_and_goes = |_| {
            replacement.let_go();
            replacement.hold_up(start, end);
            replacement.let_go();
            false
        };
        replacement.let_go();
        assert!(is_to_be_repeated(0x2000, one_comes_and_goes));
        assert!(!is_to_be_repeated(0x2000, |_| false));
    }
}
