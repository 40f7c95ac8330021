//! A program's attachment to its node, from which all other objects are created.

use std::sync::Arc;
use std::time::Duration;

use link::injector::FaultInjector;
use link::shm_link::ShmLink;
use link::{Link, RemoteMemory};
use node_client::{AttachOptions, Client, ClientEvent};
use proto::fault::LinkChange;
use proto::ids::{GroupId, InterruptNo, NodeId, PortNo, SegmentId, SegmentKey};
use proto::wire::status::{NodeInfo, NodeStatus};

use crate::attached::AttachedSegment;
use crate::dma::DmaQueue;
use crate::error::Result;
use crate::events::Registry;
use crate::fault::{Maps, PageSource};
use crate::group::{Group, GroupMember};
use crate::interrupt::{DataInterrupt, Interrupt, RemoteDataInterrupt, RemoteInterrupt};
use crate::messages::{MessageQueue, Settings};
use crate::network::Network;
use crate::options::{InterruptOptions, NodeOptions, SegmentOptions};
use crate::remote::RemoteSegment;
use crate::segment::Segment;

/// An attachment to a node. Clones share it; everything made from it keeps it alive.
#[derive(Debug, Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    link: Arc<dyn Link>,
    events: Arc<Registry>,
    network: Arc<Network>,
    /// Only on nodes with faults.
    faults: Option<Faults>,
}

/// What carries out injected faults.
#[derive(Debug)]
struct Faults {
    maps: Arc<Maps>,
    injector: Arc<FaultInjector>,
}

impl Node {
    /// Attaches to the only node of the cluster on this machine, or to the one that the environment names.
    pub fn attach() -> Result<Self> {
        Self::attach_with(&NodeOptions::default())
    }

    /// Attaches to a given node.
    pub fn attach_with(options: &NodeOptions) -> Result<Self> {
        Self::attach_over(options, Arc::new(ShmLink::default()))
    }

    /// Attaches, with a link of one's own (for instance [`link::injector::FaultInjector`]) between this
    /// program and all memory.
    pub fn attach_over(options: &NodeOptions, link: Arc<dyn Link>) -> Result<Self> {
        let (events, maps) = (Arc::new(Registry::default()), Arc::new(Maps::default()));
        let network = Arc::new(Network::default());
        let (sink, watched, peers) = (Arc::clone(&events), Arc::clone(&maps), Arc::clone(&network));
        let attach = AttachOptions {
            runtime_dir: options.runtime_dir.clone(),
            cluster: options.cluster.clone(),
            node: options.node,
            name: options.name.clone(),
        };
        let client = Client::attach(&attach, move |event| {
            if matches!(event, ClientEvent::Link { .. } | ClientEvent::ManagerBack { .. }) {
                watched.follow();
            }
            peers.notice(&event);
            sink.dispatch(event);
        })?;
        network.set_client(client.downgrade());
        if !client.info().faults {
            return Ok(Self { inner: Arc::new(Inner { client, link, events, network, faults: None }) });
        }
        let source = Arc::new(PageSource { client: client.clone() });
        // Another seed in each program, so that they do not all lose their first put.
        let injector = Arc::new(FaultInjector::injecting(link, source, u64::from(std::process::id())));
        let link = Arc::<FaultInjector>::clone(&injector);
        let faults = Some(Faults { maps, injector });
        Ok(Self { inner: Arc::new(Inner { client, link, events, network, faults }) })
    }

    pub(crate) fn maps(&self) -> Option<&Maps> {
        self.inner.faults.as_ref().map(|faults| &*faults.maps)
    }

