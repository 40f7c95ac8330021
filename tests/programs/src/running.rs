//! A program that runs, what it says, and its end.

use std::{
    fs::{self, File},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// After a polite request to end, until the end of patience.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes of a complaint that are worth printing.
const COMPLAINT_BYTES: usize = 600;

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Ends this program on Ctrl-C and the like by unwinding, so that every program it started is ended too.
pub(crate) fn end_on_signals() -> Result<()> {
    let flag = interrupted();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(flag))?;
    }
    Ok(())
}

fn interrupted() -> &'static std::sync::Arc<std::sync::atomic::AtomicBool> {
    static FLAG: std::sync::OnceLock<std::sync::Arc<std::sync::atomic::AtomicBool>> =
        std::sync::OnceLock::new();
    FLAG.get_or_init(std::sync::Arc::default)
}

/// An error after a signal that asks this program to end.
pub(crate) fn check_interrupted() -> Result<()> {
    if interrupted().load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// A program, with whatever it started: all are one process group, and end with this.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// It was waited for, with its group gone: from then on its number may be somebody else's.
    is_reaped: bool,
    program: String,
    out: PathBuf,
    err: PathBuf,
}

/// What a program said until its end.
#[derive(Debug)]
pub(crate) struct Said {
    program: String,
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The standard output of a program that ended well.
    pub(crate) fn good(self) -> Result<String> {
        if !self.status.success() {
            bail!("{} ended with {}: {}", self.program, self.status, tail(&self.err, &self.out));
        }
        Ok(self.out)
    }

    /// How it ended: a status, or a signal.
    pub(crate) fn end(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("status {code}"),
            (None, signal) => format!("signal {signal:?}"),
        }
    }
}

fn tail(err: &str, out: &str) -> String {
    let text = if err.trim().is_empty() { out } else { err }.trim();
    let from = text.len().saturating_sub(COMPLAINT_BYTES);
    text.char_indices()
        .find(|(at, _)| *at >= from)
        .map_or("it printed nothing", |(at, _)| &text[at..])
        .to_owned()
}

impl Running {
    pub(crate) fn start(mut command: Command, program: &str, folder: &Path) -> Result<Self> {
        check_interrupted()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let [out, err] = ["out", "err"].map(|name| folder.join(format!(".{number}.{name}")));
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?).process_group(0);
        let child = command.spawn().with_context(|| format!("starting {program}"))?;
        Ok(Self { child, is_reaped: false, program: program.to_owned(), out, err })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program alone.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(rustix::process::kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Why it ended, if it has.
    pub(crate) fn ended(&self) -> Result<Option<String>> {
        Ok(self.is_over()?.then(|| self.complaint()))
    }

    /// Whether it has ended. It is not waited for: as long as it is not, its number and its group's are
    /// nobody else's.
    fn is_over(&self) -> Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?.is_some())
    }

    /// Ends a process that is left of the group, and then waits for its leader.
    fn reap(&mut self) -> Result<ExitStatus> {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.is_reaped = true;
        Ok(self.child.wait()?)
    }

    /// What it said last, on standard error or else on standard output.
    pub(crate) fn complaint(&self) -> String {
        let [out, err] = [&self.out, &self.err].map(|path| fs::read(path).unwrap_or_default());
        tail(&String::from_utf8_lossy(&err), &String::from_utf8_lossy(&out))
    }

    /// What it said on standard output so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self, patience: Duration) -> Result<Said> {
        let start = Instant::now();
        while !self.is_over()? {
            check_interrupted()?;
            if start.elapsed() > patience {
                bail!("{} has not ended after {} s: {}", self.program, patience.as_secs(), self.complaint());
            }
            std::thread::sleep(LOOK);
        }
        let status = self.reap()?;
        let [out, err] = [&self.out, &self.err].map(fs::read);
        let [out, err] = [out?, err?].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Said { program: self.program.clone(), status, out, err })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
            let start = Instant::now();
            while matches!(self.is_over(), Ok(false)) && start.elapsed() < GRACE {
                std::thread::sleep(LOOK);
            }
            let _ = self.reap();
        }
        let _ = fs::remove_file(&self.out);
        let _ = fs::remove_file(&self.err);
    }
}
