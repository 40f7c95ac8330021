//! Groups (multicast, reflective memory): a copy per member, and writes that reach all copies.
//!
//! What may be relied on:
//!
//! - A put or store to the group is carried out on the copy of every member that the writer knows, before the
//!   call returns. After [`Group::barrier`] it is visible to all of them.
//! - Two puts of one writer reach each member in their order. Puts of two writers to the same bytes may end
//!   differently in different copies; use one writer per word, or an order of your own.
//! - A store of a member into its own copy ([`GroupMember::window`]) stays local.
//! - A member that joins later starts with zeroes, and gets what is put after the writer has noticed it:
//!   [`Group::members`] lists them. There is no history.
//! - A member that dies is left out from the next put on; [`Delivered`] has the number of members reached.
//! - A member on another host whose connection fails is left out like one that died, and connected again with
//!   the next write: it may lack what was put since the last barrier. Its copy's words are stored by its
//!   owner's processor.
//! - A write waits for a member on another host that is being connected, two seconds at most, and once only:
//!   one that does not respond is left out until it does. All others have got the write before.
//! - A member whose copy does not take a put, because it is smaller, makes it an error; all others have got
//!   it.

mod copies;

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use link::{Capabilities, Stores};
use proto::ids::{GroupId, NodeId, SegmentKey};
use shm::window::Window;

use crate::error::{Error, Result};
use crate::events::Members;
use crate::node::Node;
use crate::remote::{Place, RemoteSegment, forked};
use crate::segment::Segment;
use copies::{Copies, Shared};

/// This node's copy of a group. Dropping it leaves the group.
#[derive(Debug)]
pub struct GroupMember {
    group: GroupId,
    copy: Segment,
}

impl GroupMember {
    pub(crate) fn join(node: &Node, group: GroupId, size_bytes: usize) -> Result<Self> {
        let member = Self::create(node, group, size_bytes)?;
        member.copy.make_available()?;
        Ok(member)
    }

    pub(crate) fn create(node: &Node, group: GroupId, size_bytes: usize) -> Result<Self> {
        Ok(Self { group, copy: Segment::create_group_copy(node, group, size_bytes)? })
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The copy as a segment, for its events and for DMA.
    pub fn segment(&self) -> &Segment {
        &self.copy
    }

    /// The copy. What is stored here stays here.
    pub fn window(&self) -> Window<'_> {
        self.copy.window()
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.copy.size_bytes()
    }
}

/// How far a write got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Copies that were written.
    pub members: usize,
    /// Members that this write found gone.
    pub lost: usize,
}

/// A writer to a group; need not be a member itself.
#[derive(Debug)]
pub struct Group {
    node: Node,
    group: GroupId,
    members: Arc<Members>,
    shared: Arc<Shared>,
}

/// Writes to every copy. One that does not take it (it is smaller than the others, say) keeps no other member
/// from being reached. Returns the members that are gone or whose connection `has_ended`, and the first other
/// error.
fn write_to_all<'a, C: 'a>(
    copies: impl IntoIterator<Item = (&'a NodeId, &'a C)>,
    mut write: impl FnMut(&C) -> Result<()>,
    has_ended: impl Fn(&C) -> bool,
) -> (Vec<NodeId>, Option<Error>) {
    let (mut lost, mut refused) = (Vec::new(), None);
    for (node, copy) in copies {
        match write(copy) {
            Ok(()) => {}
            Err(Error::Lost { .. }) => lost.push(*node),
            Err(_) if has_ended(copy) => lost.push(*node),
            Err(other) => refused = refused.or(Some(other)),
        }
    }
    (lost, refused)
}

impl Group {
    pub(crate) fn connect(node: &Node, group: GroupId) -> Result<Self> {
        let members = Arc::new(Members::default());
        // Registered first, so that no member that joins in between is missed.
        node.events().register_group(group, &members);
        for member in node.client().watch_group(group)? {
            members.change(member, true);
        }
        Ok(Self { node: node.clone(), group, members, shared: Arc::default() })
    }

