//! Runs a program for a bounded time and leaves nothing behind.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use super::WHAT;
use crate::{
    error::{BenchError, Result},
    progress::Waiter,
};

/// The pause between two checks whether the measurement is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes of a complaint that are worth printing.
const COMPLAINT_BYTES: usize = 400;

/// A program and all that it started: one process group, which ends with its handle.
#[derive(Debug)]
pub(in crate::patterns) struct Running {
    child: Child,
    name: String,
    out: PathBuf,
    err: PathBuf,
    /// Whether it has ended and its group is gone: from then on another process may have its PID.
    is_reaped: bool,
}

impl Running {
    /// Starts it on one processor. Its output goes into files of this folder, which have its name.
    pub(in crate::patterns) fn start(
        command: Command,
        name: &str,
        folder: &Path,
        cpu: usize,
    ) -> Result<Self> {
        Self::begin(command, name, folder, |command| on_cpu(cpu, || command.spawn()))
    }

    /// As [`Self::start`], on any processor.
    pub(in crate::patterns) fn start_anywhere(command: Command, name: &str, folder: &Path) -> Result<Self> {
        Self::begin(command, name, folder, Command::spawn)
    }

    fn begin(
        mut command: Command,
        name: &str,
        folder: &Path,
        spawn: impl FnOnce(&mut Command) -> std::io::Result<Child>,
    ) -> Result<Self> {
        let [out, err] = ["out", "err"].map(|kind| folder.join(format!("{name}.{kind}")));
        let file = |path: &Path| File::create(path).map_err(BenchError::io(path.display().to_string()));
        command.stdin(Stdio::null()).stdout(file(&out)?).stderr(file(&err)?).current_dir(folder);
        // In a process group of its own: Ctrl-C reaches only this process, which then ends the rest
        // of the group.
        command.process_group(0);
        let child = spawn(&mut command).map_err(BenchError::io(format!("starting {name}")))?;
        Ok(Self { child, name: name.to_owned(), out, err, is_reaped: false })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends with success, and returns its standard output.
    pub(in crate::patterns) fn finish(self, at_most: Duration, waiter: &Arc<dyn Waiter>) -> Result<String> {
        self.finish_with(0, at_most, waiter)
    }

    /// The same with this exit status.
    pub(in crate::patterns) fn finish_with(
        mut self,
        wanted: i32,
        at_most: Duration,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<String> {
        let began = Instant::now();
        while !self.is_over(LOOK)? {
            if waiter.stop() {
                return Err(BenchError::Stopped { what: WHAT });
            }
            if began.elapsed() > at_most {
                let seconds = at_most.as_secs();
                return Err(self.failed(&format!("has not ended after {seconds} s: {}", self.complaint())));
            }
        }
        let status = self.reap().map_err(BenchError::io(format!("waiting for {}", self.name)))?;
        if status.code() != Some(wanted) {
            return Err(self.failed(&format!("ended with {status}: {}", self.complaint())));
        }
        Ok(self.said())
    }

    /// Waits until a program listens on loopback at a port.
    pub(in crate::patterns) fn wait_for(
        &self,
        port: u16,
        at_most: Duration,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<()> {
        const TABLE: &str = "/proc/net/tcp";
        let began = Instant::now();
        let pause = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        while !is_listening(&fs::read_to_string(TABLE).map_err(BenchError::io(TABLE))?, port) {
            if waiter.stop() {
                return Err(BenchError::Stopped { what: WHAT });
            }
            if self.is_over(pause)? {
                return Err(self.failed(&format!("ended at its start: {}", self.complaint())));
            }
            if began.elapsed() > at_most {
                let seconds = at_most.as_secs();
                return Err(self.failed(&format!(
                    "does not listen at port {port} after {seconds} s: {}",
                    self.complaint()
                )));
            }
        }
        Ok(())
    }

    /// Whether it has ended within this time. It is not reaped here, so that no other process can
    /// have its PID or its group's.
    fn is_over(&self, within: Timespec) -> Result<bool> {
        let failed =
            |error: rustix::io::Errno| BenchError::io(format!("watching {}", self.name))(error.into());
        let watched = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).map_err(failed)?;
        match poll(&mut [PollFd::new(&watched, PollFlags::IN)], Some(&within)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Ends the processes that are left of the group, and then waits for its leader.
    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        // The group may be gone already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.is_reaped = true;
        self.child.wait()
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// Returns the last lines of its standard error or, if that is empty, of its standard output.
    fn complaint(&self) -> String {
        let err = String::from_utf8_lossy(&fs::read(&self.err).unwrap_or_default()).into_owned();
        let text = if err.trim().is_empty() { self.said() } else { err };
        tail(&text)
    }

    fn failed(&self, reason: &str) -> BenchError {
        BenchError::OtherEnd { what: WHAT, reason: format!("{} {reason}", self.name) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            // It is ended by force, so this does not last.
            let _ = self.reap();
        }
        let _ = fs::remove_file(&self.out);
        let _ = fs::remove_file(&self.err);
    }
}

/// The end of a program's output.
pub(super) fn tail(text: &str) -> String {
    let text = text.trim();
    let from = text.len().saturating_sub(COMPLAINT_BYTES);
    let at = text.char_indices().map(|(at, _)| at).find(|at| *at >= from);
    at.and_then(|at| text.get(at..)).unwrap_or("it printed nothing").to_owned()
}

/// Does something while this thread is on one processor: a process that it starts then is there
/// too, and stays.
pub(in crate::patterns) fn on_cpu<T>(
    cpu: usize,
    body: impl FnOnce() -> std::io::Result<T>,
) -> std::io::Result<T> {
    let before = shm::cpu::allowed_cpus().map_err(std::io::Error::other)?;
    shm::cpu::pin_current_thread(cpu).map_err(std::io::Error::other)?;
    let result = body();
    shm::cpu::restore_current_thread(&before).map_err(std::io::Error::other)?;
    result
}

/// Whether a program listens at a port of 127.0.0.1 or of any address, by the kernel's table of
/// IPv4 connections.
fn is_listening(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        let (address, number) = local.and_then(|local| local.split_once(':')).unwrap_or_default();
        state == Some(LISTEN)
            && ["0100007F", "00000000"].contains(&address)
            && u16::from_str_radix(number, 16) == Ok(port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::{Progress, Quiet};

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tieline-running-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn cpu() -> usize {
        crate::cpus::allowed().unwrap()[0]
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_it_said_and_how_it_ended() {
        let folder = folder("said");
        let waiter = Quiet.waiter();
        let run = |script: &str, at_most| {
            let running = Running::start(shell(script), "sh", &folder, cpu()).unwrap();
            running.finish(at_most, &waiter)
        };
        assert_eq!(run("echo good", Duration::from_secs(20)).unwrap(), "good\n");
        let bad = run("echo no more room >&2; exit 3", Duration::from_secs(20)).unwrap_err().to_string();
        assert!(bad.contains("sh ended with") && bad.contains("no more room"), "{bad}");
        let late = run("sleep 60", Duration::ZERO).unwrap_err().to_string();
        assert!(late.contains("has not ended") && late.contains("it printed nothing"), "{late}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    /// The processes that a program has started end with it.
    #[test]
    fn nothing_is_left_of_its_group() {
        let folder = folder("group");
        let told = folder.join("told");
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", told.display());
        let running = Running::start(shell(&script), "sh", &folder, cpu()).unwrap();
        while !told.exists() {
            std::thread::yield_now();
        }
        let child: i32 = fs::read_to_string(&told).unwrap().trim().parse().unwrap();
        drop(running);
        // Ended, or still to be waited for by its present owner.
        let state = || fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        while !(state().is_empty() || state().contains(") Z ") || state().contains(") X ")) {
            std::thread::yield_now();
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_measurement_that_is_stopped_ends_its_program() {
        struct Stop;
        impl Waiter for Stop {
            fn stop(&self) -> bool {
                true
            }
        }
        let folder = folder("stop");
        let stop: Arc<dyn Waiter> = Arc::new(Stop);
        let running = Running::start(shell("sleep 600"), "sh", &folder, cpu()).unwrap();
        let error = running.finish(Duration::from_secs(600), &stop).unwrap_err();
        assert!(matches!(error, BenchError::Stopped { .. }), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_listens() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:2AF8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1\n   \
            1: 0100007F:2AF9 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 13 1\n   \
            2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 14 1\n   \
            3: 0200000A:2AFA 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 15 1\n";
        let ports = [0x2af8, 0x2af9, 80, 0x2afa, 0x2afb].map(|port| is_listening(table, port));
        assert_eq!(ports, [true, false, true, false, false]);
    }

    #[test]
    fn the_thread_goes_back_to_where_it_was() {
        let before = crate::cpus::allowed().unwrap();
        let inside = on_cpu(cpu(), || Ok(crate::cpus::allowed().unwrap())).unwrap();
        assert_eq!(inside, [cpu()]);
        assert_eq!(crate::cpus::allowed().unwrap(), before);
        assert!(on_cpu(9_999_999, || Ok(())).is_err());
    }
}
