//! `./run test` and `./run lint`: the steps that must pass before a change lands.

use std::path::Path;
use std::process::{Command, Stdio};

use super::steps::Steps;
use super::{Outcome, found, say};

/// Runs steps, all of them, and ends with the one line that machines read.
pub fn report(target: &Path, steps: fn(&mut Steps<'_>, &Path) -> Outcome) -> Outcome {
    let mut all = Steps::new(target);
    steps(&mut all, target)?;
    all.close()
}

/// A command of cargo.
fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(words);
    command
}

/// A command of xtask, as a reader would repeat it.
fn xtask(command: &str) -> Command {
    cargo(&["run", "--locked", "--quiet", "--package", "xtask", "--", command])
}

/// rustfmt and clippy are missing in rustup's smallest profile.
pub fn need_component(command: &str) {
    if is_there(command) {
        return;
    }
    let component = if command == "fmt" { "rustfmt" } else { command };
    say(&format!("installing the Rust component {component}"));
    let added =
        Command::new("rustup").args(["component", "add", component]).stdout(std::io::stderr()).status();
    if !added.is_ok_and(|status| status.success()) {
        say(&format!("the Rust component {component} cannot be installed"));
    }
}

/// Whether cargo has this command.
fn is_there(command: &str) -> bool {
    quietly(&mut cargo(&[command, "--version"]))
}

fn quietly(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Format, lints, and the project's rules.
pub fn lint(steps: &mut Steps<'_>, _target: &Path) -> Outcome {
    need_component("fmt");
    need_component("clippy");
    steps.check("fmt", &mut cargo(&["fmt", "--all", "--check"]))?;
    let deny = ["--", "-D", "warnings"];
    steps.check("clippy", cargo(&["clippy", "--locked", "--workspace", "--all-targets"]).args(deny))?;
    // What is installed of it is another program than cargo builds by itself.
    let launcher =
        ["clippy", "--locked", "--package", "launcher", "--no-default-features", "--profile", "launcher"];
    steps.check("clippy-launcher", cargo(&launcher).args(deny))?;
    steps.check("tidy", &mut xtask("tidy"))?;
    let scripts = ["run", ".ci/run"];
    steps.check("scripts", Command::new("bash").arg("-n").args(scripts))?;
    match found("shellcheck") {
        Some(_) => steps.check("shellcheck", Command::new("shellcheck").args(scripts)),
        None => steps.skip("shellcheck", "not installed; apt-get install shellcheck"),
    }
}

/// Everything.
pub fn all(steps: &mut Steps<'_>, target: &Path) -> Outcome {
    // The other steps wait for a part of their time; the model checker, which asks for no time, computes
    // meanwhile.
    let loom = steps.begin(&mut loom(target))?;
    lint(steps, target)?;
    steps.check("licences", &mut xtask("licences"))?;
    if is_there("deny") {
        // Advisories need the network, so they are for releases: cargo deny check advisories.
        let deny = ["deny", "--locked", "--offline", "check", "bans", "licenses", "sources"];
        steps.check("deny", &mut cargo(&deny))?;
    } else {
        let why = "cargo-deny is not installed; licences were checked by xtask. Get it with: cargo install cargo-deny";
        steps.skip("deny", why)?;
    }
    let rustdoc = ["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];
    let flags = "-D warnings -A rustdoc::private-intra-doc-links";
    steps.check("rustdoc", cargo(&rustdoc).env("RUSTDOCFLAGS", flags))?;
    let build = ["build", "--locked", "--workspace", "--lib", "--bins", "--examples"];
    steps.check("build", &mut cargo(&build))?;
    fuzz(steps, target)?;
    // Its commands run one after the other, each in a folder of its own, and mostly wait: beside the tests
    // they cost little time.
    let documents = steps.begin(&mut xtask("doc-commands"))?;
    steps.tests("tests", &mut xtask("test"))?;
    steps.end("documents", documents)?;
    steps.end("loom", loom)
}

/// A workspace of its own, which no other step builds.
fn fuzz(steps: &mut Steps<'_>, target: &Path) -> Outcome {
    let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    if !quietly(cargo(&["fetch", "--locked"]).args(manifest)) {
        return steps
            .skip("fuzz", "its libraries cannot be had here. The corpora run with the tests of proto");
    }
    // Where the workspace is built, so that what both depend on is checked once. The fuzzer's own library is
    // C++ of twenty seconds, which nothing is linked with here: a path where it might be keeps it from being
    // built.
    let mut check = cargo(&["check", "--locked"]);
    check.args(manifest).env("CARGO_TARGET_DIR", std::path::absolute(target)?);
    steps.check("fuzz", check.env("CUSTOM_LIBFUZZER_PATH", std::path::absolute("fuzz/Cargo.toml")?))
}

/// What computes in the search of the model checker. What else it is linked with is only built.
const OPTIMISED_FOR_LOOM: [&str; 7] =
    ["loom", "generator", "scoped-tls", "tracing", "tracing-core", "shm", "stream"];

/// The model checker. A build of its own: the flag replaces every atomic by the checker's. Optimised: the
/// search is long, the crate small.
fn loom(target: &Path) -> Command {
    let mut command = Command::new("nice");
    command
        .args(["-n", "19", "cargo", "test", "--locked"])
        .args(["--config", "profile.dev.package.\"*\".opt-level=0"]);
    for package in OPTIMISED_FOR_LOOM {
        command.args(["--config", &format!("profile.dev.package.{package}.opt-level=3")]);
    }
    command
        .args(["--package", "shm", "--lib", "loom"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target.join("loom"));
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        command.env("LOOM_MAX_PREEMPTIONS", "3");
    }
    command
}
