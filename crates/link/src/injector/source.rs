//! Where an injector reads the current faults of a link.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use proto::fault::LinkFaults;
use proto::ids::NodeId;

/// A link as the next operation finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Condition {
    /// Nothing passes: every operation fails with [`crate::LinkError::Down`].
    pub down: bool,
    /// What is done to what passes.
    pub faults: LinkFaults,
}

/// Asked before every operation, so it must cost next to nothing while nothing is wrong.
pub trait FaultSource: Send + Sync + Debug {
    /// How the link to this node is now.
    fn condition(&self, node: NodeId) -> Condition;
}

/// A source that is set by hand: for tests, and for programs that injure only themselves.
#[derive(Debug, Default)]
pub struct FaultPanel {
    conditions: Mutex<BTreeMap<NodeId, Condition>>,
}

impl FaultPanel {
    /// From now on, the link to `node` is like this.
    pub fn set(&self, node: NodeId, condition: Condition) {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner).insert(node, condition);
    }
}

impl FaultSource for FaultPanel {
    fn condition(&self, node: NodeId) -> Condition {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied().unwrap_or_default()
    }
}
