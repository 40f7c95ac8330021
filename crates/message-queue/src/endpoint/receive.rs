//! Receiving: posted receives, probes, messages that are set aside.

use super::{Arrived, Body, Core, Endpoint, OWN, Posted, Receive, Space};
use crate::buffers::Buffers;
use crate::completion::{Completion, Ended, Sink};
use crate::error::Error;
use crate::lane::Outlet;
use crate::matching::{Envelope, Want};
use crate::meet::Meeting;
use crate::peer::{Peer, Way};

/// What is to be received.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest {
    /// Tagged or not.
    pub space: Space,
    /// Which messages it takes.
    pub want: Want,
    /// The program's word for this receive.
    pub user: u64,
}

/// A message that was set aside by a matched probe: no other receive gets it.
#[derive(Debug)]
#[must_use = "the sender of a message that is neither received nor thrown away may wait forever"]
pub struct Claimed {
    envelope: Envelope,
    arrived: Arrived,
}

impl Claimed {
    /// What the message says of itself.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }

    /// Whether its bytes are still the sender's, to be fetched.
    #[must_use]
    pub fn is_offered(&self) -> bool {
        matches!(self.arrived.body, Body::Offered(_))
    }
}

impl<M: Meeting> Endpoint<M> {
    /// Receives a message: the end of it is told, perhaps in this call. Where it waits, if it does.
    #[inline]
    pub fn receive(
        &mut self,
        request: &ReceiveRequest,
        buffers: Buffers,
        sink: &mut impl Sink,
    ) -> Option<Posted> {
        self.receive_to((request.space, &request.want), request.user, buffers, sink)
    }

    /// The same. What is wanted stays where the program has it: to copy it while it is new costs more than
    /// the rest.
    #[inline]
    pub(crate) fn receive_to(
        &mut self,
        (space, want): (Space, &Want),
        user: u64,
        buffers: Buffers,
        sink: &mut impl Sink,
    ) -> Option<Posted> {
        let core = &mut self.core;
        let matcher = &mut core.matchers[space.index()];
        let sender = want.source.and_then(|id| core.peers.get(id as usize));
        // What happens most often: it waits, and nothing is moved but its memory.
        if !matcher.has_messages()
            && sender.is_some_and(Peer::is_not_lost)
            && let Some((place, receive)) = matcher.post_place(want)
        {
            core.changes += 1;
            (receive.buffers, receive.user, receive.many) = (buffers, user, None);
            return Some(Posted { space, place });
        }
        self.receive_other((space, want), user, buffers, sink)
    }

    #[inline(never)]
    fn receive_other(
        &mut self,
        (space, want): (Space, &Want),
        user: u64,
        buffers: Buffers,
        sink: &mut impl Sink,
    ) -> Option<Posted> {
        let receive = Receive { buffers, user, many: None };
        if let Some((envelope, arrived)) = self.core.take_message(space, want) {
            self.core.settle(receive, envelope, arrived, sink);
            return None;
        }
        if let Some(error) = self.hopeless(want) {
            let (ended, error, buffers) = (Ended::Receive(None), Some(error), receive.buffers);
            sink.ended(Completion { user, ended, error, buffers, ends_many: false });
            return None;
        }
        // A message that was left where it is may be for this receive.
        self.core.changes += 1;
        Some(Posted { space, place: self.core.matcher(space).post(*want, receive) })
    }

    /// Why a receive of one sender's messages will never get one.
    pub(crate) fn hopeless(&self, want: &Want) -> Option<Error> {
        let id = want.source?;
        let Some(peer) = self.core.peers.get(id as usize) else {
            return Some(Error::NoSuchPeer { peer: id });
        };
        let Way::Lost(error) = peer.way else { return None };
        // What a peer sent before it ended may still be in its lane.
        self.inboxes.of(id).is_none().then_some(error)
    }

    /// Gives up a receive that still waits: whether it did. Its end is told.
    pub fn cancel(&mut self, posted: Posted, sink: &mut impl Sink) -> bool {
        let waits = self.core.matcher(posted.space).remove_receive(posted.place);
        let Some(receive) = waits.and_then(|waits| self.core.given_up(waits)) else {
            return false;
        };
        let Receive { buffers, user, .. } = receive;
        let (ended, error) = (Ended::Receive(None), Some(Error::Cancelled));
        sink.ended(Completion { user, ended, error, buffers, ends_many: false });
        true
    }

    /// What the message says of itself that a receive would get now. It stays.
    #[must_use]
    pub fn probe(&mut self, space: Space, want: &Want) -> Option<Envelope> {
        self.core.matcher(space).peek(want).map(|(envelope, _)| *envelope)
    }

    /// Sets the message aside that a receive would get now.
    pub fn claim(&mut self, space: Space, want: &Want) -> Option<Claimed> {
        let (envelope, arrived) = self.core.take_message(space, want)?;
        Some(Claimed { envelope, arrived })
    }

    /// Receives a message that was set aside.
    pub fn receive_claimed(&mut self, claimed: Claimed, user: u64, buffers: Buffers, sink: &mut impl Sink) {
        let Claimed { envelope, arrived } = claimed;
        self.core.settle(Receive { buffers, user, many: None }, envelope, arrived, sink);
    }

    /// Throws a message away that was set aside.
    pub fn throw_away(&mut self, claimed: Claimed, sink: &mut impl Sink) {
        let Claimed { envelope, arrived: Arrived { tell, body } } = claimed;
        match body {
            Body::Held(_) => {}
            Body::Arriving { parts, .. } => self.core.throw_parts_away(parts),
            Body::Offered(offer) => self.core.tell_done(envelope.source, offer.send),
            Body::Own(number) => self.core.take_own(number, &mut Buffers::default(), sink),
        }
        if let Some(send) = tell {
            self.core.tell_done(envelope.source, send);
        }
    }
}

impl<O: Outlet> Core<O> {
    /// Takes the message that a receive gets now, if one waits.
    #[inline]
    pub(super) fn take_message(&mut self, space: Space, want: &Want) -> Option<(Envelope, Arrived)> {
        let (envelope, arrived) = self.matcher(space).take_message(want)?;
        self.unexpected.remove(envelope.source, arrived.body.kept_bytes());
        self.changes += 1;
        Some((envelope, arrived))
    }

    /// A receive and a message have met.
    pub(super) fn settle(
        &mut self,
        mut receive: Receive,
        envelope: Envelope,
        arrived: Arrived,
        sink: &mut impl Sink,
    ) {
        let Arrived { tell, body } = arrived;
        match body {
            Body::Held(held) => {
                receive.buffers.fill_from(held.bytes());
                self.received(receive, envelope, None, sink);
            }
            Body::Arriving { parts, .. } => self.take_over(receive, envelope, parts, sink),
            Body::Offered(offer) => self.fetch(receive, envelope, offer, sink),
            Body::Own(number) => {
                debug_assert_eq!(envelope.source, OWN);
                self.take_own(number, &mut receive.buffers, sink);
                self.received(receive, envelope, None, sink);
            }
        }
        if let Some(send) = tell {
            self.tell_done(envelope.source, send);
        }
    }
}
