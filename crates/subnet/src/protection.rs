//! The management key (M_Key): by it ports know their manager, and refuse Sets of everybody else (InfiniBand
//! Architecture Specification, volume 1, 14.2.4).
//!
//! The key is a secret: it is read from a file that only its owner can read, and no text that this crate
//! makes contains it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mad::sm::PortInfo;

/// The largest file that is read: a number and a comment.
const MOST_BYTES: u64 = 4096;

/// A management key; 0 is none. It is never printed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ManagementKey(u64);

impl std::fmt::Debug for ManagementKey {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(if self.is_some() { "ManagementKey(secret)" } else { "ManagementKey(none)" })
    }
}

impl ManagementKey {
    /// No key: ports take Sets of everybody.
    pub const NONE: Self = Self(0);

    /// Of a number.
    #[must_use]
    pub const fn new(key: u64) -> Self {
        Self(key)
    }

    /// Is there one?
    #[must_use]
    pub fn is_some(self) -> bool {
        self.0 != 0
    }

    /// As datagrams carry it.
    #[must_use]
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// How ports are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protection {
    /// The key, which all requests carry.
    pub key: ManagementKey,
    /// M_KeyProtectBits: 0 and 1: everybody may read, with 1 without the key; 2 and 3: nobody may without it.
    pub level: u8,
    /// M_KeyLeasePeriod in seconds: so long after a request with a wrong key, if none with the right one
    /// came, a port lets everybody read the key; 0: never.
    pub lease: u16,
}

impl Protection {
    /// Without a key.
    pub const NONE: Self = Self { key: ManagementKey::NONE, level: 0, lease: 0 };

    /// Does a port that reports this obey another key? One that hides its key from this manager does.
    #[must_use]
    pub fn is_foreign(&self, port: &PortInfo) -> bool {
        match port.management_key() {
            0 => port.key_protection() != 0,
            key => key != self.key.number(),
        }
    }
}

/// Why a key can't be read. Each names the file, the cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It can't be read.
    #[error("{0} cannot be read: {1}: name a file with the M_Key, or create it")]
    Read(PathBuf, #[source] std::io::Error),
    /// Others may read it.
    #[error(
        "{0} can be read or written by others (mode {1:04o}): run `chmod 600` on it, and take a new M_Key if others may have read it"
    )]
    Open(PathBuf, u32),
    /// It is somebody else's.
    #[error("{0} belongs to user {1}, who may change it: name a file of your own")]
    Owner(PathBuf, u32),
    /// It holds something else.
    #[error("{0} holds no M_Key: write one number into it, 0x and up to 16 hexadecimal digits, and not 0")]
    Form(PathBuf),
}

/// Reads a key from a file that only its owner can read: one number, hexadecimal with `0x` or decimal.
///
/// # Errors
/// It can't be read, others can read or write it, it belongs to somebody else, or it is not of the form.
pub fn read_key(path: &Path) -> Result<ManagementKey, KeyError> {
    let failed = |error| KeyError::Read(path.into(), error);
    // What was opened is what is examined: the path may lead elsewhere a moment later.
    let (text, about) = user_files::read_regular_with(path, MOST_BYTES).map_err(failed)?;
    let mode = about.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Open(path.into(), mode));
    }
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != user && about.uid() != 0 {
        return Err(KeyError::Owner(path.into(), about.uid()));
    }
    let word = text.trim();
    let number = match word.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => word.parse().ok().filter(|_| !word.starts_with('+')),
    };
    let key = number.filter(|key| *key != 0).ok_or_else(|| KeyError::Form(path.into()))?;
    Ok(ManagementKey(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_a_file_that_only_its_owner_can_read() {
        let folder = std::env::temp_dir().join(format!("tieline-subnet-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("mkey");
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read_key(&path)
        };
        assert_eq!(write("0xfeed0000beef0001\n", 0o600).unwrap(), ManagementKey::new(0xfeed_0000_beef_0001));
        assert_eq!(write("17", 0o400).unwrap(), ManagementKey::new(17));
        for mode in [0o640, 0o604, 0o620, 0o602, 0o666] {
            let said = write("0x1234", mode).unwrap_err().to_string();
            assert!(said.contains(&format!("mode {mode:04o}")) && said.contains("chmod 600"), "{said}");
            assert!(!said.contains("1234"), "{said}");
        }
        for bad in ["", "0", "0x0", "0x", "key", "1 2", "0x1ffffffffffffffff", "-1", "+1", "0x+1"] {
            let said = write(bad, 0o600).unwrap_err().to_string();
            assert!(said.contains("holds no M_Key"), "{bad}: {said}");
        }
        assert!(matches!(read_key(&folder.join("none")), Err(KeyError::Read(..))));
        assert!(matches!(read_key(&folder), Err(KeyError::Read(..))), "a folder");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_key_is_not_printed_and_a_port_with_another_one_is_known() {
        let mine = Protection { key: ManagementKey::new(0x1234_5678), level: 1, lease: 0 };
        assert!(!format!("{mine:?}").contains("305419896") && !format!("{mine:?}").contains("1234"));
        let with = |key: u64, level: u8| {
            let mut info = PortInfo::default();
            info.set_management_key(key).set_key_protection(level);
            info
        };
        assert!(!mine.is_foreign(&with(0, 0)) && !mine.is_foreign(&with(0x1234_5678, 1)));
        assert!(mine.is_foreign(&with(0, 1)), "it hides its key");
        assert!(mine.is_foreign(&with(9, 0)) && Protection::NONE.is_foreign(&with(9, 0)));
    }
}
