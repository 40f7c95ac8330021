//! A process driven by lines: one to its standard input, one from its standard output.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    error::{BenchError, Result},
    progress::Waiter,
};

/// The path of a program of the benchmarks: next to this one, or where an installation puts it.
pub fn find(program: &'static str, what: &'static str) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    // Tests run from a folder below the one with the binaries.
    let places = [
        folder.join(program),
        folder.join("../libexec/tieline").join(program),
        folder.join("..").join(program),
    ];
    let found = places.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| BenchError::Absent {
        what,
        reason: format!("{program} is missing beside {}: `./run build` builds it", own.display()),
    })
}

/// The process. Ends with its handle.
#[derive(Debug)]
pub struct ChildDriver {
    what: &'static str,
    program: &'static str,
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl ChildDriver {
    /// Starts it. `what` is what it measures, for errors.
    pub fn start(mut command: Command, program: &'static str, what: &'static str) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(BenchError::io(program))?;
        let (orders, answers) = (process.stdin.take(), process.stdout.take());
        let Some(answers) = answers else { return Err(ended(what, "it has no standard output")) };
        Ok(Self { what, program, process, orders, answers: BufReader::new(answers) })
    }

    /// Sends it a line.
    pub fn say(&mut self, order: &str) -> Result<()> {
        let Some(orders) = &mut self.orders else { return Err(self.ended("it was ended")) };
        writeln!(orders, "{order}").map_err(BenchError::io(self.program))
    }

    /// Its next line.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(BenchError::io(self.program))?;
        match line.trim() {
            "" => Err(self.ended("it printed nothing")),
            line if line.starts_with("error") => Err(self.ended(line)),
            line => Ok(line.to_owned()),
        }
    }

    /// Returns its next line, which must arrive within this time and before the measurement is
    /// ended.
    pub fn line_within(&mut self, at_most: Duration, waiter: &Arc<dyn Waiter>) -> Result<String> {
        let look = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let began = Instant::now();
        while self.answers.buffer().is_empty() {
            // It writes whole lines, so the first byte is followed by the others.
            let ready = poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&look));
            match ready {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(BenchError::io(self.program)(error.into())),
            }
            if waiter.stop() {
                return Err(BenchError::Stopped { what: self.what });
            }
            if began.elapsed() > at_most {
                return Err(self.ended(&format!("it has not responded for {} s", at_most.as_secs())));
            }
        }
        self.line()
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its next line, which is a number.
    pub fn number(&mut self) -> Result<f64> {
        let line = self.line()?;
        line.parse().map_err(|_| self.ended(&format!("`{line}` is not a number")))
    }

    /// Waits until it reports that it is ready.
    pub fn ready(&mut self) -> Result<()> {
        let said = self.line()?;
        if said == "ready" { Ok(()) } else { Err(self.ended(&format!("`{said}` instead of `ready`"))) }
    }

    fn ended(&self, reason: &str) -> BenchError {
        ended(self.what, reason)
    }
}

impl Drop for ChildDriver {
    fn drop(&mut self) {
        // It ends by itself when there are no more orders, unless it waits for a process that has
        // ended.
        drop(self.orders.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ended(what: &'static str, reason: &str) -> BenchError {
    BenchError::OtherEnd { what, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::{Progress, Quiet};

    fn child_driver(script: &str) -> ChildDriver {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        ChildDriver::start(command, "sh", "test").unwrap()
    }

    #[test]
    fn a_line_that_does_not_come_is_an_error() {
        let waiter = Quiet.waiter();
        let mut child_driver = child_driver("echo first; exec sleep 600");
        assert_eq!(child_driver.line_within(Duration::from_secs(60), &waiter).unwrap(), "first");
        let silent = child_driver.line_within(Duration::ZERO, &waiter).unwrap_err().to_string();
        assert!(silent.contains("has not responded"), "{silent}");
        struct Stop;
        impl Waiter for Stop {
            fn stop(&self) -> bool {
                true
            }
        }
        let stop: Arc<dyn Waiter> = Arc::new(Stop);
        let stopped = child_driver.line_within(Duration::from_secs(600), &stop).unwrap_err();
        assert!(matches!(stopped, BenchError::Stopped { .. }), "{stopped}");
    }

    #[test]
    fn two_lines_at_once_are_two_lines() {
        let waiter = Quiet.waiter();
        let mut child_driver = child_driver("printf '1\\n2\\n'");
        let next =
            |child_driver: &mut ChildDriver| child_driver.line_within(Duration::from_secs(60), &waiter);
        assert_eq!([next(&mut child_driver).unwrap(), next(&mut child_driver).unwrap()], ["1", "2"]);
        assert!(next(&mut child_driver).unwrap_err().to_string().contains("printed nothing"));
    }
}
