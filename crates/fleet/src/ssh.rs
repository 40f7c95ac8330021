//! Runs a command on a host, by the program `ssh`.

use std::process::Command;
use std::time::Duration;

use crate::children::{How, Input, Job, Limits, run_all};
use crate::connections::Kept;
use crate::error::{FleetError, Result};

/// Until a connection stands, if nothing else is said.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// A host that says nothing for so long, so often, is gone. Without this a command on it would never end.
const ALIVE: [&str; 2] = ["ServerAliveInterval=5", "ServerAliveCountMax=3"];
/// More is no answer to any command that is run here.
const OUTPUT_BYTES_MAX: u64 = 4 << 20;
/// Of a failure as much is shown.
const WHY_CHARS_MAX: usize = 300;
/// ssh's own failures, such as no connection.
const SSH_FAILED: i32 = 255;
/// A shell's: there is no such program.
const NOT_FOUND: i32 = 127;

/// How hosts are reached.
#[derive(Debug, Clone)]
pub struct Ssh {
    /// The program.
    pub program: String,
    /// How long a command may take.
    pub limit: Duration,
    /// How long a connection may take until it stands.
    pub connect: Duration,
    /// Where connections are kept for the next command; none: each command makes its own.
    pub kept: Option<Kept>,
    /// Once it returns true, commands are ended.
    pub stop: fn() -> bool,
}

impl Ssh {
    /// The usual program.
    pub fn new(limit: Duration, stop: fn() -> bool) -> Self {
        Self { program: "ssh".into(), limit, connect: CONNECT, kept: None, stop }
    }

    /// The program with its options, up to the host; the command is to follow. Only what these commands rely
    /// on is set: all else is as the user has configured it.
    pub(crate) fn command(&self, host: &str) -> Command {
        let mut command = Command::new(&self.program);
        // Nobody is there to answer a question.
        command.args(["-T", "-o", "BatchMode=yes", "-o"]);
        // ssh counts in whole seconds, and 0 stands for no limit.
        command.arg(format!("ConnectTimeout={}", self.connect.as_secs().max(1)));
        // What it says of itself is read: not less than errors, and not more.
        for option in ALIVE.iter().chain(&["LogLevel=ERROR"]) {
            command.args(["-o", option]);
        }
        if let Some(kept) = &self.kept {
            command.args(kept.options());
        }
        command.args(["--", host]);
        command
    }

    /// Runs a command on a host with this input: what it prints, if it ends with one of these exit statuses.
    ///
    /// # Errors
    /// There is no ssh; the host cannot be reached; the command fails or takes too long, or is ended.
    pub(crate) fn run(&self, host: &str, words: &[&str], input: &str, fine: &[i32]) -> Result<String> {
        let mut command = self.command(host);
        command.arg(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
        let ended = self.finish(command, input)?;
        match ended {
            Ended::With(Some(status), out, _) if fine.contains(&status) => Ok(out),
            Ended::With(status, out, err) => Err(on(host, why(host, status, &out, &err, words))),
            Ended::TooLate => Err(on(
                host,
                format!(
                    "`{}` did not end within {} s: check on that host what it waits for",
                    words.join(" "),
                    self.limit.as_secs()
                ),
            )),
        }
    }

    /// The host name or address to which ssh connects for a destination, by its configuration.
    pub(crate) fn name_of(&self, host: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["-G", "--", host]);
        let Ended::With(_, out, _) = self.finish(command, "")? else {
            return Err(on(host, "`ssh -G` does not end".into()));
        };
        let name = out.lines().find_map(|line| line.strip_prefix("hostname "));
        Ok(name.unwrap_or(host).trim().to_owned())
    }

    fn finish(&self, command: Command, input: &str) -> Result<Ended> {
        let input = Input::Bytes { bytes: input.as_bytes().to_vec(), stays_open: false };
        let mut job = Some(Job { command, input, begins: None, ends: None });
        let limits = Limits { at_once: 1, time: Some(self.limit), stop: self.stop };
        let mut outcome = Err(FleetError::Stopped);
        run_all(
            &[0],
            limits,
            |_| job.take().ok_or_else(|| std::io::ErrorKind::NotFound.into()),
            |_, mut ended| {
                let text = |spool: &mut crate::spool::Spool| {
                    String::from_utf8_lossy(&spool.first(OUTPUT_BYTES_MAX).unwrap_or_default()).into_owned()
                };
                let (out, err) = (text(&mut ended.out), text(&mut ended.err));
                outcome = match ended.how {
                    How::Exited(status) => Ok(Ended::With(status, out, err)),
                    How::LeftOpen => Ok(Ended::With(Some(0), out, err)),
                    How::TimedOut => Ok(Ended::TooLate),
                    How::Stopped => Err(FleetError::Stopped),
                    How::NotStarted(source) => {
                        Err(FleetError::NoSsh { program: self.program.clone(), source })
                    }
                };
            },
            || {},
        );
        outcome
    }
}

enum Ended {
    /// Status (none: a signal ended it), standard output, standard error.
    With(Option<i32>, String, String),
    TooLate,
}

