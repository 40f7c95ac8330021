//! Connections of this node's programs: slots of the state page.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::limit;
use super::quotas::Shared;
use super::{Manager, Output, ProgramConn};
use crate::ids::NodeId;
use crate::time::Instant;
use crate::wire::network::RailDown;
use crate::wire::peer::PeerReply;
use crate::wire::program::{
    ConnectionId, Event, ImportSlot, Imported, Incarnation, LossReason, Refusal, Reply, RequestId,
};

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Imports {
    pub(super) by_slot: BTreeMap<ImportSlot, Import>,
    /// Those that are alive.
    pub(super) by_connection: BTreeMap<(NodeId, ConnectionId), ImportSlot>,
    free: BTreeSet<ImportSlot>,
    /// Slots from here on were never used.
    fresh: u32,
}

/// A connection as its importer shows it to its exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) connection: ConnectionId,
    pub(super) incarnation: Incarnation,
    pub(super) what: Imported,
}

/// One connection of a program. It keeps its slot when it has ended, until the program gives it up.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) program: ProgramConn,
    pub(super) node: NodeId,
    pub(super) shown: Shown,
    pub(super) alive: bool,
    /// The exporter may know of it in this manager's life: it has granted it, or was asked to resume it.
    pub(super) told: bool,
    /// The request that verifies it.
    pub(super) verify: Option<RequestId>,
    /// Of another host's object: rails that it does not use, and since when.
    pub(super) rails_down: Vec<(RailDown, Instant)>,
}

impl Imports {
    pub(super) fn find(&self, node: NodeId, connection: ConnectionId) -> Option<ImportSlot> {
        self.by_connection.get(&(node, connection)).copied()
    }

    /// Every slot up to the highest ever used is either free or taken.
    pub(super) fn audit_slots(&self) -> Result<(), String> {
        let taken = self.by_slot.keys().all(|slot| slot.0 < self.fresh && !self.free.contains(slot));
        if taken && self.by_slot.len() + self.free.len() == self.fresh as usize {
            return Ok(());
        }
        Err(format!("{} taken and {} free slots are not {}", self.by_slot.len(), self.free.len(), self.fresh))
    }

    fn take_slot(&mut self) -> ImportSlot {
        self.free.pop_first().unwrap_or_else(|| {
            self.fresh += 1;
            ImportSlot(self.fresh - 1)
        })
    }
}

impl PeerReply {
    /// The reply to the program, once the connection has a slot.
    pub(super) fn with_import(self, import: ImportSlot) -> Reply {
        match self {
            Self::Segment { connection, size_bytes, incarnation } => {
                Reply::Segment { import, connection, size_bytes, incarnation }
            }
            Self::Interrupt { connection, incarnation, kind, producer, pollable } => {
                Reply::Interrupt { import, connection, incarnation, kind, producer, pollable }
            }
            Self::ByNetwork { connection, size_bytes, incarnation, end } => {
                Reply::ByNetwork { import, connection, size_bytes, incarnation, end }
            }
            Self::Resumed => Reply::Resumed { import },
            Self::Status(status) => Reply::Status(status),
            Self::Agent { agent } => Reply::Agent { agent },
            Self::Answer { answer } => Reply::Answer { answer },
            // It is for managers.
            Self::Relay { .. } => Reply::Done,
        }
    }
}

impl Manager {
    pub(super) fn check_import_limit(&self, program: ProgramConn) -> Result<(), Refusal> {
        let most = self.config.limits.imports;
        if self.imports.by_slot.len() as u64 >= most {
            return Err(limit("connections of the programs of this node", most));
        }
        self.check_quota(program, Shared::Imports)
    }

    /// Gives a connection a slot. The caller has checked the limit, and that the connection has none.
    pub(super) fn add_import(
        &mut self,
        program: ProgramConn,
        node: NodeId,
        shown: Shown,
        told: bool,
    ) -> ImportSlot {
        let slot = self.imports.take_slot();
        let import = Import { program, node, shown, alive: true, told, verify: None, rails_down: Vec::new() };
        self.imports.by_slot.insert(slot, import);
        self.take_quota(program, Shared::Imports);
        self.imports.by_connection.insert((node, shown.connection), slot);
        if let Some(entry) = self.programs.get_mut(&program) {
            entry.imports.insert(slot);
        }
        if node != self.own {
            self.peer_entry(node).imports.insert(slot);
        }
        self.out.push_back(Output::SetImport { import: slot, ended: None });
        if self.is_taken_down(node) {
            self.out.push_back(Output::SuspendImport { import: slot, suspended: true });
        }
        slot
    }

    /// The other side of an import is gone: updates the state page first, then tells the program.
    pub(super) fn end_import(&mut self, slot: ImportSlot, reason: LossReason) {
        self.unlink_import(slot);
        let Some(import) = self.imports.by_slot.get_mut(&slot) else { return };
        if !std::mem::take(&mut import.alive) {
            return;
        }
        let program = import.program;
        self.out.push_back(Output::SetImport { import: slot, ended: Some(reason) });
        self.event(program, Event::Lost { import: slot, reason }, Vec::new());
    }

    /// The program disconnects an import, or is gone: its slot is free again, and the exporter is told.
    pub(super) fn release_import(&mut self, slot: ImportSlot, died: bool) {
        self.unlink_import(slot);
        let Some(import) = self.imports.by_slot.remove(&slot) else { return };
        self.imports.free.insert(slot);
        self.return_quota(import.program, Shared::Imports);
        if let Some(entry) = self.programs.get_mut(&import.program) {
            entry.imports.remove(&slot);
        }
        if !import.alive {
            return;
        }
        if import.node == self.own {
            self.drop_export(import.shown.connection, died);
        } else {
            self.tell_released(import.node, import.shown.connection, died, import.told);
        }
    }

    /// Takes an import out of the tables of those that are alive.
    fn unlink_import(&mut self, slot: ImportSlot) {
        let Some(import) = self.imports.by_slot.get_mut(&slot) else { return };
        let (node, connection, verify) = (import.node, import.shown.connection, import.verify.take());
        if !import.alive {
            return;
        }
        self.imports.by_connection.remove(&(node, connection));
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.imports.remove(&slot);
        }
        if let Some(request) = verify {
            self.forget_pending(request);
        }
    }

    pub(super) fn disconnect(&mut self, program: ProgramConn, import: ImportSlot) -> Result<Reply, Refusal> {
        match self.imports.by_slot.get(&import) {
            Some(held) if held.program == program => {
                self.release_import(import, false);
                Ok(Reply::Done)
            }
            _ => Err(Refusal::Invalid(format!(
                "this program does not hold import {}: it was disconnected before",
                import.0
            ))),
        }
    }
}
