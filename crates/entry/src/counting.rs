//! The default place of the statistics file, and its creation before a program counts in it.

use alloc::borrow::ToOwned;
use alloc::format;

use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid};

use crate::environment::value_of;
use crate::{Text, join, layout, parent, program, shown};

/// Names the runtime directory.
const ENV_RUNTIME_DIR: &str = "TIELINE_RUNTIME_DIR";
/// Rights of others to write.
const OTHERS_WRITE: u32 = 0o022;
/// Longest path of which the library takes notice, in bytes.
const LONGEST_PATH_BYTES: usize = 511;

/// Why there is no statistics file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatisticsError {
    /// It cannot be made or read.
    #[error("{what} {}: {errno}{}", shown(path), next(what, *errno))]
    System {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: Text,
        /// Why not.
        errno: Errno,
    },
    /// Another process may hold it for a while; this one does not wait for that.
    #[error("cannot read {}: another process holds a lease on it (fcntl(2), F_SETLEASE): try again when it has ended", shown(.0))]
    Leased(Text),
    /// It is of another version of this program.
    #[error("{} is a statistics file of another version of tieline: name another file", shown(.0))]
    Version(Text),
    /// Something else has its name.
    #[error("{} is not a statistics file of `tieline run --stats`: name another file", shown(.0))]
    Foreign(Text),
}

/// Result about statistics.
pub type Result<T> = core::result::Result<T, StatisticsError>;

/// What to do about it.
fn next(what: &str, errno: Errno) -> &'static str {
    match what {
        CREATE if errno == Errno::FBIG => ": raise `ulimit -f`",
        CREATE if errno == Errno::ISDIR => ": name a file with --stats",
        CREATE => ": name another file with --stats",
        READ => ": give the file of `tieline run --stats`",
        USE => ": name a directory of your own with --runtime-dir or TIELINE_RUNTIME_DIR",
        _ => "",
    }
}

const CREATE: &str = "cannot create the statistics file";
const READ: &str = "cannot read the statistics file";
const USE: &str = "cannot use the directory";

fn failed(what: &'static str, path: &[u8], errno: Errno) -> StatisticsError {
    StatisticsError::System { what, path: path.to_owned(), errno }
}

/// The runtime directory, from the environment or the user's defaults: as the environment has it, which may
/// be a path that leads from the working directory.
#[must_use]
pub fn runtime_dir(environment: &[Text]) -> Text {
    let value = |name| value_of(environment, name);
    let named = value(ENV_RUNTIME_DIR).filter(|named| !named.is_empty());
    named.map_or_else(
        || default_dir(geteuid().as_raw(), value("XDG_RUNTIME_DIR"), value("TMPDIR")),
        Text::from,
    )
}

/// The runtime directory of a user who has named none, from what these variables are, if they are set.
#[must_use]
pub fn default_dir(user: u32, xdg_runtime_dir: Option<&[u8]>, tmpdir: Option<&[u8]>) -> Text {
    match xdg_runtime_dir.filter(|path| path.starts_with(b"/")) {
        _ if user == 0 => b"/run/tieline".into(),
        Some(folder) => join(folder, "tieline"),
        None => join(tmpdir.unwrap_or(b"/tmp"), &format!("tieline-{user}")),
    }
}

/// The user's statistics file in a runtime directory.
#[must_use]
pub fn file_in(folder: &[u8]) -> Text {
    join(folder, &format!("sockets-{}", geteuid().as_raw()))
}

/// Has a file at this place: the one that is there, or a new one. With `fresh`, always a new one, in the
/// place of an old one.
pub fn create(path: &[u8], fresh: bool) -> Result<()> {
    let failed = |errno| failed(CREATE, path, errno);
    if path.len() > LONGEST_PATH_BYTES {
        // The library would not say that it counts nothing.
        return Err(failed(Errno::NAMETOOLONG));
    }
    match open(path) {
        Ok(_) if !fresh => return Ok(()),
        Err(StatisticsError::System { errno: Errno::NOENT, .. }) => {}
        // Who counts in an old one continues in it, out of sight.
        Ok(_) | Err(StatisticsError::Version(_)) => {}
        // Who wants to create one has none to give.
        Err(StatisticsError::System { errno, .. }) => return Err(failed(errno)),
        Err(error) => return Err(error),
    }
    // A longer file than the process may write would end it by a signal.
    let limit = rustix::process::getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < layout::FILE_BYTES as u64) {
        return Err(failed(Errno::FBIG));
    }
    let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let number = rustix::process::getpid().as_raw_nonzero();
    let own = [&path[..folder], format!(".statistics.{number}").as_bytes()].concat();
    // One of a process of this number that was killed.
    let _ = rustix::fs::unlink(&own[..]);
    // Under its final name it is complete from the beginning.
    let made = make(&own).and_then(|()| rustix::fs::rename(&own[..], path));
    if made.is_err() {
        // What could not be made whole is not left.
        let _ = rustix::fs::unlink(&own[..]);
    }
    made.map_err(failed)
}

fn make(path: &[u8]) -> core::result::Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    // All room is taken now: processes store to it without asking anybody.
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, layout::FILE_BYTES as u64)?;
    let magic = layout::MAGIC.to_le_bytes();
    let written = rustix::io::pwrite(&file, &magic, 0)?;
    if written == magic.len() { Ok(()) } else { Err(Errno::NOSPC) }
}

/// As [`create`], in a directory of the user's own, which is made if it is missing.
pub fn create_private(path: &[u8]) -> Result<()> {
    private_folder(parent(path).filter(|folder| !folder.is_empty()).unwrap_or(b"/"))?;
    create(path, false)
}

