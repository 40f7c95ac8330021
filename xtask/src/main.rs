//! The command line of xtask; everything is in the library.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use xtask::doc_commands::{parse, run::Sandbox};
use xtask::finding::Severity;
use xtask::tree::Tree;
use xtask::{figures, licences, modules, picture, run_tests, surface, tidy, verbs};

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND

  tidy           check the project's rules
  modules        write docs/modules.md: the first sentence of each module's doc comment
  licences       check the licences of all dependencies against deny.toml
  doc-commands [--binary FILE] [FILE.md…]
                 run the documentation's examples against the built binary
                 (default: target/debug/tieline, and all documents)
  picture [FILE.json]
                 make docs/report.png: the report of a run of target/release/tieline, or of a saved result
  test           build and run all tests, as many test binaries at a time as there are processors
  run VERB [OPTION…]
                 what `./run VERB` does, in the current folder, once it has found Rust and installed what is missing
  figures FILE [COMMIT]
                 fill in the column of a machine, in README.md and docs/figures.md, from a report of `tieline bench acceptance --json`;
                 COMMIT is what was measured (default: the present one)
";

/// What releases are built for.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["run", verb, options @ ..] = words.as_slice() {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        return verbs::run(verb, options, &target)
            .map_or_else(|stop| stop.report().into(), |()| ExitCode::SUCCESS);
    }
    let mut out = io::stdout().lock();
    let passed = match words.as_slice() {
        ["tidy"] => check_tidy(&mut out),
        ["modules"] => list_modules(&mut out),
        ["licences"] => check_licences(&mut out),
        ["picture"] => picture::make(&mut out, root(), &release_binary(), None),
        ["picture", saved] => picture::make(&mut out, root(), &release_binary(), Some(Path::new(saved))),
        ["test"] => run_tests::run(root(), &target(), &mut out),
        ["figures", report] => fill_figures(&mut out, Path::new(report), None),
        ["figures", report, commit] => fill_figures(&mut out, Path::new(report), Some(commit)),
        ["doc-commands", "--binary", binary, documents @ ..] => {
            check_documents(&mut out, Path::new(binary), documents)
        }
        ["doc-commands", documents @ ..] if !documents.iter().any(|word| word.starts_with('-')) => {
            check_documents(&mut out, &built_binary(), documents)
        }
        _ => {
            let _ = io::stderr().write_all(USAGE.as_bytes());
            return ExitCode::from(2);
        }
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask: {error:#}");
            ExitCode::from(4)
        }
    }
}

/// The repository: the folder above this package.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn built_binary() -> PathBuf {
    target().join("debug/tieline")
}

fn release_binary() -> PathBuf {
    target().join("release/tieline")
}

/// The figures that the README shows.
const README_FIGURES: [&str; 8] = [
    "scipp.half_rtt.4B",
    "scipp.half_rtt.8KiB",
    "ring.record.8B.batch16",
    "put.16MiB.hot",
    "copy.worst",
    "intr.spinning",
    "connect_map",
    "up.64",
];

fn fill_figures(out: &mut impl Write, report: &Path, commit: Option<&str>) -> Result<bool> {
    let text = std::fs::read_to_string(report).with_context(|| format!("reading {}", report.display()))?;
    let report: serde_json::Value = serde_json::from_str(&text).context("the report is no JSON")?;
    let commit = commit.map_or_else(present_commit, |commit| Ok(commit.to_owned()))?;
    for (document, only) in [("docs/figures.md", &[][..]), ("README.md", &README_FIGURES[..])] {
        let path = root().join(document);
        let before = std::fs::read_to_string(&path)?;
        let block = figures::block(&before, "figures")?;
        let table = figures::merged(block, &report, &commit, only)?;
        std::fs::write(&path, figures::replace_block(&before, "figures", &table)?)?;
        writeln!(out, "{document}: figures filled")?;
    }
    Ok(true)
}

fn present_commit() -> Result<String> {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root()).output()?;
    let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    anyhow::ensure!(
        output.status.success() && !commit.is_empty(),
        "git names no commit: give one after the report"
    );
    Ok(commit)
}

fn check_tidy(out: &mut impl Write) -> Result<bool> {
    let findings = tidy::check(&Tree::read(root())?)?;
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    writeln!(out, "tidy: {errors} errors, {} warnings", findings.len() - errors)?;
    Ok(errors == 0)
}

fn list_modules(out: &mut impl Write) -> Result<bool> {
    let text = modules::document(&Tree::read(root())?)?;
    let path = root().join(modules::DOCUMENT);
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    writeln!(out, "{}: written", modules::DOCUMENT)?;
    Ok(true)
}

fn check_licences(out: &mut impl Write) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // For the platform that is built for: the others' dependencies are never fetched.
    let metadata = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM])
        .current_dir(root())
        .output()
        .context("cannot start cargo")?;
    if !metadata.status.success() {
        anyhow::bail!("cargo metadata failed: {}", String::from_utf8_lossy(&metadata.stderr).trim());
    }
    let deny = std::fs::read_to_string(root().join("deny.toml")).context("cannot read deny.toml")?;
    let (count, refused) =
        licences::check(&String::from_utf8_lossy(&metadata.stdout), &licences::allowed(&deny)?)?;
    for refused in &refused {
        writeln!(out, "{}: {}", refused.package, refused.why)?;
    }
    writeln!(out, "licences: {count} packages, {} refused", refused.len())?;
    Ok(refused.is_empty())
}

/// First whether everything that is named exists, then the examples themselves.
fn check_documents(out: &mut impl Write, binary: &Path, documents: &[&str]) -> Result<bool> {
    let tree = Tree::read(root())?;
    let wanted = |path: &str| documents.is_empty() || documents.contains(&path);
    if let Some(missing) = documents.iter().find(|path| tree.text(path).is_none()) {
        anyhow::bail!("there is no document `{missing}` in the repository");
    }
    let mut help = |path: &[&str]| {
        let output = Command::new(binary).args(path).arg("--help").output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    help(&[]).with_context(|| format!("{} --help does not answer: build it first", binary.display()))?;
    let (mut passed, mut failed) = (0_usize, 0_usize);
    for (number, (path, text)) in tree.files_ending(".md").filter(|(path, _)| wanted(path)).enumerate() {
        for mention in surface::mentions(text) {
            match surface::problem(&mention, &mut help) {
                None => passed += 1,
                Some(problem) => {
                    failed += 1;
                    writeln!(out, "{path}:{}: {problem}", mention.line)?;
                }
            }
        }
        let examples =
            parse::blocks(text).map_err(|bad| anyhow::anyhow!("{path}:{}: {}", bad.line, bad.what))?;
        if examples.is_empty() {
            continue;
        }
        for outcome in Sandbox::create(binary, &number.to_string())?.run(&examples) {
            match outcome.failure {
                None => passed += 1,
                Some(failure) => {
                    failed += 1;
                    writeln!(out, "{path}:{}: $ {}\n{failure}\n", outcome.line, outcome.command)?;
                }
            }
        }
    }
    writeln!(out, "documented commands: {passed} passed, {failed} failed")?;
    Ok(failed == 0)
}
