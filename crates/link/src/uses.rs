//! Tells the owner of a segment that this process uses the segment.
//!
//! It tells by record locks ([`Region::tell_use`]), of which the kernel keeps one for each memory and
//! process, however many times the memory is open, and which it takes back whenever the process closes any
//! descriptor of the memory. So users are noted here, and a process that closes a descriptor tells again for
//! those that are left. Between the two there is a moment in which the owner hears that this process uses
//! nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shm::origin::Origin;
use shm::region::{MemoryId, Region};

use crate::error::Result;
use crate::shm_link::ShmMemory;

type Users = BTreeMap<MemoryId, Vec<Weak<ShmMemory>>>;

/// Of one link; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Uses(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    origin: Origin,
    users: Mutex<Users>,
}

impl Default for Uses {
    fn default() -> Self {
        Self(Arc::new(Inner { origin: Origin::here(), users: Mutex::default() }))
    }
}

impl Uses {
    /// Nothing in a forked child: it has no record locks, and a thread that it does not have may hold this
    /// one.
    fn users(&self) -> Option<MutexGuard<'_, Users>> {
        (self.0.origin == Origin::here()).then(|| self.0.users.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// For memory that was opened.
    pub(crate) fn of(&self, id: MemoryId, memory: Weak<ShmMemory>) -> Use {
        Use { uses: self.clone(), id, memory }
    }

    /// Whether any use of the memory has been announced here.
    pub(crate) fn is_told(&self, id: MemoryId) -> bool {
        self.users().is_some_and(|users| users.contains_key(&id))
    }
}

/// Of memory that was opened once. It has to be dropped after the memory's descriptor.
#[derive(Debug)]
pub(crate) struct Use {
    uses: Uses,
    id: MemoryId,
    memory: Weak<ShmMemory>,
}

impl Use {
    /// Tells the owner that the memory, which is open as `region`, is used by it, or is so no more.
    pub(crate) fn tell(&self, region: &Region, is_used: bool) -> Result<()> {
        let Some(mut users) = self.uses.users() else { return Ok(()) };
        let of_memory = users.entry(self.id).or_default();
        of_memory.retain(|user| !user.ptr_eq(&self.memory));
        if is_used {
            of_memory.push(Weak::clone(&self.memory));
            region.tell_use(true)?;
        } else if of_memory.is_empty() {
            users.remove(&self.id);
            region.tell_use(false)?;
        }
        Ok(())
    }
}

impl Drop for Use {
    /// The descriptor is closed.
    fn drop(&mut self) {
        let Some(mut users) = self.uses.users() else { return };
        let Some(of_memory) = users.get_mut(&self.id) else { return };
        of_memory.retain(|user| !user.ptr_eq(&self.memory));
        let left = of_memory.iter().find_map(Weak::upgrade);
        if of_memory.is_empty() {
            users.remove(&self.id);
        }
        // If it fails, an owner may remove what is used here; the memory stays.
        if let Some(left) = &left {
            drop(left.tell_again());
        }
        // Not under the lock, which is taken once more if this is the last who holds it.
        drop(users);
        drop(left);
    }
}
