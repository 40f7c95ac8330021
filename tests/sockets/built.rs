//! The library and the C programs of these tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use tieline_tests::cluster::commands_binary;

/// The top of the project.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What this run makes.
pub(crate) fn made() -> PathBuf {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sockets");
    std::fs::create_dir_all(&made).unwrap();
    made
}

/// Runs a command that must succeed.
pub(crate) fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Where cargo builds for tests what `./run build` makes. Tests of other packages have the same, so that each
/// part is compiled once.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("as-installed")
}

/// Builds the library as `./run build` does, in a folder of the tests' own.
fn build(name: &str, features: &[&str]) -> PathBuf {
    let folder = made().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libtieline-sockets.so");
    must(
        Command::new(top().join("crates/sockets/build.sh"))
            .arg(&library)
            .arg("--quiet")
            .args(features)
            .env("CARGO_TARGET_DIR", target()),
    );
    library
}

/// The library as it is installed.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("plain", &[]))
}

/// The library with mistakes to choose from.
pub(crate) fn planted() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("planted", &["--features", "planted"]))
}

/// `tieline` as `./run build` makes it, with the commands beside it.
pub(crate) fn tieline_as_built() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = made().join("launcher");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("tieline");
        must(
            Command::new(top().join("crates/launcher/build.sh"))
                .arg(&program)
                .arg("--quiet")
                .env("CARGO_TARGET_DIR", target()),
        );
        put(&commands_binary().unwrap(), &folder.join("tieline-commands"));
        program
    })
}

/// Has the same file in another place.
pub(crate) fn put(file: &Path, place: &Path) {
    let _ = std::fs::remove_file(place);
    if std::fs::hard_link(file, place).is_err() {
        tieline_tests::executable::copy(file, place).unwrap();
    }
}

/// Compiles a program (or with `-shared` a library) of the folder `c`, once a name: another test may be
/// running it.
pub(crate) fn program(name: &str, source: &str, more: &[&str]) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let program = made().join(name);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.insert(name.to_owned()) {
        must(
            Command::new("cc")
                // They make wrong calls on purpose, of which compilers warn.
                .args(["-std=gnu11", "-g", "-O1", "-w", "-pthread", "-o"])
                .arg(&program)
                .arg(top().join("tests/sockets/c").join(source))
                .args(more)
                .arg("-lutil"),
        );
    }
    program
}
