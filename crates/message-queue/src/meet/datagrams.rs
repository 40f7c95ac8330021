//! Meeting by datagrams with descriptors, over UNIX sockets whose abstract names are the end points' names.
//!
//! A sender makes the ring's data and sends its descriptor (`Hello`). A thread of the receiver opens it,
//! makes the consumer's words and sends their descriptor back (`Welcome`); so a sender need not wait until
//! the receiver's program makes progress. The kernel says who sent each datagram: only the same user is
//! listened to. The thread sleeps except for that, and never waits for room in another process's queue, so no
//! two threads wait for each other.
//!
//! Who needs an answer from a peer that has no lane to it makes the consumer's words itself and sends their
//! descriptor (`Invite`). The peer's thread makes the data, has the whole producer with that, and sends their
//! descriptor back (`Data`).
//!
//! With each descriptor comes one of the sender's process, by which its death is noticed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use shm::process::{PidFd, SignalsBlocked};
use shm::ring::record::{Consumer, ConsumerHalf, Producer, ProducerHalf};
use shm::sync::{AtomicU32, Ordering, futex};

use super::message::{Kind, Received, address, receive, send};
use super::{Arrival, Meeting, NotAsked};
use crate::name::Name;

/// How long until an answer is sent again for which a peer's queue had no room.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// A peer that had no memory or descriptors is not sent anything again before.
const NOT_BEFORE: Duration = Duration::from_millis(10);
/// Stack of the thread, which calls little.
const STACK_BYTES: usize = 64 << 10;

/// What the thread has received.
#[derive(Debug)]
enum Came {
    Inlet {
        name: Name,
        process: Option<PidFd>,
        consumer: Box<Consumer>,
    },
    Words {
        name: Name,
        process: Option<PidFd>,
        words: OwnedFd,
    },
    Outlet {
        name: Name,
        process: Option<PidFd>,
        producer: Box<Producer>,
    },
    Data {
        name: Name,
        process: Option<PidFd>,
        data: OwnedFd,
    },
    /// The peer could not take the ring that it was sent, or make the one that it was invited to.
    NotYet {
        name: Name,
        is_ring: bool,
    },
    /// This process could not take what it was sent.
    Failed {
        name: Name,
    },
}

#[derive(Debug, Default)]
struct Mailbox {
    /// 1 if there is any.
    is_any: Arc<AtomicU32>,
    list: Mutex<Vec<Came>>,
}

impl Mailbox {
    fn push(&self, came: Came) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(came);
        // Release: pairs with the Acquire in `has_arrivals`; the lock would suffice.
        self.is_any.store(1, Ordering::Release);
        // The program's thread may sleep.
        futex::wake(&self.is_any, u32::MAX >> 1);
    }
}

/// Rings to peers, made by the program's thread or, for those who invite, by the end point's own.
#[derive(Debug)]
struct Rings {
    bytes: usize,
    /// Rings that were offered and not answered.
    asked: HashMap<Name, ProducerHalf>,
    /// Rings whose peers had no room for the word of them.
    made: HashMap<Name, ProducerHalf>,
    /// Peers who got theirs because they invited.
    given: HashSet<Name>,
}

impl Rings {
    fn make(&mut self, peer: &Name) -> Result<ProducerHalf, NotAsked> {
        match self.made.remove(peer) {
            Some(half) => Ok(half),
            None => ProducerHalf::create(self.bytes).map_err(|_| NotAsked::Failed(Errno::NOMEM)),
        }
    }
}

/// The socket of an end point, and the thread that looks after it.
#[derive(Debug)]
pub struct Datagrams {
    name: Name,
    socket: Arc<OwnedFd>,
    own_process: Arc<PidFd>,
    came: Arc<Mailbox>,
    /// That of `came`.
    is_any: Arc<AtomicU32>,
    rings: Arc<Mutex<Rings>>,
    /// Consumers of rings that peers were invited to make.
    invited: HashMap<Name, ConsumerHalf>,
    /// Peers that lately could not take what they were sent.
    without: HashMap<Name, Instant>,
    thread: Option<JoinHandle<()>>,
}

