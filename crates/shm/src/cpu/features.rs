//! The processor features that matter for copying and timing.

use crate::sync::plain::{AtomicU32, Ordering};

/// Abilities of this processor, read with CPUID where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// AVX2, and the operating system saves its registers.
    pub avx2: bool,
    /// AVX-512 F and VL, and the operating system saves their registers.
    pub avx512: bool,
    /// `rep movsb` is fast for large copies.
    pub erms: bool,
    /// `rep movsb` is fast for short copies, too.
    pub fsrm: bool,
    /// The time-stamp counter runs at one rate whatever the processor does (CPUID 0x8000_0007, bit 8).
    pub invariant_tsc: bool,
    /// Runs in a virtual machine.
    pub hypervisor: bool,
}

impl Features {
    /// The abilities of this processor. Read once (CPUID ends a virtual machine's turn: tens of
    /// microseconds).
    #[must_use]
    pub fn get() -> Self {
        // One word with a "known" bit: two threads that race here write the same value.
        static KNOWN: AtomicU32 = AtomicU32::new(0);
        const IS_KNOWN: u32 = 1 << 31;
        let bits = KNOWN.load(Ordering::Relaxed);
        if bits & IS_KNOWN != 0 {
            return Self::from_bits(bits);
        }
        let read = read();
        KNOWN.store(read.to_bits() | IS_KNOWN, Ordering::Relaxed);
        read
    }

    fn from_bits(bits: u32) -> Self {
        let bit = |n: u32| bits & (1 << n) != 0;
        Self {
            avx2: bit(0),
            avx512: bit(1),
            erms: bit(2),
            fsrm: bit(3),
            invariant_tsc: bit(4),
            hypervisor: bit(5),
        }
    }

    fn to_bits(self) -> u32 {
        [self.avx2, self.avx512, self.erms, self.fsrm, self.invariant_tsc, self.hypervisor]
            .iter()
            .enumerate()
            .fold(0, |bits, (n, &on)| bits | (u32::from(on) << n))
    }
}

#[cfg(target_arch = "x86_64")]
fn read() -> Features {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    let highest = __cpuid(0).eax;
    let basic = __cpuid(1);
    let extended = if highest >= 7 { __cpuid_count(7, 0) } else { __cpuid(0x8000_0000) };
    let structured = highest >= 7;
    let bit = |word: u32, n: u32| word & (1 << n) != 0;

    // XCR0 says which registers the operating system saves: bits 1, 2 the AVX halves, 5, 6, 7 those of
    // AVX-512.
    let saved = if bit(basic.ecx, 27) {
        #[target_feature(enable = "xsave")]
        fn xcr0() -> u64 {
            // SAFETY: register 0 exists wherever the instruction does.
            unsafe { _xgetbv(0) }
        }
        // SAFETY: OSXSAVE (bit 27) says that the instruction may be used.
        unsafe { xcr0() }
    } else {
        0
    };
    let saves_avx = saved & 0b110 == 0b110;
    let saves_avx512 = saved & 0b1110_0110 == 0b1110_0110;
    let highest_extended = __cpuid(0x8000_0000).eax;
    Features {
        avx2: structured && saves_avx && bit(extended.ebx, 5),
        avx512: structured && saves_avx512 && bit(extended.ebx, 16) && bit(extended.ebx, 31),
        erms: structured && bit(extended.ebx, 9),
        fsrm: structured && bit(extended.edx, 4),
        invariant_tsc: highest_extended >= 0x8000_0007 && bit(__cpuid(0x8000_0007).edx, 8),
        hypervisor: bit(basic.ecx, 31),
    }
}

#[cfg(target_arch = "aarch64")]
fn read() -> Features {
    // The generic timer counts at one rate by definition.
    Features { invariant_tsc: true, ..Features::default() }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> Features {
    Features::default()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_word_keeps_every_feature() {
        for bits in 0..64 {
            assert_eq!(Features::from_bits(bits).to_bits(), bits);
        }
        assert_eq!(Features::get(), read());
        assert_eq!(Features::get(), Features::get());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn agrees_with_the_standard_library() {
        let features = Features::get();
        assert_eq!(features.avx2, std::arch::is_x86_feature_detected!("avx2"));
        let avx512 =
            std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vl");
        assert_eq!(features.avx512, avx512);
    }
}
