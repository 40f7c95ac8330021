//! The sending half of a pair: announces blocks, reads the acknowledgements, repeats blocks that did not
//! arrive.
//!
//! It has no clock and no memory of its own: time is a parameter, the peer's inbox is a function that puts
//! bytes, the own one a function that reads words. So its tests lose, change and delay puts as they like.

use super::ledger::{Ledger, Outage};
use super::pattern::Pattern;
use super::scan::{Mangled, Wanted, newest};
use super::words::{
    MAX_ATTEMPTS, Meaning, Number, Route, WINDOW, announced_at, answered_at, slot_at, slot_of,
};

/// How long answers may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// The first answer may take this long before the block is sent again; each later one twice as long.
    pub(super) patience_ns: u64,
    /// No answer for so long is a failure.
    pub(super) failure_after_ns: u64,
}

/// More doublings than these make nothing better.
const MAX_DOUBLINGS: u8 = 4;

/// A block under way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    number: Number,
    len: usize,
    /// Attempts whose announcement was put.
    attempts: u8,
    /// Answers before this one are accounted for.
    answers: u8,
    first_ns: u64,
    last_ns: u64,
}

impl Timing {
    fn patience_ns(&self, sent: &Sent) -> u64 {
        self.patience_ns << sent.attempts.saturating_sub(1).min(MAX_DOUBLINGS)
    }
}

/// Why nothing more can be sent for now.
#[derive(Debug)]
pub(super) struct Blocked<E>(pub(super) E);

#[derive(Debug)]
pub(super) struct Outgoing {
    route: Route,
    min_bytes: usize,
    max_bytes: usize,
    next: Number,
    slots: [Option<Sent>; WINDOW],
    block: Vec<u8>,
    outage: Outage,
    timing: Timing,
    /// Words that are wrong.
    mangled: [Mangled; WINDOW],
}

impl Outgoing {
    pub(super) fn new(route: Route, min_bytes: usize, max_bytes: usize, timing: Timing) -> Self {
        Self {
            route,
            min_bytes,
            max_bytes,
            next: 1,
            slots: [None; WINDOW],
            block: vec![0; max_bytes],
            outage: Outage::default(),
            timing,
            mangled: [Mangled::default(); WINDOW],
        }
    }

    /// Nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Whether nothing gets through at the moment.
    #[cfg(test)]
    pub(super) fn fails(&self) -> bool {
        self.outage.lasts()
    }

    /// The run ends, or the peer is gone: a failure that lasts ends with it.
    pub(super) fn end(&mut self, now_ns: u64, ledger: &mut Ledger) {
        self.outage.end(now_ns, ledger);
    }

    /// Something outside of the blocks shows that nothing gets through.
    pub(super) fn begin_failure(&mut self, now_ns: u64, ledger: &mut Ledger) {
        self.outage.begin(now_ns, ledger);
    }

    /// Reads answers; returns whether there were any.
    pub(super) fn take_answers(
        &mut self,
        now_ns: u64,
        word_at: impl Fn(usize) -> u64,
        ledger: &mut Ledger,
    ) -> bool {
        let mut progress = false;
        for slot in 0..WINDOW {
            let Some(mut sent) = self.slots[slot] else { continue };
            let wanted = Wanted {
                route: self.route,
                number: sent.number,
                from: sent.answers,
                meanings: &[Meaning::Right, Meaning::Wrong],
            };
            let word = |index| word_at(answered_at(slot, index));
            let mangled = &mut self.mangled[slot];
            let Some((attempt, meaning)) = newest(wanted, now_ns, word, mangled, ledger) else { continue };
            progress = true;
            sent.answers = attempt.saturating_add(1);
            if self.outage.end(now_ns, ledger) {
                // Of the same failure: what else was under way is late by that, and has its time from here
                // on.
                self.slots.iter_mut().flatten().for_each(|other| other.first_ns = now_ns);
                sent.first_ns = now_ns;
            }
            if meaning == Meaning::Right {
                ledger.blocks_sent += 1;
                ledger.bytes_sent += sent.len as u64;
                self.slots[slot] = None;
            } else {
                // Due at once.
                sent.last_ns = 0;
                self.slots[slot] = Some(sent);
            }
        }
        progress
    }

    /// Sends what is due: again what was not answered in time or was wrong, then, if `more`, new blocks into
    /// free slots. Says how many bytes were put.
    pub(super) fn send<E>(
        &mut self,
        now_ns: u64,
        more: bool,
        mut put: impl FnMut(usize, &[u8]) -> Result<(), E>,
        ledger: &mut Ledger,
    ) -> Result<usize, Blocked<E>> {
        let mut bytes = 0;
        for slot in 0..WINDOW {
            let Some(sent) = self.slots[slot] else { continue };
            if now_ns.saturating_sub(sent.first_ns) > self.timing.failure_after_ns {
                self.outage.begin(sent.first_ns, ledger);
            }
            if now_ns.saturating_sub(sent.last_ns) > self.timing.patience_ns(&sent)
                && sent.attempts < MAX_ATTEMPTS
            {
                bytes += self.put_block(sent, now_ns, &mut put, ledger)?;
                ledger.retries += 1;
            }
        }
        for _ in 0..WINDOW {
            let number = self.next;
            if !more || self.slots[slot_of(number)].is_some() {
                break;
            }
            let len = self.route.block_len(number, self.min_bytes, self.max_bytes);
            let fresh = Sent { number, len, attempts: 0, answers: 0, first_ns: now_ns, last_ns: now_ns };
            bytes += self.put_block(fresh, now_ns, &mut put, ledger)?;
            self.next = self.next.wrapping_add(1);
        }
        Ok(bytes)
    }

    fn put_block<E>(
        &mut self,
        sent: Sent,
        now_ns: u64,
        put: &mut impl FnMut(usize, &[u8]) -> Result<(), E>,
        ledger: &mut Ledger,
    ) -> Result<usize, Blocked<E>> {
        let slot = slot_of(sent.number);
        let block = self.block.get_mut(..sent.len).unwrap_or_default();
        Pattern::new(self.route.block_seed(sent.number)).fill(block);
        let word = self.route.word(Meaning::Announced, sent.number, sent.attempts).to_le_bytes();
        let result = put(slot_at(slot, self.max_bytes), block)
            .and_then(|()| put(announced_at(slot, sent.attempts), &word));
        if let Err(error) = result {
            ledger.refused += 1;
            self.outage.begin(now_ns, ledger);
            return Err(Blocked(error));
        }
        self.slots[slot] = Some(Sent { attempts: sent.attempts + 1, last_ns: now_ns, ..sent });
        Ok(sent.len)
    }
}
