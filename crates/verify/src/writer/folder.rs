//! Files of one folder that belong together: all are written under other names, and get theirs at the end.
//!
//! A list of their SHA-256 sums lies beside them, in the form of `sha256sum`. A file that is not as that list
//! says is somebody else's, and is not replaced.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use sha2::{Digest, Sha256};

use super::{DIRECTORY, Kind, WriteError, anew, nameless};

/// The longest list of sums that is read, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 16;
/// The pause between two checks whether another process is still writing to the folder, and the number of
/// checks.
const PAUSE: Duration = Duration::from_millis(50);
const LOOKS: u32 = 200;

/// Where the files go.
#[derive(Debug)]
pub struct Folder {
    kind: &'static Kind,
    dir: PathBuf,
    names: &'static [&'static str],
    /// The name of the list of sums.
    list: &'static str,
}

/// Ends the writing of a file once `stop` returns true.
struct Stopping<'a, W> {
    out: W,
    sum: Sha256,
    stop: &'a dyn Fn() -> bool,
}

impl<W: Write> Write for Stopping<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("interrupted"));
        }
        let written = self.out.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Unfinished files, which go unless they got their names.
struct Parts(Vec<PathBuf>);

impl Drop for Parts {
    fn drop(&mut self) {
        self.0.iter().for_each(|part| drop(fs::remove_file(part)));
    }
}

/// Folders that were made for the files, which go if they stay empty.
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        self.0.iter().rev().for_each(|dir| drop(fs::remove_dir(dir)));
    }
}

/// The name of a file until it is complete.
fn part_name(name: &str) -> String {
    format!(".{name}.{}.part", std::process::id())
}

/// Makes sure now that files can be written to a directory later. Makes none and leaves nothing: the writer
/// makes the directory, and those above it, if they are missing.
pub fn prepare_directory(kind: &'static Kind, dir: &Path) -> Result<(), WriteError> {
    let unwritable = |source| WriteError::Unwritable { kind, place: DIRECTORY, path: dir.into(), source };
    let above = match fs::metadata(dir) {
        Ok(there) if !there.is_dir() => return Err(WriteError::NotADirectory { kind, path: dir.into() }),
        Ok(_) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(dir).is_ok() {
                let why = "it is a symbolic link to what does not exist";
                return Err(unwritable(io::Error::other(why)));
            }
            dir.ancestors().skip(1).find(|above| above.exists()).unwrap_or(Path::new(""))
        }
        Err(error) => return Err(unwritable(error)),
    };
    nameless(&above.join(part_name("probe"))).map(drop).map_err(unwritable)
}

