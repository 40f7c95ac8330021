//! With what a program is started: its file, its arguments, its environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::program::{self, Barred, Program};
use crate::{ENV_CHILDREN, ENV_LIBRARY, ENV_STATISTICS, LIBRARY};

const PRELOAD: &str = "LD_PRELOAD";
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
}

/// Why a program cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such file.
    #[error("{}: no such program", .0.display())]
    NotFound(PathBuf),
    /// The file can't be executed by this user.
    #[error("{}: it may not be executed", .0.display())]
    NotExecutable(PathBuf),
    /// The library is not where it is looked for.
    #[error(
        "the library {LIBRARY} is not installed (looked for {looked}): run `./run install`, or name it in {ENV_LIBRARY}"
    )]
    NoLibrary {
        /// Where.
        looked: String,
    },
    /// Its path can't stand in a list of libraries.
    #[error("the library's path {} contains a space or a colon, which the dynamic linker takes for its end: move it", .0.display())]
    BadPath(PathBuf),
}

/// A program that is ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments, with its name.
    pub arguments: Vec<OsString>,
    /// Its environment, as `NAME=value`.
    pub environment: Vec<OsString>,
    /// Why it runs without the library, if it does.
    pub barred: Option<Barred>,
}

/// Finds the program, looks whether it can be entered, and says how to start it. `environment` holds texts `NAME=value`.
pub fn prepare(
    words: &[OsString],
    environment: Vec<OsString>,
    options: &Options,
) -> Result<Start, LaunchError> {
    let name = words.first().cloned().unwrap_or_default();
    let path = find(&name, value_of(&environment, "PATH"))?;
    let mut program = program::look_at(&path);
    let mut start = Start { path, arguments: words.to_vec(), environment, barred: None };
    if program.for_shell {
        // As execvp does.
        start.arguments =
            [SHELL.into(), start.path.clone().into()].into_iter().chain(words[1..].to_vec()).collect();
        start.path = SHELL.into();
        program = program::look_at(&start.path);
    }
    if program.barred.is_none() {
        start.environment = with_library(start.environment, &program, options)?;
    }
    start.barred = program.barred;
    Ok(start)
}

/// The program's file, as a shell finds it.
fn find(name: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name));
    }
    let mut best = LaunchError::NotFound(name.into());
    if name.is_empty() {
        return Err(best);
    }
    for folder in std::env::split_paths(search_path.unwrap_or(OsStr::new("/bin:/usr/bin"))) {
        // An empty entry is the working directory.
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        match executable(&folder.join(name)) {
            Ok(path) => return Ok(path),
            Err(LaunchError::NotFound(_)) => {}
            Err(other) => best = other,
        }
    }
    Err(best)
}

fn executable(path: &Path) -> Result<PathBuf, LaunchError> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => LaunchError::NotExecutable(path.into()),
        _ => LaunchError::NotFound(path.into()),
    })?;
    let may = rustix::fs::accessat(
        rustix::fs::CWD,
        path,
        rustix::fs::Access::EXEC_OK,
        rustix::fs::AtFlags::EACCESS,
    );
    // Root may do everything with a file but execute what nobody may.
    if !metadata.is_file() || may.is_err() || metadata.mode() & 0o111 == 0 {
        return Err(LaunchError::NotExecutable(path.into()));
    }
    Ok(path.into())
}

/// The value of a variable.
fn value_of<'e>(environment: &'e [OsString], name: &str) -> Option<&'e OsStr> {
    environment.iter().find_map(|variable| {
        let value = variable.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(value))
    })
}

/// Options of the address sanitizer, and the one by which its runtime does not insist on being first: nobody puts it first where an
/// entered program starts one that was built with it.
const SANITIZER: &str = "ASAN_OPTIONS";
const ANY_ORDER: &str = "verify_asan_link_order=0";

