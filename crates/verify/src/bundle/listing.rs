//! Lists the cluster's directory: names, kinds, modes, owners, sizes; nothing is opened.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// More than a cluster has.
const MOST_ENTRIES: usize = 4096;

/// One line for each thing, the directory itself and the one above it first.
pub(super) fn of(directory: &Path) -> std::io::Result<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort();
    let mut text = format!(
        "{:<9} {:>5} {:>6} {:>6} {:>10} {:>11}  name\n",
        "kind", "mode", "uid", "gid", "bytes", "changed"
    );
    if let Some(above) = directory.parent() {
        line(&mut text, above, &above.to_string_lossy());
    }
    line(&mut text, directory, &directory.to_string_lossy());
    let left_out = names.len().saturating_sub(MOST_ENTRIES);
    for name in names.iter().take(MOST_ENTRIES) {
        line(&mut text, &directory.join(name), &name.to_string_lossy());
    }
    if left_out > 0 {
        let _ = writeln!(text, "and {left_out} more");
    }
    Ok(text)
}

fn line(text: &mut String, path: &Path, name: &str) {
    let _ = match fs::symlink_metadata(path) {
        Ok(about) => writeln!(
            text,
            "{:<9} {:>5} {:>6} {:>6} {:>10} {:>11}  {name}",
            kind(about.file_type()),
            format!("{:04o}", about.mode() & 0o7777),
            about.uid(),
            about.gid(),
            about.len(),
            about.mtime(),
        ),
        Err(error) => writeln!(text, "{name}: {error}"),
    };
}

fn kind(of: fs::FileType) -> &'static str {
    if of.is_dir() {
        "directory"
    } else if of.is_file() {
        "file"
    } else if of.is_symlink() {
        "link"
    } else if of.is_socket() {
        "socket"
    } else if of.is_fifo() {
        "pipe"
    } else {
        "other"
    }
}
