//! Peers that end, close their end points, or are wrong: their requests end with an error, all others go on.
//!
//! What a peer sent before it ended is received all the same. So its end has two steps: nothing is sent to it
//! any more, and what was under way ends at once ([`Core::lose`]); receives that only its messages could end
//! do so when its lane has been emptied.

use cancellation::without_points;

use super::progress::is_over;
use super::{Core, Endpoint, OWN, Parts, Receive, SendState, Sending, Space, Target};
use crate::buffers::Buffers;
use crate::completion::{Completion, Ended, Sink};
use crate::error::Error;
use crate::inboxes::Inbox;
use crate::lane::{Found, Inlet, Outlet};
use crate::matching::PeerId;
use crate::meet::Meeting;
use crate::peer::{Process, Way};
use crate::wire::Beginning;

impl<M: Meeting> Endpoint<M> {
    /// Looks whether the next of the peers has ended: for whoever waits. [`Endpoint::progress`] does so now
    /// and then.
    #[cold]
    pub fn watch(&mut self, sink: &mut impl Sink) {
        without_points(|| self.watch_next(sink));
    }

    fn watch_next(&mut self, sink: &mut impl Sink) {
        let count = self.core.peers.len();
        for _ in 0..count {
            self.next_watched = (self.next_watched + 1) % count;
            let id = self.next_watched as PeerId;
            let peer = &self.core.peers[self.next_watched];
            let has_ended = match (&peer.way, &peer.process) {
                (Way::Lost(_), _) => continue,
                // They cost nothing, unless somebody waits for them.
                (Way::Unknown, Process::Unknown) if !self.core.is_awaited(id) => continue,
                (Way::Unknown, Process::Unknown) if !self.meeting.has_ended(&peer.name) => continue,
                (Way::Unknown, Process::Unknown) => true,
                (_, Process::Unknown) => !self.meeting.is_there(&peer.name),
                (Way::Open(_), process) => peer.takes_no_more() || process.has_ended(),
                // There is the way back alone.
                (_, process) => {
                    let inbox = self.inboxes.of(id);
                    process.has_ended() || inbox.is_some_and(|inbox| inbox.inlet.is_closed())
                }
            };
            if has_ended && id != OWN {
                // Its lane may have arrived, with messages in it, since that was last looked at.
                if self.meeting.has_arrivals() {
                    self.take_arrivals(sink);
                }
                // It may have said that a send is done just before it ended.
                self.take_last(id, sink);
                let error = Error::PeerGone { peer: id };
                self.core.lose(id, error, sink);
                if let Some(inbox) = self.inboxes.of_mut(id) {
                    inbox.is_last = true;
                }
            }
            return;
        }
    }

    /// Takes what a peer has sent before it ended, as far as it is not to stay where it is.
    fn take_last(&mut self, id: PeerId, sink: &mut impl Sink) {
        let Self { inboxes, core, .. } = self;
        let Some(inbox) = inboxes.of_mut(id) else { return };
        // What is wrong with the lane is found when it is emptied.
        while let Ok(Found::Taken(())) = inbox.inlet.take_if(|record| core.take(id, record, sink)) {
            // Of this peer: another one that is lost may still have to be dropped.
            if core.peers.get(id as usize).is_none_or(|peer| matches!(peer.way, Way::Lost(_))) {
                return;
            }
        }
    }

    /// Drops the lanes of lost peers that are empty, and ends what only they could have ended.
    #[cold]
    pub(super) fn drop_lost(&mut self, sink: &mut impl Sink) {
        let core = &mut self.core;
        core.is_any_lost = false;
        self.inboxes.drop_if(|inbox| {
            let peer = core.peers.get(inbox.peer as usize);
            let is_lost = peer.is_none_or(|peer| matches!(peer.way, Way::Lost(_)) && !is_over(inbox));
            if is_lost {
                // It may have done nothing wrong, and wait.
                inbox.inlet.close();
            }
            is_lost
        });
        // Of a process that has ended, what it wrote is still there.
        let mut empty = Vec::new();
        self.inboxes.each(|inbox: &mut Inbox<M::Inlet>| {
            if is_over(inbox) && !matches!(inbox.inlet.take_if::<()>(|_| None), Ok(Found::Left)) {
                empty.push(inbox.peer);
            }
        });
        self.inboxes.drop_if(|inbox| empty.contains(&inbox.peer));
        for id in 0..core.peers.len() as PeerId {
            if let Way::Lost(error) = core.peers[id as usize].way
                && self.inboxes.of(id).is_none()
            {
                core.end_arriving(id, error, sink);
                core.end_receives(id, error, sink);
            }
        }
    }
}