/// The environment with the library in it. What else is loaded stays, in its order, behind it; but the runtime of an address
/// sanitizer comes first, as it insists.
fn with_library(
    mut environment: Vec<OsString>,
    program: &Program,
    options: &Options,
) -> Result<Vec<OsString>, LaunchError> {
    let library = options.library.as_os_str();
    if library.as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return Err(LaunchError::BadPath(options.library.clone()));
    }
    let before = value_of(&environment, PRELOAD).unwrap_or_default().to_owned();
    let others = before.as_bytes().split(|byte| matches!(byte, b' ' | b':'));
    let others: Vec<&OsStr> =
        others.map(OsStr::from_bytes).filter(|it| !it.is_empty() && !is_ours(it)).collect();
    let needed = program.sanitizer.as_deref().filter(|needed| {
        !others.iter().any(|other| Path::new(other).file_name() == Path::new(needed).file_name())
    });
    let first = others.iter().copied().filter(|it| program::is_sanitizer(it));
    let rest = others.iter().copied().filter(|it| !program::is_sanitizer(it));
    let list: Vec<&OsStr> = needed.into_iter().chain(first).chain([library]).chain(rest).collect();
    set(&mut environment, PRELOAD, &list.join(OsStr::new(":")));
    unset(&mut environment, ENV_STATISTICS);
    unset(&mut environment, ENV_CHILDREN);
    if !options.no_children {
        let told = value_of(&environment, SANITIZER).unwrap_or_default().to_owned();
        if !told.to_string_lossy().contains("verify_asan_link_order") {
            let both: Vec<&OsStr> =
                [&*told, OsStr::new(ANY_ORDER)].into_iter().filter(|it| !it.is_empty()).collect();
            set(&mut environment, SANITIZER, &both.join(OsStr::new(":")));
        }
    }
    if let Some(file) = &options.statistics {
        set(&mut environment, ENV_STATISTICS, file.as_os_str());
    }
    if options.no_children {
        set(&mut environment, ENV_CHILDREN, OsStr::new("0"));
    }
    Ok(environment)
}

fn is_ours(library: &OsStr) -> bool {
    let name = Path::new(library).file_name();
    name == Some(OsStr::new(LIBRARY)) || name == Some(OsStr::new(BUILT))
}

fn unset(environment: &mut Vec<OsString>, name: &str) {
    environment.retain(|variable| {
        !variable.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    });
}

/// Changes a variable in its place, or adds it.
fn set(environment: &mut Vec<OsString>, name: &str, value: &OsStr) {
    let text = OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat());
    let prefix = format!("{name}=");
    match environment.iter_mut().find(|variable| variable.as_bytes().starts_with(prefix.as_bytes())) {
        Some(variable) => *variable = text,
        None => environment.push(text),
    }
}

/// The name under which the library comes from the build.
const BUILT: &str = "libtieline_sockets.so";

