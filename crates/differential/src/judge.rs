//! What a difference is: an outcome under the library that the kernel alone does not produce, however often it is asked.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::compare::canonical;
use crate::control::{Lane, Side};
use crate::program::Program;

/// How patient a repetition is: long enough for work that the kernel puts off to be done.
const PATIENCE: Duration = Duration::from_millis(4);

/// What a comparison came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same at once.
    Same,
    /// Not the same at first; repeated, either side does what the other does. Chance, or a fault that is rare.
    Unstable(Finding),
    /// Repeated, the library never does what the kernel does.
    Different(Finding),
}

/// One outcome of each side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Without the library.
    pub plain: Vec<String>,
    /// Under it.
    pub library: Vec<String>,
}

/// Both sides, ready to run programs.
#[derive(Debug)]
pub struct Judge {
    plain: Lane,
    other: Lane,
}

impl Judge {
    /// Starts both sides; programs run on this processor unless they use all.
    ///
    /// # Errors
    ///
    /// A side cannot be started.
    pub fn new(plain: Side, other: Side, cpu: usize) -> Result<Self> {
        Ok(Self { plain: Lane::new(plain, cpu)?, other: Lane::new(other, cpu)? })
    }

    /// Whether programs have a network of their own.
    #[must_use]
    pub fn has_own_network(&self) -> bool {
        self.plain.has_own_network() && self.other.has_own_network()
    }

    /// Runs a program on both sides; if they differ, so many times again.
    ///
    /// # Errors
    ///
    /// The plain side does not run.
    pub fn compare(&mut self, program: &Program, repetitions: usize) -> Result<Verdict> {
        self.repeat(program, repetitions, PATIENCE)
    }

    /// The same in a hurry, for one who asks often and asks [`Self::compare`] at the end.
    ///
    /// # Errors
    ///
    /// The plain side does not run.
    pub fn glance(&mut self, program: &Program) -> Result<Verdict> {
        self.repeat(program, 1, Duration::ZERO)
    }

    fn repeat(&mut self, program: &Program, repetitions: usize, patience: Duration) -> Result<Verdict> {
        let mut plain = vec![self.run_plain(program, Duration::ZERO)?];
        let mut library = vec![self.run_other(program, Duration::ZERO)];
        if plain == library {
            return Ok(Verdict::Same);
        }
        // A promise is never broken by chance, so once is enough.
        if breaks_a_promise(&library[0]) && !breaks_a_promise(&plain[0]) {
            return Ok(Verdict::Different(Finding {
                plain: plain.swap_remove(0),
                library: library.swap_remove(0),
            }));
        }
        // What hangs takes long each time, and is hardly chance.
        let hangs = library.iter().flatten().any(|line| line.contains("hangs"));
        for _ in 0..if hangs { repetitions.min(1) } else { repetitions } {
            plain.push(self.run_plain(program, patience)?);
            library.push(self.run_other(program, patience));
            if library.iter().any(|outcome| plain.contains(outcome)) {
                let finding = Finding { plain: plain.swap_remove(0), library: library.swap_remove(0) };
                return Ok(Verdict::Unstable(finding));
            }
        }
        let last = |outcomes: Vec<Vec<String>>| outcomes.into_iter().next_back().unwrap_or_default();
        Ok(Verdict::Different(Finding { plain: last(plain), library: last(library) }))
    }

    fn run_plain(&mut self, program: &Program, patience: Duration) -> Result<Vec<String>> {
        Ok(canonical(&self.plain.run(program, patience).context("without a library")?))
    }

    /// A library that takes the server with it is a difference, not an error.
    fn run_other(&mut self, program: &Program, patience: Duration) -> Vec<String> {
        match self.other.run(program, patience) {
            Ok(log) => canonical(&log),
            Err(error) => vec![format!("{error:#}")],
        }
    }
}

/// A race that lost something, or does not end.
fn breaks_a_promise(outcome: &[String]) -> bool {
    outcome.iter().any(|line| line.starts_with("broken: "))
}
