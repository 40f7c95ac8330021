//! One call under way: messages to and from other members, and what becomes of them if the call fails.

use std::time::{Duration, Instant};

use message_queue::endpoint::SendRequest;
use message_queue::meet::Meeting;
use message_queue::{DIRECT_LOOKS, Direct, Envelope, MessageQueue, PeerId, Request, Space, Status, Want};

use crate::error::Error;
use crate::signature::Signature;

const CONTEXT_AT: u32 = 31;
/// In the tags of messages that belong to calls.
const CALL: u64 = 0;
/// In the tag of a message that says that a member has given up.
const GIVEN_UP: u64 = 1;
/// So short messages are taken out of the ring by the call, without a receive that is posted.
const DIRECT_MAX_BYTES: usize = 1 << 10;
/// A wait looks so often whether another member has given up: seldom enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So long a member that gives up tries to tell the others: they may make no progress.
const TELL_LIMIT: Duration = Duration::from_millis(100);

/// One call of this member.
///
/// All messages of a group have one tag, and messages of one sender with one tag arrive in order. So each
/// algorithm receives the messages of a sender in the order in which they are sent, and no message of a later
/// call is received by an earlier one. A member that makes another call than the sender gets a message whose
/// signature says so; if calls and steps had tags of their own, it would wait without an end.
#[derive(Debug)]
pub(crate) struct Call<'a, M: Meeting> {
    pub(crate) queue: &'a mut MessageQueue<M>,
    pub(crate) peers: &'a [PeerId],
    /// This member.
    pub(crate) rank: usize,
    pub(crate) context: u32,
    pub(crate) own: Signature,
    pub(crate) until: Option<Instant>,
    /// Sends that may not have ended, and to whom.
    pub(crate) sends: Vec<(usize, Request)>,
    /// The receive that may not have ended.
    pub(crate) receive: Option<Request>,
}

