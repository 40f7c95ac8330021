//! `./run compare`: builds an earlier commit beside the present tree, and measures both.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Outcome, Stop, become_program, cannot, is_executable, misused, release, say, status_of};

const USAGE: &str = "\
usage: ./run compare REV [OPTION…]

Builds the commit REV beside the present tree (with its local changes), and measures the acceptance figures of both in turn.
Of each figure it prints the values of before and now, their ratio with its 95 % interval (above 1 is better), rounds, and a
verdict. A figure is worse if its interval lies wholly below 0.97, twice.

  --only ID…     only these figures, as `tieline bench acceptance --only` takes them; all of them take hours
  --rounds N     runs of each build for one figure at most (default 12)
  --cpus A,B     processors to measure on
  --missing-ok   figures that REV has and the present tree has not are no failure
  --json         the result as JSON, its form is in docs/schema.md

Examples:
  ./run compare HEAD                          the last commit against the changes since then
  ./run compare main --only put ring.record   figures by the beginnings of their names
  ./run compare HEAD~5 --json >compared.json

The build of REV stays in target/compare for the next call, and goes when no call has used it for two weeks.
Exit status: 0 no figure is worse, 1 a figure is worse or missing, 2 wrong usage, 3 a figure is inconclusive, 4 could not run.
";

/// How long a build is kept that no call uses.
const KEPT: Duration = Duration::from_secs(15 * 24 * 3600);
/// Between two looks whether the build has ended, or this program shall end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Builds both, and becomes `tieline bench compare-builds`.
pub fn run(options: &[&str], target: &Path) -> Outcome {
    let (rev, options) = match options {
        [] => ("", options),
        [rev, options @ ..] => (*rev, options),
    };
    if [&[rev], options].concat().iter().any(|word| matches!(*word, "-h" | "--help")) {
        print_usage();
        return Ok(());
    }
    if rev.is_empty() || rev.starts_with('-') {
        return misused(
            "compare: name the commit to compare with first, as in ./run compare HEAD --only put; \
             see ./run compare --help",
        );
    }
    let commit = commit(rev)?;
    release::build(target)?;
    let tieline = target.join("release/tieline");
    // What is wrong with the rest of the command line is said before minutes are spent on another build.
    let status = status_of(
        Command::new(&tieline)
            .args(["bench", "compare-builds"])
            .args([&tieline, &tieline])
            .args(options)
            .arg("--list")
            .stdout(Stdio::null()),
    )?;
    if !status.success() {
        return Err(Stop::of(status));
    }
    let earlier = build_earlier(&commit, target)?;
    let mut now = git(&["rev-parse", "--short", "HEAD"])?;
    if !git(&["status", "--porcelain"]).unwrap_or_default().is_empty() {
        now.push_str(" with local changes");
    }
    Err(become_program(
        Command::new(&tieline)
            .args(["bench", "compare-builds"])
            .args([&earlier.join("target/release/tieline"), &tieline])
            .args(["--old-name", &git(&["rev-parse", "--short", &commit])?, "--new-name", &now])
            .args(options),
    ))
}

fn print_usage() {
    use io::Write;
    let _ = io::stdout().write_all(USAGE.as_bytes());
}

/// The commit's full name.
fn commit(rev: &str) -> Outcome<String> {
    let asked = Command::new("git").args(["rev-parse", "--git-dir"]).output();
    let Ok(asked) = asked else {
        return cannot("compare: git is not installed, and REV is a commit. Install the package git.");
    };
    if !asked.status.success() {
        let reason = String::from_utf8_lossy(&asked.stderr);
        let (top, reason) = (std::env::current_dir()?, reason.lines().next().unwrap_or_default());
        return cannot(format!(
            "compare: {} has no earlier commits for git: {reason}. Compare in a clone of the project.",
            top.display()
        ));
    }
    let name = format!("{rev}^{{commit}}");
    git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).map_err(|_| {
        Stop::Misused(format!(
            "compare: this repository has no commit '{rev}'. git log --oneline names some; \
             into a shallow clone git fetch --unshallow brings the rest."
        ))
    })
}