impl Folder {
    /// Makes sure now that the files can be written later. Leaves nothing.
    pub fn prepare(
        kind: &'static Kind,
        dir: &Path,
        names: &'static [&'static str],
        list: &'static str,
    ) -> Result<Self, WriteError> {
        prepare_directory(kind, dir)?;
        let this = Self { kind, dir: dir.into(), names, list };
        if dir.exists() {
            this.check()?;
        }
        Ok(this)
    }

    /// Writes all files, each by `write` with its name. False: `stop` returned true before all were complete,
    /// and nothing has changed.
    pub fn write(
        &self,
        mut write: impl FnMut(&str, &mut dyn Write) -> io::Result<()>,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, WriteError> {
        if stop() {
            return Ok(false);
        }
        let unwritable = |source| self.unwritable(&self.dir, source);
        let mut made = Made(Vec::new());
        let missing: Vec<&Path> =
            self.dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Ok(()) => made.0.push(dir.into()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unwritable(error)),
            }
        }
        let _lock = self.lock(stop).map_err(unwritable)?;
        // Another process may have put a file there meanwhile.
        self.check()?;
        let mut parts = Parts(Vec::new());
        let mut sums = String::new();
        for name in self.names {
            let part = self.dir.join(part_name(name));
            parts.0.push(part.clone());
            match whole(&part, self.kind.mode, &mut |out| write(name, out), stop) {
                Ok(sum) => sums.push_str(&format!("{sum}  {name}\n")),
                Err(_) if stop() => return Ok(false),
                Err(error) => return Err(self.unwritable(&self.dir.join(name), error)),
            }
        }
        let part = self.dir.join(part_name(self.list));
        parts.0.push(part.clone());
        whole(&part, self.kind.mode, &mut |out| out.write_all(sums.as_bytes()), &|| false)
            .map_err(unwritable)?;
        if stop() {
            return Ok(false);
        }
        for name in self.names.iter().chain([&self.list]) {
            let path = self.dir.join(name);
            fs::rename(self.dir.join(part_name(name)), &path)
                .map_err(|error| self.unwritable(&path, error))?;
        }
        parts.0.clear();
        made.0.clear();
        Ok(true)
    }

    /// The folder, for this process alone.
    fn lock(&self, stop: &dyn Fn() -> bool) -> io::Result<File> {
        let dir = File::open(&self.dir)?;
        for _ in 0..LOOKS {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(dir),
                Err(rustix::io::Errno::WOULDBLOCK) if !stop() => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("another process is writing to it"))
    }

    /// Whether each file may be written: it is not there, empty, or one of an earlier run.
    fn check(&self) -> Result<(), WriteError> {
        let unwritable = |path: &Path, source| Err(self.unwritable(path, source));
        let probe = nameless(&self.dir.join(part_name("probe")));
        probe.map_err(|error| self.unwritable(&self.dir, error))?;
        let mut sums = None;
        for name in self.names.iter().chain([&self.list]) {
            let path = self.dir.join(name);
            let there = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return unwritable(&path, error),
                Ok(there) => there,
            };
            if there.is_symlink() {
                return unwritable(&path, io::Error::other("it is a symbolic link"));
            }
            if !there.is_file() {
                return unwritable(&path, io::Error::other("it is no regular file"));
            }
            if there.len() == 0 {
                continue;
            }
            let known = sums.get_or_insert_with(|| self.sums());
            let is_ours = if *name == self.list {
                !known.is_empty()
            } else {
                let sum = known.iter().find(|one| one.1 == *name).map(|one| one.0.as_str());
                sum.is_some() && sum_of(&path).ok().as_deref() == sum
            };
            if !is_ours {
                return Err(WriteError::Changed { kind: self.kind, path, list: self.list });
            }
        }
        Ok(())
    }

    /// Sums and names of the list that is there; none if it is no list.
    fn sums(&self) -> Vec<(String, String)> {
        let read = plain(&self.dir.join(self.list)).and_then(|file| {
            let mut text = String::new();
            io::Read::read_to_string(&mut io::Read::take(file, LIST_BYTES_MAX), &mut text).map(|_| text)
        });
        let text = read.unwrap_or_default();
        let pair = |line: &str| line.split_once("  ").map(|(sum, name)| (sum.to_owned(), name.to_owned()));
        let known = |pair: &(String, String)| self.names.contains(&pair.1.as_str());
        let pairs: Option<Vec<_>> = text.lines().map(|line| pair(line).filter(known)).collect();
        pairs.unwrap_or_default()
    }

    fn unwritable(&self, path: &Path, source: io::Error) -> WriteError {
        WriteError::Unwritable { kind: self.kind, place: DIRECTORY, path: path.into(), source }
    }
}

