//! Programs that a test writes or copies, and then starts.
//!
//! The file is written by a process of its own. Written by the test itself, its open descriptor is inherited
//! by whatever another test starts at that moment, until that process calls `execve`; till then the kernel
//! refuses to start the file: "Text file busy".

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Copies a program to where everyone may execute it.
///
/// # Errors
///
/// If it cannot be copied.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let output = Command::new("install").args(["-m", "755"]).arg(from).arg(to).output()?;
    ensure!(output.status.success(), "{}: {}", to.display(), String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Writes a file with these bytes and this mode: a script, for example.
///
/// # Errors
///
/// If it cannot be written.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    let mut command = Command::new("install");
    command.arg("-m").arg(format!("{mode:o}")).arg("/dev/stdin").arg(path);
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("its input")?.write_all(bytes.as_ref())?;
    ensure!(child.wait()?.success(), "{} cannot be written", path.display());
    Ok(())
}
