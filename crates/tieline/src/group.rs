//! Groups (multicast, reflective memory): a copy per member, and writes that reach all copies.
//!
//! What may be relied on:
//!
//! - A put or store to the group is carried out on the copy of every member that the writer knows, before the call
//!   returns. After [`Group::barrier`] it is visible to all of them.
//! - Two puts of one writer reach each member in their order. Puts of two writers to the same bytes may end differently
//!   in different copies; use one writer per word, or an order of your own.
//! - A store of a member into its own copy ([`GroupMember::window`]) stays local.
//! - A member that joins later starts with zeroes, and gets what is put after the writer has noticed it:
//!   [`Group::members`] lists them. There is no history.
//! - A member that dies is left out from the next put on; [`Delivered`] has the number of members reached.
//! - A member on another host whose connection fails is left out like one that died, and connected again with the next
//!   write: it may lack what was put since the last barrier. Its copy's words are stored by its owner's processor.
//! - A member whose copy does not take a put, because it is smaller, makes it an error; all others have got it.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use link::{Capabilities, Stores};
use node_client::OwnLock;
use proto::ids::{GroupId, NodeId, SegmentKey};
use shm::window::Window;

use crate::error::{Error, Result};
use crate::events::Members;
use crate::node::Node;
use crate::remote::{RemoteSegment, forked};
use crate::segment::Segment;

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
    copies: OwnLock<Copies>,
}

#[derive(Debug, Default)]
struct Copies {
    /// `Members::version` that `connected` reflects.
    version: Option<u64>,
    connected: BTreeMap<NodeId, RemoteSegment>,
    /// Counts the changes of `connected`.
    generation: u64,
    /// Members that could not be reached.
    missed: Option<Missed>,
}

/// A search that did not reach all members.
#[derive(Debug, Clone, Copy)]
struct Missed {
    /// `Members::version` at that time.
    version: u64,
    again_at: Instant,
    pause: Duration,
}

/// How long a member that could not be reached is left alone: each attempt asks the manager, and a member that lets every
/// attempt fail would make each put cost that. Twice as long after each failure, up to the second figure.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// Searches for members take one part of so many of the time, but for one search in the longest pause.
const SEARCH_PART: u32 = 8;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Copies {
    /// Whether it is time to search for members.
    fn is_due(&self, version: u64) -> bool {
        // The clock is read only while a member is missing. A change of the members is always handled.
        self.version != Some(version)
            && self.missed.is_none_or(|missed| missed.version != version || Instant::now() >= missed.again_at)
    }

    /// Notes how a search for members went, and how long it took.
    fn searched(&mut self, version: u64, complete: bool, took: Duration) {
        self.version = complete.then_some(version);
        let pause = self.missed.map_or(TRY_AGAIN.0, |missed| (2 * missed.pause).min(TRY_AGAIN.1));
        // A member whose program does not respond costs the others seconds each time.
        let pause = pause.max((took * SEARCH_PART).min(LONGEST_PAUSE));
        let missed = || Some(Missed { version, again_at: Instant::now().checked_add(pause)?, pause });
        self.missed = if complete { None } else { missed() };
    }
}

