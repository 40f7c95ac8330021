//! How a program is started: tried where it may be, with the library in its environment if that can enter it.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::Resource;

use crate::environment::{self, BUILT, can_be_said};
use crate::program::{self, Barred};
use crate::search::{Search, places};
use crate::{ENV_LIBRARY, LIBRARY};

const SHELL: &str = "/bin/sh";

/// How a program is to be started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the library is.
    pub library: PathBuf,
    /// Where to count, if anywhere.
    pub statistics: Option<PathBuf>,
    /// The library enters no child.
    pub no_children: bool,
    /// Connections inside this machine may go through rings.
    pub rings: bool,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such file.
    #[error("{}: no such program", .0.display())]
    NotFound(PathBuf),
    /// It is there, and what it is to be read by is not.
    #[error("{}: its interpreter {interpreter:?} is not there", program.display())]
    NoInterpreter {
        /// The program.
        program: PathBuf,
        /// What it asks for.
        interpreter: PathBuf,
    },
    /// The file can't be executed by this user.
    #[error("{}: it may not be executed", .0.display())]
    NotExecutable(PathBuf),
    /// The kernel refuses for another reason.
    #[error("{} cannot be executed: {source}", path.display())]
    Refused {
        /// The program.
        path: PathBuf,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The library is not where it is looked for.
    #[error(
        "the library {LIBRARY} is not there, or is no library (looked at {looked}): run `./run install`, or name it in {ENV_LIBRARY}"
    )]
    NoLibrary {
        /// Where.
        looked: String,
    },
}

impl LaunchError {
    /// For the error number of a program that was tried.
    fn new(path: PathBuf, errno: Errno) -> Self {
        match errno {
            Errno::NOENT => match program::interpreter(&path) {
                Some(interpreter) => Self::NoInterpreter { program: path, interpreter },
                None => Self::NotFound(path),
            },
            Errno::ACCESS => Self::NotExecutable(path),
            _ => Self::Refused { path, source: errno.into() },
        }
    }

    /// Whether what was looked for is not there, for which shells and env(1) have an exit status of its own: as them, nothing else
    /// than the kernel's word for it counts.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::NoInterpreter { .. })
    }
}

/// A program that is ready to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments, with its name.
    pub arguments: Vec<OsString>,
    /// Its environment.
    pub environment: Vec<OsString>,
    /// Why it runs without the library, if it does.
    pub barred: Option<Barred>,
    /// Whether it looks as if it will start: what is known of it is worth a word. Otherwise the kernel is only asked why not, or
    /// whether it knows a format that is unknown here.
    pub likely: bool,
}

/// Has the program tried wherever it may be, as execvp(3) does it, by `execute`, which comes back with the kernel's error number if
/// it could not become the program, or with an error of its own, which ends the search. Comes back with why there is no program.
pub fn launch<E>(
    words: &[OsString],
    environment: &[OsString],
    options: &Options,
    execute: impl FnMut(&Start) -> Result<i32, E>,
) -> Result<LaunchError, E> {
    let name = words.first().cloned().unwrap_or_default();
    let mut attempt = Attempt { words, environment, options, execute };
    let all = match places(&name, environment::value_of(environment, "PATH")) {
        Ok(all) => all,
        Err(errno) => return Ok(LaunchError::new(name.into(), errno)),
    };
    let mut search = Search::default();
    // An error names what was asked for; a place only if that is to blame.
    let mut blamed = PathBuf::from(name);
    for path in all {
        let errno = attempt.place(&path)?;
        let goes_on = search.goes_on(errno);
        if !goes_on || (path.exists() && search.end() == errno) {
            blamed = path;
        }
        if !goes_on {
            break;
        }
    }
    Ok(LaunchError::new(blamed, search.end()))
}

/// One program after another is tried.
struct Attempt<'a, F> {
    words: &'a [OsString],
    environment: &'a [OsString],
    options: &'a Options,
    execute: F,
}

