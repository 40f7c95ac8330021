//! Whether more bytes can land at an end point to which a peer has written: the state that the owner of the
//! memory reports.

use std::sync::Arc;

use crate::port::{Closed, Closing};

/// What the owner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// More may land.
    Open,
    /// Nothing lands there any more.
    Closed,
    /// The provider did not close it: nobody knows.
    InDoubt,
}

/// For the questions of a peer ([`Peer::fence`](crate::Peer::fence)). It does not keep the end point open.
#[derive(Debug, Clone)]
pub struct Fence(pub(crate) Arc<Closing>);

impl Fence {
    /// How it is now. Once it is not open, it stays as it is.
    pub fn word(&self) -> Word {
        match self.0.closed() {
            None => Word::Open,
            Some(Closed::Surely) => Word::Closed,
            Some(Closed::InDoubt) => Word::InDoubt,
        }
    }
}
