//! Segments: memory of this program that programs of other nodes may reach.
//!
//! Life cycle: create (the id is taken and the memory is there) → prepare → make available (others may
//! connect) → withdraw (no new connections; on request the old ones end) → remove. Dropping a segment removes
//! it by force: a process that was connected keeps its mapping, sees
//! [`LossReason::Removed`](crate::LossReason), and harms no other program with it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use node_client::{ClientError, OwnLock};
use proto::ids::{GroupId, NodeId, PortNo, SegmentId, SegmentKey};
use proto::wire::program::{Access, Imported, Refusal};
use shm::region::{MapAccess, PartialMap, PartialMapOptions, Region, RegionOptions, Reserve};
use shm::sync::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use shm::window::Window;

use crate::dma::LocalMemory;
use crate::error::{Error, Result};
use crate::events::{Queue, Registration};
use crate::network::Reachable;
use crate::node::Node;
use crate::options::SegmentOptions;
use crate::remote::forked;

/// Where a segment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentState {
    /// Its id is taken, its memory is there.
    Created,
    /// Ready to be made available.
    Prepared,
    /// Others may connect.
    Available,
    /// Was available; no new connections.
    Withdrawn,
    /// It cannot be found any more.
    Removed,
}

impl SegmentState {
    const ALL: [Self; 5] = [Self::Created, Self::Prepared, Self::Available, Self::Withdrawn, Self::Removed];

    const fn name(self) -> &'static str {
        match self {
            Self::Created => "created but not prepared",
            Self::Prepared => "prepared",
            Self::Available => "available",
            Self::Withdrawn => "withdrawn",
            Self::Removed => "removed",
        }
    }
}

/// What happens to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentEvent {
    /// A program connected.
    Connected {
        /// From which node.
        node: NodeId,
    },
    /// A program is connected no more.
    Disconnected {
        /// From which node.
        node: NodeId,
        /// It died rather than disconnected.
        died: bool,
    },
}

/// The memory behind a segment; DMA queues hold on to it while they copy.
#[derive(Debug)]
pub struct SegmentMemory {
    region: Arc<Region>,
    size_bytes: usize,
}

impl LocalMemory for SegmentMemory {
    fn window(&self) -> Window<'_> {
        Self::window(self)
    }
}

impl SegmentMemory {
    /// Memory of a segment of another program of this node.
    pub(crate) fn open(memory: OwnedFd, size_bytes: u64) -> Result<Self> {
        let region = Arc::new(Region::open(memory, MapAccess::ReadWrite)?);
        let size_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        // The file is rounded up to pages; the owner's promise is what programs may touch.
        region.window().sub(0, size_bytes)?;
        Ok(Self { region, size_bytes })
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Maps a part of it once more, at a given address or for reading alone.
    pub fn map_part(&self, options: &PartialMapOptions) -> Result<PartialMap> {
        // The region may be longer than the segment, by less than a page.
        self.window().sub(options.offset, options.len)?;
        Ok(self.region.map_part(options)?)
    }

    /// The region that it is the beginning of.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The same, for what keeps it mapped.
    pub(crate) fn shared_region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn window(&self) -> Window<'_> {
        let whole = self.region.window();
        // The region is at least as long as the segment: `create` made it so.
        whole.sub(0, self.size_bytes).unwrap_or(whole)
    }
}

/// A segment of this program.
#[derive(Debug)]
pub struct Segment {
    node: Node,
    key: SegmentKey,
    memory: Arc<SegmentMemory>,
    /// What other hosts reach of it.
    reachable: Arc<Reachable>,
    /// Held while the state changes, which may need a reply of the manager.
    turn: OwnLock<()>,
    /// Index in [`SegmentState::ALL`]; written under `turn`, read without: reading it never waits.
    state: AtomicU8,
    /// Other programs of the node may change the state too: then the manager alone knows it.
    shared: AtomicBool,
    events: Arc<Queue<SegmentEvent>>,
    _registration: Registration,
}

/// How many free ids are tried for a segment that wants any.
const AUTO_ID_TRIES: u32 = 4096;
/// Where automatic ids begin, out of the way of ids that people choose.
const AUTO_ID_BASE: u32 = 0x4000_0000;
/// Which of them is tried next: one that has become free is used again as late as possible. Whoever has still
/// to learn that its segment is gone then meets no other one.
static NEXT_AUTO_ID: AtomicU32 = AtomicU32::new(0);