impl<O: Outlet> Core<O> {
    /// A peer has done what no end point does. The error of it.
    #[cold]
    pub(super) fn wrong(&mut self, id: PeerId, what: &'static str, sink: &mut impl Sink) -> Error {
        let error = Error::PeerWrong { peer: id, what };
        self.lose(id, error, sink);
        error
    }

    /// Nothing is exchanged with a peer any more: what was under way to it ends with the error.
    #[cold]
    pub(super) fn lose(&mut self, id: PeerId, error: Error, sink: &mut impl Sink) {
        let Some(peer) = self.peers.get_mut(id as usize) else { return };
        if matches!(peer.way, Way::Lost(_)) {
            return;
        }
        // The memory of the lane is closed by that. It may have done nothing wrong, and wait.
        without_points(|| {
            if let Way::Open(outlet) = &peer.way {
                outlet.close();
            }
            peer.way = Way::Lost(error);
        });
        (peer.backlog, peer.waiting, peer.streams) = Default::default();
        self.is_any_lost = true;
        self.changes += 1;
        let sends = self.sends.iter().filter(|(_, sending)| sending.request.to == id).map(|(at, _)| at);
        for number in sends.collect::<Vec<_>>() {
            if let Some(sending) = self.sends.remove(number) {
                self.sent(sending, Some(error), sink);
            }
        }
        // Of eager ones the rest may be in the lane already.
        let is_asked = |parts: &Parts| parts.envelope.source == id && parts.send.is_some();
        let parts = self.parts.iter().filter(|(_, parts)| is_asked(parts)).map(|(at, _)| at);
        for number in parts.collect::<Vec<_>>() {
            if let Some(Parts { target: Target::Receive(receive), envelope, .. }) = self.parts.remove(number)
            {
                self.received(receive, envelope, Some(error), sink);
            }
        }
    }

    /// Whether a receive waits for messages of this peer alone.
    fn is_awaited(&self, id: PeerId) -> bool {
        self.matchers.iter().any(|matcher| matcher.receive_from(id).is_some())
    }

    /// Ends the receives of one peer's messages.
    fn end_receives(&mut self, id: PeerId, error: Error, sink: &mut impl Sink) {
        for space in Space::ALL {
            while let Some(place) = self.matcher(space).receive_from(id) {
                let waits = self.matcher(space).remove_receive(place);
                let receive = waits.and_then(|waits| self.given_up(waits));
                let Some(Receive { buffers, user, .. }) = receive else { break };
                let (ended, error) = (Ended::Receive(None), Some(error));
                sink.ended(Completion { user, ended, error, buffers, ends_many: false });
            }
        }
    }

    /// Sends all peers that can be reached a record.
    pub(super) fn tell_all(&mut self, beginning: Beginning) {
        for id in 0..self.peers.len() as PeerId {
            if matches!(self.peers[id as usize].way, Way::Open(_)) {
                self.tell(id, beginning);
            }
        }
    }

    /// Whether memory was lent for sends that peers know of.
    pub(super) fn has_lent_memory(&self) -> bool {
        let is_known = |sending: &Sending| sending.state != SendState::Waiting;
        let mut all = self.sends.iter().map(|(_, sending)| sending);
        all.any(|sending| is_known(sending) && !matches!(sending.buffers, Buffers::Owned(_)))
    }

    /// Whether all that was sent is where its receivers find it, whatever becomes of this process.
    pub(super) fn has_arrived(&mut self) -> bool {
        self.peers.iter_mut().all(|peer| match &mut peer.way {
            Way::Open(outlet) => outlet.has_arrived(),
            _ => true,
        })
    }

    /// Memory that was given away for sends is not freed: peers may still read it.
    pub(super) fn keep_memory_of_sends(&mut self) {
        let all: Vec<_> = self.sends.iter().map(|(number, _)| number).collect();
        for number in all {
            if let Some(sending) = self.sends.remove(number)
                && let Buffers::Owned(bytes) = sending.buffers
            {
                std::mem::forget(bytes);
            }
        }
    }
}
