//! A connected segment or interrupt, and whether its other end still lives.

use std::sync::{Arc, PoisonError, RwLock};

use link::page::{ImportState, PageReader};
use proto::ids::NodeId;
use proto::wire::program::{ConnectionId, ImportSlot, Imported, Incarnation, LossReason};
use shm::sync::{AtomicBool, Ordering};

/// Names an import within its attachment, for the whole life of it (its slot changes when the manager is
/// restarted).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportId(pub u64);

/// The place of an import's word.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In this page.
    Page(Arc<PageReader>, ImportSlot),
    /// Nowhere: a restarted manager did not know it any more.
    Ended(LossReason),
    /// Given up by this program; its slot may be another import's by now.
    GivenUp,
}

impl Place {
    fn state(&self) -> ImportState {
        match self {
            // A word that makes no sense is the end of it: the page cannot be relied on.
            Self::Page(page, slot) => page.import(*slot).unwrap_or(ImportState::Ended(LossReason::NodeLost)),
            Self::Ended(reason) => ImportState::Ended(*reason),
            Self::GivenUp => ImportState::Free,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: ImportId,
    pub(crate) node: NodeId,
    pub(crate) what: Imported,
    pub(crate) connection: ConnectionId,
    pub(crate) incarnation: Incarnation,
    first: Place,
    /// Set once, when `now` counts instead of `first`: keeps the lock out of the common path.
    moved: AtomicBool,
    now: RwLock<Place>,
}

/// A connection to something of another node (or of this one). Cheap to clone; dropping it does not
/// disconnect.
#[derive(Debug, Clone)]
pub struct Import {
    pub(crate) inner: Arc<Inner>,
}

impl Import {
    pub(crate) fn new(
        id: ImportId,
        node: NodeId,
        what: Imported,
        (connection, incarnation): (ConnectionId, Incarnation),
        (page, slot): (Arc<PageReader>, ImportSlot),
    ) -> Self {
        let first = Place::Page(page, slot);
        let now = RwLock::new(first.clone());
        let moved = AtomicBool::new(false);
        Self { inner: Arc::new(Inner { id, node, what, connection, incarnation, first, moved, now }) }
    }

    /// Its name, as events give it.
    pub fn id(&self) -> ImportId {
        self.inner.id
    }

    /// On which node the other end is.
    pub fn node(&self) -> NodeId {
        self.inner.node
    }

    /// What it is.
    pub fn what(&self) -> Imported {
        self.inner.what
    }

    /// Which object of this name: another number means another object.
    pub fn incarnation(&self) -> Incarnation {
        self.inner.incarnation
    }

    /// Whether the other end lives: no message, two loads; a lock besides once the manager has been
    /// restarted. `Free`: it was given up with [`Client::disconnect`](crate::Client::disconnect).
    pub fn state(&self) -> ImportState {
        // Acquire: pairs with the Release in `Import::move_to`.
        if !self.inner.moved.load(Ordering::Acquire) {
            return self.inner.first.state();
        }
        self.inner.now.read().unwrap_or_else(PoisonError::into_inner).state()
    }

    /// The slot in `page`; `None` if its manager does not know the import, or not yet again.
    pub(crate) fn slot_in(&self, page: &Arc<PageReader>) -> Option<ImportSlot> {
        match &*self.inner.now.read().unwrap_or_else(PoisonError::into_inner) {
            Place::Page(there, slot) if Arc::ptr_eq(there, page) => Some(*slot),
            _ => None,
        }
    }

    /// Nothing is left to be resumed.
    pub(crate) fn has_ended(&self) -> bool {
        self.state() != ImportState::Alive
    }

    /// From now on its life shows there.
    pub(crate) fn move_to(&self, place: Place) {
        *self.inner.now.write().unwrap_or_else(PoisonError::into_inner) = place;
        // Release: pairs with the Acquire in `Import::state`.
        self.inner.moved.store(true, Ordering::Release);
    }
}
