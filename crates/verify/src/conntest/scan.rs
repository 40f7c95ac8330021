//! Scans a line of words for the newest one, and for missing ones before it.

use super::ledger::Ledger;
use super::words::{LINE_WORDS, Meaning, Number, Route};

/// Words of one line that were counted as corrupt already.
pub(super) type Mangled = [u64; LINE_WORDS as usize];

/// The searched pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) route: Route,
    pub(super) number: Number,
    /// Attempts before this one are accounted for.
    pub(super) from: u8,
    pub(super) meanings: &'a [Meaning],
}

/// The newest word about the wanted block; what was lost before it, and what is mangled, goes into the ledger.
pub(super) fn newest(
    wanted: Wanted<'_>,
    word: impl Fn(u8) -> u64,
    mangled: &mut Mangled,
    ledger: &mut Ledger,
) -> Option<(u8, Meaning)> {
    let (attempt, meaning, _) = look(wanted, &word, mangled, ledger)?;
    // Once more: an earlier word may have come after its place was examined, but not after the newest was seen.
    let (_, _, present) = look(wanted, &word, mangled, ledger)?;
    let due = u64::from(attempt - wanted.from) + 1;
    ledger.lost += due.min(u64::from(LINE_WORDS)).saturating_sub(present);
    Some((attempt, meaning))
}

fn look(
    wanted: Wanted<'_>,
    word: &impl Fn(u8) -> u64,
    mangled: &mut Mangled,
    ledger: &mut Ledger,
) -> Option<(u8, Meaning, u64)> {
    let (mut newest, mut present) = (None, 0);
    for (index, counted) in (0..).zip(mangled.iter_mut()) {
        let word = word(index);
        match wanted.route.read(word, wanted.meanings) {
            Ok(Some(said)) if said.number == wanted.number && said.attempt >= wanted.from => {
                present += 1;
                if newest.is_none_or(|(attempt, _)| said.attempt > attempt) {
                    newest = Some((said.attempt, said.meaning));
                }
            }
            Ok(_) => {}
            Err(_) => {
                present += 1;
                if std::mem::replace(counted, word) != word {
                    ledger.corrupt += 1;
                }
            }
        }
    }
    newest.map(|(attempt, meaning)| (attempt, meaning, present))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(words: &[u64; 8], from: u8) -> (Option<(u8, Meaning)>, Ledger) {
        let (mut mangled, mut ledger) = ([0; 8], Ledger::default());
        let wanted = Wanted { route: Route::new(4, 8, 1), number: 9, from, meanings: &[Meaning::Announced] };
        let found = newest(wanted, |index| words[usize::from(index)], &mut mangled, &mut ledger);
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
}
