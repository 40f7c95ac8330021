//! Widths and speeds as dumps write them.

use crate::graph::{Speed, Width};

/// A rate as a dump gives it; `None` is what is missing or given as unknown.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParsedRate {
    pub(super) width: Option<Width>,
    pub(super) speed: Option<Speed>,
}

/// Reads the options before the comment (`s=4 w=2`) and what follows the description in it
/// (`lid 3 4xQDR s=4 w=2 v=4`). What is no rate that is known comes back too.
pub(super) fn read<'a>(options: &'a str, behind: &'a str) -> (ParsedRate, Option<&'a str>) {
    let (mut parsed, mut strange) = (ParsedRate::default(), None);
    let mut words = behind.split_whitespace();
    while let Some(word) = words.next() {
        if word == "lid" || word == "slot" {
            words.next();
        } else if let Some((width, speed)) = rate(word) {
            let (width, speed) = (Width::of_lanes(width), Speed::of_word(speed));
            parsed = ParsedRate { width, speed };
            if width.is_none() || speed.is_none() {
                strange = Some(word);
            }
            break;
        }
    }
    if parsed == ParsedRate::default() && strange.is_none() {
        for word in options.split_whitespace().chain(behind.split_whitespace()) {
            if let Some(code) = word.strip_prefix("w=") {
                parsed.width = code.parse().ok().and_then(width_of_code);
                strange = strange.or(parsed.width.is_none().then_some(word));
            } else if let Some(code) = word.strip_prefix("s=") {
                parsed.speed = code.parse().ok().and_then(speed_of_code);
                strange = strange.or(parsed.speed.is_none().then_some(word));
            }
        }
    }
    (parsed, strange)
}

/// `4xHDR` in its parts.
fn rate(word: &str) -> Option<(u32, &str)> {
    let (lanes, speed) = word.split_once(['x', 'X'])?;
    (!lanes.is_empty() && lanes.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| (lanes.parse().unwrap_or(0), speed))
}

/// Codes of PortInfo's LinkWidthActive (InfiniBand specification, volume 1).
fn width_of_code(code: u8) -> Option<Width> {
    match code {
        1 => Some(Width::X1),
        2 => Some(Width::X4),
        4 => Some(Width::X8),
        8 => Some(Width::X12),
        16 => Some(Width::X2),
        _ => None,
    }
}

/// Codes of PortInfo's LinkSpeedActive.
fn speed_of_code(code: u8) -> Option<Speed> {
    match code {
        1 => Some(Speed::Sdr),
        2 => Some(Speed::Ddr),
        4 => Some(Speed::Qdr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_vintages_are_read() {
        let of = |options, behind| {
            let (parsed, strange) = read(options, behind);
            (parsed.width, parsed.speed, strange)
        };
        assert_eq!(of("", " lid 3 4xQDR s=1 w=1 v=4"), (Some(Width::X4), Some(Speed::Qdr), None));
        assert_eq!(of("", " lid 3 2xNDR"), (Some(Width::X2), Some(Speed::Ndr), None));
        assert_eq!(of("", " lid 3 4xFDR10 slot 2"), (Some(Width::X4), Some(Speed::Fdr10), None));
        assert_eq!(of("", " lid 3"), (None, None, None));
        assert_eq!(of(" s=4 w=8 ", ""), (Some(Width::X12), Some(Speed::Qdr), None));
        assert_eq!(of("", "lid 3 4x???"), (Some(Width::X4), None, Some("4x???")));
        assert_eq!(of("", "lid 3 99999999999xHDR"), (None, Some(Speed::Hdr), Some("99999999999xHDR")));
        assert_eq!(of("s=9", ""), (None, None, Some("s=9")));
    }
}
