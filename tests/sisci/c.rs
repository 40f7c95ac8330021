//! Compiling and linking C.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The top of the project.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The library under test. It is built as a dependency of this test, and lies beside it.
pub(crate) fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let beside = own.parent().unwrap().join("libsisci.so");
    assert!(beside.is_file(), "{} is not there: run `cargo build -p sisci`", beside.display());
    beside
}

/// Programs of this run; removed by the next one's `cargo clean`, as all that lies there.
pub(crate) fn made() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sisci");
        std::fs::create_dir_all(&made).unwrap();
        made
    })
    .clone()
}

/// Whether a compiler, or another program, is there. If not, the skip is said.
pub(crate) fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

/// Runs a command that must succeed.
pub(crate) fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// How all programs are compiled: as strictly as the build files of programs that use the API.
pub(crate) const STRICT: [&str; 5] = ["-D_REENTRANT", "-Wall", "-Wextra", "-Werror", "-pthread"];

/// Compiles a source to a program that uses the library, under a name of its own. Once a name: another test
/// may be running it.
pub(crate) fn compile_as(name: &str, source: &Path, more: &[&str]) -> String {
    static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let program = made().join(name);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.contains(name) {
        return program.to_str().unwrap().to_owned();
    }
    let library = library();
    let lib_dir = library.parent().unwrap();
    must(
        Command::new("cc")
            .args(["-std=gnu99", "-g", "-O1"])
            .args(STRICT)
            .arg("-I")
            .arg(top().join("include/sisci"))
            .arg("-I")
            .arg(source.parent().unwrap())
            .args(more)
            .arg("-o")
            .arg(&program)
            .arg(source)
            .arg("-L")
            .arg(lib_dir)
            // The old kind of tag comes before LD_LIBRARY_PATH, in which cargo may name a folder with an
            // older library.
            .arg(format!("-Wl,--disable-new-dtags,-rpath,{}", lib_dir.display()))
            .args(["-lsisci", "-ldl"]),
    );
    compiled.insert(name.to_owned());
    program.to_str().unwrap().to_owned()
}

/// Compiles a test program of this folder.
pub(crate) fn program(name: &str) -> String {
    compile_as(name, &top().join(format!("tests/sisci/c/{name}.c")), &[])
}
