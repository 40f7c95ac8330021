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
//!   [`Group::members`] says who that is. There is no history.
//! - A member that dies is left out from the next put on; [`Delivered`] says how many were reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::ids::{GroupId, NodeId, SegmentKey};
use shm::window::Window;

use crate::error::{Error, Result};
use crate::events::Members;
use crate::node::Node;
use crate::remote::RemoteSegment;
use crate::segment::Segment;

/// This node's copy of a group. Dropping it leaves the group.
#[derive(Debug)]
pub struct GroupMember {
    group: GroupId,
    copy: Segment,
}

impl GroupMember {
    pub(crate) fn join(node: &Node, group: GroupId, size_bytes: usize) -> Result<Self> {
        let copy = Segment::create_group_copy(node, group, size_bytes)?;
        copy.make_available()?;
        Ok(Self { group, copy })
    }

    /// Which group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The copy. What is stored here stays here.
    pub fn window(&self) -> Window<'_> {
        self.copy.window()
    }

    /// Bytes.
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
    copies: Mutex<Copies>,
}

#[derive(Debug, Default)]
struct Copies {
    /// `Members::version` that `connected` reflects.
    version: Option<u64>,
    connected: BTreeMap<NodeId, RemoteSegment>,
}

impl Group {
    pub(crate) fn connect(node: &Node, group: GroupId) -> Result<Self> {
        let members = Arc::new(Members::default());
        // Registered first, so that nobody who joins in between is missed.
        node.events().register_group(group, &members);
        for member in node.client().watch_group(group)? {
            members.change(member, true);
        }
        Ok(Self { node: node.clone(), group, members, copies: Mutex::default() })
    }

    /// Brings `copies` up to date. Costs one load when nothing changed.
    fn copies(&self) -> MutexGuard<'_, Copies> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.members.version();
        if copies.version != Some(version) {
            let nodes = self.members.nodes();
            // A copy that has ended may have a successor on the same node.
            copies.connected.retain(|node, copy| nodes.contains(node) && copy.check().is_ok());
            let mut complete = true;
            for node in nodes {
                if copies.connected.contains_key(&node) {
                    continue;
                }
                // A member that cannot be reached just now is no error of the writer; it is tried again with the next
                // write, until it is reached or its departure is announced.
                let key = SegmentKey::GroupCopy(self.group);
                match RemoteSegment::connect(&self.node, node, key, Duration::ZERO) {
                    Ok(copy) => drop(copies.connected.insert(node, copy)),
                    Err(_) => complete = false,
                }
            }
            copies.version = complete.then_some(version);
        }
        copies
    }

    fn each(&self, mut write: impl FnMut(&RemoteSegment) -> Result<()>) -> Result<Delivered> {
        let mut copies = self.copies();
        let mut lost = Vec::new();
        for (node, copy) in &copies.connected {
            match write(copy) {
                Ok(()) => {}
                Err(Error::Lost { .. }) => lost.push(*node),
                Err(other) => return Err(other),
            }
        }
        for node in &lost {
            copies.connected.remove(node);
            // Looked for again with the next write.
            copies.version = None;
        }
        Ok(Delivered { members: copies.connected.len(), lost: lost.len() })
    }

    /// Which group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The nodes whose copies are reached now.
    pub fn members(&self) -> Vec<NodeId> {
        self.copies().connected.keys().copied().collect()
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

    /// Writes a block to all copies.
    pub fn put(&self, offset: usize, from: &[u8]) -> Result<Delivered> {
        self.each(|copy| copy.put(offset, from))
    }

    /// Stores one aligned word to all copies, each at once and whole.
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<Delivered> {
        self.each(|copy| {
            copy.check()?;
            let word = copy.inner.memory.map()?;
            // Release: pairs with the Acquire load of a member that polls this word for data put before it.
            word.atomic_u32(offset)?.store(value, shm::sync::Ordering::Release);
            Ok(())
        })
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
