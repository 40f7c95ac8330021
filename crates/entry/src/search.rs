//! Searches for a program as execvp(3) of the GNU C library does, by which env(1) and nohup(1)
//! start programs too, and returns the same error.

use alloc::vec;
use alloc::vec::Vec;

use rustix::io::Errno;

use crate::Text;

/// Where is looked if nothing is said about it.
const USUAL: &[u8] = b"/bin:/usr/bin";
/// Longest name of a file.
const NAME_BYTES: usize = 255;
/// Longer entries of the list are passed over.
const FOLDER_BYTES: usize = 4095;

/// The files that a name may stand for, in the order in which they are tried.
pub(crate) fn places(name: &[u8], search_path: Option<&[u8]>) -> Result<Vec<Text>, Errno> {
    if name.is_empty() {
        return Err(Errno::NOENT);
    }
    if name.contains(&b'/') {
        return Ok(vec![name.into()]);
    }
    if name.len() > NAME_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    let folders = search_path.unwrap_or(USUAL).split(|byte| *byte == b':');
    let path = |folder: &[u8]| {
        // An empty entry is the working directory.
        let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        [folder, slash, name].concat()
    };
    Ok(folders.filter(|folder| folder.len() <= FOLDER_BYTES).map(path).collect())
}

/// What came of the places so far.
#[derive(Debug, Default)]
pub(crate) struct Search {
    denied: bool,
    last: Option<Errno>,
}

impl Search {
    /// Takes note of an error; returns whether the next place is to be tried.
    pub(crate) fn goes_on(&mut self, errno: Errno) -> bool {
        self.last = Some(errno);
        match errno {
            Errno::ACCESS => self.denied = true,
            Errno::NOENT | Errno::STALE | Errno::NOTDIR | Errno::NODEV | Errno::TIMEDOUT => {}
            _ => {
                self.denied = false;
                return false;
            }
        }
        true
    }

    /// The error of the whole.
    pub(crate) fn end(&self) -> Errno {
        if self.denied { Errno::ACCESS } else { self.last.unwrap_or(Errno::NOENT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    fn found(name: &str, path: Option<&str>) -> Result<Vec<String>, Errno> {
        let all = places(name.as_bytes(), path.map(str::as_bytes))?;
        Ok(all.into_iter().map(|path| String::from_utf8(path).unwrap()).collect())
    }

    #[test]
    fn places_are_those_of_execvp() {
        let list = |all: &[&str]| Ok(all.iter().map(ToString::to_string).collect());
        assert_eq!(found("x", None), list(&["/bin/x", "/usr/bin/x"]));
        assert_eq!(found("x", Some("")), list(&["x"]));
        assert_eq!(found("x", Some("/a/::b:")), list(&["/a//x", "x", "b/x", "x"]));
        assert_eq!(found("./x", Some("/a")), list(&["./x"]));
        assert_eq!(found("", Some("/a")), Err(Errno::NOENT));
        assert_eq!(found(&"x".repeat(256), None), Err(Errno::NAMETOOLONG));
        assert_eq!(found("x", Some(&"y".repeat(4096))), list(&[]));
    }

    #[test]
    fn the_error_is_that_of_execvp() {
        let end = |all: &[Errno]| {
            let mut search = Search::default();
            for errno in all {
                if !search.goes_on(*errno) {
                    break;
                }
            }
            search.end()
        };
        assert_eq!(end(&[]), Errno::NOENT);
        assert_eq!(end(&[Errno::NOENT, Errno::NOTDIR]), Errno::NOTDIR);
        assert_eq!(end(&[Errno::NOTDIR, Errno::NOENT]), Errno::NOENT);
        assert_eq!(end(&[Errno::ACCESS, Errno::NOENT]), Errno::ACCESS);
        assert_eq!(end(&[Errno::ACCESS, Errno::LOOP, Errno::NOENT]), Errno::LOOP);
        assert_eq!(end(&[Errno::NOEXEC, Errno::NOENT]), Errno::NOEXEC);
    }
}
