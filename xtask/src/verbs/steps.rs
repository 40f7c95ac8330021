//! Runs commands one after the other, all of them, and counts what passed and failed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{Outcome, Stop, cannot};

/// Between two looks whether a command has printed more, or ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a command's exit status and output are counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One, passed or failed.
    Check,
    /// As many tests as its runners report, and none is a failure.
    Tests,
}

/// What passed, failed and was left out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Not done on this machine.
    pub skipped: u64,
}

/// A command that works beside the steps; [`Steps::end`] waits for it.
#[derive(Debug)]
pub struct Side {
    child: Child,
    output: File,
    words: String,
}

/// The steps so far.
#[derive(Debug)]
pub struct Steps<'a> {
    target: &'a Path,
    started: Instant,
    count: Count,
    failures: Vec<String>,
    /// How many tests of a test binary run at a time.
    threads: String,
}

impl<'a> Steps<'a> {
    /// None yet. Output is kept in the target folder while a command runs.
    #[must_use]
    pub fn new(target: &'a Path) -> Self {
        // Tests start processes that spin against each other, and wait a third of their time: one more than
        // processors, and few at most.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads =
            std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| (processors + 1).min(4).to_string());
        Self { target, started: Instant::now(), count: Count::default(), failures: Vec::new(), threads }
    }

    /// Runs a command that counts as one.
    ///
    /// # Errors
    /// Its output cannot be kept.
    pub fn check(&mut self, name: &str, command: &mut Command) -> Outcome {
        self.step(Kind::Check, name, command)
    }

    /// Runs a command that counts as many as its runners report.
    ///
    /// # Errors
    /// Its output cannot be kept.
    pub fn tests(&mut self, name: &str, command: &mut Command) -> Outcome {
        self.step(Kind::Tests, name, command)
    }

    fn step(&mut self, kind: Kind, name: &str, command: &mut Command) -> Outcome {
        let started = Instant::now();
        heading(name, &words(command))?;
        let side = self.begin(command)?;
        let (status, output) = follow(side)?;
        self.judge(kind, name, status, &output, started)
    }

    /// Starts a command that works beside the following steps.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin(&self, command: &mut Command) -> Outcome<Side> {
        std::fs::create_dir_all(self.target)?;
        // A pipe would be open as long as any daemon that a failing test has left.
        let place = self.target.join(format!("step-{}.log", std::process::id()));
        let written = File::create(&place)?;
        let output = File::open(&place)?;
        // Its name goes at once, so that nothing is left behind, however this ends.
        std::fs::remove_file(&place)?;
        command.env("RUST_TEST_THREADS", &self.threads);
        let words = words(command);
        let child = command.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written).spawn();
        match child {
            Ok(child) => Ok(Side { child, output, words }),
            Err(error) => cannot(format!("{words}: {error}")),
        }
    }

    /// Waits for a command that was begun, and counts its tests.
    ///
    /// # Errors
    /// Its output cannot be copied.
    pub fn end(&mut self, name: &str, side: Side) -> Outcome {
        let started = Instant::now();
        heading(name, &side.words)?;
        let (status, output) = follow(side)?;
        self.judge(Kind::Tests, name, status, &output, started)
    }

    /// A step that this machine cannot do.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn skip(&mut self, name: &str, why: &str) -> Outcome {
        self.count.skipped += 1;
        Ok(writeln!(io::stdout(), "\n== {name}: SKIPPED: {why}")?)
    }

    fn judge(
        &mut self,
        kind: Kind,
        name: &str,
        status: ExitStatus,
        output: &str,
        started: Instant,
    ) -> Outcome {
        let count = counted(kind, status.success(), output);
        self.count.passed += count.passed;
        self.count.failed += count.failed;
        self.count.skipped += count.skipped;
        let mut verdict = "passed".to_owned();
        if count.failed > 0 {
            verdict = format!("FAILED ({status})");
            self.failures.push(name.to_owned());
        }
        Ok(writeln!(io::stdout(), "== {name}: {verdict}, {} s", started.elapsed().as_secs())?)
    }

    /// Prints what failed, and the one line that machines read.
    ///
    /// # Errors
    /// Something failed.
    pub fn close(self) -> Outcome {
        let mut out = io::stdout();
        writeln!(out, "\n== all: {} s", self.started.elapsed().as_secs())?;
        for name in &self.failures {
            writeln!(out, "failed: {name}")?;
        }
        let Count { passed, failed, skipped } = self.count;
        match skipped {
            0 => writeln!(out, "{passed} passed, {failed} failed")?,
            _ => writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")?,
        }
        if failed == 0 { Ok(()) } else { Err(Stop::Status(1)) }
    }
}

