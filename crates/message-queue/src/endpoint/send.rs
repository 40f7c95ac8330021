//! Sending: eager through the ring if the message is short, else by a rendezvous; a message to the end point
//! itself needs neither.

use cancellation::without_points;
use shm::clock::now_ticks;

use super::arrive::Held;
use super::{Arrived, Body, Core, Endpoint, OWN, SendState, Sending, Space};
use crate::buffers::{Buffers, Source};
use crate::completion::{Completion, Ended, Sink};
use crate::error::Error;
use crate::lane::{Inlet, LaneError, Outlet};
use crate::matching::{Envelope, PeerId};
use crate::meet::{Meeting, NotAsked};
use crate::peer::{Answers, Peer, Way};
use crate::wire::{Beginning, HAS_DATA, Head, Kind, ONE_PIECE, TELL_MATCHED, TELL_TAKEN};

/// When a send has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// When its memory may be used again.
    #[default]
    Standard,
    /// When the receiver has taken the message, whether or not there was a receive for it.
    Delivered,
    /// When its receive has begun.
    Synchronous,
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest {
    /// To whom.
    pub to: PeerId,
    /// Tagged or not.
    pub space: Space,
    /// Its tag.
    pub tag: u64,
    /// A word for the receiver's completion.
    pub data: Option<u64>,
    /// The program's word for this send.
    pub user: u64,
    /// When it has ended.
    pub mode: Mode,
    /// Whether it waits for room in this end point. Else it is refused with [`Error::NotNow`].
    pub waits: bool,
}

impl SendRequest {
    /// A tagged message that waits for room.
    #[must_use]
    pub fn tagged(to: PeerId, tag: u64) -> Self {
        Self { to, space: Space::Tagged, tag, data: None, user: 0, mode: Mode::Standard, waits: true }
    }

    #[inline]
    pub(super) fn head(&self, kind: Kind, flags: u8, id: u32) -> Head {
        let space = self.space.flag();
        let data = if self.data.is_some() { HAS_DATA } else { 0 };
        Head { kind, flags: flags | space | data, id }
    }

    pub(super) fn beginning(&self, kind: Kind, flags: u8, id: u32) -> Beginning {
        let beginning = Beginning::new(self.head(kind, flags, id)).with(self.tag);
        match self.data {
            Some(data) => beginning.with(data),
            None => beginning,
        }
    }
}

/// What became of a send.
#[derive(Debug)]
pub enum Sent {
    /// It has ended; nobody is told. The memory comes back.
    Now(Buffers),
    /// Its end will be told.
    Later,
}

impl<M: Meeting> Endpoint<M> {
    /// Sends a message.
    ///
    /// # Errors
    /// [`Error::NoSuchPeer`], [`Error::PeerGone`], [`Error::PeerWrong`], [`Error::NoWay`], [`Error::NotNow`];
    /// then nothing was sent.
    #[inline]
    pub fn send(
        &mut self,
        request: &SendRequest,
        mut buffers: Buffers,
        sink: &mut impl Sink,
    ) -> Result<Sent, Error> {
        self.send_from(request, &mut buffers, sink)
    }

    /// The same; if there is no way to the peer now ([`Error::NoWay`]), the buffers stay the caller's, which
    /// may try again.
    ///
    /// # Errors
    /// As of [`Endpoint::send`].
    #[inline]
    pub fn send_from(
        &mut self,
        request: &SendRequest,
        buffers: &mut Buffers,
        sink: &mut impl Sink,
    ) -> Result<Sent, Error> {
        if self.send_now(request, &*buffers)? {
            return Ok(Sent::Now(std::mem::take(buffers)));
        }
        self.send_later(request, buffers, sink)
    }

