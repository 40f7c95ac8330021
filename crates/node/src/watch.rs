//! Watches the cluster's directory for managers that appear, and for own files that are removed; and the
//! directory of the cluster's keys, where commands of this host and its other managers write. One inotify
//! instance for both: a user has few of them.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use node_client::runtime_dir::node_of_file;
use proto::ids::NodeId;
use rustix::fs::inotify;
use rustix::io::Errno;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The socket of this node's manager is there.
    PeerAppeared(NodeId),
    /// Something was removed: are our files still there?
    SomethingRemoved,
    /// The directory itself is gone, or lies elsewhere.
    DirectoryGone,
    /// This file was written in the directory of keys.
    KeyWritten(String),
    /// Too many events: both directories must be read again.
    LookAgain,
}

/// An inotify watch.
#[derive(Debug)]
pub(crate) struct Watch {
    fd: OwnedFd,
    /// The number of the watch of the directory of keys, if there is one.
    keys: Option<i32>,
}

impl Watch {
    pub(crate) fn new(directory: &Path) -> Result<Self, Errno> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        // Sockets are renamed into place, so their creation is not of interest.
        let flags = inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF
            | inotify::WatchFlags::ONLYDIR;
        inotify::add_watch(&fd, directory, flags)?;
        Ok(Self { fd, keys: None })
    }

    /// Watches the directory of keys, too. Files are renamed into place there.
    pub(crate) fn watch_keys(&mut self, directory: &Path) -> Result<(), Errno> {
        let flags = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
        self.keys = Some(inotify::add_watch(&self.fd, directory, flags)?);
        Ok(())
    }

    /// What happened since the last call.
    pub(crate) fn read(&self) -> Vec<Happened> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.fd, &mut buffer);
        let mut happened = Vec::new();
        while let Ok(event) = reader.next() {
            let flags = event.events();
            let gone = inotify::ReadFlags::DELETE_SELF
                | inotify::ReadFlags::MOVE_SELF
                | inotify::ReadFlags::UNMOUNT
                | inotify::ReadFlags::IGNORED;
            if flags.contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                happened.push(Happened::LookAgain);
            } else if Some(event.wd()) == self.keys {
                let name = event.file_name().and_then(|name| name.to_str().ok());
                happened.extend(name.map(|name| Happened::KeyWritten(name.to_owned())));
            } else if flags.intersects(gone) {
                happened.push(Happened::DirectoryGone);
            } else if flags.contains(inotify::ReadFlags::MOVED_TO) {
                let name = event.file_name().and_then(|name| name.to_str().ok());
                happened.extend(name.and_then(|name| node_of_file(name, "peer")).map(Happened::PeerAppeared));
            } else {
                happened.push(Happened::SomethingRemoved);
            }
        }
        happened
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_written_among_the_keys_are_named() {
        let here = std::env::temp_dir().join(format!("tieline-watch-keys-{}", std::process::id()));
        let [dir, keys] = ["cluster", "keys"].map(|name| here.join(name));
        [&dir, &keys].into_iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        let mut watch = Watch::new(&dir).unwrap();
        watch.watch_keys(&keys).unwrap();
        for (name, into) in [("revoked", &keys), ("node-8.peer", &keys), ("node-8.peer", &dir)] {
            std::fs::write(here.join(".early"), "").unwrap();
            std::fs::rename(here.join(".early"), into.join(name)).unwrap();
        }
        let written = |name: &str| Happened::KeyWritten(name.to_owned());
        let appeared = Happened::PeerAppeared(NodeId::new(8).unwrap());
        assert_eq!(watch.read(), [written("revoked"), written("node-8.peer"), appeared]);
        std::fs::remove_dir_all(&keys).unwrap();
        assert_eq!(watch.read(), [], "the cluster's directory is there");
        std::fs::remove_dir_all(&here).unwrap();
    }

    #[test]
    fn appearing_managers_and_removed_files_are_seen() {
        let dir = std::env::temp_dir().join(format!("tieline-watch-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let watch = Watch::new(&dir).unwrap();
        assert_eq!(watch.read(), []);
        std::fs::write(dir.join("x"), "").unwrap();
        std::fs::rename(dir.join("x"), dir.join("node-8.peer")).unwrap();
        let happened = watch.read();
        assert!(happened.contains(&Happened::PeerAppeared(NodeId::new(8).unwrap())), "{happened:?}");
        std::fs::remove_file(dir.join("node-8.peer")).unwrap();
        assert_eq!(watch.read(), [Happened::SomethingRemoved]);
        std::fs::remove_dir(&dir).unwrap();
        assert!(watch.read().contains(&Happened::DirectoryGone));
    }
}
