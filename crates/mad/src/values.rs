//! Types of fields that are more than a number.

use std::fmt;

use crate::bits::Bits;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $of:ty, $show:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $of);

        impl Bits for $name {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                Self(bits as $of)
            }
            #[inline]
            fn to_bits(self) -> u64 {
                self.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $show, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

number!(
    /// Globally unique identifier of a node, a port or a system.
    Guid, u64, "0x{:016x}"
);
number!(
    /// Local identifier: the address of a port within the subnet. 1 to 0xbfff is one port, 0xc000 to 0xfffe a
    /// multicast group.
    Lid, u16, "{}"
);

impl Lid {
    /// What a port without a LID responds to, and where directed datagrams are sent.
    pub const PERMISSIVE: Self = Self(0xffff);
    /// The largest LID of one port.
    pub const LAST_UNICAST: Self = Self(0xbfff);

    /// May it be the address of one port?
    #[must_use]
    pub fn is_unicast(self) -> bool {
        (1..=Self::LAST_UNICAST.0).contains(&self.0)
    }
}

/// Global identifier: prefix of the subnet, and GUID of the port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The prefix that every subnet has before a manager gives it another.
    pub const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

    /// Of a prefix and a port's GUID.
    #[must_use]
    pub fn new(prefix: u64, guid: Guid) -> Self {
        Self((u128::from(prefix) << 64 | u128::from(guid.0)).to_be_bytes())
    }

    /// Prefix of the subnet.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    /// GUID of the port.
    #[must_use]
    pub fn guid(&self) -> Guid {
        Guid(u128::from_be_bytes(self.0) as u64)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A field whose numbers have names; what has none is kept as it came.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $constant:ident = $value:literal, $said:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u8);

        impl $name {
            $($(#[$vdoc])* pub const $constant: Self = Self($value);)*

            /// Its name, if it has one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($said),)*
                    _ => None,
                }
            }
        }

        impl Bits for $name {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                Self(bits as u8)
            }
            #[inline]
            fn to_bits(self) -> u64 {
                self.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "unknown ({:#x})", self.0),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

named!(
    /// Management class, which selects the agent.
    Class {
        /// Subnet management, routed by LID.
        SUBNET = 0x01, "subnet management";
        /// Subnet management, routed by the list of ports that it carries.
        DIRECTED = 0x81, "subnet management, directed route";
        /// Subnet administration.
        ADMINISTRATION = 0x03, "subnet administration";
        /// Counters.
        PERFORMANCE = 0x04, "performance management";
        /// Baseboard management.
        BASEBOARD = 0x05, "baseboard management";
        /// Device management.
        DEVICE = 0x06, "device management";
        /// Congestion control.
        CONGESTION = 0x21, "congestion control";
    }
);

named!(
    /// What is to be done, or that it was.
    Method {
        /// Ask.
        GET = 0x01, "Get";
        /// Set a value, and get the result.
        SET = 0x02, "Set";
        /// Sent, and no response wanted.
        SEND = 0x03, "Send";
        /// Something happened.
        TRAP = 0x05, "Trap";
        /// A report to a subscriber.
        REPORT = 0x06, "Report";
        /// The manager has heard the trap.
        TRAP_REPRESS = 0x07, "TrapRepress";
        /// Ask for a table of records.
        GET_TABLE = 0x12, "GetTable";
        /// Ask for the trace of a path.
        GET_TRACE_TABLE = 0x13, "GetTraceTable";
        /// Ask with several source and destination GIDs.
        GET_MULTI = 0x14, "GetMulti";
        /// Remove a record.
        DELETE = 0x15, "Delete";
        /// Answer to a Get or Set.
        GET_RESPONSE = 0x81, "GetResp";
        /// A subscriber has heard.
        REPORT_RESPONSE = 0x86, "ReportResp";
        /// Answer to GetTable.
        GET_TABLE_RESPONSE = 0x92, "GetTableResp";
        /// Answer to GetMulti.
        GET_MULTI_RESPONSE = 0x94, "GetMultiResp";
        /// Answer to Delete.
        DELETE_RESPONSE = 0x95, "DeleteResp";
    }
);

impl Method {
    /// The bit that responses have.
    #[must_use]
    pub fn is_response(self) -> bool {
        self.0 & 0x80 != 0 || self == Self::TRAP_REPRESS
    }
}

named!(
    /// What kind of node.
    NodeKind {
        /// A channel adapter: a host.
        HOST = 1, "host";
        /// A switch.
        SWITCH = 2, "switch";
        /// A router.
        ROUTER = 3, "router";
    }
);

named!(
    /// Logical state of a link.
    PortState {
        /// In a Set: leave it.
        NO_CHANGE = 0, "no change";
        /// No link.
        DOWN = 1, "Down";
        /// Management datagrams only.
        INITIALIZE = 2, "Initialize";
        /// Ready to be made active.
        ARMED = 3, "Armed";
        /// Everything passes.
        ACTIVE = 4, "Active";
        /// Active, and briefly interrupted.
        ACTIVE_DEFER = 5, "ActiveDefer";
    }
);

named!(
    /// Physical state of a link.
    PhysicalState {
        /// In a Set: leave it.
        NO_CHANGE = 0, "no change";
        /// Not looking for a partner.
        SLEEP = 1, "Sleep";
        /// Looking for a partner.
        POLLING = 2, "Polling";
        /// Switched off.
        DISABLED = 3, "Disabled";
        /// Agreeing on width and speed.
        TRAINING = 4, "PortConfigurationTraining";
        /// Connected.
        LINK_UP = 5, "LinkUp";
        /// Recovering from errors.
        RECOVERY = 6, "LinkErrorRecovery";
        /// Under a test.
        TEST = 7, "PhyTest";
    }
);

named!(
    /// What a subnet manager does at the moment.
    SmState {
        /// Taken out of service.
        NOT_ACTIVE = 0, "not active";
        /// Looking at the fabric.
        DISCOVERING = 1, "discovering";
        /// Waits for the master's end.
        STANDBY = 2, "standby";
        /// Manages the fabric.
        MASTER = 3, "master";
    }
);

/// Status of a response (the low 15 bits): busy, redirect, why it was refused, and what its class adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u16);

impl Status {
    /// Done.
    pub const OK: Self = Self(0);
    /// Of a version that the agent does not know.
    pub const BAD_VERSION: Self = Self(1 << 2);
    /// Not with this method.
    pub const METHOD_NOT_SUPPORTED: Self = Self(2 << 2);
    /// Not this attribute with this method.
    pub const ATTRIBUTE_NOT_SUPPORTED: Self = Self(3 << 2);
    /// A field of the attribute or its modifier is out of range.
    pub const BAD_FIELD: Self = Self(7 << 2);

    /// Ask again later?
    #[must_use]
    pub fn is_busy(self) -> bool {
        self.0 & 1 != 0
    }
}

impl Bits for Status {
    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self(bits as u16)
    }
    #[inline]
    fn to_bits(self) -> u64 {
        self.0.into()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self.0 >> 2 & 7 {
            0 if self.0 == 0 => "done",
            1 => "version not supported",
            2 => "method not supported",
            3 => "attribute not supported",
            7 => "invalid field",
            _ if self.is_busy() => "busy",
            _ => "rejected",
        };
        write!(f, "{said} (status {:#06x})", self.0)
    }
}

/// Lanes of a link, as the bit set of a PortInfo: 1, 4, 8, 12 or 2.
///
/// `None` where not exactly one known width is named.
#[must_use]
pub fn lanes(width: u8) -> Option<u8> {
    match width {
        1 => Some(1),
        2 => Some(4),
        4 => Some(8),
        8 => Some(12),
        16 => Some(2),
        _ => None,
    }
}
