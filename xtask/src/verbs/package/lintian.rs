//! Checks packages by Lintian, Debian's own checker.

use std::path::PathBuf;
use std::process::Command;

use super::super::{Outcome, Stop, found, say};

/// Whether it finds nothing; where it is not installed that is said.
pub(super) fn check(files: &[PathBuf]) -> Outcome {
    if found("lintian").is_none() {
        say("not checked by lintian, which is not installed: apt-get install lintian");
        return Ok(());
    }
    let mut lintian = Command::new("lintian");
    // Root, as in a container, is warned of itself otherwise.
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]).args(files);
    let output =
        lintian.output().map_err(|error| Stop::Cannot(format!("lintian cannot be started: {error}")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().chain(String::from_utf8_lossy(&output.stderr).lines()).for_each(say);
    if output.status.success() {
        say("lintian finds no error and no warning");
        return Ok(());
    }
    say(
        "lintian has found what stands above: mend it, or say in packaging/debian/PACKAGE.lintian-overrides why it is right",
    );
    Err(Stop::Status(1))
}
