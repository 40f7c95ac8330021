//! Interrupts of this program that programs of other hosts trigger, and how the triggers reach them.

use std::sync::Weak;

use ofi::{Bell, DATA_BYTES_MAX, Delivery, Endpoint, Inbox, OfiError};

use crate::interrupt::{Inlet, OwnerWords};

/// An interrupt of this program that peers may trigger.
#[derive(Debug, Clone)]
pub(crate) enum Triggered {
    Plain(Weak<OwnerWords>),
    Data(Weak<Inlet>),
}

/// How an interrupt of another host is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doorbell {
    pub(crate) id: u64,
    /// The longest message, if it takes any.
    pub(crate) message_bytes: Option<u32>,
    /// Over several rails: its messages have numbers, and it answers questions about rails.
    pub(super) is_numbered: bool,
}

/// Behind a doorbell whose messages have numbers.
const NUMBERED: u8 = 1;

impl Doorbell {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.id.to_le_bytes().to_vec();
        bytes.extend(self.message_bytes.iter().flat_map(|longest| longest.to_le_bytes()));
        bytes.extend(self.is_numbered.then_some(NUMBERED));
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (rest, is_numbered) = match rest {
            [rest @ .., NUMBERED] if rest.is_empty() || rest.len() == size_of::<u32>() => (rest, true),
            _ => (rest, false),
        };
        let message_bytes = match rest {
            [] => None,
            _ => Some(u32::from_le_bytes(rest.try_into().ok()?)),
        };
        Some(Self { id: u64::from_le_bytes(*id), message_bytes, is_numbered })
    }
}

impl Triggered {
    /// A doorbell for one importer that has one rail.
    pub(super) fn open(self, end_point: &Endpoint) -> Result<(Doorbell, Bell), OfiError> {
        let message_bytes = self.message_bytes();
        let bell = match self {
            Self::Plain(words) => {
                end_point.bell_calling(move || drop(words.upgrade().map(|words| words.ring_self())))?
            }
            Self::Data(inlet) => end_point.bell_taking(move |data| take(&inlet, data))?,
        };
        Ok((Doorbell { id: bell.id(), message_bytes, is_numbered: false }, bell))
    }

    /// What its doorbells at all rails of an importer share.
    pub(super) fn inbox(self) -> Inbox {
        match self {
            Self::Plain(words) => Inbox::counting(move |new| {
                drop(words.upgrade().map(|words| words.ring_self_times(new)));
            }),
            Self::Data(inlet) => Inbox::taking(move |data| take(&inlet, data)),
        }
    }

    /// The longest message, if it takes any.
    pub(super) fn message_bytes(&self) -> Option<u32> {
        let Self::Data(inlet) = self else { return None };
        let longest = inlet.upgrade().map_or(0, |inlet| inlet.message_bytes().min(DATA_BYTES_MAX));
        u32::try_from(longest).ok()
    }
}

fn take(inlet: &Weak<Inlet>, data: &[u8]) -> Delivery {
    inlet.upgrade().map_or(Delivery::Broken, |inlet| inlet.take(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_survive_the_way() {
        for is_numbered in [false, true] {
            // The first byte of the length may look like what stands behind a numbered one.
            for message_bytes in [None, Some(0), Some(0x0100_0000), Some(8192)] {
                let bell = Doorbell { id: u64::MAX - 1, message_bytes, is_numbered };
                assert_eq!(Doorbell::from_bytes(&bell.to_bytes()), Some(bell));
            }
        }
        for len in [0, 7, 10, 11, 14] {
            assert_eq!(Doorbell::from_bytes(&[2; 14][..len]), None, "{len} bytes");
        }
    }
}
