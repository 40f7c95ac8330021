//! One build's program: starts it and reads its figures.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use sockets_rules::ENV_LIBRARY;

use super::Options;
use crate::{
    acceptance::catalogue::Entry,
    error::{BenchError, Result},
    progress::Waiter,
    results::{Beside, Document},
};

/// Most bytes of a program's output that are read; a figure with all its blocks has a thousandth of
/// that.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of a program's error output that are read.
const COMPLAINT_BYTES_MAX: u64 = 1 << 16;
/// The pause between two checks of a run.
const LOOK: Duration = Duration::from_millis(20);
/// The time in which a run must end after its signal; it stops its cluster first.
const END_LIMIT: Duration = Duration::from_secs(30);
/// The time limit of a run; every figure takes less.
const RUN_LIMIT: Duration = Duration::from_secs(1800);

/// The result of one run for a figure.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Unit of the value.
    pub unit: String,
    /// Whether less of it is better.
    pub small_is_good: bool,
    /// The value.
    pub value: f64,
    /// The reference of the same run, unless it is a constant.
    pub beside: Option<Beside>,
    /// At least half of the blocks were disturbed.
    pub is_disturbed: bool,
}

/// The reason why a run gave no result for a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoReading {
    /// The comparison is to end.
    Ended,
    /// Anything else, in words.
    Failed(String),
}

/// Both builds: side 0 is before, side 1 is now.
pub trait Measures {
    /// One short run.
    fn measure(&mut self, side: usize, entry: &Entry) -> std::result::Result<Reading, NoReading>;
}

/// One build.
#[derive(Debug, Clone)]
pub struct Build {
    program: PathBuf,
    cpus: Option<[usize; 2]>,
}

/// The two programs.
pub struct Builds {
    sides: [Build; 2],
    waiter: Arc<dyn Waiter>,
}

impl Builds {
    /// The two programs of these options; a missing program is wrong usage.
    pub fn new(options: &Options, waiter: Arc<dyn Waiter>) -> Result<Self> {
        let [before, now] = &options.builds;
        let of = |program: &Path| {
            // A name without a folder is not searched in PATH.
            let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
            if !program.is_file() {
                return Err(BenchError::Usage(format!(
                    "{} {}: name the program `tieline` of a build, such as target/release/tieline, with tieline-commands and the libraries \
                     in the same folder",
                    program.display(),
                    if program.exists() { "is not a file" } else { "does not exist" }
                )));
            }
            Ok(Build { program, cpus: options.cpus })
        };
        Ok(Self { sides: [of(&before.program)?, of(&now.program)?], waiter })
    }

    /// The old build.
    pub fn before(&self) -> &Build {
        &self.sides[0]
    }
}

impl Measures for Builds {
    fn measure(&mut self, side: usize, entry: &Entry) -> std::result::Result<Reading, NoReading> {
        self.sides[side].measure(entry, &*self.waiter)
    }
}

impl Build {
    /// The names of all its figures.
    pub fn ids(&self) -> Result<Vec<String>> {
        let failed = |reason: String| BenchError::Build {
            reason: format!(
                "{} did not list its figures (`bench acceptance --list`): {reason}: name the program `tieline` of a build",
                self.program.display()
            ),
        };
        let mut run = Run::start(self, &["--list"]).map_err(failed)?;
        let status = run.wait(RUN_LIMIT, &crate::progress::Quiet).map_err(|why| failed(why.text()))?;
        let printed = run.printed();
        serde_json::from_str(&printed.out).map_err(|_| match status.code() {
            // A build that fails says why; what is content with these words is another program.
            Some(0) => {
                let what = if printed.out.trim().is_empty() { "nothing" } else { "no list of figures" };
                BenchError::Usage(format!(
                    "{} is not a `tieline` program: `bench acceptance --list` printed {what} (exit status 0): name the program \
                     `tieline` of a build",
                    self.program.display()
                ))
            }
            _ => failed(printed.complaint(status)),
        })
    }

    fn measure(&self, entry: &Entry, waiter: &dyn Waiter) -> std::result::Result<Reading, NoReading> {
        let cpus = self.cpus.map(|[near, far]| format!("{near},{far}"));
        let mut words = vec!["--only", entry.id];
        if let Some(cpus) = &cpus {
            words.extend(["--cpus", cpus]);
        }
        let mut run = Run::start(self, &words).map_err(NoReading::Failed)?;
        let status = run.wait(entry.short_run().unwrap_or(RUN_LIMIT), waiter)?;
        let printed = run.printed();
        reading(entry.id, &printed.out).map_err(|reason| {
            let complaint = if printed.out.is_empty() { printed.complaint(status) } else { reason };
            NoReading::Failed(complaint)
        })
    }
}

