//! Numbers of messages to the owner: the owner carries each out once, however often and over whichever rail
//! it comes. Without input, output and clock.
//!
//! There are two kinds. A *trigger* says how many there have been: one that arrives makes up for all before
//! it that were lost ([`Counted`]). A *message* has an outcome. The owner keeps the outcomes of the latest
//! [`WINDOW`] numbers and answers a number that it has carried out with its outcome ([`Once`]). The sender
//! begins no number while the one [`WINDOW`] before it is not answered ([`Open`]): so what it sends again is
//! never older than what the owner knows.
//!
//! Nothing is assumed of the rails: what they carry may be lost, repeated, and late by any time.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Numbers that a sender has open at most, and outcomes that an owner keeps. Both ends must have the same.
pub(crate) const WINDOW: usize = 256;

/// The owner's, of triggers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Counted(u64);

impl Counted {
    /// So many were made: how many of them are new. `None`: more than a sender of ours makes before it hears
    /// of one, and nothing is counted.
    pub(crate) fn up_to(&mut self, number: u64) -> Option<u32> {
        let new = u32::try_from(number.saturating_sub(self.0)).ok()?;
        self.0 = self.0.max(number);
        Some(new)
    }

    /// The last that was counted.
    pub(crate) fn last(&self) -> u64 {
        self.0
    }
}

/// The owner's, of messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Once<T> {
    /// None higher has come.
    highest: u64,
    /// Of the latest numbers, each at its remainder; `None`: it has not come.
    outcomes: Box<[Option<T>]>,
}

impl<T: Copy> Once<T> {
    /// Keeps so many outcomes, one at least.
    pub(crate) fn new(window: usize) -> Self {
        Self { highest: 0, outcomes: vec![None; window.max(1)].into() }
    }

    /// What becomes of a message, or has become of it; `None`: it is too old to be known, so its sender has
    /// an answer.
    pub(crate) fn carry_out(&mut self, number: u64, act: impl FnOnce() -> T) -> Option<T> {
        let window = self.outcomes.len() as u64;
        if number <= self.highest.saturating_sub(window) {
            return None;
        }
        let new = number.saturating_sub(self.highest);
        for passed in 0..new.min(window) {
            let at = (number - passed) % window;
            self.outcomes[at as usize] = None;
        }
        self.highest = self.highest.max(number);
        let outcome = &mut self.outcomes[(number % window) as usize];
        Some(*outcome.get_or_insert_with(act))
    }
}

/// The sender's, of messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Open {
    window: usize,
    /// The number at the front of `open`.
    oldest: u64,
    /// Whether each number from the oldest open one on has been answered.
    open: VecDeque<bool>,
}

impl Open {
    pub(crate) fn new(window: usize) -> Self {
        Self { window, oldest: 1, open: VecDeque::new() }
    }

    /// The number of a message that begins; `None`: one that is as old as the owner knows is still open.
    pub(crate) fn take(&mut self) -> Option<u64> {
        if self.open.len() >= self.window {
            return None;
        }
        self.open.push_back(false);
        Some(self.oldest + self.open.len() as u64 - 1)
    }

    /// Its sender has an answer, and does not send it again.
    pub(crate) fn answered(&mut self, number: u64) {
        let at = number.checked_sub(self.oldest).and_then(|at| usize::try_from(at).ok());
        if let Some(is_answered) = at.and_then(|at| self.open.get_mut(at)) {
            *is_answered = true;
        }
        while self.open.front() == Some(&true) {
            self.open.pop_front();
            self.oldest += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
