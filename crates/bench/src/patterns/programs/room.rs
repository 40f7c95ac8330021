//! A temporary folder for the files of a measured program.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use shm::sync::{AtomicUsize, Ordering};

use crate::error::{BenchError, Result};

/// A private folder, which is removed when its handle is dropped.
#[derive(Debug)]
pub(in crate::patterns) struct Room(PathBuf);

impl Room {
    pub(in crate::patterns) fn new() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: only the number matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tieline-bench-programs-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // An existing folder of that name is not used: it may not be private.
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(BenchError::io(path.display().to_string()))?;
        Ok(Self(path))
    }

    pub(in crate::patterns) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, content).map_err(BenchError::io(path.display().to_string()))?;
        Ok(path)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a port of loopback that is free now: most of these programs cannot choose one by
/// themselves.
pub(in crate::patterns) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
    listener.map(|address| address.port()).map_err(BenchError::io("asking for a free port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_differ_and_go() {
        let (first, second) = (Room::new().unwrap(), Room::new().unwrap());
        assert_ne!(first.path(), second.path());
        let file = first.file("a", b"b").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"b");
        drop(first);
        assert!(!file.exists() && second.path().exists());
        assert_ne!(free_port().unwrap(), 0);
    }
}
