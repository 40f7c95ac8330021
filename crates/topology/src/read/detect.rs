//! Detects a file's format by its content.

use super::lines::lines;
use super::netdump::header;
use super::{Format, ReadError, own};

/// Whether a file, or the beginning of one, is of any format that is read.
#[must_use]
pub fn is_known(bytes: &[u8]) -> bool {
    detect(bytes).is_ok()
}

/// The format that most lines indicate, and the first of them as the reason.
pub(super) fn detect(bytes: &[u8]) -> Result<(Format, String), ReadError> {
    let mut found: Vec<(Format, usize, usize)> = Vec::new();
    let mut is_empty = true;
    for (number, line) in lines(bytes) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        is_empty = false;
        let Some(format) = of_line(line) else { continue };
        match found.iter_mut().find(|one| one.0 == format) {
            Some(one) => one.1 += 1,
            None => found.push((format, 1, number)),
        }
    }
    if is_empty {
        return Err(ReadError::Empty);
    }
    // Net files of the simulator and dumps are one format with two kinds of names: one of the latter makes it
    // a dump.
    let best = found.iter().max_by_key(|one| one.1).ok_or(ReadError::Unknown)?;
    let (format, count, line) = *best;
    Ok((format, format!("{count} lines like line {line}: {}", format.mark())))
}

/// The format that a line indicates.
fn of_line(line: &str) -> Option<Format> {
    if let Some(header) = header(line) {
        let dumped =
            header.id.len() == 18 && ["S-", "H-", "R-"].iter().any(|kind| header.id.starts_with(kind));
        return Some(if dumped { Format::IbNetDiscover } else { Format::IbSim });
    }
    if line.strip_prefix(own::KEY).is_some_and(|rest| rest.trim_start().starts_with('=')) {
        return Some(Format::Toml);
    }
    if line.contains("<LinkSummary>") || line.starts_with("<Link>") || line.starts_with("<Link ") {
        return Some(Format::OmniPath);
    }
    (line.starts_with("{ ") && line.contains(" NodeGUID:")).then_some(Format::SubnetList)
}
