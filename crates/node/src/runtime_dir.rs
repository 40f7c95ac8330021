//! Making the cluster's directory, and removing what dead managers left in it.

use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

pub use node_client::runtime_dir::*;
use proto::ids::{MAX_NODE_ID, NodeId};
use rustix::process::{Gid, geteuid};

use crate::acl::{self, Acl};
use crate::listener::early_name;
use crate::lock::NodeLock;

/// Who, besides its owner, has to reach the managers in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    /// Members of this group.
    pub gid: Option<u32>,
    /// Single users: by an access control list. Where the file system has none, the directory is opened for all to look into and the
    /// socket for all to connect, and the manager decides by the kernel's word on who it is.
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

/// Makes the directory if need be, and checks that nobody else can put anything into it.
pub fn prepare(dir: &ClusterDir, sharing: &Sharing) -> Result<()> {
    let longest = NodeId::new(MAX_NODE_ID).map(|node| dir.socket(node));
    // Said now, for all nodes, and not when the first big id is started.
    if let Ok(Err(error)) = longest {
        return Err(error);
    }
    prepare_root(dir, sharing)?;
    make(dir.path(), 0o700, false)?;
    let metadata = existing(dir.path())?;
    let uid = geteuid().as_raw();
    if metadata.uid() != uid {
        return Err(RuntimeDirError::ForeignOwner { path: dir.path().into(), owner: metadata.uid(), uid });
    }
    let mode = metadata.mode() & 0o7777;
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
        && metadata.gid() != gid
    {
        give_to_group(dir.path(), gid)?;
    }
    open_for(dir.path(), mode | sharing.directory_mode(), sharing)
}

/// Lets group and listed users look into the directory; what it allows others already, for other managers in it, stays.
fn open_for(path: &Path, mode: u32, sharing: &Sharing) -> Result<()> {
    let before = acl::users_of(path);
    if sharing.uids.is_empty() && before.is_empty() {
        return set_mode(path, mode);
    }
    let new = sharing.uids.iter().filter(|uid| !before.iter().any(|(there, _)| there == *uid));
    let users: Vec<_> = before.iter().copied().chain(new.map(|uid| (*uid, SEARCH))).collect();
    // With a list, the mode's bits of the group are its mask.
    let group = if sharing.gid.is_some() { SEARCH } else { 0 };
    let other = u16::try_from(mode & 0o7).unwrap_or_default();
    match (Acl { owner: 0o7, users, group, other }).set(path) {
        Ok(()) => Ok(()),
        Err(errno) if acl::is_unknown(errno) => set_mode(path, mode | 0o055),
        Err(errno) => {
            Err(RuntimeDirError::Io { what: "set the rights of", path: path.into(), source: errno.into() })
        }
    }
}

fn prepare_root(dir: &ClusterDir, sharing: &Sharing) -> Result<()> {
    let (root, shared) = (dir.root(), !sharing.is_none());
    make(root, if shared { 0o711 } else { 0o700 }, true)?;
    let uid = geteuid().as_raw();
    let metadata = if dir.is_named() {
        let metadata = existing(root)?;
        // In a sticky directory like /tmp each user's entries are safe from the others.
        let sticky = metadata.mode() & 0o1000 != 0;
        if metadata.uid() != uid && metadata.uid() != 0 && !sticky {
            return Err(RuntimeDirError::ForeignOwner { path: root.into(), owner: metadata.uid(), uid });
        }
        metadata
    } else {
        // One that was found may have been made by somebody else, to be taken for this user's; or be a link to anywhere.
        check_parent(root)?;
        let look = |source| RuntimeDirError::Io { what: "look at", path: root.into(), source };
        let metadata = std::fs::symlink_metadata(root).map_err(look)?;
        if !metadata.is_dir() {
            return Err(RuntimeDirError::NotADirectory { path: root.into() });
        }
        if !is_own_or_root(metadata.uid()) {
            return Err(RuntimeDirError::Foreign { path: root.into(), owner: metadata.uid(), uid });
        }
        metadata
    };
    check_mode(root, metadata.mode())?;
    if shared && metadata.uid() == uid && metadata.mode() & 0o011 != 0o011 {
        set_mode(root, metadata.mode() & 0o7777 | 0o011)?;
    }
    Ok(())
}

fn existing(path: &Path) -> Result<std::fs::Metadata> {
    let vanished =
        || RuntimeDirError::Io { what: "look at", path: path.into(), source: ErrorKind::NotFound.into() };
    directory_metadata(path)?.ok_or_else(vanished)
}

fn make(path: &Path, mode: u32, recursive: bool) -> Result<()> {
    if directory_metadata(path)?.is_some() {
        return Ok(());
    }
    match std::fs::DirBuilder::new().mode(mode).recursive(recursive).create(path) {
        // The umask has had its say.
        Ok(()) => set_mode(path, mode),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(RuntimeDirError::Io { what: "make", path: path.into(), source }),
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(|source| RuntimeDirError::Io { what: "set the mode of", path: path.into(), source })
}

/// Hands a file to the group that may attach.
pub(crate) fn give_to_group(path: &Path, gid: u32) -> Result<()> {
    rustix::fs::chown(path, None, Some(Gid::from_raw(gid))).map_err(|errno| RuntimeDirError::Io {
        what: "give to the group under [access]",
        path: path.into(),
        source: errno.into(),
    })
}

/// Removes what the manager that last held this lock left.
pub fn remove_files(dir: &ClusterDir, node: NodeId, lock: &NodeLock) {
    debug_assert_eq!(lock.node(), node);
    for path in [dir.socket(node), dir.peer_socket(node)].into_iter().flatten() {
        // What cannot be removed shows when the new socket is put in its place.
        let _ = std::fs::remove_file(early_name(&path));
        let _ = std::fs::remove_file(path);
    }
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
