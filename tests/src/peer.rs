//! A program of its own, talked to by lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::Cluster;

/// A running `tieline-peer`. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the helper program on a node of the cluster. `program` is `env!("CARGO_BIN_EXE_tieline-peer")`.
    pub fn start(cluster: &Cluster, program: &str, node: usize, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        cluster.set_environment(&mut command);
        let node = cluster.nodes().get(node).context("no such node in this cluster")?;
        command.env("TIELINE_NODE", node.to_string()).args(arguments);
        Self::of(command)
    }

    /// Any program that is talked to in this way.
    pub fn of(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, stdin, stdout })
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            bail!("the helper program ended: {:?}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    /// Waits for a given line.
    pub fn expect(&mut self, wanted: &str) -> Result<()> {
        let line = self.line()?;
        if line != wanted {
            bail!("the helper program said `{line}`, not `{wanted}`");
        }
        Ok(())
    }

    /// Says a line to it.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("standard input is closed")?;
        writeln!(stdin, "{line}")?;
        Ok(stdin.flush()?)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops or continues it.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("no process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Closes its input and waits for its orderly end.
    pub fn finish(mut self) -> Result<std::process::ExitStatus> {
        drop(self.stdin.take());
        Ok(self.child.wait()?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
