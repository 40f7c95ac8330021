//! The commands of SCIQuery, as in the header: `SCI_Q_` and the name.

#![allow(missing_docs)]

macro_rules! commands {
    ($($name:ident = $value:literal;)*) => {
        $(pub const $name: u32 = $value;)*

        #[cfg(test)]
        const ALL: &[(&str, u32)] = &[$((stringify!($name), $name)),*];
    };
}

commands! {
    ADAPTER = 1;
    SYSTEM = 2;
    LOCAL_SEGMENT = 3;
    REMOTE_SEGMENT = 4;
    MAP = 5;
    VENDORID = 6;
    API = 7;
    DMA = 8;
    SISCI_DRIVER_VERSION = 9;
    DEVICE = 10;
    ADAPTER_SERIAL_NUMBER = 0x101;
    ADAPTER_CARD_TYPE = 0x102;
    ADAPTER_NODEID = 0x103;
    ADAPTER_CONFIGURED = 0x104;
    ADAPTER_DMA_MTU = 0x105;
    ADAPTER_MCAST_MAX_GROUPS = 0x106;
    ADAPTER_BDF = 0x107;
    ADAPTER_NUMBER_OF_LINKS = 0x108;
    ADAPTER_LINK_OPERATIONAL = 0x109;
    ADAPTER_LINK_WIDTH = 0x10A;
    ADAPTER_LINK_SPEED = 0x10B;
    ADAPTER_LINK_UPTIME = 0x10C;
    ADAPTER_LINK_DOWNTIME = 0x10D;
    ADAPTER_LINK_CABLE_INSERTED = 0x10E;
    ADAPTER_LINK_ENABLED = 0x10F;
    ADAPTER_LINK_PARTNER_PORT_NO = 0x110;
    ADAPTER_DMA_SIZE_ALIGNMENT = 0x120;
    ADAPTER_DMA_OFFSET_ALIGNMENT = 0x121;
    ADAPTER_SUGGESTED_MIN_DMA_SIZE = 0x122;
    ADAPTER_SUGGESTED_MIN_BLOCK_SIZE = 0x123;
    ADAPTER_NUMBER_OF_STREAMS = 0x124;
    ADAPTER_STREAM_BUFFER_SIZE = 0x125;
    ADAPTER_HW_LINK_STATUS_IS_OK = 0x126;
    ADAPTER_NUMBER = 0x127;
    ADAPTER_INSTANCE_NUMBER = 0x128;
    ADAPTER_FIRMWARE_OK = 0x129;
    ADAPTER_CONNECTED_TO_SWITCH = 0x12A;
    ADAPTER_LOCAL_SWITCH_TYPE = 0x12B;
    ADAPTER_LOCAL_SWITCH_PORT_NUMBER = 0x12C;
    ADAPTER_CONNECTED_TO_EXPECTED_SWITCH_PORT = 0x12D;
    ADAPTER_ATT_PAGE_SIZE = 0x12E;
    ADAPTER_ATT_NUMBER_OF_ENTRIES = 0x12F;
    ADAPTER_ATT_AVAILABLE_ENTRIES = 0x130;
    SYSTEM_CPU_CACHE_LINE_SIZE = 0x201;
    SYSTEM_HOSTBRIDGE = 0x202;
    SYSTEM_WRITE_POSTING_ENABLED = 0x203;
    SYSTEM_WRITE_COMBINING_ENABLED = 0x204;
    LOCAL_SEGMENT_IOADDR = 0x301;
    LOCAL_SEGMENT_PHYS_ADDR = 0x302;
    LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR = 0x303;
    REMOTE_SEGMENT_IOADDR = 0x401;
    MAP_MAPPED_TO_LOCAL_TARGET = 0x501;
    MAP_IOADDR = 0x502;
    MAP_PHYS_ADDR = 0x503;
    DMA_AVAILABLE = 0x801;
    DMA_CAPABILITIES = 0x802;
    DEVICE_INFO = 0xA01;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_header() {
        let header = include_str!("../../../include/sisci/sisci_api.h");
        let mut found = 0;
        for line in header.lines().filter_map(|line| line.strip_prefix("#define SCI_Q_")) {
            let (name, value) = line.split_once(' ').unwrap();
            let value = value.trim_end_matches('U');
            let value = value.strip_prefix("0x").map_or(value.parse(), |hex| u32::from_str_radix(hex, 16));
            let known = ALL.iter().find(|(known, _)| *known == name);
            assert_eq!(known.map(|(_, value)| *value), value.ok(), "{name}");
            found += 1;
        }
        assert_eq!(found, ALL.len());
    }
}
