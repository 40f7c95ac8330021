//! The receiving half of a pair: finds announced blocks, compares every byte, acknowledges them.

use super::ledger::Ledger;
use super::pattern::Pattern;
use super::scan::{LATE_NS, Mangled, Wanted, newest};
use super::words::{
    LINE_WORDS, MAX_ATTEMPTS, Meaning, Number, Route, WINDOW, announced_at, answered_at, slot_at, slot_of,
};

/// Pieces in which a block is fetched and compared: they stay in the first cache.
const PIECE_BYTES: usize = 4096;

/// What is known of the block that a slot waits for.
#[derive(Debug, Clone, Copy)]
struct Expected {
    number: Number,
    /// Announcements before this attempt are accounted for.
    announcements: u8,
    answers: u8,
    /// It is announced and wrong, since then.
    wrong_since_ns: Option<u64>,
}

/// The block before that one: answered as right, but the answer may have been lost.
#[derive(Debug, Clone, Copy)]
struct Answered {
    number: Number,
    announcements: u8,
    answers: u8,
}

#[derive(Debug)]
pub(super) struct Incoming {
    route: Route,
    min_bytes: usize,
    max_bytes: usize,
    slots: [Expected; WINDOW],
    before: [Option<Answered>; WINDOW],
    piece: Vec<u8>,
    mangled: [Mangled; WINDOW],
}

/// What the memory holds where a block should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Right,
    /// What was there before: the block has not arrived.
    Old,
    Changed,
}

impl Incoming {
    pub(super) fn new(route: Route, min_bytes: usize, max_bytes: usize) -> Self {
        let mut slots = [Expected { number: 0, announcements: 0, answers: 0, wrong_since_ns: None }; WINDOW];
        for number in 1..=WINDOW as Number {
            slots[slot_of(number)].number = number;
        }
        Self {
            route,
            min_bytes,
            max_bytes,
            slots,
            before: [None; WINDOW],
            piece: vec![0; PIECE_BYTES],
            mangled: [Mangled::default(); WINDOW],
        }
    }

    /// Looks once at every slot; says how many bytes were compared. `word_at` and `read` look at the own
    /// inbox, `put` writes into the peer's.
    pub(super) fn receive<E>(
        &mut self,
        now_ns: u64,
        word_at: impl Fn(usize) -> u64,
        read: impl Fn(usize, &mut [u8]),
        mut put: impl FnMut(usize, &[u8]) -> Result<(), E>,
        ledger: &mut Ledger,
    ) -> Result<usize, E> {
        let mut bytes = 0;
        for slot in 0..WINDOW {
            self.answer_again(slot, &word_at, &mut put)?;
            let expected = self.slots[slot];
            let wanted = Wanted {
                route: self.route,
                number: expected.number,
                from: expected.announcements,
                meanings: &[Meaning::Announced],
            };
            let word = |index| word_at(announced_at(slot, index));
            if let Some((attempt, _)) = newest(wanted, now_ns, word, &mut self.mangled[slot], ledger) {
                self.slots[slot].announcements = attempt.saturating_add(1);
            } else if expected.wrong_since_ns.is_none() {
                continue;
            }
            bytes += self.compare(slot, now_ns, &read, &mut put, ledger)?;
        }
        Ok(bytes)
    }

    fn compare<E>(
        &mut self,
        slot: usize,
        now_ns: u64,
        read: &impl Fn(usize, &mut [u8]),
        put: &mut impl FnMut(usize, &[u8]) -> Result<(), E>,
        ledger: &mut Ledger,
    ) -> Result<usize, E> {
        let expected = self.slots[slot];
        let len = self.route.block_len(expected.number, self.min_bytes, self.max_bytes);
        let found = self.look(slot, expected.number, len, read);
        if found == Found::Right {
            if expected.wrong_since_ns.is_some() {
                ledger.out_of_order += 1;
            }
            ledger.blocks_checked += 1;
            ledger.bytes_checked += len as u64;
            self.before[slot] = Some(Answered {
                number: expected.number,
                announcements: expected.announcements,
                answers: expected.answers.saturating_add(1),
            });
            let next = expected.number.wrapping_add(WINDOW as Number);
            self.slots[slot] = Expected { number: next, announcements: 0, answers: 0, wrong_since_ns: None };
            self.answer(slot, Meaning::Right, expected.number, expected.answers, put)?;
            return Ok(len);
        }
        let since_ns = expected.wrong_since_ns.unwrap_or(now_ns);
        self.slots[slot].wrong_since_ns = Some(since_ns);
        if now_ns.saturating_sub(since_ns) >= LATE_NS && expected.answers < MAX_ATTEMPTS {
            match found {
                Found::Old => ledger.lost += 1,
                _ => ledger.corrupt += 1,
            }
            self.slots[slot].wrong_since_ns = None;
            self.slots[slot].answers = expected.answers + 1;
            self.answer(slot, Meaning::Wrong, expected.number, expected.answers, put)?;
        }
        Ok(0)
    }

    fn answer<E>(
        &self,
        slot: usize,
        meaning: Meaning,
        number: Number,
        attempt: u8,
        put: &mut impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        put(answered_at(slot, attempt), &self.route.word(meaning, number, attempt).to_le_bytes())
    }

    /// The sender asks once more for a block that was right: it has not seen the answer.
    fn answer_again<E>(
        &mut self,
        slot: usize,
        word_at: &impl Fn(usize) -> u64,
        put: &mut impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(before) = self.before[slot] else { return Ok(()) };
        let asked = (0..LINE_WORDS)
            .filter_map(|index| {
                self.route.read(word_at(announced_at(slot, index)), &[Meaning::Announced]).ok().flatten()
            })
            .filter(|said| said.number == before.number && said.attempt >= before.announcements)
            .map(|said| said.attempt)
            .max();
        let Some(attempt) = asked else { return Ok(()) };
        if before.answers == MAX_ATTEMPTS {
            return Ok(());
        }
        self.answer(slot, Meaning::Right, before.number, before.answers, put)?;
        let (announcements, answers) = (attempt.saturating_add(1), before.answers + 1);
        self.before[slot] = Some(Answered { announcements, answers, ..before });
        Ok(())
    }

    fn look(&mut self, slot: usize, number: Number, len: usize, read: &impl Fn(usize, &mut [u8])) -> Found {
        let at = slot_at(slot, self.max_bytes);
        if self.matches(at, len, self.route.block_seed(number), read) {
            return Found::Right;
        }
        let first = len.min(64);
        let Some(earlier) = number.checked_sub(WINDOW as Number).filter(|earlier| *earlier > 0) else {
            let start = self.piece.get_mut(..first).unwrap_or_default();
            read(at, start);
            return if start.iter().all(|byte| *byte == 0) { Found::Old } else { Found::Changed };
        };
        let earlier_len = self.route.block_len(earlier, self.min_bytes, self.max_bytes);
        let seed = self.route.block_seed(earlier);
        if self.matches(at, first.min(earlier_len), seed, read) { Found::Old } else { Found::Changed }
    }

    fn matches(&mut self, at: usize, len: usize, seed: u64, read: &impl Fn(usize, &mut [u8])) -> bool {
        let mut pattern = Pattern::new(seed);
        let mut done = 0;
        while done < len {
            let piece_len = PIECE_BYTES.min(len - done);
            let piece = self.piece.get_mut(..piece_len).unwrap_or_default();
            read(at + done, piece);
            if !pattern.matches(piece) {
                return false;
            }
            done += piece_len;
        }
        true
    }
}
