//! The file of statistics: made by the launcher, written by the library in each program, read by whoever wants to know.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::layout::{self, Note, Reason, head, record};

/// Why there is no file of statistics.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsError {
    /// It cannot be made or read.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is of another version of this program.
    #[error("{} is a file of statistics of another version of tieline: run something by this one, or name another", .0.display())]
    Version(PathBuf),
    /// Something else has its name.
    #[error("{} is no file of statistics of `tieline run --stats`: name another file", .0.display())]
    Foreign(PathBuf),
}

/// Longest path of which the library takes notice, in bytes.
const LONGEST_PATH_BYTES: usize = 511;

/// Result about statistics.
pub type Result<T> = std::result::Result<T, StatisticsError>;

/// What one process has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Its number.
    pub pid: u32,
    /// Connections of TCP that it has used.
    pub connections: u64,
    /// Those of them that are only counted together.
    pub unrecorded: u64,
    /// It has executed another program since: what is open may be closed.
    pub left: bool,
    /// What the program's calls have moved through the kernel, by the reason why the connection was on TCP then.
    pub kernel: Vec<(Reason, Moved)>,
    /// What its calls have taken from rings, and put into them.
    pub rings: Moved,
    /// What this process has given from rings to the kernel: of bytes that it has put there, or another holder of the connection.
    pub returned: u64,
    /// Of what its calls have given to the kernel beside a ring: how much because the reader slept.
    pub asleep: u64,
    /// How many of all were on TCP, for which reason.
    pub reasons: Vec<(Reason, u64)>,
    /// What it did that matters to a faster way.
    pub notes: Vec<(Note, u64)>,
    /// Connections that are open.
    pub open: Vec<Connection>,
}

/// Bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Moved {
    /// Bytes that came.
    pub bytes_in: u64,
    /// Bytes that went.
    pub bytes_out: u64,
}

impl Moved {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes_in: self.bytes_in.saturating_add(other.bytes_in),
            bytes_out: self.bytes_out.saturating_add(other.bytes_out),
        }
    }
}

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Its socket's cookie.
    pub cookie: u64,
    /// Its descriptor.
    pub fd: u32,
    /// Why it is on TCP.
    pub reason: Option<Reason>,
    /// What the process's calls have moved on it.
    pub moved: Moved,
}

/// Has a file at this place: the one that is there, or a new one. With `fresh`, always a new one, in the place of an old one.
pub fn create(path: &Path, fresh: bool) -> Result<()> {
    let failed = |what| move |source| StatisticsError::Io { what, path: path.to_owned(), source };
    if path.as_os_str().len() > LONGEST_PATH_BYTES {
        // The library would not say that it counts nothing.
        return Err(failed("cannot make")(rustix::io::Errno::NAMETOOLONG.into()));
    }
    match check(path) {
        Ok(()) if !fresh => return Ok(()),
        Err(StatisticsError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
        // Who counts in an old one goes on in it, out of sight.
        Ok(()) | Err(StatisticsError::Version(_)) => {}
        Err(error) => return Err(error),
    }
    let own = path.with_file_name(format!(".statistics.{}", std::process::id()));
    // A longer file than the process may write would end it by a signal.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < layout::FILE_BYTES as u64) {
        return Err(failed("cannot make")(rustix::io::Errno::FBIG.into()));
    }
    // Under its final name it is complete from the beginning.
    // One of a process of this number that was killed.
    drop(std::fs::remove_file(&own));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&own);
    let made = made.and_then(|mut file| {
        // All room is taken now: processes store to it without asking anybody.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, layout::FILE_BYTES as u64)?;
        let mut page = vec![0; layout::HEAD_BYTES];
        page[..8].copy_from_slice(&layout::MAGIC.to_le_bytes());
        file.write_all(&page)?;
        drop(file);
        std::fs::rename(&own, path)
    });
    if made.is_err() {
        // What could not be made whole is not left.
        drop(std::fs::remove_file(&own));
    }
    made.map_err(failed("cannot make"))
}

/// The user's file in the runtime directory `root`.
#[must_use]
pub fn default_file(root: &Path) -> PathBuf {
    root.join(format!("sockets-{}", rustix::process::geteuid().as_raw()))
}

/// As [`create`], in a directory of the user's own, which is made if it is missing.
pub fn create_private(path: &Path) -> Result<()> {
    private_folder(path.parent().unwrap_or(Path::new("/")))?;
    create(path, false)
}

