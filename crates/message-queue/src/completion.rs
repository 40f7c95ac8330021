//! How the end of an operation is told.

use crate::buffers::Buffers;
use crate::error::Error;
use crate::matching::Envelope;

/// What ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A send: its memory belongs to the program again. Of a synchronous send: its receive has begun.
    Send,
    /// A receive, with what the message said of itself; there is none if it failed before a message was
    /// found.
    Receive(Option<Envelope>),
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// The word that the program gave the operation.
    pub user: u64,
    /// What ended.
    pub ended: Ended,
    /// What went wrong.
    pub error: Option<Error>,
    /// The operation's memory.
    pub buffers: Buffers,
    /// The last part of a receive of many messages: all of its memory belongs to the program again.
    pub ends_many: bool,
}

/// Who is told.
pub trait Sink {
    /// An operation has ended.
    fn ended(&mut self, completion: Completion);

    /// A receive has ended well: what happens most often.
    #[inline]
    fn received(&mut self, user: u64, envelope: &Envelope, buffers: Buffers) {
        let ended = Ended::Receive(Some(*envelope));
        self.ended(Completion { user, ended, error: None, buffers, ends_many: false });
    }
}

impl Sink for Vec<Completion> {
    fn ended(&mut self, completion: Completion) {
        self.push(completion);
    }
}
