//! Addresses of hosts, with or without a port, as users give them.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::DEFAULT_PORT;

/// An address with or without a port, such as `10.0.0.1`, `10.0.0.1:7411`, `[fd00::1]:7411`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub(super) ip: IpAddr,
    pub(super) port: Option<u16>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = text.parse::<SocketAddr>().map(|address| (address.ip(), Some(address.port())));
        let alone = || without_brackets(text).parse::<IpAddr>().map(|ip| (ip, None));
        if without_scope(text).is_some_and(is_link_local) {
            return Err(link_local(text));
        }
        let (ip, port) = whole.or_else(|_| alone()).map_err(|_| match port_of(text) {
            Some(port) => wrong_port(text, port),
            None => format!("`{text}` is not an address such as 10.0.0.1 or 10.0.0.1:{DEFAULT_PORT}"),
        })?;
        if port == Some(0) {
            return Err(wrong_port(text, "0"));
        }
        if ip.is_multicast() {
            return Err(format!("`{text}`: it is a multicast address: give this host's own address"));
        }
        if ip.is_unspecified() {
            return Err(format!("other hosts cannot connect to `{text}`: give this host's own address"));
        }
        if is_link_local(ip) {
            return Err(link_local(text));
        }
        Ok(Self { ip, port })
    }
}

/// `fd00::1` for `[fd00::1]`.
fn without_brackets(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

/// The address of one with the name of an interface, such as `fe80::1%eth0` or `[fe80::1%eth0]:7411`.
fn without_scope(text: &str) -> Option<IpAddr> {
    text.strip_prefix('[').unwrap_or(text).split_once('%')?.0.parse().ok()
}

/// It counts on one interface of a host alone (RFC 4291, 2.5.6), so others cannot be told of it.
pub(super) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn link_local(text: &str) -> String {
    format!(
        "`{text}` is a link-local address, by which other hosts cannot find this one: give another address of this host"
    )
}

/// The digits behind an address of the internet, which are too large for a port where the whole is no
/// address.
fn port_of(text: &str) -> Option<&str> {
    let (ip, port) = text.rsplit_once(':')?;
    let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && ip.parse::<IpAddr>().is_ok()).then_some(port)
}

fn wrong_port(text: &str, port: &str) -> String {
    format!("`{text}`: port {port} is not possible: give a port from 1 to 65535")
}

impl Address {
    pub(super) fn complete(self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(DEFAULT_PORT))
    }
}

/// Whether a text can be a host, with or without a port; the text says what is wrong.
pub fn check_host(host: &str) -> Result<(), String> {
    if without_brackets(host).parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    let (name, port) = host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    if name.is_empty() {
        return Err("the host is missing: give HOST or HOST:PORT".to_owned());
    }
    match port.map(|port| (port, port.parse::<u16>())) {
        None | Some((_, Ok(1..))) => Ok(()),
        Some((port, _)) => {
            Err(format!("`{port}` is not a port: give HOST or HOST:PORT, a port from 1 to 65535"))
        }
    }
}

/// With the usual port, if it has none.
pub(super) fn with_port(host: &str) -> String {
    let has_port = host.parse::<SocketAddr>().is_ok()
        || host
            .rsplit_once(':')
            .is_some_and(|(name, port)| !name.contains(':') && port.parse::<u16>().is_ok());
    match without_brackets(host).parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, DEFAULT_PORT).to_string(),
        Err(_) if has_port => host.to_owned(),
        Err(_) => format!("{host}:{DEFAULT_PORT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_in_the_end() {
        for (text, whole) in [
            ("10.0.0.1", "10.0.0.1:7411"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("fd00::1", "[fd00::1]:7411"),
            ("[fd00::1]", "[fd00::1]:7411"),
            ("[fd00::1]:80", "[fd00::1]:80"),
            ("head", "head:7411"),
            ("head:80", "head:80"),
        ] {
            assert_eq!(with_port(text), whole);
            if let Ok(address) = text.parse::<Address>() {
                assert_eq!(address.complete().to_string(), whole);
            }
        }
        for (wrong, why) in [
            ("", "is not an address"),
            ("head", "is not an address"),
            ("0.0.0.0", "other hosts cannot connect"),
            ("[::]:1", "other hosts cannot connect"),
            ("10.0.0.1:0", "port 0 is not possible"),
            ("10.0.0.1:99999", "port 99999 is not possible"),
            ("[fd00::1]:65536", "port 65536 is not possible"),
            ("224.0.0.1", "it is a multicast address"),
            ("fe80::1", "is a link-local address"),
            ("fe80::1%eth0", "is a link-local address"),
            ("[fe80::1%eth0]:7411", "is a link-local address"),
        ] {
            let said = wrong.parse::<Address>().unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
        for host in ["head", "head:80", "10.0.0.1", "10.0.0.1:80", "fd00::1", "[fd00::1]", "[fd00::1]:80"] {
            assert_eq!(check_host(host), Ok(()), "{host}");
        }
        for host in ["", ":80", "127.0.0.1:foo", "head:0", "head:", "head:65536"] {
            assert!(check_host(host).is_err_and(|why| why.contains("give HOST or HOST:PORT")), "{host}");
        }
    }
}
