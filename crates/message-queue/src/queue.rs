//! The end point as a program uses it: with requests.

mod persistent;
pub(crate) mod waiting;

use std::time::{Duration, Instant};

use shm::doorbell::Sleep;

use crate::alarm::{Alarm, Armed};
use crate::buffers::Buffers;
use crate::endpoint::{Claimed, Counters, Direct, Endpoint, Mode, SendRequest, Sent, Space};
use crate::error::Error;
use crate::matching::{Envelope, PeerId, Want};
use crate::meet::{Datagrams, Meeting};
use crate::name::Name;
use crate::requests::{Request, Requests, Status};
use crate::settings::Settings;
pub use persistent::Persistent;
use waiting::{Patience, Waiting};

/// So often a receive looks for its message before it is posted: for some ten microseconds.
pub const DIRECT_LOOKS: u32 = 1 << 11;
/// Of these looks, one in so many is a turn of progress.
const LOOKS_PER_TURN: u32 = 32;

/// An end point whose operations are requests. It belongs to one thread at a time; there is no lock in it.
///
/// ```
/// use message_queue::{MessageQueue, Settings, Want};
///
/// let (mut a, mut b) = (MessageQueue::new(Settings::default())?, MessageQueue::new(Settings::default())?);
/// let to_b = a.peer(b.name());
/// let receive = b.receive(Want { source: None, tag: 7, ignore: 0 }, vec![0; 16]);
/// let send = a.send_bytes(to_b, 7, b"hello")?;
/// let status = loop {
///     // Both are in one thread here, so both have to be moved on.
///     a.progress();
///     if let Some(status) = b.test(receive)? {
///         break status;
///     }
/// };
/// assert_eq!(status.envelope.map(|envelope| envelope.len_bytes), Some(5));
/// assert!(status.buffers.into_owned().is_some_and(|bytes| bytes.starts_with(b"hello")));
/// a.wait(send, None)?;
/// # Ok::<(), message_queue::Error>(())
/// ```
#[derive(Debug)]
pub struct MessageQueue<M: Meeting = Datagrams> {
    endpoint: Endpoint<M>,
    requests: Requests,
    pub(crate) patience: Patience,
}

