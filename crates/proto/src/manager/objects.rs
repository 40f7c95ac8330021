//! Segments, copies of groups, and interrupts of this node.

use std::collections::BTreeSet;

use super::descriptors::{interrupt_parts, interrupt_socket, is_huge, missing, sealed_memory};
use super::quotas::Shared;
use super::sharing::{check_sharable, is_attachment};
use super::{Descriptor, FdToken, Manager, ProgramConn};
use crate::ids::{InterruptNo, SegmentKey};
use crate::wire::program::{
    Access, ConnectionId, Imported, Incarnation, InterruptKind, LossReason, Refusal, Reply,
};

/// Longest list of users in an [`Access`].
pub(super) const MAX_ACCESS_UIDS: usize = 64;

/// Something that can be connected to.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) owner: ProgramConn,
    pub(super) incarnation: Incarnation,
    pub(super) access: Access,
    pub(super) exports: BTreeSet<ConnectionId>,
    /// The owner has ended all connections at some time: none from before this manager's start continues.
    pub(super) severed: bool,
    /// Its owner had it before this manager started.
    pub(super) reattached: bool,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Segment {
        memory: FdToken,
        size_bytes: u64,
        available: bool,
        /// Programs of this node and of the owner's user may attach.
        shared: bool,
        /// Of huge pages: for programs of the owner's user only.
        huge: bool,
    },
    Interrupt {
        kind: InterruptKind,
        trigger: FdToken,
        waiter: FdToken,
        event: Option<FdToken>,
        producers: BTreeSet<u16>,
        next_producer: u16,
    },
}

impl Object {
    pub(super) fn tokens(&self) -> Vec<FdToken> {
        match self.body {
            Body::Segment { memory, .. } => vec![memory],
            Body::Interrupt { trigger, waiter, event, .. } => {
                [Some(trigger), Some(waiter), event].into_iter().flatten().collect()
            }
        }
    }

    /// Open to new connections.
    pub(super) fn available(&self) -> bool {
        match self.body {
            Body::Segment { available, .. } => available,
            Body::Interrupt { .. } => true,
        }
    }

    /// Open to programs of its node and user.
    pub(super) fn shared(&self) -> bool {
        matches!(self.body, Body::Segment { shared: true, .. })
    }

    pub(super) fn is_data_interrupt(&self) -> bool {
        matches!(self.body, Body::Interrupt { kind: InterruptKind::Data, .. })
    }
}

/// Numbers that the manager draws start at a place that depends on its incarnation: after a restart a new
/// interrupt then does not take the number of one whose owner has yet to re-attach.
pub(super) fn first_drawn_number(drawn: u64) -> u32 {
    let place = u32::try_from(drawn % 0xffff).unwrap_or(0);
    (place + 1) * 1024
}

/// What a program specifies of a segment that it creates.
#[derive(Debug)]
pub(super) struct NewSegment {
    pub(super) key: SegmentKey,
    pub(super) size_bytes: u64,
    pub(super) access: Access,
    pub(super) incarnation: Incarnation,
    pub(super) available: bool,
    pub(super) shared: bool,
}

/// What a program specifies of an interrupt that it creates.
#[derive(Debug)]
pub(super) struct NewInterrupt {
    pub(super) number: Option<InterruptNo>,
    pub(super) kind: InterruptKind,
    pub(super) access: Access,
    pub(super) incarnation: Incarnation,
    pub(super) pollable: bool,
    /// Its owner has what it polls.
    pub(super) again: bool,
}

