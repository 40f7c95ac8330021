//! The position of a connection by the kernel's own counters, correct for all readers and writers.
//!
//! Measured on Linux 6.18 over loopback: `tcpi_bytes_received` counts a FIN as one byte, `SIOCINQ` does not;
//! `tcpi_bytes_acked` counts a FIN and, at the end that connected, the SYN; `SIOCOUTQ` counts an
//! unacknowledged FIN.

/// `TCP_ESTABLISHED` to `TCP_CLOSING` of `tcpi_state`, as the kernel numbers them.
mod state {
    pub(super) const TIME_WAIT: u8 = 6;
    pub(super) const CLOSE: u8 = 7;
    pub(super) const CLOSE_WAIT: u8 = 8;
    pub(super) const LAST_ACK: u8 = 9;
    pub(super) const CLOSING: u8 = 11;
}

/// Bytes that this end's readers, all of them, have taken from the kernel.
///
/// `state` and `received` are `tcpi_state` and `tcpi_bytes_received` of one `TCP_INFO`, `unread` is
/// `SIOCINQ`. They are two calls, between which bytes may arrive: ask for `TCP_INFO` again behind `SIOCINQ`,
/// and start over if it changed.
///
/// `None`: the connection is closed (as after a reset) with bytes unread, and whether a FIN is among the
/// received is not to be told; or the numbers contradict each other.
#[must_use]
pub fn taken(state: u8, received: u64, unread: u64) -> Option<u64> {
    let fin = match state {
        state::TIME_WAIT | state::CLOSE_WAIT | state::LAST_ACK | state::CLOSING => 1,
        // With nothing unread a FIN makes the sum one too high, and then everything before it has been taken:
        // a position behind the end compares as the end does.
        state::CLOSE if unread > 0 => return None,
        _ => 0,
    };
    received.checked_sub(fin)?.checked_sub(unread)
}

/// Bytes that this end's writers, all of them, have given to the kernel.
///
/// `acked` is `tcpi_bytes_acked` of `TCP_INFO`, `unacked` is `SIOCOUTQ`: two calls as above, so ask again and
/// start over if `acked` changed. `extra` comes from [`extra_acked`]. Not to be asked after the writing half
/// was shut down: the FIN is among the unacknowledged, then among the acknowledged.
///
/// `tcpi_bytes_sent` less `tcpi_bytes_retrans` would need no `extra`, but bytes whose sending failed (a
/// firewall) are counted again when they are sent.
///
/// `None`: the numbers contradict each other.
#[must_use]
pub fn written(acked: u64, unacked: u64, extra: u64) -> Option<u64> {
    acked.checked_sub(extra)?.checked_add(unacked)
}

/// What `tcpi_bytes_acked` counts too many: 1 for the SYN at the end that connected, else 0. Asked when the
/// two ends meet, while nothing is unacknowledged: `received` is what the other end's `tcpi_bytes_received`
/// says then.
///
/// `None`: bytes are on their way, or something else is odd. Ask again later, and use no ring until then.
#[must_use]
pub fn extra_acked(acked: u64, unacked: u64, received: u64) -> Option<u64> {
    let extra = acked.checked_sub(received)?;
    (unacked == 0 && extra <= 1).then_some(extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTABLISHED: u8 = 1;

    #[test]
    fn a_fin_is_no_byte() {
        // Ten bytes and a FIN arrived, six bytes are unread, then none.
        assert_eq!(taken(ESTABLISHED, 10, 6), Some(4));
        assert_eq!(taken(state::CLOSE_WAIT, 11, 6), Some(4));
        assert_eq!(taken(state::CLOSE_WAIT, 11, 0), Some(10));
        assert_eq!(taken(state::LAST_ACK, 11, 0), Some(10));
    }

    #[test]
    fn after_a_reset_unread_bytes_leave_it_open() {
        assert_eq!(taken(state::CLOSE, 4, 4), None);
        assert_eq!(taken(state::CLOSE, 4, 0), Some(4));
    }

    #[test]
    fn contradictions_are_no_position() {
        assert_eq!(taken(ESTABLISHED, 3, 4), None);
        assert_eq!(taken(state::CLOSE_WAIT, 0, 0), None);
        assert_eq!(written(0, 4, 1), None);
        assert_eq!(written(u64::MAX, 1, 0), None);
    }

    #[test]
    fn the_syn_is_no_byte() {
        // As measured: 3,924,048 bytes given, some of them sent twice.
        assert_eq!(written(199_537, 3_724_512, 1), Some(3_924_048));
        assert_eq!(written(32_742, 3_891_307, 1), Some(3_924_048));
        assert_eq!(extra_acked(11, 0, 10), Some(1));
        assert_eq!(extra_acked(7, 0, 7), Some(0));
        assert_eq!(extra_acked(11, 3, 10), None, "on their way");
        assert_eq!(extra_acked(12, 0, 10), None);
        assert_eq!(extra_acked(9, 0, 10), None);
    }
}