impl<M: Meeting> Call<'_, M> {
    /// Members of the group.
    pub(crate) fn members(&self) -> usize {
        self.peers.len()
    }

    /// The rank that is `distance` behind this one, around the end.
    pub(crate) fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.members()
    }

    /// The rank that is `distance` before this one, around the end; `distance` is at most the members.
    pub(crate) fn before(&self, distance: usize) -> usize {
        (self.rank + self.members() - distance) % self.members()
    }

    /// Sends without a wait; the memory may be used again.
    pub(crate) fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), Error> {
        let request = SendRequest::tagged(self.peers[to], self.tag(CALL));
        let request = SendRequest { space: Space::Group, data: Some(self.own.word()), ..request };
        let sent = self.queue.send_bytes_as(&request, bytes).map_err(|error| failed(to, error))?;
        if sent != Request::ENDED {
            self.sends.push((to, sent));
        }
        Ok(())
    }

    /// Waits for a message of exactly this length.
    pub(crate) fn receive(&mut self, from: usize, into: &mut [u8]) -> Result<(), Error> {
        if into.len() <= DIRECT_MAX_BYTES {
            let want = self.want(from);
            let found = self.queue.receive_direct_as(Space::Group, &want, into, DIRECT_LOOKS);
            if let Direct::Received(envelope, error) = found {
                self.check(from, &envelope, into.len())?;
                return error.map_or(Ok(()), |error| Err(failed(from, error)));
            }
        }
        self.post(from, into.len());
        self.take(from, into)
    }

    /// Sends to one member and receives from one, which may be the same.
    pub(crate) fn swap(
        &mut self,
        (to, bytes): (usize, &[u8]),
        (from, into): (usize, &mut [u8]),
    ) -> Result<(), Error> {
        if into.len() <= DIRECT_MAX_BYTES {
            self.send(to, bytes)?;
            return self.receive(from, into);
        }
        // A message that meets its receive is not kept on the way.
        self.post(from, into.len());
        self.send(to, bytes)?;
        self.take(from, into)
    }

    /// Waits until all sends have ended.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        while let Some((to, request)) = self.sends.pop() {
            if let Some(error) = self.wait(to, request)?.error {
                return Err(failed(to, error));
            }
        }
        Ok(())
    }

    /// Tells all members that this one takes no part any more: who waits for it must not do so for ever.
    pub(crate) fn give_up(&mut self) {
        if let Some(request) = self.receive.take()
            && self.queue.cancel(request).is_ok()
        {
            // Its end is told, and its place is free.
            let _ = self.queue.test(request);
        }
        let tag = self.tag(GIVEN_UP);
        let others = (0..self.members()).filter(|rank| *rank != self.rank);
        // Whoever cannot be told is gone.
        let told = others.filter_map(|rank| {
            let request = SendRequest { space: Space::Group, ..SendRequest::tagged(self.peers[rank], tag) };
            self.queue.send_as(&request, Vec::new()).ok()
        });
        let told: Vec<Request> = told.collect();
        let _ = self.queue.wait_all(&told, Some(TELL_LIMIT));
    }

    fn tag(&self, of: u64) -> u64 {
        u64::from(self.context) << CONTEXT_AT | of
    }

    fn want(&self, from: usize) -> Want {
        Want::exactly(self.peers[from], self.tag(CALL))
    }

    fn post(&mut self, from: usize, len: usize) {
        let want = self.want(from);
        self.receive = Some(self.queue.receive_as(Space::Group, want, vec![0; len]));
    }

    /// Waits for the message of the receive that was posted last.
    fn take(&mut self, from: usize, into: &mut [u8]) -> Result<(), Error> {
        let Some(request) = self.receive else { return Ok(()) };
        let Status { envelope, error, buffers } = self.wait(from, request)?;
        self.receive = None;
        if let Some(envelope) = envelope {
            self.check(from, &envelope, into.len())?;
        }
        if let Some(error) = error {
            return Err(failed(from, error));
        }
        into.copy_from_slice(&buffers.into_owned().unwrap_or_default());
        Ok(())
    }

    /// Whether the message is of the same call of the sender, and long enough.
    fn check(&self, from: usize, envelope: &Envelope, len: usize) -> Result<(), Error> {
        let theirs = envelope.data.and_then(Signature::of_word).ok_or(Error::Foreign { rank: from })?;
        if theirs != self.own {
            return Err(Error::Mismatch { rank: from, theirs, own: self.own });
        }
        if envelope.len_bytes < len {
            return Err(Error::Foreign { rank: from });
        }
        Ok(())
    }

    fn wait(&mut self, rank: usize, request: Request) -> Result<Status, Error> {
        loop {
            let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            match self.queue.wait(request, Some(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)))) {
                Ok(status) => return Ok(status),
                Err(message_queue::Error::TimedOut) => {}
                Err(error) => return Err(failed(rank, error)),
            }
            if let Some(rank) = self.who_gave_up() {
                return Err(Error::GivenUp { rank });
            }
            if left.is_some_and(|left| left <= LOOK_EVERY) {
                return Err(Error::TimedOut { rank });
            }
            // The end of a member that never exchanged a message with this one is noticed only on a way to
            // it. If there is none because it is gone, the receive ends with that error.
            let _ = self.queue.open_way(self.peers[rank]);
        }
    }

    fn who_gave_up(&mut self) -> Option<usize> {
        let want = Want { source: None, tag: self.tag(GIVEN_UP), ignore: 0 };
        let claimed = self.queue.claim_as(Space::Group, &want)?;
        let source = claimed.envelope().source;
        self.queue.throw_away(claimed);
        self.peers.iter().position(|peer| *peer == source)
    }
}

fn failed(rank: usize, error: message_queue::Error) -> Error {
    match error {
        message_queue::Error::PeerGone { .. } => Error::Gone { rank },
        error => Error::Messages { rank, error },
    }
}
