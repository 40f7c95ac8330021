//! The directory of credentials of one cluster: who may reach it, and how its files are written.
//!
//! | file | what | where |
//! |---|---|---|
//! | `cluster` | the cluster's name | every host |
//! | `authority.crt` | the authority's certificate (DER) | every host |
//! | `authority.key` | its key (PKCS #8) | the host of `tieline cluster init` |
//! | `issued/ID` | from when on the last certificate of this node is valid | the same |
//! | `tokens/ID` | a token that was not used yet: a hash, the expiry, the node | the same |
//! | `hosts` | nodes and the addresses of their managers, one a line | every host |
//! | `revoked` | the list of revoked certificates, signed by the authority | every host, once there is one |
//! | `unfinished` | the making of the authority has begun, and has not ended | the host of `tieline cluster init`, meanwhile |
//! | `node-ID.crt`, `.key`, `.address` | certificate, key and address of a node of this host | that host |

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::error::{Result, TrustError};
use crate::hex;

/// Larger files are not read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How often, and after what pauses, the lock is tried. Whoever has it writes some small files.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// How the name of a file begins that is being written, and how many random bytes follow.
const EARLY: &str = ".";
const EARLY_BYTES: usize = 8;

/// Nobody else changes what several processes change, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _dir: fs::File,
}

/// The directory; only its owner can reach it.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> TrustError {
    let path = path.to_path_buf();
    move |source| TrustError::Io { what, path, source }
}

impl Store {
    /// Makes the directory if it is not there.
    pub fn create(dir: &Path) -> Result<Self> {
        if let Some(parent) = dir.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(io("create", parent))?;
        }
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io("create", dir)(error)),
            _ => {}
        }
        Self::open(dir)?.ok_or_else(|| io("open", dir)(ErrorKind::NotFound.into()))
    }

    /// The directory that is there; `None`: there is none.
    pub fn open(dir: &Path) -> Result<Option<Self>> {
        let found = match fs::symlink_metadata(dir) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io("open", dir)(error)),
        };
        let mode = found.mode() & 0o7777;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || mode & 0o077 != 0 {
            return Err(TrustError::Open { path: dir.into(), mode, owner: found.uid() });
        }
        Ok(Some(Self { dir: dir.into() }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.place(name).is_file()
    }

    /// What lies in the directory itself.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.names_in(".")
    }

    /// What lies in a folder of the directory; nothing, if there is no such folder.
    pub(crate) fn names_in(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.place(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io("read", &path)(error)),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<std::io::Result<_>>().map_err(io("read", &path))
    }

    /// `None`: it is not there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.place(name);
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io("open", &path)(error)),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(io("read", &path))?;
        Ok(Some(bytes))
    }

    pub(crate) fn need(&self, name: &str) -> Result<Vec<u8>> {
        let missing = || io("open", &self.place(name))(ErrorKind::NotFound.into());
        self.read(name)?.ok_or_else(missing)
    }

    pub(crate) fn text(&self, name: &str) -> Result<String> {
        let bytes = self.need(name)?;
        let text = String::from_utf8(bytes).map_err(|_| self.damaged(name, "it is not text"))?;
        Ok(text.trim_end().to_owned())
    }

    pub(crate) fn damaged(&self, name: &str, why: impl Into<String>) -> TrustError {
        TrustError::Damaged { path: self.place(name), why: why.into() }
    }

    /// Writes a file as a whole, or not at all; only the owner can read it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.place(name);
        let early = self.place(&format!("{EARLY}{}", hex::encode(&random::<EARLY_BYTES>()?)));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&early)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&early, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&early);
            io("write", &path)(error)
        })
    }

    /// For files that the authority's commands and several managers change.
    pub(crate) fn lock(&self) -> Result<Lock> {
        let open = || fs::File::open(&self.dir).map_err(io("open", &self.dir));
        let mut dir = open()?;
        let mut left = LOCK_TRIES;
        loop {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.is_still(&dir)? => return Ok(Lock { _dir: dir }),
                // Who had the lock has removed the directory, and another one may be in its place.
                Ok(()) => dir = open()?,
                Err(rustix::io::Errno::WOULDBLOCK) if left > 0 => std::thread::sleep(LOCK_PAUSE),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(TrustError::Locked { path: self.dir.clone() });
                }
                Err(errno) => return Err(io("lock", &self.dir)(errno.into())),
            }
            left = left.saturating_sub(1);
        }
    }

    fn is_still(&self, dir: &fs::File) -> Result<bool> {
        let there = fs::metadata(&self.dir).map_err(io("open", &self.dir))?;
        let locked = dir.metadata().map_err(io("open", &self.dir))?;
        Ok((there.dev(), there.ino()) == (locked.dev(), locked.ino()))
    }

    /// Files that are being written. Only for who knows that nobody writes.
    pub(crate) fn remove_early(&self) {
        let is_early = |name: &&String| {
            let random = name.strip_prefix(EARLY).and_then(hex::decode::<EARLY_BYTES>);
            random.is_some()
        };
        for name in self.names().unwrap_or_default().iter().filter(is_early) {
            let _ = self.remove(name);
        }
    }

    /// Makes an empty file; false: it is there already, by whichever process.
    pub(crate) fn make_new(&self, name: &str) -> Result<bool> {
        let path = self.place(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(io("create", &path)(error)),
        }
    }

    pub(crate) fn make_dir(&self, name: &str) -> Result<()> {
        let path = self.place(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(io("create", &path))
    }

    /// Removes a folder of the directory, unless something lies in it.
    pub(crate) fn remove_dir_if_empty(&self, name: &str) {
        let _ = fs::remove_dir(self.place(name));
    }

    /// Removes the directory, unless something lies in it.
    pub(crate) fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.dir);
    }

    /// Removes a file; false: it was not there, or somebody else was faster.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        let path = self.place(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io("remove", &path)(error)),
        }
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let rest = bytes.get_mut(filled..).unwrap_or_default();
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| TrustError::Random(errno.into()))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_can_reach_what_is_written() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("a/b")).unwrap();
        store.write("x", b"secret").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(store.path()), mode(&store.place("x"))), (0o700, 0o600));
        assert_eq!(store.read("x").unwrap().unwrap(), b"secret");
        assert_eq!(fs::read_dir(store.path()).unwrap().count(), 1);
        assert!(store.remove("x").unwrap());
        assert!(!store.remove("x").unwrap());
        assert!(store.read("x").unwrap().is_none());
    }

    #[test]
    fn a_directory_that_others_can_reach_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("c");
        Store::create(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(Store::open(&dir), Err(TrustError::Open { mode: 0o755, .. })));
        let link = root.path().join("l");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(Store::open(&link).is_err());
        assert!(Store::open(&root.path().join("none")).unwrap().is_none());
    }
}
