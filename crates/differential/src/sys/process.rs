//! Calls for processes, threads and signals, also those that the test machinery needs.

use std::cell::Cell;
use std::ffi::CString;
use std::mem::zeroed;

use shm::sync::{AtomicU32, AtomicUsize, Ordering};

use super::memory::Mapping;
use super::{Outcome, errno_cell, observed};

thread_local! {
    /// Where this thread's handler counts: the memory, and the offset of a word for each signal number
    /// below 32.
    static COUNTERS: Cell<Option<(Mapping, usize)>> = const { Cell::new(None) };
}

/// From now on the handler counts there what this thread gets.
pub fn count_signals_at(memory: Mapping, offset: usize) {
    COUNTERS.set(Some((memory, offset)));
}

extern "C" fn handler(signal: libc::c_int) {
    // SAFETY: this thread's errno, which a handler must leave as it was.
    let before = unsafe { *errno_cell() };
    if let Some((memory, offset)) = COUNTERS.get() {
        memory.word(offset + 4 * (signal as usize & 31)).fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *errno_cell() = before };
}

/// Where handlers write, and how many bytes they have written: each is its number, of 127, with the highest
/// bit set.
static WRITES: AtomicU32 = AtomicU32::new(u32::MAX);
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn writer(_: libc::c_int) {
    // SAFETY: as in `handler`.
    let before = unsafe { *errno_cell() };
    let byte = 0x80 | (WRITTEN.load(Ordering::SeqCst) % 127) as u8;
    // SAFETY: one byte, which lives; the call may be made in handlers.
    let written =
        unsafe { libc::write(WRITES.load(Ordering::SeqCst).cast_signed(), (&raw const byte).cast(), 1) };
    if written == 1 {
        WRITTEN.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *errno_cell() = before };
}

/// From now on handlers with [`Action::Write`] write to this descriptor.
pub fn write_in_handlers(fd: i32) {
    WRITTEN.store(0, Ordering::SeqCst);
    WRITES.store(fd.cast_unsigned(), Ordering::SeqCst);
}

/// How many bytes they have written since.
#[must_use]
pub fn written_in_handlers() -> usize {
    WRITTEN.load(Ordering::SeqCst)
}

/// What a signal shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// What the kernel does.
    Default,
    /// Nothing.
    Ignore,
    /// It is counted; interrupted calls are restarted, or not.
    Count {
        /// `SA_RESTART`.
        restart: bool,
    },
    /// A byte is written: see [`write_in_handlers`]. Interrupted calls are restarted.
    Write,
}

/// `sigaction`.
#[must_use]
pub fn sigaction(signal: i32, action: Action) -> Outcome {
    // SAFETY: a sigaction of zeroes is valid: default action, empty mask.
    let mut new: libc::sigaction = unsafe { zeroed() };
    match action {
        Action::Default => new.sa_sigaction = libc::SIG_DFL,
        Action::Ignore => new.sa_sigaction = libc::SIG_IGN,
        Action::Count { restart } => {
            new.sa_sigaction = handler as *const () as usize;
            new.sa_flags = if restart { libc::SA_RESTART } else { 0 };
        }
        Action::Write => {
            new.sa_sigaction = writer as *const () as usize;
            new.sa_flags = libc::SA_RESTART;
        }
    }
    // SAFETY: `new` lives; the handler only touches atomics and errno.
    observed(|| unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) })
}

/// Blocks or unblocks a signal for this thread: 0, or an error number.
#[must_use]
pub fn mask(signal: i32, block: bool) -> Outcome {
    let how = if block { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: a signal set of zeroes is empty.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: the set lives.
    unsafe { libc::sigaddset(&mut set, signal) };
    // SAFETY: the set lives.
    observed(|| unsafe { libc::pthread_sigmask(how, &set, std::ptr::null_mut()) })
}

/// `kill`.
pub fn kill(pid: i32, signal: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::kill(pid, signal) })
}

/// `tgkill`.
#[must_use]
pub fn kill_thread(pid: i32, tid: i32, signal: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) })
}

/// `fork`. The child has this thread only, and must not return to code that relies on others.
#[must_use]
pub fn fork() -> Outcome {
    // SAFETY: the child goes on in the same function; libc makes its allocator usable there. No lock of the
    // executor is held.
    observed(|| unsafe { libc::fork() })
}

/// `execve` of this very program with these arguments; returns only if that failed.
#[must_use]
pub fn exec(path: &str, arguments: &[String], keep_environment: bool) -> Outcome {
    let path = super::memory::c_string(path);
    let arguments: Vec<CString> = arguments.iter().map(|text| super::memory::c_string(text)).collect();
    let mut pointers: Vec<*const libc::c_char> = arguments.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let nothing = [std::ptr::null::<libc::c_char>()];
    observed(|| {
        if keep_environment {
            // SAFETY: the pointers are to live C strings and end with null.
            unsafe { libc::execv(path.as_ptr(), pointers.as_ptr()) }
        } else {
            // SAFETY: as above; the environment is an empty list.
            unsafe { libc::execve(path.as_ptr(), pointers.as_ptr(), nothing.as_ptr()) }
        }
    })
}

