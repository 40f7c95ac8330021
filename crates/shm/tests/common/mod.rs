//! What the tests share: running one test again as a process of its own.

#![allow(dead_code)]

use std::process::{Command, Stdio};

const ROLE: &str = "TIELINE_SHM_TEST_ROLE";

/// Whether this process was started by [`again`] in this role.
pub(crate) fn is_child(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|value| value == role)
}

/// A command that runs the named test of this very binary in a process of its own.
pub(crate) fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).stdin(Stdio::piped());
    command
}

/// Runs the named test in a process of its own and fails with its output if it failed there.
pub(crate) fn must_pass_alone(test: &str, role: &str) {
    let output = again(test, role).stdin(Stdio::null()).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test} as {role}: {}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{test} did not run: {text}");
}
