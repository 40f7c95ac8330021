//! `sci_remote_segment_t`: a segment of another node, or of this one, that this process is
//! connected to.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use proto::ids::{NodeId, SegmentId};
use proto::wire::program::LossReason;
use shm::sync::{AtomicBool, Ordering};
use tieline::RemoteEvent;

use crate::callback::{Callback, Reason, RemoteSegmentFn};
use crate::code::{Code, Failure, Result};
use crate::connection::Connection;
use crate::descriptor::Descriptor;
use crate::flags;
use crate::group::GroupConnection;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::map::Maps;
use crate::time::{INFINITE, Pause, Until};
use crate::worker::Worker;

/// `SCI_LOCAL_HOST`: this program's own node.
const LOCAL_HOST: u32 = 0;
/// `DIS_BROADCAST_NODEID_GROUP_ALL`.
const BROADCAST_NODE: u32 = proto::ids::BROADCAST_NODE_ID;
/// How often a wait for an event that never happens checks whether it was ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The target of a connection.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Node(NodeId),
    /// All members of the group with the segment's ID.
    Group,
}

/// A segment that this process is connected to, or is about to be.
#[derive(Debug)]
pub struct RemoteSegment {
    _descriptor: Arc<Descriptor>,
    node: u32,
    id: u32,
    /// Empty while an asynchronous connection is not there yet.
    connection: OnceLock<Connection>,
    /// Given up, or being disconnected.
    is_stopped: AtomicBool,
    maps: Maps,
    worker: Worker,
}

impl Handled for RemoteSegment {
    const KIND: Kind = Kind::RemoteSegment;
}

impl RemoteSegment {
    /// The node of the segment.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The target of the connection.
    pub fn connection(&self) -> Result<&Connection> {
        self.connection.get().ok_or_else(|| {
            let detail = format!("segment {} of node {} is not connected yet", self.id, self.node);
            Code::SEGMENT_NOT_CONNECTED.because(detail)
        })
    }

    pub(crate) fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Tells the owner whether this connection has maps.
    pub(crate) fn tell_use(&self, is_used: bool) {
        if let Some(connection) = self.connection.get() {
            connection.tell_use(is_used);
        }
    }

    /// Ends waits and callbacks.
    pub fn stop(&self) {
        // Release: pairs with the Acquire in `is_stopped`.
        self.is_stopped.store(true, Ordering::Release);
        self.worker.stop(|| {
            if let Some(connection) = self.connection.get() {
                connection.stop();
            }
        });
        if let Some(connection) = self.connection.get() {
            connection.stop();
        }
    }

    fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `stop`.
        self.is_stopped.load(Ordering::Acquire)
    }

    /// A group has no events: members join and leave without notification.
    fn no_event(&self, until: Until) -> Result<Reason> {
        while !self.is_stopped() {
            if until.is_over() {
                return Err(Code::TIMEOUT.because(format!("group {} has no events", self.id)));
            }
            thread::sleep(LOOK_AGAIN.min(until.left()));
        }
        Err(Code::CANCELLED.into())
    }

    fn next_event(&self, until: Until) -> Result<Reason> {
        loop {
            let Some(segment) = self.connection()?.segment() else { return self.no_event(until) };
            match segment.wait_event(until.left()) {
                Ok(RemoteEvent::NotOperational) => return Ok(Reason::NotOperational),
                Ok(RemoteEvent::Operational) => return Ok(Reason::Operational),
                Ok(RemoteEvent::Lost(LossReason::Withdrawn | LossReason::Removed)) => {
                    return Ok(Reason::Disconnect);
                }
                Ok(RemoteEvent::Lost(LossReason::OwnerDied | LossReason::NodeLost)) => {
                    return Ok(Reason::Lost);
                }
                Err(tieline::Error::TimedOut { .. }) if !until.is_over() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The arguments of SCIConnectSegment.
#[derive(Debug)]
pub struct Wanted {
    /// The node of the segment.
    pub node: u32,
    /// The ID.
    pub id: u32,
    /// Through which adapter.
    pub adapter: u32,
    /// The callback for events.
    pub callback: Option<Callback<RemoteSegmentFn>>,
    /// How long to wait for a node that does not respond, in milliseconds; an endless wait is for
    /// the segment too.
    pub timeout: u32,
    /// `SCI_FLAG_…`.
    pub flags: u32,
}

/// SCIConnectSegment.
pub fn connect(descriptor: Handle<Descriptor>, wanted: Wanted) -> Result<Handle<RemoteSegment>> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    let node = library.node_with(wanted.adapter)?;
    let (peer, node_number) = match wanted.node {
        BROADCAST_NODE => (Peer::Group, BROADCAST_NODE),
        LOCAL_HOST => (Peer::Node(node.id()), node.id().get()),
        number => (Peer::Node(node_id(number)?), number),
    };
    let segment = Arc::new(RemoteSegment {
        _descriptor: descriptor,
        node: node_number,
        id: wanted.id,
        connection: OnceLock::new(),
        is_stopped: AtomicBool::new(false),
        maps: Maps::default(),
        worker: Worker::default(),
    });
    let is_asynchronous = wanted.flags & flags::ASYNCHRONOUS_CONNECT != 0;
    if !is_asynchronous {
        // A loop around an endless wait would send requests to the node managers as fast as it can.
        attach(library, &segment, &node, peer, Until::after(wanted.timeout), wanted.timeout == INFINITE)?;
    }
    let handle = library.remote_segments.insert(Arc::clone(&segment))?;
    if is_asynchronous || wanted.callback.is_some() {
        let served = Arc::clone(&segment);
        let work = move || serve(library, &served, handle, &node, peer, &wanted);
        segment
            .worker
            .start("sisci-remote", work)
            .inspect_err(|_| drop(library.remote_segments.remove(handle)))?;
    }
    Ok(handle)
}

fn node_id(node: u32) -> Result<NodeId> {
    NodeId::new(node).map_err(|error| Code::ILLEGAL_NODEID.because(error.to_string()))
}

/// Connects. An ID that does not exist is an error at once, because programs retry in a loop of
/// their own; a node that does not respond, or whose link is down, is waited for. With `patient`,
/// the ID is waited for too.
fn attach(
    library: &Library,
    segment: &RemoteSegment,
    node: &tieline::Node,
    peer: Peer,
    until: Until,
    patient: bool,
) -> Result<()> {
    let pause = Pause::begin();
    let connected = loop {
        match connection_to(library, node, peer, segment.id) {
            Ok(connected) => break connected,
            Err(failure) => {
                let is_away = failure.is_away();
                let is_missing = failure.code == Code::NO_SUCH_SEGMENT && patient;
                if !(is_away || is_missing) || until.is_over() {
                    return Err(failure);
                }
                // SCIDisconnectSegment, or SCITerminate.
                if segment.is_stopped() || !library.is_current() {
                    return Err(Code::CANCELLED.into());
                }
                pause.sleep(until);
            }
        }
    };
    if let Err(unwanted) = segment.connection.set(connected) {
        unwanted.stop();
    }
    Ok(())
}

fn connection_to(library: &Library, node: &tieline::Node, peer: Peer, id: u32) -> Result<Connection> {
    match peer {
        Peer::Group => Ok(Connection::Group(GroupConnection::connect(node, id)?)),
        Peer::Node(peer) => {
            let connected = node.connect_segment(peer, SegmentId(id), Duration::ZERO);
            let connected = connected.map_err(Failure::from);
            connected
                .and_then(|segment| Connection::to_segment(library, segment))
                .map_err(Failure::of_connecting)
        }
    }
}

/// Life of the thread that connects and calls back.
fn serve(
    library: &Library,
    segment: &RemoteSegment,
    handle: Handle<RemoteSegment>,
    node: &tieline::Node,
    peer: Peer,
    wanted: &Wanted,
) {
    let tell = |reason, status| {
        wanted.callback.as_ref().is_none_or(|callback| callback.call(handle, reason, status))
    };
    if segment.connection.get().is_none() {
        let attached = attach(library, segment, node, peer, Until::after(wanted.timeout), true);
        let status = attached.map_or_else(|failure| failure.code, |()| Code::OK);
        if segment.is_stopped() || !tell(Reason::Connect, status) || status != Code::OK {
            return;
        }
    }
    if wanted.callback.is_none() || matches!(peer, Peer::Group) {
        return;
    }
    while let Ok(reason) = segment.next_event(Until::after(INFINITE)) {
        if !tell(reason, Code::OK) {
            return;
        }
    }
}

/// SCIDisconnectSegment.
pub fn disconnect(handle: Handle<RemoteSegment>) -> Result<()> {
    let library = Library::get()?;
    let segment = library.remote_segments.get(handle)?;
    segment.maps.check_none(|| format!("segment {} of node {}", segment.id, segment.node))?;
    library.remote_segments.remove(handle)?;
    library.disconnected.note(handle, (segment.id, segment.node));
    segment.stop();
    if let Some(connection) = segment.connection.get() {
        connection.leave();
    }
    Ok(())
}

/// The ID and node of a segment; also of one that was disconnected, which programs query
/// afterwards.
pub fn name_of(handle: Handle<RemoteSegment>) -> Result<(u32, u32)> {
    let library = Library::get()?;
    library
        .remote_segments
        .with(handle, |segment| (segment.id, segment.node))
        .or_else(|failure| library.disconnected.find(handle).ok_or(failure))
}

/// SCIWaitForRemoteSegmentEvent.
pub fn wait_event(handle: Handle<RemoteSegment>, timeout: u32) -> Result<Reason> {
    let segment = Library::get()?.remote_segments.get(handle)?;
    if segment.worker.is_there() && segment.connection.get().is_some() {
        return Err(Code::ILLEGAL_OPERATION
            .because("it has a callback, which gets its events: no thread can wait for them"));
    }
    segment.next_event(Until::after(timeout))
}
