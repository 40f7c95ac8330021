//! Remote segments: memory of a program on another node (or one's own).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::page::LinkWord;
use link::{Capabilities, Grant, LinkError, RemoteMemory, Stores};
use node_client::{Found, Import, ImportState};
use ofi::{OfiMemory, Rails};
use proto::ids::{NodeId, SegmentKey};
use proto::wire::program::{Imported, LossReason};
use shm::origin::Origin;
use shm::region::{PartialMap, PartialMapOptions};
use shm::window::Window;

use crate::error::{Error, Result};
use crate::events::{Queue, Registration};
use crate::fault::Mapped;
use crate::network::no_data_link;
use crate::node::Node;
use crate::sequence::Sequence;

/// What happens to a remote segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteEvent {
    /// The link to its node went down: puts and gets fail until it is up again, stores may be lost.
    NotOperational,
    /// The link is up again.
    Operational,
    /// The other end is gone.
    Lost(LossReason),
}

/// What remote segments, maps, sequences and DMA queues share.
#[derive(Debug)]
pub struct RemoteInner {
    node: Node,
    peer: NodeId,
    key: SegmentKey,
    import: Import,
    origin: Origin,
    pub(crate) memory: Arc<dyn RemoteMemory>,
    /// On another host only: the owner's program.
    far: Option<Arc<Rails>>,
    events: Arc<Queue<RemoteEvent>>,
    _registration: Registration,
    /// Only on nodes with faults: makes maps follow the link.
    mapped: Option<Arc<Mapped>>,
}

/// A rail of a connection that is not used at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReducedRail {
    /// Its number, from 1 on.
    pub number: usize,
    /// For how long.
    pub since: Duration,
    /// Why it failed.
    pub why: &'static str,
}

/// Those of a connection.
pub(crate) fn reduced(rails: &Rails) -> Vec<ReducedRail> {
    let rail = |rail: &ofi::Reduced| ReducedRail { number: rail.rail + 1, since: rail.since, why: rail.why };
    rails.reduced().iter().map(rail).collect()
}

/// Where a segment is.
#[derive(Debug)]
pub(crate) enum Place {
    /// On this host: it is connected.
    Here(RemoteSegment),
    /// On one that has these addresses.
    OnOtherHost(Vec<IpAddr>),
}

/// A connected segment of another node.
#[derive(Debug)]
pub struct RemoteSegment {
    pub(crate) inner: Arc<RemoteInner>,
}

/// A map of a remote segment: keeps it mapped for as long as it lives.
#[derive(Debug, Clone)]
pub struct RemoteMap {
    inner: Arc<RemoteInner>,
}

/// A map of a part of a remote segment: at a given address, or for reading alone. Unmapped when dropped.
#[derive(Debug)]
pub struct PartialRemoteMap {
    map: Arc<PartialMap>,
    /// While it is held, the map follows the link.
    _inner: Arc<RemoteInner>,
}

impl RemoteInner {
    pub(crate) fn lost(&self) -> Option<LossReason> {
        lost(&self.import)
    }

    /// The link to the owner's node, and the manager that reports it.
    pub(crate) fn link_word(&self) -> Result<(u64, LinkWord)> {
        let page = self.node.client().page()?;
        Ok((page.incarnation()?, page.link(self.peer)?))
    }

    /// What went to another host may be missing: the first failure of the connection, which ends it.
    pub(crate) fn failure(&self) -> Option<Error> {
        let failure = self.far.as_ref()?.failure()?;
        Some(OfiMemory::error(failure, self.peer).into())
    }

    /// Whether stores through its maps vanish.
    pub(crate) fn leads_nowhere(&self) -> bool {
        self.mapped.as_ref().is_some_and(|mapped| mapped.leads_nowhere())
    }

