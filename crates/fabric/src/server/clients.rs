//! The connected programs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use foreign::Inbox;
use mad::Mad;
use mad::ibsim::Packet;
use mad::values::Class;
use topology::PortIx;

/// Datagrams for a program that has no room at the moment; further ones are lost, the oldest first.
const WAITING: usize = 1024;
/// Requests of a program whose responses are still expected.
const ASKED: usize = 4096;

/// How long a program may take to respond to another one's request before that gets it back.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);

/// A request of a program to another one.
struct Asked {
    transaction: u64,
    class: u8,
    at: Duration,
    /// The first segment of a table came: others follow, and it is not given back any more.
    answered: bool,
    /// As it was asked.
    packet: Packet,
}

/// Is it a datagram of a transfer of several?
pub(super) fn is_segment(mad: &Mad) -> bool {
    let is_active = || mad::sa::header(mad).rmpp().flags() & mad::sa::rmpp_flag::ACTIVE != 0;
    mad.header().class() == Class::ADMINISTRATION && is_active()
}

/// One program.
pub(super) struct Client {
    /// The number that its sockets' names have.
    pub name: u32,
    /// Its datagrams come here, and it is connected to where they are expected.
    pub socket: Inbox,
    /// The port where it is.
    pub port: PortIx,
    /// It is a subnet manager.
    pub is_sm: bool,
    /// Classes of which it has sent something: only those does it listen to.
    speaks: [bool; 256],
    /// Its requests to other programs, newest last.
    asked: VecDeque<Asked>,
    /// What it had no room for.
    pub waiting: VecDeque<Vec<u8>>,
}

impl Client {
    pub(super) fn new(name: u32, socket: Inbox, port: PortIx, is_sm: bool) -> Self {
        Self {
            name,
            socket,
            port,
            is_sm,
            speaks: [false; 256],
            asked: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    /// It has sent this.
    pub(super) fn sent(&mut self, mad: &Mad) {
        let header = mad.header();
        if let Some(speaks) = self.speaks.get_mut(usize::from(header.class().0)) {
            *speaks = true;
        }
    }

    /// It has sent this request to another program.
    pub(super) fn asks(&mut self, at: Duration, packet: Packet, mad: &Mad) {
        if self.asked.len() >= ASKED {
            self.asked.pop_front();
        }
        let (transaction, class) = (mad.header().transaction(), mad.header().class().0);
        self.asked.push_back(Asked { transaction, class, at, answered: false, packet });
    }

    /// Its requests that were not answered in time.
    pub(super) fn late(&mut self, now: Duration) -> Vec<Packet> {
        let late = |asked: &Asked| now.saturating_sub(asked.at) >= RESPONSE_TIMEOUT;
        // They are in the order of the requests.
        let count = self.asked.iter().take_while(|asked| late(asked)).count();
        self.asked.drain(..count).filter(|asked| !asked.answered).map(|asked| asked.packet).collect()
    }

    /// Is this the response to a request of its? Then it is so only once, but for the segments of a table.
    pub(super) fn expects(&mut self, mad: &Mad) -> bool {
        let wanted = (mad.header().transaction(), mad.header().class().0);
        let at = self.asked.iter().rposition(|asked| (asked.transaction, asked.class) == wanted);
        if is_segment(mad)
            && let Some(asked) = at.and_then(|at| self.asked.get_mut(at))
        {
            asked.answered = true;
            return true;
        }
        at.is_some_and(|at| self.asked.remove(at).is_some())
    }

    pub(super) fn speaks(&self, class: Class) -> bool {
        self.speaks.get(usize::from(class.0)).copied().unwrap_or(false)
    }

    /// Keeps what it had no room for. False: it or an older one is lost.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> bool {
        let room = self.waiting.len() < WAITING;
        if !room {
            self.waiting.pop_front();
        }
        self.waiting.push_back(bytes.to_vec());
        room
    }
}

/// All programs, by their numbers.
#[derive(Default)]
pub(super) struct Clients {
    pub by_number: BTreeMap<u32, Client>,
}

impl Clients {
    /// The free numbers, lowest first.
    pub(super) fn free_numbers(&self) -> impl Iterator<Item = u32> {
        (0..).filter(|number| !self.by_number.contains_key(number))
    }

    /// Programs at a node's port that may get this.
    pub(super) fn at(&self, port: PortIx) -> impl Iterator<Item = (u32, &Client)> {
        self.by_number
            .iter()
            .filter(move |(_, client)| client.port == port)
            .map(|(number, client)| (*number, client))
    }
}