impl Datagrams {
    /// From now on peers can find the end point of that name; rings to them have so many bytes.
    ///
    /// # Errors
    /// The kernel's: no descriptors, no threads, or the name is taken.
    pub fn begin(name: Name, ring_bytes: usize) -> Result<Self, Errno> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_passcred(&socket, true)?;
        bind(&socket, &address(&name)?)?;
        let own_process = Arc::new(PidFd::of_this()?);
        let (socket, came) = (Arc::new(socket), Arc::new(Mailbox::default()));
        let (asked, made, given) = Default::default();
        let rings = Arc::new(Mutex::new(Rings { bytes: ring_bytes, asked, made, given }));
        let thread = Thread {
            name,
            socket: Arc::clone(&socket),
            own_process: Arc::clone(&own_process),
            came: Arc::clone(&came),
            rings: Arc::clone(&rings),
            user: rustix::process::geteuid().as_raw(),
            put_off: Vec::new(),
        };
        let signals = SignalsBlocked::here();
        let thread = std::thread::Builder::new()
            .name("tieline-meet".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || thread.run())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        drop(signals);
        let (invited, without) = (HashMap::new(), HashMap::new());
        let is_any = Arc::clone(&came.is_any);
        Ok(Self { name, socket, own_process, came, is_any, rings, invited, without, thread: Some(thread) })
    }

    /// Whether it is time to send a peer descriptors again.
    fn may_send(&mut self, peer: &Name) -> Result<(), NotAsked> {
        match self.without.get(peer) {
            Some(since) if since.elapsed() < NOT_BEFORE => return Err(NotAsked::NotNow),
            Some(_) => _ = self.without.remove(peer),
            None => {}
        }
        Ok(())
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a descriptor of memory, and that of this process.
    fn sends(&self, peer: &Name, kind: Kind, memory: BorrowedFd<'_>) -> Result<(), NotAsked> {
        match send(self.socket.as_fd(), peer, kind, &self.name, &[memory, self.own_process.as_fd()]) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Err(NotAsked::NotNow),
            Err(Errno::CONNREFUSED) => Err(NotAsked::Nobody),
            Err(errno) => Err(NotAsked::Failed(errno)),
        }
    }

    fn came(&mut self, came: Came) -> Option<Arrival<Box<Producer>, Box<Consumer>>> {
        match came {
            Came::Inlet { name, process, consumer } => {
                // It made a ring before it heard the invitation.
                self.invited.remove(&name);
                Some(Arrival::Inlet { name, process, inlet: consumer })
            }
            Came::Words { name, process, words } => {
                // An answer to nothing is left alone.
                let half = self.rings().asked.remove(&name)?;
                Some(match half.connect(words) {
                    Ok(producer) => Arrival::Outlet { name, process, outlet: Box::new(producer) },
                    Err(_) => Arrival::Nonsense { name },
                })
            }
            // Of those who were asked or invited alone: anybody of this user can send such a word.
            Came::NotYet { name, is_ring } => {
                if is_ring {
                    let mut rings = self.rings();
                    let half = rings.asked.remove(&name)?;
                    rings.made.insert(name, half);
                } else {
                    self.invited.remove(&name)?;
                }
                self.without.insert(name, Instant::now());
                Some(Arrival::NotYet { name, is_ring })
            }
            Came::Failed { name } => {
                let is_asked = self.rings().asked.remove(&name).is_some();
                let is_invited = self.invited.remove(&name).is_some();
                (is_asked || is_invited).then_some(Arrival::Failed { name, errno: Errno::MFILE })
            }
            Came::Outlet { name, process, producer } => {
                Some(Arrival::Outlet { name, process, outlet: producer })
            }
            Came::Data { name, process, data } => {
                let half = self.invited.remove(&name)?;
                Some(match half.connect(data) {
                    Ok(consumer) => Arrival::Inlet { name, process, inlet: Box::new(consumer) },
                    Err(_) => Arrival::Nonsense { name },
                })
            }
        }
    }
}

impl Meeting for Datagrams {
    type Outlet = Box<Producer>;
    type Inlet = Box<Consumer>;

    fn name(&self) -> Name {
        self.name
    }

    fn ask(&mut self, peer: &Name) -> Result<(), NotAsked> {
        self.may_send(peer)?;
        let mut rings = self.rings();
        if rings.asked.contains_key(peer) || rings.given.contains(peer) {
            return Ok(());
        }
        let half = rings.make(peer)?;
        let sent = self.sends(peer, Kind::Hello, half.fd());
        match sent {
            Ok(()) => _ = rings.asked.insert(*peer, half),
            Err(NotAsked::NotNow) => _ = rings.made.insert(*peer, half),
            Err(_) => {}
        }
        sent
    }

    fn invite(&mut self, peer: &Name) -> Result<(), NotAsked> {
        if self.invited.contains_key(peer) {
            return Ok(());
        }
        self.may_send(peer)?;
        let half = ConsumerHalf::create().map_err(|_| NotAsked::Failed(Errno::NOMEM))?;
        self.sends(peer, Kind::Invite, half.fd())?;
        self.invited.insert(*peer, half);
        Ok(())
    }

