//! The contract of a link as test bodies, each of which runs on every link.
//!
//! What it is for: a link is right when these bodies pass on it. A body that needs an ability which the link
//! lacks says so and passes as skipped, visibly; a link that claims an ability must show it.
//!
//! What it must never do: know anything about one particular link.
//!
//! Where to start reading: [`Subject`], then any function of [`memory`]; instantiated in `tests/`.
#![forbid(unsafe_code)]

pub mod memory;

use std::sync::Arc;

use link::{Capabilities, Grant, Link, RemoteMemory};
use proto::ids::NodeId;
use shm::region::{Region, RegionOptions};

/// A link with memory at its far end.
#[derive(Debug)]
pub struct Subject {
    /// Under test.
    pub link: Arc<dyn Link>,
    /// The owner's own view of the memory.
    pub owner: Arc<Region>,
    /// The view through the link.
    pub remote: Arc<dyn RemoteMemory>,
}

/// What a body came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All asserted.
    Passed,
    /// The link lacks these abilities.
    Skipped(Vec<&'static str>),
}

/// A body.
pub type Body = fn(&Subject);

impl Subject {
    /// Memory of `size_bytes` at the far end of `link`.
    pub fn new(link: Arc<dyn Link>, size_bytes: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let owner = Region::create(&RegionOptions::new("conformance", size_bytes))?;
        let memory = owner.fd().try_clone_to_owned()?;
        let remote = link.open(Grant { node: NodeId::new(8)?, size_bytes: size_bytes as u64, memory })?;
        Ok(Self { link, owner: Arc::new(owner), remote })
    }

    /// Runs a body if the link has what it needs.
    pub fn run(&self, needs: Capabilities, body: Body) -> Outcome {
        let missing = needs.without(self.link.capabilities()).names();
        if missing.is_empty() {
            body(self);
            return Outcome::Passed;
        }
        Outcome::Skipped(missing)
    }
}