/// Where the library is: what the variable names, else beside the program `own`, else where an installation puts it.
pub fn library(named: Option<&OsStr>, own: &Path) -> Result<PathBuf, LaunchError> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let path = std::path::absolute(named).unwrap_or_else(|_| named.into());
        return if path.is_file() {
            Ok(path)
        } else {
            Err(LaunchError::NoLibrary { looked: path.display().to_string() })
        };
    }
    let folder = own.parent().unwrap_or(Path::new("."));
    let places = [folder.join(LIBRARY), folder.join("../lib64").join(LIBRARY), folder.join(BUILT)];
    let found = places.iter().find(|path| path.is_file());
    found.map(|path| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())).ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        LaunchError::NoLibrary { looked: looked.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: &str = "ASAN_OPTIONS=verify_asan_link_order=0";

    fn options() -> Options {
        Options { library: "/l/libtieline-sockets.so".into(), statistics: None, no_children: false }
    }

    fn texts(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    fn environment(before: &[&str], program: &Program, options: &Options) -> Vec<OsString> {
        with_library(texts(before), program, options).unwrap()
    }

    #[test]
    fn what_else_is_loaded_stays() {
        let plain = Program::default();
        assert_eq!(
            environment(&["A=1"], &plain, &options()),
            texts(&["A=1", "LD_PRELOAD=/l/libtieline-sockets.so", ANY])
        );
        let chain = ["LD_PRELOAD=/j/libjemalloc.so.2 b.so", "A=1"];
        let want = texts(&["LD_PRELOAD=/l/libtieline-sockets.so:/j/libjemalloc.so.2:b.so", "A=1", ANY]);
        assert_eq!(environment(&chain, &plain, &options()), want);
        // Started by a program that has it already.
        let again = ["LD_PRELOAD=/old/libtieline-sockets.so:b.so", "TIELINE_SOCKETS_CHILDREN=0"];
        assert_eq!(
            environment(&again, &plain, &options()),
            texts(&["LD_PRELOAD=/l/libtieline-sockets.so:b.so", ANY])
        );
    }

    #[test]
    fn a_sanitizer_comes_first() {
        let needs = Program { sanitizer: Some("libasan.so.8".into()), ..Program::default() };
        let want = texts(&["LD_PRELOAD=libasan.so.8:/l/libtieline-sockets.so", ANY]);
        assert_eq!(environment(&[], &needs, &options()), want);
        let has = ["LD_PRELOAD=b.so:/x/libasan.so.8", "ASAN_OPTIONS=detect_leaks=0"];
        let both = "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0";
        let want = texts(&["LD_PRELOAD=/x/libasan.so.8:/l/libtieline-sockets.so:b.so", both]);
        assert_eq!(environment(&has, &needs, &options()), want);
    }

    #[test]
    fn the_library_is_told_what_was_asked_for() {
        let asked = Options { statistics: Some("/s".into()), no_children: true, ..options() };
        let told = environment(&["TIELINE_SOCKETS_STATISTICS=/old"], &Program::default(), &asked);
        assert_eq!(value_of(&told, ENV_STATISTICS), Some(OsStr::new("/s")));
        assert_eq!(value_of(&told, ENV_CHILDREN), Some(OsStr::new("0")));
        let bad = Options { library: "/a b/l.so".into(), ..options() };
        assert!(matches!(with_library(vec![], &Program::default(), &bad), Err(LaunchError::BadPath(_))));
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let path = Some(OsStr::new("/nowhere:/bin:/usr/bin"));
        assert_eq!(find(OsStr::new("sh"), path).unwrap(), Path::new("/bin/sh"));
        assert!(matches!(find(OsStr::new("no-such-program"), path), Err(LaunchError::NotFound(_))));
        assert!(matches!(find(OsStr::new(""), path), Err(LaunchError::NotFound(_))));
        assert!(matches!(find(OsStr::new("/etc"), path), Err(LaunchError::NotExecutable(_))));
        assert!(matches!(find(OsStr::new("/etc/passwd"), path), Err(LaunchError::NotExecutable(_))));
        assert!(matches!(
            find(OsStr::new("passwd"), Some(OsStr::new("/etc"))),
            Err(LaunchError::NotExecutable(_))
        ));
        assert!(find(OsStr::new("sh"), None).is_ok());
    }

    #[test]
    fn a_program_that_cannot_be_entered_keeps_its_environment() {
        let start = prepare(&texts(&["sh", "-c", "true"]), texts(&["PATH=/bin"]), &options()).unwrap();
        assert_eq!((start.path.as_path(), start.barred.as_ref()), (Path::new("/bin/sh"), None));
        assert_eq!(start.environment.len(), 3);
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "exit 3\n").unwrap();
        std::fs::set_permissions(&text, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let start = prepare(&[text.clone().into(), "a".into()], vec![], &options()).unwrap();
        assert_eq!(start.path, Path::new("/bin/sh"));
        assert_eq!(start.arguments, [OsString::from("/bin/sh"), text.into(), "a".into()]);
    }
}
