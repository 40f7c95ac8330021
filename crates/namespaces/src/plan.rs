//! Names and addresses of the hosts.

use std::net::Ipv4Addr;
use std::process::Command;

use proto::ids::NodeId;

use crate::error::{NamespacesError, Result};
use crate::ip;

/// Fewer are no cluster.
pub const HOSTS_MIN: usize = 2;
/// More than a machine is likely to start in a minute.
pub const HOSTS_MAX: usize = 64;

/// More rails between two hosts a link does not use.
pub const RAILS_MAX: usize = 4;

/// The ranges that are tried: 10.77.0.0/24, 10.78.0.0/24 and so on.
const RANGES: std::ops::RangeInclusive<u8> = 77..=92;

/// The range of addresses of the hosts: 10.N.0.0/24.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range(pub(crate) u8);

impl Range {
    /// Of the `index`-th host, from 0 on.
    pub(crate) fn address(self, index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, self.0, 0, u8::try_from(index + 1).unwrap_or(u8::MAX))
    }

    fn network(self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.0, 0, 0)
    }

    /// The first ones that no interface of this machine has an address of, so that no address means two
    /// things to its user: one for each rail.
    pub(crate) fn free(rails: usize) -> Result<Vec<Self>> {
        if !(1..=RAILS_MAX).contains(&rails) {
            return Err(NamespacesError::Rails { rails });
        }
        let taken = addresses(&ip::output(Command::new("ip").args(["-o", "-4", "address", "show"]))?);
        Self::free_beside(&taken, rails)
    }

    fn free_beside(taken: &[(Ipv4Addr, u32)], rails: usize) -> Result<Vec<Self>> {
        let is_free = |range: &Self| !taken.iter().any(|(address, bits)| range.meets(*address, *bits));
        let free: Vec<_> = RANGES.map(Self).filter(is_free).take(rails).collect();
        if free.len() == rails {
            return Ok(free);
        }
        Err(NamespacesError::NoRange {
            rails,
            first: format!("{}/24", Self(*RANGES.start()).network()),
            last: format!("{}/24", Self(*RANGES.end()).network()),
        })
    }

    /// Whether the network of an address with a prefix of so many bits has an address of this range.
    fn meets(self, address: Ipv4Addr, bits: u32) -> bool {
        let mask = u32::MAX.checked_shl(32 - bits.min(24)).unwrap_or(0);
        u32::from(address) & mask == u32::from(self.network()) & mask
    }
}

/// From the output of `ip -o -4 address show`.
fn addresses(text: &str) -> Vec<(Ipv4Addr, u32)> {
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(" inet ")?;
        let word = rest.split_whitespace().next()?;
        // An end of a tunnel has no prefix: its own address alone.
        let (address, bits) = word.split_once('/').unwrap_or((word, "32"));
        Some((address.parse().ok()?, bits.parse().ok()?))
    };
    text.lines().filter_map(of_line).collect()
}

/// Of the `index`-th host, from 0 on.
pub(crate) fn name(index: usize) -> String {
    format!("host{}", index + 1)
}

/// The nodes of so many hosts, if there may be so many.
pub(crate) fn nodes(count: usize) -> Result<Vec<NodeId>> {
    if !(HOSTS_MIN..=HOSTS_MAX).contains(&count) {
        return Err(NamespacesError::Count { count });
    }
    Ok(node::cluster::node_ids(count, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0    inet 10.77.0.200/16 brd 10.77.255.255 scope global eth0\\       valid_lft forever
7: tun0    inet 10.78.0.9 peer 10.90.0.1/32 scope global tun0\\       valid_lft forever
9: x    inet6 fd00::2/64 scope global
";

    #[test]
    fn a_range_is_taken_if_an_interface_has_an_address_of_it_or_its_network_holds_it() {
        let taken = addresses(SHOWN);
        assert_eq!(taken.len(), 3);
        assert_eq!(Range::free_beside(&[], 1).unwrap(), [Range(77)]);
        assert_eq!(Range::free_beside(&taken, 1).unwrap(), [Range(79)]);
        let between = addresses("1: x    inet 10.78.0.1/24 scope global\n");
        assert_eq!(Range::free_beside(&between, 3).unwrap(), [77, 79, 80].map(Range));
        assert!(Range(80).meets("10.80.0.64".parse().unwrap(), 32));
        assert!(!Range(80).meets("10.80.1.64".parse().unwrap(), 24));
        assert!(Range(80).meets("0.0.0.0".parse().unwrap(), 0));
        let error = Range::free_beside(&[("10.0.0.1".parse().unwrap(), 8)], 1).unwrap_err().to_string();
        assert!(error.contains("between 10.77.0.0/24 and 10.92.0.0/24"), "{error}");
    }

    #[test]
    fn there_is_one_rail_at_least_and_four_at_most() {
        for wrong in [0, RAILS_MAX + 1] {
            assert!(Range::free(wrong).unwrap_err().to_string().contains("from 1 to 4"));
        }
    }

    #[test]
    fn hosts_are_numbered_from_one() {
        assert_eq!((name(0), Range(77).address(0).to_string()), ("host1".into(), "10.77.0.1".into()));
        assert_eq!(Range(77).address(HOSTS_MAX - 1).to_string(), "10.77.0.64");
        assert_eq!(nodes(3).unwrap().last().unwrap().get(), 12);
        for wrong in [0, 1, 65] {
            assert!(nodes(wrong).unwrap_err().to_string().contains("from 2 to 64"));
        }
    }
}