    /// The way of most messages: into the ring, at once, and that was all; nobody is told. Whether it could
    /// be gone.
    ///
    /// # Errors
    /// [`Error::NoSuchPeer`].
    #[inline]
    pub fn send_now(
        &mut self,
        request: &SendRequest,
        message: &(impl Source + ?Sized),
    ) -> Result<bool, Error> {
        let Some(peer) = self.core.peers.get_mut(request.to as usize) else {
            return Err(Error::NoSuchPeer { peer: request.to });
        };
        let is_long = message.len_bytes() > peer.eager_max_bytes;
        if request.mode != Mode::Standard || is_long || !peer.is_clear() {
            return Ok(false);
        }
        match peer.eager(request, message) {
            Ok(()) => {
                self.core.counters.eager += 1;
                Ok(true)
            }
            // The longer way has words for what is wrong.
            Err(_) => Ok(false),
        }
    }

    #[cold]
    fn send_later(
        &mut self,
        request: &SendRequest,
        buffers: &mut Buffers,
        sink: &mut impl Sink,
    ) -> Result<Sent, Error> {
        if request.to == OWN {
            return Ok(self.core.send_to_self(request, std::mem::take(buffers), sink));
        }
        self.reach(request.to, sink)?;
        if self.core.peers.get(request.to as usize).is_some_and(|peer| peer.needs_answer(request, buffers)) {
            self.invite(request.to, sink)?;
        }
        let buffers = std::mem::take(buffers);
        let core = &mut self.core;
        let (state, peer) = (SendState::Waiting, core.peers.get_mut(request.to as usize));
        let trial =
            peer.filter(|_| request.mode == Mode::Standard).and_then(|peer| peer.trial(buffers.len()));
        let number = core.sends.push(Sending { request: *request, buffers, state, trial });
        let is_clear = core.peers.get(request.to as usize).is_some_and(|peer| peer.is_clear());
        let sent = if is_clear { core.out(number) } else { Err(LaneError::Full) };
        match sent {
            Ok(true) => Ok(Sent::Now(core.sends.remove(number).map(|s| s.buffers).unwrap_or_default())),
            Ok(false) => Ok(Sent::Later),
            Err(LaneError::Full) if request.waits => {
                core.peers[request.to as usize].waiting.push_back(number);
                core.set_busy(request.to);
                Ok(Sent::Later)
            }
            Err(error) => {
                core.sends.remove(number);
                match error {
                    LaneError::Full => Err(Error::NotNow { peer: request.to }),
                    LaneError::TooLong => Err(core.wrong(request.to, "a ring that is too small", sink)),
                    LaneError::Broken(what) => Err(core.wrong(request.to, what, sink)),
                }
            }
        }
    }

    /// Sees to it that there will be a way to the peer: whether there is one now.
    ///
    /// # Errors
    /// [`Error::NoSuchPeer`], [`Error::PeerGone`], [`Error::PeerWrong`], [`Error::NoWay`].
    pub fn open_way(&mut self, to: PeerId, sink: &mut impl Sink) -> Result<bool, Error> {
        if to == OWN {
            return Ok(true);
        }
        self.reach(to, sink)?;
        let peer = self.core.peers.get(to as usize);
        Ok(peer.is_some_and(|peer| matches!(peer.way, Way::Open(_))))
    }

    /// As [`Endpoint::open_way`], but of one who is not there yet it is not said that he is gone for good: he
    /// may come later, and be asked again. Costs a system call until the peer was asked.
    ///
    /// # Errors
    /// As of [`Endpoint::open_way`]; [`Error::PeerGone`] also if the peer is not there now.
    pub fn open_way_if_there(&mut self, to: PeerId, sink: &mut impl Sink) -> Result<bool, Error> {
        let peer = self.core.peers.get(to as usize);
        let is_new = |peer: &&Peer<M::Outlet>| to != OWN && matches!(peer.way, Way::Unknown);
        if peer.filter(is_new).is_some_and(|peer| !self.meeting.is_there(&peer.name)) {
            return Err(Error::PeerGone { peer: to });
        }
        self.open_way(to, sink)
    }

