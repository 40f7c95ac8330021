//! This program's side of the link to other hosts (`ofi`): end points, what peers reach, and whom this program reaches.
//!
//! An end point is opened when it is first needed: a program that connects to no other host, and to which none connects, neither
//! loads libfabric nor has its threads. What a peer asks for is dealt with by a thread of its own, because opening an end point
//! takes long, and the library's thread must not wait.

mod jobs;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use node_client::{ByNetwork, ClientEvent, Import, ImportId, OwnLock, WeakClient};
use ofi::provider::RANKS;
use ofi::{
    Bell, DATA_BYTES_MAX, Delivery, Endpoint, EndpointCard, Exported, MemoryCard, OfiError, OfiMemory, Peer,
    Settings, Wanted, random_u64,
};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::network::{ImporterEnd, OwnerEnd};
use proto::wire::program::Imported;
use shm::process::SignalsBlocked;

use crate::error::{Error, Result, why};
use crate::interrupt::{Inlet, OwnerWords};
use crate::node::Node;
use crate::remote::lost;
use crate::segment::SegmentMemory;
use jobs::{Job, Jobs, Queue, Request, queue};

/// Memory of this program that other hosts may reach.
#[derive(Debug)]
pub(crate) struct Reachable {
    memory: Arc<SegmentMemory>,
    /// By provider. Empty until a program of another host connects.
    exported: OwnLock<Vec<(String, Exported)>>,
}

impl Reachable {
    pub(crate) fn new(memory: &Arc<SegmentMemory>) -> Arc<Self> {
        Arc::new(Self { memory: Arc::clone(memory), exported: OwnLock::default() })
    }

    /// What was given out opens nothing any more.
    pub(crate) fn revoke(&self) {
        if let Some(mut exported) = self.exported.lock() {
            exported.clear();
        }
    }

    fn card_at(&self, end_point: &Endpoint) -> std::result::Result<MemoryCard, OfiError> {
        let provider = end_point.offer().provider;
        let Some(mut exported) = self.exported.lock() else { return Err(of_parent()) };
        let known = exported.iter().position(|(of, _)| *of == provider);
        let index = match known {
            Some(index) => index,
            None => {
                exported.push((provider, end_point.export(self.memory.shared_region())?));
                exported.len() - 1
            }
        };
        let mut card = exported[index].1.card().clone();
        // The region may be longer, by less than a page.
        card.size_bytes = self.memory.size_bytes() as u64;
        Ok(card)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Network {
    client: OnceLock<WeakClient>,
    end_points: OwnLock<Vec<Endpoint>>,
    segments: OwnLock<BTreeMap<Imported, Weak<Reachable>>>,
    interrupts: OwnLock<BTreeMap<Imported, Triggered>>,
    /// Whom this program reaches.
    peers: OwnLock<BTreeMap<ImportId, Weak<Peer>>>,
    worker: OwnLock<Option<Jobs>>,
}

/// An interrupt of this program that peers may trigger.
#[derive(Debug, Clone)]
pub(crate) enum Triggered {
    Plain(Weak<OwnerWords>),
    Data(Weak<Inlet>),
}

/// An object on another host.
pub(crate) struct Connected {
    pub(crate) import: Import,
    pub(crate) peer: Arc<Peer>,
    to: NodeId,
    size_bytes: u64,
    key: Vec<u8>,
}

impl Connected {
    /// Of a segment.
    pub(crate) fn memory(&self) -> std::result::Result<OfiMemory, OfiError> {
        let mut memory = MemoryCard::from_bytes(&self.key)?;
        // The managers' word counts for what a program may touch, and the owner's for what there is.
        memory.size_bytes = memory.size_bytes.min(self.size_bytes);
        Ok(OfiMemory::new(Arc::clone(&self.peer), self.to, memory))
    }

    /// Of an interrupt.
    pub(crate) fn doorbell(&self) -> std::result::Result<Doorbell, OfiError> {
        Doorbell::from_bytes(&self.key).ok_or(OfiError::BadCard {
            len: self.key.len(),
            why: "a doorbell has 8 bytes, one that takes messages 12",
        })
    }
}

/// How an interrupt of another host is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doorbell {
    pub(crate) id: u64,
    /// The longest message, if it takes any.
    pub(crate) message_bytes: Option<u32>,
}

impl Doorbell {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.id.to_le_bytes().to_vec();
        bytes.extend(self.message_bytes.iter().flat_map(|longest| longest.to_le_bytes()));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let message_bytes = match rest {
            [] => None,
            _ => Some(u32::from_le_bytes(rest.try_into().ok()?)),
        };
        Some(Self { id: u64::from_le_bytes(*id), message_bytes })
    }
}

