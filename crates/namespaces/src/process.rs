//! Identifies a process by its PID and its time of start, because the kernel may give the PID to another
//! process later.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process, as this machine's `/proc` names it: its number, and when it was started, in ticks since the
/// machine was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number outside of all namespaces.
    pub pid: u32,
    /// When it was started.
    pub start: u64,
}

impl Identity {
    /// This process, by the `/proc` that is mounted: to be asked while that is still the machine's own.
    pub(crate) fn own() -> std::io::Result<Self> {
        let link = std::fs::read_link("/proc/self")?;
        let pid = link.to_str().and_then(|text| text.parse().ok()).ok_or(std::io::ErrorKind::InvalidData)?;
        let start = start_of(pid).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Self { pid, start })
    }

    /// The process, if it still is that one.
    pub(crate) fn open(self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let fd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Asked afterwards: what has the number and the time now is what was opened, or that has ended.
        (start_of(self.pid) == Some(self.start)).then_some(fd)
    }
}

/// The 22nd field of the process's line.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything, parentheses too.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Waits so long until the process has ended, and with it all that it holds.
pub(crate) fn has_ended(process: &OwnedFd, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut fds, left.as_ref()) {
            Ok(1) => return true,
            Err(rustix::io::Errno::INTR) => {}
            _ => return false,
        }
    }
}

pub(crate) fn signal(process: &OwnedFd, signal: Signal) -> std::io::Result<()> {
    Ok(pidfd_send_signal(process, signal)?)
}

/// This process's own namespace of process numbers, to come back to.
pub(crate) fn own_pids() -> std::io::Result<File> {
    File::open("/proc/self/ns/pid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_that_one_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity { pid: child.id(), start: start_of(child.id()).unwrap() };
        let process = identity.open().unwrap();
        assert!(Identity { start: identity.start + 1, ..identity }.open().is_none());
        assert!(!has_ended(&process, Duration::ZERO));
        signal(&process, Signal::KILL).unwrap();
        assert!(has_ended(&process, Duration::from_secs(600)));
        child.wait().unwrap();
        assert!(identity.open().is_none());
        assert_eq!(Identity::own().unwrap().pid, std::process::id());
    }
}
