//! Files that a run writes: each whole or not at all, and checked to be writable before a long run.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

mod folder;

pub use folder::{Folder, prepare_directory};

/// There is no file.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It cannot be written.
    #[error("the {} cannot be written to {}: {source}: {}", kind.what, path.display(), kind.another(place))]
    Unwritable {
        /// What should be in it.
        kind: &'static Kind,
        /// What it is: a file, or a directory of files.
        place: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Files cannot be in it.
    #[error("{} is not a directory: {}", path.display(), kind.another(DIRECTORY))]
    NotADirectory {
        /// What should be in it.
        kind: &'static Kind,
        /// The path of the file.
        path: PathBuf,
    },
    /// A file of a folder is not as the list of sums says.
    #[error(
        "{} is not as tieline wrote it (see {list}), so it is not replaced: {}, or remove it",
        path.display(),
        kind.another(DIRECTORY)
    )]
    Changed {
        /// What should be in the folder.
        kind: &'static Kind,
        /// The path of the file.
        path: PathBuf,
        /// The name of the list.
        list: &'static str,
    },
    /// There is another file, which may still be needed.
    #[error(
        "{} exists and is not a {} that tieline wrote, so it is not replaced: {}, or remove it",
        path.display(),
        kind.what,
        kind.another(FILE)
    )]
    Foreign {
        /// What should be in it.
        kind: &'static Kind,
        /// The path of the file.
        path: PathBuf,
    },
}

/// What is written.
#[derive(Debug)]
pub struct Kind {
    /// In an error's words, such as `page`.
    pub what: &'static str,
    /// The option that names the file or directory; an argument is named without dashes.
    pub option: &'static str,
    /// As much as it may well need, in bytes: a disk with less is full.
    pub size_bytes: usize,
    /// The mode of the file; the process's mask is applied.
    pub mode: u32,
    /// Whether a file that begins so may be replaced.
    pub may_replace: fn(&[u8]) -> bool,
}

/// The places of [`WriteError::Unwritable`].
const FILE: &str = "file";
const DIRECTORY: &str = "directory";

impl Kind {
    /// How another place is given.
    fn another(&self, place: &str) -> String {
        if self.option.starts_with("--") {
            format!("name another {place} with {}", self.option)
        } else {
            format!("give another {}", self.option)
        }
    }
}

/// So much of a file is read to know what it is, in bytes.
const BEGINNING_BYTES: u64 = 4096;

/// Where a file goes. It is written beside, and gets its name once it is whole.
#[derive(Debug)]
pub struct Writer {
    kind: &'static Kind,
    path: PathBuf,
    /// A device: written as it is, as a rename would replace it.
    special: bool,
}

impl Writer {
    /// Makes sure now that there can be a file later. Leaves nothing, as a long run may be ended by a signal.
    pub fn prepare(kind: &'static Kind, path: &Path) -> Result<Self, WriteError> {
        let unwritable = |source| WriteError::Unwritable { kind, place: FILE, path: path.into(), source };
        if path.is_dir() {
            return Err(unwritable(io::ErrorKind::IsADirectory.into()));
        }
        if let Some(why) = fs::metadata(path).ok().and_then(|there| no_place(there.file_type())) {
            return Err(unwritable(io::Error::other(why)));
        }
        if fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink())
            && !fs::exists(path).unwrap_or(true)
        {
            // A process that made the link expects the file where it points, and not in its place.
            return Err(unwritable(io::Error::other("it is a symbolic link to what does not exist")));
        }
        if path.is_file() && !may_replace(kind, path).map_err(unwritable)? {
            return Err(WriteError::Foreign { kind, path: path.into() });
        }
        if path.exists() {
            // A file that is protected is not replaced behind its owner's back. In a folder of others it may
            // have become a pipe meanwhile, which is not waited for.
            let mut options = OpenOptions::new();
            options.append(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
            let there = options.open(path).map_err(unwritable)?;
            if there.metadata().map_err(unwritable)?.file_type().is_char_device() {
                // Of nothing nothing arrives, but a device that is always full refuses that, too.
                rustix::io::write(&there, &[]).map_err(|error| unwritable(error.into()))?;
            }
        }
        let writer = Self {
            kind,
            // Through a symbolic link to what it names, so that the link stays.
            path: fs::canonicalize(path).unwrap_or_else(|_| path.into()),
            special: path.exists() && !path.is_file(),
        };
        if !writer.special {
            let beside = writer.beside().map_err(unwritable)?;
            // A name that is too long is found here, as long as that of the unfinished file is.
            if let Err(error) = fs::symlink_metadata(&beside)
                && error.kind() == io::ErrorKind::InvalidFilename
            {
                return Err(unwritable(error));
            }
            let written = nameless(&beside).and_then(|mut file| {
                // No hole in the file: so a full disk is known now.
                file.write_all(&vec![b' '; kind.size_bytes])
            });
            written.map_err(unwritable)?;
        }
        Ok(writer)
    }