    fn lock(&self) -> Result<MutexGuard<'_, Copies>> {
        self.shared.lock().ok_or_else(|| forked(format_args!("group {}", self.group)))
    }

    /// Searches for members if it is time to. Costs one load when nothing changed. Members on other hosts are
    /// connected by threads of their own.
    fn search(&self) -> Result<MutexGuard<'_, Copies>> {
        let mut copies = self.lock()?;
        let version = self.members.version();
        if copies.is_due(version) {
            let begin = Instant::now();
            let nodes = self.members.nodes();
            // A copy that has ended may have a successor on the same node.
            copies.keep(&nodes, |copy| copy.check().is_ok());
            let mut complete = true;
            for node in nodes {
                complete &= copies.has(node) || self.reach(&mut copies, node, version);
            }
            copies.searched(version, complete, begin.elapsed());
        }
        Ok(copies)
    }

    /// Whether a member is connected now. One that is not is no error of the writer: it is tried again with a
    /// later write, until it is reached or its departure is announced.
    fn reach(&self, copies: &mut Copies, member: NodeId, version: u64) -> bool {
        if copies.is_connecting(member) {
            return false;
        }
        let key = SegmentKey::GroupCopy(self.group);
        match RemoteSegment::find(&self.node, member, key, Duration::ZERO) {
            Ok(Place::Here(copy)) => {
                copies.connected(member, copy);
                return true;
            }
            Ok(Place::OnOtherHost(addresses)) => {
                let (node, members) = (self.node.clone(), Arc::downgrade(&self.members));
                let connect =
                    move || RemoteSegment::connect_to(&node, member, key, &addresses, Duration::ZERO).ok();
                let wake = move || {
                    if let Some(members) = members.upgrade() {
                        members.changes().push(());
                    }
                };
                self.shared.connect(copies, member, version, connect, wake);
            }
            Err(_) => {}
        }
        false
    }

    /// The same, and waits for members on other hosts that respond.
    fn copies(&self) -> Result<MutexGuard<'_, Copies>> {
        Ok(self.shared.wait_for_arrivals(self.search()?))
    }

    fn each(&self, write: impl Fn(&RemoteSegment) -> Result<()>) -> Result<Delivered> {
        let has_ended = |copy: &RemoteSegment| copy.connection_failure().is_some();
        // Those that are connected do not wait for those that are not yet.
        let mut copies = self.search()?;
        let (mut lost, mut refused) = write_to_all(copies.all(), &write, has_ended);
        let all = |copies: &Copies| copies.all().map(|(node, _)| *node).collect();
        let written: Vec<_> = if copies.are_awaited() { all(&copies) } else { Vec::new() };
        lost.iter().for_each(|node| copies.lost(*node));
        if copies.are_awaited() {
            copies = self.shared.wait_for_arrivals(copies);
            let new = copies.all().filter(|(node, _)| !written.contains(*node));
            let (lost_new, refused_new) = write_to_all(new, &write, has_ended);
            lost_new.iter().for_each(|node| copies.lost(*node));
            lost.extend(lost_new);
            refused = refused.or(refused_new);
        }
        match refused {
            None => Ok(Delivered { members: copies.all().count(), lost: lost.len() }),
            Some(error) => Err(error),
        }
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The nodes whose copies are reached now. None from a forked child.
    pub fn members(&self) -> Vec<NodeId> {
        self.copies().map(|copies| copies.all().map(|(node, _)| *node).collect()).unwrap_or_default()
    }

    /// Waits until at least `count` members are reached.
    pub fn wait_members(&self, count: usize, timeout: Duration) -> Result<Vec<NodeId>> {
        let pause = Duration::from_millis(1);
        let mut tries = timeout.as_millis().max(1);
        loop {
            let members = self.members();
            if members.len() >= count {
                return Ok(members);
            }
            tries = tries.saturating_sub(1);
            if tries == 0 {
                return Err(Error::TimedOut { what: format!("{count} members of group {}", self.group) });
            }
            std::thread::sleep(pause);
        }
    }

    /// Changes whenever [`Self::reached`] does. Costs little when nothing changed.
    pub fn generation(&self) -> Result<u64> {
        Ok(self.search()?.generation())
    }

    /// The copies that are reached now, for maps and DMA, and the generation that they are of.
    pub fn reached(&self) -> Result<(u64, Vec<RemoteSegment>)> {
        let copies = self.copies()?;
        let of = |copy: &RemoteSegment| RemoteSegment { inner: Arc::clone(&copy.inner) };
        Ok((copies.generation(), copies.all().map(|(_, copy)| of(copy)).collect()))
    }

    /// Waits until members may have come or gone since the last call, but no longer than `timeout`.
    pub fn wait_change(&self, timeout: Duration) -> Result<()> {
        // A member that could not be reached is tried again without being announced again.
        let missed = self.search()?.pause().map_or(timeout, |pause| pause.min(timeout));
        let what = || format!("members of group {}", self.group);
        self.members.changes().wait(missed, &what).map(drop)
    }

    /// Ends all waits of [`Self::wait_change`] with [`Error::Cancelled`], those of the future too.
    pub fn cancel_waits(&self) {
        self.members.changes().cancel();
    }

    /// Writes what `source` holds to all copies.
    pub fn put_from(&self, offset: usize, source: Window<'_>) -> Result<Delivered> {
        self.each(|copy| copy.put_from(offset, source))
    }

    /// Writes a block to all copies.
    pub fn put(&self, offset: usize, from: &[u8]) -> Result<Delivered> {
        self.each(|copy| copy.put(offset, from))
    }

    /// Stores one aligned word to all copies, each at once and whole.
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<Delivered> {
        self.each(|copy| copy.store_u32(offset, value))
    }

    /// Has stores carried out, in their order, in the copies that cannot be mapped: those on other hosts.
    /// They are there when this returns.
    pub fn store_all_unmapped(&self, stores: &Stores) -> Result<Delivered> {
        let is_mapped = |copy: &RemoteSegment| copy.capabilities().has(Capabilities::MAP);
        self.each(|copy| if is_mapped(copy) { Ok(()) } else { copy.store_all(stores) })
    }

    /// Everything put so far is visible to the members that are reached.
    pub fn barrier(&self) -> Result<Delivered> {
        self.each(RemoteSegment::barrier)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.members = Arc::default();
        if self.node.events().group_is_unwatched(self.group) {
            drop(self.node.client().unwatch_group(self.group));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_copy_that_refuses_keeps_nobody_else_from_being_reached() {
        let nodes = [4, 8, 12, 16, 20].map(|id| NodeId::new(id).unwrap());
        let copies: BTreeMap<_, _> = nodes.into_iter().zip([4096, 1, 0, 4096, 2]).collect();
        let mut written = Vec::new();
        let write = |size_bytes: &i32| match size_bytes {
            1 => Err(Error::Invalid("too small".into())),
            // A connection to another host that has failed: connected again with the next write.
            2 => Err(Error::Invalid("failed".into())),
            0 => {
                let reason = proto::wire::program::LossReason::OwnerDied;
                Err(Error::Lost { what: "copy".into(), node: nodes[2], reason })
            }
            _ => {
                written.push(*size_bytes);
                Ok(())
            }
        };
        let (lost, refused) = write_to_all(&copies, write, |size_bytes| *size_bytes == 2);
        assert_eq!((written.len(), lost), (2, vec![nodes[2], nodes[4]]));
        assert!(matches!(refused, Some(Error::Invalid(text)) if text == "too small"));
    }
}
