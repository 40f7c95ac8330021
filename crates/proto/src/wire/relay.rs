//! Messages between a manager and a relay, which forwards TCP connections between nodes without a common
//! link, and addresses of end points.
//!
//! Of a link's own addresses one kind is understood here, because only it can be forwarded: those of
//! libfabric's provider `tcp;ofi_rxm`, an IP address and a port. A card is the provider's name and the
//! address, each behind its length.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;

/// The one provider whose connections can be forwarded.
pub const RELAYED_PROVIDER: &str = "tcp;ofi_rxm";
/// Ports below this one are never forwarded to as an end point of a program.
pub const FIRST_PORT: u16 = 1024;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The number of a forward, as the manager that relays counts. Never used twice while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardNo(pub u64);

/// What a node asks a relay for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Forward {
    /// Connections of the asking node to the manager of this one.
    Manager {
        /// Where they lead.
        to: NodeId,
    },
    /// Connections of this node to an end point of the asking one.
    EndPoint {
        /// Who connects.
        from: NodeId,
        /// An address of the asking node's host.
        at: SocketAddr,
    },
}

/// The IP address and port in a card of [`RELAYED_PROVIDER`]; else why connections to it cannot be forwarded.
pub fn address_of(card: &[u8]) -> Result<SocketAddr, &'static str> {
    let (provider, address) = parts(card).ok_or("the address of its end point is malformed")?;
    if provider != RELAYED_PROVIDER.as_bytes() {
        return Err("its provider is not tcp;ofi_rxm, the only one that a relay can forward");
    }
    let word = |nth: usize| address.get(nth..nth + 2)?.try_into().ok();
    let family = word(0).map(u16::from_ne_bytes);
    let port = word(2).map(u16::from_be_bytes);
    let ip = match family {
        Some(AF_INET) => address.get(4..8).and_then(|ip| <[u8; 4]>::try_from(ip).ok()).map(IpAddr::from),
        Some(AF_INET6) => address.get(8..24).and_then(|ip| <[u8; 16]>::try_from(ip).ok()).map(IpAddr::from),
        _ => None,
    };
    let address = ip.zip(port).map(|(ip, port)| SocketAddr::new(ip, port));
    address.ok_or("the address of its end point is not one of TCP")
}

/// The same card with another address of the same family.
pub fn with_address(card: &[u8], other: SocketAddr) -> Option<Vec<u8>> {
    let before = address_of(card).ok()?;
    let start = parts(card).map(|(provider, _)| 4 + provider.len())?;
    let mut card = card.to_vec();
    card.get_mut(start + 2..start + 4)?.copy_from_slice(&other.port().to_be_bytes());
    match (before.ip(), other.ip()) {
        (IpAddr::V4(_), IpAddr::V4(ip)) => card.get_mut(start + 4..start + 8)?.copy_from_slice(&ip.octets()),
        (IpAddr::V6(_), IpAddr::V6(ip)) => card.get_mut(start + 8..start + 24)?.copy_from_slice(&ip.octets()),
        _ => return None,
    }
    Some(card)
}

/// The provider's name, and its address.
fn parts(card: &[u8]) -> Option<(&[u8], &[u8])> {
    let part = |bytes: &'_ [u8]| {
        let (len, rest) = bytes.split_first_chunk::<2>()?;
        Some((usize::from(u16::from_le_bytes(*len)), rest.len())).filter(|(len, there)| len <= there)
    };
    let (len, _) = part(card)?;
    let (provider, rest) = card.get(2..)?.split_at_checked(len)?;
    let (len, there) = part(rest)?;
    (len == there).then_some(())?;
    Some((provider, rest.get(2..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(provider: &str, address: &[u8]) -> Vec<u8> {
        let part = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
        [part(provider.as_bytes()), part(address)].concat()
    }

    #[test]
    fn an_address_is_read_and_replaced_and_nothing_else_is() {
        // As libfabric 1.17 prints it.
        let address = [2, 0, 0x86, 0x57, 10, 99, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let own = card(RELAYED_PROVIDER, &address);
        assert_eq!(address_of(&own), Ok("10.99.3.1:34391".parse().unwrap()));
        let other = "10.1.2.3:40000".parse().unwrap();
        let replaced = with_address(&own, other).unwrap();
        assert_eq!((address_of(&replaced), replaced.len()), (Ok(other), own.len()));
        assert_eq!(with_address(&own, "[fd00::1]:40000".parse().unwrap()), None);
        let mut six = [0; 28];
        six[..4].copy_from_slice(&[10, 0, 4, 1]);
        six[8..24].copy_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let six = card(RELAYED_PROVIDER, &six);
        assert_eq!(address_of(&six), Ok("[fd00::1]:1025".parse().unwrap()));
        let moved = with_address(&six, "[fd00::2]:7".parse().unwrap()).unwrap();
        assert_eq!(address_of(&moved), Ok("[fd00::2]:7".parse().unwrap()));
    }

    #[test]
    fn what_is_no_address_of_tcp_is_refused_with_the_reason() {
        let address = [2, 0, 0x86, 0x57, 10, 99, 3, 1];
        assert!(address_of(&card("verbs;ofi_rxm", &address)).unwrap_err().contains("provider"));
        assert!(address_of(&card(RELAYED_PROVIDER, &[1; 16])).unwrap_err().contains("not one of TCP"));
        let whole = card(RELAYED_PROVIDER, &address);
        for len in 0..whole.len() {
            assert!(address_of(&whole[..len]).is_err(), "{len} bytes");
        }
        assert!(address_of(&[&whole[..], &[0]].concat()).is_err());
    }
}
