//! Runs many programs at a time, with a limit on their number and on the time of each, in one thread.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::spool::{Spool, find};

/// A program that has not begun its work for so long does not keep others from being started: a host that
/// does not answer delays nobody.
const SLOW_START: Duration = Duration::from_secs(3);
/// Times as many as the caller allows may run because of that.
const SLOW_TIMES: usize = 2;
/// How often it is asked whether all that is to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long a program has to end by itself, once its input was closed: the other end of ssh ends its command.
const GRACE: Duration = Duration::from_millis(600);
/// How long the output of a program that has done its work may be held open by what it has left behind.
const LEFT_OPEN: Duration = Duration::from_millis(500);
/// So many pieces are taken of one program before others have their turn; also more than a pipe holds.
const PIECES_AT_ONCE: usize = 16;
/// Read at a time.
const PIECE_BYTES: usize = 128 << 10;

/// A program.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) command: Command,
    pub(crate) input: Input,
    /// Its output begins behind this line.
    pub(crate) begins: Option<Vec<u8>>,
    /// Once this stands in its standard error, its work is done.
    pub(crate) ends: Option<Vec<u8>>,
}

/// What it reads.
#[derive(Debug)]
pub(crate) enum Input {
    /// These bytes; then the end, or nothing until the program is to end.
    Bytes { bytes: Vec<u8>, stays_open: bool },
    /// A file.
    File(std::fs::File),
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum How {
    /// With this status; none: by a signal.
    Exited(Option<i32>),
    /// Its work was done, and something that it left behind holds its output open.
    LeftOpen,
    /// It took too long and was ended.
    TimedOut,
    /// The caller wanted no more; or it was not begun because of that.
    Stopped,
    /// It could not be started.
    NotStarted(std::io::Error),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) how: How,
    pub(crate) out: Spool,
    pub(crate) err: Spool,
    pub(crate) took: Duration,
}

/// How many, how long, and when no more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) at_once: usize,
    /// For each from its start; none: as long as it takes.
    pub(crate) time: Option<Duration>,
    pub(crate) stop: fn() -> bool,
}

/// Runs the jobs of these numbers; `ended` is called for each as soon as it has ended, `idle` now and then.
pub(crate) fn run_all(
    numbers: &[usize],
    limits: Limits,
    mut job: impl FnMut(usize) -> std::io::Result<Job>,
    mut ended: impl FnMut(usize, Ended),
    mut idle: impl FnMut(),
) {
    let mut waiting = numbers.iter().copied();
    let mut running: Vec<(usize, Running)> = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let is_stopped = (limits.stop)();
        // Starting many programs takes a while, which is not given to the later ones in addition.
        let turn = Instant::now();
        while !is_stopped && has_room(&running, limits.at_once.max(1)) {
            let Some(number) = waiting.next() else { break };
            match job(number).and_then(|job| Running::start(job, turn)) {
                Ok(started) => running.push((number, started)),
                Err(error) => ended(number, Ended::not_begun(How::NotStarted(error))),
            }
        }
        if is_stopped {
            waiting.by_ref().for_each(|number| ended(number, Ended::not_begun(How::Stopped)));
        }
        if running.is_empty() {
            return;
        }
        let now = Instant::now();
        for (_, one) in &mut running {
            one.hurry(now, limits, is_stopped);
        }
        wait(&mut running, now, limits, &mut piece);
        let mut at = 0;
        while at < running.len() {
            if running[at].1.has_ended(&mut piece) {
                let (number, one) = running.swap_remove(at);
                ended(number, one.finish());
            } else {
                at += 1;
            }
        }
        idle();
    }
}

/// Whether a further program may be started.
fn has_room(running: &[(usize, Running)], at_once: usize) -> bool {
    if running.len() < at_once {
        return true;
    }
    let is_slow = |one: &Running| !one.out.has_begun() && one.began.elapsed() > SLOW_START;
    running.len() < at_once.saturating_mul(SLOW_TIMES)
        && running.iter().filter(|(_, one)| !is_slow(one)).count() < at_once
}

impl Ended {
    fn not_begun(how: How) -> Self {
        Self { how, out: Spool::new(None), err: Spool::new(None), took: Duration::ZERO }
    }
}

/// A program that runs.
struct Running {
    child: Child,
    /// Readable when it has ended.
    pidfd: OwnedFd,
    stdin: Option<ChildStdin>,
    input: Vec<u8>,
    written: usize,
    stays_open: bool,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    out: Spool,
    err: Spool,
    ends: Option<Vec<u8>>,
    tail: Vec<u8>,
    /// Its work was done at this moment.
    done_at: Option<Instant>,
    began: Instant,
    /// From here on its time counts.
    turn: Instant,
    /// Why it was told to end, and when it is killed.
    ending: Option<(How, Instant)>,
    exited: Option<Option<i32>>,
    /// Something has come of it since it was last asked whether it has ended.
    is_ready: bool,
}

