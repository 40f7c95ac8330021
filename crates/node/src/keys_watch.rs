//! Watches the directory of the cluster's keys: commands of this host and its other managers write there.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify;
use rustix::io::Errno;

/// An inotify watch.
#[derive(Debug)]
pub(crate) struct KeysWatch {
    fd: OwnedFd,
}

impl KeysWatch {
    pub(crate) fn new(directory: &Path) -> Result<Self, Errno> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        // Files are renamed into place.
        inotify::add_watch(&fd, directory, inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR)?;
        Ok(Self { fd })
    }

    /// Whether this file was written since the last call, or so much that it is not known.
    pub(crate) fn has_come(&self, name: &str) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.fd, &mut buffer);
        let mut has_come = false;
        while let Ok(event) = reader.next() {
            has_come |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW)
                || event.file_name().is_some_and(|file| file.to_bytes() == name.as_bytes());
        }
        has_come
    }
}

impl AsFd for KeysWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_is_asked_for_counts() {
        let dir = std::env::temp_dir().join(format!("tieline-keys-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let watch = KeysWatch::new(&dir).unwrap();
        let write = |name: &str| {
            std::fs::write(dir.join(".early"), "").unwrap();
            std::fs::rename(dir.join(".early"), dir.join(name)).unwrap();
        };
        assert!(!watch.has_come("revoked"));
        write("hosts");
        assert!(!watch.has_come("revoked"));
        write("revoked");
        write("hosts");
        assert!(watch.has_come("revoked"));
        assert!(!watch.has_come("revoked"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
