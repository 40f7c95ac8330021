//! The statistics file: created as crate `entry` defines, written by the library in each
//! program, read here.

use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

pub use entry::counting::{Result, StatisticsError};

use crate::layout::{self, Note, Reason, head, record};

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
    /// What the program's calls have moved through the kernel, by the reason why the connection was on TCP
    /// then.
    pub kernel: Vec<(Reason, Moved)>,
    /// What its calls have taken from rings, and put into them.
    pub rings: Moved,
    /// What this process has given from rings to the kernel: of bytes that it has put there, or another
    /// holder of the connection.
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

/// Bytes that a connection has moved.
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
    /// Neither of it nor of an earlier connection that had this record a byte went through a ring and stayed
    /// there.
    pub rings_unused: bool,
}

/// Has a file at this place: the one that is there, or a new one. With `fresh`, always a new one, in the
/// place of an old one.
pub fn create(path: &Path, fresh: bool) -> Result<()> {
    entry::counting::create(path.as_os_str().as_bytes(), fresh)
}

/// The user's file in the runtime directory `root`.
#[must_use]
pub fn default_file(root: &Path) -> PathBuf {
    std::ffi::OsString::from_vec(entry::counting::file_in(root.as_os_str().as_bytes())).into()
}

/// As [`create`], in a directory of the user's own, which is made if it is missing.
pub fn create_private(path: &Path) -> Result<()> {
    entry::counting::create_private(path.as_os_str().as_bytes())
}

/// What all processes have counted.
pub fn read(path: &Path) -> Result<Vec<Counted>> {
    use std::os::unix::fs::FileExt;
    let path = path.as_os_str().as_bytes();
    let file = File::from(entry::counting::open(path)?);
    let words = |at: usize, bytes: usize| -> Result<Vec<u64>> {
        let mut buffer = vec![0; bytes];
        file.read_exact_at(&mut buffer, at as u64).map_err(|error| StatisticsError::System {
            what: "cannot read",
            path: path.to_owned(),
            // It may have been made shorter meanwhile.
            errno: Errno::from_io_error(&error).unwrap_or(Errno::NODATA),
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

    /// Through the kernel, for this reason: what is told in the head, and what records have counted since. A
    /// record of no known reason counts with the first.
    fn kernel(&self, reason: Reason) -> Moved {
        let told = Moved {
            bytes_in: self.word(head::of(reason as usize, head::KERNEL_IN)),
            bytes_out: self.word(head::of(reason as usize, head::KERNEL_OUT)),
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
            rings_unused: self.word(record + record::MEMORY_IN) == 0
                && self.word(record + record::PUT) <= self.word(record + record::RETURNED),
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
        (it, slot.word(head::of(it as usize, head::BECAUSE)).saturating_add(more))
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
    use std::fs::OpenOptions;
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
            (slot + 8 * head::of(Reason::Alone as usize, head::KERNEL_OUT), 100),
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
        assert_eq!((open[0].reason, open[0].rings_unused), (Some(Reason::NotYet), false));
        // What was put into a ring and handed back did not stay there.
        for (at, word) in [(record::PUT, 30), (record::MEMORY_IN, 0), (record::RETURNED, 30)] {
            assert!(!read(&path).unwrap()[0].open[0].rings_unused);
            put(&path, record + 8 * at, word);
        }
        assert!(read(&path).unwrap()[0].open[0].rings_unused);
    }

    /// A file that begins as one of statistics does, in which these words are in these places.
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
