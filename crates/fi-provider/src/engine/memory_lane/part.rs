//! What an operation on memory consists of: receives and messages of the inner end point.

use std::collections::VecDeque;

use libc::c_int;
use message_queue::Buffers;
use message_queue::completion::{Completion as End, Sink};
use message_queue::endpoint::Posted;

use crate::engine::request::What;
use crate::engine::slab::Slab;

/// What part of an operation on memory an operation of the inner end point is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The answer to this program's operation.
    Answer { peer: u32, context: usize, is_wanted: bool, what: What, len: usize, serial: Option<u64> },
    /// A message of this program's operation has left; if it is what a long write writes, of which.
    Out { serial: Option<u64> },
    /// A peer's request has been received.
    Request { peer: u32 },
    /// The bytes that a peer writes have arrived in a registration, or were thrown away because of an error.
    Arrival {
        to: Answered,
        region: Option<u32>,
        data: Option<u64>,
        len: usize,
        error: c_int,
        /// Where they are waited for.
        posted: Option<Posted>,
    },
    /// An answer has left, perhaps with bytes that a peer reads, and out of a registration.
    Departure { peer: u32, is_read: bool, region: Option<u32> },
}

impl Part {
    /// The registration that it uses.
    pub(super) fn region(&self) -> Option<u32> {
        match self {
            Self::Arrival { region, .. } | Self::Departure { region, .. } => *region,
            _ => None,
        }
    }
}

/// Whose request is answered: the inner number of the peer, and the peer's number of the operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) peer: u32,
    pub(super) id: u32,
}

/// A message that is sent later.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) to: u32,
    pub(super) tag: u64,
    pub(super) data: Option<u64>,
    pub(super) buffers: Buffers,
    pub(super) part: Part,
}

/// Is told of ends, and keeps them: what follows needs the inner end point again.
pub(super) struct Ends<'a> {
    pub(super) parts: &'a mut Slab<Part>,
    pub(super) ended: &'a mut VecDeque<(Part, End)>,
}

impl Sink for Ends<'_> {
    fn ended(&mut self, end: End) {
        if let Some(part) = self.parts.remove(end.user as u32) {
            self.ended.push_back((part, end));
        }
    }
}

/// Numbers of things by peer, of which there are few.
#[derive(Debug, Default)]
pub(super) struct ByPeer(Vec<usize>);

impl ByPeer {
    pub(super) fn get(&self, peer: u32) -> usize {
        self.0.get(peer as usize).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, peer: u32) {
        let at = peer as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += 1;
    }

    pub(super) fn remove(&mut self, peer: u32) {
        if let Some(count) = self.0.get_mut(peer as usize) {
            *count = count.saturating_sub(1);
        }
    }
}
