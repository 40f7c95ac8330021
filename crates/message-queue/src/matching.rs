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
//!
//! Some programs ignore the same few bits of the tag in all receives (Open MPI over libfabric: those that say
//! how it sends). So that these are no wildcards, the tag by which receives and messages are found lacks the
//! bits that the receives ignore; which these are changes only while neither a receive nor a message is
//! found by it.

use crate::keyed::{First, Key, Keyed};
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
}

/// A receive that names source and tag, but for the bits that all of them ignore: these are its key.
#[derive(Debug, Default)]
struct Exact<R> {
    number: u64,
    receive: R,
}

/// Any other.
#[derive(Debug)]
struct Wild<R> {
    want: Want,
    number: u64,
    receive: R,
}

/// A message that waits.
#[derive(Debug)]
struct Message<M> {
    envelope: Envelope,
    message: M,
    /// Its number among the arrivals.
    arrival: u32,
}

/// Where a receive waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    is_exact: bool,
    at: u32,
    number: u64,
}

/// The receive that a message goes to, as long as nothing is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Exact(First),
    Wild(u32),
}

/// Receives that wait for messages, and messages that wait for receives; never both of a pair that matches.
///
/// They lie still until they are taken out: a value that is moved while it is new costs more than a search.
#[derive(Debug)]
pub(crate) struct Matcher<R, M> {
    posted: u64,
    /// Bits of tags that no key has.
    ignore: u64,
    exact: Keyed<Exact<R>>,
    wild: Order<Wild<R>>,
    messages: Keyed<Message<M>>,
    /// Their numbers, in the order in which they arrived.
    arrivals: Order<u32>,
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self {
            posted: 0,
            ignore: 0,
            exact: Keyed::default(),
            wild: Order::default(),
            messages: Keyed::default(),
            arrivals: Order::default(),
        }
    }
}

