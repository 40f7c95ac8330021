//! A command on many hosts: what each printed, and its status or the reason why there is none.
//!
//! The command is run by `sh` on the host. A short script, which comes over the standard input of ssh, prints
//! a line before it, so that what a shell prints at its start is not taken for output; and one behind it with
//! the status, so that a connection that ends early is not taken for the end of the command. The script
//! also watches its input: it ends when the connection does, and the script then ends the command.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::children::{Ended, How, Input, Job, Limits, run_all};
use crate::reasons::{Failure, Kind, lost, not_begun};
use crate::spool::Spool;
use crate::ssh::{Ssh, quoted};

/// The line with the status lies so near to the end, unless something that the command left behind prints.
const END_BYTES: u64 = 4096;
/// So much of what ssh says is read.
const SAID_BYTES: u64 = 64 << 10;
/// Descriptors of this process that one host takes: three pipes, one for its end, two files of its output,
/// and two while it is started; for the hosts that are slow to answer again as many.
const FDS_OF_A_HOST: u64 = 16;
/// Descriptors for all else.
const FDS_BESIDE: u64 = 64;

/// How a command is run on hosts.
#[derive(Debug, Clone, Copy)]
pub struct OnMany<'a> {
    /// How hosts are reached.
    pub ssh: &'a Ssh,
    /// Hosts at a time.
    pub at_once: usize,
    /// How long each may take, with its connection; none: as long as it takes.
    pub limit: Option<Duration>,
}

/// What came of one host.
#[derive(Debug)]
pub struct Answer {
    /// As it was named.
    pub host: String,
    /// Why it did not do what it was to do; none: it did.
    pub failure: Option<Failure>,
    /// The command's standard output.
    pub out: Spool,
    /// Its standard error.
    pub err: Spool,
    /// From the start of ssh to its end.
    pub took: Duration,
}

/// What the other end is to do.
pub(crate) struct Task {
    /// For `sh`.
    pub(crate) command: String,
    /// Its standard input; none: it reads nothing.
    pub(crate) input: Option<std::fs::File>,
}

/// The lines by which the beginning and the end of a command are found: nobody else knows the number.
#[derive(Debug, Clone)]
struct Marks {
    word: String,
}

impl Marks {
    fn new() -> Self {
        // Two numbers of 64 bits that another process cannot guess.
        let number = || RandomState::new().build_hasher().finish();
        Self { word: format!("tieline-fleet-{:016x}{:016x}", number(), number()) }
    }

    fn begins(&self) -> Vec<u8> {
        format!("{}\n", self.word).into_bytes()
    }

    fn ends(&self) -> Vec<u8> {
        format!("{} ", self.word).into_bytes()
    }

    /// What runs a command without input. `kill 0` reaches all that it has started and that has not left its
    /// process group.
    fn watched(&self, command: &str) -> String {
        let (word, command) = (&self.word, quoted(command));
        format!(
            "{{ exec 3<&0 </dev/null; printf '%s\\n' {word}; printf '%s\\n' {word} >&2\n\
             (trap '' HUP INT TERM; while read -r x <&3; do :; done; kill -TERM 0; sleep 1; kill -KILL 0) \
             >/dev/null 2>&1 & w=$!\n\
             (eval {command}) 3<&-; s=$?; printf '%s %s\\n' {word} $s >&2; exec 2>/dev/null; kill -KILL $w; exit $s; }}\n"
        )
    }

    /// What runs a command that reads a file. When the connection ends, so does its input.
    fn fed(&self, command: &str) -> String {
        let (word, command) = (&self.word, quoted(command));
        format!(
            "printf \"%s\\n\" {word}; printf \"%s\\n\" {word} >&2; (eval {command}); s=$?; \
             printf \"%s %s\\n\" {word} $s >&2; exit $s"
        )
    }

    /// Takes the line with the status from the end of what a command printed.
    fn status(&self, err: &mut Spool) -> Option<i32> {
        let tail = err.last(END_BYTES).ok()?;
        let ends = self.ends();
        let at = tail.windows(ends.len()).rposition(|window| window == ends)?;
        let line = tail[at + ends.len()..].split(|byte| *byte == b'\n').next()?;
        let status = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
        err.truncate(err.bytes() - (tail.len() - at) as u64);
        Some(status)
    }
}

