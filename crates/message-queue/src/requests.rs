//! Requests: operations that a program tests and waits for.

use crate::buffers::Buffers;
use crate::completion::{Completion, Ended, Sink};
use crate::endpoint::Posted;
use crate::error::Error;
use crate::matching::Envelope;

/// An operation that was begun. Its end is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    number: u32,
    generation: u32,
}

/// A request that had ended before it got a place.
const NOWHERE: u32 = u32::MAX;

impl Request {
    /// As a word, for programs in other languages.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.number)
    }

    /// The request of a word. Of a word that is none, all calls say so.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self { number: bits as u32, generation: (bits >> 32) as u32 }
    }

    /// One that has ended well, and left nothing.
    pub const ENDED: Self = Self { number: NOWHERE, generation: 0 };
}

/// How an operation has ended.
#[derive(Debug, Default)]
pub struct Status {
    /// What a received message said of itself.
    pub envelope: Option<Envelope>,
    /// What went wrong.
    pub error: Option<Error>,
    /// The operation's memory.
    pub buffers: Buffers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    Open,
    Ended,
}

/// Its fields are written one by one, where they lie: a value that is moved while it is new costs more than
/// the rest.
#[derive(Debug)]
struct Place {
    generation: u32,
    phase: Phase,
    /// Of a free place: the next free one.
    next: u32,
    /// The last list in which it was, see [`Requests::take_all`].
    list: u64,
    /// Of a receive that waits: where.
    posted: Option<Posted>,
    /// Once it has ended.
    status: Status,
}

/// The requests of an end point.
#[derive(Debug)]
pub(crate) struct Requests {
    places: Vec<Place>,
    free: u32,
    lists: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { places: Vec::new(), free: NOWHERE, lists: 0 }
    }
}

impl Requests {
    /// A new request. Its number is the operation's word.
    #[inline]
    pub(crate) fn begin(&mut self) -> Request {
        let number = self.free;
        if let Some(place) = self.places.get_mut(number as usize) {
            self.free = place.next;
            (place.phase, place.posted) = (Phase::Open, None);
            return Request { number, generation: place.generation };
        }
        self.more()
    }

    #[cold]
    fn more(&mut self) -> Request {
        let number = self.places.len() as u32;
        let (phase, status) = (Phase::Open, Status::default());
        self.places.push(Place { generation: 0, phase, next: NOWHERE, list: 0, posted: None, status });
        Request { number, generation: 0 }
    }

    #[inline]
    pub(crate) fn word(request: Request) -> u64 {
        u64::from(request.number)
    }

    /// Where a receive waits that has not ended.
    #[inline]
    pub(crate) fn note(&mut self, request: Request, posted: Posted) {
        if let Some(place) = self.places.get_mut(request.number as usize) {
            place.posted = Some(posted);
        }
    }

    /// Where it waits, if it is a receive that does.
    pub(crate) fn posted(&self, request: Request) -> Option<Posted> {
        self.of(request).filter(|place| place.phase == Phase::Open)?.posted
    }

    #[inline]
    fn of(&self, request: Request) -> Option<&Place> {
        self.places
            .get(request.number as usize)
            .filter(|place| place.generation == request.generation && place.phase != Phase::Free)
    }

    /// Whether it has ended.
    #[inline]
    pub(crate) fn has_ended(&self, request: Request) -> Result<bool, Error> {
        if request == Request::ENDED {
            return Ok(true);
        }
        let place = self.of(request).ok_or(Error::NoSuchRequest)?;
        Ok(place.phase == Phase::Ended)
    }

    /// How it has ended; `None` if it has not. After that the request is no more.
    #[inline]
    pub(crate) fn take(&mut self, request: Request) -> Result<Option<Status>, Error> {
        Ok(self.has_ended(request)?.then(|| self.take_ended(request)))
    }

    /// How one has ended that has. After that the request is no more.
    #[inline]
    pub(crate) fn take_ended(&mut self, request: Request) -> Status {
        self.free(request).unwrap_or_default()
    }

