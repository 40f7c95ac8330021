//! What a host sees of the file system: all of the machine's, read-only, and directories of its own where
//! programs write.
//!
//! Nothing that a host writes can be seen by another one, because there is no place where both can write. A
//! socket in a file system is found by its file, so the same holds for sockets that have a path.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
    mount_bind_recursive, mount_change, mount_move, mount_remount, move_mount, open_tree, unmount,
};

use crate::error::{NamespacesError, Result};

/// Directories that each host has for itself, empty at first, in memory: where, and its mode.
const OWN: [(&str, &CStr); 4] =
    [("/run", c"mode=0755"), ("/tmp", c"mode=1777"), ("/var/tmp", c"mode=1777"), ("/dev/shm", c"mode=1777")];
/// File systems of the kernel that show the host's own processes, network and terminals.
const KERNEL: [(&str, &str, Option<&CStr>); 3] = [
    ("/proc", "proc", None),
    ("/sys", "sysfs", None),
    ("/dev/pts", "devpts", Some(c"ptmxmode=0666,mode=0620")),
];
/// Where control groups are found, which `/sys` of a host would hide.
const GROUPS: &str = "/sys/fs/cgroup";

/// Which directory of a host hides this file of the machine.
pub(crate) fn hides(path: &Path) -> Option<&'static str> {
    OWN.iter().map(|(place, _)| *place).find(|place| path.starts_with(place))
}

/// Gives this process, which has a mount namespace of its own, the file system of a host. `keep` stays
/// visible wherever it is.
pub(crate) fn make_own(keep: &Path) -> Result<()> {
    // Nothing that is mounted here from now on is seen outside, and nothing that is mounted outside is seen
    // here.
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(failed("detach", "/"))?;
    let kept = if hides(keep).is_some() { Some(tree_of(keep)?) } else { None };
    for (place, mode) in OWN {
        if is_real_directory(place) {
            mount("tmpfs", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, mode)
                .map_err(failed("mount", place))?;
        }
    }
    if let Some(tree) = kept {
        put(&tree, keep)?;
    }
    let groups = Path::new("/run/.groups");
    let has_groups = Path::new(GROUPS).is_dir();
    if has_groups {
        rustix::fs::mkdir(groups, Mode::RWXU).map_err(failed("create", groups))?;
        mount_bind_recursive(GROUPS, groups).map_err(failed("mount", groups))?;
    }
    for (place, kind, data) in KERNEL {
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        mount(kind, place, kind, flags, data).map_err(failed("mount", place))?;
    }
    if has_groups {
        mount_move(groups, GROUPS).map_err(failed("move", GROUPS))?;
        rustix::fs::rmdir(groups).map_err(failed("remove", groups))?;
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(NamespacesError::io("read", "/proc/self/mountinfo"))?;
    mounts
        .lines()
        .filter_map(Mounted::of_line)
        .filter(|one| !one.is_own())
        .try_for_each(|one| one.make_read_only())
}

/// A link to another one, as /var/tmp may be, has its own in that place.
fn is_real_directory(place: &str) -> bool {
    std::fs::canonicalize(place).is_ok_and(|real| real == Path::new(place) && real.is_dir())
}

fn failed(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(Errno) -> NamespacesError {
    let path = path.into();
    move |source| NamespacesError::Mount { what, path, source }
}

/// A directory with all that is mounted in it, to be put somewhere.
fn tree_of(path: &Path) -> Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(failed("keep", path))
}

fn put(tree: &OwnedFd, path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(NamespacesError::io("create", path))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, path, flags).map_err(failed("keep", path))
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mounted {
    place: PathBuf,
    flags: MountFlags,
    /// Others are mounted in it when somebody looks. Only its daemon can make anything in it.
    on_demand: bool,
}

impl Mounted {
    fn of_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ').skip(4);
        let (place, options) = (words.next()?, words.next()?);
        let flags = options.split(',').filter_map(|option| {
            Some(match option {
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => return None,
            })
        });
        let on_demand = line.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("autofs "));
        Some(Self { place: unescaped(place).into(), flags: flags.collect(), on_demand })
    }

    fn is_own(&self) -> bool {
        let kernel = KERNEL.iter().map(|(place, ..)| *place);
        OWN.iter().map(|(place, _)| *place).chain(kernel).any(|place| self.place == Path::new(place))
    }

    /// What cannot be made read-only is taken away from the host.
    fn make_read_only(&self) -> Result<()> {
        if self.on_demand {
            return Ok(());
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | self.flags;
        match mount_remount(&self.place, flags, c"") {
            // It is hidden under something else, so nobody reaches it.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(_) => {
                unmount(&self.place, UnmountFlags::DETACH).map_err(failed("make read-only", &self.place))
            }
        }
    }
}

/// Spaces and the like stand there as `\040`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(code);
                plain.extend_from_slice(part.get(3..).unwrap_or_default().as_bytes());
            }
            None => plain.extend_from_slice(part.as_bytes()),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Has the names of the hosts known to this one, by a file of its own in the place of `/etc/hosts`.
pub(crate) fn name_hosts(text: &str) -> Result<()> {
    let (own, place) = ("/run/etc-hosts", "/etc/hosts");
    if !Path::new(place).is_file() {
        return Ok(());
    }
    std::fs::write(own, text).map_err(NamespacesError::io("write", own))?;
    mount_bind(own, place).map_err(failed("mount", place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_keeps_its_other_options() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402/a\\134b rw,noatime,nosuid - ext3 /dev/root rw";
        let flags = MountFlags::NOATIME | MountFlags::NOSUID;
        assert_eq!(
            Mounted::of_line(line),
            Some(Mounted { place: "/mnt 2/a\\b".into(), flags, on_demand: false })
        );
        assert!(Mounted::of_line("1 2 0:1 / /net rw - autofs x rw").unwrap().on_demand);
        assert_eq!(Mounted::of_line("36 35"), None);
        assert!(Mounted::of_line("1 2 0:1 / /dev/shm rw - tmpfs tmpfs rw").unwrap().is_own());
        assert!(!Mounted::of_line("1 2 0:1 / /run/user rw - tmpfs tmpfs rw").unwrap().is_own());
    }

    #[test]
    fn files_in_directories_of_the_hosts_are_hidden() {
        assert_eq!(hides(Path::new("/tmp/x")), Some("/tmp"));
        assert_eq!(hides(Path::new("/tmpfile")), None);
        assert_eq!(hides(Path::new("/srv/tmp")), None);
    }
}
