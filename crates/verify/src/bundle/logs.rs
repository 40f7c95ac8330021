//! The ends of the managers' logs, within a size limit.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use node_client::runtime_dir::ClusterDir;
use rustix::fs::OFlags;
use tieline::NodeId;

use super::shelf::Shelf;

/// Of one log, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Of all logs together: the rest of a bundle has to have room.
const ALL_BYTES: u64 = 12 << 20;

pub(super) fn put(dir: &ClusterDir, nodes: &[NodeId], shelf: &mut Shelf) {
    let most = MAX_BYTES.min(ALL_BYTES / (nodes.len() as u64).max(1));
    for node in nodes {
        let name = format!("nodes/{node}/manager.log");
        match end_of(&dir.log_file(*node), most) {
            Ok((text, cut_bytes)) => shelf.end_of_text(&name, &text, cut_bytes),
            Err(error) => shelf.lacks(&name, &error.to_string()),
        }
    }
}

/// As many whole lines of the end as fit, and how many bytes come before. A line that is cut could hold half
/// of a secret, which nobody would know for one.
fn end_of(path: &Path, most: u64) -> io::Result<(String, u64)> {
    let mut options = OpenOptions::new();
    // Neither through a link to another file, nor waiting for a pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let start = metadata.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let broken = match (start, bytes.iter().position(|byte| *byte == b'\n')) {
        (0, _) => 0,
        (_, Some(end)) => end + 1,
        (_, None) => bytes.len(),
    };
    let text = String::from_utf8_lossy(bytes.get(broken..).unwrap_or_default()).into_owned();
    Ok((text, start + broken as u64))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_end_of_a_log_begins_with_a_whole_line() {
        let dir = std::env::temp_dir().join(format!("tieline-bundle-log-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("log");
        fs::write(&path, "token=hunter2\nline 2\nline 3\n").unwrap();
        assert_eq!(end_of(&path, 100).unwrap(), ("token=hunter2\nline 2\nline 3\n".into(), 0));
        assert_eq!(end_of(&path, 20).unwrap(), ("line 2\nline 3\n".into(), 14));
        assert_eq!(end_of(&path, 3).unwrap(), (String::new(), 28));
        fs::write(&path, "hunter2".repeat(10)).unwrap();
        assert_eq!(end_of(&path, 20).unwrap(), (String::new(), 70));
        assert!(end_of(&dir, 20).unwrap_err().to_string().contains("regular"));
        std::os::unix::fs::symlink(&path, dir.join("link")).unwrap();
        assert!(end_of(&dir.join("link"), 20).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
