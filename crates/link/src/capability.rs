//! The capabilities of a link, as bits that a caller checks at set-up.

use std::fmt;
use std::ops::BitOr;

/// A set of abilities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u32);

impl Capabilities {
    /// Remote memory appears in the address space: plain loads and stores reach it.
    pub const MAP: Self = Self(1);
    /// Blocks can be written.
    pub const PUT: Self = Self(1 << 1);
    /// Blocks can be read.
    pub const GET: Self = Self(1 << 2);
    /// Fetch-add and compare-and-swap of 4 and 8 bytes, atomic also against the owner's own atomics.
    pub const ATOMICS: Self = Self(1 << 3);
    /// A doorbell can be rung.
    pub const DOORBELL: Self = Self(1 << 4);
    /// Loads through a map see the owner's stores without any call, at cache speed: request and reply may
    /// share a line.
    pub const COHERENT_LOADS: Self = Self(1 << 5);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::MAP, "map"),
        (Self::PUT, "put"),
        (Self::GET, "get"),
        (Self::ATOMICS, "atomics"),
        (Self::DOORBELL, "doorbell"),
        (Self::COHERENT_LOADS, "coherent-loads"),
    ];

    /// Nothing.
    pub const fn none() -> Self {
        Self(0)
    }

    /// Whether all of `wanted` is there.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// This set without `others`.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The names of the abilities, in a settled order.
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| *name).collect()
    }
}

impl BitOr for Capabilities {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_means_all_of_them() {
        let both = Capabilities::PUT | Capabilities::GET;
        assert!(both.has(Capabilities::PUT));
        assert!(!both.has(Capabilities::PUT | Capabilities::MAP));
        assert_eq!(both.without(Capabilities::PUT), Capabilities::GET);
        assert_eq!(both.names(), ["put", "get"]);
    }
}
