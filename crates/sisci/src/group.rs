//! Reflective memory: a map whose stores reach the copies of all members.
//!
//! The puts of the Rust API reach all copies already ([`tieline::Group`]). This module provides the
//! pointer: [`view`] has the addresses that the program uses, [`trap`] carries out the stores to
//! them, [`copies`] is the state that a signal handler may read. A thread of the library follows
//! the members. What a program may rely on is in `docs/sisci-groups.md`.

pub(crate) mod copies;
mod far;
pub(crate) mod trap;
pub(crate) mod view;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use link::Capabilities;
use shm::region::MapAccess;
use shm::sync::plain::{AtomicUsize, Ordering};
use shm::window::Window;
use tieline::{Group, GroupId, Node, RemoteSegment};

use crate::code::{Code, Failure, Result};
use crate::worker::Worker;
use copies::{Copy, Reading};
use far::FarMembers;
pub(crate) use far::send_all;
use view::View;
pub use watch::GroupWatch;

/// The thread checks the members at this interval even without a notification of a change.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Connections to groups in this process: while there are none, a barrier costs nothing but itself.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Whether anything is a group.
pub fn is_used() -> bool {
    CONNECTIONS.load(Ordering::Relaxed) != 0
}

/// A writer's connection to a group.
#[derive(Debug)]
pub struct GroupConnection {
    id: u32,
    group: Arc<Group>,
    size_bytes: usize,
    view: View,
    /// The generation of the members the view leads to.
    followed: Mutex<Option<u64>>,
    /// Made with the first member on another host.
    far: OnceLock<Arc<FarMembers>>,
    worker: Worker,
}

impl GroupConnection {
    /// Connects. A group without members is no segment yet.
    pub(crate) fn connect(node: &Node, id: u32) -> Result<Arc<Self>> {
        let group = Arc::new(node.connect_group(GroupId(id))?);
        let (_, members) = group.reached()?;
        let sizes = members.iter().map(RemoteSegment::size_bytes);
        let size_bytes = sizes.min().ok_or_else(|| {
            Code::NO_SUCH_SEGMENT.because(format!("group {id} has no member yet whose segment is available"))
        })?;
        let view = View::new(size_bytes, true)?;
        let followed = Mutex::new(None);
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let (far, worker) = (OnceLock::new(), Worker::default());
        let connection = Arc::new(Self { id, group, size_bytes, view, followed, far, worker });
        connection.follow()?;
        let (group, weak) = (Arc::clone(&connection.group), Arc::downgrade(&connection));
        connection.worker.start("sisci-group", move || serve(&group, &weak))?;
        Ok(connection)
    }

    /// The group.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Bytes: of the smallest copy that there was.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The address at which it is mapped.
    pub fn address(&self) -> usize {
        self.view.start()
    }

    fn followed(&self) -> MutexGuard<'_, Option<u64>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on stores reach the members that this process knows.
    pub fn follow(&self) -> Result<()> {
        if *self.followed() == Some(self.group.generation()?) {
            return Ok(());
        }
        let mut followed = self.followed();
        let (generation, members) = self.group.reached()?;
        let (mut copies, mut has_far) = (Vec::new(), false);
        for member in members.iter().filter(|member| member.size_bytes() >= self.size_bytes) {
            if !member.capabilities().has(Capabilities::MAP) {
                has_far = true;
                continue;
            }
            // A member that has just ended is not reached; a notification of its end follows.
            let Ok(map) = member.map() else { continue };
            copies.push(Copy { start: map.as_ptr()?.expose_provenance(), _kept: Arc::new(map) });
        }
        let far = if has_far { Some(self.far()?) } else { None };
        if let (Some(far), true) = (far, copies.is_empty()) {
            copies.push(far.own_copy());
        }
        self.view.follow(copies, far.map(|far| Arc::clone(far.journal())))?;
        *followed = Some(generation);
        Ok(())
    }

    /// The members on other hosts.
    fn far(&self) -> Result<&Arc<FarMembers>> {
        if self.far.get().is_none() {
            drop(self.far.set(FarMembers::start(&self.group, self.size_bytes)?));
        }
        self.far.get().ok_or_else(|| Code::SYSTEM.into())
    }

    /// Sends what was stored to the members on other hosts.
    pub(crate) fn send(&self) {
        if let Some(far) = self.far.get() {
            far.send();
        }
    }

    /// The copies that are reached.
    pub(crate) fn copies(&self) -> Result<Vec<RemoteSegment>> {
        let (_, mut members) = self.group.reached()?;
        members.retain(|member| member.size_bytes() >= self.size_bytes && member.check().is_ok());
        Ok(members)
    }

    /// Writes to all copies.
    pub(crate) fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        self.send();
        self.group.put_from(offset, source)?;
        if self.far.get().is_some() {
            // Copies have arrived when a copy function returns.
            self.group.barrier()?;
        }
        Ok(())
    }

    /// Reads from the copy that the map shows.
    pub(crate) fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        let start = std::ptr::with_exposed_provenance_mut(self.view.start());
        // SAFETY: the view is mapped, for reading at least, while `self` lives, and is `size_bytes`
        // long; no Rust reference to its bytes exists.
        let view = unsafe { Window::from_raw(start, self.size_bytes, MapAccess::ReadOnly) };
        Ok(view.copy_to(offset, &target, 0, target.len())?)
    }

    /// Ends the thread. Stores keep reaching the same members.
    pub(crate) fn stop(&self) {
        self.send();
        self.worker.stop(|| self.group.cancel_waits());
    }
}

impl Drop for GroupConnection {
    fn drop(&mut self) {
        self.group.cancel_waits();
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Life of the thread that follows the members.
fn serve(group: &Group, connection: &Weak<GroupConnection>) {
    loop {
        let waited = group.wait_change(LOOK_AGAIN);
        if matches!(waited, Err(tieline::Error::Cancelled { .. } | tieline::Error::Forked { .. })) {
            return;
        }
        let Some(connection) = connection.upgrade() else { return };
        // A failure (the manager does not respond, no room for a mapping) is retried; until then
        // the same members are reached.
        if connection.follow().is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// SCIMemWrite to an address of a group's map: to all copies, without faults. Nothing for other
/// addresses.
pub(crate) fn write_through(to: usize, source: Window<'_>) -> Option<Result<()>> {
    if !is_used() {
        return None;
    }
    let reading = Reading::begin();
    let view = reading.find(to).filter(|view| view.is_group)?;
    let Some(offset) = view.offset_of(to, source.len()) else {
        let detail = format!("{} bytes from there are more than the group has", source.len());
        return Some(Err(Code::OUT_OF_RANGE.because(detail)));
    };
    if view.journal.is_some() {
        return Some(far::write(view, offset, &source));
    }
    let write = |copy: &Copy| {
        let start = std::ptr::with_exposed_provenance_mut(copy.start);
        // SAFETY: a copy has at least as many bytes as the view, and stays mapped while `reading`
        // lives.
        let copy = unsafe { Window::from_raw(start, view.bytes, MapAccess::ReadWrite) };
        source.copy_to(0, &copy, offset, source.len()).map_err(Failure::from)
    };
    Some(view.copies.iter().try_for_each(write))
}