fn heading(name: &str, words: &str) -> Outcome {
    Ok(writeln!(io::stdout(), "\n== {name}: {words}")?)
}

fn words(command: &Command) -> String {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Copies a command's output until it has ended: not as long as others hold the output open.
fn follow(mut side: Side) -> Outcome<(ExitStatus, String)> {
    let mut bytes = Vec::new();
    loop {
        let status = side.child.try_wait()?;
        let before = bytes.len();
        side.output.read_to_end(&mut bytes)?;
        io::stdout().write_all(bytes.get(before..).unwrap_or_default())?;
        io::stdout().flush()?;
        if let Some(status) = status {
            return Ok((status, String::from_utf8_lossy(&bytes).into_owned()));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn counted(kind: Kind, success: bool, output: &str) -> Count {
    if kind == Kind::Check {
        return Count { passed: u64::from(success), failed: u64::from(!success), skipped: 0 };
    }
    let mut sum = Count::default();
    for count in output.lines().filter_map(reported) {
        sum.passed += count.passed;
        sum.failed += count.failed;
        sum.skipped += count.skipped;
    }
    // A build that fails, a test binary that crashes and a filter that meets nothing report no failed test.
    if sum.failed == 0 && (!success || sum.passed == 0) {
        sum.failed = 1;
    }
    sum
}

/// What a line reports with which a test runner ends.
fn reported(line: &str) -> Option<Count> {
    if let Some(rest) = line.strip_prefix("documented commands: ") {
        let (passed, failed) = rest.split_once(", ")?;
        return Some(Count {
            passed: passed.strip_suffix(" passed")?.parse().ok()?,
            failed: failed.strip_suffix(" failed")?.parse().ok()?,
            skipped: 0,
        });
    }
    let rest = line.strip_prefix("test result: ")?;
    let rest = rest.strip_prefix("ok. ").or_else(|| rest.strip_prefix("FAILED. "))?;
    let mut parts = rest.split("; ");
    let mut number = |what: &str| parts.next()?.strip_suffix(what)?.parse().ok();
    Some(Count { passed: number(" passed")?, failed: number(" failed")?, skipped: number(" ignored")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_runners_are_summed_and_others_are_not() {
        let text = "running 3 tests\n\
            test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n  \
            test result: ok. 100 passed; 0 failed; 0 ignored; indented, so from inside a test\n\
            test result: FAILED. 6 passed; 2 failed; 0 ignored; 0 measured\n\
            documented commands: 4 passed, 1 failed\ndocumented commands: many passed, 1 failed\n";
        let sum = Count { passed: 15, failed: 3, skipped: 1 };
        assert_eq!(counted(Kind::Tests, true, text), sum);
        assert_eq!(counted(Kind::Tests, true, "nothing").failed, 1);
        assert_eq!(counted(Kind::Tests, false, "documented commands: 4 passed, 0 failed").failed, 1);
        assert_eq!(counted(Kind::Check, true, text), Count { passed: 1, failed: 0, skipped: 0 });
        assert_eq!(counted(Kind::Check, false, ""), Count { passed: 0, failed: 1, skipped: 0 });
    }
}