    /// Gives sends memory of their own, so that the program's is needed no more: those for which `wants` says
    /// so, which is told the program's word for the send and the message's length. A peer that could read the
    /// program's memory by itself is told not to, from then on, and asks.
    pub fn copy_lent(&mut self, mut wants: impl FnMut(u64, usize) -> bool) {
        let is_lent = |sending: &Sending| !matches!(sending.buffers, Buffers::Owned(_));
        let all = self.core.sends.iter().filter(|(_, sending)| is_lent(sending)).map(|(number, _)| number);
        for number in all.collect::<Vec<_>>() {
            let Some(sending) = self.core.sends.get_mut(number) else { continue };
            let SendRequest { to, user, .. } = sending.request;
            let is_known = to != OWN && matches!(sending.state, SendState::Out | SendState::InParts);
            let inbox = self.inboxes.of(to).filter(|_| is_known);
            // Whom nothing can be told may read it at any time.
            if is_known && inbox.is_none() || !wants(user, sending.buffers.len()) {
                continue;
            }
            sending.buffers = Buffers::Owned(sending.buffers.to_vec());
            if let Some(inbox) = inbox {
                inbox.inlet.take_back();
            }
        }
    }

    /// Sees to it that there will be a way to the peer.
    pub(super) fn reach(&mut self, id: PeerId, sink: &mut impl Sink) -> Result<(), Error> {
        let Some(peer) = self.core.peers.get_mut(id as usize) else {
            return Err(Error::NoSuchPeer { peer: id });
        };
        match &peer.way {
            Way::Open(_) | Way::Asked => return Ok(()),
            Way::Lost(error) => return Err(*error),
            Way::Unknown => {}
        }
        let asked = without_points(|| self.meeting.ask(&peer.name));
        if asked.is_ok() {
            peer.way = Way::Asked;
        }
        self.asked(id, asked, sink)
    }

    /// Sees to it that the peer will be able to answer, although its program makes no progress.
    pub(super) fn invite(&mut self, id: PeerId, sink: &mut impl Sink) -> Result<(), Error> {
        let Some(peer) = self.core.peers.get_mut(id as usize) else {
            return Err(Error::NoSuchPeer { peer: id });
        };
        if matches!(peer.answers, Answers::Invited | Answers::Open) || matches!(peer.way, Way::Lost(_)) {
            return Ok(());
        }
        let invited = without_points(|| self.meeting.invite(&peer.name));
        peer.answers = if invited.is_ok() { Answers::Invited } else { Answers::Needed };
        self.asked(id, invited, sink)
    }

    fn asked(&mut self, id: PeerId, asked: Result<(), NotAsked>, sink: &mut impl Sink) -> Result<(), Error> {
        match asked {
            Ok(()) | Err(NotAsked::NotNow) => Ok(()),
            Err(NotAsked::Nobody) => {
                let error = Error::PeerGone { peer: id };
                self.core.lose(id, error, sink);
                Err(error)
            }
            Err(NotAsked::Failed(errno)) => Err(Error::NoWay { peer: id, errno }),
        }
    }
}

impl<O> Peer<O> {
    /// Whether only an answer ends the send, and the peer has no way for it yet.
    fn needs_answer(&self, request: &SendRequest, buffers: &Buffers) -> bool {
        let is_answered = request.mode != Mode::Standard || buffers.len() > self.eager_max_bytes;
        is_answered && self.answers != Answers::Open
    }
}