    /// Memory of another host, with what an administrator injects into the link to it.
    pub(crate) fn with_faults(&self, memory: Arc<dyn RemoteMemory>, node: NodeId) -> Arc<dyn RemoteMemory> {
        match &self.inner.faults {
            Some(faults) => faults.injector.around(memory, node),
            None => memory,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.client
    }

    pub(crate) fn link(&self) -> &dyn Link {
        &*self.inner.link
    }

    pub(crate) fn network(&self) -> &Arc<Network> {
        &self.inner.network
    }

    pub(crate) fn events(&self) -> &Arc<Registry> {
        &self.inner.events
    }

    /// The node's number.
    pub fn id(&self) -> NodeId {
        self.info().node
    }

    /// Facts of the node.
    pub fn info(&self) -> NodeInfo {
        self.inner.client.info()
    }

    /// State of the node, as its manager sees it.
    pub fn status(&self) -> Result<NodeStatus> {
        Ok(self.inner.client.status()?)
    }

    /// Does something to the link to `peer`, at this end: what `tieline link` does. All but taking it down
    /// and up needs a node that was started with faults. Only the user of the node's manager may.
    pub fn change_link(&self, peer: NodeId, change: LinkChange) -> Result<()> {
        Ok(self.inner.client.change_link(peer, change)?)
    }

    /// Whether a node responds. The program's own always does.
    pub fn probe(&self, node: NodeId) -> Result<bool> {
        Ok(self.inner.client.probe(node)?)
    }

    /// Creates a segment with a given id.
    pub fn create_segment(&self, id: SegmentId, size_bytes: usize) -> Result<Segment> {
        self.create_segment_with(&SegmentOptions::new(size_bytes).id(id))
    }

    /// Creates a segment.
    pub fn create_segment_with(&self, options: &SegmentOptions) -> Result<Segment> {
        Segment::create(self, options)
    }

    /// Attaches to a segment that another program of this node and of the same user shares
    /// ([`Segment::share`]); waits up to `timeout` for it to be there and shared. Zero: an error at once.
    pub fn attach_segment(&self, id: SegmentId, timeout: Duration) -> Result<AttachedSegment> {
        AttachedSegment::attach(self, id, timeout)
    }

    /// Connects to a segment; waits up to `timeout` for the node and the segment to be there. Zero: an error
    /// at once.
    pub fn connect_segment(&self, node: NodeId, id: SegmentId, timeout: Duration) -> Result<RemoteSegment> {
        RemoteSegment::connect(self, node, SegmentKey::Segment(id), timeout)
    }

    /// Connects to the memory of a message queue's port, which has the queue's name and places for requests.
    /// Queues do that themselves ([`crate::MessageQueue::peer_at`]): it is for tests that play other
    /// programs.
    pub fn connect_port(&self, node: NodeId, port: PortNo, timeout: Duration) -> Result<RemoteSegment> {
        RemoteSegment::connect(self, node, SegmentKey::Port(port), timeout)
    }

    /// Creates an interrupt: a latched, counted signal from other programs to this one.
    pub fn create_interrupt(&self, options: &InterruptOptions) -> Result<Interrupt> {
        Interrupt::create(self, options)
    }

    /// Connects to an interrupt of any node.
    pub fn connect_interrupt(
        &self,
        node: NodeId,
        number: InterruptNo,
        timeout: Duration,
    ) -> Result<RemoteInterrupt> {
        RemoteInterrupt::connect(self, node, number, timeout)
    }

    /// Creates an interrupt whose triggers carry up to `message_bytes` each; `depth` of them are kept.
    pub fn create_data_interrupt(
        &self,
        options: &InterruptOptions,
        message_bytes: usize,
        depth: usize,
    ) -> Result<DataInterrupt> {
        DataInterrupt::create(self, options, message_bytes, depth)
    }

    /// Connects to a data interrupt of any node.
    pub fn connect_data_interrupt(
        &self,
        node: NodeId,
        number: InterruptNo,
        timeout: Duration,
    ) -> Result<RemoteDataInterrupt> {
        RemoteDataInterrupt::connect(self, node, number, timeout)
    }

    /// Makes a DMA queue whose copies are made by the caller.
    pub fn dma_queue(&self, max_entries: usize) -> Result<DmaQueue> {
        DmaQueue::new(max_entries, false)
    }

    /// Makes a DMA queue with an engine thread: copies continue beside the program, and callbacks are
    /// possible.
    pub fn dma_engine(&self, max_entries: usize) -> Result<DmaQueue> {
        DmaQueue::new(max_entries, true)
    }

    /// Opens a message queue at a port of this node.
    ///
    /// # Errors
    /// The port is in use; or memory, descriptors or threads are missing.
    pub fn message_queue(&self, port: PortNo, settings: &Settings) -> Result<MessageQueue> {
        MessageQueue::open(self, port, settings)
    }

    /// Joins a group: this node's copy, which everything put to the group reaches.
    pub fn join_group(&self, group: GroupId, size_bytes: usize) -> Result<GroupMember> {
        GroupMember::join(self, group, size_bytes)
    }

    /// Makes this node's copy of a group, which is reached once its [`GroupMember::segment`] is made
    /// available.
    pub fn create_group_copy(&self, group: GroupId, size_bytes: usize) -> Result<GroupMember> {
        GroupMember::create(self, group, size_bytes)
    }

    /// Connects to a group for writing to all its members' copies. Members may come and go.
    pub fn connect_group(&self, group: GroupId) -> Result<Group> {
        Group::connect(self, group)
    }
}
