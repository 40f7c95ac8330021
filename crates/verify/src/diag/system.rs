//! Where and when a test ran.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The system that a test was run on, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct System {
    /// Seconds since 1970, UTC.
    pub started_unix_s: u64,
    /// As `uname -a` has it.
    pub uname: String,
    /// Width of the program's words.
    pub bits: u32,
}

impl System {
    /// This one, now.
    pub(crate) fn here() -> Self {
        let name = rustix::system::uname();
        let parts = [name.sysname(), name.nodename(), name.release(), name.version(), name.machine()];
        let uname: Vec<_> = parts.iter().map(|part| part.to_string_lossy()).collect();
        Self {
            started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            uname: uname.join(" "),
            bits: usize::BITS,
        }
    }

    /// As `date` has it, in UTC.
    pub(crate) fn date(&self) -> String {
        let (days, seconds) = (self.started_unix_s / 86_400, self.started_unix_s % 86_400);
        let (year, month, day) = civil(days);
        let weekday = DAYS[(days % 7) as usize];
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{weekday} {} {day:>2} {hour:02}:{minute:02}:{second:02} UTC {year}", MONTHS[month])
    }
}

impl System {
    /// The date as a part of a file's name, in UTC: `20170329-170252`.
    pub(crate) fn stamp(&self) -> String {
        let (days, seconds) = (self.started_unix_s / 86_400, self.started_unix_s % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{year}{:02}{day:02}-{hour:02}{minute:02}{second:02}", month + 1)
    }
}

/// Year, month from 0, and day of a day since 1970-01-01, in the Gregorian calendar: years begin in March, so
/// that the leap day is their last (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, usize, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = ((month_from_march + 2) % 12) as usize;
    (era * 400 + year_of_era + u64::from(month < 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |started_unix_s| System { started_unix_s, ..System::default() }.date();
        assert_eq!(date(0), "Thu Jan  1 00:00:00 UTC 1970");
        assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 UTC 2000");
        let stamp = System { started_unix_s: 1_490_806_972, ..System::default() }.stamp();
        assert_eq!(stamp, "20170329-170252");
        assert_eq!(date(1_490_806_972), "Wed Mar 29 17:02:52 UTC 2017");
        assert_eq!(date(4_107_542_400), "Mon Mar  1 00:00:00 UTC 2100");
        assert_eq!(date(1_735_689_599), "Tue Dec 31 23:59:59 UTC 2024");
    }
}