    fn is_there(&self, peer: &Name) -> bool {
        send(self.socket.as_fd(), peer, Kind::Knock, &self.name, &[]) != Err(Errno::CONNREFUSED)
    }

    #[inline]
    fn has_arrivals(&self) -> bool {
        self.is_any.load(Ordering::Acquire) != 0
    }

    fn arrivals_word(&self) -> Option<&AtomicU32> {
        Some(&self.is_any)
    }

    fn arrivals_handle(&self) -> Option<Arc<AtomicU32>> {
        Some(Arc::clone(&self.is_any))
    }

    #[cold]
    fn arrivals(&mut self) -> Vec<Arrival<Box<Producer>, Box<Consumer>>> {
        let came = {
            let mut list = self.came.list.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_any.store(0, Ordering::Relaxed);
            std::mem::take(&mut *list)
        };
        came.into_iter().filter_map(|came| self.came(came)).collect()
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if thread.thread().id() == std::thread::current().id() {
            return;
        }
        loop {
            match send(self.socket.as_fd(), &self.name, Kind::Stop, &self.name, &[]) {
                // The thread takes what fills its queue.
                Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
                Ok(()) => break,
                // In a child of `fork` there is no thread; and without the word none will end.
                Err(_) => return,
            }
        }
        let _ = thread.join();
        // Peers that have been answered would wait for what goes into no lane, or is taken out of none.
        let mut list = self.came.list.lock().unwrap_or_else(PoisonError::into_inner);
        for came in list.drain(..) {
            match came {
                Came::Inlet { consumer, .. } => consumer.close(),
                Came::Outlet { producer, .. } => producer.close(),
                _ => {}
            }
        }
    }
}

struct Thread {
    name: Name,
    socket: Arc<OwnedFd>,
    own_process: Arc<PidFd>,
    came: Arc<Mailbox>,
    rings: Arc<Mutex<Rings>>,
    user: u32,
    /// Answers for which there was no room.
    put_off: Vec<(Name, Kind, Option<OwnedFd>)>,
}

impl Thread {
    fn run(mut self) {
        loop {
            if !self.put_off.is_empty() {
                for (peer, kind, fd) in std::mem::take(&mut self.put_off) {
                    self.answer(peer, kind, fd);
                }
                let mut fds = [PollFd::new(&*self.socket, PollFlags::IN)];
                let timeout = (!self.put_off.is_empty()).then_some(&AGAIN);
                if !matches!(poll(&mut fds, timeout), Ok(1..)) {
                    continue;
                }
            }
            let Some(Received { kind, from, memory, process }) = receive(self.socket.as_fd(), self.user)
            else {
                continue;
            };
            match (kind, memory) {
                (Kind::Stop, _) if from == self.name => return,
                (Kind::Hello, Some(data)) => self.hello(from, process, data),
                (Kind::Welcome, Some(words)) => self.came.push(Came::Words { name: from, process, words }),
                (Kind::Invite, Some(words)) => self.invited(from, process, words),
                (Kind::Data, Some(data)) => self.came.push(Came::Data { name: from, process, data }),
                // The kernel leaves descriptors out for which this process has no room.
                (Kind::Hello, None) => self.answer(from, Kind::NoWelcome, None),
                (Kind::Invite, None) => self.answer(from, Kind::NoData, None),
                (Kind::Welcome | Kind::Data, None) => self.came.push(Came::Failed { name: from }),
                (Kind::NoWelcome | Kind::NoData, _) => {
                    self.came.push(Came::NotYet { name: from, is_ring: kind == Kind::NoWelcome });
                }
                _ => {}
            }
        }
    }

    fn hello(&mut self, peer: Name, process: Option<PidFd>, data: OwnedFd) {
        let made = ConsumerHalf::create().map(|half| (half.fd().try_clone_to_owned(), half));
        let Ok((Ok(words), half)) = made else { return self.answer(peer, Kind::NoWelcome, None) };
        // A sender whose ring is none is not answered.
        let Ok(consumer) = half.connect(data) else { return };
        self.came.push(Came::Inlet { name: peer, process, consumer: Box::new(consumer) });
        self.answer(peer, Kind::Welcome, Some(words));
    }

