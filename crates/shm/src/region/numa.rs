//! Placing a region's pages on a memory node.

use crate::{Error, Result};
use core::ptr::NonNull;
use rustix::io::Errno;

/// The largest node number that the mask below can name, plus one.
const NODES_MAX: u32 = 1024;
const WORD_BITS: u32 = u64::BITS;
/// `MPOL_BIND` of the kernel's `mempolicy.h`: only from these nodes.
const MPOL_BIND: usize = 2;

/// Binds a mapping to `node`. The rule belongs to the memory file, so it also holds for pages that others
/// touch first.
pub(super) fn bind(start: NonNull<u8>, mapped_bytes: usize, node: u32) -> Result<()> {
    if node >= NODES_MAX {
        return Err(Error::NoSuchNumaNode { node });
    }
    let mut mask = [0_u64; (NODES_MAX / WORD_BITS) as usize];
    if let Some(word) = mask.get_mut((node / WORD_BITS) as usize) {
        *word = 1 << (node % WORD_BITS);
    }
    // The kernel takes the number of bits plus one.
    let max_node = NODES_MAX as usize + 1;
    // SAFETY: the range is a mapping of this process and the mask holds as many bits as is said; the call
    // reads the mask and moves no memory.
    match unsafe { mbind(start.as_ptr().addr(), mapped_bytes, MPOL_BIND, mask.as_ptr(), max_node) } {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::PERM) => Err(Error::NoSuchNumaNode { node }),
        Err(errno) => Err(Error::NumaUnsupported { errno }),
    }
}

/// The system call, which no library that works without std offers.
///
/// # Safety
/// `mask` must be valid for `max_node - 1` bits.
#[cfg(target_arch = "x86_64")]
unsafe fn mbind(
    start: usize,
    len: usize,
    mode: usize,
    mask: *const u64,
    max_node: usize,
) -> core::result::Result<(), Errno> {
    const NR_MBIND: isize = 237;
    let result: isize;
    // SAFETY: the kernel's calling convention for x86-64: it changes rax, rcx and r11 and, for this call, no
    // memory.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") NR_MBIND => result,
            in("rdi") start, in("rsi") len, in("rdx") mode, in("r10") mask, in("r8") max_node, in("r9") 0_usize,
            lateout("rcx") _, lateout("r11") _,
            options(nostack, readonly),
        );
    }
    checked(result)
}

/// The system call, which no library that works without std offers.
///
/// # Safety
/// `mask` must be valid for `max_node - 1` bits.
#[cfg(target_arch = "aarch64")]
unsafe fn mbind(
    start: usize,
    len: usize,
    mode: usize,
    mask: *const u64,
    max_node: usize,
) -> core::result::Result<(), Errno> {
    const NR_MBIND: isize = 235;
    let result: isize;
    // SAFETY: the kernel's calling convention for AArch64: it changes x0 and, for this call, no memory.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") NR_MBIND, inlateout("x0") start => result,
            in("x1") len, in("x2") mode, in("x3") mask, in("x4") max_node, in("x5") 0_usize,
            options(nostack, readonly),
        );
    }
    checked(result)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn mbind(_: usize, _: usize, _: usize, _: *const u64, _: usize) -> core::result::Result<(), Errno> {
    Err(Errno::NOSYS)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn checked(result: isize) -> core::result::Result<(), Errno> {
    match i32::try_from(-result) {
        Ok(errno) if errno > 0 => Err(Errno::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}
