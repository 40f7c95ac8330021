//! Creates the cluster's directory, and removes what dead managers left in it.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub use node_client::runtime_dir::*;
use proto::ids::{MAX_NODE_ID, NodeId};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, geteuid};

use crate::acl::{self, Acl};
use crate::interrupt_sockets;
use crate::listener::early_name;
use crate::lock::NodeLock;

/// Who, besides its owner, has to reach the managers in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    /// Members of this group.
    pub gid: Option<u32>,
    /// Single users: by an access control list. Where the file system has none, the directory is opened for
    /// all to look into and the socket for all to connect, and the manager decides by the kernel's word on
    /// who it is.
    pub uids: Vec<u32>,
}

/// To look into a directory, and to reach what is in it.
const SEARCH: u16 = 0o5;

impl Sharing {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// For the owner, and the group.
    fn directory_mode(&self) -> u32 {
        0o700 | if self.gid.is_some() { 0o050 } else { 0 }
    }
}

/// Makes the directory if need be, and checks that no other user can put anything into it.
pub fn prepare(dir: &ClusterDir, sharing: &Sharing) -> Result<()> {
    let longest = NodeId::new(MAX_NODE_ID).map(|node| dir.socket(node));
    // Said now, for all nodes, and not when the first big id is started.
    if let Ok(Err(error)) = longest {
        return Err(error);
    }
    prepare_root(dir, sharing)?;
    let directory = Directory::made(dir.path(), 0o700)?;
    let uid = geteuid().as_raw();
    if directory.owner() != uid {
        return Err(RuntimeDirError::ForeignOwner { path: dir.path().into(), owner: directory.owner(), uid });
    }
    let mode = directory.mode();
    let others = if sharing.uids.is_empty() { 0 } else { 0o055 };
    let allowed = 0o750 | others;
    if mode & 0o022 != 0 || mode & 0o077 & !allowed != 0 {
        return Err(RuntimeDirError::WrongMode {
            path: dir.path().into(),
            mode,
            wanted: sharing.directory_mode(),
            others_may: if mode & 0o022 != 0 { "put their own sockets there" } else { "reach its managers" },
        });
    }
    if let Some(gid) = sharing.gid
        && directory.group() != gid
    {
        directory.give_to_group(gid)?;
    }
    directory.open_for(mode | sharing.directory_mode(), sharing)
}

fn prepare_root(dir: &ClusterDir, sharing: &Sharing) -> Result<()> {
    let (root, shared) = (dir.root(), !sharing.is_none());
    let mode = if shared { 0o711 } else { 0o700 };
    let io = |source| RuntimeDirError::Io { what: "create", path: root.into(), source };
    if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().mode(mode).recursive(true).create(parent).map_err(io)?;
    }
    if !dir.is_named() {
        // One that was found may have been made by another user, to be taken for this user's.
        check_parent(root)?;
    }
    let uid = geteuid().as_raw();
    let target = if dir.is_named() { own_link(root)? } else { None };
    let directory = Directory::made(target.as_deref().unwrap_or(root), mode)?;
    if dir.is_named() {
        // In a sticky directory like /tmp each user's entries are safe from the others.
        let sticky = directory.mode() & 0o1000 != 0;
        if !is_own_or_root(directory.owner()) && !sticky {
            return Err(RuntimeDirError::ForeignOwner { path: root.into(), owner: directory.owner(), uid });
        }
    } else if !is_own_or_root(directory.owner()) {
        return Err(RuntimeDirError::Foreign { path: root.into(), owner: directory.owner(), uid });
    }
    check_mode(root, directory.mode())?;
    if shared && directory.owner() == uid && directory.mode() & 0o011 != 0o011 {
        directory.set_mode(directory.mode() | 0o011)?;
    }
    Ok(())
}

/// Where a link in the place of a named directory leads, if this user or root has made the link: it is their
/// word then.
fn own_link(path: &Path) -> Result<Option<PathBuf>> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() && is_own_or_root(there.uid()) => std::fs::canonicalize(path)
            .map(Some)
            .map_err(|source| RuntimeDirError::Io { what: "look at", path: path.into(), source }),
        _ => Ok(None),
    }
}

/// Makes the runtime directory that the cluster's directory belongs in, if need be.
pub fn prepare_root_of(dir: &ClusterDir) -> Result<()> {
    prepare_root(dir, &Sharing::default())
}

/// Makes a directory that only this user may enter, if there is none.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    Directory::made(path, 0o700).map(drop)
}

/// A directory that stays the same, whatever takes its name.
struct Directory {
    path: PathBuf,
    file: File,
    metadata: std::fs::Metadata,
}

