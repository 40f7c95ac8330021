//! The members of a group on other hosts: stores to the group are noted, and sent to them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use shm::clock::Deadline;
use shm::process::SignalsBlocked;
use shm::region::{Region, RegionOptions};
use shm::sync::plain::{AtomicBool, Ordering};
use shm::window::Window;
use tieline::{Group, Stores};

use super::copies::{Copy, Published};
use crate::code::Result;
use crate::far::Journal;
use crate::own::Own;
use crate::worker::Worker;

/// As much is sent at once.
const BATCH_BYTES: usize = 1 << 16;
/// The thread looks whether it is still needed at this interval.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

/// Whether there ever were any: most processes have none, and their flushes stay as fast as they were.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// All of this process, for flushes and interrupts, which name no group.
static ALL: Own<Mutex<Vec<Weak<FarMembers>>>> = Own::new();

/// Members without memory here.
#[derive(Debug)]
pub(super) struct FarMembers {
    group: Arc<Group>,
    journal: Arc<Journal>,
    /// What loads find while there is no member on this host.
    own: Arc<Region>,
    /// Held by the thread that sends.
    stores: Mutex<Stores>,
    worker: Worker,
}

impl FarMembers {
    /// With a thread that sends what the program does not flush.
    pub(super) fn start(group: &Arc<Group>, size_bytes: usize) -> Result<Arc<Self>> {
        let own = Arc::new(Region::create(&RegionOptions::new("tieline-group", size_bytes))?);
        let far = Arc::new(Self {
            group: Arc::clone(group),
            journal: Arc::new(Journal::new(size_bytes)?),
            own,
            stores: Mutex::default(),
            worker: Worker::default(),
        });
        let (journal, weak) = (Arc::clone(&far.journal), Arc::downgrade(&far));
        far.worker.start("sisci-group-far", move || serve(&journal, &weak))?;
        let mut all = ALL.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&far));
        // Relaxed: a thread flushes what it has stored itself, after the view has led here.
        IS_USED.store(true, Ordering::Relaxed);
        Ok(far)
    }

    /// Where stores are noted.
    pub(super) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Memory of this program in place of a member on this host.
    pub(super) fn own_copy(&self) -> Copy {
        Copy { start: self.own.as_ptr().expose_provenance(), _kept: Arc::<Region>::clone(&self.own) }
    }

    /// Sends all that was stored. A member that it does not reach has lost it, as it loses stores on one
    /// host when it ends.
    pub(super) fn send(&self) {
        // A handler of the program on this thread could wait for room that only this thread makes.
        let _quiet = SignalsBlocked::here();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(read) = self.journal.next(&mut stores, BATCH_BYTES) {
            drop(self.group.store_all_unmapped(&stores));
            stores.clear();
            self.journal.forget(read);
        }
    }
}

impl Drop for FarMembers {
    fn drop(&mut self) {
        self.journal.close();
        self.worker.stop(|| self.journal.close());
    }
}

/// Life of the thread that sends.
fn serve(journal: &Journal, far: &Weak<FarMembers>) {
    while !journal.is_closed() {
        journal.wait(Deadline::after_ns(LOOK_AGAIN_NS));
        let Some(far) = far.upgrade() else { return };
        far.send();
    }
}

/// Waits until all that this process has stored to groups has reached their members on other hosts.
pub(crate) fn send_all() {
    if !IS_USED.load(Ordering::Relaxed) {
        return;
    }
    // None in a forked child whose parent has some.
    let Some(all) = ALL.get() else { return };
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let living: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
    drop(all);
    living.iter().for_each(|far| far.send());
}

/// Writes a block as stores, to all copies.
pub(super) fn write(view: &Published, offset: usize, source: &Window<'_>) -> Result<()> {
    let _quiet = SignalsBlocked::here();
    let mut bytes = [0; 4096];
    for at in (0..source.len()).step_by(bytes.len()) {
        let bytes = bytes.get_mut(..(source.len() - at).min(4096)).unwrap_or_default();
        source.get(at, bytes)?;
        view.store(offset + at, bytes);
    }
    Ok(())
}
