//! A port's counters, and how the two attributes for counters report them.

use mad::pm::{PortCounters, PortCountersExtended};

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident, $spec:literal : $bit:literal, $($narrow:ident, $narrow_set:ident, $narrow_type:ty, $most:expr)? ; )*) => {
        /// Counters of a port, wider than any attribute shows them.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl Counters {
            /// Names of all counters: the keys in JSON and in snapshots.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
            /// Their names in the InfiniBand Architecture Specification, in the same order: what people read.
            pub const SPECIFIED: &'static [&'static str] = &[$($spec),*];

            /// A counter by its name.
            pub fn named(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }

            /// All counters with their names.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Sums, for all ports of a switch at once.
            pub(crate) fn add(&mut self, other: &Self) {
                $( self.$name = self.$name.saturating_add(other.$name); )*
            }

            /// As the attribute of 32 bits shows them: each stops at its largest value.
            pub(crate) fn show(&self, out: &mut PortCounters) {
                $( $( out.$narrow_set(self.$name.min($most) as $narrow_type); )? )*
            }

            /// Sets the counters that `select` names to the values of the attribute.
            pub(crate) fn store(&mut self, from: &PortCounters, select: u32) {
                $( $( if select & 1 << $bit != 0 { self.$name = from.$narrow().into(); } )? )*
            }
        }
    };
}

counters! {
    /// Invalid symbols received on the link's lanes.
    symbol_errors, "SymbolErrorCounter": 0, symbol_errors, set_symbol_errors, u16, 0xffff;
    /// Times that the link recovered from an error.
    link_recoveries, "LinkErrorRecoveryCounter": 1, link_recoveries, set_link_recoveries, u8, 0xff;
    /// Times that recovery failed and the link went down.
    link_downed, "LinkDownedCounter": 2, link_downed, set_link_downed, u8, 0xff;
    /// Packets received with an error.
    receive_errors, "PortRcvErrors": 3, receive_errors, set_receive_errors, u16, 0xffff;
    /// Packets received that an earlier node had marked as bad (EBP delimiter).
    remote_physical_errors, "PortRcvRemotePhysicalErrors": 4, remote_physical_errors, set_remote_physical_errors, u16, 0xffff;
    /// Packets received that the switch could not forward.
    relay_errors, "PortRcvSwitchRelayErrors": 5, relay_errors, set_relay_errors, u16, 0xffff;
    /// Packets to be sent that were discarded.
    discards, "PortXmitDiscards": 6, discards, set_discards, u16, 0xffff;
    /// Packets that a partition or raw filter kept from being sent.
    transmit_constraint_errors, "PortXmitConstraintErrors": 7, transmit_constraint_errors, set_transmit_constraint_errors, u8, 0xff;
    /// Packets that a partition or raw filter kept from being received.
    receive_constraint_errors, "PortRcvConstraintErrors": 8, receive_constraint_errors, set_receive_constraint_errors, u8, 0xff;
    /// Times that local physical errors exceeded the port's threshold.
    integrity_errors, "LocalLinkIntegrityErrors": 9, integrity_errors, set_integrity_errors, u8, 0xf;
    /// Times that buffer overruns exceeded the port's threshold.
    overrun_errors, "ExcessiveBufferOverrunErrors": 10, overrun_errors, set_overrun_errors, u8, 0xf;
    /// Subnet management packets (VL 15) that were dropped.
    vl15_dropped, "VL15Dropped": 11, vl15_dropped, set_vl15_dropped, u16, 0xffff;
    /// Data sent, in units of 4 bytes.
    transmit_data, "PortXmitData": 12, transmit_data, set_transmit_data, u32, 0xffff_ffff;
    /// Data received, in units of 4 bytes.
    receive_data, "PortRcvData": 13, receive_data, set_receive_data, u32, 0xffff_ffff;
    /// Packets sent.
    transmit_packets, "PortXmitPkts": 14, transmit_packets, set_transmit_packets, u32, 0xffff_ffff;
    /// Packets received.
    receive_packets, "PortRcvPkts": 15, receive_packets, set_receive_packets, u32, 0xffff_ffff;
    /// Ticks in which data waited and no credits allowed to send it.
    transmit_wait, "PortXmitWait": 16, transmit_wait, set_transmit_wait, u32, 0xffff_ffff;
    /// MADs dropped at queue pair 1.
    queue1_dropped, "QP1Dropped": 17, queue1_dropped, set_queue1_dropped, u16, 0xffff;
    /// Unicast packets sent.
    unicast_sent, "PortUnicastXmitPkts": 18, ;
    /// Unicast packets received.
    unicast_received, "PortUnicastRcvPkts": 19, ;
    /// Multicast packets sent.
    multicast_sent, "PortMulticastXmitPkts": 20, ;
    /// Multicast packets received.
    multicast_received, "PortMulticastRcvPkts": 21, ;
}

