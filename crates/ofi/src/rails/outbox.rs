//! The sender's end of messages that have numbers: what was under way when a rail failed is sent again over
//! another one.
//!
//! A trigger is sent once, and nobody waits for it. While one is not confirmed, the keeper asks the owner
//! over the rail that carries what is short how many it has counted, and says how many were made: so the
//! question makes up for triggers that were lost, and whether it is answered tells whether the rail responds.
//! A message is sent again by the thread that waits for its answer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use shm::sync::{AtomicU64, Ordering};

use super::Rails;
use super::core::{Core, State};
use super::numbered::NumberPool;
use super::probe::PERIOD;
use super::question::{Answer as Word, Question};
use crate::error::{OfiError, Result};
use crate::message::{ANSWER_WORDS, Answer, DATA_BYTES_MAX, Delivery};
use crate::slots::Kind;

/// A rail is late if an answer takes so many times as long as it took before.
const TIMES: u32 = 4;
/// Between two looks whether something was confirmed.
const LOOK: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug)]
pub struct Outbox {
    /// Triggers.
    made: AtomicU64,
    /// Those that the owner is known to have counted.
    confirmed: AtomicU64,
    /// Messages.
    numbers: NumberPool,
    /// How long answers have taken lately; 0: there was none.
    response_ns: AtomicU64,
    /// What was confirmed when that changed last, and when that was, by the decisions' clock.
    last: Mutex<(u64, Duration)>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            made: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            numbers: NumberPool::default(),
            response_ns: AtomicU64::new(0),
            last: Mutex::default(),
        }
    }
}

impl Outbox {
    fn has_unconfirmed(&self) -> bool {
        self.confirmed.load(Ordering::SeqCst) < self.made.load(Ordering::SeqCst)
    }

    /// Whether the owner has not answered yet for everything.
    pub(super) fn is_open(&self) -> bool {
        self.has_unconfirmed() || !self.numbers.is_empty()
    }

    /// What the owner is asked, which counts by it what was lost.
    pub(super) fn question(&self) -> Vec<u8> {
        Question::Triggered { made: self.made.load(Ordering::SeqCst) }.encode()
    }

    /// The owner has answered after that time.
    pub(super) fn heard(&self, words: [u64; ANSWER_WORDS], took: Duration) {
        if let Word::Counted(last) = Word::of(words) {
            // Never more than were made, whatever the owner says.
            let last = last.min(self.made.load(Ordering::SeqCst));
            self.confirmed.fetch_max(last, Ordering::SeqCst);
        }
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        // Relaxed: it affects only when a rail is late, so one of two that the keeper and `confirm` hear at
        // once may be lost. A long one is forgotten slowly.
        let before_ns = self.response_ns.load(Ordering::Relaxed);
        self.response_ns.store(took_ns.max(before_ns - before_ns / 8), Ordering::Relaxed);
    }

    /// How long an answer may take while one is wanted.
    pub(super) fn patience(&self, least: Duration) -> Duration {
        match self.response_ns.load(Ordering::Relaxed) {
            0 => PERIOD.max(least),
            response_ns => (TIMES * Duration::from_nanos(response_ns)).max(least),
        }
    }

    /// For how long triggers have been waiting while none was confirmed.
    fn waits_since(&self, now: Duration) -> Duration {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let confirmed = self.confirmed.load(Ordering::SeqCst);
        if confirmed != last.0 || !self.has_unconfirmed() {
            *last = (confirmed, now);
        }
        now - last.1
    }
}

impl Core {
    #[inline]
    pub(super) fn outbox(&self) -> Option<&Outbox> {
        self.recover.as_ref()?.outbox.as_ref()
    }

    pub(super) fn limit(&self) -> Duration {
        self.first.inside.engine.settings.give_up_after
    }

    #[cold]
    pub(super) fn not_done(&self, kind: Kind, state: &'static str) -> OfiError {
        let limit_ms = u64::try_from(self.limit().as_millis()).unwrap_or(u64::MAX);
        OfiError::TimedOut { what: kind.name(), peer: self.first.name().to_owned(), limit_ms, state }
    }

    /// An error if triggers have been waiting for too long: nobody knows whether they were counted.
    pub(super) fn check_outbox(&self, state: &State) -> Result<()> {
        match self.outbox() {
            Some(outbox) if outbox.waits_since(state.clock) >= self.limit() => {
                Err(self.not_done(Kind::Trigger, "the peer did not confirm over any rail"))
            }
            _ => Ok(()),
        }
    }

    fn trigger(&self, outbox: &Outbox) -> Result<()> {
        self.check()?;
        let number = outbox.made.fetch_add(1, Ordering::SeqCst) + 1;
        let sent = self.over_lead(|lead| lead.peer().trigger(lead.bell(), number));
        self.keeper.ring();
        match sent {
            // It is made up for, as one that was lost.
            Err(_) if self.failure().is_none() => Ok(()),
            other => other,
        }
    }

