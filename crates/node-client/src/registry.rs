//! The objects that this program has at its manager, kept to announce them again after a restart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use link::page::PageReader;
use proto::ids::{GroupId, NodeId, SegmentKey};
use proto::wire::program::{
    ConnectionId, Event, ImportSlot, Imported, Importer, Incarnation, InterruptKind, LossReason, Refusal,
    Reply, Request,
};

use crate::event::{ClientEvent, Sender};
use crate::import::{Import, ImportId};

/// An object of this program: the request that created it, brought up to date, and its descriptors.
#[derive(Debug, Clone)]
pub(crate) struct Export {
    pub(crate) request: Request,
    pub(crate) descriptors: Arc<[OwnedFd]>,
}

/// All objects of this program that its manager knows.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// In the order of creation, in which they are announced.
    pub(crate) exports: BTreeMap<u64, Export>,
    pub(crate) imports: BTreeMap<ImportId, Import>,
    slots: HashMap<u32, ImportId>,
    /// The connections to this program's exports.
    pub(crate) connected: BTreeMap<ConnectionId, (Imported, NodeId, Importer)>,
    pub(crate) groups: BTreeMap<GroupId, BTreeSet<NodeId>>,
    next: u64,
}

/// The name of the object that a request creates.
pub(crate) fn created(request: &Request) -> Option<Imported> {
    match request {
        Request::CreateSegment { key, .. } => Some(Imported::Segment(*key)),
        Request::CreateInterrupt { number: Some(number), .. } => Some(Imported::Interrupt(*number)),
        _ => None,
    }
}

