//! Flags of the API, as in the header.

#![allow(missing_docs)]

pub const USE_CALLBACK: u32 = 0x1;
pub const EMPTY: u32 = 0x2;
pub const PRIVATE: u32 = 0x4;
pub const FORCE_REMOVE: u32 = 0x20;
pub const LOCK_USER_MEM: u32 = 0x400;
pub const BROADCAST: u32 = 0x40000;
pub const AUTO_ID: u32 = 0x2000_0000;
pub const ASYNCHRONOUS_CONNECT: u32 = 0x20_0000;
pub const FORCE_DISCONNECT: u32 = 0x1;
pub const NOTIFY: u32 = 0x2;
pub const FIXED_MAP_ADDR: u32 = 0x1;
pub const READONLY_MAP: u32 = 0x2;
pub const COPY_ONLY_MAP: u32 = 0x40_0000;
pub const DMA_WAIT: u32 = 0x4;
pub const DMA_READ: u32 = 0x10;
pub const DMA_GLOBAL: u32 = 0x40;
pub const DMA_SYSDMA: u32 = 0x100;
pub const DMA_ADAPTER: u32 = 0x800;
pub const DMA_POST: u32 = 0x1000;
pub const DMA_RESET: u32 = 0x2000;
pub const FIXED_INTNO: u32 = 0x2;
pub const BLOCK_READ: u32 = 0x2;
pub const ERROR_CHECK: u32 = 0x8;
pub const CACHE_INVALIDATE: u32 = 0x20_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_header() {
        let header = include_str!("../../../include/sisci/sisci_api.h");
        let ours = [
            ("USE_CALLBACK", USE_CALLBACK),
            ("EMPTY", EMPTY),
            ("PRIVATE", PRIVATE),
            ("FORCE_REMOVE", FORCE_REMOVE),
            ("LOCK_USER_MEM", LOCK_USER_MEM),
            ("BROADCAST", BROADCAST),
            ("AUTO_ID", AUTO_ID),
            ("ASYNCHRONOUS_CONNECT", ASYNCHRONOUS_CONNECT),
            ("FORCE_DISCONNECT", FORCE_DISCONNECT),
            ("NOTIFY", NOTIFY),
            ("FIXED_MAP_ADDR", FIXED_MAP_ADDR),
            ("READONLY_MAP", READONLY_MAP),
            ("COPY_ONLY_MAP", COPY_ONLY_MAP),
            ("DMA_WAIT", DMA_WAIT),
            ("DMA_READ", DMA_READ),
            ("DMA_GLOBAL", DMA_GLOBAL),
            ("DMA_SYSDMA", DMA_SYSDMA),
            ("DMA_ADAPTER", DMA_ADAPTER),
            ("DMA_POST", DMA_POST),
            ("DMA_RESET", DMA_RESET),
            ("FIXED_INTNO", FIXED_INTNO),
            ("BLOCK_READ", BLOCK_READ),
            ("ERROR_CHECK", ERROR_CHECK),
            ("CACHE_INVALIDATE", CACHE_INVALIDATE),
        ];
        for (name, value) in ours {
            let start = format!("#define SCI_FLAG_{name} 0x");
            let hex = header.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
            assert_eq!(u32::from_str_radix(hex.trim_end_matches('U'), 16).unwrap(), value, "{name}");
        }
    }
}
