//! Finds a cluster that runs in another place than where it was expected, with the kernel's table of sockets.
//! The table also contains sockets to which this user has no access.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use node_client::ClientError;
use node_client::runtime_dir::{ClusterDir, ClusterName, node_of_file};

use crate::exit::Failure;

/// The table, of this network namespace.
const SOCKETS: &str = "/proc/net/unix";
/// In the column of flags: somebody listens (`__SO_ACCEPTCON`).
const LISTENS: &str = "00010000";

/// A failure because no manager was found here, with the place where one of the same cluster listens.
pub(crate) fn named(failure: Failure) -> Failure {
    let Some((cluster, dir)) = missing(&failure) else { return failure };
    if in_namespaces(&cluster, &dir) {
        let text = format!(
            "the nodes of cluster `{cluster}` run in hosts in namespaces: run the command there, such as `tieline on host1 -- tieline status`"
        );
        return Failure { status: failure.status, error: anyhow!(text) };
    }
    let table = std::fs::read(SOCKETS).unwrap_or_default();
    let Some(found) = found(&String::from_utf8_lossy(&table), &cluster, &dir) else { return failure };
    let owner = owner(&found, &cluster);
    let hint = words(&cluster, &found, owner, rustix::process::geteuid().as_raw());
    Failure { status: failure.status, error: anyhow!("{}; {hint}", failure.text()) }
}

/// Whether the cluster's nodes are in hosts of their own, whose directories are not this machine's.
fn in_namespaces(cluster: &str, dir: &Path) -> bool {
    let (Some(root), Ok(name)) = (dir.parent(), ClusterName::new(cluster)) else { return false };
    namespaces::are_up(&ClusterDir::new(root.into(), name))
}

/// The cluster that has no manager, and its directory.
fn missing(failure: &Failure) -> Option<(String, PathBuf)> {
    failure.error.chain().find_map(|cause| {
        let client = cause.downcast_ref::<ClientError>().or(match cause.downcast_ref::<tieline::Error>() {
            Some(tieline::Error::Client(error)) => Some(error),
            _ => None,
        });
        match client {
            Some(ClientError::NoManager { cluster, dir }) => Some((cluster.to_string(), dir.clone())),
            _ => None,
        }
    })
}

/// The runtime directory, other than the one of `looked_in`, in which a manager of this cluster listens.
fn found(table: &str, cluster: &str, looked_in: &Path) -> Option<PathBuf> {
    let all = table.lines().filter_map(|line| {
        let mut cells = line.split_whitespace();
        let flags = cells.nth(3)?;
        let path = Path::new(cells.nth(3)?);
        let dir = path.parent()?;
        let is_manager = is_manager(path.file_name()?.to_str()?);
        // An abstract name is no path.
        let is_it = flags == LISTENS
            && is_manager
            && path.is_absolute()
            && dir.file_name()? == cluster
            && dir != looked_in;
        is_it.then(|| dir.parent().map(Path::to_owned)).flatten()
    });
    all.min()
}

/// A manager's socket, by its name or by the shorter one under which it was bound, which the kernel goes on
/// to show.
fn is_manager(name: &str) -> bool {
    let whole = name.strip_prefix('.').map(|rest| format!("node-{rest}"));
    node_of_file(whole.as_deref().unwrap_or(name), "sock").is_some()
}

/// Whose the cluster is: the owner of its own directory, since the one around it may be everybody's, as the
/// one for temporary files is; of that one where it lets nobody look into it.
fn owner(found: &Path, cluster: &str) -> Option<u32> {
    let of = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.uid());
    of(&found.join(cluster)).or_else(|_| of(found)).ok()
}

fn words(cluster: &str, found: &Path, owner: Option<u32>, user: u32) -> String {
    let place = found.display();
    match owner {
        Some(owner) if owner == user => {
            format!("a cluster `{cluster}` runs in {place}: name that with --runtime-dir {place}")
        }
        Some(0) => format!(
            "root's cluster `{cluster}` runs in {place}: use it with sudo, or have root list this user under [access] in its \
             configuration, and name it with --runtime-dir {place}"
        ),
        _ => format!(
            "a cluster `{cluster}` of another user runs in {place}: have that user list this one under [access] in its \
             configuration, and name it with --runtime-dir {place}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0005 01 20318 /run/tieline/default/.4.sock
0000000000000000: 00000002 00000000 00010000 0005 01 20319 /run/tieline/default/.4.peer
0000000000000000: 00000003 00000000 00000000 0005 03 20320 /run/tieline/lab/node-8.sock
0000000000000000: 00000002 00000000 00010000 0005 01 20321 /run/user/7/tieline/lab/node-8.sock
0000000000000000: 00000002 00000000 00010000 0001 01 20322 /run/other/lab/node-x.sock
0000000000000000: 00000003 00000000 00000000 0001 03 20323
0000000000000000: 00000002 00000000 00010000 0001 01 20324 @/abstract/default/node-4.sock
";

    #[test]
    fn a_manager_that_listens_elsewhere_is_found() {
        let in_of = |cluster, looked_in| found(TABLE, cluster, Path::new(looked_in));
        assert_eq!(in_of("default", "/run/user/7/tieline/default"), Some("/run/tieline".into()));
        assert_eq!(in_of("default", "/run/tieline/default"), None);
        // Who is only connected there does not listen.
        assert_eq!(in_of("lab", "/x/lab"), Some("/run/user/7/tieline".into()));
        assert_eq!(in_of("nope", "/x/nope"), None);
        assert_eq!(found("", "default", Path::new("/x")), None);
    }

    /// Else a user that makes a directory below the one for temporary files would be taken for root.
    #[test]
    fn a_cluster_is_of_the_owner_of_its_own_directory() {
        let around = tempfile::tempdir().unwrap();
        std::fs::create_dir(around.path().join("lab")).unwrap();
        let user = rustix::process::geteuid();
        let of = |name| owner(around.path(), name);
        assert_eq!((of("lab"), of("shut")), (Some(user.as_raw()), Some(user.as_raw())));
        if user.is_root() {
            std::os::unix::fs::chown(around.path().join("lab"), Some(54_321), None).unwrap();
            assert_eq!((of("lab"), of("shut")), (Some(54_321), Some(0)));
        }
        assert_eq!(owner(Path::new("/nowhere"), "lab"), None);
    }

    #[test]
    fn whose_it_is_decides_what_to_do() {
        let said = |owner| words("lab", Path::new("/run/x"), owner, 7);
        assert!(said(Some(7)).ends_with("name that with --runtime-dir /run/x"), "{}", said(Some(7)));
        assert!(
            said(Some(0)).contains("root's cluster `lab` runs in /run/x: use it with sudo"),
            "{}",
            said(Some(0))
        );
        for other in [Some(8), None] {
            assert!(
                said(other).contains("of another user runs in /run/x") && said(other).contains("[access]")
            );
        }
    }
}
