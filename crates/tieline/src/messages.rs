//! Message queues: messages matched by source and tag, between end points named by node and port.
//!
//! A queue's address stands in memory that its node's manager hands out under the number of its port, as it
//! hands out segments; with that the queues find each other, and no manager is between two messages. Those of
//! one host share memory; those of different hosts put to each other's memory (`far`). A queue belongs to
//! one thread at a time; [`SharedQueue`] puts a lock around what it does.

mod everywhere;
mod far;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use message_queue::Endpoint;
use message_queue::meet::Datagrams;
use message_queue::name::NAME_BYTES;
use proto::ids::{NodeId, PortNo, SegmentKey};
use rustix::io::Errno;

pub use message_queue::buffers::Buffers;
pub use message_queue::endpoint::{Claimed, Counters, Mode, SendRequest};
pub use message_queue::settings::{
    BadVariable, Bounds, EAGER_MAX_BYTES, FETCH, Fetch, RING_BYTES, Settings, VARIABLES, set_variables,
};
pub use message_queue::{
    DIRECT_LOOKS, Direct, Envelope, Error as MessageError, Name, PeerId, Persistent, Request, Space, Status,
    Want,
};

pub use everywhere::{Everywhere, Inlet, Outlet};
use far::Directory;

use crate::error::{Error, Result};
use crate::node::Node;
use crate::remote::{Place, RemoteSegment};
use crate::segment::Segment;

/// The queue by itself, which is not found by node and port.
pub type Engine = message_queue::MessageQueue<Everywhere>;
/// The same for several threads.
pub type SharedQueue = message_queue::SharedQueue<Everywhere>;

/// A message queue of this program. Sends, receives and waits are those of the queue that it derefs to.
///
/// ```no_run
/// use std::time::Duration;
/// use tieline::messages::{Settings, Want};
/// use tieline::{Node, NodeId, PortNo};
///
/// # fn main() -> tieline::Result<()> {
/// let mut queue = Node::attach()?.message_queue(PortNo(1), &Settings::default())?;
/// let peer = queue.peer_at(NodeId::new(8)?, PortNo(1), Duration::from_secs(5))?;
/// let receive = queue.receive(Want::exactly(peer, 7), vec![0; 64]);
/// let send = queue.send_bytes(peer, 7, b"hello")?;
/// queue.wait(send, None)?;
/// let status = queue.wait(receive, None)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MessageQueue {
    queue: Engine,
    finder: Finder,
    /// Holds the address for as long as the queue is open.
    address: Segment,
}

/// Finds queues by node and port.
#[derive(Debug)]
struct Finder {
    node: Node,
    port: PortNo,
    known: HashMap<PeerId, (NodeId, PortNo)>,
    /// Of those of other hosts.
    directory: Arc<Directory>,
}

impl MessageQueue {
    pub(crate) fn open(node: &Node, port: PortNo, settings: &Settings) -> Result<Self> {
        settings.check()?;
        let no_endpoint = |errno| MessageError::NoEndpoint { errno };
        let name = Name::new().ok_or(no_endpoint(Errno::AGAIN))?;
        let near = Datagrams::begin(name, settings.ring_bytes).map_err(no_endpoint)?;
        let address = Segment::create_port(node, port, far::PORT_BYTES)?;
        far::write_address(&address.window(), &name)?;
        let directory = Directory::new(node, name, settings.rounded_ring_bytes(), settings.peers_max)?;
        let region = Arc::clone(address.memory().shared_region());
        let meeting = Everywhere::new(near, Arc::clone(&directory), region);
        let queue = Engine::with(Endpoint::with(meeting, *settings));
        address.make_available()?;
        let finder = Finder { node: node.clone(), port, known: HashMap::new(), directory };
        Ok(Self { queue, finder, address })
    }

    /// Its node and port.
    pub fn address(&self) -> (NodeId, PortNo) {
        (self.finder.node.id(), self.finder.port)
    }

    /// The number of the queue at a port of a node, for sends and receives; waits up to `timeout` for it to
    /// be there. A program that was started again has a new queue at its port: ask for its number again. The
    /// node may be on another host.
    ///
    /// # Errors
    /// No such queue within that time, or it is another user's; [`Error::NoDataLink`] if the node is on
    /// another host, and no link for data leads there.
    pub fn peer_at(&mut self, node: NodeId, port: PortNo, timeout: Duration) -> Result<PeerId> {
        let name = self.finder.find(node, port, timeout)?;
        let peer = self.queue.peer(name);
        self.finder.known.insert(peer, (node, port));
        Ok(peer)
    }

