//! Programs that do nothing but compute, beside what is tested.

use std::process::{Child, Command, Stdio};

/// So many, until it is dropped; they also end when this program does, however it ends.
pub(crate) struct Computing {
    programs: Vec<Child>,
}

impl Computing {
    pub(crate) fn start(count: usize) -> Self {
        // The helper program computes until its standard input ends.
        let start = || {
            Command::new(env!("CARGO_BIN_EXE_tieline-peer"))
                .arg("compute")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        Self { programs: (0..count).map(|_| start()).collect() }
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        for program in &mut self.programs {
            drop(program.kill());
            drop(program.wait());
        }
    }
}
