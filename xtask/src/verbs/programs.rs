//! `./run test-programs`: programs of others, plain and under the sockets library.

use std::path::Path;
use std::process::Command;

use super::{Outcome, become_program, cannot, is_executable, must, release};

/// Options with which the test prints something and ends; nothing needs to be built for them but the test.
const ONLY_PRINTS: [&str; 4] = ["-h", "--help", "--list", "--packages"];

/// Builds the test, and what it tests, and becomes it.
pub fn run(options: &[&str], target: &Path) -> Outcome {
    must(
        Command::new("cargo").args(["build", "--release", "--locked", "--package", "tieline-programs"]),
        "the test does not build; the compiler's reason stands above.",
    )?;
    let tests = target.join("release/tieline-test-programs");
    if !is_executable(&tests) {
        return cannot(format!(
            "no test at {} after the build of package tieline-programs.",
            tests.display()
        ));
    }
    let mut command = Command::new(&tests);
    if !options.iter().any(|word| ONLY_PRINTS.contains(word)) {
        release::build(target)?;
        command.arg("--tieline").arg(target.join("release/tieline"));
    }
    Err(become_program(command.args(options)))
}