impl MessageQueue<Datagrams> {
    /// As [`Endpoint::new`].
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::NoEndpoint`].
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Ok(Self::with(Endpoint::new(settings)?))
    }
}

impl<M: Meeting> MessageQueue<M> {
    /// Requests on top of an end point.
    #[must_use]
    pub fn with(endpoint: Endpoint<M>) -> Self {
        Self { endpoint, requests: Requests::default(), patience: Patience::default() }
    }

    /// The name by which others reach it.
    #[must_use]
    pub fn name(&self) -> Name {
        self.endpoint.name()
    }

    /// The number by which a name is known here.
    pub fn peer(&mut self, name: Name) -> PeerId {
        self.endpoint.peer(name)
    }

    /// As [`Endpoint::open_way`]: for who waits for a peer that has not been heard of, because the end of a
    /// peer is noticed only where there is a way to or from it.
    ///
    /// # Errors
    /// As [`Endpoint::open_way`].
    pub fn open_way(&mut self, to: PeerId) -> Result<bool, Error> {
        self.endpoint.open_way(to, &mut self.requests)
    }

    /// How often each path was taken.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.endpoint.counters()
    }

    /// What is below.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint<M> {
        &self.endpoint
    }

    /// Lets everything go on that can: whether something has arrived.
    #[inline]
    pub fn progress(&mut self) -> bool {
        self.endpoint.progress(&mut self.requests)
    }

    /// Sends bytes, of which a copy is made unless they go at once.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn send_bytes(&mut self, to: PeerId, tag: u64, bytes: &[u8]) -> Result<Request, Error> {
        self.send_bytes_as(&SendRequest::tagged(to, tag), bytes)
    }

    /// The same for a message of any kind. Its word (`user`) is chosen here.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn send_bytes_as(&mut self, request: &SendRequest, bytes: &[u8]) -> Result<Request, Error> {
        if self.endpoint.send_now(request, bytes)? {
            return Ok(Request::ENDED);
        }
        self.send_as(request, bytes.to_vec())
    }

    /// Sends a tagged message whose memory belongs to the request until it has ended.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn send(&mut self, to: PeerId, tag: u64, buffers: impl Into<Buffers>) -> Result<Request, Error> {
        self.send_as(&SendRequest::tagged(to, tag), buffers)
    }

    /// The same; the request ends when the message has met its receive.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    pub fn send_synchronous(
        &mut self,
        to: PeerId,
        tag: u64,
        buffers: impl Into<Buffers>,
    ) -> Result<Request, Error> {
        self.send_as(&SendRequest { mode: Mode::Synchronous, ..SendRequest::tagged(to, tag) }, buffers)
    }

    /// Sends a message of any kind. Its word (`user`) is chosen here.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn send_as(&mut self, request: &SendRequest, buffers: impl Into<Buffers>) -> Result<Request, Error> {
        let place = self.requests.begin();
        let request = SendRequest { user: Requests::word(place), ..*request };
        match self.endpoint.send(&request, buffers.into(), &mut self.requests) {
            Ok(Sent::Later) => {}
            Ok(Sent::Now(buffers)) => {
                use crate::completion::{Completion, Ended, Sink};
                let (user, error) = (request.user, None);
                let ended = Ended::Send;
                self.requests.ended(Completion { user, ended, error, buffers, ends_many: false });
            }
            Err(error) => {
                self.requests.free(place);
                return Err(error);
            }
        }
        Ok(place)
    }

    /// The same with memory that is lent and not returned. A short message that goes at once costs no
    /// request.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn send_lent(&mut self, request: &SendRequest, buffers: Buffers) -> Result<Request, Error> {
        if self.endpoint.send_now(request, &buffers)? {
            return Ok(Request::ENDED);
        }
        self.send_as(request, buffers)
    }

    /// Receives a tagged message of one sender into `bytes`, and waits for it, for `limit` at most: what it
    /// says of itself.
    ///
    /// A short message goes from the ring into `bytes`. A long one is received into memory of its own first;
    /// to avoid that copy, use [`MessageQueue::receive`].
    ///
    /// # Errors
    /// As [`MessageQueue::wait`], but after the time limit nothing goes on; and what went wrong in the
    /// receive.
    pub fn receive_into(
        &mut self,
        want: &Want,
        bytes: &mut [u8],
        limit: Option<Duration>,
    ) -> Result<Envelope, Error> {
        if let Direct::Received(envelope, error) = self.receive_direct(want, bytes, DIRECT_LOOKS) {
            return error.map_or(Ok(envelope), Err);
        }
        let request = self.receive(*want, vec![0; bytes.len()]);
        let status = match self.wait(request, limit) {
            Err(Error::TimedOut) if self.cancel(request)? => {
                self.wait(request, None)?;
                return Err(Error::TimedOut);
            }
            // It has its message, and ends by itself.
            Err(Error::TimedOut) => self.wait(request, None)?,
            ended => ended?,
        };
        let len = status.envelope.map_or(0, |envelope| envelope.len_bytes.min(bytes.len()));
        if let Some(part) = status.buffers.into_owned().as_deref().and_then(|all| all.get(..len)) {
            bytes[..len].copy_from_slice(part);
        }
        match (status.error, status.envelope) {
            (Some(error), _) => Err(error),
            (None, Some(envelope)) => Ok(envelope),
            (None, None) => Err(Error::Cancelled),
        }
    }

    /// Looks up to so many times ([`DIRECT_LOOKS`] take about ten microseconds) for a short tagged message of
    /// one sender, and receives it into `bytes` without a request. It looks less often where others have
    /// lately needed the processor.
    #[inline]
    pub fn receive_direct(&mut self, want: &Want, bytes: &mut [u8], looks: u32) -> Direct {
        self.receive_direct_as(Space::Tagged, want, bytes, looks)
    }

    /// The same for a message of any kind.
    #[inline]
    pub fn receive_direct_as(&mut self, space: Space, want: &Want, bytes: &mut [u8], looks: u32) -> Direct {
        for look in 1..=self.patience.looks(looks) {
            match self.endpoint.receive_direct(space, want, bytes, &mut self.requests) {
                // Others are served, too. If that keeps the message that is wanted, it is found there.
                Direct::Nothing if look.is_multiple_of(LOOKS_PER_TURN) => _ = self.progress(),
                Direct::Nothing => {}
                found => return found,
            }
        }
        Direct::Nothing
    }

    /// Receives a tagged message.
    #[inline]
    pub fn receive(&mut self, want: Want, buffers: impl Into<Buffers>) -> Request {
        self.receive_as(Space::Tagged, want, buffers)
    }

    /// Receives a message of any kind.
    #[inline]
    pub fn receive_as(&mut self, space: Space, want: Want, buffers: impl Into<Buffers>) -> Request {
        let place = self.requests.begin();
        let user = Requests::word(place);
        if let Some(posted) =
            self.endpoint.receive_to((space, &want), user, buffers.into(), &mut self.requests)
        {
            self.requests.note(place, posted);
        }
        place
    }

    /// Gives up a receive: whether it had no message yet. Either way its end is told.
    ///
    /// # Errors
    /// [`Error::NoSuchRequest`].
    pub fn cancel(&mut self, request: Request) -> Result<bool, Error> {
        self.requests.has_ended(request)?;
        let Some(posted) = self.requests.posted(request) else { return Ok(false) };
        Ok(self.endpoint.cancel(posted, &mut self.requests))
    }

    /// How a request has ended, if it has after one turn of progress; then it is no more.
    ///
    /// # Errors
    /// [`Error::NoSuchRequest`].
    #[inline]
    pub fn test(&mut self, request: Request) -> Result<Option<Status>, Error> {
        if !self.requests.has_ended(request)? {
            self.progress();
        }
        self.requests.take(request)
    }

    /// Waits until a request has ended, for `limit` at most.
    ///
    /// # Errors
    /// [`Error::NoSuchRequest`]; [`Error::TimedOut`], and then the operation goes on.
    #[inline]
    pub fn wait(&mut self, request: Request, limit: Option<Duration>) -> Result<Status, Error> {
        if !self.requests.has_ended(request)? {
            self.turn_until_ended(request, limit)?;
        }
        Ok(self.requests.take_ended(request))
    }

    /// Apart from what a request costs that has ended.
    #[inline(never)]
    fn turn_until_ended(&mut self, request: Request, limit: Option<Duration>) -> Result<(), Error> {
        let mut waiting = Waiting::new(limit);
        while !self.requests.has_ended(request)? {
            self.turn(&mut waiting)?;
        }
        Ok(())
    }

    /// Waits until one of the requests has ended: which, and how. Of several that have ended, the first in
    /// the list.
    ///
    /// # Errors
    /// As [`MessageQueue::wait`]; [`Error::NoSuchRequest`] also if there are none.
    pub fn wait_any(
        &mut self,
        requests: &[Request],
        limit: Option<Duration>,
    ) -> Result<(usize, Status), Error> {
        if requests.is_empty() {
            return Err(Error::NoSuchRequest);
        }
        let mut waiting = Waiting::new(limit);
        loop {
            for (at, request) in requests.iter().enumerate() {
                if let Some(status) = self.requests.take(*request)? {
                    return Ok((at, status));
                }
            }
            self.turn(&mut waiting)?;
        }
    }

    /// Waits until all of the requests have ended. No request may be in the list twice.
    ///
    /// # Errors
    /// As [`MessageQueue::wait`]; then none of their ends has been told.
    pub fn wait_all(&mut self, requests: &[Request], limit: Option<Duration>) -> Result<Vec<Status>, Error> {
        let mut waiting = Waiting::new(limit);
        for request in requests {
            while !self.requests.has_ended(*request)? {
                self.turn(&mut waiting)?;
            }
        }
        self.requests.take_all(requests)
    }

    #[inline]
    fn turn(&mut self, waiting: &mut Waiting) -> Result<(), Error> {
        if self.progress() {
            waiting.went_on(&mut self.patience);
            return Ok(());
        }
        let Self { endpoint, patience, .. } = self;
        for _ in 0..waiting.pause(patience, |limit| endpoint.sleep(limit))? {
            self.watch();
        }
        Ok(())
    }

    /// Whether a request has ended, without a turn of progress.
    pub(crate) fn has_ended(&self, request: Request) -> Result<bool, Error> {
        self.requests.has_ended(request)
    }

    /// How a request has ended, if it has, without a turn of progress; then it is no more.
    pub(crate) fn take(&mut self, request: Request) -> Result<Option<Status>, Error> {
        self.requests.take(request)
    }

    /// How all of them have ended, if they have; then they are no more.
    pub(crate) fn take_all(&mut self, requests: &[Request]) -> Result<Vec<Status>, Error> {
        self.requests.take_all(requests)
    }

    /// Whether a message is there that a receive would get, without a turn of progress, or none will come.
    pub(crate) fn has_probed(&mut self, want: &Want) -> bool {
        self.endpoint.probe(Space::Tagged, want).is_some() || self.hopeless(want).is_some()
    }

    /// As [`Endpoint::arm`].
    pub(crate) fn arm(&mut self, alarm: &mut Alarm, sleep: &Sleep) -> Armed {
        self.endpoint.arm(alarm, sleep, false)
    }

    /// Longest sleep of a thread that is armed.
    pub(crate) fn longest_sleep(&self) -> Duration {
        self.endpoint.longest_sleep()
    }

    /// As [`Endpoint::disarm`].
    pub(crate) fn disarm(&mut self, sleep: &Sleep) {
        self.endpoint.disarm(sleep);
    }

    /// As [`Endpoint::may_sleep_on`].
    pub(crate) fn may_sleep_on(&self, lanes: usize) -> bool {
        self.endpoint.may_sleep_on(lanes)
    }

    /// Lanes from which messages come.
    pub(crate) fn lanes(&self) -> usize {
        self.endpoint.lanes()
    }

    /// Why no message will come that a receive would get.
    pub(crate) fn hopeless(&self, want: &Want) -> Option<Error> {
        self.endpoint.hopeless(want)
    }

    /// Looks whether the next of the peers has ended: a system call.
    pub(crate) fn watch(&mut self) {
        self.endpoint.watch(&mut self.requests);
    }

    /// What the message says of itself that a receive would get, if there is one after a turn of progress.
    pub fn probe(&mut self, want: &Want) -> Option<Envelope> {
        self.progress();
        self.endpoint.probe(Space::Tagged, want)
    }

    /// Waits for a message that a receive would get, for `limit` at most.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::NoSuchPeer`], [`Error::PeerGone`], [`Error::PeerWrong`] if none of that
    /// sender will come.
    pub fn wait_probe(&mut self, want: &Want, limit: Option<Duration>) -> Result<Envelope, Error> {
        let mut waiting = Waiting::new(limit);
        loop {
            if let Some(envelope) = self.endpoint.probe(Space::Tagged, want) {
                return Ok(envelope);
            }
            if let Some(error) = self.endpoint.hopeless(want) {
                return Err(error);
            }
            self.turn(&mut waiting)?;
        }
    }

    /// Sets a message aside that a receive would get: only [`MessageQueue::receive_claimed`] gets it.
    pub fn claim(&mut self, want: &Want) -> Option<Claimed> {
        self.claim_as(Space::Tagged, want)
    }

    /// The same of a message of any kind.
    pub fn claim_as(&mut self, space: Space, want: &Want) -> Option<Claimed> {
        self.progress();
        self.endpoint.claim(space, want)
    }

    /// Receives a message that was set aside.
    pub fn receive_claimed(&mut self, claimed: Claimed, buffers: impl Into<Buffers>) -> Request {
        let place = self.requests.begin();
        let user = Requests::word(place);
        self.endpoint.receive_claimed(claimed, user, buffers.into(), &mut self.requests);
        place
    }

    /// Throws a message away that was set aside.
    pub fn throw_away(&mut self, claimed: Claimed) {
        self.endpoint.throw_away(claimed, &mut self.requests);
    }

    /// Lets sends end and tells all peers that nothing follows, for `limit` at most: whether all of that was
    /// done.
    pub fn close(mut self, limit: Duration) -> bool {
        self.finish(limit)
    }

    /// The same before it is dropped. Nothing is to be sent afterwards.
    pub fn finish(&mut self, limit: Duration) -> bool {
        self.endpoint.finish(limit, &mut self.requests)
    }

    /// Turns progress for a time, for programs that serve others meanwhile.
    pub fn serve_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        let mut waiting = Waiting::new(Some(time));
        while Instant::now() < until && self.turn(&mut waiting).is_ok() {}
    }
}
