//! Where a connection stands, by the kernel's own counters: right whoever read and wrote, seen or unseen.
//!
//! Measured on Linux 6.18 over loopback: `tcpi_bytes_received` counts a FIN as one byte, `SIOCINQ` does not;
//! `tcpi_bytes_acked` counts a FIN and, at the end that connected, the SYN; `tcpi_bytes_sent` counts neither.

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
/// `state` and `received` are `tcpi_state` and `tcpi_bytes_received` of one `TCP_INFO`, `unread` is `SIOCINQ`. They are two
/// calls, between which bytes may arrive: ask for `TCP_INFO` again behind `SIOCINQ`, and start over if it changed.
///
/// `None`: the connection is closed (as after a reset) with bytes unread, and whether a FIN is among the received is not to be
/// told; or the numbers contradict each other.
#[must_use]
pub fn taken(state: u8, received: u64, unread: u64) -> Option<u64> {
    let fin = match state {
        state::TIME_WAIT | state::CLOSE_WAIT | state::LAST_ACK | state::CLOSING => 1,
        // With nothing unread a FIN makes the sum one too high, and then everything before it has been taken: a position
        // behind the end compares as the end does.
        state::CLOSE if unread > 0 => return None,
        _ => 0,
    };
    received.checked_sub(fin)?.checked_sub(unread)
}

/// Bytes that this end's writers, all of them, have given to the kernel: `tcpi_bytes_sent`, `tcpi_bytes_retrans` and
/// `tcpi_notsent_bytes` of one `TCP_INFO` (Linux 4.19 and later). Not to be asked after the writing half was shut down: the
/// FIN is among the unsent then.
///
/// `None`: the numbers contradict each other.
#[must_use]
pub fn written(sent: u64, retransmitted: u64, unsent: u32) -> Option<u64> {
    sent.checked_sub(retransmitted)?.checked_add(u64::from(unsent))
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
        assert_eq!(written(3, 4, 0), None);
        assert_eq!(written(u64::MAX, 0, 1), None);
        assert_eq!(written(100, 30, 5), Some(75));
    }
}
