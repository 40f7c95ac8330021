//! How two processes find each other: by datagrams with descriptors, over UNIX sockets whose abstract names are the end points' names.
//!
//! A sender makes the ring's data and sends its descriptor (`HELLO`). A thread of the receiver opens it, makes the consumer's words and
//! sends their descriptor back (`WELCOME`); so a sender need not wait until the receiver's program makes progress. The kernel says who
//! sent each datagram: only the same user is listened to. The thread sleeps except for that, and never waits for room in another
//! process's queue, so no two threads wait for each other.
//!
//! In the final design this is the node manager's work, which also reaches other machines; what comes of it, two ends of a ring, is the
//! same.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recvmsg, sendmsg_addr,
    socket_with, sockopt,
};
use shm::process::SignalsBlocked;
use shm::ring::record::{Consumer, ConsumerHalf};
use shm::sync::{AtomicBool, Ordering};

use super::name::{NAME_BYTES, Name};

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
/// From the end point to its own thread.
const STOP: u8 = 3;

const DATAGRAM_BYTES: usize = 1 + NAME_BYTES;
/// How long until a welcome is sent again for which a peer's queue had no room.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// What has arrived.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A peer's messages come through this.
    Inbox {
        /// The peer.
        name: Name,
        /// Its process, as the kernel says.
        pid: u32,
        /// The end of the ring.
        consumer: Box<Consumer>,
    },
    /// The peer takes our messages.
    Outbox {
        /// The peer.
        name: Name,
        /// The consumer's words.
        fd: OwnedFd,
    },
}

#[derive(Debug, Default)]
struct Arrivals {
    is_any: AtomicBool,
    list: Mutex<Vec<Arrival>>,
}

impl Arrivals {
    fn push(&self, arrival: Arrival) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        // Release: pairs with the Acquire in `has_arrivals`; the lock would suffice.
        self.is_any.store(true, Ordering::Release);
    }
}

/// The socket of an end point, and the thread that looks after it.
#[derive(Debug)]
pub(crate) struct Meeting {
    name: Name,
    socket: Arc<OwnedFd>,
    arrivals: Arc<Arrivals>,
    thread: Option<JoinHandle<()>>,
}

impl Meeting {
    /// From now on peers can find the end point.
    pub(crate) fn begin(name: Name) -> Result<Self, Errno> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_passcred(&socket, true)?;
        bind(&socket, &address(&name)?)?;
        let (socket, arrivals) = (Arc::new(socket), Arc::new(Arrivals::default()));
        let signals = SignalsBlocked::here();
        let of_thread = (Arc::clone(&socket), Arc::clone(&arrivals));
        let thread = std::thread::Builder::new()
            .name("tieline-fi".to_owned())
            .spawn(move || Thread::new(name, of_thread.0, of_thread.1).run())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        drop(signals);
        Ok(Self { name, socket, arrivals, thread: Some(thread) })
    }

    /// Offers a peer the data of a ring.
    ///
    /// # Errors
    /// `AGAIN` if the peer's queue is full; `CONNREFUSED` if there is no such peer any more.
    pub(crate) fn hello(&self, peer: &Name, data: BorrowedFd<'_>) -> Result<(), Errno> {
        send(self.socket.as_fd(), peer, HELLO, &self.name, Some(data))
    }

    /// Whether something has arrived since it was last taken: one load.
    #[inline]
    pub(crate) fn has_arrivals(&self) -> bool {
        self.arrivals.is_any.load(Ordering::Acquire)
    }

    /// Takes what has arrived.
    #[cold]
    pub(crate) fn take(&self) -> Vec<Arrival> {
        let mut list = self.arrivals.list.lock().unwrap_or_else(PoisonError::into_inner);
        self.arrivals.is_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut list)
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if thread.thread().id() == std::thread::current().id() {
            return;
        }
        loop {
            match send(self.socket.as_fd(), &self.name, STOP, &self.name, None) {
                // The thread takes what fills its queue.
                Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
                Ok(()) => break,
                // In a child of `fork` there is no thread; and without the word none will end.
                Err(_) => return,
            }
        }
        let _ = thread.join();
    }
}

struct Thread {
    name: Name,
    socket: Arc<OwnedFd>,
    arrivals: Arc<Arrivals>,
    user: u32,
    /// Welcomes for which there was no room.
    put_off: Vec<(Name, OwnedFd)>,
}

