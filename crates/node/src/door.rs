//! Restricts by file permissions which users can reach the socket for programs.
//!
//! Listed users are in an access control list. Where the file system has none, every user can connect and is
//! refused by who it is. A user who has the manager hold more than it can close (see crate `foreign`) is shut
//! out until that is closed: by the list, or, without one, together with all others.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::acl::{self, Acl};
use crate::error::{NodeError, Result};
use crate::runtime_dir::{Sharing, give_to_group};

/// To connect is to write.
const CONNECT: u16 = 0o6;

/// The rights of one socket.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
    sharing: Sharing,
    shut_out: BTreeSet<u32>,
    all_others_shut_out: bool,
    /// The socket has a list.
    has_list: bool,
}

impl Door {
    /// Of a socket that is not yet in place, at `early`.
    pub(crate) fn make(path: &Path, early: &Path, sharing: &Sharing) -> Result<Self> {
        let mut door = Self {
            path: early.into(),
            sharing: sharing.clone(),
            shut_out: BTreeSet::new(),
            all_others_shut_out: false,
            has_list: false,
        };
        let fail = |errno: Errno| NodeError::Io {
            what: "set the rights of",
            path: early.into(),
            source: errno.into(),
        };
        if let Some(gid) = sharing.gid {
            give_to_group(early, gid)?;
        }
        door.apply().map_err(fail)?;
        door.path = path.into();
        Ok(door)
    }

    /// Whether listed users are let in by an access control list, rather than all users by the mode.
    pub(crate) fn is_by_list(&self) -> bool {
        self.has_list || self.sharing.uids.is_empty()
    }

    /// Whether what connects is to be dropped at once.
    pub(crate) fn is_shut_for(&self, uid: u32) -> bool {
        self.all_others_shut_out || self.shut_out.contains(&uid)
    }

    /// Whether any user is shut out.
    pub(crate) fn is_shut_for_anybody(&self) -> bool {
        self.all_others_shut_out || !self.shut_out.is_empty()
    }

    pub(crate) fn shut_out(&self) -> Vec<u32> {
        self.shut_out.iter().copied().collect()
    }

    /// Shuts these users out and no others; with `all`, every user but the own one and root. Returns whether
    /// that is new.
    pub(crate) fn shut(&mut self, users: BTreeSet<u32>, all: bool) -> std::result::Result<bool, Errno> {
        if (&users, all) == (&self.shut_out, self.all_others_shut_out) {
            return Ok(false);
        }
        (self.shut_out, self.all_others_shut_out) = (users, all);
        self.apply().map(|()| true)
    }

    fn apply(&mut self) -> std::result::Result<(), Errno> {
        if self.all_others_shut_out {
            return self.set_mode(0o600);
        }
        let group = if self.sharing.gid.is_some() { CONNECT } else { 0 };
        let listed = self.sharing.uids.iter().filter(|uid| !self.shut_out.contains(uid));
        let listed = listed.map(|uid| (*uid, CONNECT));
        let users: Vec<_> = listed.chain(self.shut_out.iter().map(|uid| (*uid, 0))).collect();
        // A list that was set once has to be set anew: a mode would only change its mask.
        if users.is_empty() && !self.has_list {
            return self.set_mode(0o600 | u32::from(group) << 3);
        }
        match (Acl { owner: CONNECT, users, group, other: 0 }).set(&self.path) {
            Ok(()) => {
                self.has_list = true;
                Ok(())
            }
            Err(errno) if acl::is_unknown(errno) => {
                // One cannot be shut out alone.
                self.all_others_shut_out = !self.shut_out.is_empty();
                let others = if self.sharing.uids.is_empty() { 0 } else { 0o066 };
                let open = 0o600 | u32::from(group) << 3 | others;
                self.set_mode(if self.all_others_shut_out { 0o600 } else { open })
            }
            Err(errno) => Err(errno),
        }
    }

    fn set_mode(&self, mode: u32) -> std::result::Result<(), Errno> {
        // The group's bits are the mask of a list, if there is one: they take its users' rights away too.
        let set = std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode));
        set.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn users(ids: &[u32]) -> BTreeSet<u32> {
        ids.iter().copied().collect()
    }

    #[test]
    fn one_user_is_shut_out_and_let_in_again_and_the_others_stay() {
        let path = std::env::temp_dir().join(format!("tieline-door-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        let sharing = Sharing { gid: None, uids: vec![7, 8] };
        let mut door = Door::make(&path, &path, &sharing).unwrap();
        if door.is_by_list() {
            assert_eq!((acl::users_of(&path), mode()), (vec![(7, 6), (8, 6)], 0o660));
            assert!(door.shut(users(&[8, 9]), false).unwrap());
            assert_eq!(acl::users_of(&path), [(7, 6), (8, 0), (9, 0)]);
            assert!(door.is_shut_for(8) && !door.is_shut_for(7));
            assert!(!door.shut(users(&[8, 9]), false).unwrap());
            door.shut(users(&[]), true).unwrap();
            assert!(door.is_shut_for(7) && mode() == 0o600);
            door.shut(users(&[]), false).unwrap();
            assert_eq!((acl::users_of(&path), mode()), (vec![(7, 6), (8, 6)], 0o660));
        } else {
            println!("without access control lists here");
            assert_eq!(mode(), 0o666);
            door.shut(users(&[8]), false).unwrap();
            assert!(mode() == 0o600 && door.is_shut_for(7));
            door.shut(users(&[]), false).unwrap();
            assert_eq!(mode(), 0o666);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