macro_rules! extended {
    ($select:ident: $($name:ident, $set:ident = $bit:literal;)*) => {
        impl Counters {
            /// As the attribute of 64 bits shows them.
            pub(crate) fn show_extended(&self, out: &mut PortCountersExtended) {
                $( out.$set(self.$name); )*
            }

            /// Those that `select` (the errors' selection in its upper half) names are set to the values of
            /// the attribute.
            pub(crate) fn store_extended(&mut self, from: &PortCountersExtended, $select: u64) {
                $( if $select & 1 << $bit != 0 { self.$name = from.$name(); } )*
            }

            /// Those that `select` names become the other's again.
            pub(crate) fn keep_extended(&mut self, other: &Self, $select: u64) {
                $( if $select & 1 << $bit != 0 { self.$name = other.$name; } )*
            }
        }
    };
}

impl Counters {
    /// The [key](Self::NAMES) of a counter that is called by it or by its name in the specification, in any
    /// case of letters.
    #[must_use]
    pub fn key(name: &str) -> Option<&'static str> {
        let mut both = Self::NAMES.iter().zip(Self::SPECIFIED);
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        both.find(|(key, specified)| is(key) || is(specified)).map(|(key, _)| *key)
    }

    /// The name in the specification of the counter with this key; a word that is no key stays as it is.
    #[must_use]
    pub fn specified(key: &str) -> &str {
        let mut both = Self::NAMES.iter().zip(Self::SPECIFIED);
        both.find(|(known, _)| **known == key).map_or(key, |(_, specified)| specified)
    }
}

extended! { select:
    transmit_data, set_transmit_data = 0;
    receive_data, set_receive_data = 1;
    transmit_packets, set_transmit_packets = 2;
    receive_packets, set_receive_packets = 3;
    unicast_sent, set_unicast_sent = 4;
    unicast_received, set_unicast_received = 5;
    multicast_sent, set_multicast_sent = 6;
    multicast_received, set_multicast_received = 7;
    symbol_errors, set_symbol_errors = 32;
    link_recoveries, set_link_recoveries = 33;
    link_downed, set_link_downed = 34;
    receive_errors, set_receive_errors = 35;
    remote_physical_errors, set_remote_physical_errors = 36;
    relay_errors, set_relay_errors = 37;
    discards, set_discards = 38;
    transmit_constraint_errors, set_transmit_constraint_errors = 39;
    receive_constraint_errors, set_receive_constraint_errors = 40;
    integrity_errors, set_integrity_errors = 41;
    overrun_errors, set_overrun_errors = 42;
    vl15_dropped, set_vl15_dropped = 43;
    transmit_wait, set_transmit_wait = 44;
    queue1_dropped, set_queue1_dropped = 45;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_known_by_their_key_and_by_the_name_of_the_specification() {
        for (key, specified) in Counters::NAMES.iter().zip(Counters::SPECIFIED) {
            assert_eq!((Counters::key(key), Counters::key(specified)), (Some(*key), Some(*key)));
            assert_eq!(Counters::specified(key), *specified);
        }
        assert_eq!(Counters::key("portrcverrors"), Some("receive_errors"));
        assert_eq!((Counters::key("joy"), Counters::specified("joy")), (None, "joy"));
    }
}