/// What one connection of a peer needs here.
struct Exposed {
    _peer: Peer,
    /// Of an interrupt: it is gone with the connection.
    _bell: Option<Bell>,
}

/// For programs.
pub(crate) fn no_data_link(what: Imported, to: NodeId, error: &OfiError) -> Error {
    Error::NoDataLink { what: what.to_string(), node: to, why: error.to_string() }
}

fn of_parent() -> OfiError {
    let reason = "it belongs to the parent process".to_owned();
    OfiError::System { call: "the use of an end point", reason }
}

impl Network {
    /// For answers to peers.
    pub(crate) fn set_client(&self, client: WeakClient) {
        let _ = self.client.set(client);
    }

    /// From now on peers may ask for it.
    pub(crate) fn offer_interrupt(&self, number: InterruptNo, triggered: Triggered) {
        if let Some(mut interrupts) = self.interrupts.lock() {
            interrupts.insert(Imported::Interrupt(number), triggered);
        }
    }

    /// It is no more.
    pub(crate) fn take_interrupt_back(&self, number: InterruptNo) {
        if let Some(mut interrupts) = self.interrupts.lock() {
            interrupts.remove(&Imported::Interrupt(number));
        }
    }

    /// From now on peers may ask for it.
    pub(crate) fn offer(&self, what: Imported, reachable: &Arc<Reachable>) {
        let Some(mut segments) = self.segments.lock() else { return };
        // A second object of one name will be refused by the manager.
        if segments.get(&what).is_none_or(|there| there.strong_count() == 0) {
            segments.insert(what, Arc::downgrade(reachable));
        }
    }

    /// It is no more.
    pub(crate) fn take_back(&self, what: Imported, reachable: &Arc<Reachable>) {
        reachable.revoke();
        let Some(mut segments) = self.segments.lock() else { return };
        if segments.get(&what).is_some_and(|there| std::ptr::eq(there.as_ptr(), Arc::as_ptr(reachable))) {
            segments.remove(&what);
        }
    }

    /// Called by the library's thread with each event.
    pub(crate) fn notice(self: &Arc<Self>, event: &ClientEvent) {
        match event {
            ClientEvent::WantedByNetwork { what, node, connection, end, address } => {
                self.hand_on(Request {
                    what: *what,
                    node: *node,
                    connection: *connection,
                    end: end.clone(),
                    address: *address,
                });
            }
            ClientEvent::Disconnected { connection, .. } => {
                if let Some(mut worker) = self.worker.lock()
                    && let Some(jobs) = worker.as_mut()
                {
                    jobs.over(*connection);
                }
            }
            ClientEvent::Lost { import, reason } => {
                let peer = self.peers.lock().and_then(|mut peers| peers.remove(import));
                if let Some(peer) = peer.and_then(|peer| peer.upgrade()) {
                    peer.lost(why(*reason));
                }
            }
            _ => {}
        }
    }

    /// Without a thread, or if too many wait, nobody answers, and the managers end the wait.
    fn hand_on(self: &Arc<Self>, wanted: Request) {
        let Some(mut worker) = self.worker.lock() else { return };
        if worker.is_none() {
            let (jobs, queue) = queue();
            let network = Arc::downgrade(self);
            let _quiet = SignalsBlocked::here();
            let thread = std::thread::Builder::new().name("tieline-network".to_owned());
            if thread.spawn(move || serve(&network, &queue)).is_ok() {
                *worker = Some(jobs);
            }
        }
        if let Some(jobs) = worker.as_mut() {
            jobs.want(wanted);
        }
    }

    /// The end point of a provider, or the one that is there, or the best that can be had.
    fn end_point(
        &self,
        provider: Option<&str>,
        address: Option<IpAddr>,
    ) -> std::result::Result<Endpoint, OfiError> {
        let Some(mut end_points) = self.end_points.lock() else { return Err(of_parent()) };
        let fits = |end: &&Endpoint| provider.is_none_or(|provider| end.offer().provider == provider);
        if let Some(end_point) = end_points.iter().find(fits) {
            return Ok(end_point.clone());
        }
        let wanted = Wanted { provider: provider.map(str::to_owned), source: address };
        let _quiet = SignalsBlocked::here();
        let opened = match Endpoint::open(&wanted, Settings::default()) {
            // Networks that have no addresses of the internet.
            Err(OfiError::NoProvider { .. }) if address.is_some() => {
                Endpoint::open(&Wanted { source: None, ..wanted }, Settings::default())
            }
            other => other,
        }?;
        end_points.push(opened.clone());
        Ok(opened)
    }

