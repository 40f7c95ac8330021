//! The sizes of the caches.

use crate::proc_file::{self, PathBuffer};
use core::fmt::Write;

/// Sizes of the caches that a core sees, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// First level, data.
    pub l1_data_bytes: usize,
    /// Second level.
    pub l2_bytes: usize,
    /// Last level. On a virtual machine this is the host's, which others use, too.
    pub last_level_bytes: usize,
}

impl CacheSizes {
    /// What to assume where nothing can be read: a small processor of the last ten years.
    pub const ASSUMED: Self =
        Self { l1_data_bytes: 32 << 10, l2_bytes: 256 << 10, last_level_bytes: 8 << 20 };

    /// The sizes that the kernel reports for the first processor; where it says nothing, what the processor
    /// says; else [`CacheSizes::ASSUMED`]. Reads files: not for a hot path.
    #[must_use]
    pub fn get() -> Self {
        let found = Found::by_kernel().or(Found::by_processor());
        let assumed = Self::ASSUMED;
        let l2_bytes = found.0[2].unwrap_or(assumed.l2_bytes);
        Self {
            l1_data_bytes: found.0[1].unwrap_or(assumed.l1_data_bytes),
            l2_bytes,
            last_level_bytes: found.0[4].or(found.0[3]).unwrap_or(assumed.last_level_bytes).max(l2_bytes),
        }
    }
}

/// Size of the data cache of each level; level 0 is not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found([Option<usize>; 5]);

impl Found {
    fn or(self, other: Self) -> Self {
        let mut both = self;
        for (ours, theirs) in both.0.iter_mut().zip(other.0) {
            *ours = ours.or(theirs);
        }
        both
    }

    fn note(&mut self, level: usize, size_bytes: usize) {
        if let Some(entry @ None) = self.0.get_mut(level)
            && size_bytes > 0
        {
            *entry = Some(size_bytes);
        }
    }

    fn by_kernel() -> Self {
        let mut found = Self::default();
        for index in 0..8 {
            let mut buffers = [[0; 32]; 3];
            let [level, kind, size] = &mut buffers;
            let Some(level) = attribute(index, "level", level).and_then(|text| text.parse().ok()) else {
                break;
            };
            let Some(kind) = attribute(index, "type", kind) else { break };
            let size = attribute(index, "size", size).and_then(size_bytes);
            if let (true, Some(size)) = (kind != "Instruction", size) {
                found.note(level, size);
            }
        }
        found
    }

    #[cfg(target_arch = "x86_64")]
    fn by_processor() -> Self {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        let mut found = Self::default();
        // Intel describes its caches in leaf 4, AMD in the same form in an extended leaf.
        for (leaf, highest) in [(4, __cpuid(0).eax), (0x8000_001d, __cpuid(0x8000_0000).eax)] {
            if leaf > highest {
                continue;
            }
            for index in 0..8 {
                let entry = __cpuid_count(leaf, index);
                let kind = entry.eax & 0x1f;
                if kind == 0 {
                    break;
                }
                const INSTRUCTIONS: u32 = 2;
                if kind != INSTRUCTIONS {
                    let plus_one = |word: u32, shift: u32, mask: u32| ((word >> shift) & mask) as usize + 1;
                    let (ways, partitions) = (plus_one(entry.ebx, 22, 0x3ff), plus_one(entry.ebx, 12, 0x3ff));
                    let (line, sets) = (plus_one(entry.ebx, 0, 0xfff), entry.ecx as usize + 1);
                    found.note(((entry.eax >> 5) & 7) as usize, ways * partitions * line * sets);
                }
            }
        }
        found
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn by_processor() -> Self {
        Self::default()
    }
}

fn attribute<'a>(index: u32, name: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut path = PathBuffer::new();
    write!(path, "/sys/devices/system/cpu/cpu0/cache/index{index}/{name}").ok()?;
    proc_file::read(path.as_str()?, buffer).map(str::trim)
}

/// "48K", "2M" or plain bytes.
fn size_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_units() {
        assert_eq!(size_bytes("48K"), Some(48 << 10));
        assert_eq!(size_bytes("2M"), Some(2 << 20));
        assert_eq!(size_bytes("512"), Some(512));
        for broken in ["", "K", "4X", "x4K", "99999999999999999999K"] {
            assert_eq!(size_bytes(broken), None, "{broken}");
        }
    }

    #[test]
    fn sizes_grow_with_the_level() {
        let sizes = CacheSizes::get();
        assert!(sizes.l1_data_bytes >= 4 << 10, "{sizes:?}");
        assert!(
            sizes.l1_data_bytes <= sizes.l2_bytes && sizes.l2_bytes <= sizes.last_level_bytes,
            "{sizes:?}"
        );
    }

    #[test]
    fn the_processor_and_the_kernel_agree_where_both_say_something() {
        let (kernel, processor) = (Found::by_kernel(), Found::by_processor());
        for level in 1..=2 {
            if let (Some(one), Some(other)) = (kernel.0[level], processor.0[level]) {
                assert_eq!(one, other, "level {level}");
            }
        }
    }
}