    /// Waits until the owner has counted all triggers that were made.
    fn confirm(&self, outbox: &Outbox) -> Result<()> {
        // A forked child must not wait for what threads of its parent do.
        if !self.first.inside.is_own() {
            return Ok(());
        }
        let least = self.first.inside.engine.settings.rail_silence;
        let (made, started) = (outbox.made.load(Ordering::SeqCst), Instant::now());
        while outbox.confirmed.load(Ordering::SeqCst) < made {
            self.check()?;
            let rest = self.limit().saturating_sub(started.elapsed());
            if rest.is_zero() {
                return Err(self.not_done(Kind::Trigger, "the peer did not confirm"));
            }
            let (lead, asked) = (self.lead(), Instant::now());
            let patience = outbox.patience(least).min(rest);
            match lead.peer().ask_within(lead.bell(), &outbox.question(), patience) {
                Ok(words) => outbox.heard(words, asked.elapsed()),
                Err(error @ OfiError::Refused { .. }) => return Err(error),
                // The keeper asks over the others, and moves.
                Err(_) => {
                    self.keeper.ring();
                    std::thread::sleep(LOOK);
                }
            }
        }
        Ok(())
    }

    fn send(&self, outbox: &Outbox, data: &[u8]) -> Result<Delivery> {
        if data.len() > DATA_BYTES_MAX {
            return Ok(Delivery::TooLong);
        }
        let answer = self.send_numbered(Kind::Message, &outbox.numbers, |lead, number| {
            lead.peer().begin_numbered(Kind::Message, lead.bell(), number, data)
        })?;
        match answer {
            Some(Answer::Took(delivery)) => Ok(delivery),
            _ => Err(self.first.has_no_doorbell()),
        }
    }
}

impl Rails {
    /// As of a peer, with a doorbell at the owner's end point of the rail that carries what is short. Where
    /// messages have numbers, that of the rail is rung, and what a rail loses is made up for over another
    /// one.
    #[inline]
    pub fn ring(&self, bell: u64) -> Result<()> {
        match self.0.outbox() {
            None => self.over_lead(|lead| lead.peer().ring(bell)),
            Some(outbox) => self.0.trigger(outbox),
        }
    }

    /// As of a peer.
    pub fn confirm_rings(&self) -> Result<()> {
        match self.0.outbox() {
            None => self.0.over_lead(|lead| lead.peer().confirm_rings()),
            Some(outbox) => self.0.confirm(outbox),
        }
    }

    /// As of a peer, with a doorbell as of [`Self::ring`].
    pub fn deliver(&self, bell: u64, data: &[u8]) -> Result<Delivery> {
        match self.0.outbox() {
            None => self.over_lead(|lead| lead.peer().deliver(bell, data)),
            Some(outbox) => self.0.send(outbox, data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_rail_is_late_by_what_answers_took_before() {
        let outbox = Outbox::default();
        assert_eq!(outbox.patience(50 * MS), PERIOD);
        outbox.heard([9; 4], 2 * MS);
        assert_eq!(outbox.patience(50 * MS), 50 * MS);
        outbox.heard([9; 4], 100 * MS);
        outbox.heard([9; 4], 2 * MS);
        assert!(outbox.patience(50 * MS) > 300 * MS, "one that is short does not make the next one late");
        (0..100).for_each(|_| outbox.heard([9; 4], 2 * MS));
        assert_eq!(outbox.patience(50 * MS), 50 * MS);
    }

    #[test]
    fn what_waits_is_known_by_what_is_confirmed() {
        let outbox = Outbox::default();
        assert_eq!((outbox.is_open(), outbox.waits_since(500 * MS)), (false, Duration::ZERO));
        outbox.made.store(3, Ordering::SeqCst);
        assert_eq!((outbox.is_open(), outbox.waits_since(700 * MS)), (true, 200 * MS));
        outbox.heard(Word::Counted(2).words(), MS);
        assert_eq!((outbox.is_open(), outbox.waits_since(800 * MS)), (true, Duration::ZERO));
        assert_eq!(outbox.waits_since(900 * MS), 100 * MS);
        outbox.heard(Word::Counted(u64::MAX).words(), MS);
        assert_eq!((outbox.is_open(), outbox.waits_since(950 * MS)), (false, Duration::ZERO));
        outbox.made.store(4, Ordering::SeqCst);
        assert!(outbox.is_open(), "no answer confirms what was not made");
        let number = outbox.numbers.take(Duration::ZERO).unwrap();
        outbox.heard(Word::Counted(4).words(), MS);
        assert!(outbox.is_open());
        outbox.numbers.answered(number);
        assert!(!outbox.is_open());
    }
}