impl Thread {
    fn new(name: Name, socket: Arc<OwnedFd>, arrivals: Arc<Arrivals>) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self { name, socket, arrivals, user, put_off: Vec::new() }
    }

    fn run(mut self) {
        loop {
            if !self.put_off.is_empty() {
                for (peer, fd) in std::mem::take(&mut self.put_off) {
                    self.welcome(peer, fd);
                }
                let mut fds = [PollFd::new(&*self.socket, PollFlags::IN)];
                let timeout = (!self.put_off.is_empty()).then_some(&AGAIN);
                if !matches!(poll(&mut fds, timeout), Ok(1..)) {
                    continue;
                }
            }
            match self.next() {
                Some((STOP, name, _, _)) if name == self.name => return,
                Some((HELLO, name, pid, Some(fd))) => self.hello(name, pid, fd),
                Some((WELCOME, name, _, Some(fd))) => self.arrivals.push(Arrival::Outbox { name, fd }),
                _ => {}
            }
        }
    }

    /// The next datagram of this user: what it is, who sent it, and what came with it.
    fn next(&self) -> Option<(u8, Name, u32, Option<OwnedFd>)> {
        let mut bytes = [0; DATAGRAM_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&*self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
        let (mut fd, mut sender) = (None, None);
        for message in ancillary.drain() {
            match message {
                // All but the last are closed here.
                RecvAncillaryMessage::ScmRights(fds) => fd = fds.last(),
                RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials),
                _ => {}
            }
        }
        let sender = sender.filter(|sender| sender.uid.as_raw() == self.user)?;
        if got.bytes != DATAGRAM_BYTES {
            return None;
        }
        let (kind, name) = bytes.split_first()?;
        Some((
            *kind,
            Name::of_bytes(name.first_chunk()?)?,
            sender.pid.as_raw_nonzero().get().cast_unsigned(),
            fd,
        ))
    }

    fn hello(&mut self, peer: Name, pid: u32, data: OwnedFd) {
        // A sender whose ring cannot be opened is not answered: its messages wait, and it says so itself.
        let Ok(half) = ConsumerHalf::create() else { return };
        let Ok(words) = half.fd().try_clone_to_owned() else { return };
        let Ok(consumer) = half.connect(data) else { return };
        self.arrivals.push(Arrival::Inbox { name: peer, pid, consumer: Box::new(consumer) });
        self.welcome(peer, words);
    }

    fn welcome(&mut self, peer: Name, words: OwnedFd) {
        let sent = send(self.socket.as_fd(), &peer, WELCOME, &self.name, Some(words.as_fd()));
        if matches!(sent, Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS)) {
            self.put_off.push((peer, words));
        }
    }
}

fn address(name: &Name) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(name.text().as_bytes())
}

/// Does not wait.
fn send(
    socket: BorrowedFd<'_>,
    to: &Name,
    kind: u8,
    from: &Name,
    fd: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut bytes = [0; DATAGRAM_BYTES];
    bytes[0] = kind;
    bytes[1..].copy_from_slice(&from.bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fd.into_iter().collect();
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::NOBUFS);
    }
    let parts = [IoSlice::new(&bytes)];
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg_addr(socket, &address(to)?, &parts, &mut ancillary, flags).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shm::ring::record::ProducerHalf;
    use std::time::{Duration, Instant};

    fn arrival(meeting: &Meeting) -> Arrival {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(arrival) = meeting.take().pop() {
                return arrival;
            }
            assert!(Instant::now() < until, "nothing arrived");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn two_meet_and_a_record_goes_through() {
        let names = [Name::new().unwrap(), Name::new().unwrap()];
        let [a, b] = names.map(|name| Meeting::begin(name).unwrap());
        let half = ProducerHalf::create(4096).unwrap();
        a.hello(&names[1], half.fd()).unwrap();
        let Arrival::Inbox { name, pid, mut consumer } = arrival(&b) else { panic!("no ring") };
        assert_eq!((name, pid), (names[0], std::process::id()));
        let Arrival::Outbox { name, fd } = arrival(&a) else { panic!("no welcome") };
        assert_eq!(name, names[1]);
        half.connect(fd).unwrap().push(b"over").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(consumer.pop_into(&mut buffer), Ok(Some(4)));
    }

    #[test]
    fn one_who_is_gone_is_said_to_be() {
        let name = Name::new().unwrap();
        let gone = Name::new().unwrap();
        let meeting = Meeting::begin(name).unwrap();
        let half = ProducerHalf::create(4096).unwrap();
        assert_eq!(meeting.hello(&gone, half.fd()), Err(Errno::CONNREFUSED));
    }
}