impl Registry {
    fn draw(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Records the effect of a successful reply to `request` from the manager of node `own`. Returns the
    /// import, if the request made one.
    pub(crate) fn note(
        &mut self,
        own: NodeId,
        request: &Request,
        reply: &Reply,
        kept: Arc<[OwnedFd]>,
        page: &Arc<PageReader>,
    ) -> Option<Import> {
        match (request, reply) {
            (Request::CreateSegment { .. }, Reply::Done) => self.add_export(request.clone(), kept),
            (
                Request::CreateInterrupt { kind, access, incarnation, pollable, .. },
                Reply::InterruptCreated { number },
            ) => {
                let number = Some(*number);
                let (kind, access, incarnation, pollable) = (*kind, access.clone(), *incarnation, *pollable);
                let again =
                    Request::CreateInterrupt { number, kind, access, incarnation, pollable, again: true };
                self.add_export(again, kept);
            }
            (Request::SetAvailable { .. } | Request::ShareSegment { .. }, Reply::Done) => {
                self.note_change(request)
            }
            (Request::AttachSegment { key }, &Reply::Segment { import, connection, incarnation, .. }) => {
                let ids = (connection, incarnation);
                return Some(self.add_import(own, Imported::Segment(*key), ids, (page.clone(), import)));
            }
            (
                Request::ConnectSegment { node, key },
                &Reply::Segment { import, connection, incarnation, .. },
            ) => {
                let ids = (connection, incarnation);
                return Some(self.add_import(*node, Imported::Segment(*key), ids, (page.clone(), import)));
            }
            (
                Request::ConnectInterrupt { node, number },
                &Reply::Interrupt { import, connection, incarnation, .. },
            ) => {
                let ids = (connection, incarnation);
                return Some(self.add_import(
                    *node,
                    Imported::Interrupt(*number),
                    ids,
                    (page.clone(), import),
                ));
            }
            (
                Request::ConnectByNetwork { node, what, .. },
                &Reply::ByNetwork { import, connection, incarnation, .. },
            ) => {
                let ids = (connection, incarnation);
                return Some(self.add_import(*node, *what, ids, (page.clone(), import)));
            }
            (Request::WatchGroup { group }, Reply::Members(members)) => {
                self.groups.insert(*group, members.iter().copied().collect());
            }
            (request, Reply::Done) => self.forget(request),
            _ => {}
        }
        None
    }

    /// Records a change of a segment's state that was made, or may have been made.
    pub(crate) fn note_change(&mut self, request: &Request) {
        match request {
            Request::SetAvailable { key, available, .. } => self.note_available(*key, *available),
            Request::ShareSegment { key } => self.note_segment(*key, |request| {
                if let Request::CreateSegment { shared, .. } = request {
                    *shared = true;
                }
            }),
            _ => {}
        }
    }

    fn note_available(&mut self, key: SegmentKey, open: bool) {
        self.note_segment(key, |request| {
            if let Request::CreateSegment { available, .. } = request {
                *available = open;
            }
        });
    }

    /// Updates the request that created a segment.
    fn note_segment(&mut self, key: SegmentKey, change: impl Fn(&mut Request)) {
        let wanted = Some(Imported::Segment(key));
        for export in self.exports.values_mut().filter(|export| created(&export.request) == wanted) {
            change(&mut export.request);
        }
    }

    /// Removes an object while no manager is there to decide. Refused if the registry knows of connections to
    /// it, unless the removal is forced.
    pub(crate) fn give_up(&mut self, request: &Request) -> Result<(), Refusal> {
        if let Request::RemoveSegment { key, force: false } = request {
            let what = Imported::Segment(*key);
            let connections = u32::try_from(self.connections_to(what).len()).unwrap_or(u32::MAX);
            if connections > 0 {
                return Err(Refusal::Busy { what: what.to_string(), connections });
            }
        }
        self.forget(request);
        Ok(())
    }

    /// Records a removal, also if the manager could not be told: the object will not be announced again.
    pub(crate) fn forget(&mut self, request: &Request) {
        match request {
            Request::RemoveSegment { key, .. } => self.remove_export(Imported::Segment(*key)),
            Request::RemoveInterrupt { number } => self.remove_export(Imported::Interrupt(*number)),
            Request::Disconnect { import } => {
                if let Some(id) = self.slots.remove(&import.0) {
                    self.imports.remove(&id);
                }
            }
            Request::UnwatchGroup { group } => {
                self.groups.remove(group);
            }
            _ => {}
        }
    }

    /// Removes an import, whether or not it still has a slot.
    pub(crate) fn forget_import(&mut self, id: ImportId) {
        self.imports.remove(&id);
        self.slots.retain(|_, there| *there != id);
    }

    fn add_export(&mut self, request: Request, descriptors: Arc<[OwnedFd]>) {
        let number = self.draw();
        self.exports.insert(number, Export { request, descriptors });
    }

    pub(crate) fn remove_export(&mut self, what: Imported) {
        self.exports.retain(|_, export| created(&export.request) != Some(what));
        self.connected.retain(|_, (to, ..)| *to != what);
    }

    fn add_import(
        &mut self,
        node: NodeId,
        what: Imported,
        ids: (ConnectionId, Incarnation),
        place: (Arc<PageReader>, ImportSlot),
    ) -> Import {
        let id = ImportId(self.draw());
        let slot = place.1;
        let import = Import::new(id, node, what, ids, place);
        self.slots.insert(slot.0, id);
        self.imports.insert(id, import.clone());
        import
    }

    /// After a restart of the manager: the slots of the imports that it resumed.
    pub(crate) fn set_slots(&mut self, slots: HashMap<u32, ImportId>) {
        self.slots = slots;
    }

    /// A restarted manager resumed an import.
    pub(crate) fn set_slot(&mut self, slot: ImportSlot, id: ImportId) {
        self.slots.insert(slot.0, id);
    }

    /// Translates an event of the manager, as of this moment: slots and members change with the next message.
    pub(crate) fn translate(&mut self, event: Event, descriptors: Vec<OwnedFd>) -> Option<ClientEvent> {
        Some(match event {
            Event::Connected { what, node, connection, producer, importer } => {
                let pidfd = descriptors.into_iter().next();
                let by_number = || self.is_data_interrupt(what).then_some(Sender::Number(importer.pid));
                let sender = pidfd.map(Sender::Descriptor).or_else(by_number);
                self.connected.insert(connection, (what, node, importer));
                ClientEvent::Connected { what, node, connection, producer, sender }
            }
            Event::WantedByNetwork { what, node, connection, end, addresses } => {
                ClientEvent::WantedByNetwork { what, node, connection, end, addresses }
            }
            Event::Asked { connection, number, question } => {
                ClientEvent::Asked { connection, number, question }
            }
            Event::Disconnected { what, node, connection, died } => {
                self.connected.remove(&connection);
                ClientEvent::Disconnected { what, node, connection, died }
            }
            Event::Lost { import, reason } => {
                ClientEvent::Lost { import: *self.slots.get(&import.0)?, reason }
            }
            Event::Link { node, up } => ClientEvent::Link { node, up },
            // This client asks for none.
            Event::AgentEnded { .. } => return None,
            Event::Availability { key, available } => {
                self.note_available(key, available);
                return None;
            }
            Event::Member { group, node, joined } => {
                let members = self.groups.get_mut(&group)?;
                let news = if joined { members.insert(node) } else { members.remove(&node) };
                if !news {
                    return None;
                }
                ClientEvent::Member { group, node, joined }
            }
        })
    }

    fn is_data_interrupt(&self, what: Imported) -> bool {
        let is_data =
            |request: &Request| matches!(request, Request::CreateInterrupt { kind: InterruptKind::Data, .. });
        self.exports.values().any(|export| is_data(&export.request) && created(&export.request) == Some(what))
    }

    /// The connections to one object, as they are announced to a restarted manager.
    pub(crate) fn connections_to(&self, what: Imported) -> Vec<(ConnectionId, NodeId, Importer)> {
        let to_it = self.connected.iter().filter(|(_, (to, ..))| *to == what);
        to_it.map(|(connection, (_, node, importer))| (*connection, *node, *importer)).collect()
    }

    /// After a restart of the manager: the members that have joined and left since.
    pub(crate) fn members_now(&mut self, group: GroupId, now: BTreeSet<NodeId>) -> Vec<ClientEvent> {
        let Some(before) = self.groups.get_mut(&group) else { return Vec::new() };
        let left = before.difference(&now).map(|node| (*node, false));
        let joined = now.difference(before).map(|node| (*node, true));
        let events =
            left.chain(joined).map(|(node, joined)| ClientEvent::Member { group, node, joined }).collect();
        *before = now;
        events
    }
}

/// Why an import cannot be taken back after a restart of the manager.
pub(crate) fn loss_of(refusal: &Refusal) -> LossReason {
    match refusal {
        Refusal::Unreachable { .. } => LossReason::NodeLost,
        Refusal::NotAvailable { .. } => LossReason::Withdrawn,
        _ => LossReason::OwnerDied,
    }
}
