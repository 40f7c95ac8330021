//! Which receive gets which message.
//!
//! The rules are those of MPI and of libfabric: a message goes to the receive that was posted first of all
//! that match it; a receive takes the message that arrived first of all that match it, and messages of one
//! sender arrive in the order in which they were sent. So a message never overtakes another of the same
//! sender for the same receive.
//!
//! Receives that name source and tag, and all messages, are found by them in a few steps however many wait.
//! Receives with wildcards are looked through in their order; a number that each receive gets when it is
//! posted decides which of two was first.

use crate::keyed::{Key, Keyed};
use crate::order::Order;

/// An end point, within this one: a number for its name.
pub type PeerId = u32;

/// What a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of this sender alone, if there is one.
    pub source: Option<PeerId>,
    /// With this tag, …
    pub tag: u64,
    /// … but for these bits.
    pub ignore: u64,
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who sent it.
    pub source: PeerId,
    /// Its tag.
    pub tag: u64,
    /// The sender's word for the receiver's completion, if it sent one.
    pub data: Option<u64>,
    /// Length of the whole message.
    pub len_bytes: usize,
}

impl Want {
    /// A receive of one sender's messages with one tag.
    #[must_use]
    pub fn exactly(source: PeerId, tag: u64) -> Self {
        Self { source: Some(source), tag, ignore: 0 }
    }

    /// A receive of anything.
    #[must_use]
    pub fn anything() -> Self {
        Self { source: None, tag: 0, ignore: u64::MAX }
    }

    /// Whether the receive takes the message.
    #[inline]
    #[must_use]
    pub fn takes(&self, envelope: &Envelope) -> bool {
        (self.tag ^ envelope.tag) & !self.ignore == 0
            && self.source.is_none_or(|source| source == envelope.source)
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        let source = self.source.filter(|_| self.ignore == 0)?;
        Some(Key { source, tag: self.tag })
    }
}

#[derive(Debug)]
struct Posted<R> {
    want: Want,
    number: u64,
    receive: R,
}

/// Where a receive waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    is_exact: bool,
    at: u32,
    number: u64,
}

/// Receives that wait for messages, and messages that wait for receives; never both of a pair that matches.
#[derive(Debug)]
pub(crate) struct Matcher<R, M> {
    posted: u64,
    exact: Keyed<Posted<R>>,
    wild: Order<Posted<R>>,
    messages: Keyed<(Envelope, M)>,
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self { posted: 0, exact: Keyed::default(), wild: Order::default(), messages: Keyed::default() }
    }
}

impl<R, M> Matcher<R, M> {
    /// The message that a receive gets now, if one waits.
    #[inline]
    pub(crate) fn take_message(&mut self, want: &Want) -> Option<(Envelope, M)> {
        let at = self.find_message(want)?;
        self.messages.remove(at)
    }

    /// Whether neither a receive nor a message waits.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.exact.is_empty() && self.wild.is_empty() && self.messages.is_empty()
    }

    /// What that message would be. It stays.
    pub(crate) fn peek(&self, want: &Want) -> Option<&(Envelope, M)> {
        self.messages.get(self.find_message(want)?)
    }

    #[inline]
    fn find_message(&self, want: &Want) -> Option<u32> {
        if self.messages.is_empty() {
            return None;
        }
        match want.key() {
            Some(key) => self.messages.first_of(key),
            None => self.messages.iter().find(|(_, (envelope, _))| want.takes(envelope)).map(|(at, _)| at),
        }
    }

    /// Lets a receive wait: the caller has found no message for it.
    #[inline]
    pub(crate) fn post(&mut self, want: Want, receive: R) -> Place {
        debug_assert!(self.peek(&want).is_none());
        let number = self.posted;
        self.posted += 1;
        let posted = Posted { want, number, receive };
        match want.key() {
            Some(key) => Place { is_exact: true, at: self.exact.push(key, posted), number },
            None => Place { is_exact: false, at: self.wild.push(posted), number },
        }
    }

    /// Takes a receive out, if it still waits there.
    #[inline]
    pub(crate) fn remove_receive(&mut self, place: Place) -> Option<R> {
        let Place { is_exact, at, number } = place;
        let there = if is_exact { self.exact.get(at) } else { self.wild.get(at) };
        // Another receive may have got the place.
        there.filter(|posted| posted.number == number)?;
        let posted = if is_exact { self.exact.remove(at) } else { self.wild.remove(at) };
        posted.map(|posted| posted.receive)
    }

    /// A receive that waits for messages of this sender alone.
    pub(crate) fn receive_from(&self, source: PeerId) -> Option<Place> {
        let is_of = |posted: &Posted<R>| posted.want.source == Some(source);
        let exact = self.exact.iter().find(|(_, posted)| is_of(posted));
        let wild = || self.wild.iter().find(|(_, posted)| is_of(posted));
        let exact = exact.map(|(at, posted)| Place { is_exact: true, at, number: posted.number });
        exact.or_else(|| wild().map(|(at, posted)| Place { is_exact: false, at, number: posted.number }))
    }

    /// Whether a receive waits that a message of this sender could go to.
    pub(crate) fn could_take_from(&self, source: PeerId) -> bool {
        let is_any = |posted: &Posted<R>| posted.want.source.is_none_or(|wanted| wanted == source);
        self.wild.iter().any(|(_, posted)| is_any(posted)) || self.receive_from(source).is_some()
    }

    /// Lets a message wait: the caller has found no receive for it.
    pub(crate) fn keep(&mut self, envelope: Envelope, message: M) {
        let key = Key { source: envelope.source, tag: envelope.tag };
        self.messages.push(key, (envelope, message));
    }
}

impl<R: Copy, M> Matcher<R, M> {
    /// Takes the receive that a message goes to, if one waits. It goes on waiting in its place if `stays`
    /// says so.
    #[inline]
    pub(crate) fn take_receive(&mut self, envelope: &Envelope, stays: impl FnOnce(R) -> bool) -> Option<R> {
        let key = Key { source: envelope.source, tag: envelope.tag };
        let exact = self.exact.first_of(key);
        if !self.wild.is_empty() {
            return self.take_of_both(exact, envelope, stays);
        }
        let at = exact?;
        let receive = self.exact.get(at)?.receive;
        if !stays(receive) {
            self.exact.remove(at);
        }
        Some(receive)
    }

    /// The same if there are receives with wildcards; `exact` is the first of the others.
    fn take_of_both(
        &mut self,
        exact: Option<u32>,
        envelope: &Envelope,
        stays: impl FnOnce(R) -> bool,
    ) -> Option<R> {
        let exact = exact.and_then(|at| Some((at, self.exact.get(at)?)));
        let before = exact.map_or(u64::MAX, |(_, posted)| posted.number);
        let mut older = self.wild.iter().take_while(|(_, posted)| posted.number < before);
        let wild = older.find(|(_, posted)| posted.want.takes(envelope));
        drop(older);
        let (is_exact, (at, posted)) =
            wild.map(|found| (false, found)).or(exact.map(|found| (true, found)))?;
        let receive = posted.receive;
        if !stays(receive) {
            if is_exact {
                self.exact.remove(at);
            } else {
                self.wild.remove(at);
            }
        }
        Some(receive)
    }
}

#[cfg(test)]
mod tests;
