//! The credentials of a socket's peer, from the kernel.

use std::os::fd::AsFd;

use proto::manager::Credentials;
use rustix::io::Errno;

/// User, group and process from SO_PEERCRED, and the supplementary groups of that process.
///
/// The supplementary groups come from `/proc` (the option SO_PEERGROUPS is out of reach of safe code), which
/// a process could have changed since it connected, or have left to another that got its number. So they
/// count only if that process runs, in all respects, as the user and group that connected: such a process
/// could as well have connected itself, or be traced by the one that did. In doubt there are none, which
/// refuses rather than admits.
pub(crate) fn of_peer(socket: impl AsFd) -> Result<Credentials, Errno> {
    let shm::socket::Peer { pid, uid, gid } = shm::socket::peer(socket.as_fd())?;
    let mut gids = vec![gid];
    if pid != 0
        && let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status"))
    {
        gids.extend(supplementary_groups(&status, uid, gid).into_iter().filter(|group| *group != gid));
    }
    Ok(Credentials { uid, gids, pid })
}

/// Whether a process is, in all respects, of this user.
pub(crate) fn is_of_user(pid: u32, uid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| all_are(&status, "Uid:", uid))
}

fn supplementary_groups(status: &str, uid: u32, gid: u32) -> Vec<u32> {
    if all_are(status, "Uid:", uid) && all_are(status, "Gid:", gid) {
        numbers(status, "Groups:").unwrap_or_default()
    } else {
        Vec::new()
    }
}

/// Those of a line of `/proc/PID/status`.
fn numbers(status: &str, field: &str) -> Option<Vec<u32>> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// Real, effective, saved and of the file system.
fn all_are(status: &str, field: &str, wanted: u32) -> bool {
    numbers(status, field).is_some_and(|ids| !ids.is_empty() && ids.iter().all(|id| *id == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nFDSize:\t64\nGroups:\t8 20 30 \n";

    #[test]
    fn groups_count_only_for_the_user_that_connected() {
        assert_eq!(supplementary_groups(STATUS, 7, 8), vec![8, 20, 30]);
        assert_eq!(supplementary_groups(STATUS, 9, 8), Vec::<u32>::new());
        assert_eq!(
            supplementary_groups(&STATUS.replace("7\t7\t7\t7", "7\t0\t0\t0"), 7, 8),
            Vec::<u32>::new()
        );
        assert_eq!(supplementary_groups("", 7, 8), Vec::<u32>::new());
    }

    #[test]
    fn the_kernel_knows_who_connected() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let credentials = of_peer(&a).unwrap();
        assert_eq!(credentials.pid, std::process::id());
        assert_eq!(credentials.uid, rustix::process::geteuid().as_raw());
        assert!(credentials.gids.contains(&rustix::process::getegid().as_raw()));
    }
}
