//! Sending messages that have numbers, by which the owner carries each out once: again over another rail when
//! theirs fails.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::core::Core;
use super::lead::Lead;
use super::numbers::{Open, WINDOW};
use crate::error::{OfiError, Result};
use crate::lasting::Lasting;
use crate::message::Answer;
use crate::slots::Kind;

/// The keeper need not know of a message that is answered within such a part of the time for which a rail may
/// be silent.
const SOON: u32 = 4;

/// Numbers that this side's threads take. As many are open at a time as the owner keeps outcomes; who wants
/// one more waits.
#[derive(Debug)]
pub(super) struct NumberPool {
    open: Mutex<Open>,
    has_room: Condvar,
}

impl Default for NumberPool {
    fn default() -> Self {
        Self { open: Mutex::new(Open::new(WINDOW)), has_room: Condvar::new() }
    }
}

impl NumberPool {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether none is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open().is_empty()
    }

    /// The number of a message that begins; `None`: too many were open for all that time.
    pub(super) fn take(&self, limit: Duration) -> Option<u64> {
        let until = Instant::now() + limit;
        let mut open = self.open();
        loop {
            if let Some(number) = open.take() {
                return Some(number);
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return None;
            }
            open = self.has_room.wait_timeout(open, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The message is not sent again.
    pub(super) fn answered(&self, number: u64) {
        self.open().answered(number);
        self.has_room.notify_all();
    }
}

impl Core {
    /// Sends a message with a number over the rail that carries what is short, again over another rail if
    /// that one fails, and waits for the owner's answer. `begin` sends it, and returns its slot.
    ///
    /// # Errors
    /// No answer within the settings' limit, in which no bytes travel over the rail either, ends the link:
    /// nobody knows whether the owner has carried it out.
    pub(super) fn send_numbered(
        &self,
        kind: Kind,
        numbers: &NumberPool,
        begin: impl Fn(&Lead<'_>, u64) -> Result<usize>,
    ) -> Result<Option<Answer>> {
        self.check()?;
        let started = Instant::now();
        let late = || self.not_done(kind, "the peer did not respond over any rail");
        let number = numbers.take(self.limit()).ok_or_else(late)?;
        let soon = self.first.inside.engine.settings.rail_silence / SOON;
        let mut lasting = Lasting::new(self.limit());
        let answered = self.over_lead(|lead| {
            let (peer, slot) = (lead.peer(), begin(lead, number)?);
            let carried = || Some(peer.state.carried()?.bytes);
            let mut longest = soon;
            while let Some(rest) = lasting.rest(started.elapsed(), carried) {
                if let Some(answer) = peer.answer_within(slot, longest.min(rest))? {
                    return Ok(answer);
                }
                self.keeper.ring();
                longest = Duration::MAX;
            }
            peer.let_go(slot);
            Err(late())
        });
        numbers.answered(number);
        answered.map_err(|error| match error {
            OfiError::Refused { .. } | OfiError::InDoubt { .. } => error,
            error => self.end(error),
        })
    }
}
