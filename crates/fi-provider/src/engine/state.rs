//! All that belongs to a domain, under one lock: end points, queues, counters, address vectors.
//!
//! A program that asks for `FI_THREAD_DOMAIN` promises that it uses a domain with one thread at a time; then
//! there is no lock, whose two atomic operations would be a good part of what a short message costs.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabric_sys::abi::fi_addr_t;
use fabric_sys::constants::FI_ADDR_NOTAVAIL;

use super::completion::{Counter, Queue};
use super::endpoint::Endpoint;
use super::memory::{Memory, Naming};
use super::name::{Name, Names, PeerId};
use super::own_progress::OwnProgress;
use super::slab::Slab;
use super::wait::{Awaited, Bell};

/// A domain.
#[derive(Debug)]
pub(crate) struct Domain {
    /// Whether the program itself lets only one thread in at a time.
    is_serial: bool,
    lock: Mutex<()>,
    state: UnsafeCell<State>,
    /// The thread that makes progress for the program, if it wants one.
    pub(crate) own_progress: OwnProgress,
}

// SAFETY: the state is only reached through `lock`, by one thread at a time: the lock sees to that, or the
// program has promised it.
unsafe impl Sync for Domain {}

impl Domain {
    /// A new one; `is_serial` is the program's promise, `naming` how peers name its memory.
    pub(crate) fn new(is_serial: bool, naming: Naming) -> Self {
        let mut state = State::default();
        state.shared.memory.naming = naming;
        let own_progress = OwnProgress::default();
        Self { is_serial, lock: Mutex::new(()), state: UnsafeCell::new(state), own_progress }
    }

    /// What is in the domain. No caller holds two of them: no function of this crate calls a program.
    #[inline]
    pub(crate) fn lock(&self) -> Inside<'_> {
        let lock = (!self.is_serial).then(|| self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: nobody else is inside, as said where `Sync` is.
        Inside { state: unsafe { &mut *self.state.get() }, _lock: lock }
    }
}

/// The right to be inside a domain.
pub(crate) struct Inside<'a> {
    state: &'a mut State,
    _lock: Option<MutexGuard<'a, ()>>,
}

impl Deref for Inside<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        self.state
    }
}

impl DerefMut for Inside<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        self.state
    }
}

/// What is in a domain.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) endpoints: Slab<Endpoint>,
    /// By a queue's number: the end points that a look at the queue lets make progress.
    pollers: Vec<Vec<u32>>,
    pub(crate) shared: Shared,
    /// Calls by which the program has made progress.
    pub(crate) turns: u64,
}

/// What end points use together.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) queues: Slab<Queue>,
    pub(crate) counters: Slab<Counter>,
    pub(crate) vectors: Slab<Vector>,
    pub(crate) names: Names,
    pub(crate) memory: Memory,
}

impl State {
    /// Lets all end points of a queue make progress.
    #[inline]
    pub(crate) fn progress(&mut self, queue: u32) {
        self.turns = self.turns.wrapping_add(1);
        let Some(pollers) = self.pollers.get(queue as usize) else { return };
        for number in pollers {
            if let Some(endpoint) = self.endpoints.get_mut(*number) {
                endpoint.progress(&mut self.shared);
            }
        }
    }

    /// Lets what is awaited come.
    pub(crate) fn progress_for(&mut self, awaited: Awaited) {
        match awaited {
            Awaited::Queue(queue) => self.progress(queue),
            Awaited::Counter(_) => self.progress_all(),
        }
    }

    /// Lets all end points make progress, also those without a queue.
    pub(crate) fn progress_all(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        self.turn_all();
    }

    /// The same for a thread of the provider.
    pub(crate) fn turn_all(&mut self) {
        for endpoint in self.endpoints.iter_mut() {
            endpoint.progress(&mut self.shared);
        }
    }

    /// Calls `work` with each end point.
    pub(crate) fn each_endpoint(&mut self, work: impl FnMut(&mut Endpoint)) {
        self.endpoints.iter_mut().for_each(work);
    }

    /// Calls `work` with each end point that lets something come to what is awaited.
    pub(crate) fn each(&mut self, awaited: Awaited, mut work: impl FnMut(&mut Endpoint, &mut Shared)) {
        let Self { endpoints, pollers, shared, .. } = self;
        match awaited {
            Awaited::Queue(queue) => {
                for number in pollers.get(queue as usize).into_iter().flatten() {
                    if let Some(endpoint) = endpoints.get_mut(*number) {
                        work(endpoint, shared);
                    }
                }
            }
            Awaited::Counter(_) => endpoints.iter_mut().for_each(|endpoint| work(endpoint, shared)),
        }
    }

    /// Of a registration that is to be closed, what peers have not begun is refused, and what they do not
    /// take is copied.
    pub(crate) fn leave_region(&mut self, region: u32) {
        for endpoint in self.endpoints.iter_mut() {
            endpoint.leaves_region(region, &mut self.shared);
        }
    }