/// Has a directory of the user's own, in which nobody else may write.
pub(crate) fn private_folder(folder: &Path) -> Result<()> {
    let failed = |source| StatisticsError::Io { what: "cannot use", path: folder.to_owned(), source };
    if !folder.exists() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let own = std::fs::symlink_metadata(folder).map_err(failed)?;
    let metadata = std::fs::metadata(folder).map_err(failed)?;
    // A link that somebody else made leads where that user wants, now or a moment later.
    if own.is_symlink() && own.uid() != 0 && own.uid() != rustix::process::geteuid().as_raw() {
        return Err(failed(std::io::ErrorKind::PermissionDenied.into()));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(failed(std::io::ErrorKind::PermissionDenied.into()));
    }
    Ok(())
}

/// Whether there is a file of statistics.
fn check(path: &Path) -> Result<()> {
    open(path).map(drop)
}

fn open(path: &Path) -> Result<File> {
    let failed = |source| StatisticsError::Io { what: "cannot read", path: path.to_owned(), source };
    // Neither a pipe nor a terminal may hold this up.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(leased)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut magic = [0; 8];
    let is_ours = metadata.is_file()
        && file.read_exact(&mut magic).is_ok()
        && (u64::from_le_bytes(magic) ^ layout::MAGIC) & !layout::VERSION_BITS == 0;
    if !is_ours {
        Err(StatisticsError::Foreign(path.to_owned()))
    } else if u64::from_le_bytes(magic) != layout::MAGIC {
        // Those of other versions have other sizes.
        Err(StatisticsError::Version(path.to_owned()))
    } else if metadata.size() == layout::FILE_BYTES as u64 {
        Ok(file)
    } else {
        Err(StatisticsError::Foreign(path.to_owned()))
    }
}

/// Where it is not waited for, a file that somebody holds a lease on is told as one that is busy: in words, as there is no such error.
fn leased(error: std::io::Error) -> std::io::Error {
    if error.kind() == std::io::ErrorKind::WouldBlock {
        std::io::Error::other("another process holds a lease on it (fcntl(2), F_SETLEASE)")
    } else {
        error
    }
}

/// What all processes have counted.
pub fn read(path: &Path) -> Result<Vec<Counted>> {
    use std::os::unix::fs::FileExt;
    let file = open(path)?;
    let words = |at: usize, bytes: usize| -> Result<Vec<u64>> {
        let mut buffer = vec![0; bytes];
        file.read_exact_at(&mut buffer, at as u64).map_err(|source| StatisticsError::Io {
            what: "cannot read",
            path: path.to_owned(),
            source,
        })?;
        Ok(buffer
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
            .collect())
    };
    let owners = words(0, layout::HEAD_BYTES)?;
    let mut all = Vec::new();
    for (slot, owner) in owners.iter().skip(layout::OWNERS).take(layout::SLOTS).enumerate() {
        if *owner == 0 {
            continue;
        }
        let slot = words(layout::HEAD_BYTES + slot * layout::SLOT_BYTES, layout::SLOT_BYTES)?;
        // A slot that was taken and is not yet filled in still holds what its last owner left.
        if slot.get(head::PID) == Some(owner)
            && let Ok(pid) = u32::try_from(*owner)
        {
            all.push(counted(pid, &slot));
        }
    }
    all.sort_by_key(|process| process.pid);
    Ok(all)
}

/// The counters of a slot.
struct Slot<'a>(&'a [u64]);

/// Records of a slot, by their first word.
fn records() -> impl Iterator<Item = usize> {
    (0..layout::RECORDS).map(|at| layout::RECORDS_AT + at * layout::RECORD_WORDS)
}

