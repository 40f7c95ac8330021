//! The state page: the state that a node manager shows its programs without messages.
//!
//! One memfd per manager, written by it alone and mapped read-only by every program of the node. It holds a
//! word per link (generation and up/down, since when) and a word per import (alive, or how it ended), so that
//! "did anything fail since I last looked" is one load. The pages behind unused slots are never touched and
//! so cost nothing.
//!
//! Layout (little endian, version [`LAYOUT_VERSION`]):
//!
//! | offset | content |
//! |---|---|
//! | 0 | magic |
//! | 8 | layout version |
//! | 16 | node id |
//! | 24 | incarnation of the manager |
//! | 128 | changes: bumped after every change of any word |
//! | 256 | the copy kernels of the machine's plan by class of sizes, a byte each, eight a word; zero: none is known |
//! | 4096 | link words, 16 bytes each, indexed by node id / 4: `generation << 1 \| up`, then `since_ns` |
//! | … | import words, 8 bytes each, indexed by slot: `generation << 8 \| state` |
//! | … | fault records, 128 bytes each, indexed by node id / 4: version (odd while written), then [`LinkFaults::to_words`] |

use std::os::fd::{BorrowedFd, OwnedFd};

use proto::fault::{LinkFaults, WORDS};
use proto::ids::{MAX_NODE_ID, NodeId};
use proto::wire::program::{ImportSlot, LossReason};
use shm::copy::{CLASSES, Plan};
use shm::region::{MapAccess, Region, RegionOptions, Reserve};
use shm::sync::{AtomicU64, Ordering};

use crate::error::{LinkError, Result};

/// Raised with every change of the layout.
pub const LAYOUT_VERSION: u64 = 2;
/// How many imports a node can hold at one time.
pub const IMPORT_SLOTS: u32 = 65_536;

const MAGIC: u64 = u64::from_le_bytes(*b"TLNPAGE2");
const VERSION_AT: usize = 8;
const NODE_AT: usize = 16;
const INCARNATION_AT: usize = 24;
const CHANGES_AT: usize = 128;
const COPY_PLAN_AT: usize = 256;
const LINKS_AT: usize = 4096;
const LINK_SLOTS: usize = MAX_NODE_ID as usize / 4 + 1;
const IMPORTS_AT: usize = LINKS_AT + LINK_SLOTS * 16;
const FAULTS_AT: usize = (IMPORTS_AT + IMPORT_SLOTS as usize * 8).next_multiple_of(4096);
const FAULT_RECORD_BYTES: usize = 128;
const SIZE_BYTES: usize = FAULTS_AT + LINK_SLOTS * FAULT_RECORD_BYTES;
/// A writer that dies in the middle of a record must not make readers wait forever.
const RECORD_TRIES: usize = 1000;

const _: () = assert!(CLASSES.is_multiple_of(8) && COPY_PLAN_AT + CLASSES <= LINKS_AT);
const _: () = assert!(IMPORTS_AT.is_multiple_of(8) && (WORDS + 1) * 8 <= FAULT_RECORD_BYTES);

/// A link as its word shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkWord {
    /// How often the state changed; 0: there has never been a link to this node.
    pub generation: u64,
    /// Whether it is up now.
    pub up: bool,
    /// CLOCK_MONOTONIC nanoseconds of the last change.
    pub since_ns: u64,
}

/// How an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportState {
    /// The slot is not in use.
    Free,
    /// The exporter lives.
    Alive,
    /// The exporter lives, but the link to it was taken down.
    Suspended,
    /// It has ended.
    Ended(LossReason),
}

impl ImportState {
    const fn code(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Alive => 1,
            Self::Ended(LossReason::Withdrawn) => 2,
            Self::Ended(LossReason::Removed) => 3,
            Self::Ended(LossReason::OwnerDied) => 4,
            Self::Ended(LossReason::NodeLost) => 5,
            Self::Suspended => 6,
        }
    }

    const fn from_code(code: u64) -> Option<Self> {
        Some(match code {
            0 => Self::Free,
            1 => Self::Alive,
            2 => Self::Ended(LossReason::Withdrawn),
            3 => Self::Ended(LossReason::Removed),
            4 => Self::Ended(LossReason::OwnerDied),
            5 => Self::Ended(LossReason::NodeLost),
            6 => Self::Suspended,
            _ => return None,
        })
    }
}

