//! Receives of many messages into one piece of memory, one behind the other.
//!
//! Such a receive keeps its place among the others until less is left of its memory than the program has
//! said.

use shm::lent::Piece;

use super::{Core, Endpoint, Posted, Receive, ReceiveRequest, Space};
use crate::buffers::Buffers;
use crate::completion::Sink;
use crate::lane::Outlet;
use crate::matching::Found;
use crate::meet::Meeting;
use crate::order::Order;

/// A receive of many messages.
#[derive(Debug)]
pub(super) struct Many {
    rest: Piece,
    /// It ends when less is left.
    least: usize,
    user: u64,
    /// Messages that have their place in it and have not ended.
    open: u32,
    /// Nothing more gets a place in it.
    is_over: bool,
}

/// What is left of a receive of many behind a message of so many bytes.
fn left(many: &Many, len: usize) -> usize {
    many.rest.len().saturating_sub(len)
}

/// Whether a receive of many goes on waiting after a message of `len` bytes.
fn stays(all: &Order<Many>, number: u32, len: usize) -> bool {
    all.get(number).is_some_and(|many| left(many, len) >= many.least)
}

impl<M: Meeting> Endpoint<M> {
    /// Receives messages into `memory`, one behind the other, until less than `least` bytes (at least one)
    /// are left of it. The end of each is told with its part of the memory;
    /// [`Completion::ends_many`](crate::completion::Completion::ends_many) says which is the last to end.
    /// Where it waits, if it does.
    pub fn receive_many(
        &mut self,
        request: &ReceiveRequest,
        memory: Piece,
        least: usize,
        sink: &mut impl Sink,
    ) -> Option<Posted> {
        let ReceiveRequest { space, want, user } = *request;
        let many = Many { rest: memory, least: least.max(1), user, open: 0, is_over: false };
        let number = self.core.many.push(many);
        while let Some(len) = self.probe(space, &want).map(|envelope| envelope.len_bytes) {
            let is_last = !stays(&self.core.many, number, len);
            let receive = self.core.part(number, len, is_last)?;
            let (envelope, arrived) = self.core.take_message(space, &want)?;
            self.core.settle(receive, envelope, arrived, sink);
            if is_last {
                return None;
            }
        }
        self.core.changes += 1;
        let waits = Receive { many: Some(number), ..Receive::default() };
        Some(Posted { space, place: self.core.matcher(space).post(want, waits) })
    }
}

impl<O: Outlet> Core<O> {
    /// The place of a message in the memory of a receive of many.
    fn part(&mut self, number: u32, len: usize, is_last: bool) -> Option<Receive> {
        let many = self.many.get_mut(number)?;
        many.open += 1;
        many.is_over |= is_last;
        let buffers = Buffers::Lent(many.rest.split_off_front(len));
        Some(Receive { buffers, user: many.user, many: Some(number) })
    }

    /// The receive of a message that goes to what was found, which goes on waiting if there is room for more.
    #[inline]
    pub(super) fn take_found(&mut self, space: Space, found: Found, len: usize) -> Option<Receive> {
        let matcher = &mut self.matchers[space.index()];
        let Some(number) = matcher.found(found)?.many else { return matcher.take_found(found) };
        let is_last = !stays(&self.many, number, len);
        if is_last {
            matcher.take_found(found);
        }
        self.part(number, len, is_last)
    }

    /// A message has ended that had its place in a receive of many. Whether that ends it.
    pub(super) fn part_ended(&mut self, number: u32) -> bool {
        let Some(many) = self.many.get_mut(number) else { return false };
        many.open -= 1;
        let is_end = many.is_over && many.open == 0;
        if is_end {
            self.many.remove(number);
        }
        is_end
    }

    /// What has waited and will get no message.
    pub(super) fn given_up(&mut self, waits: Receive) -> Option<Receive> {
        let Some(number) = waits.many else { return Some(waits) };
        let many = self.many.get_mut(number)?;
        let rest = many.rest.split_off_front(usize::MAX);
        let (user, is_open) = (many.user, many.open > 0);
        many.is_over = true;
        if !is_open {
            self.many.remove(number);
        }
        Some(Receive { buffers: Buffers::Lent(rest), user, many: None })
    }
}