    /// Writes it and gives it its name.
    pub fn write(&self, bytes: &[u8]) -> Result<(), WriteError> {
        let written = if self.special {
            device(&self.path).and_then(|mut file| file.write_all(bytes))
        } else {
            self.beside().and_then(|beside| {
                let renamed =
                    whole(&beside, self.kind.mode, bytes).and_then(|()| fs::rename(&beside, &self.path));
                if renamed.is_err() {
                    drop(fs::remove_file(&beside));
                }
                renamed
            })
        };
        written.map_err(|source| self.failed(source))
    }

    /// What is to be written could not even be made.
    pub fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Unwritable { kind: self.kind, place: FILE, path: self.path.clone(), source }
    }

    /// Its name until it is whole: in the same folder, as a rename cannot leave the file system.
    fn beside(&self) -> io::Result<PathBuf> {
        let name = self.path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}.part", std::process::id()));
        Ok(self.path.with_file_name(beside))
    }
}

/// Makes sure now that [`write_now`] can write the file later. A pipe is not tried: its reader would see the
/// end of the attempt.
pub fn may_write(kind: &'static Kind, path: &Path) -> Result<(), WriteError> {
    if fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        return Ok(());
    }
    Writer::prepare(kind, path).map(drop)
}

/// Writes what is there already: also to a pipe, which [`Writer::prepare`] cannot try beforehand.
pub fn write_now(kind: &'static Kind, path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    if fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        let written = OpenOptions::new().append(true).open(path).and_then(|mut pipe| pipe.write_all(bytes));
        return written.map_err(|source| WriteError::Unwritable {
            kind,
            place: FILE,
            path: path.into(),
            source,
        });
    }
    Writer::prepare(kind, path)?.write(bytes)
}

/// Nothing is lost with an empty file, or with an earlier one of the same kind.
fn may_replace(kind: &Kind, path: &Path) -> io::Result<bool> {
    let mut beginning = Vec::new();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    file.take(BEGINNING_BYTES).read_to_end(&mut beginning)?;
    Ok(beginning.is_empty() || (kind.may_replace)(&beginning))
}

/// Why nothing can be written to what is there, whatever it would be.
fn no_place(kind: fs::FileType) -> Option<&'static str> {
    if kind.is_fifo() {
        // Its reader would see the end at the first open, and the second would wait for another reader.
        Some("it is a pipe, which cannot be written twice")
    } else if kind.is_block_device() {
        // Writing begins at the end, where a disk has no room.
        Some("it is a disk")
    } else {
        None
    }
}

/// A device, for writing. In a folder of others it may have become a pipe meanwhile, which is not waited for.
fn device(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    let file = options.append(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe, which cannot be written twice"));
    }
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

/// A file in the folder of this path that vanishes with this process, however that ends.
fn nameless(path: &Path) -> io::Result<fs::File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(descriptor) => Ok(descriptor.into()),
        // Not every file system has such files; there it has a name for a moment.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let file = anew(path, 0o600)?;
            fs::remove_file(path)?;
            Ok(file)
        }
        Err(error) => Err(error.into()),
    }
}

