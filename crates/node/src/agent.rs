//! The local end of an agent: the process that runs here, or the stream to the program that has asked for one
//! elsewhere.
//!
//! What is kept for it is bounded by the machine of crate `proto`, which gives credit for what was taken.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

use proto::ids::NodeId;
use proto::wire::agent::AgentEnd;
use rustix::event::epoll::EventFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::runtime_dir::ClusterDir;

/// The program that an agent is, in the folder of the manager's own.
const PROGRAM: &str = "tieline-commands";
/// What the manager's own environment gives to an agent: where libfabric and the configuration are found, and
/// what they are told.
const KEPT: [&str; 8] = [
    "HOME",
    "LD_LIBRARY_PATH",
    "PATH",
    "TIELINE_CONFIG",
    "TIELINE_COPY_PLAN",
    "TIELINE_FAULTS",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];
/// Variables of libfabric, which chooses its provider by them.
const KEPT_PREFIX: &str = "FI_";
/// So much of what an agent prints on its standard error is logged.
const MOST_LOGGED_BYTES: usize = 4096;

/// Looks at an agent that was killed before its manager ends.
const LAST_LOOKS: u32 = 200;
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// What one look at a stream gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// So many bytes, from the start of the buffer.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// There will be no more.
    End,
}

/// The process of an agent that runs here.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Readable when it has ended.
    pub(crate) pidfd: OwnedFd,
    /// None once it is closed.
    pub(crate) errors: Option<ChildStderr>,
    logged_bytes: usize,
    pub(crate) exited: Option<ExitStatus>,
}

/// One local end.
#[derive(Debug)]
pub(crate) struct LocalAgent {
    stream: UnixStream,
    queue: VecDeque<u8>,
    /// Its input ends when the queue is empty.
    input_ends: bool,
    /// Nothing more is read.
    pub(crate) read_over: bool,
    /// It is closed when the queue is empty.
    pub(crate) closing: bool,
    /// If it runs here.
    pub(crate) process: Option<Process>,
    /// What epoll was told; none: it does not know of the stream.
    pub(crate) watched: Option<EventFlags>,
}

impl LocalAgent {
    fn new(stream: UnixStream, process: Option<Process>) -> Self {
        Self {
            stream,
            queue: VecDeque::new(),
            input_ends: false,
            read_over: false,
            closing: false,
            process,
            watched: None,
        }
    }

    /// The stream to a program, and the program's end of it.
    pub(crate) fn stream() -> std::io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // Descriptors that a program sends are none of ours.
        foreign::refuse_descriptors(&ours, true);
        Ok((Self::new(ours, None), theirs.into()))
    }

    /// Starts an agent of a node's manager. It has its input and output, and no other descriptor of this
    /// process.
    pub(crate) fn start(dir: &ClusterDir, node: NodeId) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let program = std::env::current_exe()?.with_file_name(PROGRAM);
        let mut command = Command::new(program);
        // It ends itself when this process, by this number, is not its parent.
        command.arg("agent").arg(std::process::id().to_string()).arg(node.to_string());
        command.arg(dir.cluster().as_str()).arg(dir.root());
        command.env_clear().envs(environment(std::env::vars_os()));
        command
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::piped());
        command.current_dir("/").process_group(0);
        shm::process::pass_on_no_descriptor()?;
        let mut child = command.spawn()?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::NONBLOCK);
        let pidfd = match pidfd {
            Ok(pidfd) => pidfd,
            Err(errno) => {
                // Its end could not be noticed.
                let _ = child.kill();
                let _ = child.wait();
                return Err(errno.into());
            }
        };
        let errors = child.stderr.take();
        // Another process may hold it open.
        let is_set = errors.as_ref().map_or(Ok(()), |errors| rustix::io::ioctl_fionbio(errors, true));
        let mut process = Process { child, pidfd, errors, logged_bytes: 0, exited: None };
        if let Err(errno) = is_set {
            process.end();
            return Err(errno.into());
        }
        Ok(Self::new(ours, Some(process)))
    }

    /// Bytes for it.
    pub(crate) fn queue(&mut self, bytes: &[u8]) {
        self.queue.extend(bytes);
    }

    /// Its input ends after what is queued.
    pub(crate) fn end_input(&mut self) {
        self.input_ends = true;
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Writes what goes now: how many bytes it has taken. What it does not want counts as taken.
    pub(crate) fn flush(&mut self) -> usize {
        let before = self.queue.len();
        while !self.queue.is_empty() {
            match self.stream.write(self.queue.as_slices().0) {
                Ok(written) => drop(self.queue.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.queue.clear(),
            }
        }
        if self.queue.is_empty() && std::mem::take(&mut self.input_ends) {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        before - self.queue.len()
    }

    /// Reads at most as much as the buffer has room for, which is not nothing.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Taken {
        let read = loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match read {
            Ok(0) => Taken::End,
            Ok(read) => Taken::Bytes(read),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // What another process holds open is not waited for.
                let ended = self.process.as_ref().is_some_and(|process| process.exited.is_some());
                if ended { Taken::End } else { Taken::Nothing }
            }
            Err(_) => Taken::End,
        }
    }

    /// What is to be watched; `None`: nothing, and its end neither.
    pub(crate) fn wanted(&self, has_room: bool) -> Option<EventFlags> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, has_room && !self.read_over);
        flags.set(EventFlags::OUT, !self.queue.is_empty());
        // A program's end is always of interest; an agent has a pidfd, and its end would be reported for
        // ever.
        (self.process.is_none() || !flags.is_empty()).then_some(flags)
    }
}

