//! Decides when several readings of one thing are a fault.

use crate::verdict::Verdict;

/// Most readings of one thing.
pub(crate) const MOST_READINGS: usize = 3;

/// What readings, in order of time, come to; `None`: one more is needed.
///
/// The first is a selection, the worst of many things that were examined, so a second that passes clears it.
/// A failure needs two readings that fail; where the others were only doubtful a third decides, and where it
/// does not agree nothing is known.
pub(crate) fn settled(readings: &[Verdict]) -> Option<Verdict> {
    use Verdict::{Fail, Inconclusive, Pass};
    let failed = readings.iter().filter(|reading| **reading == Fail).count();
    match readings {
        [] | [Fail | Inconclusive] => None,
        [Pass, ..] | [_, Pass] => Some(Pass),
        [Fail, Fail] => Some(Fail),
        [Inconclusive, Inconclusive] => Some(Inconclusive),
        [_, _] => None,
        _ if failed >= 2 && readings.last() == Some(&Fail) => Some(Fail),
        _ => Some(Inconclusive),
    }
}

/// Reads again until it is settled. `again` gets the number of readings so far, and takes another one;
/// `None`: there is none to be had.
pub(crate) fn settle(first: Verdict, mut again: impl FnMut(usize) -> Option<Verdict>) -> Verdict {
    let mut readings = vec![first];
    loop {
        if let Some(verdict) = settled(&readings) {
            return verdict;
        }
        match again(readings.len()) {
            Some(reading) if readings.len() < MOST_READINGS => readings.push(reading),
            // A single observation blames no link.
            _ => return Verdict::Inconclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Fail, Inconclusive, Pass};

    #[test]
    fn a_failure_needs_two_that_fail_and_a_third_where_one_was_doubtful() {
        assert_eq!(settled(&[Pass]), Some(Pass));
        assert_eq!([settled(&[Fail]), settled(&[Inconclusive])], [None, None]);
        assert_eq!(settled(&[Fail, Fail]), Some(Fail));
        assert_eq!(settled(&[Fail, Pass]), Some(Pass), "the first was a selection");
        assert_eq!(settled(&[Inconclusive, Pass]), Some(Pass));
        assert_eq!(settled(&[Inconclusive, Inconclusive]), Some(Inconclusive));
        assert_eq!(settled(&[Inconclusive, Fail]), None, "a merely doubtful first reading is no agreement");
        assert_eq!(settled(&[Fail, Inconclusive]), None);
        assert_eq!(settled(&[Inconclusive, Fail, Fail]), Some(Fail));
        assert_eq!(settled(&[Fail, Inconclusive, Fail]), Some(Fail));
        for third in [Pass, Inconclusive] {
            assert_eq!(settled(&[Inconclusive, Fail, third]), Some(Inconclusive));
            assert_eq!(settled(&[Fail, Inconclusive, third]), Some(Inconclusive));
        }
    }

    #[test]
    fn what_cannot_be_read_again_blames_nobody() {
        assert_eq!(settle(Fail, |_| None), Inconclusive);
        assert_eq!(settle(Pass, |_| None), Pass);
        assert_eq!(settle(Inconclusive, |read| Some(if read == 1 { Fail } else { Pass })), Inconclusive);
        assert_eq!(settle(Inconclusive, |_| Some(Fail)), Fail);
    }
}
