//! Where an installation is, and the list of its files.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::verbs::{Outcome, Stop, cannot, misused};

/// Where an installation is.
#[derive(Debug)]
pub(super) struct Place {
    /// The prefix, as the installed system sees it.
    pub(super) prefix: String,
    /// What stands before it while files are staged for a package; empty otherwise.
    pub(super) destdir: String,
    /// Both: where files are written.
    pub(super) staged: PathBuf,
    /// The list of the files that were written.
    pub(super) list: PathBuf,
}

const LIST: &str = "share/doc/tieline/installed-files";

impl Place {
    /// From the command line of a verb, and `DESTDIR`.
    pub(super) fn read(verb: &str, options: &[&str]) -> Outcome<Self> {
        let Some(destdir) = std::env::var_os("DESTDIR").unwrap_or_default().to_str().map(str::to_owned)
        else {
            return misused(format!("{verb}: DESTDIR is not UTF-8"));
        };
        Ok(Self::of(destdir, prefix(verb, options)?))
    }

    fn of(destdir: String, prefix: String) -> Self {
        let staged = PathBuf::from(format!("{destdir}{prefix}"));
        Self { list: staged.join(LIST), staged, prefix, destdir }
    }

    /// Before anything is copied: half an installation is worse than none.
    pub(super) fn need_writable(&self, verb: &str) -> Outcome {
        let folder = self.staged.join("bin");
        // Tried, not asked for: root may write where the file system refuses.
        if fs::create_dir_all(&folder).is_ok() && access(&folder, Access::WRITE_OK).is_ok() {
            return Ok(());
        }
        cannot(format!(
            "cannot write to {}: run as its owner (sudo ./run {verb} …) or choose another --prefix",
            folder.display()
        ))
    }

    /// The files of the list, without `DESTDIR`.
    pub(super) fn listed(&self) -> Outcome<Vec<String>> {
        Ok(fs::read_to_string(&self.list)?.lines().map(str::to_owned).collect())
    }