    /// Three loads, before each put, get, atomic and DMA batch.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if self.origin != Origin::here() {
            return Err(forked(self.key));
        }
        match self.import.state() {
            // Free: the manager was restarted and has not taken the import up again. Nothing is known, so
            // nothing is reported.
            ImportState::Alive | ImportState::Free => Ok(()),
            ImportState::Suspended => Err(LinkError::Down { node: self.peer }.into()),
            ImportState::Ended(reason) => Err(self.gone(reason)),
        }
    }

    /// Before it is mapped, which takes no link: what is stored over one that is down is a matter of
    /// [`Sequence`].
    fn check_mappable(&self) -> Result<()> {
        match self.check_usable() {
            Err(Error::Link(LinkError::Down { .. })) => Ok(()),
            checked => checked,
        }
    }

    #[cold]
    fn gone(&self, reason: LossReason) -> Error {
        Error::Lost { what: self.key.to_string(), node: self.peer, reason }
    }
}

/// Used in a forked child, which has inherited the memory of its parent's things but not the right to use
/// them.
#[cold]
pub(crate) fn forked(what: impl std::fmt::Display) -> Error {
    Error::Forked { what: what.to_string() }
}

/// An import that cannot be used now although its exporter lives: the link was taken down.
#[inline]
pub(crate) fn check_link(import: &Import, peer: NodeId) -> Result<()> {
    match import.state() {
        ImportState::Suspended => Err(LinkError::Down { node: peer }.into()),
        _ => Ok(()),
    }
}

/// Why the other end of an import is gone, if it is.
#[inline]
pub(crate) fn lost(import: &Import) -> Option<LossReason> {
    match import.state() {
        ImportState::Ended(reason) => Some(reason),
        // Free: the manager was restarted and has not taken the import up again. Nothing is known, so nothing
        // is reported.
        ImportState::Alive | ImportState::Free | ImportState::Suspended => None,
    }
}

impl Drop for RemoteInner {
    fn drop(&mut self) {
        // A manager that is away, or an exporter that is gone, needs no goodbye.
        drop(self.node.client().disconnect(&self.import));
        if self.far.is_some() {
            self.node.network().forget(&self.import);
        }
    }
}

impl RemoteSegment {
    pub(crate) fn connect(node: &Node, peer: NodeId, key: SegmentKey, timeout: Duration) -> Result<Self> {
        let until = Instant::now().checked_add(timeout);
        match Self::find(node, peer, key, timeout)? {
            Place::Here(segment) => Ok(segment),
            Place::OnOtherHost(addresses) => {
                let left = until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
                Self::connect_to(node, peer, key, &addresses, left)
            }
        }
    }

    /// Connects to a segment of this host; says where that of another one is, without asking that host.
    pub(crate) fn find(node: &Node, peer: NodeId, key: SegmentKey, timeout: Duration) -> Result<Place> {
        match node.client().find_segment(peer, key, timeout)? {
            Found::Here(import, memory, size_bytes) => {
                match node.link().open(Grant { node: peer, size_bytes, memory }) {
                    Ok(memory) => Ok(Place::Here(Self::new(node, peer, key, import, memory, None))),
                    Err(error) => {
                        drop(node.client().disconnect(&import));
                        Err(error.into())
                    }
                }
            }
            Found::OnOtherHost { addresses } => Ok(Place::OnOtherHost(addresses)),
        }
    }

    /// Connects to a segment of another host. A program there that does not respond is waited for as long as
    /// the managers do.
    pub(crate) fn connect_to(
        node: &Node,
        peer: NodeId,
        key: SegmentKey,
        addresses: &[IpAddr],
        timeout: Duration,
    ) -> Result<Self> {
        let what = Imported::Segment(key);
        let connected = node.network().connect(node, peer, what, addresses, timeout)?;
        let memory = connected.memory().map_err(|error| {
            drop(node.client().disconnect(&connected.import));
            no_data_link(what, peer, &error)
        })?;
        let memory = node.with_faults(Arc::new(memory), peer);
        Ok(Self::new(node, peer, key, connected.import, memory, Some(connected.rails)))
    }