impl Manager {
    pub(super) fn create_segment(
        &mut self,
        program: ProgramConn,
        new: NewSegment,
        descriptors: &[Descriptor],
    ) -> Result<Reply, Refusal> {
        let NewSegment { key, size_bytes, access, incarnation, available, shared } = new;
        let what = Imported::Segment(key);
        if shared {
            check_sharable(key)?;
        }
        self.check_free(what)?;
        check_access(&access)?;
        if size_bytes == 0 {
            return Err(Refusal::Invalid(format!("{key} of 0 bytes: give it a size")));
        }
        let [memory] = descriptors else { return Err(missing(&key.to_string(), 1, descriptors.len())) };
        let huge = is_huge(memory);
        if huge && access != Access::default() {
            return Err(Refusal::Invalid(format!(
                "{key} consists of huge pages, which one of its users could take from the others (SIGBUS): \
                 share it only with this user, or use base pages"
            )));
        }
        let memory = sealed_memory(memory, &key.to_string(), size_bytes, false)?;
        if self.segments >= self.config.limits.segments {
            return Err(limit("segments of this node", self.config.limits.segments));
        }
        self.check_quota(program, Shared::Segments)?;
        self.segments += 1;
        let body = Body::Segment { memory, size_bytes, available, shared, huge };
        self.insert_object(program, what, incarnation, access, body);
        Ok(Reply::Done)
    }

    /// Also gives what the owner of a pollable interrupt is sent: the sending side, and the receiving one, if
    /// it is new.
    pub(super) fn create_interrupt(
        &mut self,
        program: ProgramConn,
        new: NewInterrupt,
        descriptors: &[Descriptor],
    ) -> Result<(Reply, Vec<FdToken>), Refusal> {
        check_access(&new.access)?;
        if self.interrupts >= self.config.limits.interrupts {
            return Err(limit("interrupts of this node", self.config.limits.interrupts));
        }
        self.check_quota(program, Shared::Interrupts)?;
        let number = match new.number {
            Some(number) => number,
            None => self.draw_interrupt(),
        };
        let what = Imported::Interrupt(number);
        self.check_free(what)?;
        let title = what.to_string();
        let sockets = if new.pollable { 2 - usize::from(new.again) } else { 0 };
        let regions = descriptors.len().saturating_sub(sockets);
        if regions != 2 {
            return Err(missing(&title, 2, regions));
        }
        let (shared, receiver) = descriptors.split_at(2 + usize::from(new.pollable));
        let (trigger, waiter, event) = interrupt_parts(shared, &title, new.pollable)?;
        let receiver = receiver.first().map(|socket| interrupt_socket(socket, &title)).transpose()?;
        self.interrupts += 1;
        let body = Body::Interrupt {
            kind: new.kind,
            trigger,
            waiter,
            event,
            producers: BTreeSet::new(),
            next_producer: 0,
        };
        self.insert_object(program, what, new.incarnation, new.access, body);
        Ok((Reply::InterruptCreated { number }, event.into_iter().chain(receiver).collect()))
    }

    /// There are fewer interrupts than numbers, so one is free.
    fn draw_interrupt(&mut self) -> InterruptNo {
        loop {
            let number = InterruptNo(self.next_interrupt);
            self.next_interrupt = self.next_interrupt.wrapping_add(1);
            if !self.objects.contains_key(&Imported::Interrupt(number)) {
                return number;
            }
        }
    }

    fn check_free(&self, what: Imported) -> Result<(), Refusal> {
        match self.objects.get(&what) {
            None => Ok(()),
            Some(object) => {
                Err(Refusal::InUse { what: what.to_string(), owner: self.program_title(object.owner) })
            }
        }
    }

    fn insert_object(
        &mut self,
        owner: ProgramConn,
        what: Imported,
        incarnation: Incarnation,
        access: Access,
        body: Body,
    ) {
        let reattached = self.programs.get_mut(&owner).is_some_and(|program| {
            program.objects.insert(what);
            program.reattached
        });
        let object =
            Object { owner, incarnation, access, exports: BTreeSet::new(), severed: false, reattached, body };
        let available = object.available();
        self.objects.insert(what, object);
        self.take_quota(owner, what.into());
        if let (Imported::Segment(SegmentKey::GroupCopy(group)), true) = (what, available) {
            self.own_copy_changed(group, true);
        }
        self.answer_waiting(what);
    }

