//! LIDs by the GUIDs of their ports, kept in a file so that they stay the same over restarts.
//!
//! The file is text: a first line that names the form, then a line for each port, in the order of the LIDs:
//! `GUID LID`, or `GUID FIRST LAST` for a port with several LIDs. A port that is gone keeps its LIDs until
//! the LIDs run out: it may come back.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use mad::Lid;

/// The first line of the file.
const FORM: &str = "tieline.fabric.lids/1";
/// The largest file that is read: more than all LIDs take.
const MOST_BYTES: u64 = 4 << 20;

/// Why LIDs can't be read or kept. Each names the file, the cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file can't be read.
    #[error(
        "{0} cannot be read: {1}: correct its permissions, or name another file with --state: without it ports may get other LIDs"
    )]
    Read(PathBuf, #[source] std::io::Error),
    /// The file can't be written.
    #[error("{0} cannot be written: {1}: name a file in a directory that can be written with --state")]
    Write(PathBuf, #[source] std::io::Error),
    /// A line is not of the form.
    #[error(
        "{0}, line {1}: {2}: correct the line, or remove the file: then ports keep the LIDs that they have now"
    )]
    Line(PathBuf, usize, String),
}

/// The LIDs of a port: the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The base LID.
    pub first: u16,
    /// The last one, which is the first if there is only one.
    pub last: u16,
}

impl Span {
    /// 2 to the power of `lmc` LIDs; `None` if they are not all unicast.
    #[must_use]
    pub fn new(first: u16, lmc: u8) -> Option<Self> {
        let last = u16::try_from(u32::from(first) + (1_u32 << lmc.min(7)) - 1).ok()?;
        Self::between(first, last)
    }

    fn between(first: u16, last: u16) -> Option<Self> {
        let is_unicast = Lid(first).is_unicast() && Lid(last).is_unicast();
        (first <= last && is_unicast).then_some(Self { first, last })
    }

    /// All of them.
    pub fn lids(self) -> std::ops::RangeInclusive<u16> {
        self.first..=self.last
    }

    fn meets(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// LIDs by GUID.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    by_guid: BTreeMap<u64, Span>,
}

impl Record {
    /// The first LID of a port's GUID.
    #[must_use]
    pub fn lid(&self, guid: u64) -> Option<u16> {
        self.by_guid.get(&guid).map(|span| span.first)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Span)> + '_ {
        self.by_guid.iter().map(|(guid, span)| (*guid, *span))
    }

    /// Every LID that is kept for a port.
    #[must_use]
    pub fn lids(&self) -> HashSet<u16> {
        self.by_guid.values().flat_map(|span| span.lids()).collect()
    }

    /// Keeps LIDs. Whoever had one of them before, or the GUID others, loses all of its own.
    pub fn keep(&mut self, guid: u64, span: Span) {
        self.by_guid.retain(|other, there| *other == guid || !there.meets(span));
        self.by_guid.insert(guid, span);
    }

    /// Replaces everything by what is in use now, and of what is not in use keeps what contradicts nothing.
    #[must_use]
    pub fn updated(&self, used: &[(u64, Span)]) -> Self {
        let taken: HashSet<u16> = used.iter().flat_map(|one| one.1.lids()).collect();
        let is_free = |span: Span| span.lids().all(|lid| !taken.contains(&lid));
        let mut by_guid: BTreeMap<u64, Span> = self.iter().filter(|(_, span)| is_free(*span)).collect();
        by_guid.extend(used.iter().copied());
        Self { by_guid }
    }

    /// The same with the LIDs that ports were found to have. Of two ports with one LID the one with the lower
    /// base LID keeps its own (of equal ones the last), and the other gets new ones.
    #[must_use]
    pub fn learned(&self, held: &[(u64, Span)]) -> Self {
        let mut by_first: BTreeMap<u16, (u64, Span)> = BTreeMap::new();
        by_first.extend(held.iter().map(|(guid, span)| (span.first, (*guid, *span))));
        let mut used: Vec<(u64, Span)> = Vec::with_capacity(by_first.len());
        for (guid, span) in by_first.into_values() {
            if used.last().is_none_or(|(_, before)| !before.meets(span)) {
                used.push((guid, span));
            }
        }
        self.updated(&used)
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut all: Vec<(Span, u64)> = self.iter().map(|(guid, span)| (span, guid)).collect();
        all.sort_unstable();
        let lines = all.iter().map(|(Span { first, last }, guid)| {
            if first == last {
                format!("{guid:#018x} {first}\n")
            } else {
                format!("{guid:#018x} {first} {last}\n")
            }
        });
        std::iter::once(format!("{FORM}\n")).chain(lines).collect()
    }