impl Segment {
    pub(crate) fn create(node: &Node, options: &SegmentOptions) -> Result<Self> {
        let region = Region::create(&RegionOptions {
            pages: options.pages,
            lock: options.lock,
            numa_node: options.numa_node,
            reserve: options.reserve,
            ..RegionOptions::new("tieline-segment", options.size_bytes)
        })?;
        let memory = Arc::new(SegmentMemory { region: Arc::new(region), size_bytes: options.size_bytes });
        if let Some(id) = options.id {
            return Self::register(node, SegmentKey::Segment(id), memory, &options.access);
        }
        let start = AUTO_ID_BASE | (std::process::id() << 8);
        // Relaxed: two threads that begin with the same one are told apart by the manager.
        let first = NEXT_AUTO_ID.fetch_add(1, Ordering::Relaxed);
        for step in 0..AUTO_ID_TRIES {
            let nth = first.wrapping_add(step) % AUTO_ID_TRIES;
            let key = SegmentKey::Segment(SegmentId(start.wrapping_add(nth)));
            match Self::register(node, key, Arc::clone(&memory), &options.access) {
                Err(Error::Client(ClientError::Refused(Refusal::InUse { .. }))) => {}
                done => return done,
            }
        }
        Err(Error::Limit { what: "segments with automatic ids".into(), limit: u64::from(AUTO_ID_TRIES) })
    }

    pub(crate) fn create_group_copy(node: &Node, group: GroupId, size_bytes: usize) -> Result<Self> {
        let options =
            RegionOptions { reserve: Reserve::Eager, ..RegionOptions::new("tieline-group", size_bytes) };
        let region = Arc::new(Region::create(&options)?);
        let memory = Arc::new(SegmentMemory { region, size_bytes });
        Self::register(node, SegmentKey::GroupCopy(group), memory, &Access::default())
    }

    /// The memory in which a message queue's address stands.
    pub(crate) fn create_port(node: &Node, port: PortNo, size_bytes: usize) -> Result<Self> {
        let options =
            RegionOptions { reserve: Reserve::Eager, ..RegionOptions::new("tieline-port", size_bytes) };
        let memory = SegmentMemory { region: Arc::new(Region::create(&options)?), size_bytes };
        Self::register(node, SegmentKey::Port(port), Arc::new(memory), &Access::default())
    }

    fn register(node: &Node, key: SegmentKey, memory: Arc<SegmentMemory>, access: &Access) -> Result<Self> {
        let events = Arc::new(Queue::default());
        // Registered before the manager knows of it, so that no event can come too early.
        let registration = node.events().register_segment(Imported::Segment(key), &events);
        let reachable = Reachable::new(&memory);
        node.network().offer(Imported::Segment(key), &reachable);
        let size_bytes = memory.size_bytes as u64;
        let created = node.client().create_segment(key, size_bytes, access.clone(), memory.region.fd());
        if let Err(error) = created {
            node.network().take_back(Imported::Segment(key), &reachable);
            return Err(error.into());
        }
        // Another thread may be about to say that the one which had the name before is no more.
        node.network().settle(Imported::Segment(key), &reachable);
        registration.settle();
        Ok(Self {
            node: node.clone(),
            key,
            memory,
            reachable,
            turn: OwnLock::default(),
            state: AtomicU8::new(SegmentState::Created as u8),
            shared: AtomicBool::new(false),
            events,
            _registration: registration,
        })
    }