/// What git prints, without the end of the line.
fn git(words: &[&str]) -> Outcome<String> {
    let output = Command::new("git").args(words).stderr(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => cannot(format!("git {} failed", words.join(" "))),
    }
}

/// The folder in which this commit lies built, by its own recipe, with its companions. A folder with that
/// name is whole: it is made under another name, which goes away whatever ends this program but SIGKILL.
fn build_earlier(commit: &str, target: &Path) -> Outcome<PathBuf> {
    let folder = std::path::absolute(target)?.join("compare");
    let earlier = folder.join(commit);
    fs::create_dir_all(&folder)
        .map_err(|error| Stop::Cannot(format!("compare: cannot write to {}: {error}.", folder.display())))?;
    remove_unused(&folder, &earlier)?;
    if is_executable(&earlier.join("target/release/tieline")) {
        File::open(&earlier)?.set_modified(SystemTime::now())?;
        say(&format!("the build of {commit} is in {}", earlier.display()));
        return Ok(earlier);
    }
    if earlier.exists() {
        fs::remove_dir_all(&earlier)?;
    }
    let making = Making::create(folder.join(format!("making.{}", std::process::id())))?;
    making.unpack(commit)?;
    making.build(commit)?;
    // Another call may have been faster.
    if fs::rename(&making.0, &earlier).is_err() && !is_executable(&earlier.join("target/release/tieline")) {
        return cannot(format!(
            "compare: {} cannot be renamed to {}.",
            making.0.display(),
            earlier.display()
        ));
    }
    say(&format!(
        "the build of {commit} stays in {}; a later call removes it when none has used it for two weeks",
        earlier.display()
    ));
    Ok(earlier)
}

/// Removes the builds that no call has used for long, and what a SIGKILL left, but not `earlier`.
fn remove_unused(folder: &Path, earlier: &Path) -> Outcome {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let unused = path.metadata()?.modified()?.elapsed().is_ok_and(|age| age >= KEPT);
        if unused && path != earlier {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

/// A folder in which a commit is built; removed at the end, unless it has been renamed.
struct Making(PathBuf);

impl Drop for Making {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Making {
    fn create(path: PathBuf) -> Outcome<Self> {
        // Of an earlier process with this number, which was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Writes the commit's files.
    fn unpack(&self, commit: &str) -> Outcome {
        let mut archive =
            Command::new("git").args(["archive", "--format=tar", commit]).stdout(Stdio::piped()).spawn()?;
        let bytes = archive.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let unpacked = Command::new("tar").args(["-x", "-C"]).arg(&self.0).stdin(bytes).status()?;
        if !archive.wait()?.success() || !unpacked.success() {
            let folder = self.0.parent().unwrap_or(&self.0).display();
            return cannot(format!("compare: the files of {commit} cannot be written to {folder}."));
        }
        Ok(())
    }

    fn build(&self, commit: &str) -> Outcome {
        if !is_executable(&self.0.join("run")) {
            return cannot(format!(
                "compare: {commit} has no ./run that could build it: name a later commit."
            ));
        }
        say(&format!("building {commit} in {}", self.0.display()));
        let mut command = Command::new(self.0.join("run"));
        command.arg("build").current_dir(&self.0).stdin(Stdio::null()).stdout(io::stderr());
        // A folder that is named for all builds would be overwritten.
        for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"] {
            command.env_remove(name);
        }
        if !self.ended(&mut command)? {
            return cannot(format!(
                "compare: {commit} does not build; the reason stands above. Name another commit."
            ));
        }
        if !is_executable(&self.0.join("target/release/tieline")) {
            return cannot(format!(
                "compare: {commit} was built without target/release/tieline: name a later commit."
            ));
        }
        Ok(())
    }

    /// Whether a command succeeded. A signal that ends this program ends the command, and then removes the
    /// folder first.
    fn ended(&self, command: &mut Command) -> Outcome<bool> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let mut child = command.spawn()?;
        loop {
            if let Some(signal) = signals.pending().next() {
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
                child.wait()?;
                fs::remove_dir_all(&self.0)?;
                signal_hook::low_level::emulate_default_handler(signal)?;
            }
            if let Some(status) = child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
