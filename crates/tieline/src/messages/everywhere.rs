//! Meets queues of this host by datagrams and shared memory, and those of other hosts by segments.
//!
//! Which of the two a name is for was decided when it was found: a name says nothing that could be trusted
//! about where its queue is. Hosts in namespaces of one machine count as different ones.
//!
//! What goes to other hosts runs through a library, in whose calls a thread of a C program may be cancelled:
//! so it is done [`without_points`].

use std::sync::Arc;

use cancellation::without_points;
use message_queue::Name;
use message_queue::lane::{Found, LaneError};
use message_queue::meet::{Arrival, Datagrams, Meeting, NotAsked};
use shm::doorbell::{Signal, Waiter};
use shm::region::Region;
use shm::sync::AtomicU32;
use shm::window::Window;

use super::far::{Directory, Far, FarInlet, FarOutlet};

/// See the module.
#[derive(Debug)]
pub struct Everywhere {
    near: Datagrams,
    far: Far,
}

impl Everywhere {
    /// `port` is the memory of the queue's port.
    pub(crate) fn new(near: Datagrams, directory: Arc<Directory>, port: Arc<Region>) -> Self {
        Self { near, far: Far::new(directory, port) }
    }
}

#[derive(Debug)]
enum Way<N, F> {
    Near(N),
    Far(F),
}

/// What sends to a queue of this host, or of another one.
#[derive(Debug)]
pub struct Outlet(Way<<Datagrams as Meeting>::Outlet, FarOutlet>);

/// What receives from a queue of this host, or of another one.
#[derive(Debug)]
pub struct Inlet(Way<<Datagrams as Meeting>::Inlet, FarInlet>);

/// An arrival with the ends of its lanes wrapped.
fn wrapped<O, I>(
    arrival: Arrival<O, I>,
    wrap_outlet: impl FnOnce(O) -> Outlet,
    wrap_inlet: impl FnOnce(I) -> Inlet,
) -> Arrival<Outlet, Inlet> {
    match arrival {
        Arrival::Inlet { name, process, inlet } => Arrival::Inlet { name, process, inlet: wrap_inlet(inlet) },
        Arrival::Outlet { name, process, outlet } => {
            Arrival::Outlet { name, process, outlet: wrap_outlet(outlet) }
        }
        Arrival::Nonsense { name } => Arrival::Nonsense { name },
        Arrival::NotYet { name, is_ring } => Arrival::NotYet { name, is_ring },
        Arrival::Failed { name, errno } => Arrival::Failed { name, errno },
    }
}

impl Meeting for Everywhere {
    type Outlet = Outlet;
    type Inlet = Inlet;

    fn name(&self) -> Name {
        self.near.name()
    }

    fn ask(&mut self, peer: &Name) -> Result<(), NotAsked> {
        if self.far.knows(peer) { self.far.ask(peer) } else { self.near.ask(peer) }
    }

    fn invite(&mut self, peer: &Name) -> Result<(), NotAsked> {
        // Those of other hosts make both lanes at once.
        if self.far.knows(peer) { self.far.ask(peer) } else { self.near.invite(peer) }
    }

    fn is_there(&self, peer: &Name) -> bool {
        if self.far.knows(peer) { self.far.is_there(peer) } else { self.near.is_there(peer) }
    }

    fn has_ended(&self, peer: &Name) -> bool {
        match self.far.knows(peer) {
            true => !self.far.is_there(peer),
            false => self.far.knows_here(peer) && !self.near.is_there(peer),
        }
    }

    #[inline]
    fn has_arrivals(&self) -> bool {
        self.near.has_arrivals() || self.far.has_arrivals()
    }

    fn arrivals_word(&self) -> Option<&AtomicU32> {
        self.near.arrivals_word()
    }

    fn arrivals_handle(&self) -> Option<Arc<AtomicU32>> {
        self.near.arrivals_handle()
    }

    fn has_silent_peers(&self) -> bool {
        self.far.is_in_use()
    }

    fn arrivals(&mut self) -> Vec<Arrival<Outlet, Inlet>> {
        let near = self.near.arrivals();
        for arrival in &near {
            if let Arrival::Inlet { name, .. } | Arrival::Outlet { name, .. } = arrival {
                self.far.came_from_here(*name);
            }
        }
        let near = near
            .into_iter()
            .map(|arrival| wrapped(arrival, |end| Outlet(Way::Near(end)), |end| Inlet(Way::Near(end))));
        let far = self.far.arrivals().into_iter();
        let far =
            far.map(|arrival| wrapped(arrival, |end| Outlet(Way::Far(end)), |end| Inlet(Way::Far(end))));
        near.chain(far).collect()
    }
}

