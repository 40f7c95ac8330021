//! Socket addresses: made, read, and written as text.

use std::mem::size_of;

/// An address as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address(pub Vec<u8>);

/// As large as any.
pub const LARGEST: usize = size_of::<libc::sockaddr_storage>();

impl Address {
    /// 127.0.0.1, or any address, with this port.
    #[must_use]
    pub fn v4(any: bool, port: u16) -> Self {
        let mut bytes = vec![0; size_of::<libc::sockaddr_in>()];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        if !any {
            bytes[4..8].copy_from_slice(&[127, 0, 0, 1]);
        }
        Self(bytes)
    }

    /// ::1, or any address, with this port.
    #[must_use]
    pub fn v6(any: bool, port: u16) -> Self {
        let mut bytes = vec![0; size_of::<libc::sockaddr_in6>()];
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        if !any {
            bytes[23] = 1;
        }
        Self(bytes)
    }

    /// A name without a file.
    #[must_use]
    pub fn unnamed_file(name: &str) -> Self {
        let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
        bytes.push(0);
        bytes.extend(name.as_bytes());
        Self(bytes)
    }

    /// The same with the loopback address in place of any: where a client connects to.
    #[must_use]
    pub fn reachable(mut self) -> Self {
        let family = self.family();
        if family == libc::AF_INET && self.0.len() >= 8 && self.0[4..8] == [0; 4] {
            self.0[4..8].copy_from_slice(&[127, 0, 0, 1]);
        } else if family == libc::AF_INET6 && self.0.len() >= 24 && self.0[8..24] == [0; 16] {
            self.0[23] = 1;
        }
        self
    }

    fn family(&self) -> i32 {
        match self.0.get(..2) {
            Some(&[low, high]) => i32::from(u16::from_ne_bytes([low, high])),
            _ => -1,
        }
    }

    /// As text. A port stands behind `@`: it is the kernel's choice, and is compared by who else has it.
    #[must_use]
    pub fn text(&self) -> String {
        let port = || u16::from_be_bytes([self.0[2], self.0[3]]);
        let ported =
            |host: String| if port() == 0 { format!("{host}:0") } else { format!("{host}:@{}", port()) };
        match self.family() {
            -1 => format!("none({})", self.0.len()),
            libc::AF_INET if self.0.len() >= 16 => {
                ported(format!("{}.{}.{}.{}", self.0[4], self.0[5], self.0[6], self.0[7]))
            }
            libc::AF_INET6 if self.0.len() >= 28 => {
                let host: String = self.0[8..24].iter().map(|byte| format!("{byte:02x}")).collect();
                ported(host.trim_start_matches("00").to_owned())
            }
            libc::AF_UNIX => format!("unix:{}", unix_name(&self.0[2..])),
            family => format!("family{family}({})", self.0.len()),
        }
    }
}

/// An abstract name; what the kernel made up (five hexadecimal digits) is its choice, as a port is.
fn unix_name(bytes: &[u8]) -> String {
    let name: Vec<u8> = bytes.iter().map(|byte| if *byte == 0 { b'^' } else { *byte }).collect();
    let name = String::from_utf8_lossy(&name).into_owned();
    match name.strip_prefix('^').map(|rest| u32::from_str_radix(rest, 16)) {
        Some(Ok(number)) if name.len() == 6 => format!("^@{}", number + 100_000),
        _ => name,
    }
}

/// What `getsockname` and its kin filled in: so many bytes they say there were, of so much room.
#[must_use]
pub fn filled(storage: &[u8], len: libc::socklen_t) -> Address {
    Address(storage[..(len as usize).min(storage.len())].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_port_as_a_choice_of_the_kernel() {
        assert_eq!(Address::v4(false, 4660).text(), "127.0.0.1:@4660");
        assert_eq!(Address::v4(true, 0).text(), "0.0.0.0:0");
        assert_eq!(Address::v4(true, 9).reachable().text(), "127.0.0.1:@9");
        assert_eq!(Address::v6(true, 9).reachable(), Address::v6(false, 9));
        assert_eq!(Address::unnamed_file("x-1").text(), "unix:^x-1");
        assert_eq!(Address::unnamed_file("0000a").text(), "unix:^@100010");
        assert_eq!(Address::default().text(), "none(0)");
    }
}
