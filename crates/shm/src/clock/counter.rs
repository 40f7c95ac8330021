//! Reading the processor's counter.

use super::Source;

#[cfg(target_arch = "x86_64")]
pub(super) const SOURCE: Source = Source::Tsc;
#[cfg(target_arch = "aarch64")]
pub(super) const SOURCE: Source = Source::GenericTimer;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const SOURCE: Source = Source::Kernel;

/// The counter now, in ticks. The processor may read it a little before earlier instructions have finished.
#[inline(always)]
#[must_use]
pub fn now_ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets programs read this register; nothing else is touched.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        return ticks;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return super::monotonic_raw_ns();
}

/// The counter after all earlier instructions have finished, in ticks: for the end of a measurement.
#[inline(always)]
#[must_use]
pub fn now_ticks_ordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut cpu = 0;
        // SAFETY: every x86-64 processor that runs this code has the instruction; `cpu` is ours.
        let ticks = unsafe { core::arch::x86_64::__rdtscp(&raw mut cpu) };
        // SAFETY: no preconditions. It keeps later instructions from starting before the reading.
        unsafe { core::arch::x86_64::_mm_lfence() };
        ticks
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: a barrier for instructions; it touches nothing.
        unsafe { core::arch::asm!("isb", options(nostack)) };
        now_ticks()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    now_ticks()
}
