//! Finds configuration files and decides which may be read.

use std::path::{Path, PathBuf};

use super::ConfigError;

/// Larger files are not read: what is configured for each of the most nodes is a hundredth of that.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a regular file: several managers read the same one, which a pipe would give to the first alone.
pub fn read_file(path: &Path) -> std::io::Result<String> {
    user_files::read_regular(path, FILE_BYTES_MAX)
}

pub(crate) fn user_directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("tieline"))
}

pub(super) fn files_in(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(ConfigError::Unreadable { path: directory.into(), source }),
    };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    Ok(files)
}