impl message_queue::lane::Outlet for Outlet {
    #[inline]
    fn send(&mut self, len: usize, fill: impl FnOnce(&Window<'_>)) -> Result<(), LaneError> {
        match &mut self.0 {
            Way::Near(outlet) => outlet.send(len, fill),
            Way::Far(outlet) => without_points(|| outlet.send(len, fill)),
        }
    }

    #[inline]
    fn find_room(&mut self, bytes: usize) -> Result<(), LaneError> {
        match &mut self.0 {
            Way::Near(outlet) => outlet.find_room(bytes),
            Way::Far(outlet) => without_points(|| outlet.find_room(bytes)),
        }
    }

    fn max_record_bytes(&self) -> usize {
        match &self.0 {
            Way::Near(outlet) => outlet.max_record_bytes(),
            Way::Far(outlet) => outlet.max_record_bytes(),
        }
    }

    fn memory_bytes(&self) -> usize {
        match &self.0 {
            Way::Near(outlet) => outlet.memory_bytes(),
            Way::Far(outlet) => outlet.memory_bytes(),
        }
    }

    fn is_closed(&self) -> bool {
        match &self.0 {
            Way::Near(outlet) => outlet.is_closed(),
            Way::Far(outlet) => outlet.is_closed(),
        }
    }

    fn close(&self) {
        match &self.0 {
            Way::Near(outlet) => outlet.close(),
            Way::Far(outlet) => outlet.close(),
        }
    }

    fn has_taken_back(&self) -> bool {
        match &self.0 {
            Way::Near(outlet) => outlet.has_taken_back(),
            Way::Far(outlet) => outlet.has_taken_back(),
        }
    }

    fn has_arrived(&mut self) -> bool {
        match &mut self.0 {
            Way::Near(outlet) => outlet.has_arrived(),
            Way::Far(outlet) => without_points(|| outlet.has_arrived()),
        }
    }
}

impl message_queue::lane::Inlet for Inlet {
    #[inline]
    fn take_if<R>(&mut self, look: impl FnOnce(&Window<'_>) -> Option<R>) -> Result<Found<R>, LaneError> {
        match &mut self.0 {
            Way::Near(inlet) => inlet.take_if(look),
            Way::Far(inlet) => without_points(|| inlet.take_if(look)),
        }
    }

    #[inline]
    fn knows_more(&self) -> bool {
        match &self.0 {
            Way::Near(inlet) => inlet.knows_more(),
            Way::Far(inlet) => inlet.knows_more(),
        }
    }

    #[inline]
    fn expects_more(&self) -> bool {
        match &self.0 {
            Way::Near(inlet) => inlet.expects_more(),
            Way::Far(inlet) => inlet.expects_more(),
        }
    }

    fn is_empty(&self) -> bool {
        match &self.0 {
            Way::Near(inlet) => inlet.is_empty(),
            Way::Far(inlet) => inlet.is_empty(),
        }
    }

    fn waiter(&self) -> Option<Waiter<'_>> {
        match &self.0 {
            Way::Near(inlet) => inlet.waiter(),
            Way::Far(inlet) => inlet.waiter(),
        }
    }

    fn close(&self) {
        match &self.0 {
            Way::Near(inlet) => inlet.close(),
            Way::Far(inlet) => inlet.close(),
        }
    }

    fn is_closed(&self) -> bool {
        match &self.0 {
            Way::Near(inlet) => inlet.is_closed(),
            Way::Far(inlet) => inlet.is_closed(),
        }
    }

    fn take_back(&self) {
        match &self.0 {
            Way::Near(inlet) => inlet.take_back(),
            Way::Far(inlet) => inlet.take_back(),
        }
    }

    fn signal(&self) -> Option<Signal> {
        match &self.0 {
            Way::Near(inlet) => inlet.signal(),
            Way::Far(inlet) => inlet.signal(),
        }
    }

    fn memory_bytes(&self) -> usize {
        match &self.0 {
            Way::Near(inlet) => inlet.memory_bytes(),
            Way::Far(inlet) => inlet.memory_bytes(),
        }
    }
}