    /// A peer wants a lane to it, and gets one unless it is asked to take one already.
    fn invited(&mut self, peer: Name, process: Option<PidFd>, words: OwnedFd) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        if rings.asked.contains_key(&peer) || rings.given.contains(&peer) {
            return;
        }
        let made = rings.make(&peer).map(|half| (half.fd().try_clone_to_owned(), half));
        let Ok((Ok(data), half)) = made else {
            drop(rings);
            return self.answer(peer, Kind::NoData, None);
        };
        let Ok(producer) = half.connect(words) else { return };
        rings.given.insert(peer);
        drop(rings);
        // First here: who is told that the ring is there relies on it.
        self.came.push(Came::Outlet { name: peer, process, producer: Box::new(producer) });
        self.answer(peer, Kind::Data, Some(data));
    }

    fn answer(&mut self, peer: Name, kind: Kind, memory: Option<OwnedFd>) {
        let descriptors = memory.as_ref().map(|memory| [memory.as_fd(), self.own_process.as_fd()]);
        let descriptors = descriptors.as_ref().map_or(&[][..], |both| both);
        let sent = send(self.socket.as_fd(), &peer, kind, &self.name, descriptors);
        if matches!(sent, Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS)) {
            self.put_off.push((peer, kind, memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::{Found, Inlet, Outlet};

    const RING_BYTES: usize = 4096;

    fn arrival(meeting: &mut Datagrams) -> Arrival<Box<Producer>, Box<Consumer>> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(arrival) = meeting.arrivals().pop() {
                return arrival;
            }
            assert!(Instant::now() < until, "nothing arrived");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn two_meet_and_a_record_goes_through() {
        let names = [Name::new().unwrap(), Name::new().unwrap()];
        let [mut a, mut b] = names.map(|name| Datagrams::begin(name, RING_BYTES).unwrap());
        a.ask(&names[1]).unwrap();
        let Arrival::Inlet { name, process, mut inlet } = arrival(&mut b) else { panic!("no ring") };
        assert_eq!((name, process.unwrap().pid_of()), (names[0], Some(std::process::id())));
        let Arrival::Outlet { name, mut outlet, process } = arrival(&mut a) else { panic!("no welcome") };
        assert_eq!((name, process.unwrap().pid_of()), (names[1], Some(std::process::id())));
        outlet.send(4, |record| record.put(0, b"over").unwrap()).unwrap();
        assert_eq!(inlet.take_if(|record| Some(record.len())), Ok(Found::Taken(4)));
    }

    #[test]
    fn an_invited_peer_has_its_end_before_ours_is_here_and_makes_one_lane() {
        let names = [Name::new().unwrap(), Name::new().unwrap()];
        let [mut a, mut b] = names.map(|name| Datagrams::begin(name, RING_BYTES).unwrap());
        // What is no ring is not answered.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        a.sends(&names[1], Kind::Invite, event.as_fd()).unwrap();
        a.invite(&names[1]).unwrap();
        a.invite(&names[1]).unwrap();
        let Arrival::Inlet { name, mut inlet, .. } = arrival(&mut a) else { panic!("no ring") };
        assert_eq!(name, names[1]);
        assert!(b.has_arrivals());
        let Arrival::Outlet { name, mut outlet, .. } = arrival(&mut b) else { panic!("no end of it") };
        assert_eq!(name, names[0]);
        outlet.send(4, |record| record.put(0, b"over").unwrap()).unwrap();
        assert_eq!(inlet.take_if(|record| Some(record.len())), Ok(Found::Taken(4)));
        // It is asked for, but has it already.
        b.ask(&names[0]).unwrap();
        assert!(!b.has_arrivals() && !a.has_arrivals() && b.rings().asked.is_empty());
    }

    #[test]
    fn a_word_of_somebody_who_was_not_asked_is_none() {
        let names = [Name::new().unwrap(), Name::new().unwrap()];
        let [a, mut b] = names.map(|name| Datagrams::begin(name, RING_BYTES).unwrap());
        for kind in [Kind::NoWelcome, Kind::NoData, Kind::Welcome, Kind::Data] {
            send(a.socket.as_fd(), &names[1], kind, &names[0], &[]).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(20);
        let mut came = Vec::new();
        while came.len() < 4 {
            came.append(&mut b.came.list.lock().unwrap());
            assert!(Instant::now() < until, "nothing came");
            std::thread::yield_now();
        }
        assert!(came.into_iter().all(|one| b.came(one).is_none()) && b.without.is_empty());
    }

    #[test]
    fn one_who_is_gone_is_said_to_be() {
        let (name, gone) = (Name::new().unwrap(), Name::new().unwrap());
        let mut meeting = Datagrams::begin(name, RING_BYTES).unwrap();
        assert_eq!(meeting.ask(&gone), Err(NotAsked::Nobody));
        assert!(!meeting.is_there(&gone) && meeting.is_there(&name));
    }
}
