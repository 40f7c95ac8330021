//! Watches the cluster's directory for managers that appear, and for own files that are removed.

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
    /// Too many events: the directory must be read again.
    LookAgain,
}

/// An inotify watch.
#[derive(Debug)]
pub(crate) struct Watch {
    fd: OwnedFd,
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
        Ok(Self { fd })
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
            if flags.intersects(gone) {
                happened.push(Happened::DirectoryGone);
            } else if flags.contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                happened.push(Happened::LookAgain);
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
