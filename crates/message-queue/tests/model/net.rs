//! A made-up way to meet, for end points of one thread: rings that refuse and hide at random, and that tell
//! in which order messages were taken out of them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use message_queue::Name;
use message_queue::lane::{Found, Inlet, LaneError, Outlet};
use message_queue::meet::{Arrival, Meeting, NotAsked};
use seeded_random::SplitMix64;
use shm::doorbell::Waiter;
use shm::process::PidFd;
use shm::ring::record::{Consumer, Producer, pair};
use shm::sync::AtomicU32;
use shm::window::Window;

pub(crate) type Random = Rc<RefCell<SplitMix64>>;

pub(crate) fn chance(random: &Random, one_in: u64) -> bool {
    random.borrow_mut().next_u64().is_multiple_of(one_in)
}

/// What all end points of a test have in common.
#[derive(Debug)]
pub(crate) struct Net {
    random: Random,
    ring_bytes: usize,
    /// Whether processes are known, so that memory can be read.
    knows_processes: bool,
    mail: RefCell<HashMap<Name, Vec<Arrival<TestOutlet, TestInlet>>>>,
    /// For each message that was taken: by whom, and whose it was.
    taken: RefCell<Vec<(Name, Name)>>,
    /// Lanes that were made, by sender and receiver: there is one for each of these.
    lanes: RefCell<HashSet<(Name, Name)>>,
}

impl Net {
    pub(crate) fn new(random: &Random, ring_bytes: usize, knows_processes: bool) -> Rc<Self> {
        let (mail, taken, lanes) = (RefCell::default(), RefCell::default(), RefCell::default());
        Rc::new(Self { random: Rc::clone(random), ring_bytes, knows_processes, mail, taken, lanes })
    }

    /// Makes a lane, once: whether the sender asked for it or the receiver invited the sender.
    fn lane(self: &Rc<Self>, sender: Name, receiver: Name) -> Result<(), NotAsked> {
        let mut mail = self.mail.borrow_mut();
        if !mail.contains_key(&sender) || !mail.contains_key(&receiver) {
            return Err(NotAsked::Nobody);
        }
        if !self.lanes.borrow_mut().insert((sender, receiver)) {
            return Ok(());
        }
        let (producer, consumer) = pair(self.ring_bytes).unwrap();
        let process = || self.knows_processes.then(|| PidFd::open_self().unwrap());
        let (producer, consumer) = (Box::new(producer), Box::new(consumer));
        let inlet = TestInlet { of: receiver, from: sender, consumer, net: Rc::clone(self) };
        let outlet = TestOutlet { producer, random: Rc::clone(&self.random), promised: 0 };
        let to_sender = Arrival::Outlet { name: receiver, process: process(), outlet };
        let to_receiver = Arrival::Inlet { name: sender, process: process(), inlet };
        for (name, arrival) in [(sender, to_sender), (receiver, to_receiver)] {
            mail.get_mut(&name).unwrap().push(arrival);
        }
        Ok(())
    }

    pub(crate) fn meeting(self: &Rc<Self>) -> TestMeeting {
        let name = Name::new().unwrap();
        self.mail.borrow_mut().insert(name, Vec::new());
        TestMeeting { name, net: Rc::clone(self) }
    }

    pub(crate) fn taken(&self) -> Vec<(Name, Name)> {
        std::mem::take(&mut self.taken.borrow_mut())
    }
}

#[derive(Debug)]
pub(crate) struct TestMeeting {
    name: Name,
    net: Rc<Net>,
}

impl Meeting for TestMeeting {
    type Outlet = TestOutlet;
    type Inlet = TestInlet;

    fn name(&self) -> Name {
        self.name
    }

    fn ask(&mut self, peer: &Name) -> Result<(), NotAsked> {
        if chance(&self.net.random, 3) {
            return Err(NotAsked::NotNow);
        }
        self.net.lane(self.name, *peer)
    }

    fn invite(&mut self, peer: &Name) -> Result<(), NotAsked> {
        if chance(&self.net.random, 3) {
            return Err(NotAsked::NotNow);
        }
        self.net.lane(*peer, self.name)
    }

    fn is_there(&self, peer: &Name) -> bool {
        self.net.mail.borrow().contains_key(peer)
    }

    fn arrivals_word(&self) -> Option<&AtomicU32> {
        None
    }

    fn has_arrivals(&self) -> bool {
        !self.net.mail.borrow()[&self.name].is_empty()
    }

    fn arrivals(&mut self) -> Vec<Arrival<TestOutlet, TestInlet>> {
        std::mem::take(self.net.mail.borrow_mut().get_mut(&self.name).unwrap())
    }
}

#[derive(Debug)]
pub(crate) struct TestOutlet {
    producer: Box<Producer>,
    random: Random,
    /// Bytes for which there is room.
    promised: usize,
}

impl Outlet for TestOutlet {
    fn send(&mut self, len: usize, fill: impl FnOnce(&Window<'_>)) -> Result<(), LaneError> {
        let is_promised = self.promised >= len;
        self.promised = if is_promised { self.promised - len } else { 0 };
        if !is_promised && chance(&self.random, 4) {
            return Err(LaneError::Full);
        }
        self.producer.send(len, fill)
    }

    fn find_room(&mut self, bytes: usize) -> Result<(), LaneError> {
        if chance(&self.random, 4) {
            return Err(LaneError::Full);
        }
        self.producer.find_room(bytes)?;
        self.promised = bytes;
        Ok(())
    }

    fn max_record_bytes(&self) -> usize {
        Outlet::max_record_bytes(&self.producer)
    }

    fn memory_bytes(&self) -> usize {
        self.producer.memory_bytes()
    }
}

#[derive(Debug)]
pub(crate) struct TestInlet {
    of: Name,
    from: Name,
    consumer: Box<Consumer>,
    net: Rc<Net>,
}

impl Inlet for TestInlet {
    fn take_if<R>(&mut self, look: impl FnOnce(&Window<'_>) -> Option<R>) -> Result<Found<R>, LaneError> {
        if chance(&self.net.random, 4) {
            return Ok(Found::Nothing);
        }
        let mut kind = 0;
        let found = self.consumer.take_if(|record| {
            kind = record.load_u8(0).unwrap();
            look(record)
        });
        // Eager messages and offers; the rest is no message.
        if matches!(found, Ok(Found::Taken(_))) && kind <= 2 {
            self.net.taken.borrow_mut().push((self.of, self.from));
        }
        found
    }

    fn knows_more(&self) -> bool {
        chance(&self.net.random, 2)
    }

    fn expects_more(&self) -> bool {
        chance(&self.net.random, 2)
    }

    fn is_empty(&self) -> bool {
        self.consumer.is_empty()
    }

    fn waiter(&self) -> Option<Waiter<'_>> {
        None
    }

    fn memory_bytes(&self) -> usize {
        self.consumer.memory_bytes()
    }
}