/// Writes to every copy. One that does not take it (it is smaller than the others, say) keeps no other member from being
/// reached. Returns the members that are gone or whose connection `has_ended`, and the first other error.
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
        Ok(Self { node: node.clone(), group, members, copies: OwnLock::default() })
    }

    /// Brings `copies` up to date. Costs one load when nothing changed.
    fn copies(&self) -> Result<MutexGuard<'_, Copies>> {
        let mut copies = self.copies.lock().ok_or_else(|| forked(format_args!("group {}", self.group)))?;
        let version = self.members.version();
        if copies.is_due(version) {
            let begin = Instant::now();
            let nodes = self.members.nodes();
            // A copy that has ended may have a successor on the same node.
            let before = copies.connected.len();
            copies.connected.retain(|node, copy| nodes.contains(node) && copy.check().is_ok());
            copies.generation += u64::from(copies.connected.len() != before);
            let mut complete = true;
            for node in nodes {
                if copies.connected.contains_key(&node) {
                    continue;
                }
                // A member that cannot be reached just now is no error of the writer; it is tried again with a later
                // write, until it is reached or its departure is announced.
                let key = SegmentKey::GroupCopy(self.group);
                match RemoteSegment::connect(&self.node, node, key, Duration::ZERO) {
                    Ok(copy) => {
                        copies.connected.insert(node, copy);
                        copies.generation += 1;
                    }
                    Err(_) => complete = false,
                }
            }
            copies.searched(version, complete, begin.elapsed());
        }
        Ok(copies)
    }

    fn each(&self, write: impl FnMut(&RemoteSegment) -> Result<()>) -> Result<Delivered> {
        let mut copies = self.copies()?;
        let has_ended = |copy: &RemoteSegment| copy.connection_failure().is_some();
        let (lost, refused) = write_to_all(&copies.connected, write, has_ended);
        for node in &lost {
            copies.connected.remove(node);
            copies.generation += 1;
            // Looked for again with the next write.
            copies.version = None;
        }
        match refused {
            None => Ok(Delivered { members: copies.connected.len(), lost: lost.len() }),
            Some(error) => Err(error),
        }
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The nodes whose copies are reached now. None from a forked child.
    pub fn members(&self) -> Vec<NodeId> {
        self.copies().map(|copies| copies.connected.keys().copied().collect()).unwrap_or_default()
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
        Ok(self.copies()?.generation)
    }

    /// The copies that are reached now, for maps and DMA, and the generation that they are of.
    pub fn reached(&self) -> Result<(u64, Vec<RemoteSegment>)> {
        let copies = self.copies()?;
        let of = |copy: &RemoteSegment| RemoteSegment { inner: Arc::clone(&copy.inner) };
        Ok((copies.generation, copies.connected.values().map(of).collect()))
    }

    /// Waits until members may have come or gone since the last call, but no longer than `timeout`.
    pub fn wait_change(&self, timeout: Duration) -> Result<()> {
        // A member that could not be reached is tried again without being announced again.
        let missed = self.copies()?.missed.map_or(timeout, |missed| missed.pause.min(timeout));
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

    /// Has stores carried out, in their order, in the copies that cannot be mapped: those on other hosts. They are there when this
    /// returns.
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
    use super::*;

    #[test]
    fn a_member_that_cannot_be_reached_is_not_asked_for_with_every_write() {
        let mut copies = Copies::default();
        assert!(copies.is_due(1));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            copies.searched(1, false, Duration::ZERO);
            pauses.push(copies.missed.unwrap().pause.as_millis());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        // One that takes long to be missed is asked for seldom.
        copies.searched(1, false, Duration::from_secs(2));
        assert_eq!(copies.missed.unwrap().pause, Duration::from_secs(16));
        copies.searched(1, false, Duration::from_secs(8));
        assert_eq!(copies.missed.unwrap().pause, LONGEST_PAUSE);
        copies.searched(1, false, Duration::ZERO);
        assert_eq!(copies.missed.unwrap().pause, TRY_AGAIN.1);
        let again = |seconds| Instant::now() + Duration::from_secs(seconds);
        copies.missed = Some(Missed { version: 1, again_at: again(3600), pause: TRY_AGAIN.1 });
        assert!(!copies.is_due(1));
        assert!(copies.is_due(2), "a change of the members is looked at");
        copies.missed = Some(Missed { version: 1, again_at: again(0), pause: TRY_AGAIN.1 });
        assert!(copies.is_due(1), "its time has come");
        copies.searched(1, true, Duration::ZERO);
        assert!(!copies.is_due(1) && copies.missed.is_none() && copies.is_due(2));
    }

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
