//! The share of frames that are dropped.

use std::str::FromStr;

use seeded_random::SplitMix64;

/// Of each frame, for each host that it is for.
const PPM_MAX: u32 = 500_000;
const PPM_OF_PERCENT: u32 = 10_000;
/// Digits behind the point: a millionth is the least.
const DIGITS: usize = 4;

/// Of the frames on each rail, in each direction: each is lost or not whatever became of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    ppm: u32,
}

impl Loss {
    /// Frames of a million.
    pub fn ppm(self) -> u32 {
        self.ppm
    }

    /// Whether the next one is.
    pub(crate) fn hits(self, random: &mut SplitMix64) -> bool {
        random.below(1_000_000) < self.ppm as usize
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, part) = (self.ppm / PPM_OF_PERCENT, self.ppm % PPM_OF_PERCENT);
        write!(f, "{whole}.{part:0DIGITS$}%")
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a loss: give a percentage, such as 1% or 0.01%");
        let number = text.strip_suffix('%').ok_or_else(wrong)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_number =
            |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(part) {
            return Err(wrong());
        }
        let (part, finer) = part.split_at(part.len().min(DIGITS));
        let part = format!("{part:0<DIGITS$}").parse::<u32>().map_err(|_| wrong())?;
        let whole = whole.parse::<u32>().map_err(|_| wrong())?;
        let ppm = whole.saturating_mul(PPM_OF_PERCENT).saturating_add(part);
        if !(1..=PPM_MAX).contains(&ppm) || finer.bytes().any(|digit| digit != b'0') {
            return Err(format!("`{text}` is not possible: give a loss from 0.0001% to 50%"));
        }
        Ok(Self { ppm })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_percentage_and_is_written_so_that_it_is_read() {
        for (text, ppm) in
            [("1%", 10_000), ("0.1%", 1_000), ("12.5%", 125_000), ("0.0001%", 1), ("50%", 500_000)]
        {
            let loss: Loss = text.parse().unwrap();
            assert_eq!((loss.ppm(), loss.to_string().parse()), (ppm, Ok(loss)), "{text}");
        }
        for (wrong, why) in [
            ("1", "percentage"),
            ("%", "percentage"),
            ("-1%", "percentage"),
            ("1.%", "percentage"),
            ("0%", "0.0001%"),
            ("0.00001%", "0.0001%"),
            ("51%", "50%"),
            ("999999999%", "50%"),
        ] {
            let error = wrong.parse::<Loss>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn as_many_are_lost_as_it_says() {
        let (loss, mut random): (Loss, _) = ("10%".parse().unwrap(), SplitMix64::new(1));
        let lost = (0..100_000).filter(|_| loss.hits(&mut random)).count();
        assert!((9_500..10_500).contains(&lost), "{lost}");
    }
}
