//! A port's counters, and how the two attributes for counters report them.

use mad::pm::{PortCounters, PortCountersExtended};

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident : $bit:literal, $($narrow:ident, $narrow_set:ident, $narrow_type:ty, $most:expr)? ; )*) => {
        /// Counters of a port, wider than any attribute shows them.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl Counters {
            /// Names of all counters.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

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

            /// Those that `select` names become what the attribute says.
            pub(crate) fn store(&mut self, from: &PortCounters, select: u32) {
                $( $( if select & 1 << $bit != 0 { self.$name = from.$narrow().into(); } )? )*
            }
        }
    };
}

counters! {
    /// Symbols that are none.
    symbol_errors: 0, symbol_errors, set_symbol_errors, u16, 0xffff;
    /// Recoveries of the link that went well.
    link_recoveries: 1, link_recoveries, set_link_recoveries, u8, 0xff;
    /// Recoveries of the link that failed.
    link_downed: 2, link_downed, set_link_downed, u8, 0xff;
    /// Packets that came in wrong.
    receive_errors: 3, receive_errors, set_receive_errors, u16, 0xffff;
    /// Packets that were marked as wrong before they came in.
    remote_physical_errors: 4, remote_physical_errors, set_remote_physical_errors, u16, 0xffff;
    /// Packets that could not be passed on.
    relay_errors: 5, relay_errors, set_relay_errors, u16, 0xffff;
    /// Packets that were dropped on the way out.
    discards: 6, discards, set_discards, u16, 0xffff;
    /// Packets that were not let out.
    transmit_constraint_errors: 7, transmit_constraint_errors, set_transmit_constraint_errors, u8, 0xff;
    /// Packets that were not let in.
    receive_constraint_errors: 8, receive_constraint_errors, set_receive_constraint_errors, u8, 0xff;
    /// Errors of the link that passed the port's threshold.
    integrity_errors: 9, integrity_errors, set_integrity_errors, u8, 0xf;
    /// Overruns that passed the port's threshold.
    overrun_errors: 10, overrun_errors, set_overrun_errors, u8, 0xf;
    /// Management datagrams that were dropped.
    lane15_dropped: 11, lane15_dropped, set_lane15_dropped, u16, 0xffff;
    /// Sent, in units of four bytes.
    transmit_data: 12, transmit_data, set_transmit_data, u32, 0xffff_ffff;
    /// Received, in units of four bytes.
    receive_data: 13, receive_data, set_receive_data, u32, 0xffff_ffff;
    /// Packets sent.
    transmit_packets: 14, transmit_packets, set_transmit_packets, u32, 0xffff_ffff;
    /// Packets received.
    receive_packets: 15, receive_packets, set_receive_packets, u32, 0xffff_ffff;
    /// Ticks in which there was something to send, and no leave to.
    transmit_wait: 16, transmit_wait, set_transmit_wait, u32, 0xffff_ffff;
    /// Datagrams that were dropped at queue 1.
    queue1_dropped: 17, queue1_dropped, set_queue1_dropped, u16, 0xffff;
    /// Packets sent to one.
    unicast_sent: 18, ;
    /// Packets received for one.
    unicast_received: 19, ;
    /// Packets sent to a group.
    multicast_sent: 20, ;
    /// Packets received for a group.
    multicast_received: 21, ;
}

macro_rules! extended {
    ($select:ident: $($name:ident, $set:ident = $bit:literal;)*) => {
        impl Counters {
            /// As the attribute of 64 bits shows them.
            pub(crate) fn show_extended(&self, out: &mut PortCountersExtended) {
                $( out.$set(self.$name); )*
            }

            /// Those that `select` (the errors' selection in its upper half) names become what the attribute says.
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
    lane15_dropped, set_lane15_dropped = 43;
    transmit_wait, set_transmit_wait = 44;
    queue1_dropped, set_queue1_dropped = 45;
}
