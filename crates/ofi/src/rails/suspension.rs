//! A link whose rail failed under a short put: nobody knows whether that landed, so nothing goes over the
//! link until the program has been told and resumes it.
//!
//! A later put must not arrive where an earlier one is missing, whichever thread puts it: so all calls fail,
//! until somebody resumes. By then the end point of the failed rail is closed at the owner, so that what was
//! lost there does not land late, and what was to be sent again has arrived.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use shm::sync::{AtomicBool, Ordering};

use super::Rails;
use super::core::{Core, State};
use crate::error::{OfiError, Result};

/// Between two looks whether the link may be resumed.
const LOOK: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Suspension {
    is_suspended: AtomicBool,
    /// Rails and the numbers of their end points, which the owner has not said to be closed yet.
    open: Mutex<Vec<(usize, u32)>>,
}

impl Suspension {
    pub(super) fn begin(&self, rail: usize, generation: u32) {
        self.open().push((rail, generation));
        self.is_suspended.store(true, Ordering::SeqCst);
    }

    /// Whether it is waited for until nothing lands there any more.
    pub(super) fn waits_for(&self, rail: usize, generation: u32) -> bool {
        self.open().contains(&(rail, generation))
    }

    /// Nothing lands there any more. Whether it was waited for: then the chunks that were lost there are not
    /// sent again, as they were begun behind what is missing.
    pub(super) fn closed(&self, rail: usize, generation: u32) -> bool {
        let mut open = self.open();
        let at = open.iter().position(|one| *one == (rail, generation));
        at.map(|at| open.swap_remove(at)).is_some()
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_suspended.load(Ordering::SeqCst)
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Vec<(usize, u32)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    #[cold]
    pub(super) fn in_doubt(&self) -> OfiError {
        OfiError::InDoubt { peer: self.first.name().to_owned() }
    }

    /// Whether nothing of before can arrive any more, behind the lock.
    fn is_settled(&self, state: &State) -> bool {
        let is_up = state.recovery.generation_if_up(state.lead).is_some();
        let is_empty = state.again.is_empty() && state.lanes.iter().all(|lane| lane.begun.is_empty());
        is_up && is_empty && self.suspension.open().is_empty()
    }
}

impl Rails {
    /// Goes on after [`OfiError::InDoubt`], when nothing of before can arrive any more. What was put since
    /// the last barrier may be missing, of every thread: it is to be put again. Without such an error it does
    /// nothing.
    ///
    /// # Errors
    /// The link has ended; or a failed rail was not closed within that time: it may be resumed later.
    pub fn resume(&self, limit: Duration) -> Result<()> {
        let (core, begun) = (&self.0, Instant::now());
        while core.suspension.is_on() {
            if let Some(error) = core.ended.get() {
                return Err(error.clone());
            }
            let state = core.state();
            if core.is_settled(&state) {
                core.suspension.is_suspended.store(false, Ordering::SeqCst);
                return Ok(());
            }
            drop(state);
            if begun.elapsed() >= limit {
                return Err(core.in_doubt());
            }
            core.keeper.ring();
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
