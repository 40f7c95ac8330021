//! C programs under test: compiled with `cc`, linked against the library under test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tieline_tests::Cluster;
use tieline_tests::cluster::tieline_binary;

/// A compiled program; its file goes when it is dropped.
pub(crate) struct Program {
    _dir: tempfile::TempDir,
    file: PathBuf,
}

impl Program {
    /// Compiles `c/<name>.c`.
    pub(crate) fn compile(name: &str) -> Result<Self> {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let binary = tieline_binary()?;
        let libraries = binary.parent().context("a binary in no folder")?;
        ensure!(
            libraries.join("libsisci.so").is_file(),
            "libsisci.so is not built: run `cargo build -p sisci -p cli` (with --release for a release test)"
        );
        let dir = tempfile::Builder::new().prefix("tieline-test-").tempdir()?;
        let file = dir.path().join(name);
        let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-D_GNU_SOURCE"])
            .arg("-I")
            .arg(tests.join("../include/sisci"))
            .arg("-o")
            .arg(&file)
            .arg(tests.join("sisci_more/c").join(format!("{name}.c")))
            .arg("-L")
            .arg(libraries)
            .arg("-lsisci")
            .arg(format!("-Wl,-rpath,{}", libraries.display()))
            .output()
            .context("running the C compiler `cc`: is it installed?")?;
        ensure!(output.status.success(), "{name}.c: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { _dir: dir, file })
    }

    /// Starts it on the `index`-th node.
    pub(crate) fn start(&self, cluster: &Cluster, index: usize, arguments: &[&str]) -> Result<Running> {
        let mut command = Command::new(&self.file);
        command.args(arguments);
        cluster.set_environment(&mut command);
        command.env("TIELINE_NODE", ((index + 1) * 4).to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (said, told) = (child.stdout.take(), child.stdin.take());
        let (said, told) = (said.context("no output")?, told.context("no input")?);
        Ok(Running { child, said: BufReader::new(said), told })
    }

    /// Runs it to its good end.
    pub(crate) fn run(&self, cluster: &Cluster, index: usize, arguments: &[&str]) -> Result<()> {
        let mut running = self.start(cluster, index, arguments)?;
        running.hear("done")?;
        running.end()
    }
}

/// A program that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
    told: ChildStdin,
}

impl Running {
    /// Its next line.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.said.read_line(&mut line)? == 0 {
            bail!("it printed nothing more, and ended with {}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    /// Its next line is this one.
    pub(crate) fn hear(&mut self, expected: &str) -> Result<()> {
        let line = self.line()?;
        ensure!(line == expected, "expected `{expected}`, it said `{line}`");
        Ok(())
    }

    /// Says a line to it.
    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.told, "{line}")?)
    }

    /// Ends it without a word.
    #[allow(dead_code)]
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// How it ends.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// It ends well.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = self.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