/// `posix_spawn` of this very program with these arguments, in which the second number is the first one's
/// file: an error number, and the new process.
#[must_use]
pub fn spawn(path: &str, arguments: &[String], dup: Option<(i32, i32)>) -> (i32, i32) {
    unsafe extern "C" {
        static environ: *const *mut libc::c_char;
    }
    let path = super::memory::c_string(path);
    let arguments: Vec<CString> = arguments.iter().map(|text| super::memory::c_string(text)).collect();
    let mut pointers: Vec<*mut libc::c_char> =
        arguments.iter().map(|text| text.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let mut pid = 0;
    // SAFETY: the actions are made before they are used and destroyed after; pointers are to live C strings
    // and end with null; nobody changes the environment.
    let error = unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = zeroed();
        libc::posix_spawn_file_actions_init(&mut actions);
        if let Some((fd, onto)) = dup {
            libc::posix_spawn_file_actions_adddup2(&mut actions, fd, onto);
        }
        let none = std::ptr::null();
        let error = libc::posix_spawn(&mut pid, path.as_ptr(), &actions, none, pointers.as_ptr(), environ);
        libc::posix_spawn_file_actions_destroy(&mut actions);
        error
    };
    (error, pid)
}

/// `setrlimit` of the number of descriptors, the soft limit.
#[must_use]
pub fn limit_descriptors(count: u64) -> Outcome {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur = count.min(limit.rlim_max);
    // SAFETY: the limit lives.
    observed(|| unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })
}

/// The soft limit of descriptors.
#[must_use]
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}

/// `waitpid`: what it returned, and the status.
pub fn waitpid(pid: i32, flags: i32) -> (Outcome, i32) {
    let mut status = 0;
    // SAFETY: the status lives.
    let outcome = observed(|| unsafe { libc::waitpid(pid, &mut status, flags) });
    (outcome, status)
}

/// Ends the process without unwinding or flushing.
pub fn exit(status: i32) -> ! {
    // SAFETY: takes a number only.
    unsafe { libc::_exit(status) }
}

/// Process and thread id of the caller.
#[must_use]
pub fn ids() -> (u32, u32) {
    // SAFETY: take nothing.
    let (pid, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
    (pid.unsigned_abs(), u32::try_from(tid).unwrap_or(0))
}

/// Ends this process after so many seconds, whatever it does then.
pub fn end_after(seconds: u32) {
    // SAFETY: takes a number only.
    unsafe { libc::alarm(seconds) };
}

/// This process, and what it starts, run on one processor only.
pub fn run_on(cpu: usize) {
    // SAFETY: a cpu_set_t of zeroes is an empty set; the number is below its size.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu % 1024, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// This process, and what it starts, run on all of these processors.
pub fn run_on_all(cpus: &[usize]) {
    // SAFETY: as for `run_on`.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        for cpu in cpus {
            libc::CPU_SET(cpu % 1024, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// The processors that this thread may use.
#[must_use]
pub fn processors() -> Vec<usize> {
    // SAFETY: as for `run_on`.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return vec![0];
        }
        (0..1024).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
}

/// Lets somebody else run.
pub fn yield_now() {
    // SAFETY: takes nothing.
    unsafe { libc::sched_yield() };
}

/// Short sleeps of this thread are not lengthened to be gathered with others.
pub fn sleep_exactly() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
}

/// Ends with the thread that started it; and is the parent of those whose parent ended.
pub fn serve_parent() {
    // SAFETY: take numbers only.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    }
}

/// Ends when its parent does.
pub fn end_with_parent() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Becomes the first of a process group of its own.
pub fn lead_group() {
    // SAFETY: takes numbers only.
    unsafe { libc::setpgid(0, 0) };
}

/// The process group, which is the first process of the program.
#[must_use]
pub fn group() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::getpgrp() }.unsigned_abs()
}

/// Goes into a network namespace of its own with its loopback up; whether that worked.
#[must_use]
pub fn own_network() -> bool {
    // SAFETY: takes numbers only; the process has one thread.
    let alone = unsafe {
        libc::unshare(libc::CLONE_NEWNET) == 0 || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) == 0
    };
    if !alone {
        return false;
    }
    // SAFETY: an ifreq of zeroes is valid; the name fits and stays terminated; the request lives through both
    // calls.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        let known = libc::ioctl(fd, libc::SIOCGIFFLAGS as _, &mut request) == 0;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16;
        let up = known && libc::ioctl(fd, libc::SIOCSIFFLAGS as _, &mut request) == 0;
        libc::close(fd);
        up
    }
}
