//! The state page as its readers see it.

use std::collections::{BTreeMap, BTreeSet};

use proto::fault::LinkFaults;
use proto::ids::NodeId;
use proto::wire::program::{ImportSlot, LossReason};

#[derive(Debug, Default)]
pub struct Page {
    /// Generation and up.
    pub links: BTreeMap<NodeId, (u64, bool)>,
    /// `None`: alive.
    pub imports: BTreeMap<ImportSlot, Option<LossReason>>,
    /// Alive, but their link was taken down.
    pub suspended: BTreeSet<ImportSlot>,
    pub faults: BTreeMap<NodeId, LinkFaults>,
}

impl Page {
    pub fn set_link(&mut self, node: NodeId, up: bool) {
        let word = self.links.entry(node).or_insert((0, false));
        assert_ne!(word.1, up, "the link word of node {node} is written twice with the same state");
        *word = (word.0 + 1, up);
    }

    pub fn set_import(&mut self, import: ImportSlot, ended: Option<LossReason>) {
        if ended.is_some() {
            assert_eq!(self.imports.get(&import), Some(&None), "{import:?} ends twice, or was never alive");
        }
        self.imports.insert(import, ended);
        // One word: what is written last is what is seen.
        self.suspended.remove(&import);
    }

    pub fn suspend(&mut self, import: ImportSlot, suspended: bool) {
        assert_eq!(self.imports.get(&import), Some(&None), "{import:?} is not alive");
        if suspended {
            assert!(self.suspended.insert(import), "{import:?} is suspended twice");
        } else {
            assert!(self.suspended.remove(&import), "{import:?} was not suspended");
        }
    }

    pub fn alive(&self, import: ImportSlot) -> bool {
        self.imports.get(&import) == Some(&None)
    }
}
