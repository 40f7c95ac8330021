//! "Did anything fail since I last looked": the check that makes plain stores safe to rely on.

use std::sync::Arc;

use proto::wire::program::LossReason;

use crate::error::Result;
use crate::remote::RemoteInner;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceStatus {
    /// The link stood and the owner lived the whole time: what was stored has arrived (after a barrier).
    Ok,
    /// The link changed its state in between: what was stored may be missing; start anew and repeat it.
    Retriable,
    /// The other end is gone.
    Lost(LossReason),
}

/// Watches one remote segment between two checks.
#[derive(Debug)]
pub struct Sequence {
    remote: Arc<RemoteInner>,
    generation: u64,
}

impl Sequence {
    pub(crate) fn start(remote: &Arc<RemoteInner>) -> Result<Self> {
        Ok(Self { generation: remote.link_generation()?, remote: Arc::clone(remote) })
    }

    /// Says what happened since the start or the last check, and starts anew.
    pub fn check(&mut self) -> Result<SequenceStatus> {
        if let Some(reason) = self.remote.lost() {
            return Ok(SequenceStatus::Lost(reason));
        }
        let generation = self.remote.link_generation()?;
        if generation != self.generation {
            self.generation = generation;
            return Ok(SequenceStatus::Retriable);
        }
        Ok(SequenceStatus::Ok)
    }
}
