//! Whether an end point is closed: its owner tells that to peers that want to repeat operations which may
//! still be under way to it.

use shm::sync::{AtomicU8, Ordering};

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const IN_DOUBT: u8 = 2;

/// How an end point was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Nothing lands there any more.
    Surely,
    /// The provider reported an error: something may land still.
    InDoubt,
}

/// Of one end point.
#[derive(Debug, Default)]
pub(crate) struct Closing(AtomicU8);

impl Closing {
    /// `None`: it is open.
    pub(crate) fn closed(&self) -> Option<Closed> {
        // Acquire: pairs with the Release of `end`, before which the last bytes have landed.
        match self.0.load(Ordering::Acquire) {
            OPEN => None,
            CLOSED => Some(Closed::Surely),
            _ => Some(Closed::InDoubt),
        }
    }

    /// The provider has been told to close it; whether it did.
    pub(super) fn end(&self, is_closed: bool) {
        // Release: pairs with the Acquire of `closed`.
        self.0.store(if is_closed { CLOSED } else { IN_DOUBT }, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_closed_for_sure_only_if_the_provider_says_so() {
        for (is_closed, said) in [(true, Closed::Surely), (false, Closed::InDoubt)] {
            let closing = Closing::default();
            assert_eq!(closing.closed(), None);
            closing.end(is_closed);
            assert_eq!(closing.closed(), Some(said));
        }
    }
}
