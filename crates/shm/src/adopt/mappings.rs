//! Reads from `/proc/self/maps`, without an allocator, what is mapped at an address.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

use crate::{Error, Result};

/// The identity of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    major: u32,
    minor: u32,
    inode: u64,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping<'a> {
    start: usize,
    end: usize,
    /// `rw-p`: read, write, execute, private or shared.
    access: &'a str,
    file: FileId,
    name: &'a str,
}

/// Lines are cut off here: what is behind is the end of a path.
const LINE_BYTES: usize = 160;

/// The file behind a descriptor, as `/proc/self/maps` names it.
pub(super) fn file_of(fd: impl AsFd) -> Result<FileId> {
    let stat = rustix::fs::fstat(fd).map_err(|errno| Error::System { what: "fstat", errno })?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    Ok(FileId { major, minor, inode: stat.st_ino })
}

/// The whole range is private memory that can be read and written, of ordinary pages.
pub(super) fn check_private(start: usize, end: usize) -> Result<()> {
    let mut next = start;
    each(start, end, |mapping| {
        if mapping.start <= next {
            not_private(mapping).map_or(Ok(()), |why| Err(Error::NotAdoptable { address: next, why }))?;
            next = mapping.end;
        }
        Ok(())
    })?;
    if next >= end {
        Ok(())
    } else {
        Err(Error::NotAdoptable { address: next, why: "nothing is mapped there" })
    }
}

fn not_private(mapping: &Mapping<'_>) -> Option<&'static str> {
    match mapping.access.as_bytes() {
        [_, _, _, b's'] => Some("it is shared memory: of a segment, a file, or a device"),
        [_, _, b'x', _] => Some("it holds code"),
        [b'r', b'w', _, b'p'] if mapping.name.starts_with("/anon_hugepage") => {
            Some("it consists of huge pages")
        }
        [b'r', b'w', _, b'p'] => None,
        _ => Some("it cannot be read and written"),
    }
}

/// The whole range maps this file from its beginning on, and shares it.
pub(super) fn is_whole(start: usize, end: usize, file: FileId) -> Result<bool> {
    let mut next = start;
    each(start, end, |mapping| {
        if mapping.start <= next && mapping.file == file && mapping.access.ends_with('s') {
            next = mapping.end;
        }
        Ok(())
    })?;
    Ok(next >= end)
}

/// Calls `look` for every mapping that has a part in the range, in their order.
fn each(start: usize, end: usize, mut look: impl FnMut(&Mapping<'_>) -> Result<()>) -> Result<()> {
    let failed = |errno| Error::System { what: "reading /proc/self/maps", errno };
    let fd: OwnedFd = rustix::fs::open("/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed)?;
    let (mut line, mut len) = ([0_u8; LINE_BYTES], 0);
    let mut buffer = [0_u8; 2048];
    loop {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut buffer)).map_err(failed)?;
        if count == 0 {
            return Ok(());
        }
        for &byte in buffer.get(..count).unwrap_or_default() {
            if byte != b'\n' {
                if let Some(place) = line.get_mut(len) {
                    *place = byte;
                    len += 1;
                }
                continue;
            }
            // A path that was cut in the middle of a character loses the rest of it.
            let text =
                line.get(..len).unwrap_or_default().utf8_chunks().next().map_or("", |chunk| chunk.valid());
            len = 0;
            match parse(text) {
                Some(mapping) if mapping.start < end && mapping.end > start => look(&mapping)?,
                _ => {}
            }
        }
    }
}

fn parse(line: &str) -> Option<Mapping<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (access, _offset) = (words.next()?, words.next()?);
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let half = |text| u32::from_str_radix(text, 16).ok();
    let file = FileId { major: half(major)?, minor: half(minor)?, inode };
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        access,
        file,
        name: words.next().unwrap_or("").trim(),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = "7f00-8f00 rw-p 00000010 fd:01 77                         /some where/file (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.access), (0x7f00, 0x8f00, "rw-p"));
        assert_eq!(mapping.file, FileId { major: 0xfd, minor: 1, inode: 77 });
        assert_eq!(mapping.name, "/some where/file (deleted)");
        assert_eq!(parse("7f00-8f00 rw-p 00000000 00:00 0 ").unwrap().name, "");
        assert_eq!(parse("7f00-8f00 rw-p"), None);
    }

    #[test]
    fn why_memory_cannot_be_shared() {
        let of = |access, name| {
            not_private(&Mapping {
                start: 0,
                end: 1,
                access,
                file: FileId { major: 0, minor: 0, inode: 0 },
                name,
            })
        };
        assert_eq!(of("rw-p", ""), None);
        assert_eq!(of("rw-p", "[heap]"), None);
        for (access, name, why) in [
            ("rw-s", "/dev/x", "shared memory"),
            ("r--p", "", "cannot be read and written"),
            ("-w-p", "", "cannot be read and written"),
            ("rwxp", "", "code"),
            ("rw-p", "/anon_hugepage (deleted)", "huge pages"),
        ] {
            assert!(of(access, name).unwrap().contains(why), "{access} {name}");
        }
    }
}
