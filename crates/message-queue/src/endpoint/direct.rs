//! A receive that is carried out by the call: a short message goes from the ring into the program's memory,
//! and is never posted or kept.
//!
//! It is the same as posting the receive if no other receive waits: a message that was kept came before all
//! that are in the ring, and a message at the front of the ring before all behind it. Whatever is not that
//! simple is left where it is, for a receive that is posted.

use shm::window::Window;

use super::arrive::envelope;
use super::{Body, Core, Endpoint, Space};
use crate::completion::Sink;
use crate::error::Error;
use crate::lane::{Found, Inlet, Outlet};
use crate::matching::{Envelope, PeerId, Want};
use crate::meet::Meeting;
use crate::wire::{HAS_MORE, Head, Kind, TELL_MATCHED, TELL_TAKEN};

/// What became of such a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// The message is in the memory; or its beginning is, and then it was too long.
    Received(Envelope, Option<Error>),
    /// Nothing is there. It may come after progress.
    Nothing,
    /// A receive has to be posted.
    Post,
}

impl<M: Meeting> Endpoint<M> {
    /// Receives a message of one sender into `bytes`, if it is there and short.
    #[inline]
    pub fn receive_direct(
        &mut self,
        space: Space,
        want: &Want,
        bytes: &mut [u8],
        sink: &mut impl Sink,
    ) -> Direct {
        let core = &mut self.core;
        let Some(source) = want.source else { return Direct::Post };
        let matcher = &core.matchers[space.index()];
        if !matcher.is_idle() {
            return core.copy_kept(space, want, bytes);
        }
        let Some(inbox) = self.inboxes.of_mut(source) else { return Direct::Nothing };
        // What is wrong with a lane is noticed by progress, as is a message that had no room.
        if inbox.left_at.is_some() || inbox.is_last {
            return Direct::Post;
        }
        let taken = inbox.inlet.take_if(|record| take(source, space, want, record, bytes));
        let (head, envelope) = match taken {
            Ok(Found::Taken(taken)) => taken,
            Ok(Found::Nothing) => return Direct::Nothing,
            Ok(Found::Left) | Err(_) => return Direct::Post,
        };
        if head.has(TELL_TAKEN) || head.has(TELL_MATCHED) {
            core.tell_done(source, head.id);
            self.pump_if_busy(sink);
        }
        Direct::Received(envelope, truncated(&envelope, bytes))
    }
}

/// Takes the record out of the ring, if it is the message that is wanted, and a short one.
#[inline]
fn take(
    source: PeerId,
    space: Space,
    want: &Want,
    record: &Window<'_>,
    bytes: &mut [u8],
) -> Option<(Head, Envelope)> {
    let head = Head::read(record).filter(|head| head.kind == Kind::Eager && !head.has(HAS_MORE))?;
    let (of, mut envelope, at) = envelope(source, head, record).ok()?;
    if of != space || !want.takes(&envelope) {
        return None;
    }
    envelope.len_bytes = record.len().checked_sub(at)?;
    let room = bytes.len().min(envelope.len_bytes);
    record.get_from_ring(at, bytes.get_mut(..room)?).ok()?;
    Some((head, envelope))
}

fn truncated(envelope: &Envelope, bytes: &[u8]) -> Option<Error> {
    let (message_bytes, room_bytes) = (envelope.len_bytes, bytes.len());
    (message_bytes > room_bytes).then_some(Error::Truncated { message_bytes, room_bytes })
}

impl<O: Outlet> Core<O> {
    /// The same where receives or messages wait already.
    #[cold]
    fn copy_kept(&mut self, space: Space, want: &Want, bytes: &mut [u8]) -> Direct {
        let is_held = |(_, arrived): (&Envelope, &super::Arrived)| {
            matches!(arrived.body, Body::Held(_)) && arrived.tell.is_none()
        };
        if !self.matcher(space).peek(want).is_some_and(is_held) {
            return Direct::Post;
        }
        let Some((envelope, arrived)) = self.take_message(space, want) else { return Direct::Post };
        if let Body::Held(held) = &arrived.body {
            let len = held.bytes().len().min(bytes.len());
            bytes[..len].copy_from_slice(&held.bytes()[..len]);
        }
        Direct::Received(envelope, truncated(&envelope, bytes))
    }
}
