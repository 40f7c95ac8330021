//! Starts a program by the rules of execvp, with the library in its environment if it can be
//! entered.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::Resource;

use crate::environment::{self, BUILT, can_be_said};
use crate::program::{self, Barred};
use crate::search::{Search, places};
use crate::{ENV_LIBRARY, LIBRARY, Text, parent, shown};

const SHELL: &[u8] = b"/bin/sh";

/// How a program is to be started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the library is.
    pub library: Text,
    /// Where to count, if anywhere.
    pub statistics: Option<Text>,
    /// The library enters no child.
    pub no_children: bool,
    /// Connections inside this machine may go through rings.
    pub rings: bool,
    /// The dynamic linker has complained of libraries that are not there, when this process started: the
    /// program's is not to.
    pub missing_are_told: bool,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such file.
    #[error("{}", missing(.0))]
    NotFound(Text),
    /// It is a directory.
    #[error("{} is a directory: name a program", shown(.0))]
    Directory(Text),
    /// It is there, and what it is to be read by is not.
    #[error(
        "{}: its interpreter {:?} is not there: install it, or correct the first line of the file",
        shown(program),
        shown(interpreter)
    )]
    NoInterpreter {
        /// The program.
        program: Text,
        /// What it asks for.
        interpreter: Text,
    },
    /// The file can't be executed by this user.
    #[error("{}: not executable (no execute permission): name a program, put its interpreter before it, or run `chmod +x` on it", shown(.0))]
    NotExecutable(Text),
    /// The kernel refuses for another reason.
    #[error("{} cannot be executed: {errno}", shown(path))]
    Refused {
        /// The program.
        path: Text,
        /// What the kernel says.
        errno: Errno,
    },
    /// The library is not where it is looked for.
    #[error(
        "the library {LIBRARY} is missing, or is not a library (searched {looked}): run `./run install`, or name it in {ENV_LIBRARY}"
    )]
    NoLibrary {
        /// Where.
        looked: String,
    },
}

/// What is said of a program that is not there.
fn missing(name: &[u8]) -> String {
    if name.is_empty() {
        return "the program's name is empty: name a program".to_owned();
    }
    let why = if name.contains(&b'/') {
        "no such file: correct the path"
    } else {
        "not found in PATH: install it, or give its path"
    };
    format!("{}: {why}", shown(name))
}

fn is_directory(path: &[u8]) -> bool {
    rustix::fs::stat(path).is_ok_and(|it| FileType::from_raw_mode(it.st_mode).is_dir())
}

impl LaunchError {
    /// For the error number of a program that was tried.
    fn new(path: Text, errno: Errno) -> Self {
        match errno {
            Errno::NOENT => match program::interpreter(&path) {
                Some(interpreter) => Self::NoInterpreter { program: path, interpreter },
                None => Self::NotFound(path),
            },
            Errno::ACCESS if is_directory(&path) => Self::Directory(path),
            Errno::ACCESS => Self::NotExecutable(path),
            _ => Self::Refused { path, errno },
        }
    }

    /// Whether what was looked for is not there, for which shells and env(1) have an exit status of its own:
    /// as them, nothing else than the kernel's word for it counts.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::NoInterpreter { .. })
    }
}

/// A program that is ready to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start<'a> {
    /// Its file.
    pub path: Text,
    /// Its arguments, with its name.
    pub arguments: Cow<'a, [Text]>,
    /// Its environment.
    pub environment: Cow<'a, [Text]>,
    /// Why it runs without the library, if it does.
    pub barred: Option<Barred>,
    /// Whether it looks as if it will start: what is known of it is worth a word. Otherwise the kernel is
    /// only asked why not, or whether it knows a format that is unknown here.
    pub likely: bool,
}

