//! Segments that several programs of this node own together.
//!
//! To attach is to connect to one's own node, but whether the segment is available does not matter: it is the
//! owner's word that it is shared, and the same user, that counts. Attachments and connections are
//! distinguished by their numbers, so that a restarted manager can distinguish them too.

use super::exports::{Export, producer_of};
use super::objects::{Body, Object};
use super::requests::Answer;
use super::{Manager, ProgramConn};
use crate::ids::{NodeId, SegmentKey};
use crate::wire::program::{ConnectionId, Event, Imported, Refusal, Reply};

/// What the number of an attachment carries where that of an interrupt carries its producer. Connections to
/// segments carry 0.
const ATTACHMENT: u16 = 1;

/// Whether this connection is an attachment of a program of this node.
pub(super) fn is_attachment(what: Imported, connection: ConnectionId) -> bool {
    matches!(what, Imported::Segment(_)) && producer_of(connection) == ATTACHMENT
}

/// A group has one member a node.
pub(super) fn check_sharable(key: SegmentKey) -> Result<(), Refusal> {
    match key {
        SegmentKey::Segment(_) => Ok(()),
        SegmentKey::GroupCopy(_) => Err(Refusal::Invalid(format!(
            "the {key} belongs to one program and cannot be shared: let the others connect to the group"
        ))),
        SegmentKey::Port(_) => Err(Refusal::Invalid(format!(
            "the {key} belongs to one program and cannot be shared: open one at another port"
        ))),
    }
}

impl Manager {
    pub(super) fn share_segment(&mut self, program: ProgramConn, key: SegmentKey) -> Result<Reply, Refusal> {
        check_sharable(key)?;
        if let Body::Segment { shared, .. } = &mut self.own_object(program, Imported::Segment(key))?.body {
            *shared = true;
        }
        Ok(Reply::Done)
    }

    pub(super) fn attach_segment(&mut self, program: ProgramConn, key: SegmentKey) -> Answer {
        self.check_import_limit(program)?;
        let what = Imported::Segment(key);
        let requester = self.requester(program);
        self.check_attachable(what, self.own, requester.uid)?;
        self.check_export_limit(self.own)?;
        if self.is_owner_crowded(what) {
            return Err(Refusal::OwnerBusy { what: what.to_string(), node: self.own });
        }
        let export = Export { what, importer: self.own, producer: None, by: requester.importer() };
        let grant = self.hand_out(export, ATTACHMENT, None)?;
        let import = self.add_import(program, self.own, grant.shown, true);
        Ok(Some((grant.body.with_import(import), grant.tokens)))
    }

    /// The segment is there and shared, and the attaching program is of this node and of the owner's user:
    /// access given to others does not count, because an attached program may change the segment's state.
    pub(super) fn check_attachable(&self, what: Imported, from: NodeId, uid: u32) -> Result<(), Refusal> {
        let node = self.own;
        let object = self.objects.get(&what).filter(|_| from == node);
        let object = object.ok_or_else(|| Refusal::NotFound { what: what.to_string(), node })?;
        if !object.shared() {
            return Err(Refusal::NotShared { what: what.to_string(), node });
        }
        if self.programs.get(&object.owner).is_none_or(|owner| owner.credentials.uid != uid) {
            return Err(Refusal::Denied { what: format!("attach to {what} on node {node}"), uid });
        }
        Ok(())
    }

    /// An object whose state this program may change: its own, or one that it is attached to.
    pub(super) fn changeable_object(
        &mut self,
        program: ProgramConn,
        what: Imported,
    ) -> Result<&mut Object, Refusal> {
        let own = self.objects.get(&what).is_none_or(|object| object.owner == program);
        if own || !self.is_attached(program, what) {
            return self.own_object(program, what);
        }
        // Its owner must be told later.
        if self.is_owner_crowded(what) {
            return Err(Refusal::OwnerBusy { what: what.to_string(), node: self.own });
        }
        let not_found = Refusal::NotFound { what: what.to_string(), node: self.own };
        self.objects.get_mut(&what).ok_or(not_found)
    }

    fn is_attached(&self, program: ProgramConn, what: Imported) -> bool {
        let Some(program) = self.programs.get(&program) else { return false };
        program.imports.iter().filter_map(|slot| self.imports.by_slot.get(slot)).any(|import| {
            import.alive
                && import.node == self.own
                && import.shown.what == what
                && is_attachment(what, import.shown.connection)
        })
    }

    /// The owner must know what others made of its segment: it will tell a restarted manager.
    pub(super) fn tell_availability(&mut self, by: ProgramConn, key: SegmentKey, available: bool) {
        let owner = self.objects.get(&Imported::Segment(key)).map(|object| object.owner);
        if let Some(owner) = owner.filter(|owner| *owner != by) {
            self.event(owner, Event::Availability { key, available }, Vec::new());
        }
    }
}