/// A file that no other user can have put there, with an eye on what a link in a folder for all may name.
fn anew(path: &Path, mode: u32) -> io::Result<fs::File> {
    // What a killed process of the same number left; where it is another's, making the file fails.
    drop(fs::remove_file(path));
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

fn whole(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut file = anew(path, mode)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    static NOTE: Kind = Kind {
        what: "note",
        option: "--note",
        size_bytes: 1000,
        mode: 0o600,
        may_replace: |beginning| beginning.starts_with(b"note"),
    };

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tieline-writer-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn prepare(path: &Path) -> Result<Writer, WriteError> {
        Writer::prepare(&NOTE, path)
    }

    #[test]
    fn whole_or_not_at_all_and_for_its_owner() {
        let dir = dir("whole");
        let path = dir.join("r");
        drop(prepare(&path).unwrap());
        assert!(names(&dir).is_empty());
        prepare(&path).unwrap().write(b"note one").unwrap();
        // Also where the file was readable for all before.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        prepare(&path).unwrap().write(b"note two, longer").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "note two, longer");
        assert_eq!(names(&dir), ["r"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let dir = dir("bad");
        for (path, word) in [(dir.join("no/such/r"), "not found"), (dir.clone(), "directory")] {
            let error = prepare(&path).unwrap_err().to_string().to_lowercase();
            assert!(error.contains(word) || error.contains("no such"), "{error}");
            assert!(error.contains("--note") && error.contains(&*path.to_string_lossy()), "{error}");
        }
        // Always full.
        if Path::new("/dev/full").exists() {
            assert!(prepare(Path::new("/dev/full")).unwrap_err().to_string().contains("/dev/full"));
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_device_that_takes_what_is_written_is_written_to_as_it_is() {
        prepare(Path::new("/dev/null")).unwrap().write(b"page").unwrap();
        let what = fs::metadata("/dev/null").unwrap();
        assert!(what.file_type().is_char_device());
    }

    #[test]
    fn a_disk_is_refused() {
        let dir = dir("disk");
        let path = dir.join("d");
        // Of a device that no driver has: nothing may be opened here by mistake.
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::BlockDevice,
            Mode::RUSR | Mode::WUSR,
            rustix::fs::makedev(0, 0),
        );
        match made {
            Ok(()) => {
                let error = prepare(&path).unwrap_err().to_string();
                assert!(error.contains("it is a disk"), "{error}");
            }
            Err(error) => println!("skipped: device files cannot be made here ({error})"),
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn another_file_is_not_replaced() {
        let dir = dir("foreign");
        let path = dir.join("r");
        fs::write(&path, "no").unwrap();
        let error = prepare(&path).unwrap_err();
        assert!(matches!(error, WriteError::Foreign { .. }), "{error}");
        assert!(
            error.to_string().contains(
                "not a note that tieline wrote, so it is not replaced: name another file with --note"
            ),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "no");
        // There is nothing in it.
        fs::write(&path, "").unwrap();
        write_now(&NOTE, &path, b"note").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "note");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_link_to_nothing_is_not_replaced_and_one_to_a_file_stays() {
        let dir = dir("links");
        let (path, target) = (dir.join("r"), dir.join("target"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let error = prepare(&path).unwrap_err().to_string();
        assert!(error.contains("symbolic link") && names(&dir) == ["r"], "{error}");
        fs::write(&target, "note").unwrap();
        prepare(&path).unwrap().write(b"note two").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "note two");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_cannot_be_completed_leaves_the_earlier_file() {
        let dir = dir("incomplete");
        let path = dir.join("r");
        fs::write(&path, "note one").unwrap();
        let writer = prepare(&path).unwrap();
        // Where the unfinished file should be made there is something that cannot be removed so.
        fs::create_dir(writer.beside().unwrap()).unwrap();
        writer.write(b"note two").unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "note one");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_link_that_somebody_planted_beside_is_not_followed() {
        let dir = dir("planted");
        let (path, victim) = (dir.join("r"), dir.join("victim"));
        fs::write(&victim, "mine").unwrap();
        let writer = prepare(&path).unwrap();
        std::os::unix::fs::symlink(&victim, writer.beside().unwrap()).unwrap();
        writer.write(b"page").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        fs::remove_dir_all(&dir).unwrap();
    }
}
