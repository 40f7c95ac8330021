//! Whether stores to a group can be relied on: a sequence for each member.

use std::collections::BTreeMap;
use std::sync::Arc;

use tieline::{NodeId, Sequence, SequenceStatus};

use super::GroupConnection;
use crate::code::Result;

/// Watches the links to all members.
#[derive(Debug)]
pub struct GroupWatch {
    connection: Arc<GroupConnection>,
    generation: Option<u64>,
    members: BTreeMap<NodeId, Sequence>,
}

impl GroupWatch {
    /// Watches from now on.
    pub(crate) fn start(connection: &Arc<GroupConnection>) -> Result<Self> {
        let mut watch =
            Self { connection: Arc::clone(connection), generation: None, members: BTreeMap::new() };
        watch.follow()?;
        Ok(watch)
    }

    fn follow(&mut self) -> Result<()> {
        // If stores cannot follow (no room for a mapping, another processor), copies do, and are
        // watched all the same.
        drop(self.connection.follow());
        let generation = self.connection.group.generation()?;
        if self.generation == Some(generation) {
            return Ok(());
        }
        let (generation, members) = self.connection.group.reached()?;
        self.members.retain(|node, _| members.iter().any(|member| member.node() == *node));
        for member in members {
            if let std::collections::btree_map::Entry::Vacant(place) = self.members.entry(member.node()) {
                place.insert(member.sequence()?);
            }
        }
        self.generation = Some(generation);
        Ok(())
    }

    /// The worst state of the present members. A member that is gone does not count.
    pub(crate) fn check(&mut self) -> Result<SequenceStatus> {
        self.follow()?;
        let mut worst = SequenceStatus::Ok;
        for sequence in self.members.values_mut() {
            if let SequenceStatus::Retriable = sequence.check()? {
                worst = SequenceStatus::Retriable;
            }
        }
        Ok(worst)
    }

    /// Whether the link to a member is down.
    pub(crate) fn is_down(&self) -> bool {
        let down = |member: &tieline::RemoteSegment| matches!(member.check(), Err(tieline::Error::Link(_)));
        self.connection.group.reached().is_ok_and(|(_, members)| members.iter().any(down))
    }
}
