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
    /// One that has ended well, and left nothing.
    pub(crate) const ENDED: Self = Self { number: NOWHERE, generation: 0 };
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

#[derive(Debug)]
enum State {
    /// The next free place.
    Free(u32),
    Open(Option<Posted>),
    Ended(Status),
}

#[derive(Debug)]
struct Place {
    generation: u32,
    state: State,
}

/// The requests of an end point.
#[derive(Debug)]
pub(crate) struct Requests {
    places: Vec<Place>,
    free: u32,
}

impl Default for Requests {
    fn default() -> Self {
        Self { places: Vec::new(), free: NOWHERE }
    }
}

impl Requests {
    /// A new request. Its number is the operation's word.
    #[inline]
    pub(crate) fn begin(&mut self) -> Request {
        let number = self.free;
        if let Some(place) = self.places.get_mut(number as usize) {
            if let State::Free(next) = place.state {
                self.free = next;
            }
            place.state = State::Open(None);
            return Request { number, generation: place.generation };
        }
        let number = self.places.len() as u32;
        self.places.push(Place { generation: 0, state: State::Open(None) });
        Request { number, generation: 0 }
    }

    #[inline]
    pub(crate) fn word(request: Request) -> u64 {
        u64::from(request.number)
    }

    /// Where a receive waits that has not ended.
    #[inline]
    pub(crate) fn note(&mut self, request: Request, posted: Posted) {
        if let Some(place) = self.places.get_mut(request.number as usize)
            && let State::Open(at) = &mut place.state
        {
            *at = Some(posted);
        }
    }

    /// Where it waits, if it is a receive that does.
    pub(crate) fn posted(&self, request: Request) -> Option<Posted> {
        match self.of(request)?.state {
            State::Open(posted) => posted,
            _ => None,
        }
    }

    #[inline]
    fn of(&self, request: Request) -> Option<&Place> {
        self.places
            .get(request.number as usize)
            .filter(|place| place.generation == request.generation && !matches!(place.state, State::Free(_)))
    }

    /// Whether it has ended.
    #[inline]
    pub(crate) fn has_ended(&self, request: Request) -> Result<bool, Error> {
        if request.number == NOWHERE {
            return Ok(true);
        }
        let place = self.of(request).ok_or(Error::NoSuchRequest)?;
        Ok(matches!(place.state, State::Ended(_)))
    }

    /// How it has ended; `None` if it has not. After that the request is no more.
    #[inline]
    pub(crate) fn take(&mut self, request: Request) -> Result<Option<Status>, Error> {
        if request.number == NOWHERE {
            return Ok(Some(Status::default()));
        }
        if !self.has_ended(request)? {
            return Ok(None);
        }
        Ok(self.free(request))
    }

    /// Frees its place, whatever is in it.
    #[inline]
    pub(crate) fn free(&mut self, request: Request) -> Option<Status> {
        let place = self.places.get_mut(request.number as usize)?;
        place.generation = place.generation.wrapping_add(1);
        let state = std::mem::replace(&mut place.state, State::Free(self.free));
        self.free = request.number;
        match state {
            State::Ended(status) => Some(status),
            _ => None,
        }
    }
}

impl Sink for Requests {
    #[inline]
    fn ended(&mut self, completion: Completion) {
        let Completion { user, ended, error, buffers } = completion;
        let envelope = match ended {
            Ended::Send => None,
            Ended::Receive(envelope) => envelope,
        };
        if let Some(place) = self.places.get_mut(user as usize) {
            place.state = State::Ended(Status { envelope, error, buffers });
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
        requests.ended(Completion { user, ended, error, buffers: vec![1].into() });
        assert_eq!((requests.has_ended(a), requests.has_ended(b)), (Ok(true), Ok(false)));
        let status = requests.take(a).unwrap().unwrap();
        assert_eq!((status.error, status.buffers.into_owned()), (error, Some(vec![1])));
        assert!(matches!(requests.take(a), Err(Error::NoSuchRequest)));
        let c = requests.begin();
        assert!(c != a && requests.places.len() == 2);
        assert!(matches!(requests.take(a), Err(Error::NoSuchRequest)));
        assert!(requests.take(Request::ENDED).unwrap().is_some());
    }
}