    /// This program's end, for one importer.
    fn expose(
        &self,
        what: Imported,
        node: NodeId,
        end: &ImporterEnd,
        address: Option<IpAddr>,
    ) -> std::result::Result<(OwnerEnd, Exposed), String> {
        let in_words = |error: OfiError| error.to_string();
        let card = EndpointCard::from_bytes(&end.end_point).map_err(in_words)?;
        // What others name is not opened unless it is one that could have been chosen here.
        if !RANKS.contains(&card.provider.as_str()) {
            return Err(format!("provider `{}` is not one that tieline uses", card.provider.escape_debug()));
        }
        let end_point = self.end_point(Some(&card.provider), address).map_err(in_words)?;
        let removed = || "it is just being removed".to_owned();
        let (key, bell) = match what {
            Imported::Segment(_) => {
                let reachable = self.segments.lock().and_then(|segments| segments.get(&what)?.upgrade());
                let card = reachable.ok_or_else(removed)?.card_at(&end_point).map_err(in_words)?;
                (card.to_bytes().to_vec(), None)
            }
            Imported::Interrupt(_) => {
                let triggered = self.interrupts.lock().and_then(|all| all.get(&what).cloned());
                let (doorbell, bell) =
                    open_doorbell(&end_point, triggered.ok_or_else(removed)?).map_err(in_words)?;
                (doorbell.to_bytes(), Some(bell))
            }
        };
        let peer = end_point.connect(&format!("node {node}"), &card, end.session).map_err(in_words)?;
        let end_point = end_point.card().map_err(in_words)?.to_bytes();
        Ok((OwnerEnd { end_point, key }, Exposed { _peer: peer, _bell: bell }))
    }

    /// Connects to an object on another host.
    pub(crate) fn connect(
        &self,
        node: &Node,
        to: NodeId,
        what: Imported,
        address: Option<IpAddr>,
        limit: Duration,
    ) -> Result<Connected> {
        let failed = |error: OfiError| no_data_link(what, to, &error);
        let end_point = self.end_point(None, address).map_err(failed)?;
        let session = random_u64().map_err(failed)?;
        let card = end_point.card().map_err(failed)?;
        let end = ImporterEnd { end_point: card.to_bytes(), session };
        let connected = node.client().connect_by_network(to, what, &end, limit)?;
        let ByNetwork { import, size_bytes, end } = connected;
        let card = EndpointCard::from_bytes(&end.end_point);
        let peer = card.and_then(|card| end_point.connect(&format!("node {to}"), &card, session));
        let peer = peer.map(Arc::new).map_err(|error| {
            drop(node.client().disconnect(&import));
            failed(error)
        })?;
        if let Some(mut peers) = self.peers.lock() {
            peers.insert(import.id(), Arc::downgrade(&peer));
        }
        // It may have ended before it was in the table.
        if let Some(reason) = lost(&import) {
            peer.lost(why(reason));
        }
        Ok(Connected { import, peer, to, size_bytes, key: end.key })
    }

    /// An import that is given up.
    pub(crate) fn forget(&self, import: &Import) {
        if let Some(mut peers) = self.peers.lock() {
            peers.remove(&import.id());
        }
    }
}

/// A doorbell for one importer of an interrupt.
fn open_doorbell(
    end_point: &Endpoint,
    triggered: Triggered,
) -> std::result::Result<(Doorbell, Bell), OfiError> {
    let (bell, message_bytes) = match triggered {
        Triggered::Plain(words) => {
            let ring = move || drop(words.upgrade().map(|words| words.ring_self()));
            (end_point.bell_calling(ring)?, None)
        }
        Triggered::Data(inlet) => {
            let longest = inlet.upgrade().map_or(0, |inlet| inlet.message_bytes().min(DATA_BYTES_MAX));
            let take = move |data: &[u8]| inlet.upgrade().map_or(Delivery::Broken, |inlet| inlet.take(data));
            (end_point.bell_taking(take)?, u32::try_from(longest).ok())
        }
    };
    Ok((Doorbell { id: bell.id(), message_bytes }, bell))
}

/// Answers peers one after the other, and keeps what they need for as long as they are connected.
fn serve(network: &Weak<Network>, queue: &Queue) {
    let mut peers = HashMap::new();
    while let Some(job) = queue.next() {
        let Some(network) = network.upgrade() else { return };
        match job {
            Job::Wanted(Request { what, node, connection, end, address }) => {
                let exposed = network.expose(what, node, &end, address);
                let Some(client) = network.client.get().and_then(WeakClient::upgrade) else { return };
                let (end, exposed) = match exposed {
                    Ok((end, exposed)) => (Ok(end), Some(exposed)),
                    Err(why) => (Err(why), None),
                };
                // If the connection is over, or the manager is gone, so is the peer.
                if client.answer_by_network(connection, end).is_ok() {
                    peers.extend(exposed.map(|exposed| (connection, exposed)));
                }
            }
            Job::Over(connection) => drop(peers.remove(&connection)),
        }
    }
}
