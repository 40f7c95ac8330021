//! Runs a command in a host.
//!
//! Two processes: the one that the user has started stays outside, so that it has the status of the command,
//! and passes signals on; the other one is a process of the host from its first instruction on, and ends with
//! the host.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

use node_client::runtime_dir::{ClusterDir, ENV_CLUSTER};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process, pidfd_open, set_parent_process_death_signal,
};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{NamespacesError, Result};
use crate::state::Host;
use crate::{ENTER, host};

/// As a shell and env(1) say it: there is no such program; or it cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// It could not be entered.
const CANNOT: u8 = 4;

/// Runs a command in a host of this cluster, in the same working directory if the host sees it: the exit
/// status of the command, or 128 and the signal that ended it. To be called while this process has one
/// thread.
///
/// # Errors
/// This process may not, or the host is gone.
pub fn enter(dir: &ClusterDir, host: &Host, command: &[OsString]) -> Result<u8> {
    let gone = || NamespacesError::HostGone { name: host.name.clone() };
    let process = host.process.open().ok_or_else(gone)?;
    let program = std::env::current_exe().map_err(NamespacesError::io("read", "/proc/self/exe"))?;
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let failed = || NamespacesError::io("run", "a command in a host");
    // Before there is a child, so that its end is noticed. From a keyboard it gets the same signals itself.
    let mut signals = Signals::new([SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP]).map_err(failed())?;
    move_into_thread_name_spaces(process.as_fd(), ThreadNameSpaceType::PROCESS_ID).map_err(|errno| {
        match errno {
            rustix::io::Errno::SRCH => gone(),
            source => NamespacesError::Namespace { what: "a process of the host", source },
        }
    })?;
    let mut inside = Command::new(program);
    inside.arg(ENTER).arg(&host.name).arg(dir.cluster().as_str()).arg(here).args(command);
    // A host whose first process was killed takes no new ones.
    let mut child = inside.spawn().map_err(|error| match error.kind() {
        ErrorKind::OutOfMemory => gone(),
        _ => failed()(error),
    })?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed())? {
            return Ok(status_of(status));
        }
        for signal in signals.wait() {
            if let (SIGTERM | SIGHUP, Some(signal)) = (signal, Signal::from_named_raw(signal)) {
                // As long as it was not waited for, the number is its own.
                let _ = kill_process(Pid::from_child(&child), signal);
            }
        }
    }
}

fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(CANNOT)
}

/// This process is in the host's namespace of processes: enters the others, and becomes the command.
pub(crate) fn inside(words: &[OsString]) -> u8 {
    let [name, cluster, here, program, arguments @ ..] = words else { return CANNOT };
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid().is_some() {
        // The process outside, whose number is not known in here, has ended before that.
        return CANNOT;
    }
    if let Err(error) = enter_all() {
        tell(&format!(
            "{} cannot be entered: {error}: see whether it runs with `tieline status`",
            name.display()
        ));
        return CANNOT;
    }
    if std::env::set_current_dir(here).is_err() {
        tell(&format!("{} is not there in {}: the command runs in /", here.display(), name.display()));
        let _ = std::env::set_current_dir(Path::new("/"));
    }
    let mut command = Command::new(program);
    command.args(arguments);
    host::environment(&mut command);
    command.env(ENV_CLUSTER, cluster).env("PATH", path_with_this_program());
    let error = command.exec();
    tell(&not_run(name, program, &error));
    if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// The search path of this process, in which the folder of this program comes last: commands of tieline are
/// found there, as they were outside, by whatever path.
fn path_with_this_program() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().ok();
    if let Some(folder) = own.as_deref().and_then(Path::parent) {
        if !path.is_empty() {
            path.push(":");
        }
        path.push(folder);
    }
    path
}

fn not_run(name: &OsStr, program: &OsStr, error: &std::io::Error) -> String {
    let path = Path::new(program);
    let next = match error.kind() {
        ErrorKind::NotFound if path.components().count() < 2 => {
            "no folder of PATH has it: install it, or give its path"
        }
        ErrorKind::NotFound if path.exists() => {
            "its interpreter is not there: see the first line of the script, or `file` for a program's loader"
        }
        ErrorKind::NotFound => {
            "correct the path; a host does not see the machine's files in /tmp, /var/tmp, /run and /dev/shm"
        }
        ErrorKind::PermissionDenied if path.is_dir() => "it is a folder: name a program in it",
        ErrorKind::PermissionDenied => "make it executable (`chmod +x`)",
        _ => "it is no program of this machine, and no script that begins with `#!`",
    };
    let errno = rustix::io::Errno::from_io_error(error);
    let why = errno.map_or_else(|| error.to_string(), |errno| errno.to_string());
    format!("{} cannot be run in {}: {why}: {next}", program.display(), name.display())
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "tieline: {text}");
}

fn enter_all() -> rustix::io::Result<()> {
    // The first process of the namespace that this one is in: it is the host's, whatever happens to others.
    let first = pidfd_open(Pid::INIT, PidfdFlags::empty())?;
    let all = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION;
    move_into_thread_name_spaces(first.as_fd(), all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_that_of_the_command() {
        let status = |raw| status_of(ExitStatus::from_raw(raw));
        assert_eq!((status(0), status(3 << 8), status(9)), (0, 3, 137));
    }

    #[test]
    fn what_to_do_depends_on_what_is_wrong() {
        let said = |program: &str, errno| {
            not_run("host1".as_ref(), program.as_ref(), &std::io::Error::from_raw_os_error(errno))
        };
        for (program, errno, wanted) in [
            ("x", 2, "no folder of PATH has it"),
            ("/tmp/nothing-there/x", 2, "correct the path"),
            ("/proc/self/exe", 2, "its interpreter is not there"),
            ("/proc", 13, "it is a folder"),
            ("/proc/version", 13, "make it executable"),
            ("/proc/version", 8, "no script that begins with `#!`"),
        ] {
            let said = said(program, errno);
            assert!(said.starts_with(&format!("{program} cannot be run in host1: ")), "{said}");
            assert!(said.contains(wanted), "{said}");
        }
    }
}
