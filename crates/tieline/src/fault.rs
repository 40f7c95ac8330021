//! Carries out in this program the faults that an administrator injects (`tieline link`).
//!
//! Only on nodes that were started with faults: their programs put crate `link`'s injector around every link,
//! which examines the node's state page before each operation; and when a link goes down, the library's
//! thread makes what is mapped over it lead nowhere, so that raw stores notice, too. Programs of other nodes
//! pay nothing for any of this.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use link::RemoteMemory;
use link::injector::{Condition, FaultSource};
use node_client::{Client, Import, ImportState};
use proto::ids::NodeId;

/// Reads the state page for the injector.
#[derive(Debug)]
pub(crate) struct PageSource {
    pub(crate) client: Client,
}

impl FaultSource for PageSource {
    fn condition(&self, node: NodeId) -> Condition {
        // A forked child, for which the link is as good as cut.
        let Ok(page) = self.client.page() else { return Condition { down: true, ..Condition::default() } };
        // Generation 0: there has never been a link to it; it is this node itself.
        let down = page.link(node).is_ok_and(|word| word.generation > 0 && !word.up);
        Condition { down, faults: page.faults(node).unwrap_or_default() }
    }
}

/// Memory of another node, and the state of the link to it.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) memory: Arc<dyn RemoteMemory>,
    import: Import,
    /// Whether its maps lead nowhere at the moment.
    detached: Mutex<bool>,
}

impl Mapped {
    /// Whether stores through its maps are lost. The link may be up again already: the thread that puts the
    /// memory back comes a moment later.
    pub(crate) fn leads_nowhere(&self) -> bool {
        *self.detached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the maps follow the link. A failure leaves them as they were: the next change is another chance.
    fn follow(&self) {
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.import.state() == ImportState::Suspended;
        if wanted != *detached && self.memory.set_detached(wanted).is_ok() {
            *detached = wanted;
        }
    }
}

/// What is mapped over links that may be taken down.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    all: Mutex<Vec<Weak<Mapped>>>,
}

impl Maps {
    /// From now on this memory's maps follow the link, as long as the returned value lives.
    pub(crate) fn register(&self, memory: &Arc<dyn RemoteMemory>, import: &Import) -> Arc<Mapped> {
        let (memory, import) = (Arc::clone(memory), import.clone());
        let mapped = Arc::new(Mapped { memory, import, detached: Mutex::new(false) });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|mapped| mapped.strong_count() > 0);
        all.push(Arc::downgrade(&mapped));
        drop(all);
        // The link may have gone down before it was in the list.
        mapped.follow();
        mapped
    }

    /// Something happened to a link, or to the manager. Called by the library's thread.
    pub(crate) fn follow(&self) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|mapped| mapped.follow());
    }
}
