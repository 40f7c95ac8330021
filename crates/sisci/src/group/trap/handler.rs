//! The handlers of SIGSEGV and SIGTRAP: handle the library's faults, and pass all others to the
//! previous handler.

use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

use iced_x86::{Decoder, DecoderOptions};
use libc::{c_int, c_void, siginfo_t};
use shm::sync::plain::{AtomicPtr, Ordering};

use super::context::{self, Context};
use super::emulate::{self, Outcome};
use super::{displaced, fallible};
use crate::code::{Code, Result};
use crate::group::copies::Reading;
use crate::own::Own;

/// A store to memory that is mapped for reading: `si_code` of SIGSEGV.
const SEGV_ACCERR: c_int = 2;
/// Faults of the very instruction that runs: blocked, they would end the process.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// The handler that was there before.
static BEFORE_SEGV: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());
static BEFORE_TRAP: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// All signals but faults, as the kernel keeps sets.
pub(super) fn put_off() -> u64 {
    !FAULTS.iter().fold(0, |set, signal| set | 1 << (signal - 1))
}

/// Installs both handlers, once in the life of a process. A forked child inherits them, but not what
/// they use.
pub(super) fn install() -> Result<()> {
    static INSTALLED: Own<Mutex<bool>> = Own::new();
    let mut installed = INSTALLED.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    // Objects that are created at their first use are created now: a handler cannot allocate.
    let nop = Decoder::with_ip(64, &[0x90], 0, DecoderOptions::NONE).decode();
    debug_assert!(!nop.is_invalid());
    context::prepare();
    displaced::prepare()?;
    take_over(libc::SIGTRAP, on_trap, &BEFORE_TRAP)?;
    take_over(libc::SIGSEGV, on_segv, &BEFORE_SEGV)?;
    *installed = true;
    Ok(())
}

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

fn take_over(signal: c_int, handler: Handler, before: &AtomicPtr<libc::sigaction>) -> Result<()> {
    // SAFETY: a sigaction is plain integers, for which zeroes are valid.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { core::mem::zeroed() };
    new.sa_sigaction = (handler as *const ()).expose_provenance();
    // On the stack that the program has for faults, if it has one: the usual stack may be the one
    // that faulted. A fault inside the handler must be delivered: see `fallible`.
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: both structures live on this stack and are initialised; the handler has the type that
    // SA_SIGINFO requires. The previous handler is read before the new one is set, so that the
    // handler always finds the one to call.
    let outcome = unsafe {
        // As the kernel keeps it, with the signals of the C library, which its functions leave out: a
        // thread that is cancelled would unwind out of the handler.
        (&raw mut new.sa_mask).cast::<u64>().write_unaligned(put_off());
        let asked = libc::sigaction(signal, null(), &raw mut old);
        if asked == 0 && old.sa_sigaction == new.sa_sigaction {
            // A forked child's: inherited.
            return Ok(());
        }
        // Release: pairs with the Acquire in `pass_on`. Never freed: a handler may be running for
        // as long as the process is.
        before.store(Box::into_raw(Box::new(old)), Ordering::Release);
        asked | libc::sigaction(signal, &raw const new, null_mut())
    };
    if outcome != 0 {
        let error = std::io::Error::last_os_error();
        return Err(
            Code::SYSTEM.because(format!("the handler for signal {signal} cannot be installed: {error}"))
        );
    }
    Ok(())
}

extern "C" fn on_segv(signal: c_int, info: *mut siginfo_t, raw: *mut c_void) {
    // SAFETY: these are the arguments with which the kernel calls a handler, and nothing else has
    // them.
    let (code, mut context) = unsafe { ((*info).si_code, Context::new(raw)) };
    if let Some(landing) = fallible::landing(context.instruction()) {
        context.go_on_at(landing);
        return;
    }
    // SAFETY: a SIGSEGV with this code has an address.
    let fault = if code == SEGV_ACCERR { unsafe { (*info).si_addr() }.addr() } else { 0 };
    if code == SEGV_ACCERR && context.is_store() {
        let reading = Reading::begin();
        if reading.find(fault).is_some() {
            match emulate::carry_out(&mut context, reading, fault) {
                Outcome::Done | Outcome::Displaced => return,
                Outcome::Foreign(address) => return pass_on_at(signal, info, raw, address),
                Outcome::Unknown => complain(),
            }
        }
    }
    displaced::undo(&mut context);
    pass_on(signal, info, raw, &BEFORE_SEGV);
}

