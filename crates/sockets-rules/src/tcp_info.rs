//! The kernel's counters of a TCP connection: `struct tcp_info` of `linux/tcp.h`, as `TCP_INFO` and
//! sock_diag return it.

/// As many of its bytes as are used here: to the end of `tcpi_bytes_retrans`.
pub const BYTES: usize = 216;

const STATE_AT: usize = 0;
const BYTES_RECEIVED_AT: usize = 128;
const NOT_SENT_AT: usize = 144;
const BYTES_SENT_AT: usize = 200;
const BYTES_RETRANSMITTED_AT: usize = 208;

/// States in which the other end's end has come, which counts as a byte: TIME_WAIT, CLOSE, CLOSE_WAIT,
/// LAST_ACK, CLOSING. (CLOSE is also where a reset ends without one; then a byte is missing here.)
const END_RECEIVED: [u8; 5] = [6, 7, 8, 9, 11];

/// Bytes that have come, and bytes that were given to be sent. None before Linux 4.19, which did not count
/// all of it.
// Inlined: the library in the program is linked from its own code alone.
#[inline]
#[must_use]
pub fn bytes(info: &[u8]) -> Option<(u64, u64)> {
    let long = |at: usize| Some(u64::from_ne_bytes(*info.get(at..)?.first_chunk::<8>()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk::<4>()?));
    let end = u64::from(END_RECEIVED.contains(info.get(STATE_AT)?));
    let sent = long(BYTES_SENT_AT)?.wrapping_sub(long(BYTES_RETRANSMITTED_AT)?);
    Some((long(BYTES_RECEIVED_AT)?.saturating_sub(end), sent.wrapping_add(u64::from(word(NOT_SENT_AT)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_where_the_kernel_has_them() {
        let mut info = [0; BYTES];
        info[0] = 1;
        info[128..136].copy_from_slice(&1001_u64.to_ne_bytes());
        info[144..148].copy_from_slice(&5_u32.to_ne_bytes());
        info[200..208].copy_from_slice(&300_u64.to_ne_bytes());
        info[208..216].copy_from_slice(&100_u64.to_ne_bytes());
        assert_eq!(bytes(&info), Some((1001, 205)));
        info[0] = 8;
        assert_eq!(bytes(&info), Some((1000, 205)));
        for short in [0, 1, 100, BYTES - 1] {
            assert_eq!(bytes(&info[..short]), None);
        }
    }

    /// The kernel's own numbers of a connection that has moved known ones.
    #[test]
    fn a_connections_bytes_are_the_kernels() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.write_all(&[1; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        far.write_all(&[1; 10]).unwrap();
        drop(far);
        near.read_to_end(&mut Vec::new()).unwrap();
        let mut all = crate::kernel::connections().unwrap();
        let (here, there) = (near.local_addr().unwrap(), near.peer_addr().unwrap());
        all.retain(|it| (it.local, it.remote) == (here, there));
        assert_eq!((all.len(), all[0].bytes), (1, Some((10, 1000))), "{all:?}");
    }
}