    pub(super) fn set_available(
        &mut self,
        program: ProgramConn,
        key: SegmentKey,
        open: bool,
        disconnect: bool,
    ) -> Result<Reply, Refusal> {
        let what = Imported::Segment(key);
        let own = self.own;
        let object = self.changeable_object(program, what)?;
        let before = object.available();
        // A program that shares it cannot know what the others did before.
        if object.shared() && !before && !open {
            return Err(Refusal::NotAvailable { what: what.to_string(), node: own });
        }
        if let Body::Segment { available, .. } = &mut object.body {
            *available = open;
        }
        let mut ended = BTreeSet::new();
        if !open && disconnect {
            object.severed = true;
            ended.extend(object.exports.iter().filter(|connection| !is_attachment(what, **connection)));
        }
        if before != open {
            self.tell_availability(program, key, open);
        }
        for connection in ended {
            self.end_export(connection, LossReason::Withdrawn);
        }
        if let SegmentKey::GroupCopy(group) = key
            && before != open
        {
            self.own_copy_changed(group, open);
        }
        Ok(Reply::Done)
    }

    pub(super) fn remove_segment(
        &mut self,
        program: ProgramConn,
        key: SegmentKey,
        force: bool,
    ) -> Result<Reply, Refusal> {
        let what = Imported::Segment(key);
        let connections = self.own_object(program, what)?.exports.len();
        if connections > 0 && !force {
            let connections = u32::try_from(connections).unwrap_or(u32::MAX);
            return Err(Refusal::Busy { what: what.to_string(), connections });
        }
        self.remove_object(what, LossReason::Removed);
        Ok(Reply::Done)
    }

    pub(super) fn remove_interrupt(
        &mut self,
        program: ProgramConn,
        number: InterruptNo,
    ) -> Result<Reply, Refusal> {
        let what = Imported::Interrupt(number);
        self.own_object(program, what)?;
        self.remove_object(what, LossReason::Removed);
        Ok(Reply::Done)
    }

    /// Removes an object: its importers are told, its descriptors closed.
    pub(super) fn remove_object(&mut self, what: Imported, reason: LossReason) {
        let Some(object) = self.objects.get(&what) else { return };
        for connection in object.exports.clone() {
            self.end_export(connection, reason);
        }
        let Some(object) = self.objects.remove(&what) else { return };
        for token in object.tokens() {
            self.close_token(token);
        }
        self.return_quota(object.owner, what.into());
        match object.body {
            Body::Segment { .. } => self.segments -= 1,
            Body::Interrupt { .. } => self.interrupts -= 1,
        }
        if let Some(owner) = self.programs.get_mut(&object.owner) {
            owner.objects.remove(&what);
        }
        if let (Imported::Segment(SegmentKey::GroupCopy(group)), true) = (what, object.available()) {
            self.own_copy_changed(group, false);
        }
    }

    /// An object that this program may change, because it owns it.
    pub(super) fn own_object(
        &mut self,
        program: ProgramConn,
        what: Imported,
    ) -> Result<&mut Object, Refusal> {
        let not_found = Refusal::NotFound { what: what.to_string(), node: self.own };
        let owner = self.objects.get(&what).ok_or(not_found.clone())?.owner;
        if owner != program {
            let owner = self.program_title(owner);
            return Err(Refusal::Invalid(format!("{what} belongs to {owner}: only its owner may change it")));
        }
        self.objects.get_mut(&what).ok_or(not_found)
    }
}

pub(super) fn limit(what: &str, limit: u64) -> Refusal {
    Refusal::Limit { what: what.to_owned(), limit }
}

fn check_access(access: &Access) -> Result<(), Refusal> {
    if access.uids.len() > MAX_ACCESS_UIDS {
        return Err(Refusal::Invalid(format!(
            "access for {} users was asked for, at most {MAX_ACCESS_UIDS} can be listed: use a group",
            access.uids.len()
        )));
    }
    Ok(())
}
