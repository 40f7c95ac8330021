//! Finds the sockets of a cluster's node managers: `<runtime>/<cluster>/node-<id>.sock`.
//!
//! Everything here is read-only; only a manager makes or removes anything (crate `node`).

mod opened;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use proto::ids::NodeId;
use proto::wire::MAX_NAME_BYTES;
use rustix::process::geteuid;

pub use opened::{ConnectError, OpenDir, check_parent, is_own_or_root};

/// Names the runtime directory.
pub const ENV_RUNTIME_DIR: &str = "TIELINE_RUNTIME_DIR";
/// Names the cluster.
pub const ENV_CLUSTER: &str = "TIELINE_CLUSTER";
/// Names the node.
pub const ENV_NODE: &str = "TIELINE_NODE";
/// The cluster if none is named.
pub const DEFAULT_CLUSTER: &str = "default";
/// Longest path of a UNIX socket, its closing zero not counted (unix(7)).
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// The runtime directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeDirError {
    /// Not a cluster's name.
    #[error(
        "`{name}` is not a cluster name ({why}): use up to {MAX_NAME_BYTES} letters, digits, `-`, `_` or `.`, \
         starting with a letter or digit"
    )]
    BadClusterName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something else is in the place.
    #[error("{path} is not a directory: name one with --runtime-dir or TIELINE_RUNTIME_DIR")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to a user that is not trusted.
    #[error(
        "{path} belongs to user {owner}, not to user {uid}: run as user {owner}, or name another directory with \
         --runtime-dir or TIELINE_RUNTIME_DIR"
    )]
    ForeignOwner {
        /// The path.
        path: PathBuf,
        /// The user ID of the owner.
        owner: u32,
        /// Ours.
        uid: u32,
    },
    /// It was found, not named, and belongs to another user, who may have made it to be taken for this
    /// user's.
    #[error(
        "{path}, where user {uid} looks for node managers, belongs to user {owner}: have that user or root remove it, or name \
         another directory with --runtime-dir or TIELINE_RUNTIME_DIR"
    )]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The user ID of the owner.
        owner: u32,
        /// Ours.
        uid: u32,
    },
    /// Others could put their own sockets there.
    #[error(
        "{path} has mode {mode:04o}, so that others may {others_may}: set it with `chmod {wanted:04o} {path}`"
    )]
    WrongMode {
        /// The path.
        path: PathBuf,
        /// As found.
        mode: u32,
        /// As it should be.
        wanted: u32,
        /// What is wrong with it.
        others_may: &'static str,
    },
    /// The kernel's limit.
    #[error(
        "the socket path {path} has {len} bytes, the system allows {MAX_SOCKET_PATH_BYTES}: choose a shorter runtime \
         directory (--runtime-dir, TIELINE_RUNTIME_DIR) or cluster name"
    )]
    PathTooLong {
        /// The path of the file.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}{}", hint(what, .source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

fn hint(what: &str, error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied if matches!(what, "read" | "look at") => {
            ": have its owner list this user under [access] in the configuration, or name a directory of your own with \
             --runtime-dir or TIELINE_RUNTIME_DIR"
        }
        std::io::ErrorKind::PermissionDenied
        | std::io::ErrorKind::ReadOnlyFilesystem
        | std::io::ErrorKind::NotFound
        | std::io::ErrorKind::NotADirectory => {
            ": name a directory of your own with --runtime-dir or TIELINE_RUNTIME_DIR"
        }
        std::io::ErrorKind::StorageFull => ": free some space there, or name another with --runtime-dir",
        _ => "",
    }
}

/// Result about the runtime directory.
pub type Result<T> = std::result::Result<T, RuntimeDirError>;

/// A checked cluster name: also a directory's name, so no slashes and no leading dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

impl ClusterName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self> {
        let why = if name.is_empty() {
            "it is empty"
        } else if name.len() > MAX_NAME_BYTES {
            "it is too long"
        } else if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            "it does not start with a letter or digit"
        } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
            "it contains other characters"
        } else {
            return Ok(Self(name.to_owned()));
        };
        Err(RuntimeDirError::BadClusterName { name: name.to_owned(), why })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A runtime directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeRoot {
    /// The path.
    pub path: PathBuf,
    /// The user has named it: by the option or the environment. One that was not is believed only if it is
    /// the user's own or root's.
    pub named: bool,
}

/// Where the runtime directory is, from the option, the environment, or the user's defaults. Touches no file.
pub fn runtime_root(explicit: Option<&Path>) -> RuntimeRoot {
    let environment = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = explicit.map(Path::to_path_buf).or_else(|| environment(ENV_RUNTIME_DIR));
    let is_named = named.is_some();
    let chosen = named.unwrap_or_else(|| {
        let [xdg, temporary] = ["XDG_RUNTIME_DIR", "TMPDIR"].map(std::env::var_os);
        let [xdg, temporary] = [&xdg, &temporary].map(|it| it.as_ref().map(|it| it.as_bytes()));
        OsString::from_vec(entry::counting::default_dir(geteuid().as_raw(), xdg, temporary)).into()
    });
    // A daemon changes its working directory; a path relative to the caller's must survive that.
    RuntimeRoot { path: std::path::absolute(&chosen).unwrap_or(chosen), named: is_named }
}

/// The directory of one cluster. Making one of these touches no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDir {
    root: PathBuf,
    cluster: ClusterName,
    path: PathBuf,
    named: bool,
}

