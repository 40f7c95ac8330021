//! What is decided when a rail dies: when it is closed, what is sent again, when it is opened again. Without
//! input, output and clock.
//!
//! The rules that all else serves: a chunk is sent again only after the receiver has confirmed over another
//! rail that the end point of the failed one is closed; until then its bytes may still land, and would
//! overwrite what was put later. And a chunk that may have to be sent again has nothing behind it: a later
//! block begins when it has been confirmed, so that the receiver does not know yet that it is there when it
//! lands for the second time. The number of a rail's end point, its *generation*, goes with each question and
//! answer, so an answer about an earlier one does nothing.
//!
//! The tests search all interleavings of late bytes, errors, questions and answers that are lost, for any
//! rail that fails. Of what is no block they know a word that must not land twice: if the rail fails that it
//! is under way on, nothing goes on (`lead`, `suspension`) until the program resumes the link and puts it
//! again, and then the first one does not land any more.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// See [`Recovery::hurry`].
const HURRY: u64 = 10;

/// A part of a block: the number of the block comes first, so that chunks are ordered as they were begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Chunk {
    pub(crate) block: u64,
    pub(crate) nth: u32,
}

/// Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Limits {
    /// How long a rail that has work, or a question, may confirm nothing.
    pub(crate) silence_ms: u64,
    /// How long a rail stays closed, at first and at most; each failure in a row doubles it.
    pub(crate) pause_ms: u64,
    pub(crate) longest_pause_ms: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Ask the receiver over another rail to close this end point; `over` is `rail` where no rail is left to
    /// carry the question: then it goes by way of the managers.
    AskToClose { rail: usize, generation: u32, over: usize },
    /// Begin this chunk again on any rail that may take it, before chunks of later blocks.
    SendAgain(Chunk),
    /// Ask the receiver over any rail for a new end point of this rail.
    Open { rail: usize, generation: u32 },
    /// No rail was left for too long: all that follows fails.
    PeerFailed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Up,
    /// The receiver was asked over that rail to close it; over this one itself: by way of the managers.
    Closing {
        over: usize,
        asked_ms: u64,
    },
    Closed {
        until_ms: u64,
    },
    Opening {
        asked_ms: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rail {
    phase: Phase,
    generation: u32,
    /// Begun on this end point and not confirmed, in that order.
    unconfirmed: VecDeque<Chunk>,
    /// When it last confirmed something, or got work while it had none.
    progress_ms: u64,
    /// When bytes were last seen to travel over it while it confirmed nothing.
    moved_ms: u64,
    pause_ms: u64,
    /// Since when it is not used, and why.
    reduced: Option<(u64, &'static str)>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Recovery {
    limits: Limits,
    rails: Vec<Rail>,
    /// Since when no rail is used.
    none_since_ms: Option<u64>,
    is_peer_failed: bool,
}

impl Recovery {
    pub(crate) fn new(rails: usize, limits: Limits, now_ms: u64) -> Self {
        let rail = Rail {
            phase: Phase::Up,
            generation: 0,
            unconfirmed: VecDeque::new(),
            progress_ms: now_ms,
            moved_ms: now_ms,
            pause_ms: limits.pause_ms,
            reduced: None,
        };
        Self { limits, rails: vec![rail; rails], none_since_ms: None, is_peer_failed: false }
    }

    /// A rail did not respond when the link was made: nothing was begun on it, so it needs no closing, and is
    /// tried again after a pause.
    pub(crate) fn left_out(&mut self, rail: usize, why: &'static str, now_ms: u64) {
        let its = &mut self.rails[rail];
        its.reduced = Some((now_ms, why));
        its.phase = Phase::Closed { until_ms: now_ms + its.pause_ms };
        its.pause_ms = (2 * its.pause_ms).min(self.limits.longest_pause_ms);
    }

    /// The end point of a rail that takes chunks.
    pub(crate) fn generation_if_up(&self, rail: usize) -> Option<u32> {
        let its = &self.rails[rail];
        (its.phase == Phase::Up && !self.is_peer_failed).then_some(its.generation)
    }

    #[cfg(test)]
    pub(crate) fn is_peer_failed(&self) -> bool {
        self.is_peer_failed
    }

    /// Whether a rail has chunks of blocks before this one that were not confirmed, on whichever end point.
    pub(crate) fn has_earlier(&self, rail: usize, block: u64) -> bool {
        self.rails[rail].unconfirmed.iter().any(|chunk| chunk.block < block)
    }

    /// Since when a rail is not used, and why.
    pub(crate) fn reduced(&self, rail: usize) -> Option<(u64, &'static str)> {
        self.rails[rail].reduced
    }

    /// A chunk was begun on a rail that is up.
    pub(crate) fn begun(&mut self, rail: usize, chunk: Chunk, now_ms: u64) {
        let its = &mut self.rails[rail];
        if its.unconfirmed.is_empty() {
            its.progress_ms = now_ms;
        }
        its.unconfirmed.push_back(chunk);
    }

    /// The provider reports that a chunk has arrived; true: the chunk is done. What an end point reports that
    /// was given up does not count.
    pub(crate) fn confirmed(&mut self, rail: usize, generation: u32, chunk: Chunk, now_ms: u64) -> bool {
        let its = &mut self.rails[rail];
        if its.phase != Phase::Up || its.generation != generation {
            return false;
        }
        let Some(at) = its.unconfirmed.iter().position(|there| *there == chunk) else { return false };
        its.unconfirmed.remove(at);
        its.progress_ms = now_ms;
        its.pause_ms = self.limits.pause_ms;
        true
    }

    /// Bytes travel over this end point, though no chunk has been confirmed yet.
    pub(crate) fn moves(&mut self, rail: usize, generation: u32, now_ms: u64) {
        let its = &mut self.rails[rail];
        if its.phase == Phase::Up && its.generation == generation {
            (its.progress_ms, its.moved_ms) = (now_ms, now_ms);
        }
    }

    /// The owner has answered over this end point: if it fails, it is tried again soon.
    pub(crate) fn responded(&mut self, rail: usize, generation: u32) {
        let its = &mut self.rails[rail];
        if its.phase == Phase::Up && its.generation == generation {
            its.pause_ms = self.limits.pause_ms;
        }
    }

    /// The provider reports an error of an end point.
    pub(crate) fn failed(
        &mut self,
        rail: usize,
        generation: u32,
        why: &'static str,
        now_ms: u64,
    ) -> Vec<Action> {
        let its = &mut self.rails[rail];
        if self.is_peer_failed || its.phase != Phase::Up || its.generation != generation {
            return Vec::new();
        }
        its.reduced = Some((now_ms, why));
        // Until a rail is found to ask over.
        its.phase = Phase::Closing { over: rail, asked_ms: now_ms };
        self.ask_again(rail, now_ms)
    }

    /// For all whose question went over a rail that is not up any more: over one that is. If none is, the
    /// managers carry the questions, until a rail is open again.
    fn ask_again(&mut self, failed: usize, now_ms: u64) -> Vec<Action> {
        let other = (0..self.rails.len()).find(|rail| self.rails[*rail].phase == Phase::Up);
        if other.is_none() {
            self.none_since_ms.get_or_insert(now_ms);
        }
        let mut actions = Vec::new();
        for (rail, its) in self.rails.iter_mut().enumerate() {
            if matches!(its.phase, Phase::Closing { over, .. } if over == failed) {
                let over = other.unwrap_or(rail);
                its.phase = Phase::Closing { over, asked_ms: now_ms };
                actions.push(Action::AskToClose { rail, generation: its.generation, over });
            }
        }
        actions
    }

    /// The receiver says that this end point is closed, so that nothing of it lands any more.
    pub(crate) fn closed(&mut self, rail: usize, generation: u32, now_ms: u64) -> Vec<Action> {
        let its = &mut self.rails[rail];
        if !matches!(its.phase, Phase::Closing { .. }) || its.generation != generation || self.is_peer_failed
        {
            return Vec::new();
        }
        its.phase = Phase::Closed { until_ms: now_ms + its.pause_ms };
        its.pause_ms = (2 * its.pause_ms).min(self.limits.longest_pause_ms);
        its.unconfirmed.drain(..).map(Action::SendAgain).collect()
    }

    /// The receiver has a new end point for the rail.
    pub(crate) fn opened(&mut self, rail: usize, generation: u32, now_ms: u64) {
        let its = &mut self.rails[rail];
        if matches!(its.phase, Phase::Opening { .. }) && its.generation == generation {
            (its.phase, its.progress_ms, its.reduced) = (Phase::Up, now_ms, None);
            self.none_since_ms = None;
            // From here on this rail carries the questions that the managers have carried.
            for (nth, its) in self.rails.iter_mut().enumerate() {
                if matches!(its.phase, Phase::Closing { over, .. } if over == nth) {
                    its.phase = Phase::Closing { over: rail, asked_ms: now_ms };
                }
            }
        }
    }

    /// Whether the receiver was asked to close this end point.
    pub(crate) fn is_closing(&self, rail: usize, generation: u32) -> bool {
        let its = &self.rails[rail];
        matches!(its.phase, Phase::Closing { .. }) && its.generation == generation && !self.is_peer_failed
    }

    /// Whether this end point is waited for.
    pub(crate) fn is_opening(&self, rail: usize, generation: u32) -> bool {
        let its = &self.rails[rail];
        matches!(its.phase, Phase::Opening { .. }) && its.generation == generation && !self.is_peer_failed
    }

    /// The receiver's new end point is not there, or not reached. Nothing was sent to it yet: it may be asked
    /// for again, under another number.
    pub(crate) fn not_opened(&mut self, rail: usize, generation: u32, now_ms: u64) {
        let its = &mut self.rails[rail];
        if matches!(its.phase, Phase::Opening { .. }) && its.generation == generation {
            its.phase = Phase::Closed { until_ms: now_ms + its.pause_ms };
            its.pause_ms = (2 * its.pause_ms).min(self.limits.longest_pause_ms);
        }
    }

    /// No rail that is used responds: none stays closed for longer than `HURRY` times the shortest pause.
    pub(crate) fn hurry(&mut self, now_ms: u64) {
        let latest_ms = now_ms + HURRY * self.limits.pause_ms;
        for its in &mut self.rails {
            if let Phase::Closed { until_ms } = &mut its.phase {
                *until_ms = latest_ms.min(*until_ms);
            }
        }
    }

    /// Looks at the clock.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        let silence_ms = self.limits.silence_ms;
        let is_long = |since_ms: u64| now_ms.saturating_sub(since_ms) >= silence_ms;
        if !self.is_peer_failed && self.none_since_ms.is_some_and(is_long) {
            self.is_peer_failed = true;
            return vec![Action::PeerFailed];
        }
        let moved_ms: Vec<_> = self.rails.iter().map(|its| its.moved_ms).collect();
        for rail in 0..self.rails.len() {
            let its = &mut self.rails[rail];
            match its.phase {
                Phase::Up if !its.unconfirmed.is_empty() && is_long(its.progress_ms) => {
                    let generation = its.generation;
                    actions.extend(self.failed(rail, generation, "it confirmed nothing", now_ms));
                }
                // The rail that the question went over has failed as well, unless the question waits behind
                // what that one carries.
                Phase::Closing { over, asked_ms } if is_long(asked_ms.max(moved_ms[over])) => {
                    let generation = self.rails[over].generation;
                    actions.extend(self.failed(over, generation, "it did not respond", now_ms));
                    // The managers were asked as well in that time.
                    if let Some(since_ms) = &mut self.none_since_ms {
                        *since_ms = asked_ms.min(*since_ms);
                    }
                }
                Phase::Closed { until_ms } if until_ms <= now_ms && !self.is_peer_failed => {
                    its.generation += 1;
                    its.phase = Phase::Opening { asked_ms: now_ms };
                    actions.push(Action::Open { rail, generation: its.generation });
                }
                Phase::Opening { asked_ms } if is_long(asked_ms) => {
                    let generation = its.generation;
                    self.not_opened(rail, generation, now_ms);
                }
                _ => {}
            }
        }
        actions
    }
}