impl Slot<'_> {
    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Of the head and of all records, also of those that are free.
    fn sum(&self, in_head: usize, in_record: usize) -> u64 {
        records().fold(self.word(in_head), |sum, at| sum.saturating_add(self.word(at + in_record)))
    }

    fn reason(&self, record: usize) -> Option<Reason> {
        Reason::ALL.get(record::reason(self.word(record + record::DESCRIPTOR))).copied()
    }

    /// Through the kernel, for this reason: what is told in the head, and what records have counted since. A record of no known reason
    /// counts with the first.
    fn kernel(&self, reason: Reason) -> Moved {
        let told = Moved {
            bytes_in: self.word(head::KERNEL_IN + reason as usize),
            bytes_out: self.word(head::KERNEL_OUT + reason as usize),
        };
        let its = records().filter(|at| self.reason(*at).unwrap_or(Reason::NotYet) == reason);
        its.fold(told, |sum, at| {
            // It may be told between two looks.
            let since = |counter, told| self.word(at + counter).saturating_sub(self.word(at + told));
            sum.and(Moved {
                bytes_in: since(record::KERNEL_IN, record::TOLD_IN),
                bytes_out: since(record::KERNEL_OUT, record::TOLD_OUT),
            })
        })
    }

    fn connection(&self, record: usize) -> Connection {
        let since = |counters: [usize; 2], before: usize| {
            let all = counters.iter().fold(0_u64, |sum, it| sum.wrapping_add(self.word(record + it)));
            all.wrapping_sub(self.word(record + before))
        };
        Connection {
            cookie: self.word(record + record::COOKIE),
            fd: self.word(record + record::DESCRIPTOR) as u32,
            reason: self.reason(record),
            moved: Moved {
                bytes_in: since([record::KERNEL_IN, record::MEMORY_IN], record::BEFORE_IN),
                bytes_out: since([record::KERNEL_OUT, record::PUT], record::BEFORE_OUT),
            },
        }
    }

    /// Connections that the process has inherited and used, which it counts when they are closed.
    fn inherited(&self) -> Vec<Reason> {
        let is_inherited = |at: &usize| {
            self.word(at + record::COOKIE) != 0
                && self.word(at + record::DESCRIPTOR) & record::INHERITED != 0
                && self.connection(*at).moved != Moved::default()
        };
        records().filter(is_inherited).filter_map(|at| self.reason(at)).collect()
    }
}