impl OnMany<'_> {
    /// Runs the same command on each host; `each` gets the answers as they come, with the number of the host,
    /// `idle` is called now and then.
    pub fn run(&self, hosts: &[String], command: &str, each: impl FnMut(usize, Answer), idle: impl FnMut()) {
        self.tasks(hosts, |_| Ok(Task { command: command.to_owned(), input: None }), each, idle);
    }

    /// Runs a task on each host.
    pub(crate) fn tasks(
        &self,
        hosts: &[String],
        mut task: impl FnMut(usize) -> std::io::Result<Task>,
        mut each: impl FnMut(usize, Answer),
        idle: impl FnMut(),
    ) {
        let marks = Marks::new();
        let limits = Limits { at_once: self.at_once.min(room()), time: self.limit, stop: self.ssh.stop };
        let numbers: Vec<usize> = (0..hosts.len()).collect();
        let job = |number: usize| Ok(self.job(&marks, &hosts[number], task(number)?));
        run_all(
            &numbers,
            limits,
            job,
            |number, ended| each(number, self.answer(&marks, &hosts[number], ended)),
            idle,
        );
    }

    fn job(&self, marks: &Marks, host: &str, task: Task) -> Job {
        let mut command = self.ssh.command(host);
        let input = match task.input {
            // Every shell understands these words, and the script needs no further quoting.
            None => {
                command.arg("exec sh -s");
                Input::Bytes { bytes: marks.watched(&task.command).into_bytes(), stays_open: true }
            }
            Some(file) => {
                command.arg(format!("exec sh -c {}", quoted(&marks.fed(&task.command))));
                Input::File(file)
            }
        };
        Job { command, input, begins: Some(marks.begins()), ends: Some(marks.ends()) }
    }

    fn answer(&self, marks: &Marks, host: &str, ended: Ended) -> Answer {
        let Ended { how, out, mut err, took } = ended;
        let status = marks.status(&mut err);
        let failure = self.failure(host, how, status, &out, &mut err);
        Answer { host: host.to_owned(), failure, out, err, took }
    }

    fn failure(
        &self,
        host: &str,
        how: How,
        status: Option<i32>,
        out: &Spool,
        err: &mut Spool,
    ) -> Option<Failure> {
        if let Some(why) = out.failed().or(err.failed()) {
            let why = format!(
                "its output cannot be stored in the temporary directory here: {why}: make room there"
            );
            return Some(Failure::new(Kind::Here, why));
        }
        match (how, status) {
            (How::NotStarted(error), _) => {
                let program = &self.ssh.program;
                Some(Failure::new(Kind::Here, format!("`{program}` cannot be run here: {error}")))
            }
            (How::TimedOut, _) => {
                let limit_s = self.limit.unwrap_or_default().as_secs_f64();
                let what = if err.has_begun() {
                    format!(
                        "the command did not end within {limit_s} s and was ended: allow it more with --timeout"
                    )
                } else {
                    format!("it did not answer within {limit_s} s: is it switched on and connected?")
                };
                Some(Failure::new(Kind::TimedOut, what))
            }
            (How::Stopped, None) => {
                Some(Failure::new(Kind::Interrupted, "the run was interrupted: run the same command again"))
            }
            (_, Some(0)) => None,
            (_, Some(status)) => Some(Failure::new(Kind::Status(status), format!("exit status {status}"))),
            (_, None) if err.has_begun() => {
                let said = err.last(SAID_BYTES).unwrap_or_default();
                Some(lost(&String::from_utf8_lossy(&said)))
            }
            (_, None) => Some(not_begun(host, &String::from_utf8_lossy(err.before()))),
        }
    }
}

/// How many hosts there are descriptors for.
fn room() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = limit.map_or(u64::MAX, |limit| limit.saturating_sub(FDS_BESIDE) / FDS_OF_A_HOST);
    usize::try_from(most).unwrap_or(usize::MAX).max(1)
}

/// The words of a command line as one text for `sh`: one word is a text already; of several each arrives as
/// it is.
pub fn command_of(words: &[String]) -> String {
    match words {
        [text] => text.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}
