//! Which nodes hold a copy of which group.

use std::collections::BTreeSet;

use super::objects::limit;
use super::{Manager, ProgramConn};
use crate::ids::{GroupId, NodeId, SegmentKey};
use crate::wire::peer::PeerMessage;
use crate::wire::program::{Event, Imported, Refusal, Reply};

/// Groups that one program may watch.
const MAX_WATCHES: usize = 1024;

impl Manager {
    pub(super) fn watch(&mut self, program: ProgramConn, group: GroupId) -> Result<Reply, Refusal> {
        let Some(entry) = self.programs.get_mut(&program) else { return Ok(Reply::Done) };
        if entry.watches.len() >= MAX_WATCHES && !entry.watches.contains(&group) {
            return Err(limit("groups that one program watches", MAX_WATCHES as u64));
        }
        entry.watches.insert(group);
        self.watchers.entry(group).or_default().insert(program);
        let own = self.holds_copy(group).then_some(self.own);
        let others = self.peers.iter().filter(|(_, peer)| peer.groups.contains(&group));
        let members: BTreeSet<NodeId> = others.map(|(&node, _)| node).chain(own).collect();
        Ok(Reply::Members(members.into_iter().collect()))
    }

    pub(super) fn unwatch(&mut self, program: ProgramConn, group: GroupId) {
        if let Some(entry) = self.programs.get_mut(&program) {
            entry.watches.remove(&group);
        }
        if let Some(watchers) = self.watchers.get_mut(&group) {
            watchers.remove(&program);
            if watchers.is_empty() {
                self.watchers.remove(&group);
            }
        }
    }

    /// This node holds an available copy.
    fn holds_copy(&self, group: GroupId) -> bool {
        self.objects
            .get(&Imported::Segment(SegmentKey::GroupCopy(group)))
            .is_some_and(super::objects::Object::available)
    }

    /// A copy of this node has come or gone.
    pub(super) fn own_copy_changed(&mut self, group: GroupId, joined: bool) {
        let valid = self.peers.iter().filter(|(_, peer)| peer.session.is_valid());
        let nodes: Vec<NodeId> = valid.map(|(&node, _)| node).collect();
        for node in nodes {
            self.announce(node, group, joined);
        }
        self.tell_watchers(group, self.own, joined);
    }

    /// Tells a peer what differs from what it knows. The session is valid.
    pub(super) fn announce_copies(&mut self, node: NodeId) {
        let copies = Imported::Segment(SegmentKey::GroupCopy(GroupId(0)))
            ..=Imported::Segment(SegmentKey::GroupCopy(GroupId(u32::MAX)));
        let held: BTreeSet<GroupId> = self
            .objects
            .range(copies)
            .filter_map(|(what, object)| match what {
                Imported::Segment(SegmentKey::GroupCopy(group)) if object.available() => Some(*group),
                _ => None,
            })
            .collect();
        let told = self.peer_entry(node).told.clone();
        for &group in told.difference(&held) {
            self.announce(node, group, false);
        }
        for &group in held.difference(&told) {
            self.announce(node, group, true);
        }
    }

    fn announce(&mut self, node: NodeId, group: GroupId, joined: bool) {
        let told = &mut self.peer_entry(node).told;
        let news = if joined { told.insert(group) } else { told.remove(&group) };
        if news {
            self.send_peer(node, PeerMessage::Member { group, joined }, Vec::new());
        }
    }

    /// A copy of another node has come or gone, or is there still.
    pub(super) fn peer_member(&mut self, node: NodeId, group: GroupId, joined: bool) {
        let peer = self.peer_entry(node);
        peer.stale_groups.remove(&group);
        let news = if joined { peer.groups.insert(group) } else { peer.groups.remove(&group) };
        if news {
            self.tell_watchers(group, node, joined);
        }
    }

    fn tell_watchers(&mut self, group: GroupId, node: NodeId, joined: bool) {
        for program in self.watchers.get(&group).cloned().unwrap_or_default() {
            self.event(program, Event::Member { group, node, joined }, Vec::new());
        }
    }
}
