//! System calls of the library itself: they go straight to the kernel and never touch errno.

use core::arch::asm;

use libc::c_int;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the sockets library is written for Linux on x86-64");

/// A system call; what comes back is the result, or an error number below zero.
///
/// # Safety
/// As the call itself: its pointers must be good for what the kernel does with them, and it must not take
/// away what the program uses.
#[inline]
pub(crate) unsafe fn call(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11, which is said, and memory as the caller allows.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// A word of the program's memory, if there is memory at this address.
pub(crate) fn peek(address: usize) -> Option<u64> {
    let mut word = [0_u64];
    peek_at(address, &mut word).then_some(word[0])
}

/// Reads the program's memory, if there is as much at this address: the kernel does it, so nothing can go
/// wrong.
pub(crate) fn peek_at<T: Number>(address: usize, into: &mut [T]) -> bool {
    if !crate::state::may_ask() {
        return false;
    }
    let bytes = size_of_val(into);
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: bytes };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes };
    let arguments = [getpid() as usize, (&raw const to) as usize, 1, (&raw const from) as usize, 1, 0];
    // SAFETY: writes so many bytes at most, of numbers; what cannot be read is an error.
    let read = unsafe { call(libc::SYS_process_vm_readv, arguments) };
    read == bytes as isize
}

/// What may have any bytes.
pub(crate) trait Number: Copy {}

impl Number for u64 {}
impl Number for c_int {}

/// The number of this process.
pub(crate) fn getpid() -> u32 {
    // SAFETY: takes nothing, changes nothing.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// A socket option whose value is a number of `T`'s size, or the error number.
pub(crate) fn socket_option<T: Copy + Default>(fd: c_int, option: c_int) -> Result<T, c_int> {
    let mut value = T::default();
    // SAFETY: a number may have any value, and `size` bytes are its own.
    let asked =
        unsafe { option_into(fd, [libc::SOL_SOCKET, option], (&raw mut value).cast(), size_of::<T>()) };
    asked.map(|_| value)
}

/// As [`socket_option`], an option of TCP.
pub(crate) fn tcp_option(fd: c_int, option: c_int) -> Result<c_int, c_int> {
    let mut value = 0;
    // SAFETY: a number, whose bytes are its own.
    let asked =
        unsafe { option_into(fd, [libc::IPPROTO_TCP, option], (&raw mut value).cast(), size_of::<c_int>()) };
    asked.map(|_| value)
}

/// What the kernel says of a connection of TCP, as much as fits.
pub(crate) fn tcp_info(fd: c_int, into: &mut [u8]) -> Option<&[u8]> {
    // SAFETY: the room is as long as said.
    let length =
        unsafe { option_into(fd, [libc::IPPROTO_TCP, libc::TCP_INFO], into.as_mut_ptr(), into.len()) };
    into.get(..length.ok()?)
}

/// Asks for an option's value; how many bytes it has, or the error number.
///
/// # Safety
/// `to` must be good for `room` bytes.
unsafe fn option_into(
    fd: c_int,
    [level, option]: [c_int; 2],
    to: *mut u8,
    room: usize,
) -> Result<usize, c_int> {
    let mut length = room as libc::socklen_t;
    let arguments =
        [fd as usize, level as usize, option as usize, to as usize, (&raw mut length) as usize, 0];
    // SAFETY: the kernel writes at most `length` bytes to `to`, which the caller vouches for, and the length.
    let result = unsafe { call(libc::SYS_getsockopt, arguments) };
    if result < 0 { Err(-(result as c_int)) } else { Ok(length as usize) }
}

/// How much of it the program may have; 0 if the kernel does not say.
pub(crate) fn limit(what: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the limit.
    let asked = unsafe { call(libc::SYS_getrlimit, [what as usize, (&raw mut limit) as usize, 0, 0, 0, 0]) };
    if asked == 0 { limit.rlim_cur } else { 0 }
}

/// Whether the program may not have as much of it as there is; also if the kernel does not say.
pub(crate) fn is_limited(what: libc::__rlimit_resource_t) -> bool {
    limit(what) != libc::RLIM_INFINITY
}

/// Makes a call that writes to a file of this library's own. Who passes the limit of sizes is sent a signal,
/// which ends the program (setrlimit(2)); the limit may have been lowered since it was asked. So the signal
/// is kept back, and taken if it has come.
pub(crate) fn within_limit(write: impl FnOnce() -> isize) -> isize {
    /// Bytes of a set of signals.
    const BYTES: usize = 8;
    let own = 1_u64 << (libc::SIGXFSZ - 1);
    let (own_at, mut before) = ((&raw const own) as usize, 0_u64);
    let block = [libc::SIG_BLOCK as usize, own_at, (&raw mut before) as usize, BYTES, 0, 0];
    // SAFETY: reads one set and writes the other.
    unsafe { call(libc::SYS_rt_sigprocmask, block) };
    let result = write();
    if result == -(libc::EFBIG as isize) {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: reads the set and the time.
        unsafe { call(libc::SYS_rt_sigtimedwait, [own_at, 0, (&raw const at_once) as usize, BYTES, 0, 0]) };
    }
    let restore = [libc::SIG_SETMASK as usize, (&raw const before) as usize, 0, BYTES, 0, 0];
    // SAFETY: reads the set.
    unsafe { call(libc::SYS_rt_sigprocmask, restore) };
    result
}
