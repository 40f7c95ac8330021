//! A program as a script: what it has, what it has asked, and how it comes back after its manager was gone.

use std::collections::{BTreeMap, BTreeSet};

use proto::ids::{GroupId, NodeId, SegmentKey};
use proto::manager::{Credentials, DescriptorKind};
use proto::time::Instant;
use proto::wire::program::{
    Access, ConnectionId, Event, ImportSlot, Imported, Importer, Incarnation, InterruptKind, LossReason,
    Refusal, Reply, Request, RequestId, ToManager, ToProgram,
};

/// A message and what goes beside it.
pub type Letter = (ToManager, Vec<DescriptorKind>);

/// An object that this program owns.
#[derive(Debug, Clone)]
pub struct Owned {
    pub incarnation: Incarnation,
    pub access: Access,
    pub shape: Shape,
    pub connections: BTreeMap<ConnectionId, Producer>,
}

#[derive(Debug, Clone)]
pub enum Shape {
    Segment { size_bytes: u64, available: bool, shared: bool },
    Interrupt { kind: InterruptKind, pollable: bool },
}

/// Who is connected to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Producer {
    pub node: NodeId,
    pub number: u16,
    pub importer: Importer,
    /// The present manager has said so.
    pub stated: bool,
}

/// An import.
#[derive(Debug, Clone)]
pub struct Held {
    /// In the page of the present manager; `None` while it is being resumed.
    pub slot: Option<ImportSlot>,
    pub incarnation: Incarnation,
    pub what: Imported,
    /// When it was asked for.
    pub since: Instant,
    pub ended: Option<LossReason>,
    /// To a shared segment of its own node: withdrawing does not end it.
    pub attached: bool,
}

#[derive(Debug)]
pub struct Actor {
    pub node: usize,
    pub credentials: Credentials,
    pub name: String,
    /// The socket to its manager.
    pub channel: Option<u64>,
    pub attached: bool,
    pub dead: bool,
    /// It has been attached before.
    pub veteran: bool,
    /// It comes back by itself when its manager is gone.
    pub returns: bool,
    pub rejected: Option<Refusal>,
    next_id: RequestId,
    pub outstanding: BTreeMap<RequestId, (Request, Instant)>,
    /// Replies that nobody has fetched, if `keeps` is set.
    pub replies: BTreeMap<RequestId, (Result<Reply, Refusal>, Vec<DescriptorKind>)>,
    pub events: Vec<(Event, Vec<DescriptorKind>)>,
    /// Keeps replies and events for a test to examine.
    pub keeps: bool,
    /// The other nodes are on other hosts.
    pub apart: bool,
    pub objects: BTreeMap<Imported, Owned>,
    pub imports: BTreeMap<(NodeId, ConnectionId), Held>,
    /// Imports that ended while the manager was gone.
    pub not_resumed: Vec<(NodeId, Held)>,
    pub watches: BTreeMap<GroupId, BTreeSet<NodeId>>,
    /// Objects that could not be created again.
    pub bereft: Vec<(Imported, Incarnation)>,
}

impl Actor {
    pub fn new(node: usize, credentials: Credentials, name: &str) -> Self {
        Self {
            node,
            credentials,
            name: name.to_owned(),
            channel: None,
            attached: false,
            dead: false,
            veteran: false,
            returns: true,
            rejected: None,
            next_id: 1,
            outstanding: BTreeMap::new(),
            replies: BTreeMap::new(),
            events: Vec::new(),
            keeps: true,
            apart: false,
            objects: BTreeMap::new(),
            imports: BTreeMap::new(),
            not_resumed: Vec::new(),
            watches: BTreeMap::new(),
            bereft: Vec::new(),
        }
    }

    pub fn hello(&self) -> Letter {
        let hello = ToManager::Hello { name: self.name.clone(), reattach: self.veteran };
        (hello, vec![DescriptorKind::Pid(self.credentials.pid)])
    }

    /// Asks; what is in doubt until the answer is booked so that a lost answer does no harm.
    pub fn ask(&mut self, now: Instant, body: Request, beside: Vec<DescriptorKind>) -> (RequestId, Letter) {
        let id = self.next_id;
        self.next_id += 1;
        if let Request::Disconnect { import } = &body {
            self.imports.retain(|_, held| held.slot != Some(*import));
        }
        self.outstanding.insert(id, (body.clone(), now));
        (id, (ToManager::Request { id, body }, beside))
    }