    /// The node and port of a number that [`Self::peer_at`] has returned.
    pub fn address_of(&self, peer: PeerId) -> Option<(NodeId, PortNo)> {
        self.finder.known.get(&peer).copied()
    }

    /// Lets sends end and tells all peers that nothing follows, for `limit` at most: whether all of that was
    /// done.
    pub fn close(self, limit: Duration) -> bool {
        let Self { queue, address, .. } = self;
        // Nobody finds it any more.
        drop(address);
        queue.close(limit)
    }
}

/// A message queue for several threads, each of which has a clone of this handle: as [`SharedQueue`], to
/// which it derefs, with peers that are found by node and port.
#[derive(Debug, Clone)]
pub struct SharedMessageQueue {
    queue: SharedQueue,
    finder: Arc<Mutex<Finder>>,
    address: Arc<Segment>,
}

impl MessageQueue {
    /// Lets several threads use it.
    pub fn share(self) -> SharedMessageQueue {
        let Self { queue, finder, address } = self;
        let (finder, address) = (Arc::new(Mutex::new(finder)), Arc::new(address));
        SharedMessageQueue { queue: SharedQueue::new(queue), finder, address }
    }
}

impl SharedMessageQueue {
    fn finder(&self) -> MutexGuard<'_, Finder> {
        self.finder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`MessageQueue::address`].
    pub fn address(&self) -> (NodeId, PortNo) {
        let finder = self.finder();
        (finder.node.id(), finder.port)
    }

    /// As [`MessageQueue::peer_at`]. Only other threads that look for a peer wait meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn peer_at(&self, node: NodeId, port: PortNo, timeout: Duration) -> Result<PeerId> {
        let mut finder = self.finder();
        let name = finder.find(node, port, timeout)?;
        let peer = self.queue.with(|queue| queue.peer(name));
        finder.known.insert(peer, (node, port));
        Ok(peer)
    }

    /// As [`MessageQueue::address_of`].
    pub fn address_of(&self, peer: PeerId) -> Option<(NodeId, PortNo)> {
        self.finder().known.get(&peer).copied()
    }

    /// As [`MessageQueue::close`], for all threads: nobody is to send afterwards.
    pub fn finish(&self, limit: Duration) -> bool {
        // If another thread is at it, it is done there.
        let _ = self.address.close(true);
        self.queue.with(|queue| queue.finish(limit))
    }
}

impl Deref for SharedMessageQueue {
    type Target = SharedQueue;

    fn deref(&self) -> &Self::Target {
        &self.queue
    }
}

impl Finder {
    fn find(&self, node: NodeId, port: PortNo, timeout: Duration) -> Result<Name> {
        let begun = Instant::now();
        loop {
            // The queue there may be closed while it is looked at, and another one be opened.
            if let Some(name) = self.find_once(node, port, timeout.saturating_sub(begun.elapsed()))? {
                return Ok(name);
            }
        }
    }

    /// `None`: a queue was found that has been closed since.
    fn find_once(&self, node: NodeId, port: PortNo, timeout: Duration) -> Result<Option<Name>> {
        let (key, begun) = (SegmentKey::Port(port), Instant::now());
        let address = match RemoteSegment::find(&self.node, node, key, timeout)? {
            Place::Here(address) => address,
            Place::OnOtherHost(addresses) => {
                let left = timeout.saturating_sub(begun.elapsed());
                let contact = RemoteSegment::connect_to(&self.node, node, key, &addresses, left)?;
                return self.directory.find(node, port, contact);
            }
        };
        let mut bytes = [0; NAME_BYTES];
        let read = address.get(0, &mut bytes);
        if matches!(address.check(), Err(Error::Lost { .. })) {
            return Ok(None);
        }
        read?;
        let name = Name::of_bytes(&bytes).ok_or_else(|| {
            let detail = "its address is none of this machine".into();
            Error::Corrupt { what: key.to_string(), node, detail }
        })?;
        self.directory.found_here(name, node, port)?;
        Ok(Some(name))
    }
}

impl Deref for MessageQueue {
    type Target = Engine;

    fn deref(&self) -> &Self::Target {
        &self.queue
    }
}

impl DerefMut for MessageQueue {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.queue
    }
}
