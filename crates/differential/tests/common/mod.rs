//! What the tests of this crate share: the sides, and the C library with planted faults.

#![allow(clippy::expect_used, reason = "helpers of tests end the test")]

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

/// Compiles the library, once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/planted.c");
        let library =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planted-{}.so", std::process::id()));
        let done = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status()
            .expect("a C compiler is needed: apt-get install gcc libc6-dev");
        assert!(done.success(), "{} does not compile", source.display());
        library
    })
}
