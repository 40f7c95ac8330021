//! Formats numbers: a unit that fits, three significant digits, none below the step of the clock.

use bench::stats::digits;

/// Between a number and its unit, so that no line breaks there.
const SPACE: char = '\u{a0}';
/// Between groups of three digits.
const THIN: char = '\u{202f}';

/// At most three significant digits; absurd numbers in a form that keeps its length.
pub(super) fn three(value: f64) -> String {
    limited(value, usize::MAX)
}

/// The same, with no digit below the step of the clock; both of the value times `each`, its unit.
pub(super) fn resolved(value: f64, step: f64, each: f64) -> String {
    limited(value, digits::decimals(step, each, 3))
}

fn limited(value: f64, most_decimals: usize) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".into();
    }
    if size >= 1e15 || (size != 0.0 && size < 1e-6) {
        return format!("{value:.2e}");
    }
    let decimals = match size {
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    grouped(&format!("{value:.*}", decimals.min(most_decimals)))
}

/// Thin spaces between thousands.
fn grouped(text: &str) -> String {
    let whole_end = text.find('.').unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole_end);
    let digits = whole.trim_start_matches('-');
    if digits.len() <= 4 {
        return text.to_owned();
    }
    let mut out = String::from(&whole[..whole.len() - digits.len()]);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    out + rest
}

/// A number of things.
pub(super) fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// A unit: its name, and how many base units it has.
type Unit = (&'static str, f64);

const TIMES: [Unit; 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
const BYTES: [Unit; 5] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)];

/// The unit in which three digits of this begin with at least a one.
fn unit_of(value: f64, units: &[Unit]) -> Unit {
    let fits = units.iter().find(|(_, each)| value.abs() >= 0.9995 * each);
    fits.or(units.last()).copied().unwrap_or(("", 1.0))
}

/// A time in ns, measured with a clock of this step (0: not known).
pub(super) fn time(ns: f64, step_ns: f64) -> String {
    let (name, each) = unit_of(ns, &TIMES);
    if each >= 1e9 && ns >= 120e9 {
        return seconds(ns / 1e9);
    }
    format!("{}{SPACE}{name}", limited(ns / each, digits::decimals(step_ns, each, 3)))
}

/// A long time, in seconds.
pub(super) fn seconds(s: f64) -> String {
    if !(120.0..1e9).contains(&s) {
        return format!("{}{SPACE}s", three(s));
    }
    let whole = s.round() as u64;
    match whole {
        _ if whole >= 7200 => format!("{}{SPACE}h {}{SPACE}min", whole / 3600, whole % 3600 / 60),
        _ => format!("{}{SPACE}min {}{SPACE}s", whole / 60, whole % 60),
    }
}

/// Bytes in decimal units.
pub(super) fn bytes(number: f64) -> String {
    let (name, each) = unit_of(number, &BYTES);
    format!("{}{SPACE}{name}", three(number / each))
}

/// Size of a message or of a memory, in binary units where they come out whole.
pub(super) fn size(bytes: f64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (name, power) in units {
        let each = 2f64.powi(power);
        if bytes >= each && bytes < 1e15 {
            return format!("{}{SPACE}{name}", trimmed(&three(bytes / each)));
        }
    }
    format!("{}{SPACE}B", trimmed(&three(bytes)))
}

/// Without zeros that only say how exactly it was measured: a size is exact.
fn trimmed(text: &str) -> &str {
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// Bandwidth, in 10⁹ bytes a second.
pub(super) fn gb_s(value: f64) -> String {
    let (name, value) = match value {
        _ if value >= 0.9995 || value <= 0.0 => ("GB/s", value),
        _ if value >= 0.9995e-3 => ("MB/s", value * 1e3),
        _ => ("kB/s", value * 1e6),
    };
    format!("{}{SPACE}{name}", three(value))
}

/// A quotient.
pub(super) fn times(ratio: f64) -> String {
    if ratio.abs() < 9.995 && ratio.abs() >= 1e-6 {
        format!("{ratio:.2}×")
    } else {
        format!("{}×", three(ratio))
    }
}

/// A share of all, in percent; the more nines, the more digits.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.6}", share * 100.0);
    format!("{}{SPACE}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// One unit for many times: the one that fits the typical one.
pub(super) fn common_time_unit(typical_ns: f64) -> (&'static str, f64) {
    unit_of(typical_ns, &TIMES)
}

/// Seconds since 1970 as a date, in UTC.
pub(super) fn date(unix_s: f64) -> Option<String> {
    if !(0.0..253_402_300_800.0).contains(&unix_s) {
        return None;
    }
    let s = unix_s as u64;
    // Days to a civil date: eras of 400 years that begin in March, so that a leap day is the last of its
    // year.
    let days = s / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (s % 86_400 / 3600, s % 3600 / 60);
    Some(format!("{year}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}{SPACE}UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(SPACE, " ").replace(THIN, "'")
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, step_ns, text) in [
            (61.664, 0.37, "62 ns"),
            (61.664, 0.1, "61.7 ns"),
            (61.664, 10.0, "62 ns"),
            (954.2, 0.3, "954 ns"),
            (999.7, 0.3, "1.00 µs"),
            (1234.0, 10.0, "1.23 µs"),
            (1234.0, 300.0, "1 µs"),
            (4_849_990.7, 0.7, "4.85 ms"),
            (7.2e9, 0.7, "7.20 s"),
            (200e9, 0.7, "3 min 20 s"),
            (0.0, 0.7, "0 ns"),
            (1e308, 0.7, "1.00e299 s"),
            (-5.0, 0.7, "-5 ns"),
        ] {
            assert_eq!(plain(time(ns, step_ns)), text, "{ns} by {step_ns}");
        }
    }

    #[test]
    fn sizes_and_bytes() {
        assert_eq!(plain(size(64.0)), "64 B");
        assert_eq!(plain(size(8192.0)), "8 KiB");
        assert_eq!(plain(size(1_048_576.0)), "1 MiB");
        assert_eq!(plain(size(25_276_514_304.0)), "23.5 GiB");
        assert_eq!(plain(bytes(53_366_400.0)), "53.4 MB");
        assert_eq!(plain(gb_s(0.117)), "117 MB/s");
        assert_eq!(plain(gb_s(14.62)), "14.6 GB/s");
        assert_eq!(plain(count(12_164_779)), "12'164'779");
        assert_eq!(plain(count(2879)), "2879");
        assert_eq!(plain(percent(0.999)), "99.9 %");
        assert_eq!(plain(times(1.0297)), "1.03×");
    }

    #[test]
    fn dates() {
        assert_eq!(date(0.0).map(plain).as_deref(), Some("1970-01-01 00:00 UTC"));
        assert_eq!(date(951_782_400.0).map(plain).as_deref(), Some("2000-02-29 00:00 UTC"));
        assert_eq!(date(1_795_273_706.0).map(plain).as_deref(), Some("2026-11-21 15:08 UTC"));
        assert_eq!(date(-1.0), None);
        assert_eq!(date(1e308), None);
    }
}