fn counted(pid: u32, slot: &[u64]) -> Counted {
    let slot = Slot(slot);
    let inherited = slot.inherited();
    let reasons = Reason::ALL.into_iter().map(|it| {
        let more = inherited.iter().filter(|reason| **reason == it).count() as u64;
        (it, slot.word(head::REASONS + it as usize).saturating_add(more))
    });
    let open = records().filter(|at| slot.word(at + record::COOKIE) != 0);
    Counted {
        pid,
        connections: slot.word(head::CONNECTIONS).saturating_add(inherited.len() as u64),
        unrecorded: slot.word(head::UNRECORDED),
        left: slot.word(head::LEFT) != 0,
        kernel: Reason::ALL.into_iter().map(|it| (it, slot.kernel(it))).collect(),
        rings: Moved {
            bytes_in: slot.sum(head::MEMORY_IN, record::MEMORY_IN),
            bytes_out: slot.sum(head::PUT, record::PUT),
        },
        returned: slot.sum(head::RETURNED, record::RETURNED),
        asleep: slot.sum(head::ASLEEP, record::ASLEEP),
        reasons: reasons.collect(),
        notes: Note::ALL.into_iter().map(|it| (it, slot.word(head::NOTES + it as usize))).collect(),
        open: open.map(|at| slot.connection(at)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt;

    fn put(path: &Path, at: usize, word: u64) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&word.to_le_bytes(), at as u64).unwrap();
    }

    #[test]
    fn a_new_file_is_empty_and_an_old_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        create(&path, false).unwrap();
        assert_eq!(read(&path).unwrap(), []);
        put(&path, 8 * layout::OWNERS, 7);
        put(&path, layout::HEAD_BYTES, 7);
        create(&path, false).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        create(&path, true).unwrap();
        assert_eq!(read(&path).unwrap().len(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_of_another_version_is_replaced_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        for fresh in [false, true] {
            create(&path, true).unwrap();
            put(&path, 0, u64::from_le_bytes(*b"TLsocks1"));
            // Of that version they were shorter.
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(layout::FILE_BYTES as u64 / 2).unwrap();
            assert!(matches!(read(&path), Err(StatisticsError::Version(_))));
            create(&path, fresh).unwrap();
            assert_eq!(read(&path).unwrap(), []);
        }
    }

    #[test]
    fn numbers_are_read_where_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        create(&path, false).unwrap();
        let slot = layout::HEAD_BYTES + 3 * layout::SLOT_BYTES;
        let record = slot + 8 * (layout::RECORDS_AT + 5 * layout::RECORD_WORDS);
        for (at, word) in [
            (8 * (layout::OWNERS + 3), 42),
            (slot + 8 * head::PID, 42),
            (slot + 8 * head::CONNECTIONS, 9),
            (slot + 8 * (head::KERNEL_OUT + Reason::Alone as usize), 100),
            (slot + 8 * head::RETURNED, 4),
            (record + 8 * record::ASLEEP, 5),
            (slot + 8 * (head::NOTES + Note::Uring as usize), 2),
            (record + 8 * record::COOKIE, 77),
            (record + 8 * record::DESCRIPTOR, 11),
            (record + 8 * record::KERNEL_IN, 9),
            (record + 8 * record::TOLD_IN, 3),
            (record + 8 * record::BEFORE_IN, 4),
            (record + 8 * record::MEMORY_IN, 20),
        ] {
            put(&path, at, word);
        }
        let all = read(&path).unwrap();
        assert_eq!((all.len(), all[0].pid, all[0].connections), (1, 42, 9));
        let through = |reason, bytes_in, bytes_out| (reason, Moved { bytes_in, bytes_out });
        assert_eq!(all[0].kernel[0], through(Reason::NotYet, 6, 0));
        assert_eq!(all[0].kernel[2], through(Reason::Alone, 0, 100));
        assert_eq!((all[0].rings.bytes_in, all[0].returned, all[0].asleep), (20, 4, 5));
        assert!(all[0].notes.contains(&(Note::Uring, 2)));
        let open = &all[0].open;
        assert_eq!((open.len(), open[0].cookie, open[0].fd, open[0].moved.bytes_in), (1, 77, 11, 25));
        assert_eq!(open[0].reason, Some(Reason::NotYet));
    }

    /// A file that begins as one of statistics does, in which these words stand in these places.
    fn scribbled(words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; layout::FILE_BYTES];
        bytes[..8].copy_from_slice(&layout::MAGIC.to_le_bytes());
        for (at, word) in words {
            // The first words of each slot and the owners have a meaning: most are put there.
            let at = match at % 4 {
                0 => layout::OWNERS + at / 4 % layout::SLOTS,
                1 => (layout::HEAD_BYTES + at / 4 % 4 * layout::SLOT_BYTES) / 8,
                2 => layout::HEAD_BYTES / 8 + at / 4 % (4 * layout::SLOT_WORDS),
                _ => at / 4 % (layout::FILE_BYTES / 8),
            };
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_bytes_are_reported_or_refused(
            words in prop::collection::vec((any::<usize>(), prop_oneof![0..5_u64, Just(u64::from(std::process::id())), any::<u64>()]), 0..60),
            length in prop_oneof![Just(layout::FILE_BYTES), 0..layout::FILE_BYTES],
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("s");
            std::fs::write(&path, &scribbled(&words)[..length]).unwrap();
            let whole = length == layout::FILE_BYTES && !words.iter().any(|(at, _)| at % 4 == 3 && (at / 4).is_multiple_of(layout::FILE_BYTES / 8));
            match crate::status::report(&path, true) {
                Ok(report) => {
                    prop_assert_eq!(length, layout::FILE_BYTES);
                    let texts = [report.summary(), report.details()];
                    prop_assert!(texts.iter().all(|text| !text.is_empty()));
                    let named = report.processes.iter().all(|it| texts[1].contains(&format!("process {} ", it.pid)));
                    prop_assert!(named, "{}", texts[1]);
                    // Nobody has this file mapped.
                    prop_assert!(report.processes.iter().all(|it| !it.running));
                    prop_assert_eq!(crate::status::report(&path, false).unwrap().processes, vec![]);
                }
                Err(error) => prop_assert!(!whole, "{}", error),
            }
        }
    }

    #[test]
    fn anything_may_stand_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut bytes = vec![0xff; layout::FILE_BYTES];
        bytes[..8].copy_from_slice(&layout::MAGIC.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        // No process has such a number.
        assert_eq!(read(&path).unwrap(), []);
        put(&path, 8 * layout::OWNERS, 1);
        put(&path, layout::HEAD_BYTES, 1);
        let all = read(&path).unwrap();
        assert_eq!((all[0].open.len(), all[0].open[0].reason), (layout::RECORDS, None));
        assert_eq!(
            (all[0].kernel[0].1.bytes_in, all[0].rings.bytes_out, all[0].returned),
            (u64::MAX, u64::MAX, u64::MAX)
        );
        for wrong in [&bytes[..100], b"", &vec![0; layout::FILE_BYTES]] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(read(&path), Err(StatisticsError::Foreign(_))));
            assert!(matches!(create(&path, true), Err(StatisticsError::Foreign(_))));
        }
        assert!(matches!(read(Path::new("/dev/null")), Err(StatisticsError::Foreign(_))));
    }
}