    /// The socket closed.
    pub fn closed(&mut self) {
        self.channel = None;
        self.attached = false;
        for (_, (body, _)) in std::mem::take(&mut self.outstanding) {
            match body {
                Request::RemoveSegment { key, .. } => {
                    self.objects.remove(&Imported::Segment(key));
                }
                Request::RemoveInterrupt { number } => {
                    self.objects.remove(&Imported::Interrupt(number));
                }
                Request::SetAvailable { key, available, .. } => self.note_available(key, available),
                Request::ShareSegment { key } => self.note_shared(key),
                _ => {}
            }
        }
        for object in self.objects.values_mut() {
            for producer in object.connections.values_mut() {
                producer.stated = false;
            }
        }
        for held in self.imports.values_mut() {
            held.slot = None;
        }
    }

    fn note_available(&mut self, key: SegmentKey, open: bool) {
        if let Some(owned) = self.objects.get_mut(&Imported::Segment(key))
            && let Shape::Segment { available, .. } = &mut owned.shape
        {
            *available = open;
        }
    }

    fn note_shared(&mut self, key: SegmentKey) {
        if let Some(owned) = self.objects.get_mut(&Imported::Segment(key))
            && let Shape::Segment { shared, .. } = &mut owned.shape
        {
            *shared = true;
        }
    }

    /// A message came. What it answers at once is returned.
    pub fn deliver(&mut self, now: Instant, message: ToProgram, beside: Vec<DescriptorKind>) -> Vec<Letter> {
        match message {
            ToProgram::Welcome { .. } => {
                assert!(!self.attached, "welcome twice");
                self.attached = true;
                if std::mem::replace(&mut self.veteran, true) { self.come_back(now) } else { Vec::new() }
            }
            ToProgram::Rejected(refusal) => {
                self.rejected = Some(refusal);
                Vec::new()
            }
            ToProgram::Reply { id, result } => {
                let (body, asked) =
                    self.outstanding.remove(&id).expect("a reply to a request that was made, once");
                self.note_reply(asked, &body, &result, &beside);
                if self.keeps {
                    self.replies.insert(id, (result, beside));
                }
                Vec::new()
            }
            ToProgram::Event(event) => {
                self.note_event(&event, &beside);
                if self.keeps {
                    self.events.push((event, beside));
                }
                Vec::new()
            }
        }
    }

    /// Shows everything to a manager that does not know it.
    fn come_back(&mut self, now: Instant) -> Vec<Letter> {
        let mut letters = Vec::new();
        for (what, owned) in self.objects.clone() {
            let Owned { incarnation, access, .. } = owned;
            let (body, beside) = match (what, owned.shape) {
                (Imported::Segment(key), Shape::Segment { size_bytes, available, shared }) => (
                    Request::CreateSegment { key, size_bytes, access, incarnation, available, shared },
                    vec![memory(size_bytes)],
                ),
                (Imported::Interrupt(number), Shape::Interrupt { kind, pollable }) => (
                    Request::CreateInterrupt {
                        number: Some(number),
                        kind,
                        access,
                        incarnation,
                        pollable,
                        again: true,
                    },
                    interrupt_parts(pollable),
                ),
                _ => unreachable!("an object has its own shape"),
            };
            letters.push(self.ask(now, body, beside).1);
            for (connection, producer) in owned.connections {
                let Producer { node, importer, .. } = producer;
                let body = Request::ResumeExport { what, node, connection, importer };
                letters.push(self.ask(now, body, Vec::new()).1);
            }
        }
        for ((node, connection), held) in self.imports.clone() {
            if held.ended.is_none() {
                let Held { incarnation, what, .. } = held;
                let body = Request::ResumeImport { node, connection, incarnation, what };
                letters.push(self.ask(now, body, Vec::new()).1);
            }
        }
        self.imports.retain(|_, held| held.ended.is_none());
        for group in self.watches.keys().copied().collect::<Vec<_>>() {
            letters.push(self.ask(now, Request::WatchGroup { group }, Vec::new()).1);
        }
        letters
    }

