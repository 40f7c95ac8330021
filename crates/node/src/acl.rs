//! Access control lists of files (acl(5)): give single users access that the mode denies to all
//! others.

use std::fs::File;
use std::path::Path;

#[cfg(test)]
use rustix::fs::getxattr;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, setxattr};
use rustix::io::Errno;

const NAME: &str = "system.posix_acl_access";
/// Version of the attribute's form (POSIX_ACL_XATTR_VERSION, linux/posix_acl_xattr.h).
const VERSION: u32 = 2;
/// Users of one list; a configuration may name 64, and what else is there is left alone.
const MOST_BYTES: usize = 4096;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const NO_ID: u32 = u32::MAX;

/// The entries of a list. Permissions are the three bits of a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acl {
    pub(crate) owner: u16,
    /// Users by number, each with what it may.
    pub(crate) users: Vec<(u32, u16)>,
    pub(crate) group: u16,
    pub(crate) other: u16,
}

impl Acl {
    /// The bytes of the attribute: the entries in the order that the kernel demands.
    fn encode(&self) -> Vec<u8> {
        let mut users = self.users.clone();
        users.sort_unstable();
        users.dedup_by_key(|(uid, _)| *uid);
        let mask = users.iter().fold(self.group, |mask, (_, may)| mask | may);
        let first = [(USER_OBJ, self.owner, NO_ID)];
        let last = [(GROUP_OBJ, self.group, NO_ID), (MASK, mask, NO_ID), (OTHER, self.other, NO_ID)];
        let named = users.into_iter().map(|(uid, may)| (USER, may, uid));
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, may, id) in first.into_iter().chain(named).chain(last) {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(may.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// Gives the file this list, which also sets its mode.
    pub(crate) fn set(&self, path: &Path) -> Result<(), Errno> {
        if foreign::is_without("acl") {
            return Err(Errno::OPNOTSUPP);
        }
        setxattr(path, NAME, &self.encode(), XattrFlags::empty())
    }

    /// As [`Self::set`], for a file that is open.
    pub(crate) fn set_open(&self, file: &File) -> Result<(), Errno> {
        if foreign::is_without("acl") {
            return Err(Errno::OPNOTSUPP);
        }
        fsetxattr(file, NAME, &self.encode(), XattrFlags::empty())
    }
}

/// As [`users_of_open`], for a file with this name.
#[cfg(test)]
pub(crate) fn users_of(path: &Path) -> Vec<(u32, u16)> {
    users(|bytes| getxattr(path, NAME, bytes))
}

/// The users that a file's list names; none if it has no list, or one that cannot be read.
pub(crate) fn users_of_open(file: &File) -> Vec<(u32, u16)> {
    users(|bytes| fgetxattr(file, NAME, bytes))
}

fn users(read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> Vec<(u32, u16)> {
    let mut bytes = vec![0; MOST_BYTES];
    let Ok(len) = read(bytes.as_mut_slice()) else { return Vec::new() };
    let entries = bytes.get(4..len).unwrap_or_default().chunks_exact(8);
    let entry = |bytes: &[u8]| match bytes {
        [t0, t1, m0, m1, id @ ..] if u16::from_le_bytes([*t0, *t1]) == USER => {
            Some((u32::from_le_bytes(id.try_into().ok()?), u16::from_le_bytes([*m0, *m1])))
        }
        _ => None,
    };
    entries.filter_map(entry).collect()
}

/// Whether this is how a file system without lists answers.
pub(crate) fn is_unknown(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_as_it_was_set() {
        let path = std::env::temp_dir().join(format!("tieline-acl-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let list = Acl { owner: 6, users: vec![(70_000, 6), (7, 6), (8, 0), (7, 6)], group: 0, other: 0 };
        match list.set(&path) {
            Ok(()) => {
                assert_eq!(users_of(&path), [(7, 6), (8, 0), (70_000, 6)]);
                use std::os::unix::fs::MetadataExt;
                // The group's bits are what any of the named may.
                assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
            }
            Err(errno) => {
                assert!(is_unknown(errno), "{errno}");
                println!("skipped: {} is on a file system without access control lists", path.display());
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(users_of(&path), []);
    }
}