extern "C" fn on_trap(signal: c_int, info: *mut siginfo_t, raw: *mut c_void) {
    // SAFETY: as in `on_segv`.
    let mut context = unsafe { Context::new(raw) };
    if !displaced::end(&mut context) {
        pass_on(signal, info, raw, &BEFORE_TRAP);
    }
}

/// Calls the program's handler as if the library were not there: with the address at which its own
/// instruction faults.
fn pass_on_at(signal: c_int, info: *mut siginfo_t, raw: *mut c_void, address: usize) {
    const ADDRESS_OFFSET: usize = 16;
    // SAFETY: the kernel's siginfo_t has the address of a fault at this place, and this one is of a
    // fault.
    unsafe { info.byte_add(ADDRESS_OFFSET).cast::<usize>().write(address) };
    pass_on(signal, info, raw, &BEFORE_SEGV);
}

fn pass_on(signal: c_int, info: *mut siginfo_t, raw: *mut c_void, before: &AtomicPtr<libc::sigaction>) {
    // Acquire: pairs with the Release in `take_over`.
    let before = before.load(Ordering::Acquire);
    // SAFETY: not null since before the handlers were installed, and never freed.
    let before = unsafe { &*before };
    if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
        return default(signal, info, before);
    }
    let after = |set: &libc::sigset_t| {
        // SAFETY: the set is initialised; the call only reads it.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, core::ptr::from_ref(set), null_mut()) }
    };
    after(&mask_of(signal, raw, before));
    // SAFETY: the program installed this function for this signal, with the type that its flags
    // declare; it gets the kernel's arguments.
    unsafe {
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            core::mem::transmute::<usize, Handler>(before.sa_sigaction)(signal, info, raw);
        } else {
            core::mem::transmute::<usize, extern "C" fn(c_int)>(before.sa_sigaction)(signal);
        }
    }
}

/// The signals that would be blocked in the handler that was there before.
fn mask_of(signal: c_int, raw: *mut c_void, before: &libc::sigaction) -> libc::sigset_t {
    // SAFETY: the context is the kernel's; of its set only the first 8 bytes are, which are all
    // that Linux has.
    let interrupted =
        unsafe { (&raw const (*raw.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read() };
    let itself = if before.sa_flags & libc::SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    let mut mask = before.sa_mask;
    let words = (&raw mut mask).cast::<u64>();
    // SAFETY: a sigset_t is at least 8 bytes, of which the first are the signals 1 to 64.
    unsafe { words.write(words.read() | interrupted | itself) };
    mask
}

/// Does what the kernel would have done: ends the process at the faulting instruction, with a core
/// dump that shows it.
fn default(signal: c_int, info: *const siginfo_t, before: &libc::sigaction) {
    // SAFETY: the kernel gave it.
    let is_fault = unsafe { (*info).si_code } > 0;
    if before.sa_sigaction == libc::SIG_IGN && !is_fault {
        return;
    }
    // SAFETY: the structure is plain integers; with SIG_DFL no function is called.
    unsafe {
        let mut default: libc::sigaction = core::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const default, null_mut());
        // A fault repeats by itself; a breakpoint, or a signal that a process sent, does not.
        if !is_fault || signal == libc::SIGTRAP {
            libc::raise(signal);
        }
    }
}

/// Before the process ends: the program's own instruction is no mistake of the program.
fn complain() {
    let words = "libsisci: this instruction stores to a group of several members, or to a segment of another host, in a way that \
                 cannot be carried out on all copies; use SCIMemCpy (docs/sisci-groups.md)\n";
    // SAFETY: write(2) may be called in a handler; the words live forever.
    unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
}