    /// From the text of the file at `path`.
    ///
    /// # Errors
    /// A line is not of the form, or gives a LID or a GUID twice.
    pub fn parse(path: &Path, text: &str) -> Result<Self, RecordError> {
        let wrong = |line: usize, what: &str| Err(RecordError::Line(path.into(), line, what.to_owned()));
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, first)| first) != Some(FORM) {
            return wrong(1, &format!("it is not `{FORM}`"));
        }
        let mut by_guid = BTreeMap::new();
        let mut lids = HashSet::new();
        for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let guid = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
            let first = words.next().and_then(|word| word.parse().ok());
            let last = words.next().map_or(first, |word| word.parse().ok());
            let span = first.zip(last).and_then(|(first, last)| Span::between(first, last));
            let (Some(guid), Some(span), None) = (guid, span, words.next()) else {
                return wrong(
                    at + 1,
                    "it is not a GUID (0x...) and a unicast LID, or the first and the last of several",
                );
            };
            // At most 128 LIDs a port: a wrong digit is not to take all that there are.
            if span.last - span.first >= 128 {
                return wrong(at + 1, "it gives one port more than 128 LIDs");
            }
            let is_new = span.lids().all(|lid| lids.insert(lid));
            if by_guid.insert(guid, span).is_some() || !is_new {
                return wrong(at + 1, "its GUID or a LID was given before");
            }
        }
        Ok(Self { by_guid })
    }

    /// Of a file; empty if there is none.
    ///
    /// # Errors
    /// It can't be read, or is not of the form.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        match user_files::read_regular(path, MOST_BYTES) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(RecordError::Read(path.into(), error)),
        }
    }

    /// Writes the file: another one beside it, which then takes its place, so that a full disk or a crash
    /// leaves the old one whole.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        let failed = |error| RecordError::Write(path.into(), error);
        let (beside, mut file) = beside(path).map_err(failed)?;
        let written = file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all());
        written.and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
            drop(std::fs::remove_file(&beside));
            failed(error)
        })
    }

    /// Makes sure, before anything is set, that the file can be written later. Leaves nothing.
    ///
    /// # Errors
    /// It can't be written.
    pub fn may_write(path: &Path) -> Result<(), RecordError> {
        let failed = |error| RecordError::Write(path.into(), error);
        if path.exists() {
            // One that is protected is not replaced behind its owner's back.
            OpenOptions::new().append(true).open(path).map_err(failed)?;
        }
        let (beside, _file) = beside(path).map_err(failed)?;
        std::fs::remove_file(beside).map_err(failed)
    }
}

/// A new file in the same directory, which takes its place when it is complete.
fn beside(path: &Path) -> std::io::Result<(PathBuf, File)> {
    let no_name = || std::io::Error::other("it does not end with the name of a file");
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or_else(no_name)?);
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    // What a killed process of the same number left.
    drop(std::fs::remove_file(&beside));
    let file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    Ok((beside, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u16, lmc: u8) -> Span {
        Span::new(first, lmc).unwrap()
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let folder = std::env::temp_dir().join(format!("tieline-subnet-record-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("lids");
        assert_eq!(Record::read(&path).unwrap(), Record::default());
        let mut record = Record::default();
        record.keep(0x10, span(7, 0));
        record.keep(0x20, span(3, 0));
        record.keep(0x30, span(8, 2));
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        Record::may_write(&path).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        for place in ["none/lids", "lids/lids", ".."] {
            let place = folder.join(place);
            assert!(matches!(Record::may_write(&place), Err(RecordError::Write(..))), "{place:?}");
            assert!(Record::default().write(&place).is_err(), "{place:?}");
        }
        assert!(
            record.text().ends_with("0x0000000000000010 7\n0x0000000000000030 8 11\n"),
            "{}",
            record.text()
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_lid_is_never_kept_for_two() {
        let mut record = Record::default();
        record.keep(1, span(7, 0));
        record.keep(2, span(7, 0));
        assert_eq!((record.lid(1), record.lid(2)), (None, Some(7)));
        record.keep(3, span(4, 2));
        assert_eq!((record.lid(2), record.lid(3)), (None, Some(4)), "7 is one of four");
        let updated = record.updated(&[(3, span(7, 0)), (4, span(8, 0))]);
        assert_eq!(updated.iter().collect::<Vec<_>>(), [(3, span(7, 0)), (4, span(8, 0))]);
        assert_eq!(updated.updated(&[(5, span(9, 0))]).lid(3), Some(7), "who is gone keeps its LID");
        let learned = Record::default().learned(&[(1, span(8, 2)), (2, span(9, 0)), (3, span(8, 0))]);
        assert_eq!(learned.iter().collect::<Vec<_>>(), [(2, span(9, 0)), (3, span(8, 0))]);
        let learned = Record::default().learned(&[(3, span(8, 0)), (1, span(8, 2)), (2, span(9, 0))]);
        assert_eq!(learned.iter().collect::<Vec<_>>(), [(1, span(8, 2))]);
    }

    #[test]
    fn a_file_of_another_form_is_refused_with_its_line() {
        let refused = |text: &str| Record::parse(Path::new("lids"), text).unwrap_err().to_string();
        assert!(refused("").starts_with("lids, line 1: "), "{}", refused(""));
        for (line, bad) in [
            (2, "0x1 0"),
            (2, "1 1"),
            (2, "0x1 49152"),
            (2, "0x1 2 1"),
            (2, "0x1 1 2 3"),
            (2, "0x1 49151 49152"),
            (2, "0x1 1 200"),
            (2, "0x1"),
            (3, "0x1 1\n0x2 1"),
            (3, "0x1 4 7\n0x2 7"),
        ] {
            let said = refused(&format!("{FORM}\n{bad}\n"));
            assert!(
                said.starts_with(&format!("lids, line {line}: ")) && said.contains("remove the file"),
                "{said}"
            );
        }
    }
}