/// A file for reading. In a folder of others it may have become a pipe meanwhile, which is not waited for.
fn plain(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

fn sum_of(path: &Path) -> io::Result<String> {
    let mut sum = Stopping { out: io::sink(), sum: Sha256::new(), stop: &|| false };
    io::copy(&mut plain(path)?, &mut sum)?;
    Ok(hex(sum.sum))
}

fn hex(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes one file and returns its sum.
fn whole(
    path: &Path,
    mode: u32,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    stop: &dyn Fn() -> bool,
) -> io::Result<String> {
    let out = Stopping { out: anew(path, mode)?, sum: Sha256::new(), stop };
    let mut out = BufWriter::with_capacity(1 << 16, out);
    write(&mut out)?;
    let out = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    out.out.sync_all()?;
    Ok(hex(out.sum))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::symlink;

    use super::*;

    static TABLES: Kind =
        Kind { what: "table", option: "--dump", size_bytes: 0, mode: 0o600, may_replace: |_| false };

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("tieline-folder-{name}-{}", std::process::id()));
            drop(fs::remove_dir_all(&dir));
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }

        fn prepare(&self) -> Result<Folder, WriteError> {
            Folder::prepare(&TABLES, &self.0.join("t"), &["a", "b"], "sums")
        }

        fn write(&self, text: &str) -> Result<bool, WriteError> {
            let write = |name: &str, out: &mut dyn Write| out.write_all(format!("{name} {text}").as_bytes());
            self.prepare()?.write(write, &|| false)
        }

        fn names(&self) -> Vec<String> {
            let Ok(all) = fs::read_dir(self.0.join("t")) else { return Vec::new() };
            let mut names: Vec<String> =
                all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join("t").join(name)).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn files_of_an_earlier_run_are_replaced_and_others_are_not() {
        let place = Place::new("again");
        drop(place.prepare().unwrap());
        assert!(place.names().is_empty() && !place.0.join("t").exists());
        assert!(place.write("one").unwrap());
        assert!(place.write("two").unwrap());
        assert_eq!(
            (place.names(), place.read("b")),
            (vec!["a".into(), "b".into(), "sums".into()], "b two".into())
        );
        fs::write(place.0.join("t/b"), "of somebody else").unwrap();
        let error = place.prepare().unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("t/b is not as tieline wrote it (see sums)") && text.contains("another directory"),
            "{text}"
        );
        assert_eq!((place.read("a"), place.read("b")), ("a two".into(), "of somebody else".into()));
        // Nor where there is no list at all, or another file has its name.
        fs::remove_file(place.0.join("t/b")).unwrap();
        fs::write(place.0.join("t/sums"), "a letter\n").unwrap();
        assert!(matches!(place.prepare(), Err(WriteError::Changed { .. })));
        fs::remove_file(place.0.join("t/sums")).unwrap();
        assert!(matches!(place.prepare(), Err(WriteError::Changed { .. })));
    }

    #[test]
    fn links_pipes_and_folders_are_refused() {
        let place = Place::new("links");
        fs::create_dir(place.0.join("t")).unwrap();
        let victim = place.0.join("victim");
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, place.0.join("t/b")).unwrap();
        let error = place.prepare().unwrap_err().to_string();
        assert!(
            error.contains("symbolic link") && error.contains("t/b") && error.contains("--dump"),
            "{error}"
        );
        fs::remove_file(place.0.join("t/b")).unwrap();
        fs::create_dir(place.0.join("t/b")).unwrap();
        let error = place.prepare().unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        let file = Folder::prepare(&TABLES, &victim, &["a"], "sums").unwrap_err().to_string();
        assert!(file.contains("not a directory"), "{file}");
        let deep = Folder::prepare(&TABLES, &place.0.join("a/b"), &["a"], "sums").unwrap();
        assert!(!deep.write(|_, out| out.write_all(b"x"), &|| place.0.join("a").exists()).unwrap());
        assert!(!place.0.join("a").exists());
        assert!(deep.write(|_, out| out.write_all(b"x"), &|| false).unwrap());
    }

    #[test]
    fn what_is_interrupted_or_fails_leaves_what_was_there() {
        let place = Place::new("stopped");
        let stopped = |folder: &Folder| {
            let begun = Cell::new(false);
            let write = |name: &str, out: &mut dyn Write| {
                begun.set(name == "b");
                out.write_all(&[b'x'; 1 << 17])
            };
            folder.write(write, &|| begun.get())
        };
        assert!(!stopped(&place.prepare().unwrap()).unwrap());
        assert!(!place.0.join("t").exists());
        assert!(place.write("one").unwrap());
        assert!(!stopped(&place.prepare().unwrap()).unwrap());
        let failing = |name: &str, out: &mut dyn Write| match name {
            "a" => out.write_all(b"half"),
            _ => Err(io::Error::other("no")),
        };
        let error = place.prepare().unwrap().write(failing, &|| false).unwrap_err().to_string();
        assert!(error.contains("t/b"), "{error}");
        assert_eq!((place.names().len(), place.read("a")), (3, "a one".into()));
    }

    #[test]
    fn two_at_once_write_one_after_the_other() {
        let place = Place::new("two");
        let folders = [place.prepare().unwrap(), place.prepare().unwrap()];
        std::thread::scope(|scope| {
            for (number, folder) in folders.iter().enumerate() {
                scope.spawn(move || {
                    let write = |name: &str, out: &mut dyn Write| {
                        std::thread::sleep(Duration::from_millis(5));
                        write!(out, "{name} {number}")
                    };
                    assert!(folder.write(write, &|| false).unwrap());
                });
            }
        });
        assert_eq!((place.names().len(), &place.read("a")[1..]), (3, &place.read("b")[1..]));
    }
}