impl AsFd for LocalAgent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Process {
    pub(crate) fn kill(&mut self) {
        // One that has ended needs none.
        let _ = self.child.kill();
    }

    /// Whether it has ended; then its number is free.
    pub(crate) fn reap(&mut self) -> bool {
        if self.exited.is_none() {
            self.exited = self.child.try_wait().ok().flatten();
        }
        self.exited.is_some()
    }

    /// Kills it and waits for its end; not for ever for one that the kernel does not let go.
    pub(crate) fn end(&mut self) {
        self.kill();
        for _ in 0..LAST_LOOKS {
            if self.reap() {
                return;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed and is still to be logged; `None`: it prints no more.
    pub(crate) fn printed(&mut self) -> Option<String> {
        let mut piece = [0; 4096];
        let read = match self.errors.as_mut()?.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Ok(0) | Err(_) => {
                self.errors = None;
                return None;
            }
            Ok(read) => read,
        };
        // It is read in any case: nobody waits for room there.
        let left = MOST_LOGGED_BYTES.saturating_sub(self.logged_bytes).min(read);
        self.logged_bytes += left;
        Some(String::from_utf8_lossy(piece.get(..left).unwrap_or_default()).into_owned())
    }
}

/// How an agent's process ended.
pub(crate) fn end_of(status: ExitStatus) -> AgentEnd {
    match (status.code(), status.signal()) {
        (Some(status), _) => AgentEnd::Exited { status },
        (None, Some(signal)) => AgentEnd::Killed { signal },
        (None, None) => AgentEnd::Lost { why: status.to_string() },
    }
}

/// What an agent gets of an environment.
fn environment(
    own: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    own.filter(|(name, _)| {
        name.to_str().is_some_and(|name| KEPT.contains(&name) || name.starts_with(KEPT_PREFIX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_gets_no_secret_and_no_lease() {
        let own = ["HOME", "TIELINE_TOKEN", "FI_PROVIDER", "TIELINE_LEASE", "LD_PRELOAD", "SECRET"];
        let own = own.map(|name| (OsString::from(name), OsString::from("x")));
        let given: Vec<OsString> = environment(own.into_iter()).map(|(name, _)| name).collect();
        assert_eq!(given, ["HOME", "FI_PROVIDER"]);
    }

    #[test]
    fn what_is_passed_on_is_counted_and_the_end_comes_after_it() {
        let (mut ours, theirs) = LocalAgent::stream().unwrap();
        let mut theirs = UnixStream::from(theirs);
        ours.queue(b"report");
        ours.end_input();
        assert_eq!(ours.flush(), 6);
        let mut read = String::new();
        theirs.read_to_string(&mut read).unwrap();
        assert_eq!(read, "report");
        theirs.write_all(b"job").unwrap();
        let mut buffer = [0; 2];
        assert_eq!(ours.read(&mut buffer), Taken::Bytes(2));
        assert_eq!(ours.read(&mut buffer), Taken::Bytes(1));
        assert_eq!(ours.read(&mut buffer), Taken::Nothing);
        drop(theirs);
        assert_eq!(ours.read(&mut buffer), Taken::End);
    }

    #[test]
    fn what_nobody_reads_waits_and_what_nobody_wants_counts_as_taken() {
        let (mut ours, theirs) = LocalAgent::stream().unwrap();
        let bytes = vec![7; 4 << 20];
        ours.queue(&bytes);
        let taken = ours.flush();
        assert!(taken < bytes.len() && !ours.is_flushed());
        assert_eq!(ours.wanted(false), Some(EventFlags::OUT));
        drop(theirs);
        assert_eq!(taken + ours.flush(), bytes.len());
        assert_eq!(ours.wanted(false), Some(EventFlags::empty()));
    }
}
