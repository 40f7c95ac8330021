//! This program's side of the link to other hosts (`ofi`): its end points, the memory and doorbells that
//! peers reach, and the peers that this program reaches.
//!
//! An end point is opened when it is first needed: a program that connects to no other host, and to which
//! none connects, neither loads libfabric nor has its threads. What a peer asks for is dealt with by a thread
//! of its own, because opening an end point takes long, and the library's thread must not wait.

mod doorbells;
mod ends;
mod exposed;
mod jobs;
mod questions;
mod reachable;
mod retired;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use node_client::{ByNetwork, ClientEvent, Import, ImportId, OwnLock, WeakClient};
use ofi::{
    Bell, Endpoint, EndpointCard, Exported, MEMORY_CARD_BYTES, MemoryCard, OfiError, OfiMemory, Outbox, Peer,
    Rails, Recover, Task, random_u64,
};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::network::{ImporterEnd, ImporterRail, MAX_RAILS, OwnerEnd, RailDown};
use proto::wire::program::{ConnectionId, Imported};
use shm::process::SignalsBlocked;
use shm::sync::{AtomicBool, Ordering};

use crate::error::{Error, Result, why};
use crate::node::Node;
use crate::remote::lost;
pub(crate) use doorbells::{Doorbell, Triggered};
use ends::{Ends, Role};
use exposed::AllExposed;
use jobs::{Job, Jobs, Next, Queue, Request, queue};
pub(crate) use reachable::Reachable;
use retired::Retired;

/// How long one of several rails may take to respond when a program connects. One that needs longer is not
/// used at first.
const RAIL_LIMIT: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Network {
    client: OnceLock<WeakClient>,
    ends: Arc<Ends>,
    segments: OwnLock<BTreeMap<Imported, Weak<Reachable>>>,
    interrupts: OwnLock<BTreeMap<Imported, Triggered>>,
    /// Whom this program reaches.
    peers: OwnLock<BTreeMap<ImportId, Weak<Rails>>>,
    worker: OwnLock<Option<Jobs>>,
}

/// An object on another host.
pub(crate) struct Connected {
    pub(crate) import: Import,
    pub(crate) rails: Arc<Rails>,
    to: NodeId,
    size_bytes: u64,
    /// One for each rail.
    keys: Vec<Vec<u8>>,
}

impl Connected {
    /// Of a segment.
    pub(crate) fn memory(&self) -> std::result::Result<OfiMemory, OfiError> {
        let card = |key: &Vec<u8>| -> std::result::Result<MemoryCard, OfiError> {
            let mut card = MemoryCard::from_bytes(split_control(key).0)?;
            // The managers' word counts for what a program may touch, and the owner's for what there is.
            card.size_bytes = card.size_bytes.min(self.size_bytes);
            Ok(card)
        };
        let cards = self.keys.iter().map(card).collect::<std::result::Result<Vec<_>, _>>()?;
        let len = self.keys.iter().map(Vec::len).sum();
        let memory = OfiMemory::over(Arc::clone(&self.rails), self.to, cards);
        memory.ok_or(OfiError::BadCard {
            what: "a list of memory keys",
            len,
            why: "it has not one key for each rail",
        })
    }

    /// Of an interrupt.
    pub(crate) fn doorbell(&self) -> std::result::Result<Doorbell, OfiError> {
        let key = self.keys.first().map(Vec::as_slice).unwrap_or_default();
        Doorbell::from_bytes(key).ok_or(OfiError::BadCard {
            what: "a doorbell",
            len: key.len(),
            why: "it should have 8 bytes, 4 more if it takes messages, and 1 more over several rails",
        })
    }
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

    /// The manager has given the name to this one: whoever had it before has it no more, although it may not
    /// have been taken back yet.
    pub(crate) fn settle(&self, what: Imported, reachable: &Arc<Reachable>) {
        if let Some(mut segments) = self.segments.lock() {
            segments.insert(what, Arc::downgrade(reachable));
        }
    }

    /// What was given out of a segment that is no more opens nothing any more: at once for messages, and for
    /// what peers put and get themselves when nothing of that is under way any more ([`Retired`]).
    fn revoke(&self, reachable: &Reachable) {
        let exported = reachable.take_all();
        if exported.is_empty() {
            return;
        }
        exported.iter().for_each(Exported::refuse_messages);
        if let Some(mut worker) = self.worker.lock()
            && let Some(jobs) = worker.as_mut()
        {
            jobs.retire(exported);
        }
    }

