//! Starts a program as crate `entry` does, with the standard library's path types.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub use entry::Text;
pub use entry::launch::{LaunchError, Options, Start, launch, prepare};

use crate::LIBRARY;
use crate::environment::can_be_said;
use crate::program::Barred;

/// Texts as `entry` has them.
pub fn texts(all: impl IntoIterator<Item = OsString>) -> Vec<Text> {
    all.into_iter().map(OsString::into_vec).collect()
}

/// Options for a program that counts in this file.
#[must_use]
pub fn counted(library: &Path, statistics: &Path, rings: bool) -> Options {
    let text = |path: &Path| path.as_os_str().as_bytes().to_vec();
    Options { library: text(library), statistics: Some(text(statistics)), rings, ..Options::default() }
}

/// The variables by which the library enters a program that is started with no others; or why it cannot.
pub fn variables(
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
    options: &Options,
) -> Result<Vec<(OsString, OsString)>, Barred> {
    let words = texts([program.into()].into_iter().chain(arguments));
    let start = prepare(program.as_os_str().as_bytes(), words.into(), &[], options);
    if let Some(why) = start.barred {
        return Err(why);
    }
    let pair = |variable: &Text| {
        let at = variable.iter().position(|byte| *byte == b'=')?;
        let part = |bytes| OsStr::from_bytes(bytes).to_owned();
        Some((part(variable.get(..at)?), part(variable.get(at + 1..)?)))
    };
    Ok(start.environment.iter().filter_map(pair).collect())
}

/// Where the library is: what the variable names, else beside the program, which has one of the paths `own`,
/// else where an installation puts it.
pub fn library(named: Option<&OsStr>, own: &[PathBuf]) -> Result<PathBuf, LaunchError> {
    let named = named.filter(|named| !named.is_empty());
    let named = named.map(|named| std::path::absolute(named).unwrap_or_else(|_| named.into()));
    let own = texts(own.iter().map(|own| own.clone().into()));
    let named = named.as_deref().map(|named| named.as_os_str().as_bytes());
    let found = PathBuf::from(OsString::from_vec(entry::launch::library(named, &own)?));
    Ok(if named.is_some() { found } else { std::fs::canonicalize(&found).unwrap_or(found) })
}

/// A path by which the library can be named to the dynamic linker: its own, or else that of a link in
/// `folder`, a private directory. Its own too if there can be no such link; then no program can be entered.
#[must_use]
pub fn sayable(library: PathBuf, folder: &Path) -> PathBuf {
    let said = |path: &Path| can_be_said(path.as_os_str().as_bytes());
    if said(&library) || !said(folder) {
        return library;
    }
    link(&library, folder).unwrap_or(library)
}

/// A link whose name differs from library to library, so that those of two installations leave each other
/// alone.
fn link(library: &Path, folder: &Path) -> Option<PathBuf> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    entry::counting::private_folder(folder.as_os_str().as_bytes()).ok()?;
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let path = folder.join(format!("{:016x}-{LIBRARY}", hasher.finish()));
    let leads_there = || std::fs::read_link(&path).is_ok_and(|target| target == library);
    if !leads_there() {
        let fresh = folder.join(format!(".{LIBRARY}.{}", std::process::id()));
        // Of a process of this number that was killed.
        drop(std::fs::remove_file(&fresh));
        std::os::unix::fs::symlink(library, &fresh).ok()?;
        if std::fs::rename(&fresh, &path).is_err() {
            drop(std::fs::remove_file(&fresh));
        }
    }
    leads_there().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn can_be_said(path: &Path) -> bool {
        super::can_be_said(path.as_os_str().as_bytes())
    }

    #[test]
    fn a_library_in_a_folder_with_a_space_gets_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (home, runtime) = (folder.path().join("a b"), folder.path().join("run"));
        std::fs::create_dir(&home).unwrap();
        let library = home.join(LIBRARY);
        std::fs::write(&library, "x").unwrap();
        let said = sayable(library.clone(), &runtime);
        assert!(can_be_said(&said) && said.starts_with(&runtime), "{said:?}");
        assert_eq!(std::fs::read_to_string(&said).unwrap(), "x");
        assert_eq!(sayable(library.clone(), &runtime), said);
        assert_eq!(std::fs::read_dir(&runtime).unwrap().count(), 1);
        // Somebody else's file in its place goes.
        std::fs::remove_file(&said).unwrap();
        std::fs::write(&said, "y").unwrap();
        assert_eq!(std::fs::read_to_string(sayable(library.clone(), &runtime)).unwrap(), "x");
        // Where others may write there is none, and the program runs plain.
        std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        for place in [&runtime, &folder.path().join("c:d"), Path::new("/proc/nowhere")] {
            let said = sayable(library.clone(), place);
            assert_eq!(said, library, "{place:?}");
            let options = Options { library: said.into_os_string().into_vec(), ..Options::default() };
            let environment = texts(["A=1".into()]);
            let start = prepare(b"/bin/sh", texts(["/bin/sh".into()]).into(), &environment, &options);
            let why = Barred::NoPath(library.as_os_str().as_bytes().into());
            assert_eq!((&start.barred, &start.environment[..]), (&Some(why), &environment[..]));
        }
    }

    #[test]
    fn the_library_is_looked_for_beside_each_path_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let own = [PathBuf::from("/nowhere/bin/x"), folder.path().join("libexec/tieline/x")];
        assert!(library(None, &own).unwrap_err().to_string().contains("/nowhere/lib64/"));
        for name in ["lib64", "bin", "libexec/tieline"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let path = folder.path().join("lib64").join(LIBRARY);
        // What is no library is none, whatever it is called.
        std::fs::write(&path, "").unwrap();
        assert!(library(None, &own).is_err() && library(Some(path.as_os_str()), &own).is_err());
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        std::fs::write(&path, &this[..4096]).unwrap();
        let found = std::fs::canonicalize(path).unwrap();
        assert_eq!(library(None, &own).unwrap(), found);
        assert_eq!(library(None, &[folder.path().join("bin/x")]).unwrap(), found);
        // Where a package has it.
        std::fs::create_dir_all(folder.path().join("lib/tieline")).unwrap();
        let packaged = folder.path().join("lib/tieline").join(LIBRARY);
        std::fs::rename(&found, &packaged).unwrap();
        let found = std::fs::canonicalize(packaged).unwrap();
        assert_eq!(library(None, &own).unwrap(), found);
        assert_eq!(library(None, &[folder.path().join("bin/x")]).unwrap(), found);
        assert!(matches!(
            library(Some(OsStr::new("/nowhere/l.so")), &own),
            Err(LaunchError::NoLibrary { .. })
        ));
    }
}