impl<R, M> Matcher<R, M> {
    /// Whether neither a receive nor a message waits.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.exact.is_empty() && self.wild.is_empty() && self.messages.is_empty()
    }

    /// Of a message.
    #[inline]
    fn key_of(&self, source: PeerId, tag: u64) -> Key {
        Key { source, tag: tag & !self.ignore }
    }

    /// Of a receive, if it has one.
    #[inline]
    fn key(&self, want: &Want) -> Option<Key> {
        let source = want.source.filter(|_| want.ignore == self.ignore)?;
        Some(self.key_of(source, want.tag))
    }

    /// The same for a receive that is to wait. If nothing has a key now, its bits are those that no key has
    /// from now on.
    #[inline]
    fn key_to_post(&mut self, want: &Want) -> Option<Key> {
        let key = self.key(want);
        if key.is_some() || want.source.is_none() { key } else { self.ignore_as(want) }
    }

    #[cold]
    fn ignore_as(&mut self, want: &Want) -> Option<Key> {
        if self.exact.is_empty() && self.messages.is_empty() {
            self.ignore = want.ignore;
        }
        self.key(want)
    }

    /// Whether messages wait.
    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// The message that a receive gets now, if one waits.
    pub(crate) fn take_message(&mut self, want: &Want) -> Option<(Envelope, M)> {
        let removed = match self.key(want) {
            Some(key) => {
                let first = self.messages.first_of(key)?;
                self.messages.remove_first(first)
            }
            None => self.messages.remove(self.first_message(want)?),
        };
        let Message { envelope, message, arrival } = removed?;
        self.arrivals.remove(arrival);
        Some((envelope, message))
    }

    /// What that message would be. It stays.
    pub(crate) fn peek(&self, want: &Want) -> Option<(&Envelope, &M)> {
        let at = match self.key(want) {
            Some(key) => self.messages.first_of(key)?.at,
            None => self.first_message(want)?,
        };
        self.messages.get(at).map(|there| (&there.envelope, &there.message))
    }

    /// That of a receive with wildcards.
    fn first_message(&self, want: &Want) -> Option<u32> {
        let is_taken = |at: u32| self.messages.get(at).is_some_and(|there| want.takes(&there.envelope));
        self.arrivals.iter().map(|(_, at)| *at).find(|at| is_taken(*at))
    }

    /// Lets a receive wait: the caller has found no message for it.
    pub(crate) fn post(&mut self, want: Want, receive: R) -> Place {
        debug_assert!(self.peek(&want).is_none());
        let number = self.next_number();
        match self.key_to_post(&want) {
            Some(key) => {
                Place { is_exact: true, at: self.exact.push(key, Exact { number, receive }), number }
            }
            None => Place { is_exact: false, at: self.wild.push(Wild { want, number, receive }), number },
        }
    }

    /// The same, to be written where it lies, all of it. `None` if the receive has wildcards.
    #[inline]
    pub(crate) fn post_place(&mut self, want: &Want) -> Option<(Place, &mut R)>
    where
        R: Default,
    {
        debug_assert!(self.peek(want).is_none());
        let key = self.key_to_post(want)?;
        let number = self.next_number();
        let (at, there) = self.exact.push_place(key);
        let Exact { number: its, receive } = there?;
        *its = number;
        Some((Place { is_exact: true, at, number }, receive))
    }

    #[inline]
    fn next_number(&mut self) -> u64 {
        self.posted += 1;
        self.posted
    }

    /// Takes a receive out, if it still waits there.
    pub(crate) fn remove_receive(&mut self, place: Place) -> Option<R> {
        let Place { is_exact, at, number } = place;
        // Another receive may have got the place.
        if is_exact {
            self.exact.get(at).filter(|there| there.number == number)?;
            self.exact.remove(at).map(|there| there.receive)
        } else {
            self.wild.get(at).filter(|there| there.number == number)?;
            self.wild.remove(at).map(|there| there.receive)
        }
    }

    /// A receive that waits for messages of this sender alone.
    pub(crate) fn receive_from(&self, source: PeerId) -> Option<Place> {
        let exact = self.exact.iter().filter(|(_, key, _)| key.source == source);
        let exact = exact.min_by_key(|(.., there)| there.number).map(|(at, _, there)| Place {
            is_exact: true,
            at,
            number: there.number,
        });
        let mut wild = self.wild.iter().filter(|(_, there)| there.want.source == Some(source));
        exact.or_else(|| wild.next().map(|(at, there)| Place { is_exact: false, at, number: there.number }))
    }

    /// Whether a receive waits that a message of this sender could go to.
    pub(crate) fn could_take_from(&self, source: PeerId) -> bool {
        let is_any = |there: &Wild<R>| there.want.source.is_none_or(|wanted| wanted == source);
        self.wild.iter().any(|(_, there)| is_any(there)) || self.receive_from(source).is_some()
    }

    /// Lets a message wait: the caller has found no receive for it.
    pub(crate) fn keep(&mut self, envelope: Envelope, message: M) {
        let arrival = self.arrivals.push(self.messages.next_number());
        let key = self.key_of(envelope.source, envelope.tag);
        self.messages.push(key, Message { envelope, message, arrival });
    }

    /// The receive that a message goes to, if one waits.
    #[inline]
    pub(crate) fn find_receive(&self, envelope: &Envelope) -> Option<Found> {
        let exact = self.exact.first_of(self.key_of(envelope.source, envelope.tag));
        if !self.wild.is_empty() {
            return self.find_in_both(exact, envelope);
        }
        exact.map(Found::Exact)
    }

    /// The same if there are receives with wildcards; `exact` is the first of the others.
    fn find_in_both(&self, exact: Option<First>, envelope: &Envelope) -> Option<Found> {
        let before = exact.and_then(|first| self.exact.get(first.at)).map_or(u64::MAX, |there| there.number);
        let mut older = self.wild.iter().take_while(|(_, there)| there.number < before);
        let wild = older.find(|(_, there)| there.want.takes(envelope));
        wild.map(|(at, _)| Found::Wild(at)).or(exact.map(Found::Exact))
    }

    /// What was found.
    #[inline]
    pub(crate) fn found(&mut self, found: Found) -> Option<&mut R> {
        match found {
            Found::Exact(first) => self.exact.get_mut(first.at).map(|there| &mut there.receive),
            Found::Wild(at) => self.wild.get_mut(at).map(|there| &mut there.receive),
        }
    }

    /// Takes it out.
    pub(crate) fn take_found(&mut self, found: Found) -> Option<R> {
        match found {
            Found::Exact(first) => self.exact.remove_first(first).map(|there| there.receive),
            Found::Wild(at) => self.wild.remove(at).map(|there| there.receive),
        }
    }

    /// The receive that a message of this sender with this tag goes to, if one waits and none with wildcards
    /// does.
    #[inline]
    pub(crate) fn find_exact(&self, source: PeerId, tag: u64) -> Option<First> {
        if self.wild.is_empty() { self.exact.first_of(self.key_of(source, tag)) } else { None }
    }

    #[inline]
    pub(crate) fn found_exact(&mut self, first: First) -> Option<&mut R> {
        self.exact.get_mut(first.at).map(|there| &mut there.receive)
    }

    /// Takes it out. What of it was not taken before is dropped some time.
    #[inline]
    pub(crate) fn vacate_exact(&mut self, first: First) {
        self.exact.vacate_first(first);
    }
}

#[cfg(test)]
mod tests;