/// Has a directory of the user's own, in which nobody else may write.
pub fn private_folder(folder: &[u8]) -> Result<()> {
    let failed = |errno| failed(USE, folder, errno);
    let made = || make_folders(folder).and_then(|()| rustix::fs::stat(folder));
    let metadata = rustix::fs::stat(folder).or_else(|_| made()).map_err(failed)?;
    let own = rustix::fs::lstat(folder).map_err(failed)?;
    let user = geteuid().as_raw();
    // A link that somebody else made leads where that user wants, now or a moment later.
    let foreign = FileType::from_raw_mode(own.st_mode).is_symlink() && own.st_uid != 0 && own.st_uid != user;
    if foreign || metadata.st_uid != user || metadata.st_mode & OTHERS_WRITE != 0 {
        return Err(failed(Errno::ACCESS));
    }
    Ok(())
}

/// Makes a folder, and those that lead to it.
fn make_folders(folder: &[u8]) -> core::result::Result<(), Errno> {
    let ends = folder.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0).map(|(at, _)| at);
    for end in ends.chain([folder.len()]) {
        match rustix::fs::mkdir(&folder[..end], Mode::RWXU) {
            // One that may not be made may be there.
            Err(errno) if rustix::fs::stat(&folder[..end]).is_err() => return Err(errno),
            _ => {}
        }
    }
    Ok(())
}

/// Opens a statistics file of this version to read it.
pub fn open(path: &[u8]) -> Result<OwnedFd> {
    // Neither a pipe nor a terminal may hold this up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let failed = |errno| match errno {
        Errno::WOULDBLOCK => StatisticsError::Leased(path.to_owned()),
        errno => failed(READ, path, errno),
    };
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let metadata = rustix::fs::fstat(&file).map_err(failed)?;
    let mut magic = [0; 8];
    let is_ours = program::is_file(&metadata)
        && rustix::io::pread(&file, &mut magic, 0) == Ok(magic.len())
        && (u64::from_le_bytes(magic) ^ layout::MAGIC) & !layout::VERSION_BITS == 0;
    if FileType::from_raw_mode(metadata.st_mode).is_dir() {
        Err(failed(Errno::ISDIR))
    } else if is_ours && u64::from_le_bytes(magic) != layout::MAGIC {
        // Those of other versions have other sizes.
        Err(StatisticsError::Version(path.to_owned()))
    } else if is_ours && metadata.st_size == layout::FILE_BYTES as i64 {
        Ok(file)
    } else {
        Err(StatisticsError::Foreign(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::prelude::rust_2024::*;

    #[test]
    fn the_runtime_directory_is_the_one_that_is_named_or_the_users() {
        let named = [b"TIELINE_RUNTIME_DIR=x".to_vec(), b"XDG_RUNTIME_DIR=/r".to_vec()];
        assert_eq!(runtime_dir(&named), b"x");
        let empty = [b"TIELINE_RUNTIME_DIR=".to_vec()];
        assert_eq!(runtime_dir(&empty), default_dir(geteuid().as_raw(), None, None));
        assert_eq!(default_dir(0, Some(b"/r"), Some(b"/t")), b"/run/tieline");
        assert_eq!(default_dir(7, Some(b"/r"), Some(b"/t")), b"/r/tieline");
        assert_eq!(default_dir(7, Some(b"r"), Some(b"/t/")), b"/t/tieline-7");
        assert_eq!(default_dir(7, None, Some(b"")), b"tieline-7");
        assert_eq!(default_dir(7, None, None), b"/tmp/tieline-7");
    }

    #[test]
    fn a_folder_is_made_with_those_above_it_and_believed_if_it_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| [folder.path().as_os_str().as_bytes(), name.as_bytes()].concat();
        create_private(&path("/a/b/s")).unwrap();
        create_private(&path("/a/b/s")).unwrap();
        let mode = |name: &str| rustix::fs::stat(&path(name)[..]).unwrap().st_mode & 0o7777;
        assert_eq!([mode("/a"), mode("/a/b"), mode("/a/b/s")], [0o700, 0o700, 0o600]);
        std::fs::set_permissions(folder.path().join("a"), PermissionsExt::from_mode(0o720)).unwrap();
        let refused = create_private(&path("/a/s")).unwrap_err();
        assert!(matches!(refused, StatisticsError::System { errno: Errno::ACCESS, .. }), "{refused}");
        std::fs::write(folder.path().join("file"), "").unwrap();
        let refused = create_private(&path("/file/x/s")).unwrap_err();
        assert!(matches!(refused, StatisticsError::System { errno: Errno::NOTDIR, .. }), "{refused}");
    }

    #[test]
    fn what_fails_is_said_with_the_next_step() {
        let missing = open(b"/nowhere/s").unwrap_err().to_string();
        assert!(
            missing.contains("/nowhere/s") && missing.ends_with("give the file of `tieline run --stats`"),
            "{missing}"
        );
        let refused = create(b"/nowhere/s", false).unwrap_err().to_string();
        assert!(
            refused.contains("/nowhere/s") && refused.ends_with("name another file with --stats"),
            "{refused}"
        );
        let folder = create(b"/proc", true).unwrap_err().to_string();
        assert!(
            folder.contains("/proc: Is a directory") && folder.ends_with("name a file with --stats"),
            "{folder}"
        );
        // Also where it could not even be looked whether there is one.
        let refused = create(b"/proc/self/comm/s", false).unwrap_err().to_string();
        assert!(
            refused.starts_with("cannot create the statistics file /proc/self/comm/s: ")
                && refused.ends_with(": name another file with --stats"),
            "{refused}"
        );
    }
}
