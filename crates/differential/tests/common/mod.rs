//! What the tests of this crate share: the sides, and the C library with planted faults.

#![allow(dead_code, reason = "not every test uses each")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "helpers of tests end the test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use differential::control::Side;

/// Without a library.
pub(crate) fn plain() -> Side {
    Side { executor: env!("CARGO_BIN_EXE_differential").into(), ..Side::default() }
}

/// Under the C library, with this fault, or with none.
pub(crate) fn planted(fault: &str) -> Side {
    let environment = vec![("DIFFERENTIAL_PLANT".to_owned(), fault.to_owned())];
    Side { preload: Some(library().to_owned()), environment, ..plain() }
}

/// Folder of the project's own library, in a state of the project that has one.
pub(crate) fn sockets() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sockets");
    if folder.join("Cargo.toml").exists() {
        return Some(folder);
    }
    println!("NOT RUN under libtieline-sockets.so: this state of the project has no crate `sockets`");
    None
}

/// The project's own library: as it is installed, or with faults that can be chosen.
pub(crate) fn own_library(planted: bool) -> Option<Side> {
    // Built once: a library that is linked anew while somebody loads it is none.
    static PLAIN: OnceLock<Option<PathBuf>> = OnceLock::new();
    static PLANTED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = if planted { &PLANTED } else { &PLAIN };
    let library = built.get_or_init(|| sockets().map(|folder| build(&folder, planted))).clone()?;
    Some(Side { preload: Some(library), ..plain() })
}

/// Builds it as `./run build` does, into a folder of the tests' own. What is compiled for that lies where
/// tests of other packages have it, too.
fn build(sockets: &Path, planted: bool) -> PathBuf {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = own.join(if planted { "differential-planted" } else { "differential" });
    std::fs::create_dir_all(&folder).expect("no folder for what is built");
    let linked = folder.join("libtieline-sockets.so");
    let mut build = Command::new(sockets.join("build.sh"));
    build.arg(&linked).args(["--quiet", "--target-dir"]).arg(own.join("as-installed"));
    if planted {
        build.args(["--features", "planted"]);
    }
    must(&mut build);
    linked
}

fn must(command: &mut Command) {
    let status = command.status().expect("a tool of the build is missing");
    assert!(status.success(), "{command:?}: {status}");
}

/// Compiles the library, once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/planted.c");
        let library =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planted-{}.so", std::process::id()));
        must(
            Command::new("cc")
                .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
                .args([&library, &source])
                .arg("-ldl"),
        );
        library
    })
}
