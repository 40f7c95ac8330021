//! A lane: one server, plain or under a library, and the memory shared with it. Runs one program at a time.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use shm::sync::Ordering;

use super::Log;
use super::stage::Stage;
use crate::executor::ROLE;
use crate::program::Program;
use crate::shared::{Front, Shared};
use crate::sys::{files, process};

/// So many programs a server runs before it is replaced: its network then forgets the ports that it still
/// holds back.
const RUNS: u32 = 1000;
/// How long a server may take to answer, in nanoseconds.
const ANSWER: u64 = 20_000_000_000;

/// Under which circumstances programs are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Side {
    /// The executor's binary: this program.
    pub executor: PathBuf,
    /// The library that is preloaded, if any.
    pub preload: Option<PathBuf>,
    /// Variables of the environment for it.
    pub environment: Vec<(String, String)>,
}

/// A server with its memory.
#[derive(Debug)]
pub struct Lane {
    side: Side,
    shared: Shared,
    path: String,
    cpu: usize,
    server: Option<Child>,
    runs: u32,
}

impl Lane {
    /// A lane for programs that run on this processor, unless they use all.
    ///
    /// # Errors
    ///
    /// No memory, or the executor cannot be started.
    pub fn new(side: Side, cpu: usize) -> Result<Self> {
        let (shared, path) = Shared::create()?;
        // From here on the lane gives back what it took, also if it cannot start.
        let mut lane = Self { side, shared, path, cpu, server: None, runs: 0 };
        lane.start()?;
        Ok(lane)
    }

    /// Whether its programs have a network of their own.
    #[must_use]
    pub fn has_own_network(&self) -> bool {
        self.shared.front(Front::OwnNetwork).load(Ordering::SeqCst) == 1
    }

    fn start(&mut self) -> Result<()> {
        self.stop();
        self.shared.reset();
        self.shared.to_server().reset();
        self.shared.from_server().reset();
        // What this process has inherited itself must not be among a program's descriptors.
        let _ = files::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32);
        let mut command = Command::new(&self.side.executor);
        command
            .args([ROLE, "serve", &self.path])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.envs(self.side.environment.iter().map(|(key, value)| (key, value)));
        if let Some(library) = &self.side.preload {
            command.env("LD_PRELOAD", library);
        }
        let executor = self.side.executor.display().to_string();
        self.server =
            Some(command.spawn().with_context(|| format!("the executor {executor} cannot be started"))?);
        if !self.shared.from_server().wait(ANSWER) {
            self.stop();
            match &self.side.preload {
                Some(library) => bail!("the executor {executor} does not start under {}", library.display()),
                None => bail!("the executor {executor} does not start"),
            }
        }
        self.runs = 0;
        self.check_library()
    }

    /// The dynamic linker ignores what it cannot preload: then both sides would be plain, and nothing would
    /// ever differ.
    fn check_library(&mut self) -> Result<()> {
        let Some(library) = &self.side.preload else { return Ok(()) };
        let pid = self.shared.front(Front::ServerPid).load(Ordering::SeqCst);
        let maps =
            std::fs::read_to_string(format!("/proc/{pid}/maps")).context("what the executor has loaded")?;
        let path = library.canonicalize().unwrap_or_else(|_| library.clone());
        if maps.lines().any(|line| line.ends_with(&*path.to_string_lossy())) {
            return Ok(());
        }
        let library = library.display().to_string();
        self.stop();
        bail!("{library} is not loaded into the executor: is it a shared library for this machine?")
    }

    /// Kills the server and what is left of its program.
    fn stop(&mut self) {
        self.kill_program();
        if let Some(mut server) = self.server.take() {
            // Failing means that it has ended by itself.
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    fn kill_program(&self) {
        let first = self.shared.front(Front::FirstPid).load(Ordering::SeqCst).cast_signed();
        if first > 1 {
            let _ = process::kill(-first, libc::SIGKILL);
        }
    }

    /// Runs a program once. `patience` is waited after each step for calls that still block: none finds most
    /// of what there is to see; some tells what is slow from what never comes.
    ///
    /// # Errors
    ///
    /// The server has ended or does not answer; it is replaced at the next run.
    pub fn run(&mut self, program: &Program, patience: Duration) -> Result<Log> {
        if self.server.is_none() || self.runs >= RUNS {
            self.start()?;
        }
        self.runs += 1;
        let shared = self.shared;
        shared.reset();
        shared.set_program(&program.text());
        shared.front(Front::Cpu).store(self.cpu as u32, Ordering::SeqCst);
        self.ask("start a program")?;
        let mut stage = Stage::new(shared, program, patience);
        stage.play();
        self.kill_program();
        let first = shared.front(Front::FirstPid).swap(0, Ordering::SeqCst);
        if let Err(error) = self.ask("bury a program") {
            shared.front(Front::FirstPid).store(first, Ordering::SeqCst);
            self.stop();
            return Err(error);
        }
        Ok(stage.log())
    }

    fn ask(&mut self, what: &str) -> Result<()> {
        self.shared.to_server().post();
        // In pieces, so that a server that has ended is noticed.
        for _ in 0..ANSWER / 500_000_000 {
            if self.shared.from_server().wait(500_000_000) {
                return Ok(());
            }
            let ended = self.server.as_mut().map(|server| server.try_wait());
            if let Some(Ok(Some(status))) = ended {
                self.stop();
                bail!("the server ended ({status}) when it was to {what}");
            }
        }
        self.stop();
        bail!("the server did not {what}")
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.stop();
        self.shared.discard();
    }
}