    /// Those of them whose end points stay: one that is being closed is kept open by nothing.
    fn at_open_ends(&self, mut exported: Vec<Exported>) -> Vec<Exported> {
        exported.retain(|exported| self.ends.has(&exported.end_point()));
        exported
    }

    /// It is no more.
    pub(crate) fn take_back(&self, what: Imported, reachable: &Arc<Reachable>) {
        self.revoke(reachable);
        let Some(mut segments) = self.segments.lock() else { return };
        if segments.get(&what).is_some_and(|there| std::ptr::eq(there.as_ptr(), Arc::as_ptr(reachable))) {
            segments.remove(&what);
        }
    }

    /// Called by the library's thread with each event.
    pub(crate) fn notice(self: &Arc<Self>, event: &ClientEvent) {
        match event {
            ClientEvent::WantedByNetwork { what, node, connection, end, addresses } => {
                self.hand_on(Request {
                    what: *what,
                    node: *node,
                    connection: *connection,
                    end: end.clone(),
                    addresses: addresses.clone(),
                });
            }
            ClientEvent::Asked { connection, number, question } => {
                if let Some(mut worker) = self.worker.lock()
                    && let Some(jobs) = worker.as_mut()
                {
                    jobs.ask(*connection, *number, question.clone());
                }
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
            *worker = self.begin_to_serve();
        }
        if let Some(jobs) = worker.as_mut() {
            jobs.want(wanted);
        }
    }

    /// Starts the thread that serves peers, if it can be started.
    fn begin_to_serve(self: &Arc<Self>) -> Option<Jobs> {
        let (jobs, queue) = queue();
        let network = Arc::downgrade(self);
        let _quiet = SignalsBlocked::here();
        let thread = std::thread::Builder::new().name("tieline-network".to_owned());
        thread.spawn(move || serve(&network, &queue)).is_ok().then_some(jobs)
    }

    /// No segment can be reached at this end point any more.
    fn withdraw_from(&self, end_point: &Endpoint) {
        let Some(segments) = self.segments.lock() else { return };
        let all: Vec<_> = segments.values().filter_map(Weak::upgrade).collect();
        drop(segments);
        all.iter().for_each(|reachable| reachable.withdraw_from(end_point));
    }

    /// For the thread that serves peers.
    fn hand_on_task(&self, connection: ConnectionId, task: Task) {
        if let Some(mut worker) = self.worker.lock()
            && let Some(jobs) = worker.as_mut()
        {
            jobs.carry_out(connection, task);
        }
    }

    /// An interrupt of this program.
    fn triggered(&self, what: Imported) -> std::result::Result<Triggered, String> {
        let triggered = self.interrupts.lock().and_then(|all| all.get(&what).cloned());
        triggered.ok_or_else(removed)
    }

    /// What opens an object over an end point.
    fn open(
        &self,
        what: Imported,
        end_point: &Endpoint,
    ) -> std::result::Result<(Vec<u8>, Option<Bell>), String> {
        let in_words = |error: OfiError| error.to_string();
        match what {
            Imported::Segment(_) => {
                let reachable = self.segments.lock().and_then(|segments| segments.get(&what)?.upgrade());
                let card = reachable.ok_or_else(removed)?.card_at(end_point).map_err(in_words)?;
                Ok((card.to_bytes().to_vec(), None))
            }
            Imported::Interrupt(_) => {
                let (doorbell, bell) = self.triggered(what)?.open(end_point).map_err(in_words)?;
                Ok((doorbell.to_bytes(), Some(bell)))
            }
        }
    }

    /// Connects to an object on another host, over all rails that respond.
    pub(crate) fn connect(
        &self,
        node: &Node,
        to: NodeId,
        what: Imported,
        addresses: &[IpAddr],
        limit: Duration,
    ) -> Result<Connected> {
        let failed = |error: OfiError| no_data_link(what, to, &error);
        let role = if is_interrupt(what) { Role::Both } else { Role::Importer };
        let end_points = self.ends.of_rails(None, addresses, MAX_RAILS, (role, role)).map_err(failed)?;
        let rails = end_points.iter().map(|end_point| {
            Ok(ImporterRail { end_point: end_point.card()?.to_bytes(), session: random_u64()? })
        });
        let own = ImporterEnd { rails: rails.collect::<std::result::Result<_, _>>().map_err(failed)? };
        let ByNetwork { import, size_bytes, end } =
            node.client().connect_by_network(to, what, &own, limit)?;
        let bells: Option<Vec<u64>> = end.rails.iter().map(|rail| control_of(what, &rail.key)).collect();
        // Without numbers an interrupt has one rail.
        let of_one = if is_interrupt(what) && bells.is_none() { 1 } else { MAX_RAILS };
        let end_points = &end_points[..end_points.len().min(of_one)];
        let lanes = lanes(to, end_points, &own, &end, bells.is_some());
        let reached = lanes.map_err(|error| {
            drop(node.client().disconnect(&import));
            failed(error)
        })?;
        let numbers: Vec<_> = reached.iter().map(|lane| lane.number).collect();
        let (lanes, keys): (Vec<_>, Vec<_>) = reached.into_iter().map(|lane| (lane.peer, lane.key)).unzip();
        let rails = match bells {
            Some(bells) => Rails::recovering(
                lanes,
                self.recover((bells, numbers), (&end_points[0], addresses), role, import.id()),
            ),
            None => Rails::new(lanes),
        };
        let Some(rails) = rails.map(Arc::new) else {
            drop(node.client().disconnect(&import));
            return Err(failed(OfiError::BadCard {
                what: "a list of endpoint addresses",
                len: 0,
                why: "it has no address",
            }));
        };
        if let Some(mut peers) = self.peers.lock() {
            peers.insert(import.id(), Arc::downgrade(&rails));
        }
        // It may have ended before it was in the table.
        if let Some(reason) = lost(&import) {
            rails.lost(why(reason));
        }
        Ok(Connected { import, rails, to, size_bytes, keys })
    }

    /// What a link needs to go on without a rail, for rails of these numbers.
    fn recover(
        &self,
        (bells, numbers): (Vec<u64>, Vec<u8>),
        (first, addresses): (&Endpoint, &[IpAddr]),
        role: Role,
        import: ImportId,
    ) -> Recover {
        let (ends, provider) = (Arc::clone(&self.ends), first.offer().provider);
        let address = |number: &u8| addresses.get(usize::from(*number)).copied();
        let addresses: Vec<_> = numbers.iter().map(address).collect();
        let open = move |nth: usize, old: &Endpoint| {
            let address = addresses.get(nth).copied().flatten();
            let reason =
                || OfiError::System { call: "the opening of a rail", reason: "it has no address".to_owned() };
            ends.again(&provider, address.ok_or_else(reason)?, role, Some(old))
        };
        let (client, is_busy) = (self.client.get().cloned(), Arc::new(AtomicBool::new(false)));
        let tell = move |reduced: &[ofi::Reduced]| {
            let down = |rail: &ofi::Reduced| RailDown { rail: rail.rail as u8 + 1, why: rail.why.to_owned() };
            tell_rails(client.as_ref(), &is_busy, import, reduced.iter().map(down).collect())
        };
        let ask = questions::by_managers(self.client.get().cloned(), import);
        let outbox = (role == Role::Both).then(Outbox::default);
        Recover { bells, numbers, open: Box::new(open), outbox, tell: Box::new(tell), ask }
    }

    /// An import that is given up.
    pub(crate) fn forget(&self, import: &Import) {
        if let Some(mut peers) = self.peers.lock() {
            peers.remove(&import.id());
        }
    }
}

/// A peer over a rail, and what opens the object there.
struct Lane {
    /// Of the rail, from 0 on.
    number: u8,
    peer: Arc<Peer>,
    key: Vec<u8>,
}

/// Why an object that a peer asks for is not reached.
fn removed() -> String {
    "it is just being removed".to_owned()
}

fn is_interrupt(what: Imported) -> bool {
    matches!(what, Imported::Interrupt(_))
}

/// The doorbell that is asked about rails, if there are several.
fn control_of(what: Imported, key: &[u8]) -> Option<u64> {
    if is_interrupt(what) {
        return Doorbell::from_bytes(key).filter(|bell| bell.is_numbered).map(|bell| bell.id);
    }
    split_control(key).1
}

/// The key of a segment: behind it is the doorbell that is asked about rails, if there are several.
fn split_control(key: &[u8]) -> (&[u8], Option<u64>) {
    match key.split_last_chunk::<8>() {
        Some((memory, bell)) if memory.len() == MEMORY_CARD_BYTES => {
            (memory, Some(u64::from_le_bytes(*bell)))
        }
        _ => (key, None),
    }
}

/// A peer over each rail, with what opens the object there. One that does not respond has failed then and is
/// tried again later: a rail that is cut already does not stand in the way of those that are not. Where that
/// is not possible the first one is taken as it is, and others are left out.
fn lanes(
    to: NodeId,
    end_points: &[Endpoint],
    own: &ImporterEnd,
    its: &OwnerEnd,
    is_tried_again: bool,
) -> std::result::Result<Vec<Lane>, OfiError> {
    let mut lanes = Vec::new();
    for (nth, (end_point, rail)) in end_points.iter().zip(&its.rails).enumerate() {
        let card = EndpointCard::from_bytes(&rail.end_point)?;
        let peer = end_point.connect(&name_of_rail(to, nth), &card, own.rails[nth].session)?;
        let is_only = end_points.len().min(its.rails.len()) == 1;
        let is_taken = is_only || nth == 0 && !is_tried_again;
        let responds = is_taken || peer.responds_within(RAIL_LIMIT).is_ok();
        if responds || is_tried_again {
            lanes.push(Lane { number: nth as u8, peer: Arc::new(peer), key: rail.key.clone() });
        }
    }
    // The owner may be slow: what goes over the first one waits for it longer, and then says why.
    if lanes.iter().all(|lane| lane.peer.failure().is_some())
        && let (Some(lane), Some(rail)) = (lanes.first_mut(), its.rails.first())
    {
        let card = EndpointCard::from_bytes(&rail.end_point)?;
        lane.peer = Arc::new(end_points[0].connect(&name_of_rail(to, 0), &card, own.rails[0].session)?);
    }
    Ok(lanes)
}

/// In errors: the first rail is what a link without others has.
fn name_of_rail(node: NodeId, nth: usize) -> String {
    if nth == 0 { format!("node {node}") } else { format!("node {node} (rail {})", nth + 1) }
}

/// Tells the manager, on a thread of its own: a manager that does not answer holds up no rail. `false`: it
/// has not answered yet what it was told before.
fn tell_rails(
    client: Option<&WeakClient>,
    is_busy: &Arc<AtomicBool>,
    import: ImportId,
    down: Vec<RailDown>,
) -> bool {
    // Without a manager there is nobody to be told.
    let Some(client) = client.and_then(WeakClient::upgrade) else { return true };
    if is_busy.swap(true, Ordering::SeqCst) {
        return false;
    }
    let is_done = Arc::clone(is_busy);
    let _quiet = SignalsBlocked::here();
    let thread = std::thread::Builder::new().name("tieline-status".to_owned());
    let thread = thread.spawn(move || {
        drop(client.tell_rails(import, down));
        is_done.store(false, Ordering::SeqCst);
    });
    if thread.is_err() {
        is_busy.store(false, Ordering::SeqCst);
    }
    thread.is_ok()
}

/// Answers peers one after the other, and keeps what they need for as long as they are connected.
fn serve(network: &Weak<Network>, queue: &Queue) {
    let (mut peers, mut retired) = (AllExposed::new(), Retired::default());
    loop {
        let next = queue.next(retired.next_end());
        retired.end(Instant::now());
        let job = match next {
            Next::Job(job) => job,
            Next::TimeIsUp => continue,
            Next::Over => return,
        };
        let Some(network) = network.upgrade() else { return };
        match job {
            Job::Wanted(request) => {
                let (connection, exposed) = (request.connection, network.expose(&request));
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
            Job::Rail(connection, task) => network.carry_out(&mut peers, &mut retired, connection, task),
            Job::Retired(exported) => retired.add(network.at_open_ends(exported), Instant::now()),
            Job::Asked(connection, number, question) => {
                if let Some(exposed) = peers.get(&connection) {
                    network.answer_about_rails(exposed, (connection, number), &question);
                }
            }
        }
    }
}