impl Running {
    fn start(job: Job, turn: Instant) -> std::io::Result<Self> {
        let Job { mut command, input, begins, ends } = job;
        // A group of its own: what it starts ends with it, and Ctrl-C of a terminal comes to the caller
        // alone.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let (bytes, stays_open) = match input {
            Input::Bytes { bytes, stays_open } => {
                command.stdin(Stdio::piped());
                (bytes, stays_open)
            }
            Input::File(file) => {
                command.stdin(file);
                (Vec::new(), false)
            }
        };
        let mut child = command.spawn()?;
        let made = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let pidfd = match made {
            Ok(pidfd) => pidfd,
            Err(error) => {
                kill(&mut child);
                return Err(error.into());
            }
        };
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let fds = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for fd in fds.into_iter().flatten() {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Self {
            child,
            pidfd,
            stdin,
            input: bytes,
            written: 0,
            stays_open,
            stdout,
            stderr,
            out: Spool::new(begins.clone()),
            err: Spool::new(begins),
            ends,
            tail: Vec::new(),
            done_at: None,
            began: Instant::now(),
            turn,
            ending: None,
            exited: None,
            is_ready: true,
        })
    }

    /// Tells a program to end whose time is over, and kills one that does not.
    fn hurry(&mut self, now: Instant, limits: Limits, is_stopped: bool) {
        let is_late = limits.time.is_some_and(|time| now >= self.turn + time);
        let is_left = self.done_at.is_some_and(|at| now >= at + LEFT_OPEN);
        match &self.ending {
            Some((_, until)) if now >= *until => kill(&mut self.child),
            Some(_) => {}
            None if is_left => self.end(How::LeftOpen, now),
            None if is_late => self.end(How::TimedOut, now),
            None if is_stopped => self.end(How::Stopped, now),
            None => {}
        }
    }

    fn end(&mut self, how: How, now: Instant) {
        // Where nothing at the other end watches its input, or has begun to, there is nothing to wait for.
        let is_watched = self.stdin.take().is_some() && self.stays_open && self.out.has_begun();
        let grace = if is_watched { GRACE } else { Duration::ZERO };
        self.ending = Some((how, now + grace));
    }

    /// Until when nothing is to be done for it.
    fn next_look(&self, limits: Limits) -> Option<Instant> {
        let late = limits.time.map(|time| self.turn + time);
        let left = self.done_at.map(|at| at + LEFT_OPEN);
        match &self.ending {
            Some((_, until)) => Some(*until),
            None => [late, left].into_iter().flatten().min(),
        }
    }

    fn wanted(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let input = self.stdin.as_ref().filter(|_| self.written < self.input.len());
        let read = [
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
            Some(self.pidfd.as_fd()),
        ];
        let read = read.into_iter().flatten().map(|fd| (fd, PollFlags::IN));
        read.chain(input.map(|fd| (fd.as_fd(), PollFlags::OUT)))
    }

    /// Moves what can be moved without waiting.
    fn serve(&mut self, piece: &mut [u8]) {
        while let Some(stdin) = self.stdin.as_mut().filter(|_| self.written < self.input.len()) {
            match stdin.write(&self.input[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It has ended, or will not read: it says why itself.
                Err(_) => self.stdin = None,
            }
        }
        if self.written == self.input.len() && !self.stays_open {
            self.stdin = None;
        }
        let Self { out, err, tail, ends, done_at, .. } = self;
        if moved(&mut self.stdout, piece, |bytes| out.push(bytes)) {
            self.stdout = None;
        }
        let both = |bytes: &[u8]| {
            err.push(bytes);
            if let Some(ends) = ends.as_ref().filter(|_| done_at.is_none()) {
                tail.extend_from_slice(bytes);
                if find(tail, ends).is_some() {
                    *done_at = Some(Instant::now());
                }
                let keep = tail.len().saturating_sub(ends.len());
                tail.drain(..keep);
            }
        };
        if moved(&mut self.stderr, piece, both) {
            self.stderr = None;
        }
    }

    /// Whether it has; if so, all that it has printed was taken.
    fn has_ended(&mut self, piece: &mut [u8]) -> bool {
        if !std::mem::take(&mut self.is_ready) && self.ending.is_none() {
            return false;
        }
        if self.exited.is_none() {
            let Ok(Some(status)) = self.child.try_wait() else { return false };
            self.exited = Some(status.code());
            // What it printed is in the pipes. Their ends may stay open: ssh leaves processes that share
            // connections and hold them.
            self.serve(piece);
        }
        true
    }

    fn finish(mut self) -> Ended {
        self.stdin = None;
        let how = match self.ending.take() {
            Some((how, _)) => how,
            None => How::Exited(self.exited.flatten()),
        };
        Ended { how, out: self.out, err: self.err, took: self.began.elapsed() }
    }
}

/// Kills a program and what it has started in its group, and takes its status.
fn kill(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.kill();
    let _ = child.wait();
}

/// Takes what has come; whether the pipe has ended.
fn moved(from: &mut Option<impl Read>, piece: &mut [u8], mut take: impl FnMut(&[u8])) -> bool {
    let Some(from) = from else { return false };
    for _ in 0..PIECES_AT_ONCE {
        match from.read(piece) {
            Ok(0) => return true,
            Ok(read) => take(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
    false
}

/// Sleeps until something can be moved, a program has ended, or there is something to be done.
fn wait(running: &mut [(usize, Running)], now: Instant, limits: Limits, piece: &mut [u8]) {
    let next = running.iter().filter_map(|(_, one)| one.next_look(limits)).min();
    let left = next.map_or(LOOK, |next| next.saturating_duration_since(now)).min(LOOK);
    let mut owners = Vec::new();
    let mut fds = Vec::new();
    for (index, (_, one)) in running.iter().enumerate() {
        for (fd, flags) in one.wanted() {
            owners.push(index);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
    }
    let limit = Timespec { tv_sec: 0, tv_nsec: left.as_nanos().try_into().unwrap_or(0) };
    if poll(&mut fds, Some(&limit)).is_err() {
        // A signal: the caller looks at what it said.
        return;
    }
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    drop(fds);
    let mut before = usize::MAX;
    for (owner, _) in owners.into_iter().zip(ready).filter(|(_, ready)| *ready) {
        if owner != before {
            running[owner].1.is_ready = true;
            running[owner].1.serve(piece);
            before = owner;
        }
    }
}
