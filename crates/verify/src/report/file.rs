//! Files: a page is written whole or not at all, and whether it can be written is known before a long run.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The document is of another kind.
    #[error(
        "the document {found}, not a `{}`: give the output of `tieline verify --json`",
        crate::run::SCHEMA
    )]
    WrongSchema {
        /// What it is.
        found: String,
    },
    /// The page would be longer than [`super::MAX_BYTES`], even short.
    #[error(
        "the report would be {length_bytes} bytes, more than {}: the document holds too much",
        super::MAX_BYTES
    )]
    TooLarge {
        /// How long.
        length_bytes: usize,
    },
    /// A saved document cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no JSON.
    #[error("{} is no JSON ({why}): give a file that `tieline verify --json` has written", path.display())]
    NoJson {
        /// Which.
        path: PathBuf,
        /// Where and why.
        why: serde_json::Error,
    },
    /// The page cannot be written.
    #[error("the report cannot be written to {}: {source}; name another file with --report", path.display())]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The longest document that is read, in bytes: beyond it, it is none of ours.
const LONGEST_DOCUMENT: u64 = 256 << 20;

/// A document that was saved before.
pub fn load(path: &Path) -> Result<Value, ReportError> {
    let unreadable = |source| ReportError::Unreadable { path: path.into(), source };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    io::Read::read_to_string(&mut io::Read::take(file, LONGEST_DOCUMENT), &mut text).map_err(unreadable)?;
    serde_json::from_str(&text).map_err(|why| ReportError::NoJson { path: path.into(), why })
}

/// Where the page goes. It is written beside, and gets its name once it is whole.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    /// A device or a pipe: written as it is, as a rename would replace it.
    special: bool,
}

impl Writer {
    /// Makes sure now that there can be a report later. Leaves nothing, as a long run may be ended by a signal.
    pub fn prepare(path: &Path) -> Result<Self, ReportError> {
        let unwritable = |source| ReportError::Unwritable { path: path.into(), source };
        if path.is_dir() {
            return Err(unwritable(io::ErrorKind::IsADirectory.into()));
        }
        if path.exists() {
            // A file that is protected is not replaced behind its owner's back.
            OpenOptions::new().append(true).open(path).map_err(unwritable)?;
        }
        // Through a symbolic link to what it names, so that the link stays.
        let writer = Self {
            path: fs::canonicalize(path).unwrap_or_else(|_| path.into()),
            special: path.exists() && !path.is_file(),
        };
        if !writer.special {
            let beside = writer.beside().map_err(unwritable)?;
            let written = nameless(&beside).and_then(|mut file| {
                // As much as a report may need, and no hole in the file: so a full disk is known now.
                file.write_all(&vec![b' '; super::MAX_BYTES])
            });
            written.map_err(unwritable)?;
        }
        Ok(writer)
    }

    /// Writes it and gives it its name.
    pub fn write(&self, page: &str) -> Result<(), ReportError> {
        let written = if self.special {
            OpenOptions::new()
                .append(true)
                .open(&self.path)
                .and_then(|mut file| file.write_all(page.as_bytes()))
        } else {
            self.beside().and_then(|beside| {
                let renamed = whole(&beside, page).and_then(|()| fs::rename(&beside, &self.path));
                if renamed.is_err() {
                    drop(fs::remove_file(&beside));
                }
                renamed
            })
        };
        written.map_err(|source| ReportError::Unwritable { path: self.path.clone(), source })
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

/// A file in the folder of this path that vanishes with this process, however that ends.
fn nameless(path: &Path) -> io::Result<fs::File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(descriptor) => Ok(descriptor.into()),
        // Not every file system has such files; there it has a name for a moment.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            fs::remove_file(path)?;
            Ok(file)
        }
        Err(error) => Err(error.into()),
    }
}

fn whole(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tieline-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn whole_or_not_at_all() {
        let dir = dir("whole");
        let path = dir.join("r.html");
        drop(Writer::prepare(&path).unwrap());
        assert!(names(&dir).is_empty());
        Writer::prepare(&path).unwrap().write("one").unwrap();
        Writer::prepare(&path).unwrap().write("two, longer").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two, longer");
        assert_eq!(names(&dir), ["r.html"]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let dir = dir("bad");
        for (path, word) in [(dir.join("no/such/r.html"), "not found"), (dir.clone(), "directory")] {
            let error = Writer::prepare(&path).unwrap_err().to_string().to_lowercase();
            assert!(error.contains(word) || error.contains("no such"), "{error}");
            assert!(error.contains("--report") && error.contains(&*path.to_string_lossy()), "{error}");
        }
        // Always full.
        if Path::new("/dev/full").exists() {
            let writer = Writer::prepare(Path::new("/dev/full")).unwrap();
            assert!(writer.write("page").unwrap_err().to_string().contains("/dev/full"));
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_saved_document_that_is_none_is_named() {
        let dir = dir("load");
        let path = dir.join("v.json");
        assert!(matches!(load(&path), Err(ReportError::Unreadable { .. })));
        fs::write(&path, "{\"schema\": ").unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(
            error.contains("v.json") && error.contains("line 1") && error.contains("verify --json"),
            "{error}"
        );
        fs::remove_dir_all(&dir).unwrap();
    }
}