    /// How all of them have ended. One that has not, or that is in the list twice, is an error, and then none
    /// is taken.
    pub(crate) fn take_all(&mut self, requests: &[Request]) -> Result<Vec<Status>, Error> {
        self.lists += 1;
        let list = self.lists;
        for request in requests.iter().filter(|request| **request != Request::ENDED) {
            let is_new = self.has_ended(*request)?
                && self
                    .places
                    .get_mut(request.number as usize)
                    .is_some_and(|place| std::mem::replace(&mut place.list, list) != list);
            if !is_new {
                return Err(Error::NoSuchRequest);
            }
        }
        requests.iter().map(|request| self.take(*request)?.ok_or(Error::NoSuchRequest)).collect()
    }

    /// Frees its place: what was in it.
    #[inline]
    pub(crate) fn free(&mut self, request: Request) -> Option<Status> {
        let place = self.places.get_mut(request.number as usize)?;
        place.generation = place.generation.wrapping_add(1);
        (place.phase, place.next) = (Phase::Free, self.free);
        self.free = request.number;
        let Status { envelope, error, buffers } = &mut place.status;
        Some(Status { envelope: envelope.take(), error: error.take(), buffers: std::mem::take(buffers) })
    }
}

impl Sink for Requests {
    #[inline]
    fn ended(&mut self, completion: Completion) {
        let Completion { user, ended, error, buffers, .. } = completion;
        let envelope = match ended {
            Ended::Send => None,
            Ended::Receive(envelope) => envelope,
        };
        if let Some(place) = self.places.get_mut(user as usize) {
            place.phase = Phase::Ended;
            place.status = Status { envelope, error, buffers };
        }
    }

    #[inline(always)]
    fn received(&mut self, user: u64, envelope: &Envelope, buffers: Buffers) {
        if let Some(place) = self.places.get_mut(user as usize) {
            place.phase = Phase::Ended;
            place.status.envelope = Some(*envelope);
            place.status.buffers = buffers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_told_once_and_places_are_used_again() {
        let mut requests = Requests::default();
        let (a, b) = (requests.begin(), requests.begin());
        assert!(requests.take(a).unwrap().is_none());
        let error = Some(Error::Cancelled);
        let (user, ended) = (Requests::word(a), Ended::Send);
        requests.ended(Completion { user, ended, error, buffers: vec![1].into(), ends_many: false });
        assert_eq!((requests.has_ended(a), requests.has_ended(b)), (Ok(true), Ok(false)));
        let status = requests.take(a).unwrap().unwrap();
        assert_eq!((status.error, status.buffers.into_owned()), (error, Some(vec![1])));
        assert!(matches!(requests.take(a), Err(Error::NoSuchRequest)));
        let c = requests.begin();
        assert!(c != a && requests.places.len() == 2);
        assert!(matches!(requests.take(a), Err(Error::NoSuchRequest)));
        assert!(requests.take(Request::ENDED).unwrap().is_some());
        let d = requests.begin();
        for request in [c, d] {
            let (user, error) = (Requests::word(request), None);
            let (ended, buffers) = (Ended::Send, Buffers::default());
            requests.ended(Completion { user, ended, error, buffers, ends_many: false });
        }
        for wrong in [&[c, d, c][..], &[c, a]] {
            assert!(matches!(requests.take_all(wrong), Err(Error::NoSuchRequest)));
        }
        let all = [c, Request::ENDED, d, Request::ENDED];
        assert_eq!(requests.take_all(&all).map(|all| all.len()), Ok(4));
        assert!(matches!(requests.take(d), Err(Error::NoSuchRequest)));
        let words = [u64::MAX, 1 << 63 | 1, u64::from(u32::MAX) - 1];
        assert!(words.iter().all(|word| requests.take(Request::from_bits(*word)).is_err()));
        assert_eq!(
            (Request::from_bits(c.to_bits()), Request::from_bits(Request::ENDED.to_bits())),
            (c, Request::ENDED)
        );
    }
}