    fn turn(&self) -> Result<MutexGuard<'_, ()>> {
        self.turn.lock().ok_or_else(|| forked(self.key))
    }

    fn check_there(&self, next_step: &'static str) -> Result<()> {
        let state = self.state();
        if state != SegmentState::Removed {
            return Ok(());
        }
        Err(Error::WrongState { what: self.key.to_string(), state: state.name(), next_step })
    }

    fn set_state(&self, state: SegmentState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Its id; a group's copy has none.
    pub fn id(&self) -> Option<SegmentId> {
        match self.key {
            SegmentKey::Segment(id) => Some(id),
            SegmentKey::GroupCopy(_) | SegmentKey::Port(_) => None,
        }
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.memory.size_bytes
    }

    /// Its memory, for loads and stores. Others may write to it at any time.
    pub fn window(&self) -> Window<'_> {
        self.memory.window()
    }

    /// Maps a part of it once more, at a given address or for reading alone.
    pub fn map_part(&self, options: &PartialMapOptions) -> Result<PartialMap> {
        self.memory.map_part(options)
    }

    /// The memory by itself, which outlives the segment where it is held.
    pub fn memory(&self) -> &Arc<SegmentMemory> {
        &self.memory
    }

    /// The state as this program set it; in a forked child, the state at the fork. Programs that share it may
    /// have brought it elsewhere since.
    pub fn state(&self) -> SegmentState {
        let index = usize::from(self.state.load(Ordering::Relaxed));
        SegmentState::ALL.get(index).copied().unwrap_or(SegmentState::Created)
    }

    /// Makes it ready for the adapter. On shared memory nothing is left to do for it; the step exists because
    /// other links register memory here. May be repeated.
    pub fn prepare(&self) -> Result<()> {
        let _turn = self.turn()?;
        if self.state() == SegmentState::Created {
            self.set_state(SegmentState::Prepared);
        }
        Ok(())
    }

    /// Lets others connect. Prepares it first where that has not been done.
    pub fn make_available(&self) -> Result<()> {
        let _turn = self.turn()?;
        self.check_there("make it available before removing it")?;
        // What this process announces does not count for itself. It announces its use so that no importer can
        // keep another one from telling: a lock that many can hold keeps out the lock that one alone can
        // hold. If it has lost that to a descriptor that it closed, another process may have such a lock by
        // now, which must not keep the segment from being available.
        let _ = self.memory.region().tell_use(true);
        self.node.client().set_available(self.key, true, false)?;
        self.set_state(SegmentState::Available);
        Ok(())
    }

    /// Lets other programs of this node and of the same user attach to it with
    /// [`Node::attach_segment`](crate::Node::attach_segment), whether it is available or not, until it is
    /// removed.
    pub fn share(&self) -> Result<()> {
        let _turn = self.turn()?;
        self.check_there("share it before removing it")?;
        self.node.client().share_segment(self.key)?;
        self.shared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether other programs of the node may attach to it.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Refuses further connections. With `disconnect`, those who are connected see
    /// [`LossReason::Withdrawn`](crate::LossReason); programs that are attached stay so.
    pub fn withdraw(&self, disconnect: bool) -> Result<()> {
        let _turn = self.turn()?;
        self.check_there("make it available before withdrawing it")?;
        if self.state() != SegmentState::Available && !self.is_shared() {
            return Err(Error::WrongState {
                what: self.key.to_string(),
                state: self.state().name(),
                next_step: "make it available before withdrawing it",
            });
        }
        self.node.client().set_available(self.key, false, disconnect)?;
        if disconnect {
            self.reachable.close();
        }
        self.set_state(SegmentState::Withdrawn);
        Ok(())
    }

    /// Removes it. Without `force` it is an error while a program is connected, and the segment is returned
    /// unharmed.
    // The large error is the segment itself: a process that may not remove it continues to use it.
    #[allow(clippy::result_large_err)]
    pub fn remove(self, force: bool) -> std::result::Result<(), (Self, Error)> {
        self.close(force).map_err(|error| (self, error))
    }

    /// As [`Self::remove`], for a program that shares it: it cannot be found any more, its memory stays while
    /// it is held. The second removal of a segment is an error.
    pub fn close(&self, force: bool) -> Result<()> {
        let _turn = self.turn()?;
        self.check_there("create it again")?;
        self.node.client().remove_segment(self.key, force)?;
        self.node.network().take_back(Imported::Segment(self.key), &self.reachable);
        self.set_state(SegmentState::Removed);
        Ok(())
    }

    /// Whether any connection has announced that it uses the memory
    /// ([`RemoteSegment::tell_use`](crate::RemoteSegment::tell_use)): of other processes, or of this one's
    /// node. Not known for a forked child.
    pub fn is_used(&self) -> Result<bool> {
        let _turn = self.turn()?;
        let region = self.memory.region();
        Ok(region.is_used_elsewhere()? || self.node.link().is_used_here(region.id()?))
    }

    /// The next thing that happened to it: in order, none lost up to the 4,096 that are kept.
    pub fn wait_event(&self, timeout: Duration) -> Result<SegmentEvent> {
        let what = || format!("event of {}", self.key);
        self.events.wait(timeout, &what)?.ok_or_else(|| Error::TimedOut { what: what() })
    }

    /// Ends all waits for events of it with [`Error::Cancelled`], those of the future too.
    pub fn cancel_waits(&self) {
        self.events.cancel();
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // What was removed already may have a successor of the same name. A manager that is away forgets it
        // by itself.
        if self.state() != SegmentState::Removed {
            drop(self.node.client().remove_segment(self.key, true));
            self.node.network().take_back(Imported::Segment(self.key), &self.reachable);
        }
    }
}