impl Directory {
    /// Opens it; makes it first if nothing is there. A link in its place is not followed: another user may
    /// have put it there.
    fn made(path: &Path, mode: u32) -> Result<Self> {
        let failed = |what| move |source| RuntimeDirError::Io { what, path: path.into(), source };
        let is_new = match std::fs::DirBuilder::new().mode(mode).create(path) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(source) => return Err(failed("create")(source)),
        };
        // Without the right to read it, too: others' directories may only let others pass.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let file = match opened {
            Err(error) if error.raw_os_error().is_some_and(is_no_directory) => {
                return Err(RuntimeDirError::NotADirectory { path: path.into() });
            }
            other => other.map_err(failed("open"))?,
        };
        let metadata = file.metadata().map_err(failed("look at"))?;
        let mut directory = Self { path: path.into(), file, metadata };
        if is_new && directory.owner() == geteuid().as_raw() {
            // The umask has had its say.
            directory.set_mode(mode)?;
            directory.metadata = directory.file.metadata().map_err(failed("look at"))?;
        }
        Ok(directory)
    }

    fn owner(&self) -> u32 {
        self.metadata.uid()
    }

    fn group(&self) -> u32 {
        self.metadata.gid()
    }

    fn mode(&self) -> u32 {
        self.metadata.mode() & 0o7777
    }

    /// The same directory, so that its rights can be changed: it is this user's.
    fn opened(&self) -> Result<File> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.file, ".", flags, Mode::empty()).map(File::from).map_err(|errno| {
            RuntimeDirError::Io { what: "open", path: self.path.clone(), source: errno.into() }
        })
    }

    fn give_to_group(&self, gid: u32) -> Result<()> {
        let given = rustix::fs::fchown(self.opened()?, None, Some(Gid::from_raw(gid)));
        given.map_err(|errno| not_given(&self.path, errno))
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.opened()?.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(|source| {
            RuntimeDirError::Io { what: "set the mode of", path: self.path.clone(), source }
        })
    }

    /// Lets group and listed users look into the directory; what it allows others already, for other managers
    /// in it, stays.
    fn open_for(&self, mode: u32, sharing: &Sharing) -> Result<()> {
        let file = self.opened()?;
        let before = acl::users_of_open(&file);
        if sharing.uids.is_empty() && before.is_empty() {
            return self.set_mode(mode);
        }
        let new = sharing.uids.iter().filter(|uid| !before.iter().any(|(there, _)| there == *uid));
        let users: Vec<_> = before.iter().copied().chain(new.map(|uid| (*uid, SEARCH))).collect();
        // With a list, the mode's bits of the group are its mask.
        let group = if sharing.gid.is_some() { SEARCH } else { 0 };
        let other = u16::try_from(mode & 0o7).unwrap_or_default();
        match (Acl { owner: 0o7, users, group, other }).set_open(&file) {
            Ok(()) => Ok(()),
            Err(errno) if acl::is_unknown(errno) => self.set_mode(mode | 0o055),
            Err(errno) => Err(RuntimeDirError::Io {
                what: "set the rights of",
                path: self.path.clone(),
                source: errno.into(),
            }),
        }
    }
}

/// A file, or a link to whatever: with `O_NOFOLLOW` a link is one link too many.
fn is_no_directory(errno: i32) -> bool {
    [Errno::NOTDIR, Errno::LOOP].map(Errno::raw_os_error).contains(&errno)
}

/// Hands a file to the group that may attach.
pub(crate) fn give_to_group(path: &Path, gid: u32) -> Result<()> {
    rustix::fs::chown(path, None, Some(Gid::from_raw(gid))).map_err(|errno| not_given(path, errno))
}

fn not_given(path: &Path, errno: Errno) -> RuntimeDirError {
    RuntimeDirError::Io { what: "give to the group under [access]", path: path.into(), source: errno.into() }
}

/// Removes what the manager that last held this lock left. Sockets of interrupts stay while their owners have
/// them: they continue with the next manager.
pub fn remove_files(dir: &ClusterDir, node: NodeId, lock: &NodeLock) {
    debug_assert_eq!(lock.node(), node);
    for path in [dir.socket(node), dir.peer_socket(node)].into_iter().flatten() {
        // What cannot be removed shows when the new socket is put in its place.
        let _ = std::fs::remove_file(early_name(&path));
        let _ = std::fs::remove_file(path);
    }
    interrupt_sockets::remove_dead(dir, node);
}

/// Removes the files of all managers that are dead; gives their nodes. Logs stay: they may say why.
pub fn remove_stale(dir: &ClusterDir) -> Result<Vec<NodeId>> {
    let mut nodes = dir.nodes_with("sock")?;
    nodes.extend(dir.nodes_with("peer")?);
    nodes.extend(dir.nodes_with("lock")?);
    nodes.sort_unstable();
    nodes.dedup();
    // Only who holds a node's lock may touch its files: its manager may be starting at this moment.
    nodes.retain(|node| match NodeLock::try_take(dir, *node) {
        Ok(Some(lock)) => {
            remove_files(dir, *node, &lock);
            lock.remove();
            true
        }
        _ => false,
    });
    Ok(nodes)
}

/// Removes the directory if nothing is left in it.
pub fn remove_if_empty(dir: &ClusterDir) {
    let _ = std::fs::remove_dir(dir.path());
}
