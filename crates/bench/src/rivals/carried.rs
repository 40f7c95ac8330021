//! Which part of a TCP connection's bytes the kernel carried, by its own count.

use std::net::TcpStream;

use serde::{Deserialize, Serialize};

/// Bytes of a connection, both ways together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The bytes that were sent and have arrived.
    pub bytes: u64,
    /// Those of them that the kernel did not carry.
    pub past_kernel: u64,
}

impl Carried {
    /// Compares the bytes sent with those that the kernel has counted; `None` if the kernel's count
    /// is not known.
    pub(super) fn of(bytes: u64, kernel: Option<u64>) -> Option<Self> {
        Some(Self { bytes, past_kernel: bytes.saturating_sub(kernel?) })
    }

    /// The share that bypassed the kernel, in words.
    pub(super) fn bypassed(self) -> String {
        // Rounded down, so that only all bytes are 100 %.
        let tenths = self.past_kernel as u128 * 1000 / u128::from(self.bytes.max(1));
        let (percent, tenth) = (tenths / 10, tenths % 10);
        format!("{} of {} bytes ({percent}.{tenth} %) bypassed the kernel", self.past_kernel, self.bytes)
    }

    /// The line of the classic table about its transfers. `None`: not known.
    pub(super) fn classic(carried: Option<Self>, path: &str) -> String {
        match carried {
            None => {
                format!("Socket transfers are made over TCP, {path} (whether past the kernel is not known).")
            }
            Some(Self { past_kernel: 0, .. }) => {
                format!("Socket transfers are made over kernel TCP, {path}.")
            }
            Some(some) => format!("Socket transfers are made over TCP, {path}; {}.", some.bypassed()),
        }
    }
}

/// The bytes that the kernel has carried on a connection so far, both directions; `None` if it does
/// not report them. The query covers all connections, so it must not run during a timed part.
pub(super) fn kernel_bytes(stream: &TcpStream) -> Option<u64> {
    let (local, remote) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    let all = sockets_rules::kernel::connections().ok()?;
    let (bytes_in, bytes_out) = all.iter().find(|it| (it.local, it.remote) == (local, remote))?.bytes?;
    Some(bytes_in.saturating_add(bytes_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_was_counted() {
        let said = |bytes, kernel| Carried::classic(Carried::of(bytes, kernel), "loopback");
        assert_eq!(said(100, Some(100)), "Socket transfers are made over kernel TCP, loopback.");
        assert_eq!(
            said(100_000, Some(1)),
            "Socket transfers are made over TCP, loopback; 99999 of 100000 bytes (99.9 %) bypassed the kernel."
        );
        assert!(said(10, Some(0)).contains("10 of 10 bytes (100.0 %)"));
        assert!(said(10, None).contains("not known"));
        // The kernel may have carried more bytes than the timed ones.
        assert_eq!(Carried::of(0, Some(7)), Some(Carried { bytes: 0, past_kernel: 0 }));
    }
}
