//! The verbs of `./run`: what it does once it has found Rust and installed what is missing.
//!
//! The current folder is the clone, as `./run` leaves it. What a user reads goes to standard error; standard
//! output belongs to the program that a verb starts, and to the results of tests.

pub mod checks;
pub mod compare;
pub mod install;
pub mod package;
pub mod programs;
pub mod release;
pub mod soak;
pub mod steps;

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Why a verb ends before its end.
#[derive(Debug)]
pub enum Stop {
    /// A wrong command line.
    Misused(String),
    /// Something that this machine lacks.
    Cannot(String),
    /// A program, or the verb itself, has printed the reason; this is the exit status.
    Status(u8),
}

/// A verb's result.
pub type Outcome<T = ()> = Result<T, Stop>;

impl Stop {
    /// Prints the reason, and returns the exit status.
    #[must_use]
    pub fn report(&self) -> u8 {
        let (reason, status) = match self {
            Self::Misused(reason) => (reason, 2),
            Self::Cannot(reason) => (reason, 4),
            Self::Status(status) => return *status,
        };
        say(&format!("./run: {reason}"));
        status
    }

    fn of(status: ExitStatus) -> Self {
        Self::Status(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Cannot(error.to_string())
    }
}

fn misused<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Stop::Misused(reason.into()))
}

fn cannot<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Stop::Cannot(reason.into()))
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Runs a verb with its options. `target` is where cargo builds.
///
/// # Errors
/// Why it ended early, or failed.
pub fn run(verb: &str, options: &[&str], target: &Path) -> Outcome {
    match (verb, options) {
        ("build", []) => build(target),
        ("build", _) => misused("build takes no arguments"),
        ("verify", _) => {
            release::build(target)?;
            Err(become_program(Command::new(target.join("release/tieline")).arg("verify").args(options)))
        }
        ("fmt", []) => {
            checks::need_component("fmt");
            pass_on(Command::new("cargo").args(["fmt", "--all"]))
        }
        ("fmt", _) => misused("fmt takes no arguments; it rewrites the files. To check only: ./run lint"),
        ("lint", []) => checks::report(target, checks::lint),
        ("lint", _) => misused("lint takes no arguments"),
        ("test", []) => checks::report(target, checks::all),
        ("test", _) => misused("test takes no arguments; for one test: cargo test -p CRATE NAME"),
        ("compare", _) => compare::run(options, target),
        ("soak", _) => soak::run(options, target),
        ("test-programs", _) => programs::run(options, target),
        ("package", _) => package::run(options, target),
        ("install", _) => install::install(options, target),
        ("uninstall", _) => install::uninstall(options),
        _ => misused(format!("unknown verb '{verb}'")),
    }
}

fn build(target: &Path) -> Outcome {
    release::build(target)?;
    let release = target.join("release");
    say(&format!(
        "built {0}/tieline, {0}/libsisci.so, {0}/libtieline_mq.so, {0}/libtieline-fi.so and {0}/libtieline-sockets.so",
        release.display()
    ));
    Ok(())
}

/// Runs a program to its end; its output is the verb's.
fn pass_on(command: &mut Command) -> Outcome {
    match status_of(command)? {
        status if status.success() => Ok(()),
        status => Err(Stop::of(status)),
    }
}

/// Runs a program whose output goes to standard error, so that standard output is that of the verb's last
/// program alone.
fn must(command: &mut Command, otherwise: &str) -> Outcome {
    if status_of(command.stdout(io::stderr()))?.success() { Ok(()) } else { cannot(otherwise) }
}

fn status_of(command: &mut Command) -> Outcome<ExitStatus> {
    command.status().map_err(|error| cannot_start(command, &error))
}

fn cannot_start(command: &Command, error: &io::Error) -> Stop {
    Stop::Cannot(format!("{} cannot be started: {error}", command.get_program().display()))
}

/// Replaces this process by the program. Returns only if that is impossible.
fn become_program(command: &mut Command) -> Stop {
    let error = command.exec();
    cannot_start(command, &error)
}

/// Where the search path has a program of this name.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