impl<E, F: FnMut(&Start) -> Result<i32, E>> Attempt<'_, F> {
    fn prepare(&self, path: &Path, words: Vec<OsString>) -> Start {
        prepare(path, words, self.environment.to_vec(), self.options)
    }

    /// Tries a file, and if the kernel does not know what it is the shell with it.
    fn place(&mut self, path: &Path) -> Result<Errno, E> {
        let errno = self.start(self.prepare(path, self.words.to_vec()))?;
        if errno != Errno::NOEXEC {
            return Ok(errno);
        }
        let rest = self.words.iter().skip(1).cloned();
        let words = [SHELL.into(), path.into()].into_iter().chain(rest).collect();
        let mut start = self.prepare(Path::new(SHELL), words);
        start.barred = start.barred.map(|why| match why {
            // These are not about the shell.
            Barred::NoPath(_) | Barred::LittleMemory | Barred::TooLong => why,
            why => Barred::Interpreter(SHELL.into(), Box::new(why)),
        });
        self.start(start)
    }

    fn start(&mut self, start: Start) -> Result<Errno, E> {
        let errno = Errno::from_raw_os_error((self.execute)(&start)?);
        let entered = start.barred.is_none() && start.environment != self.environment;
        if errno != Errno::TOOBIG || !entered {
            return Ok(errno);
        }
        let environment = self.environment.to_vec();
        let plain = Start { environment, barred: Some(Barred::TooLong), ..start };
        (self.execute)(&plain).map(Errno::from_raw_os_error)
    }
}

/// Looks whether a file can be entered, and says how to start it: `words` are its arguments, with its name.
#[must_use]
pub fn prepare(path: &Path, words: Vec<OsString>, environment: Vec<OsString>, options: &Options) -> Start {
    let mut start =
        Start { path: path.to_owned(), arguments: words, environment, barred: None, likely: false };
    if !may_execute(path) {
        return start;
    }
    let program = program::look_at(path, &start.arguments);
    start.likely = !program.unknown;
    let no_path = || (!can_be_said(&options.library)).then(|| Barred::NoPath(options.library.clone()));
    let no_memory = || has_little_memory().then_some(Barred::LittleMemory);
    start.barred = program.barred.clone().or_else(no_path).or_else(no_memory);
    if start.barred.is_none() {
        start.environment = environment::with_library(start.environment, &program, options);
    }
    start
}

/// Whether a limit is so low that a program may start without the library, which takes a good MiB, and not with it.
fn has_little_memory() -> bool {
    const LITTLE: u64 = 8 << 20;
    let limit = |of| rustix::process::getrlimit(of).current;
    [Resource::Data, Resource::As].into_iter().filter_map(limit).any(|limit| limit < LITTLE)
}

/// Whether the caller may execute a file, as far as that can be seen.
fn may_execute(path: &Path) -> bool {
    let at = rustix::fs::accessat(
        rustix::fs::CWD,
        path,
        rustix::fs::Access::EXEC_OK,
        rustix::fs::AtFlags::EACCESS,
    );
    // Root may do everything with a file but execute what nobody may.
    at.is_ok() && std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.mode() & 0o111 != 0)
}

/// Where the library is: what the variable names, else beside the program, which has one of the paths `own`, else where an
/// installation puts it.
pub fn library(named: Option<&OsStr>, own: &[PathBuf]) -> Result<PathBuf, LaunchError> {
    let named = named.filter(|named| !named.is_empty());
    let places: Vec<PathBuf> = match named {
        Some(named) => vec![std::path::absolute(named).unwrap_or_else(|_| named.into())],
        None => own.iter().flat_map(|own| beside(own)).collect(),
    };
    match places.iter().find(|path| program::may_be_library(path)) {
        Some(path) if named.is_some() => Ok(path.clone()),
        Some(path) => Ok(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())),
        None => {
            let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
            Err(LaunchError::NoLibrary { looked: looked.join(", ") })
        }
    }
}

fn beside(own: &Path) -> [PathBuf; 3] {
    let folder = own.parent().unwrap_or(Path::new("."));
    [folder.join(LIBRARY), folder.join("../lib64").join(LIBRARY), folder.join(BUILT)]
}

/// A path by which the library can be named to the dynamic linker: its own, or else that of a link in `folder`, a private directory.
/// Its own too if there can be no such link; then no program can be entered.
#[must_use]
pub fn sayable(library: PathBuf, folder: &Path) -> PathBuf {
    if can_be_said(&library) || !can_be_said(folder) {
        return library;
    }
    link(&library, folder).unwrap_or(library)
}

/// A link whose name differs from library to library, so that those of two installations leave each other alone.
fn link(library: &Path, folder: &Path) -> Option<PathBuf> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    crate::statistics::private_folder(folder).ok()?;
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
mod tests;
