//! Runs the examples of a document in a place of their own.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::parse::Example;
use super::pattern;

/// A watchdog, not a measurement: a command that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What came of one example.
#[derive(Debug)]
pub struct Outcome {
    /// Line of the command.
    pub line: usize,
    /// The command.
    pub command: String,
    /// What is wrong, for a reader; `None`: passed.
    pub failure: Option<String>,
}

/// A private directory in which the commands of one document find an empty runtime directory and home.
#[derive(Debug)]
pub struct Sandbox {
    folder: PathBuf,
    search_path: String,
}

impl Sandbox {
    /// A new one, in which `binary` is found under its own name.
    pub fn create(binary: &Path, name: &str) -> Result<Self> {
        let binaries = binary.canonicalize().with_context(|| format!("there is no {}", binary.display()))?;
        let binaries = binaries.parent().unwrap_or(Path::new("/")).display().to_string();
        let search_path = format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default());
        let parent = std::env::temp_dir();
        // Short: the path of a UNIX socket may have 107 bytes.
        let folder = parent.join(format!("tieline-docs-{}-{name}", std::process::id()));
        let make = |path: &Path| {
            DirBuilder::new()
                .mode(0o700)
                .create(path)
                .with_context(|| format!("cannot create {}", path.display()))
        };
        make(&folder)?;
        for inside in ["run", "home"] {
            make(&folder.join(inside))?;
        }
        Ok(Self { folder, search_path })
    }

    /// Runs the examples one after the other; state carries over from one to the next, as in a terminal.
    pub fn run(&self, examples: &[Example]) -> Vec<Outcome> {
        let outcomes = examples.iter().map(|example| Outcome {
            line: example.line,
            command: example.command.clone(),
            failure: self.failure_of(example, LIMIT),
        });
        outcomes.collect()
    }

    fn failure_of(&self, example: &Example, limit: Duration) -> Option<String> {
        let (status, output) = match self.execute(&example.command, limit) {
            Ok(ran) => ran,
            Err(error) => return Some(format!("{error:#}")),
        };
        if !status.success() {
            return Some(format!("it ended with {status}, and printed:\n{output}"));
        }
        if !pattern::matches(&example.expected, &output) {
            let expected = example.expected.join("\n");
            return Some(format!("the document says:\n{expected}\nit printed:\n{output}"));
        }
        None
    }

    /// Runs one command line. Output goes to a file: a daemon that keeps it open must not keep the test
    /// waiting.
    fn execute(&self, command: &str, limit: Duration) -> Result<(ExitStatus, String)> {
        let path = self.folder.join("output");
        let output = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut child = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder.join("home"))
            .env("PATH", &self.search_path)
            .env("HOME", self.folder.join("home"))
            .env("TIELINE_RUNTIME_DIR", self.folder.join("run"))
            .env("NO_COLOR", "1")
            .env_remove("TIELINE_CLUSTER")
            .env_remove("TIELINE_NODE")
            .env_remove("TIELINE_CONFIG")
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("cannot duplicate a descriptor")?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .context("cannot start sh")?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().context("cannot wait for sh")? {
                break status;
            }
            if start.elapsed() > limit {
                // The group is that of this child: nobody else's processes are in it.
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                anyhow::bail!("it did not end within {} s and was killed", limit.as_secs());
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Takes down every cluster that the document has left up.
    fn take_down(&self) {
        let Ok(clusters) = fs::read_dir(self.folder.join("run")) else { return };
        for cluster in clusters.flatten() {
            let name = cluster.file_name().to_string_lossy().into_owned();
            let _ = self.execute(&format!("tieline down --cluster '{name}'"), Duration::from_secs(30));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.take_down();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(command: &str, expected: &[&str]) -> Example {
        Example {
            line: 1,
            command: command.into(),
            expected: expected.iter().map(|line| (*line).into()).collect(),
        }
    }

    fn sandbox(name: &str) -> Sandbox {
        Sandbox::create(&std::env::current_exe().unwrap(), name).unwrap()
    }

    #[test]
    fn commands_are_judged_by_status_and_output() {
        let sandbox = sandbox("judge");
        let outcomes = sandbox.run(&[
            example("echo one; echo two >&2", &["one", "two"]),
            example("echo one", &["two"]),
            example("exit 3", &[]),
            example("false; echo \"exit status $?\"", &["exit status 1"]),
            example("cat; pwd", &[".../home"]),
            example("echo made >file; cat file", &["made"]),
            example("cat file", &["made"]),
        ]);
        let passed: Vec<bool> = outcomes.iter().map(|outcome| outcome.failure.is_none()).collect();
        assert_eq!(passed, [true, false, false, true, true, true, true], "{outcomes:#?}");
        let why = outcomes[2].failure.as_deref().unwrap();
        assert!(why.contains("exit status: 3"), "{why}");
    }

    #[test]
    fn a_hanging_command_is_ended_and_a_daemon_does_not_hold_the_rest_up() {
        let sandbox = sandbox("hang");
        let why = sandbox.failure_of(&example("sleep 100", &[]), Duration::from_millis(50)).unwrap();
        assert!(why.contains("killed"), "{why}");
        let started = sandbox.failure_of(&example("sleep 2 & echo up", &["up"]), LIMIT);
        assert_eq!(started, None);
    }

    #[test]
    fn nothing_is_left_behind() {
        let sandbox = sandbox("clean");
        let folder = sandbox.folder.clone();
        sandbox.run(&[example("echo x >\"$TIELINE_RUNTIME_DIR/stale\"", &[])]);
        drop(sandbox);
        assert!(!folder.exists());
    }

    #[test]
    fn a_missing_binary_is_named() {
        let error = Sandbox::create(Path::new("nowhere/tieline"), "missing").unwrap_err();
        assert!(error.to_string().contains("nowhere/tieline"), "{error}");
    }
}
