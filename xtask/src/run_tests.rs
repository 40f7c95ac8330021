//! Runs all tests of the workspace, several test binaries at a time.
//!
//! `cargo test` runs one test binary after the other, and most of ours wait for a part of their time (for
//! processes, timers, a browser). `cargo nextest` would run them side by side, but has to be installed first,
//! and starts a process for each test.

mod doc_tests;
mod idle;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::tree::Tree;

/// Test binaries that take long, longest first: they start first. The others follow in the order of their
/// names.
const LONG: [&str; 10] =
    ["cli", "hosts", "sockets", "sight", "search", "browser", "programs", "judgement", "sisci", "lifetimes"];
/// Packages that use the most of what others depend on. Cargo chooses features for those packages that it is
/// given: without these two it would build 26 libraries again for the tests in documentation, otherwise than
/// they are there.
const AS_BUILT: [&str; 2] = ["cli", "tieline-tests"];
/// Between two looks whether a test binary has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One executable with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Its target's name.
    pub name: String,
    /// Its package's folder, in which it runs, as under `cargo test`.
    pub folder: PathBuf,
    /// The file to run.
    pub executable: PathBuf,
}

/// The test binaries that one line of cargo's messages names: none or one.
#[must_use]
pub fn binary(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let executable = message["executable"].as_str().filter(|_| is_test)?;
    Some(Binary {
        name: message["target"]["name"].as_str()?.to_owned(),
        folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        executable: executable.into(),
    })
}

/// Longest first.
pub fn sort(binaries: &mut [Binary]) {
    let rank = |binary: &Binary| LONG.iter().position(|long| *long == binary.name).unwrap_or(LONG.len());
    binaries.sort_by(|a, b| (rank(a), &a.name, &a.executable).cmp(&(rank(b), &b.name, &b.executable)));
}

/// Builds and runs all tests of the workspace, those in documentation last. Each binary's output follows when
/// it has ended. Whether all have passed.
///
/// # Errors
/// The tests do not build, or one cannot be started.
pub fn run(root: &Path, target: &Path, out: &mut impl Write) -> Result<bool> {
    let target = &std::path::absolute(target).context("cannot tell where the target folder is")?;
    let mut binaries = build(root)?;
    ensure!(!binaries.is_empty(), "cargo names no test binary: run cargo test to see why");
    sort(&mut binaries);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut idle = idle::Idle::new(processors);
    let mut failed = Vec::new();
    let mut waiting = binaries.into_iter();
    let mut running: Vec<Running> = Vec::new();
    loop {
        while (running.len() < processors || running.len() < 2 * processors && idle.is_enough())
            && let Some(binary) = waiting.next()
        {
            running.push(Running::start(binary, target)?);
        }
        if running.is_empty() {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
        let mut still = Vec::new();
        for mut one in running {
            match one.child.try_wait().context("cannot wait for a test binary")? {
                None => still.push(one),
                Some(status) => {
                    one.print(root, status, out)?;
                    if !status.success() {
                        failed.push(one.binary.name);
                    }
                }
            }
        }
        running = still;
    }
    if !test_documentation(root)? {
        failed.push("tests in documentation".to_owned());
    }
    if !failed.is_empty() {
        writeln!(out, "\ntest binaries that failed: {}", failed.join(", "))?;
    }
    Ok(failed.is_empty())
}

fn cargo(root: &Path, command: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells xtask about its package, when it starts it. A build script that asks for the same of
    // its own package would run again, and all that depends on it would be built again.
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            cargo.env_remove(name);
        }
    }
    cargo.current_dir(root).arg(command).arg("--locked");
    cargo
}