/// Has the program tried wherever it may be, as execvp(3) does it, by `execute`, which comes back with the
/// kernel's error number if it could not become the program, or with an error of its own, which ends the
/// search. Comes back with why there is no program.
pub fn launch<E>(
    words: &[Text],
    environment: &[Text],
    options: &Options,
    execute: impl FnMut(&Start<'_>) -> Result<i32, E>,
) -> Result<LaunchError, E> {
    let name = words.first().cloned().unwrap_or_default();
    let mut attempt = Attempt { words, environment, options, execute };
    let all = match places(&name, environment::value_of(environment, "PATH")) {
        Ok(all) => all,
        Err(errno) => return Ok(LaunchError::new(name, errno)),
    };
    let mut search = Search::default();
    // An error names what was asked for; a place only if that is to blame.
    let mut blamed = name;
    for path in all {
        let errno = attempt.place(&path)?;
        let goes_on = search.goes_on(errno);
        if !goes_on || (search.end() == errno && rustix::fs::stat(&path[..]).is_ok()) {
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
    words: &'a [Text],
    environment: &'a [Text],
    options: &'a Options,
    execute: F,
}

impl<'a, E, F: FnMut(&Start<'_>) -> Result<i32, E>> Attempt<'a, F> {
    fn prepare(&self, path: &[u8], words: Cow<'a, [Text]>) -> Start<'a> {
        prepare(path, words, self.environment, self.options)
    }

    /// Tries a file, and if the kernel does not know what it is the shell with it.
    fn place(&mut self, path: &[u8]) -> Result<Errno, E> {
        let errno = self.start(self.prepare(path, self.words.into()))?;
        if errno != Errno::NOEXEC {
            return Ok(errno);
        }
        let rest = self.words.iter().skip(1).cloned();
        let words: Vec<Text> = [SHELL.to_owned(), path.to_owned()].into_iter().chain(rest).collect();
        let mut start = self.prepare(SHELL, words.into());
        start.barred = start.barred.map(|why| match why {
            // These are not about the shell.
            Barred::NoPath(_) | Barred::LittleMemory | Barred::TooLong => why,
            why => Barred::Interpreter(SHELL.into(), Box::new(why)),
        });
        self.start(start)
    }

    fn start(&mut self, start: Start<'a>) -> Result<Errno, E> {
        let errno = Errno::from_raw_os_error((self.execute)(&start)?);
        let entered = start.barred.is_none() && *start.environment != *self.environment;
        if errno != Errno::TOOBIG || !entered {
            return Ok(errno);
        }
        let plain = Start { environment: self.environment.into(), barred: Some(Barred::TooLong), ..start };
        (self.execute)(&plain).map(Errno::from_raw_os_error)
    }
}

/// Looks whether a file can be entered, and says how to start it: `words` are its arguments, with its name.
#[must_use]
pub fn prepare<'a>(
    path: &[u8],
    words: Cow<'a, [Text]>,
    environment: &'a [Text],
    options: &Options,
) -> Start<'a> {
    let environment_of = |program| environment::with_library(environment.to_vec(), program, options).into();
    let mut start = Start {
        path: path.to_owned(),
        arguments: words,
        environment: environment.into(),
        barred: None,
        likely: false,
    };
    if !may_execute(path) {
        return start;
    }
    let program = program::look_at(path, &start.arguments);
    start.likely = !program.unknown;
    let no_path = || (!can_be_said(&options.library)).then(|| Barred::NoPath(options.library.clone()));
    let no_memory = || has_little_memory().then_some(Barred::LittleMemory);
    start.barred = program.barred.clone().or_else(no_path).or_else(no_memory);
    if start.barred.is_none() {
        start.environment = environment_of(&program);
    }
    start
}

/// Whether a limit is so low that a program may start without the library, which takes a good MiB, and not
/// with it.
fn has_little_memory() -> bool {
    const LITTLE: u64 = 8 << 20;
    let limit = |of| rustix::process::getrlimit(of).current;
    [Resource::Data, Resource::As].into_iter().filter_map(limit).any(|limit| limit < LITTLE)
}

/// Whether the caller may execute a file, as far as that can be seen.
fn may_execute(path: &[u8]) -> bool {
    let at = rustix::fs::accessat(
        rustix::fs::CWD,
        path,
        rustix::fs::Access::EXEC_OK,
        rustix::fs::AtFlags::EACCESS,
    );
    // Root may do everything with a file but execute what nobody may.
    at.is_ok() && rustix::fs::stat(path).is_ok_and(|it| program::is_file(&it) && it.st_mode & 0o111 != 0)
}

/// Where the library is: what the variable names, else beside the program, which has one of the full paths
/// `own`, else where an installation puts it.
pub fn library(named: Option<&[u8]>, own: &[Text]) -> Result<Text, LaunchError> {
    let places: Vec<Text> = match named.filter(|named| !named.is_empty()) {
        Some(named) => vec![named.into()],
        None => own.iter().flat_map(|own| beside(own)).collect(),
    };
    match places.iter().find(|path| program::may_be_library(path)) {
        Some(path) => Ok(path.clone()),
        None => {
            let looked: Vec<Cow<'_, str>> = places.iter().map(|path| shown(path)).collect();
            Err(LaunchError::NoLibrary { looked: looked.join(", ") })
        }
    }
}

/// Where the library may lie for a program with this full path: in an installation that is in `bin` or in
/// `libexec/tieline`.
fn beside(own: &[u8]) -> Vec<Text> {
    let folder = parent(own);
    let places = [
        (folder, "/", LIBRARY),
        (folder.and_then(parent), "/lib64/", LIBRARY),
        // In packages of Debian, whose programs are in /usr/bin.
        (folder.and_then(parent), "/lib/tieline/", LIBRARY),
        (folder.and_then(|folder| folder.strip_suffix(b"/libexec/tieline")), "/lib64/", LIBRARY),
        (folder.and_then(|folder| folder.strip_suffix(b"/libexec/tieline")), "/lib/tieline/", LIBRARY),
        (folder, "/", BUILT),
    ];
    let path = |(folder, between, name): (Option<&[u8]>, &str, &str)| {
        Some([folder?, between.as_bytes(), name.as_bytes()].concat())
    };
    places.into_iter().filter_map(path).collect()
}

#[cfg(test)]
mod tests;
