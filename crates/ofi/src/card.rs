//! Cards: the address, keys and numbers that two ends exchange over the control plane before they can
//! communicate.

use crate::error::{OfiError, Result};

/// An end point, as its peers need to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointCard {
    /// The provider's name: both ends use the same one.
    pub provider: String,
    /// The provider's address.
    pub address: Vec<u8>,
}

/// Memory that peers may reach. A process that has the card can reach the memory: it goes only to whom the
/// owner lets in.
#[derive(Clone, PartialEq, Eq)]
pub struct MemoryCard {
    /// The provider's key.
    pub key: u64,
    /// Names the memory in messages; random.
    pub token: u64,
    /// The provider's address of its first byte.
    pub base: u64,
    /// The size in bytes.
    pub size_bytes: u64,
}

impl std::fmt::Debug for MemoryCard {
    /// Without what opens the memory.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryCard").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

/// Bytes of a card of memory.
pub const MEMORY_CARD_BYTES: usize = 32;

/// Longer addresses and names do not exist.
const LONGEST: usize = 512;

impl EndpointCard {
    /// As bytes for the control plane.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [self.provider.as_bytes(), &self.address] {
            bytes.extend_from_slice(&(part.len() as u16).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Out of the bytes of a peer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bad = |why| OfiError::BadCard { what: "an endpoint address", len: bytes.len(), why };
        let mut rest = bytes;
        let mut part = || {
            let (len, after) = rest.split_first_chunk::<2>()?;
            let (part, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = after;
            (part.len() <= LONGEST).then_some(part)
        };
        let (Some(provider), Some(address)) = (part(), part()) else {
            return Err(bad("a part is cut off or too long"));
        };
        if !rest.is_empty() {
            return Err(bad("it is longer than its own length fields say"));
        }
        let provider =
            std::str::from_utf8(provider).map_err(|_| bad("the provider's name is not UTF-8 text"))?;
        Ok(Self { provider: provider.to_owned(), address: address.to_vec() })
    }
}

impl MemoryCard {
    /// As bytes for the control plane.
    pub fn to_bytes(&self) -> [u8; MEMORY_CARD_BYTES] {
        let mut bytes = [0; MEMORY_CARD_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.key, self.token, self.base, self.size_bytes])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Out of the bytes of a peer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bad = |why| OfiError::BadCard { what: "a memory key", len: bytes.len(), why };
        let bytes: &[u8; MEMORY_CARD_BYTES] = bytes.try_into().map_err(|_| bad("it should have 32 bytes"))?;
        let word = |nth: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * nth + byte]));
        let card = Self { key: word(0), token: word(1), base: word(2), size_bytes: word(3) };
        if card.base.checked_add(card.size_bytes).is_none() || usize::try_from(card.size_bytes).is_err() {
            return Err(bad("the memory does not fit into an address space"));
        }
        Ok(card)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_survive_the_way() {
        let card = EndpointCard { provider: "tcp;ofi_rxm".to_owned(), address: vec![1, 2, 3] };
        assert_eq!(EndpointCard::from_bytes(&card.to_bytes()).unwrap(), card);
        let card = MemoryCard { key: 1, token: 2, base: 3, size_bytes: 4 };
        assert_eq!(MemoryCard::from_bytes(&card.to_bytes()).unwrap(), card);
        assert!(!format!("{card:?}").contains("key"));
    }

    #[test]
    fn a_card_that_is_cut_off_extended_or_senseless_is_refused() {
        let bytes = EndpointCard { provider: "net".to_owned(), address: vec![9; 16] }.to_bytes();
        for len in 0..bytes.len() {
            assert!(EndpointCard::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(EndpointCard::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        assert!(EndpointCard::from_bytes(&[255; 2000]).is_err());
        assert!(MemoryCard::from_bytes(&[0; 31]).is_err());
        assert!(MemoryCard::from_bytes(&[255; 32]).is_err());
    }
}