    fn note_reply(
        &mut self,
        asked: Instant,
        body: &Request,
        result: &Result<Reply, Refusal>,
        beside: &[DescriptorKind],
    ) {
        match (body, result) {
            (Request::CreateSegment { key, size_bytes, access, incarnation, available, shared }, Ok(_)) => {
                let (size_bytes, available, shared) = (*size_bytes, *available, *shared);
                let shape = Shape::Segment { size_bytes, available, shared };
                self.note_created(Imported::Segment(*key), *incarnation, access, shape);
            }
            (
                Request::CreateInterrupt { kind, access, incarnation, pollable, again, .. },
                Ok(Reply::InterruptCreated { number }),
            ) => {
                let sockets = if *pollable { 2 - usize::from(*again) } else { 0 };
                assert_eq!(beside, vec![DescriptorKind::Event; sockets], "an owner gets its sockets");
                let shape = Shape::Interrupt { kind: *kind, pollable: *pollable };
                self.note_created(Imported::Interrupt(*number), *incarnation, access, shape);
            }
            (Request::CreateSegment { key, incarnation, .. }, Err(_)) => {
                self.note_not_created(Imported::Segment(*key), *incarnation);
            }
            (Request::CreateInterrupt { number: Some(number), incarnation, .. }, Err(_)) => {
                self.note_not_created(Imported::Interrupt(*number), *incarnation);
            }
            (Request::RemoveSegment { key, .. }, Ok(_)) => {
                self.objects.remove(&Imported::Segment(*key));
            }
            (Request::RemoveInterrupt { number }, Ok(_)) => {
                self.objects.remove(&Imported::Interrupt(*number));
            }
            (Request::SetAvailable { key, available, disconnect }, Ok(_)) => {
                self.note_available(*key, *available);
                if *disconnect
                    && !*available
                    && let Some(owned) = self.objects.get_mut(&Imported::Segment(*key))
                {
                    // Programs that are attached stay so.
                    owned.connections.retain(|_, connected| connected.number != 0);
                }
            }
            (Request::ShareSegment { key }, Ok(_)) => self.note_shared(*key),
            (
                Request::AttachSegment { key },
                Ok(Reply::Segment { import, connection, size_bytes, incarnation }),
            ) => {
                assert_eq!(beside, [memory(*size_bytes)], "a segment comes with its memory");
                let own = NodeId::nth(self.node).expect("a node");
                self.note_import(asked, (own, *connection), *import, *incarnation, Imported::Segment(*key));
            }
            (
                Request::ConnectSegment { node, key },
                Ok(Reply::Segment { import, connection, size_bytes, incarnation }),
            ) => {
                let [
                    DescriptorKind::Memory { size_bytes: real, size_sealed: true, .. }
                    | DescriptorKind::HugeMemory { size_bytes: real, size_sealed: true },
                ] = beside
                else {
                    panic!("a segment comes with its memory, not with {beside:?}")
                };
                assert!(real >= size_bytes);
                self.note_import(asked, (*node, *connection), *import, *incarnation, Imported::Segment(*key));
            }
            (
                Request::ConnectInterrupt { node, number },
                Ok(Reply::Interrupt { import, connection, incarnation, pollable, .. }),
            ) => {
                assert_eq!(beside, interrupt_parts(*pollable), "an interrupt comes with its parts");
                let what = Imported::Interrupt(*number);
                self.note_import(asked, (*node, *connection), *import, *incarnation, what);
            }
            (
                Request::ConnectByNetwork { node, what, .. },
                Ok(Reply::ByNetwork { import, connection, incarnation, .. }),
            ) => {
                assert!(beside.is_empty(), "no descriptor comes from another host");
                self.note_import(asked, (*node, *connection), *import, *incarnation, *what);
            }
            (Request::ResumeImport { node, connection, .. }, Ok(Reply::Resumed { import })) => {
                let held =
                    self.imports.get_mut(&(*node, *connection)).expect("it was resumed because it is held");
                held.slot = Some(*import);
            }
            (Request::ResumeImport { node, connection, .. }, Err(refusal)) => {
                let held = self.imports.get(&(*node, *connection));
                if held.is_some_and(|held| held.slot.is_some()) {
                    // It was never let go: that is why it cannot be resumed.
                    return;
                }
                let reason = match refusal {
                    Refusal::NotFound { .. } => LossReason::OwnerDied,
                    Refusal::NotAvailable { .. } => LossReason::Withdrawn,
                    other => panic!("a connection is not resumed: {other}"),
                };
                if let Some(mut held) = self.imports.remove(&(*node, *connection)) {
                    held.ended = Some(reason);
                    self.not_resumed.push((*node, held));
                }
            }
            (Request::ResumeExport { what, connection, .. }, result) => {
                let Some(owned) = self.objects.get_mut(what) else { return };
                match result {
                    Ok(_) => {
                        if let Some(producer) = owned.connections.get_mut(connection) {
                            producer.stated = true;
                        }
                    }
                    Err(_) => {
                        owned.connections.remove(connection);
                    }
                }
            }
            (Request::WatchGroup { group }, Ok(Reply::Members(members))) => {
                self.watches.insert(*group, members.iter().copied().collect());
            }
            (Request::UnwatchGroup { group }, _) => {
                self.watches.remove(group);
            }
            _ => {}
        }
    }