impl<O: Outlet> Core<O> {
    /// Sends the record of a send that waits. Whether the send has ended by that.
    pub(super) fn out(&mut self, number: u32) -> Result<bool, LaneError> {
        let Some(sending) = self.sends.get_mut(number) else { return Ok(true) };
        let request = sending.request;
        let Some(peer) = self.peers.get_mut(request.to as usize) else { return Ok(true) };
        if !matches!(peer.way, Way::Open(_)) {
            return Err(LaneError::Full);
        }
        if let SendState::Stopping(receive) = sending.state {
            let head = Head { kind: Kind::Stopped, flags: 0, id: receive };
            peer.record(&[head.word()], 0, |_, _| ())?;
            return Ok(true);
        }
        if peer.needs_answer(&request, &sending.buffers) {
            if peer.answers == Answers::Unasked {
                peer.answers = Answers::Needed;
            }
            return Err(LaneError::Full);
        }
        let len = sending.buffers.len();
        let begun_at = if sending.trial.is_some() { now_ticks() } else { 0 };
        let is_eager = sending.trial.map_or(len <= peer.eager_max_bytes, |trial| trial.is_eager);
        let is_timed = sending.trial.is_some_and(|trial| trial.is_timed);
        let ends_now = is_eager && request.mode == Mode::Standard && !is_timed;
        if ends_now {
            peer.eager(&request, &sending.buffers)?;
            self.counters.eager += 1;
        } else if is_eager {
            let (flags, id) = match request.mode {
                Mode::Standard | Mode::Delivered => (TELL_TAKEN, number),
                Mode::Synchronous => (TELL_MATCHED, number),
            };
            let beginning = request.beginning(Kind::Eager, flags, id);
            let message = &sending.buffers;
            peer.record(beginning.words(), len, |record, at| message.put_into(0, len, record, at))?;
            self.counters.eager += 1;
        } else {
            let (address, is_one_piece) = sending.buffers.address();
            let flags = if is_one_piece { ONE_PIECE } else { 0 };
            let beginning = request.beginning(Kind::Offer, flags, number).with(len as u64).with(address);
            peer.record(beginning.words(), 0, |_, _| ())?;
            self.counters.offered += 1;
        }
        sending.state = SendState::Out;
        if let Some(trial) = &mut sending.trial {
            trial.begun_at = begun_at;
        }
        // The peer's answer may lie behind a message that was left where it is.
        self.changes += 1;
        Ok(ends_now)
    }

    fn send_to_self(&mut self, request: &SendRequest, buffers: Buffers, sink: &mut impl Sink) -> Sent {
        let SendRequest { space, tag, data, user, .. } = *request;
        let envelope = Envelope { source: OWN, tag, data, len_bytes: buffers.len() };
        if let Some(mut receive) = self.take_receive(space, &envelope) {
            let mut copied = buffers;
            copy(&mut copied, &mut receive.buffers);
            self.received(receive, envelope, None, sink);
            return Sent::Now(copied);
        }
        self.counters.unexpected += 1;
        if buffers.len() <= self.settings.eager_max_bytes && request.mode != Mode::Synchronous {
            let held = Held::of(buffers.to_vec());
            self.unexpected.add(OWN, held.bytes().len());
            self.matcher(space).keep(envelope, Arrived { tell: None, body: Body::Held(held) });
            return Sent::Now(buffers);
        }
        let number =
            self.sends.push(Sending { request: *request, buffers, state: SendState::Out, trial: None });
        debug_assert_eq!(self.sends.get(number).map(|sending| sending.request.user), Some(user));
        self.unexpected.add(OWN, 0);
        self.matcher(space).keep(envelope, Arrived { tell: None, body: Body::Own(number) });
        Sent::Later
    }

    /// A message of this end point to itself has met its receive.
    pub(super) fn take_own(&mut self, number: u32, into: &mut Buffers, sink: &mut impl Sink) {
        let Some(mut sending) = self.sends.remove(number) else { return };
        copy(&mut sending.buffers, into);
        let Sending { request, buffers, .. } = sending;
        let (user, ended) = (request.user, Ended::Send);
        sink.ended(Completion { user, ended, error: None, buffers, ends_many: false });
    }
}

fn copy(from: &mut Buffers, to: &mut Buffers) {
    match from {
        Buffers::Owned(bytes) => to.fill_from(bytes),
        lent => to.fill_from(&lent.to_vec()),
    }
}