impl NoReading {
    fn text(self) -> String {
        match self {
            Self::Ended => "the run was ended".to_owned(),
            Self::Failed(reason) => reason,
        }
    }
}

/// The figure in a document of `bench acceptance`.
pub(super) fn reading(id: &str, text: &str) -> std::result::Result<Reading, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("its output is not JSON: {error}"))?;
    let document = Document::of("its output", &value).map_err(|error| error.to_string())?;
    if let Some(item) = document.items.into_iter().find(|item| item.id == id) {
        let is_disturbed = item.disturbed > 0 && item.blocks.len() <= item.disturbed;
        return Ok(Reading {
            unit: item.unit,
            small_is_good: item.small_is_good,
            value: item.value,
            beside: item.beside,
            is_disturbed,
        });
    }
    let missing = document.missing.into_iter().find(|missing| missing.id == id);
    Err(missing.map_or_else(|| format!("its output does not name {id}"), |missing| missing.reason))
}

/// A run of a build's program. It ends with its handle.
struct Run {
    child: Child,
    out: Option<Receiver<String>>,
    err: Option<Receiver<String>>,
    is_reaped: bool,
}

struct Printed {
    out: String,
    err: String,
}

impl Run {
    fn start(build: &Build, words: &[&str]) -> std::result::Result<Self, String> {
        let mut command = Command::new(&build.program);
        command.args(["bench", "acceptance", "--json", "--quiet"]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Each build has its own library in its folder; one that is given for all would be measured
        // twice.
        command.env_remove(ENV_LIBRARY);
        // In a process group of its own: Ctrl-C reaches only this process, which passes it on once.
        // A second signal would make the run leave its cluster behind.
        command.process_group(0);
        let start = || command.spawn();
        let mut child = start_file(start).map_err(|error| format!("it cannot be started: {error}"))?;
        let out = child.stdout.take().map(|pipe| reader(pipe, ANSWER_BYTES_MAX));
        let err = child.stderr.take().map(|pipe| reader(pipe, COMPLAINT_BYTES_MAX));
        Ok(Self { child, out, err, is_reaped: false })
    }

    /// Waits for the end of the run. After `limit` the run gets the signal of Ctrl-C, and ends with
    /// what it has measured.
    fn wait(&mut self, limit: Duration, waiter: &dyn Waiter) -> std::result::Result<ExitStatus, NoReading> {
        let started = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            match self.child.try_wait() {
                Err(error) => return Err(NoReading::Failed(format!("it cannot be waited for: {error}"))),
                Ok(Some(status)) => {
                    self.is_reaped = true;
                    return if waiter.stop() { Err(NoReading::Ended) } else { Ok(status) };
                }
                Ok(None) => {}
            }
            match asked {
                None if waiter.stop() || started.elapsed() >= limit => {
                    let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
                    asked = Some(Instant::now());
                }
                Some(since) if since.elapsed() >= END_LIMIT => {
                    let seconds = END_LIMIT.as_secs();
                    return Err(NoReading::Failed(format!(
                        "it has not ended {seconds} s after it was asked to"
                    )));
                }
                _ => thread::sleep(LOOK),
            }
        }
    }

    /// The output of the process. A process that it left behind may still hold the pipes.
    fn printed(mut self) -> Printed {
        let of = |reader: Option<Receiver<String>>| {
            reader.and_then(|reader| reader.recv_timeout(END_LIMIT).ok()).unwrap_or_default()
        };
        Printed { out: of(self.out.take()), err: of(self.err.take()) }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_reaped {
            // A process that ignores the signals cannot be ended otherwise.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Printed {
    /// Its last line on standard error.
    fn complaint(&self, status: ExitStatus) -> String {
        let last = self.err.lines().rev().find(|line| !line.trim().is_empty());
        let line: String = last.unwrap_or("it printed nothing").chars().take(300).collect();
        format!("it ended with {status}: {line}")
    }
}

/// A file that was written a moment ago may still be open for writing in a process that is being
/// started.
fn start_file(mut start: impl FnMut() -> std::io::Result<Child>) -> std::io::Result<Child> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match start() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => thread::sleep(LOOK),
            other => return other,
        }
    }
    start()
}

/// Reads up to this number of bytes of a pipe, and discards the rest, so that the writer never
/// waits.
fn reader(mut pipe: impl Read + Send + 'static, most_bytes: u64) -> Receiver<String> {
    let (done, text) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        drop((&mut pipe).take(most_bytes).read_to_end(&mut bytes));
        drop(std::io::copy(&mut pipe, &mut std::io::sink()));
        // The receiver may be gone.
        drop(done.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    text
}
