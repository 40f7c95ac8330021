//! What users get: binaries and libraries in `release` of the target folder.

use std::path::Path;
use std::process::Command;

use super::{Outcome, must};

/// The crates whose programs and libraries are installed.
pub const PACKAGES: [&str; 7] =
    ["cli", "sisci", "ofi", "fabric-sys", "collectives", "messages-c", "fi-provider"];
/// The provider of libfabric, which loads files whose names end with `-fi.so`; and what cargo names it.
pub const PROVIDER: [&str; 2] = ["libtieline-fi.so", "libtieline_fi.so"];
/// Programs of theirs that only measurements start.
pub const MEASURES: [&str; 3] = ["tieline-ofi-measure", "tieline-fabric-measure", "tieline-messages-measure"];

/// Builds everything that is installed, and the programs that `bench acceptance` measures with.
pub fn build(target: &Path) -> Outcome {
    must(
        Command::new("cargo")
            .args(["build", "--release", "--locked"])
            .args(PACKAGES.iter().flat_map(|package| ["--package", package])),
        "the build failed; the compiler's reason stands above.",
    )?;
    let release = target.join("release");
    std::fs::create_dir_all(&release)?;
    // The program that users start is small, and becomes the commands for all but the starting of programs.
    must(
        Command::new("crates/launcher/build.sh").arg(release.join("tieline")),
        "the launcher does not build; the compiler's reason stands above.",
    )?;
    sockets_library(target)?;
    let [provider, built] = PROVIDER.map(|name| release.join(name));
    // Not into a file that a program has mapped.
    std::fs::remove_file(&provider).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    std::fs::copy(built, provider)?;
    // As users write them.
    let failed = "the C program of the benchmarks does not compile; the reason stands above.";
    must(
        Command::new("cc")
            .args(["-O2", "-std=c11", "examples/sockets/measure.c", "-o"])
            .arg(release.join("tieline-sockets-measure")),
        failed,
    )?;
    must(
        Command::new("cc")
            .args(["-O2", "-std=c11", "-Iinclude/sisci", "examples/sisci/measure.c", "-o"])
            .arg(release.join("tieline-sisci-measure"))
            .arg("-L")
            .arg(&release)
            .args(["-lsisci", "-Wl,-rpath,$ORIGIN:$ORIGIN/../../lib64"]),
        failed,
    )
}

/// With a profile of its own, and linked without the language's runtime: it has to work in any program.
pub fn sockets_library(target: &Path) -> Outcome {
    let release = target.join("release");
    std::fs::create_dir_all(&release)?;
    must(
        Command::new("crates/sockets/build.sh").arg(release.join("libtieline-sockets.so")),
        "the sockets library does not build; the reason stands above.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measuring_program_is_of_a_crate_that_is_built() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let has = |package: &str, program: &str| {
            let manifest = std::fs::read_to_string(crates.join(package).join("Cargo.toml")).unwrap();
            manifest.contains(&format!("name = \"{program}\""))
        };
        for program in MEASURES {
            assert!(PACKAGES.iter().any(|package| has(package, program)), "{program}");
        }
    }
}