fn build(root: &Path) -> Result<Vec<Binary>> {
    // Tests run the programs of other packages, which building the tests alone would leave as they are.
    let programs = cargo(root, "build")
        .args(["--workspace", "--lib", "--bins", "--examples"])
        .status()
        .context("cannot run cargo")?;
    ensure!(programs.success(), "the programs do not build ({programs}); the compiler's reason stands above");
    let mut build = cargo(root, "test")
        .args(["--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let messages = build.stdout.take().context("cargo has no output")?;
    let mut binaries = Vec::new();
    for line in BufReader::new(messages).lines() {
        binaries.extend(binary(&line.context("cannot read cargo's messages")?));
    }
    let status = build.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "the tests do not build ({status}); the compiler's reason stands above");
    Ok(binaries)
}

fn test_documentation(root: &Path) -> Result<bool> {
    let mut packages = doc_tests::packages(&Tree::read(root)?)?;
    if packages.is_empty() {
        return Ok(true);
    }
    packages.extend(AS_BUILT.map(str::to_owned));
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    let mut test = cargo(root, "test");
    Ok(test.args(["--doc", "--no-fail-fast"]).args(packages).status().context("cannot run cargo")?.success())
}

/// A test binary at work.
struct Running {
    binary: Binary,
    child: Child,
    output: File,
    started: Instant,
}

impl Running {
    fn start(binary: Binary, target: &Path) -> Result<Self> {
        let place = target.join(format!("tests-{}.log", std::process::id()));
        let output = File::options().create(true).truncate(true).read(true).write(true).open(&place);
        let output = output.with_context(|| format!("cannot write to {}", place.display()))?;
        // Its name goes at once, so that nothing is left behind, however this ends.
        std::fs::remove_file(&place).with_context(|| format!("cannot remove {}", place.display()))?;
        let copy = || output.try_clone().context("cannot copy a descriptor");
        let child = Command::new(&binary.executable)
            .current_dir(&binary.folder)
            .envs(environment(&binary, target))
            .stdin(Stdio::null())
            .stdout(copy()?)
            .stderr(copy()?)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.executable.display()))?;
        Ok(Self { binary, child, output, started: Instant::now() })
    }

    fn print(&mut self, root: &Path, status: ExitStatus, out: &mut impl Write) -> Result<()> {
        let Binary { name, folder, .. } = &self.binary;
        let folder = folder.strip_prefix(root).unwrap_or(folder).display();
        writeln!(
            out,
            "\n     Ran {name} of {folder} in {:.1} s: {status}",
            self.started.elapsed().as_secs_f64()
        )?;
        io::Seek::rewind(&mut self.output).context("cannot read a test's output")?;
        io::copy(&mut self.output, out).context("cannot copy a test's output")?;
        out.flush().context("cannot write")
    }
}

/// What cargo sets for a test that it runs, as far as tests use it: where shared libraries of the build are.
fn environment(binary: &Binary, target: &Path) -> BTreeMap<&'static str, std::ffi::OsString> {
    let mut folders = vec![target.join("debug"), target.join("debug/deps")];
    folders.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    let mut environment = BTreeMap::from([("CARGO_MANIFEST_DIR", binary.folder.clone().into_os_string())]);
    if let Ok(folders) = std::env::join_paths(folders) {
        environment.insert("LD_LIBRARY_PATH", folders);
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","manifest_path":"/p/crates/a/Cargo.toml","target":{"name":"NAME"},"profile":{"test":TEST},"executable":EXE}"#;

    fn named(name: &str, test: &str, executable: &str) -> Option<Binary> {
        binary(&MESSAGE.replace("NAME", name).replace("TEST", test).replace("EXE", executable))
    }

    #[test]
    fn only_executables_with_tests_are_run() {
        let found = named("cli", "true", "\"/t/cli-1\"").unwrap();
        assert_eq!((found.name.as_str(), found.folder.as_path()), ("cli", Path::new("/p/crates/a")));
        assert_eq!(named("cli", "false", "\"/t/cli\""), None);
        assert_eq!(named("cli", "true", "null"), None);
        assert_eq!(binary("{\"reason\":\"build-finished\",\"success\":true}"), None);
        assert_eq!(binary("   Compiling a v0.1.0"), None);
    }

    #[test]
    fn the_longest_are_first() {
        let mut all: Vec<Binary> =
            ["b", "sockets", "a", "cli"].iter().filter_map(|name| named(name, "true", "\"/t/x\"")).collect();
        sort(&mut all);
        assert_eq!(all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["cli", "sockets", "a", "b"]);
    }

    #[test]
    fn the_output_and_the_status_of_a_binary_are_printed() {
        let folder = std::env::temp_dir();
        let one = Binary { name: "true".into(), folder: folder.clone(), executable: "/bin/echo".into() };
        let mut running = Running::start(one, &folder).unwrap();
        let status = running.child.wait().unwrap();
        let mut out = Vec::new();
        running.print(&folder, status, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("Ran true of  in") && text.ends_with("exit status: 0\n\n"), "{text}");
    }
}
