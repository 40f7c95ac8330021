//! Runs a command on a host, by the program `ssh`.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::error::{FleetError, Result};

/// Until a connection stands.
const CONNECT_S: u32 = 10;
/// How often it is asked whether all that is to end.
const LOOK: Duration = Duration::from_millis(50);
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
    /// Once it returns true, commands are ended.
    pub stop: fn() -> bool,
}

impl Ssh {
    /// The usual program.
    pub fn new(limit: Duration, stop: fn() -> bool) -> Self {
        Self { program: "ssh".into(), limit, stop }
    }

    /// Runs a command on a host with this input: what it prints, if it ends with one of these exit statuses.
    ///
    /// # Errors
    /// There is no ssh; the host cannot be reached; the command fails or takes too long, or is ended.
    pub(crate) fn run(&self, host: &str, words: &[&str], input: &str, fine: &[i32]) -> Result<String> {
        let mut command = Command::new(&self.program);
        // Nobody is there to answer a question.
        command.args(["-T", "-o", "BatchMode=yes", "-o", &format!("ConnectTimeout={CONNECT_S}"), "--", host]);
        command.arg(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
        let ended = self.finish(command, input)?;
        match ended {
            Ended::With(Some(status), out, _) if fine.contains(&status) => Ok(out),
            Ended::With(status, out, err) => Err(on(host, why(host, status, &out, &err, words))),
            Ended::TooLate => Err(on(
                host,
                format!(
                    "`{}` was not done after {} s: see what hangs there",
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

    fn finish(&self, mut command: Command, input: &str) -> Result<Ended> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child =
            child.map_err(|source| FleetError::NoSsh { program: self.program.clone(), source })?;
        // Short: it fits into the pipe. What ends before it has read it, ends with an error of its own.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        let (tell, told) = channel();
        let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let err = std::thread::scope(|inner| {
                    let err = inner.spawn(err);
                    let out = out();
                    (out, err.join().unwrap_or_default())
                });
                let _ = tell.send(err);
            });
            let until = Instant::now() + self.limit;
            loop {
                match told.recv_timeout(LOOK) {
                    Ok((out, err)) => return Ok(Ended::With(wait(&mut child), out, err)),
                    Err(RecvTimeoutError::Disconnected) => return Ok(Ended::TooLate),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let is_late = Instant::now() >= until;
                if is_late || (self.stop)() {
                    // The pipes end with it, and with them the readers.
                    let _ = child.kill();
                    wait(&mut child);
                    return if is_late { Ok(Ended::TooLate) } else { Err(FleetError::Stopped) };
                }
            }
        })
    }
}

enum Ended {
    /// Status (none: a signal ended it), standard output, standard error.
    With(Option<i32>, String, String),
    TooLate,
}

fn wait(child: &mut Child) -> Option<i32> {
    child.wait().ok().and_then(|status| status.code())
}

fn reader<R: Read + Send>(from: Option<R>) -> impl FnOnce() -> String + Send {
    move || {
        let mut bytes = Vec::new();
        let _ = from.map(|from| from.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn on(host: &str, why: String) -> FleetError {
    FleetError::OnHost { host: host.to_owned(), why }
}

/// What a command says of its failure, on one line that does nothing to a terminal.
fn why(host: &str, status: Option<i32>, out: &str, err: &str, words: &[&str]) -> String {
    let said = error_of(out).or_else(|| last_line(err)).unwrap_or_else(|| "it does not say why".to_owned());
    match status {
        Some(SSH_FAILED) => {
            format!("ssh cannot log in there: {said}: try `ssh {host} true`, which must ask nothing")
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

fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(plain(line.strip_prefix("tieline: ").unwrap_or(line)))
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WHY_CHARS_MAX).collect()
}

/// A word for the shell at the other end.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.contains(['[', ']']) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssh(script: &str, limit: Duration) -> (tempfile::TempDir, Ssh) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ssh");
        // By its interpreter: a file that was just written may still be open for writing in a child of another thread.
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let program = path.to_str().unwrap().to_owned();
        (folder, Ssh { program, limit, stop: || false })
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
        assert!(said.contains("was not done after 0 s"), "{said}");
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

    #[test]
    fn an_ssh_that_is_not_there_is_named_with_its_package() {
        let ssh = Ssh { program: "/nonexistent/ssh".into(), ..Ssh::new(Duration::from_secs(1), || false) };
        let said = ssh.run("alpha", &["true"], "", &[0]).unwrap_err().to_string();
        assert!(said.contains("openssh-client"), "{said}");
    }
}