fn on(host: &str, why: String) -> FleetError {
    FleetError::OnHost { host: host.to_owned(), why }
}

/// What a command says of its failure, on one line that does nothing to a terminal.
fn why(host: &str, status: Option<i32>, out: &str, err: &str, words: &[&str]) -> String {
    let said = error_of(out).or_else(|| last_line(err)).unwrap_or_else(|| "it does not say why".to_owned());
    match status {
        Some(SSH_FAILED) => {
            format!("ssh cannot log in there: {said}: try `ssh {host} true`, which must not prompt")
        }
        Some(NOT_FOUND) => {
            format!("{said}: install tieline there, where the PATH of `ssh {host} COMMAND` finds it")
        }
        Some(_) => said,
        None => format!("`{}` was ended by a signal: {said}", words.join(" ")),
    }
}

/// The field `error` of what `tieline --json` prints.
fn error_of(out: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(out).ok()?;
    Some(plain(value.get("error")?.as_str()?))
}

pub(crate) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(plain(line.strip_prefix("tieline: ").unwrap_or(line)))
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WHY_CHARS_MAX).collect()
}

/// A word for the shell at the other end.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.contains(['[', ']']) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn ssh(script: &str, limit: Duration) -> (tempfile::TempDir, Ssh) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ssh");
        // By its interpreter: a file that was just written may still be open for writing in a child of
        // another thread.
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let program = path.to_str().unwrap().to_owned();
        (folder, Ssh { program, ..Ssh::new(limit, || false) })
    }

    fn run(script: &str, limit_ms: u64) -> std::result::Result<String, String> {
        let (_folder, ssh) = ssh(&format!("#!/bin/sh\n{script}\n"), Duration::from_millis(limit_ms));
        loop {
            match ssh.run("alpha", &["tieline", "status", "it's"], "token\n", &[0]) {
                Err(FleetError::NoSsh { source, .. }) if source.raw_os_error() == Some(26) => {}
                other => return other.map_err(|error| error.to_string()),
            }
        }
    }

    #[test]
    fn a_command_gets_its_words_and_its_input() {
        let said = run("for word; do echo \"$word\"; done; cat", 60_000).unwrap();
        assert!(said.starts_with("-T\n-o\nBatchMode=yes\n"), "{said}");
        assert!(said.ends_with("--\nalpha\ntieline status 'it'\\''s'\ntoken\n"), "{said}");
    }

    #[test]
    fn each_failure_says_what_to_do() {
        for (script, wanted) in [
            (
                "echo 'No route' >&2; exit 255",
                "alpha: ssh cannot log in there: No route: try `ssh alpha true`",
            ),
            ("echo 'sh: tieline: not found' >&2; exit 127", "not found: install tieline there"),
            ("echo '{\"error\": \"no keys\"}'; echo x >&2; exit 4", "alpha: no keys"),
            ("printf 'a\\033[31m\\n' >&2; exit 4", "alpha: a[31m"),
            ("exit 4", "it does not say why"),
            ("kill -9 $$", "was ended by a signal"),
        ] {
            let said = run(script, 60_000).unwrap_err();
            assert!(said.contains(wanted), "{script}: {said}");
        }
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let said = run("exec sleep 600", 200).unwrap_err();
        assert!(said.contains("did not end within 0 s"), "{said}");
        let (_folder, ssh) = ssh("#!/bin/sh\nexec sleep 600\n", Duration::from_secs(600));
        let stopped = Ssh { stop: || true, ..ssh };
        let ended = loop {
            match stopped.run("alpha", &["true"], "", &[0]) {
                Err(FleetError::NoSsh { source, .. }) if source.raw_os_error() == Some(26) => {}
                other => break other,
            }
        };
        assert!(matches!(ended, Err(FleetError::Stopped)), "{ended:?}");
    }

    /// An ssh that reads nothing, one whose helpers keep its pipes open, and one that closes them and stays.
    #[test]
    fn nothing_is_waited_for_without_a_limit() {
        let began = Instant::now();
        for (script, ends_well) in [
            ("exec sleep 600", false),
            ("sleep 600 >/dev/null </dev/null & exec sleep 600", false),
            ("exec >&- 2>&-; exec sleep 600", false),
            ("setsid sleep 2 & echo done", true),
        ] {
            let (_folder, ssh) = ssh(&format!("#!/bin/sh\n{script}\n"), Duration::from_millis(300));
            let said = loop {
                match ssh.run("alpha", &["true"], &"x".repeat(300_000), &[0]) {
                    Err(FleetError::NoSsh { source, .. }) if source.raw_os_error() == Some(26) => {}
                    other => break other,
                }
            };
            assert_eq!(said.is_ok(), ends_well, "{script}: {said:?}");
        }
        // Without its limits it would be minutes.
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn an_ssh_that_is_not_there_is_named_with_its_package() {
        let ssh = Ssh { program: "/nonexistent/ssh".into(), ..Ssh::new(Duration::from_secs(1), || false) };
        let said = ssh.run("alpha", &["true"], "", &[0]).unwrap_err().to_string();
        assert!(said.contains("openssh-client"), "{said}");
    }
}