fn link_offset(node: NodeId) -> usize {
    LINKS_AT + node.get() as usize / 4 * 16
}

fn fault_offset(node: NodeId) -> usize {
    FAULTS_AT + node.get() as usize / 4 * FAULT_RECORD_BYTES
}

fn import_offset(slot: ImportSlot) -> Result<usize> {
    if slot.0 >= IMPORT_SLOTS {
        return Err(shm::Error::Corrupt { what: "import slot of the state page" }.into());
    }
    Ok(IMPORTS_AT + slot.0 as usize * 8)
}

/// The manager's side.
#[derive(Debug)]
pub struct PageWriter {
    region: Region,
}

impl PageWriter {
    /// A page with no links and no imports.
    pub fn create(node: NodeId, incarnation: u64) -> Result<Self> {
        // Lazy: 600 kB of address space, of which a small cluster touches three pages.
        let options = RegionOptions {
            reserve: Reserve::Lazy,
            read_only_for_others: true,
            ..RegionOptions::new("tieline-state-page", SIZE_BYTES)
        };
        let region = Region::create(&options)?;
        let writer = Self { region };
        writer.word(VERSION_AT)?.store(LAYOUT_VERSION, Ordering::Relaxed);
        writer.word(NODE_AT)?.store(u64::from(node.get()), Ordering::Relaxed);
        writer.word(INCARNATION_AT)?.store(incarnation, Ordering::Relaxed);
        writer.word(0)?.store(MAGIC, Ordering::Relaxed);
        Ok(writer)
    }