impl ClusterDir {
    /// From options, else `TIELINE_RUNTIME_DIR` and `TIELINE_CLUSTER`, else the defaults.
    pub fn locate(runtime_dir: Option<&Path>, cluster: Option<&str>) -> Result<Self> {
        let from_environment = std::env::var(ENV_CLUSTER).ok().filter(|name| !name.is_empty());
        let name = cluster.map(str::to_owned).or(from_environment);
        let cluster = ClusterName::new(name.as_deref().unwrap_or(DEFAULT_CLUSTER))?;
        Ok(Self::below(&runtime_root(runtime_dir), cluster))
    }

    /// The directory of `cluster` below `root`, which the user has named.
    pub fn new(root: PathBuf, cluster: ClusterName) -> Self {
        Self::below(&RuntimeRoot { path: root, named: true }, cluster)
    }

    /// The directory of `cluster` below `root`.
    pub fn below(root: &RuntimeRoot, cluster: ClusterName) -> Self {
        let path = root.path.join(cluster.as_str());
        Self { root: root.path.clone(), cluster, path, named: root.named }
    }

    /// Whether the user has named the runtime directory.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The runtime directory that it lies in, for other clusters in it.
    pub fn runtime_root(&self) -> RuntimeRoot {
        RuntimeRoot { path: self.root.clone(), named: self.named }
    }

    /// The runtime directory that it lies in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whose directory it is.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the node's manager listens for programs.
    pub fn socket(&self, node: NodeId) -> Result<PathBuf> {
        checked_length(self.path.join(format!("node-{node}.sock")))
    }

    /// Where it listens for other managers.
    pub fn peer_socket(&self, node: NodeId) -> Result<PathBuf> {
        checked_length(self.path.join(format!("node-{node}.peer")))
    }

    /// The file that it holds locked; contains its process id.
    pub fn lock_file(&self, node: NodeId) -> PathBuf {
        self.path.join(format!("node-{node}.lock"))
    }

    /// The log, if it was started in the background.
    pub fn log_file(&self, node: NodeId) -> PathBuf {
        self.path.join(format!("node-{node}.log"))
    }

    /// Nodes with a file of this ending (`sock`, `peer`, `lock`), ascending; dead managers leave theirs
    /// behind. None if the directory does not exist.
    pub fn nodes_with(&self, ending: &str) -> Result<Vec<NodeId>> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(RuntimeDirError::Io { what: "read", path: self.path.clone(), source }),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut nodes: Vec<_> = names.filter_map(|name| node_of_file(&name, ending)).collect();
        nodes.sort_unstable();
        Ok(nodes)
    }

    /// Whether a program may trust what it finds here, as [`Self::open`] does. A missing directory passes
    /// (nothing is found in it).
    pub fn check_for_program(&self) -> Result<()> {
        self.open().map(drop)
    }
}

/// The node of a file name like `node-4.sock`.
pub fn node_of_file(name: &str, ending: &str) -> Option<NodeId> {
    let digits = name.strip_prefix("node-")?.strip_suffix(ending)?.strip_suffix('.')?;
    let node: NodeId = digits.parse().ok()?;
    // `node-04.sock` would parse too, and yet is not what a manager makes.
    (node.to_string() == digits).then_some(node)
}

/// What is at `path`: `None` if nothing, an error if no directory.
pub fn directory_metadata(path: &Path) -> Result<Option<std::fs::Metadata>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(Some(metadata)),
        Ok(_) => Err(RuntimeDirError::NotADirectory { path: path.into() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            Err(RuntimeDirError::NotADirectory { path: path.into() })
        }
        Err(source) => Err(RuntimeDirError::Io { what: "look at", path: path.into(), source }),
    }
}

/// Only the owner may replace what is in it (a sticky directory protects each owner's files).
pub fn check_mode(path: &Path, mode: u32) -> Result<()> {
    let mode = mode & 0o7777;
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return Err(RuntimeDirError::WrongMode {
            path: path.into(),
            mode,
            wanted: mode & !0o022,
            others_may: "put their own sockets there",
        });
    }
    Ok(())
}

fn checked_length(path: PathBuf) -> Result<PathBuf> {
    let len = path.as_os_str().len();
    if len > MAX_SOCKET_PATH_BYTES {
        return Err(RuntimeDirError::PathTooLong { path, len });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clusters_are_checked() {
        for good in ["default", "a", "lab-2.b_c", "9"] {
            assert_eq!(ClusterName::new(good).unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", "empty"),
            ("..", "does not start"),
            ("a/b", "other characters"),
            ("-x", "does not start"),
            (&"x".repeat(65), "too long"),
        ] {
            let text = ClusterName::new(bad).unwrap_err().to_string();
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn only_exact_file_names_are_nodes() {
        assert_eq!(node_of_file("node-4.sock", "sock"), NodeId::new(4).ok());
        for other in ["node-04.sock", "node-5.sock", "node-4.peer", "node-.sock", "node-4.sock.tmp", "x"] {
            assert_eq!(node_of_file(other, "sock"), None, "{other}");
        }
    }

    #[test]
    fn too_long_socket_paths_are_named_before_the_kernel_cuts_them() {
        let dir =
            ClusterDir::new(PathBuf::from(format!("/{}", "d".repeat(100))), ClusterName::new("c").unwrap());
        let text = dir.socket(NodeId::new(4).unwrap()).unwrap_err().to_string();
        assert!(text.contains("has 115 bytes, the system allows 107"), "{text}");
    }
}
