//! Scans a line of words for the newest one, and for missing ones before it.

use super::ledger::Ledger;
use super::words::{LINE_WORDS, Meaning, Number, Route};

/// What is wrong is examined again for this long. A block may be late, which is another fault than being
/// changed. A word may be half-written: over a network a put is not atomic to a reader that polls.
pub(super) const LATE_NS: u64 = 2_000_000;

/// A word of a line that no instance wrote.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MangledWord {
    word: u64,
    since_ns: u64,
    /// As corrupt.
    is_counted: bool,
}

/// Of one line.
pub(super) type Mangled = [MangledWord; LINE_WORDS as usize];

/// The searched pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) route: Route,
    pub(super) number: Number,
    /// Attempts before this one are accounted for.
    pub(super) from: u8,
    pub(super) meanings: &'a [Meaning],
}

/// The newest word about the wanted block; what was lost before it, and what is mangled, goes into the
/// ledger.
pub(super) fn newest(
    wanted: Wanted<'_>,
    now_ns: u64,
    word: impl Fn(u8) -> u64,
    mangled: &mut Mangled,
    ledger: &mut Ledger,
) -> Option<(u8, Meaning)> {
    let seen = look(wanted, now_ns, &word, mangled);
    for mangled in mangled.iter_mut().filter(|mangled| mangled.word != 0) {
        if now_ns.saturating_sub(mangled.since_ns) >= LATE_NS {
            mangled.count(ledger);
        }
    }
    seen?;
    // Once more: an earlier word may have come after its place was examined, but not after the newest was
    // seen.
    let (attempt, meaning, present) = look(wanted, now_ns, &word, mangled)?;
    // The writer has waited before it wrote the newest, so what stands before it is whole.
    for before in (wanted.from..attempt).rev().take(usize::from(LINE_WORDS) - 1) {
        mangled[usize::from(before % LINE_WORDS)].count(ledger);
    }
    let due = u64::from(attempt - wanted.from) + 1;
    ledger.lost += due.min(u64::from(LINE_WORDS)).saturating_sub(present);
    Some((attempt, meaning))
}

impl MangledWord {
    fn count(&mut self, ledger: &mut Ledger) {
        if self.word != 0 && !std::mem::replace(&mut self.is_counted, true) {
            ledger.corrupt += 1;
        }
    }
}

fn look(
    wanted: Wanted<'_>,
    now_ns: u64,
    word: &impl Fn(u8) -> u64,
    mangled: &mut Mangled,
) -> Option<(u8, Meaning, u64)> {
    let (mut newest, mut present) = (None, 0);
    for (index, mangled) in (0..).zip(mangled.iter_mut()) {
        let word = word(index);
        let read = wanted.route.read(word, wanted.meanings);
        if read.is_err() && mangled.word != word {
            *mangled = MangledWord { word, since_ns: now_ns, is_counted: false };
        } else if read.is_ok() && !mangled.is_counted {
            // It was half-written then, and is whole now.
            *mangled = MangledWord::default();
        }
        match read {
            Ok(Some(said)) if said.number == wanted.number && said.attempt >= wanted.from => {
                present += 1;
                if newest.is_none_or(|(attempt, _)| said.attempt > attempt) {
                    newest = Some((said.attempt, said.meaning));
                }
            }
            Ok(_) => {}
            Err(_) => present += 1,
        }
    }
    newest.map(|(attempt, meaning)| (attempt, meaning, present))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(words: &[u64; 8], from: u8) -> (Option<(u8, Meaning)>, Ledger) {
        let (mut mangled, mut ledger) = (Mangled::default(), Ledger::default());
        let wanted = Wanted { route: Route::new(4, 8, 1), number: 9, from, meanings: &[Meaning::Announced] };
        let found = newest(wanted, 0, |index| words[usize::from(index)], &mut mangled, &mut ledger);
        (found, ledger)
    }

    fn word(number: Number, attempt: u8) -> u64 {
        Route::new(4, 8, 1).word(Meaning::Announced, number, attempt)
    }

    #[test]
    fn words_before_the_newest_that_are_missing_were_lost() {
        let mut words = [0; 8];
        assert_eq!(scan(&words, 0).0, None);
        words[0] = word(9, 0);
        assert_eq!(scan(&words, 0), (Some((0, Meaning::Announced)), Ledger::default()));
        words[3] = word(9, 3);
        let (found, ledger) = scan(&words, 0);
        assert_eq!((found.unwrap().0, ledger.lost), (3, 2));
        assert_eq!(scan(&words, 3).1.lost, 0, "what is accounted for is not counted again");
        assert_eq!(scan(&words, 4).0, None);
        words[1] = word(5, 1);
        assert_eq!(scan(&words, 0).1.lost, 2, "the word of an earlier block is no word of this one");
    }

    #[test]
    fn a_mangled_word_is_corrupt_not_lost_and_counted_once() {
        let mut words = [0; 8];
        words[0] = word(9, 0) ^ 1 << 63;
        words[1] = word(9, 1);
        let (found, ledger) = scan(&words, 0);
        assert_eq!((found.unwrap().0, ledger.lost, ledger.corrupt), (1, 0, 1));
    }

    #[test]
    fn a_word_that_was_half_written_is_not_corrupt() {
        let (mut mangled, mut ledger) = (Mangled::default(), Ledger::default());
        let wanted =
            Wanted { route: Route::new(4, 8, 1), number: 9, from: 0, meanings: &[Meaning::Announced] };
        let mut at = |now_ns, first: u64| {
            let word = |index| if index == 0 { first } else { 0 };
            (newest(wanted, now_ns, word, &mut mangled, &mut ledger).is_some(), ledger.corrupt, ledger.lost)
        };
        let whole = word(9, 0);
        let half = whole & 0xffff_ffff;
        assert_eq!(at(1000, half), (false, 0, 0));
        assert_eq!(at(1000 + LATE_NS - 1, half), (false, 0, 0));
        assert_eq!(at(1000 + LATE_NS, whole), (true, 0, 0));
        // One that stays is.
        assert_eq!(at(1000 + 2 * LATE_NS, half), (false, 0, 0));
        assert_eq!(at(1000 + 3 * LATE_NS, half), (false, 1, 0));
        assert_eq!(at(1000 + 9 * LATE_NS, half), (false, 1, 0), "once");
    }
}
