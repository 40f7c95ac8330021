//! LIDs by the GUIDs of their ports, kept in a file so that they stay the same over restarts.
//!
//! The file is text: a first line that names the form, then a line `GUID LID` for each port, in the order of
//! the LIDs. A port that is gone keeps its LID until the LIDs run out: it may come back.

use std::collections::BTreeMap;
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

/// LIDs by GUID.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    by_guid: BTreeMap<u64, u16>,
}

impl Record {
    /// The LID of a port's GUID.
    #[must_use]
    pub fn lid(&self, guid: u64) -> Option<u16> {
        self.by_guid.get(&guid).copied()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u16)> + '_ {
        self.by_guid.iter().map(|(guid, lid)| (*guid, *lid))
    }

    /// Keeps a LID. Whoever had it before, or the GUID another one, loses it.
    pub fn keep(&mut self, guid: u64, lid: u16) {
        self.by_guid.retain(|other, there| *other == guid || *there != lid);
        self.by_guid.insert(guid, lid);
    }

    /// Replaces everything by what is in use now, and of what is not in use keeps what contradicts nothing.
    #[must_use]
    pub fn updated(&self, used: &[(u64, u16)]) -> Self {
        let taken: std::collections::HashSet<u16> = used.iter().map(|one| one.1).collect();
        let mut by_guid: BTreeMap<u64, u16> = self.iter().filter(|(_, lid)| !taken.contains(lid)).collect();
        by_guid.extend(used.iter().copied());
        Self { by_guid }
    }

    /// The same with the LIDs that ports were found to have. Of two ports with one LID the last keeps it, and
    /// the other gets a new one.
    #[must_use]
    pub fn learned(&self, held: &[(u64, u16)]) -> Self {
        let mut one_each: BTreeMap<u16, u64> = BTreeMap::new();
        one_each.extend(held.iter().map(|(guid, lid)| (*lid, *guid)));
        let used: Vec<(u64, u16)> = one_each.into_iter().map(|(lid, guid)| (guid, lid)).collect();
        self.updated(&used)
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut all: Vec<(u16, u64)> = self.iter().map(|(guid, lid)| (lid, guid)).collect();
        all.sort_unstable();
        let lines = all.iter().map(|(lid, guid)| format!("{guid:#018x} {lid}\n"));
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
        let mut lids = std::collections::HashSet::new();
        for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let guid = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
            let lid = words.next().and_then(|word| word.parse().ok()).filter(|lid| Lid(*lid).is_unicast());
            let (Some(guid), Some(lid), None) = (guid, lid, words.next()) else {
                return wrong(at + 1, "it is not a GUID (0x...) and a unicast LID");
            };
            if !lids.insert(lid) || by_guid.insert(guid, lid).is_some() {
                return wrong(at + 1, "its GUID or LID was given before");
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
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let mut file = std::fs::File::create(&beside).map_err(failed)?;
        file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&beside, path).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let folder = std::env::temp_dir().join(format!("tieline-subnet-record-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("lids");
        assert_eq!(Record::read(&path).unwrap(), Record::default());
        let mut record = Record::default();
        record.keep(0x10, 7);
        record.keep(0x20, 3);
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        assert!(Record::default().write(&folder.join("none/lids")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_lid_is_never_kept_for_two() {
        let mut record = Record::default();
        record.keep(1, 7);
        record.keep(2, 7);
        assert_eq!((record.lid(1), record.lid(2)), (None, Some(7)));
        let updated = record.updated(&[(3, 7), (4, 8)]);
        assert_eq!(updated.iter().collect::<Vec<_>>(), [(3, 7), (4, 8)]);
        assert_eq!(updated.updated(&[(5, 9)]).lid(3), Some(7), "who is gone keeps its LID");
    }

    #[test]
    fn a_file_of_another_form_is_refused_with_its_line() {
        let refused = |text: &str| Record::parse(Path::new("lids"), text).unwrap_err().to_string();
        assert!(refused("").starts_with("lids, line 1: "), "{}", refused(""));
        for (line, bad) in
            [(2, "0x1 0"), (2, "1 1"), (2, "0x1 49152"), (2, "0x1 1 1"), (2, "0x1"), (3, "0x1 1\n0x2 1")]
        {
            let said = refused(&format!("{FORM}\n{bad}\n"));
            assert!(
                said.starts_with(&format!("lids, line {line}: ")) && said.contains("remove the file"),
                "{said}"
            );
        }
    }
}