    fn staged(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("{}{file}", self.destdir))
    }

    /// Whether a path is below the prefix.
    fn is_inside(&self, path: &str) -> bool {
        path.strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
    }

    /// Removes files, which are named without `DESTDIR`.
    pub(super) fn remove_files(&self, files: &[String]) -> Outcome {
        for file in files.iter().filter(|file| !file.is_empty()) {
            // A damaged list must not remove what lies elsewhere.
            if !self.is_inside(file) || file.contains("..") {
                return cannot(format!(
                    "{} names {file}, which is not under {}",
                    self.list.display(),
                    self.prefix
                ));
            }
            let file = self.staged(file);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return cannot(format!("{} cannot be removed: {error}", file.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the folders of files, and those above them, as far as they are empty and below the prefix.
    pub(super) fn remove_empty_folders(&self, files: &[String]) {
        for file in files {
            let mut folder = file.as_str();
            while let Some((above, _)) = folder.rsplit_once('/') {
                if !self.is_inside(above) || fs::remove_dir(self.staged(above)).is_err() {
                    break;
                }
                folder = above;
            }
        }
    }
}

/// The prefix that a verb's options name.
fn prefix(verb: &str, options: &[&str]) -> Outcome<String> {
    let mut prefix = "/usr/local";
    let mut words = options.iter();
    while let Some(word) = words.next() {
        prefix = match word.strip_prefix("--prefix") {
            Some("") => match words.next() {
                Some(folder) => folder,
                None => return misused(format!("{verb}: --prefix needs a folder")),
            },
            Some(rest) if rest.starts_with('=') => &rest[1..],
            _ => {
                return misused(format!("{verb}: unknown argument {word}; usage: ./run {verb} [--prefix P]"));
            }
        };
    }
    if !prefix.starts_with('/') {
        return misused(format!("{verb}: --prefix needs an absolute path, not '{prefix}'"));
    }
    Ok(prefix.strip_suffix('/').unwrap_or(prefix).to_owned())
}

/// Whether something is there that is not the link which this installation would make.
pub(super) fn is_of_something_else(link: &Path, leads_to: &str) -> bool {
    // Also a link that leads nowhere is there.
    link.symlink_metadata().is_ok() && fs::read_link(link).ok().as_deref() != Some(Path::new(leads_to))
}

/// Writes the files of an installation, and lists each.
#[derive(Debug)]
pub(super) struct Written<'a> {
    place: &'a Place,
    list: File,
    files: Vec<String>,
}

impl<'a> Written<'a> {
    /// Empties the list.
    pub(super) fn begin(place: &'a Place) -> Outcome<Self> {
        fs::create_dir_all(place.list.parent().unwrap_or(&place.staged))?;
        Ok(Self { place, list: File::create(&place.list)?, files: Vec::new() })
    }

    /// Copies a file into a folder below the prefix.
    pub(super) fn put(&mut self, mode: u32, file: &Path, folder: &str) -> Outcome {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.place_file(mode, &name, folder, |place| fs::copy(file, place).map(drop))
    }

    /// Writes a text into a folder below the prefix.
    pub(super) fn put_text(&mut self, text: &str, name: &str, folder: &str) -> Outcome {
        self.place_file(0o644, name, folder, |place| fs::write(place, text))
    }

    /// Under another name first: a program that runs, or a library in use, keeps its file.
    fn place_file(
        &mut self,
        mode: u32,
        name: &str,
        folder: &str,
        write: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Outcome {
        let path = self.new_path(name, folder)?;
        let unfinished = path.with_file_name(format!(".{name}.new"));
        let done = write(&unfinished)
            .and_then(|()| fs::set_permissions(&unfinished, PermissionsExt::from_mode(mode)))
            .and_then(|()| fs::rename(&unfinished, &path));
        if let Err(error) = done {
            let _ = fs::remove_file(&unfinished);
            return cannot(format!("{} cannot be written: {error}", path.display()));
        }
        self.note(name, folder)
    }

    /// Makes a link below the prefix, in place of one that was there.
    pub(super) fn link(&mut self, name: &str, folder: &str, leads_to: &str) -> Outcome {
        let path = self.new_path(name, folder)?;
        let _ = fs::remove_file(&path);
        symlink(leads_to, &path)
            .map_err(|error| Stop::Cannot(format!("{} cannot be written: {error}", path.display())))?;
        self.note(name, folder)
    }

    fn new_path(&self, name: &str, folder: &str) -> Outcome<PathBuf> {
        let folder = self.place.staged.join(folder);
        fs::create_dir_all(&folder)
            .map_err(|error| Stop::Cannot(format!("{} cannot be made: {error}", folder.display())))?;
        Ok(folder.join(name))
    }

    /// At once, so that an installation that is interrupted can be removed. Without `DESTDIR`, as the
    /// installed system sees it.
    fn note(&mut self, name: &str, folder: &str) -> Outcome {
        let file = format!("{}/{}/{name}", self.place.prefix, folder.trim_end_matches('/'));
        writeln!(self.list, "{file}")?;
        self.files.push(file);
        Ok(())
    }

    /// Lists the list itself. Returns all files, without `DESTDIR`.
    pub(super) fn end(mut self) -> Outcome<Vec<String>> {
        let file = format!("{}/{LIST}", self.place.prefix);
        writeln!(self.list, "{file}")?;
        self.files.push(file);
        Ok(self.files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_an_absolute_folder() {
        for (words, expected) in
            [(&[][..], "/usr/local"), (&["--prefix", "/opt/x/"], "/opt/x"), (&["--prefix=/"], "")]
        {
            assert_eq!(prefix("install", words).unwrap(), expected);
        }
        for (words, says) in [
            (&["--prefix"][..], "install: --prefix needs a folder"),
            (&["--prefix="], "not ''"),
            (&["--prefix", "opt"], "not 'opt'"),
            (&["--prefixes"], "unknown argument --prefixes"),
            (&["now"], "unknown argument now; usage: ./run install [--prefix P]"),
        ] {
            let stop = prefix("install", words).unwrap_err();
            assert!(matches!(&stop, Stop::Misused(text) if text.contains(says)), "{words:?}: {stop:?}");
        }
    }

    #[test]
    fn a_damaged_list_removes_nothing_elsewhere() {
        let place = Place::of("/nowhere".to_owned(), "/opt/x".to_owned());
        for file in ["/etc/passwd", "/opt/x/../y", "/opt/xy/z", "/opt/x"] {
            let stop = place.remove_files(&[file.to_owned()]).unwrap_err();
            assert!(matches!(&stop, Stop::Cannot(text) if text.contains(file)), "{file}: {stop:?}");
        }
        assert!(place.remove_files(&["/opt/x/bin/tieline".to_owned(), String::new()]).is_ok());
    }
}
