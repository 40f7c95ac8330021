//! Room on disk for the files of a host that joins: it is reserved before the token is used up, which happens
//! once.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Result, TrustError};
use crate::store::random;

/// Bytes of the files that are held: more than a full list of hosts takes twice, as a file is written beside
/// the one that it replaces, and as many small ones as a node has.
const FILES: [usize; 9] = [128 * 1024, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096];

const NAME: &str = ".room-";
/// Nobody holds room for so long.
const STALE: Duration = Duration::from_secs(3600);

/// Files that take the room; they are removed when this is dropped.
#[derive(Debug)]
pub struct Room {
    dir: PathBuf,
}

impl Room {
    /// Takes it in this directory, which is made if it is not there.
    pub fn hold(parent: &Path) -> Result<Self> {
        let failed = |what: &'static str, path: &Path| {
            let path = path.to_path_buf();
            move |source: std::io::Error| match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    TrustError::NoRoom { path, source }
                }
                _ => TrustError::Io { what, path, source },
            }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed("create", parent))?;
        remove_stale(parent);
        let dir = parent.join(format!("{NAME}{}", std::process::id()));
        // One of a process that was killed, whose number this one has now.
        let _ = fs::remove_dir_all(&dir);
        DirBuilder::new().mode(0o700).create(&dir).map_err(failed("create", &dir))?;
        let room = Self { dir };
        // Some file systems compress, and zeros would take no room there.
        let noise: [u8; 4096] = random()?;
        for (number, bytes) in FILES.into_iter().enumerate() {
            let path = room.dir.join(number.to_string());
            let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).and_then(
                |mut file| {
                    (0..bytes / noise.len()).try_for_each(|_| file.write_all(&noise))?;
                    // A full disk is an error only now where blocks are given out late.
                    file.sync_all()
                },
            );
            written.map_err(failed("write", parent))?;
        }
        Ok(room)
    }
}

/// What processes have left that were killed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_room = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        let made = entry.metadata().and_then(|found| found.modified());
        if is_room && made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > STALE)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_and_given_back() {
        let root = tempfile::tempdir().unwrap();
        let parent = root.path().join("a/b");
        let room = Room::hold(&parent).unwrap();
        let sizes: usize = fs::read_dir(&room.dir)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len() as usize)
            .sum();
        assert_eq!(sizes, FILES.iter().sum());
        drop(room);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        // One that a killed process has left goes when it is old; one that may be in use stays.
        for name in [".room-old", ".room-new"] {
            fs::create_dir(parent.join(name)).unwrap();
            fs::write(parent.join(name).join("0"), "").unwrap();
        }
        let long_ago = std::time::SystemTime::now() - 2 * STALE;
        fs::File::open(parent.join(".room-old")).unwrap().set_modified(long_ago).unwrap();
        drop(Room::hold(&parent).unwrap());
        let left: Vec<_> = fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".room-new"]);
        // What stands in the place of the directory is named.
        fs::write(root.path().join("file"), "").unwrap();
        let error = Room::hold(&root.path().join("file")).unwrap_err().to_string();
        assert!(error.contains("file"), "{error}");
    }
}