    /// What is handed to programs.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64> {
        Ok(self.region.window().atomic_u64(offset)?)
    }

    fn changed(&self) -> Result<()> {
        // Release: pairs with the Acquire load in `PageReader::changes`; a process that sees the count sees
        // the words before it.
        self.word(CHANGES_AT)?.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Notes that the link to `node` came up or went down; `now_ns` is CLOCK_MONOTONIC.
    pub fn set_link(&self, node: NodeId, up: bool, now_ns: u64) -> Result<()> {
        let word = self.word(link_offset(node))?;
        let generation = (word.load(Ordering::Relaxed) >> 1) + 1;
        self.word(link_offset(node) + 8)?.store(now_ns, Ordering::Relaxed);
        // Release: pairs with the Acquire load in `PageReader::link`, which then reads `since_ns`.
        word.store(generation << 1 | u64::from(up), Ordering::Release);
        self.changed()
    }

    /// Notes what is done on purpose to what this node's programs send to `node`.
    pub fn set_faults(&self, node: NodeId, faults: &LinkFaults) -> Result<()> {
        let at = fault_offset(node);
        let version = self.word(at)?;
        let writing = version.load(Ordering::Relaxed) + 1;
        version.store(writing, Ordering::Relaxed);
        for (index, value) in faults.to_words().into_iter().enumerate() {
            // Release: pairs with the Acquire loads in `PageReader::faults`; a process that sees a new word
            // sees the odd version.
            self.word(at + (index + 1) * 8)?.store(value, Ordering::Release);
        }
        // Release: pairs with the first Acquire load in `PageReader::faults`.
        version.store(writing + 1, Ordering::Release);
        self.changed()
    }

    /// Tells programs which kernels this machine's copies are best made with. Before the page is handed to
    /// any of them.
    pub fn set_copy_plan(&self, plan: &Plan) -> Result<()> {
        for (index, bytes) in plan.to_bytes().as_chunks::<8>().0.iter().enumerate() {
            self.word(COPY_PLAN_AT + index * 8)?.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self.changed()
    }

    /// Notes how an import is.
    pub fn set_import(&self, slot: ImportSlot, state: ImportState) -> Result<()> {
        let word = self.word(import_offset(slot)?)?;
        let generation = (word.load(Ordering::Relaxed) >> 8) + 1;
        // Release: pairs with the Acquire load in `PageReader::import`.
        word.store(generation << 8 | state.code(), Ordering::Release);
        self.changed()
    }
}

/// A program's side. Nothing in it is trusted further than its own node manager is.
#[derive(Debug)]
pub struct PageReader {
    region: Region,
}

impl PageReader {
    /// Maps the page that a manager handed over.
    pub fn open(fd: OwnedFd) -> Result<Self> {
        let region = Region::open(fd, MapAccess::ReadOnly)?;
        let reader = Self { region };
        let (magic, version) = if reader.region.size_bytes() >= SIZE_BYTES {
            (reader.word(0)?.load(Ordering::Relaxed), reader.word(VERSION_AT)?.load(Ordering::Relaxed))
        } else {
            (0, 0)
        };
        if magic != MAGIC || version != LAYOUT_VERSION {
            return Err(shm::Error::Corrupt { what: "state page of the node manager" }.into());
        }
        Ok(reader)
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64> {
        Ok(self.region.window().atomic_u64(offset)?)
    }

    /// The node whose manager writes this page, or what is there instead.
    pub fn node(&self) -> Result<u64> {
        Ok(self.word(NODE_AT)?.load(Ordering::Relaxed))
    }

    /// Drawn by the manager when it started: another number means another manager, whose generations begin
    /// anew.
    pub fn incarnation(&self) -> Result<u64> {
        Ok(self.word(INCARNATION_AT)?.load(Ordering::Relaxed))
    }

    /// Counts all changes of all words: equal means that nothing happened in between.
    pub fn changes(&self) -> Result<u64> {
        // Acquire: pairs with the Release in `PageWriter::changed`.
        Ok(self.word(CHANGES_AT)?.load(Ordering::Acquire))
    }

    /// The link to a node.
    pub fn link(&self, node: NodeId) -> Result<LinkWord> {
        let word = self.word(link_offset(node))?;
        let since = self.word(link_offset(node) + 8)?;
        loop {
            // Acquire: pairs with the Release in `PageWriter::set_link`.
            let first = word.load(Ordering::Acquire);
            let since_ns = since.load(Ordering::Acquire);
            if word.load(Ordering::Relaxed) == first {
                return Ok(LinkWord { generation: first >> 1, up: first & 1 == 1, since_ns });
            }
        }
    }

    /// What is done on purpose to what is sent to `node`: one load where that was never anything.
    pub fn faults(&self, node: NodeId) -> Result<LinkFaults> {
        let at = fault_offset(node);
        let version = self.word(at)?;
        let mut words = [0; WORDS];
        for _ in 0..RECORD_TRIES {
            // Acquire: pairs with the last Release in `PageWriter::set_faults`.
            let before = version.load(Ordering::Acquire);
            if before == 0 {
                return Ok(LinkFaults::default());
            }
            for (index, word) in words.iter_mut().enumerate() {
                // Acquire: pairs with the Release stores of the words.
                *word = self.word(at + (index + 1) * 8)?.load(Ordering::Acquire);
            }
            if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                break;
            }
        }
        Ok(LinkFaults::from_words(words))
    }

    /// The plan of copies, if the manager knows one that this processor can follow.
    pub fn copy_plan(&self) -> Option<Plan> {
        let mut bytes = [0; CLASSES];
        for (index, into) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *into = self.word(COPY_PLAN_AT + index * 8).ok()?.load(Ordering::Relaxed).to_le_bytes();
        }
        Plan::from_bytes(&bytes)
    }

    /// An import of this node.
    pub fn import(&self, slot: ImportSlot) -> Result<ImportState> {
        // Acquire: pairs with the Release in `PageWriter::set_import`.
        let word = self.word(import_offset(slot)?)?.load(Ordering::Acquire);
        ImportState::from_code(word & 0xff)
            .ok_or(LinkError::Memory(shm::Error::Corrupt { what: "import word of the state page" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (PageWriter, PageReader) {
        let writer = PageWriter::create(NodeId::new(4).unwrap(), 7).unwrap();
        let reader = PageReader::open(writer.fd().try_clone_to_owned().unwrap()).unwrap();
        (writer, reader)
    }

    #[test]
    fn a_new_page_knows_no_links_and_no_imports() {
        let (_writer, reader) = pair();
        let word = reader.link(NodeId::new(8).unwrap()).unwrap();
        assert_eq!(word, LinkWord { generation: 0, up: false, since_ns: 0 });
        assert_eq!(reader.import(ImportSlot(0)).unwrap(), ImportState::Free);
        assert_eq!(reader.node().unwrap(), 4);
    }

    #[test]
    fn each_change_bumps_the_generation_and_the_count() {
        let (writer, reader) = pair();
        let last = NodeId::new(MAX_NODE_ID).unwrap();
        let before = reader.changes().unwrap();
        writer.set_link(last, true, 10).unwrap();
        writer.set_link(last, false, 20).unwrap();
        assert_eq!(reader.link(last).unwrap(), LinkWord { generation: 2, up: false, since_ns: 20 });
        assert_eq!(reader.changes().unwrap(), before + 2);
    }

    #[test]
    fn every_state_survives_the_page() {
        let (writer, reader) = pair();
        let slot = ImportSlot(IMPORT_SLOTS - 1);
        for state in [
            ImportState::Alive,
            ImportState::Ended(LossReason::Withdrawn),
            ImportState::Ended(LossReason::Removed),
            ImportState::Ended(LossReason::OwnerDied),
            ImportState::Ended(LossReason::NodeLost),
            ImportState::Suspended,
            ImportState::Free,
        ] {
            writer.set_import(slot, state).unwrap();
            assert_eq!(reader.import(slot).unwrap(), state);
        }
    }

    #[test]
    fn faults_are_none_until_they_are_set_and_again_when_cleared() {
        let (writer, reader) = pair();
        let (eight, last) = (NodeId::new(8).unwrap(), NodeId::new(MAX_NODE_ID).unwrap());
        assert!(reader.faults(last).unwrap().is_none());
        let faults =
            LinkFaults { lose_ppm: 10_000, stall_ns: 5, stall_every_ns: 10, ..LinkFaults::default() };
        writer.set_faults(last, &faults).unwrap();
        assert_eq!(reader.faults(last).unwrap(), faults);
        assert!(reader.faults(eight).unwrap().is_none());
        writer.set_faults(last, &LinkFaults::default()).unwrap();
        assert!(reader.faults(last).unwrap().is_none());
    }

    #[test]
    fn a_record_that_was_left_half_written_holds_nobody_up() {
        let (writer, reader) = pair();
        let eight = NodeId::new(8).unwrap();
        writer.word(fault_offset(eight)).unwrap().store(7, Ordering::Relaxed);
        assert!(reader.faults(eight).unwrap().is_none());
    }

    #[test]
    fn a_plan_of_copies_is_there_when_the_manager_knows_one() {
        let (writer, reader) = pair();
        assert_eq!(reader.copy_plan(), None);
        writer.set_copy_plan(&Plan::LIBC).unwrap();
        assert_eq!(reader.copy_plan(), Some(Plan::LIBC));
        writer.word(COPY_PLAN_AT).unwrap().store(u64::MAX, Ordering::Relaxed);
        assert_eq!(reader.copy_plan(), None);
    }

    #[test]
    fn slots_outside_of_the_page_are_errors() {
        let (writer, reader) = pair();
        assert!(writer.set_import(ImportSlot(IMPORT_SLOTS), ImportState::Alive).is_err());
        assert!(reader.import(ImportSlot(u32::MAX)).is_err());
    }

    #[test]
    fn a_reader_cannot_write_the_page() {
        let (writer, _reader) = pair();
        assert!(Region::open(writer.fd().try_clone_to_owned().unwrap(), MapAccess::ReadWrite).is_err());
    }

    #[test]
    fn another_memory_is_not_taken_for_a_page() {
        let other = Region::create(&RegionOptions::new("other", SIZE_BYTES)).unwrap();
        assert!(PageReader::open(other.fd().try_clone_to_owned().unwrap()).is_err());
    }
}