    /// From now on a look at the queue lets the end point make progress.
    pub(crate) fn poll(&mut self, queue: u32, endpoint: u32) {
        let at = queue as usize;
        if self.pollers.len() <= at {
            self.pollers.resize_with(at + 1, Vec::new);
        }
        if !self.pollers[at].contains(&endpoint) {
            self.pollers[at].push(endpoint);
        }
    }

    /// Takes an end point out of the domain, after what its peers wait for is out.
    pub(crate) fn remove_endpoint(&mut self, number: u32) -> Option<Endpoint> {
        for pollers in &mut self.pollers {
            pollers.retain(|endpoint| *endpoint != number);
        }
        let mut endpoint = self.endpoints.remove(number);
        if let Some(endpoint) = &mut endpoint {
            endpoint.finish(&mut self.shared);
            endpoint.bound_counters().for_each(|counter| self.shared.unbind(counter));
        }
        endpoint
    }

    /// Whether an end point uses the queue.
    pub(crate) fn is_polled(&self, queue: u32) -> bool {
        self.pollers.get(queue as usize).is_some_and(|pollers| !pollers.is_empty())
    }
}

/// An address vector: numbers that a program uses for addresses.
#[derive(Debug, Default)]
pub(crate) struct Vector {
    entries: Vec<Option<PeerId>>,
    /// By a peer's number: the vector's, or that there is none.
    numbers: Vec<fi_addr_t>,
}

impl Vector {
    /// The number of an address from now on. An address that is inserted twice gets two numbers; messages
    /// come from the first.
    pub(crate) fn insert(&mut self, peer: PeerId) -> fi_addr_t {
        let number = self.entries.len() as fi_addr_t;
        self.entries.push(Some(peer));
        let at = peer as usize;
        if self.numbers.len() <= at {
            self.numbers.resize(at + 1, FI_ADDR_NOTAVAIL);
        }
        if self.numbers[at] == FI_ADDR_NOTAVAIL {
            self.numbers[at] = number;
        }
        number
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, number: fi_addr_t) -> bool {
        let Some(peer) = usize::try_from(number).ok().and_then(|at| self.entries.get_mut(at)?.take()) else {
            return false;
        };
        if self.number(peer) == number {
            let other = self.entries.iter().position(|entry| *entry == Some(peer));
            self.numbers[peer as usize] = other.map_or(FI_ADDR_NOTAVAIL, |other| other as fi_addr_t);
        }
        true
    }

    /// Whom a number means.
    #[inline]
    pub(crate) fn peer(&self, number: fi_addr_t) -> Option<PeerId> {
        *self.entries.get(usize::try_from(number).ok()?)?
    }

    /// The number of a peer.
    pub(crate) fn number(&self, peer: PeerId) -> fi_addr_t {
        self.numbers.get(peer as usize).copied().unwrap_or(FI_ADDR_NOTAVAIL)
    }
}

impl Shared {
    /// Whether the program would find something now: a completion, or another value of a counter than it was
    /// shown. Of what is there no more it finds that.
    pub(crate) fn has_news(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Queue(number) => self.queues.get(number).is_none_or(|queue| !queue.is_empty()),
            Awaited::Counter(number) => self.counters.get(number).is_none_or(Counter::has_news),
        }
    }

    /// The same for a program that is told so, and reads all then.
    pub(crate) fn take_news(&mut self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Queue(_) => self.has_news(awaited),
            Awaited::Counter(number) => self.counters.get_mut(number).is_none_or(Counter::take_news),
        }
    }

    /// What is rung when something comes.
    pub(crate) fn bell(&self, awaited: Awaited) -> Option<&Arc<Bell>> {
        match awaited {
            Awaited::Queue(number) => self.queues.get(number).map(|queue| &queue.bell),
            Awaited::Counter(number) => self.counters.get(number).map(|counter| &counter.bell),
        }
    }

    /// A counter is used by an end point or a registration from now on.
    pub(crate) fn bind(&mut self, counter: u32) {
        if let Some(counter) = self.counters.get_mut(counter) {
            counter.users += 1;
        }
    }

    /// No more.
    pub(crate) fn unbind(&mut self, counter: u32) {
        if let Some(counter) = self.counters.get_mut(counter) {
            counter.users = counter.users.saturating_sub(1);
        }
    }

    /// Whom a number of a vector means, and its name.
    pub(crate) fn look_up(&self, vector: u32, number: fi_addr_t) -> Option<Name> {
        self.names.name(self.vectors.get(vector)?.peer(number)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_twice_keeps_a_number_as_long_as_one_is_left() {
        let mut vector = Vector::default();
        assert_eq!([vector.insert(5), vector.insert(6), vector.insert(5)], [0, 1, 2]);
        assert_eq!((vector.number(5), vector.number(7)), (0, FI_ADDR_NOTAVAIL));
        assert!(vector.remove(0) && !vector.remove(0) && !vector.remove(9));
        assert_eq!((vector.number(5), vector.peer(0), vector.peer(2)), (2, None, Some(5)));
        assert!(vector.remove(2));
        assert_eq!(vector.number(5), FI_ADDR_NOTAVAIL);
    }
}