    fn note_created(&mut self, what: Imported, incarnation: Incarnation, access: &Access, shape: Shape) {
        let connections = self.objects.remove(&what).map(|owned| owned.connections).unwrap_or_default();
        self.objects.insert(what, Owned { incarnation, access: access.clone(), shape, connections });
    }

    fn note_not_created(&mut self, what: Imported, incarnation: Incarnation) {
        if self.objects.get(&what).is_some_and(|owned| owned.incarnation == incarnation) {
            self.objects.remove(&what);
            self.bereft.push((what, incarnation));
        }
    }

    fn note_import(
        &mut self,
        since: Instant,
        id: (NodeId, ConnectionId),
        slot: ImportSlot,
        incarnation: Incarnation,
        what: Imported,
    ) {
        let attached = matches!(what, Imported::Segment(_)) && id.1.0 & 0xffff != 0;
        let held = Held { slot: Some(slot), incarnation, what, since, ended: None, attached };
        assert!(self.imports.insert(id, held).is_none(), "connection {id:?} is given out twice");
    }

    fn note_event(&mut self, event: &Event, beside: &[DescriptorKind]) {
        match event {
            Event::Connected { what, node, connection, producer, importer } => {
                let Some(owned) = self.objects.get_mut(what) else { return };
                let data = matches!(owned.shape, Shape::Interrupt { kind: InterruptKind::Data, .. });
                match beside {
                    [DescriptorKind::Pid(_)] if data => {}
                    // A program on another host has no process here.
                    [] if !data || self.apart => {}
                    other => panic!("{what} was connected with {other:?} beside it"),
                }
                owned.connections.remove(connection);
                let twice = owned.connections.values().any(|one| one.stated && one.number == *producer);
                assert!(!data || !twice, "producer {producer} of {what} is given out twice");
                let (number, importer) = (*producer, *importer);
                let entry = Producer { node: *node, number, importer, stated: true };
                owned.connections.insert(*connection, entry);
            }
            Event::Disconnected { what, connection, .. } => {
                if let Some(owned) = self.objects.get_mut(what) {
                    owned.connections.remove(connection);
                }
            }
            Event::Lost { import, reason } => {
                if let Some(held) = self.imports.values_mut().find(|held| held.slot == Some(*import)) {
                    assert_eq!(held.ended, None, "{import:?} is lost twice");
                    held.ended = Some(*reason);
                }
            }
            Event::Member { group, node, joined } => {
                if let Some(members) = self.watches.get_mut(group) {
                    let news = if *joined { members.insert(*node) } else { members.remove(node) };
                    assert!(news, "node {node} joins or leaves group {group} twice");
                }
            }
            Event::Availability { key, available } => self.note_available(*key, *available),
            Event::Link { .. }
            | Event::WantedByNetwork { .. }
            | Event::Asked { .. }
            | Event::AgentEnded { .. } => {}
        }
    }
}

/// A memfd as it should be.
pub fn memory(size_bytes: u64) -> DescriptorKind {
    DescriptorKind::Memory { size_bytes, size_sealed: true, write_sealed: false }
}

/// What a driver gives the machine with a new interrupt: its parts, and the receiving side.
pub fn new_interrupt(pollable: bool) -> Vec<DescriptorKind> {
    let mut parts = interrupt_parts(pollable);
    if pollable {
        parts.push(DescriptorKind::Event);
    }
    parts
}

/// The descriptors of an interrupt as they should be.
pub fn interrupt_parts(pollable: bool) -> Vec<DescriptorKind> {
    let waiter = DescriptorKind::Memory { size_bytes: 4096, size_sealed: true, write_sealed: true };
    let mut parts = vec![memory(4096), waiter];
    if pollable {
        parts.push(DescriptorKind::Event);
    }
    parts
}