    fn new(
        node: &Node,
        peer: NodeId,
        key: SegmentKey,
        import: Import,
        memory: Arc<dyn RemoteMemory>,
        far: Option<Arc<Rails>>,
    ) -> Self {
        let events = Arc::new(Queue::default());
        let registration = node.events().register_import(&import, &events);
        let maps = node.maps().filter(|_| far.is_none());
        let mapped = maps.map(|maps| maps.register(&memory, &import));
        let inner = RemoteInner {
            node: node.clone(),
            peer,
            key,
            import,
            origin: Origin::here(),
            memory,
            far,
            events,
            _registration: registration,
            mapped,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The owner's node.
    pub fn node(&self) -> NodeId {
        self.inner.peer
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.inner.memory.size_bytes()
    }

    /// What the link to it can do.
    pub fn capabilities(&self) -> Capabilities {
        match self.inner.far {
            Some(_) => OfiMemory::capabilities(),
            None => self.inner.node.link().capabilities(),
        }
    }

    /// The link that leads to it: `shm` on this host, `ofi` to another one.
    pub fn link(&self) -> &'static str {
        match self.inner.far {
            Some(_) => OfiMemory::NAME,
            None => self.inner.node.link().name(),
        }
    }

    /// Whether the other end still lives: one load.
    pub fn check(&self) -> Result<()> {
        self.inner.check_usable()
    }

    /// The failure that ended a connection to another host; nothing for one of this host. All that goes over
    /// it fails with the same error from then on, and what was put since the last [`Self::barrier`] may be
    /// missing: connect again, or, after [`LinkError::InDoubt`], [`Self::resume`] it.
    pub fn connection_failure(&self) -> Option<Error> {
        self.inner.failure()
    }

    /// Lets a connection over several rails go on after [`LinkError::InDoubt`]: one of them failed while a
    /// short put was under way on it, so what was put since the last [`Self::barrier`], by whichever thread,
    /// may be missing and is to be put again. When this returns, nothing of before arrives any more. Without
    /// such an error it does nothing.
    ///
    /// Tell the other threads that put over this connection before: once it is resumed, nothing keeps them
    /// from putting behind what is missing.
    ///
    /// # Errors
    /// The connection has ended: connect again. Or the failed rail was not closed within that time: try
    /// again.
    pub fn resume(&self, timeout: Duration) -> Result<()> {
        self.inner.check_usable()?;
        let Some(far) = &self.inner.far else { return Ok(()) };
        Ok(far.resume(timeout).map_err(|error| OfiMemory::error(error, self.inner.peer))?)
    }

    /// The rails to another host that are not used at present, because they failed while they were. The
    /// others carry everything, and these are used again when they respond.
    pub fn reduced_rails(&self) -> Vec<ReducedRail> {
        self.inner.far.as_ref().map(|rails| reduced(rails)).unwrap_or_default()
    }

    /// Ends the connection now, which otherwise ends with the last of its maps, sequences and transfers: the
    /// owner need not wait for those. Their memory stays; stores to it reach no other program.
    pub fn disconnect(&self) -> Result<()> {
        Ok(self.inner.node.client().disconnect(&self.inner.import)?)
    }

    /// Maps it for plain loads and stores, also while the link is down. Any number of maps share one mapping.
    ///
    /// Stores through a map do not check whether the owner still lives: see [`RemoteSegment::sequence`].
    pub fn map(&self) -> Result<RemoteMap> {
        self.inner.check_mappable()?;
        self.inner.memory.map()?;
        Ok(RemoteMap { inner: Arc::clone(&self.inner) })
    }

    /// Maps a part of it once more, at a given address or for reading alone.
    pub fn map_part(&self, options: &PartialMapOptions) -> Result<PartialRemoteMap> {
        self.inner.check_mappable()?;
        let map = self.inner.memory.map_part(options)?;
        Ok(PartialRemoteMap { map, _inner: Arc::clone(&self.inner) })
    }

    /// Writes a block. When it returns, `from` may be changed; [`Self::barrier`] makes sure that it has
    /// arrived.
    pub fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.put(offset, from)?)
    }

    /// Reads a block.
    pub fn get(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.get(offset, into)?)
    }

    /// Writes what `source` holds; it may overlap nothing of this memory.
    pub fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.put_from(offset, source)?)
    }

    /// Reads into `target`.
    pub fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.get_to(offset, target)?)
    }

    /// Everything that this thread has written is visible to the owner when this returns.
    pub fn barrier(&self) -> Result<()> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.barrier()?)
    }

    /// As [`Self::put_from`], if it can be begun without a wait: whether it was.
    pub(crate) fn try_put_from(&self, offset: usize, source: Window<'_>) -> Result<bool> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.try_put_from(offset, source)?)
    }

    /// As [`Self::barrier`], which does not wait: whether everything has arrived.
    pub(crate) fn has_arrived(&self) -> Result<bool> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.has_arrived()?)
    }

    /// Watches link and owner from now on.
    pub fn sequence(&self) -> Result<Sequence> {
        Sequence::start(&self.inner)
    }

    /// Adds to the 4 bytes at `offset` (a multiple of 4); returns the previous value. Atomic also against the
    /// owner's atomics.
    pub fn fetch_add_u32(&self, offset: usize, add: u32) -> Result<u32> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.fetch_add_u32(offset, add)?)
    }

    /// Adds to the 8 bytes at `offset` (a multiple of 8); returns the previous value.
    pub fn fetch_add_u64(&self, offset: usize, add: u64) -> Result<u64> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.fetch_add_u64(offset, add)?)
    }

    /// Puts `new` in place of `expected`; returns the previous value (`expected` if it was swapped).
    pub fn compare_swap_u32(&self, offset: usize, expected: u32, new: u32) -> Result<u32> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.compare_swap_u32(offset, expected, new)?)
    }

    /// Puts `new` in place of `expected`; returns the previous value (`expected` if it was swapped).
    pub fn compare_swap_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.compare_swap_u64(offset, expected, new)?)
    }

    /// Stores the 4 bytes at `offset` (a multiple of 4) at once and whole. A program that polls them finds
    /// what this thread has put before.
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.store_u32(offset, value)?)
    }

    /// Has stores carried out by the owner's processor, one after the other, after all that this thread
    /// has put: who finds a byte of one of them there finds those of all before it. They are there when
    /// this returns.
    pub fn store_all(&self, stores: &Stores) -> Result<()> {
        self.inner.check_usable()?;
        Ok(self.inner.memory.store_all(stores)?)
    }

    /// Tells the owner that the memory is used by this connection, or is so no more, for owners that ask with
    /// [`Segment::is_used`](crate::Segment::is_used). It ends with the connection, and with the process.
    pub fn tell_use(&self, is_used: bool) -> Result<()> {
        if self.inner.origin != Origin::here() {
            return Err(forked(self.inner.key));
        }
        Ok(self.inner.memory.tell_use(is_used)?)
    }

    /// The next thing that happened to it.
    pub fn wait_event(&self, timeout: Duration) -> Result<RemoteEvent> {
        let what = || format!("event of {} of node {}", self.inner.key, self.inner.peer);
        self.inner.events.wait(timeout, &what)?.ok_or_else(|| Error::TimedOut { what: what() })
    }

    /// Ends all waits for events of it with [`Error::Cancelled`], those of the future too.
    pub fn cancel_waits(&self) {
        self.inner.events.cancel();
    }
}

impl PartialRemoteMap {
    /// The first byte that was asked for, for programs that do their own loads and stores.
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_ptr()
    }
}

impl RemoteMap {
    /// The mapped memory. Bounds are checked; whether the owner lives is not.
    pub fn window(&self) -> Result<Window<'_>> {
        Ok(self.inner.memory.map()?)
    }

    /// The first byte, for programs that do their own loads and stores. Valid for [`Self::size_bytes`] while
    /// the map lives.
    pub fn as_ptr(&self) -> Result<*mut u8> {
        Ok(self.window()?.as_ptr())
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.inner.memory.size_bytes()
    }
}

const _: () = {
    const fn is_error_sync<T: Send + Sync>() {}
    is_error_sync::<RemoteSegment>();
    is_error_sync::<LinkError>();
};
