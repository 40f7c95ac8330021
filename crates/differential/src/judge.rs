//! Decides what counts as a difference: an outcome under the library that the kernel alone does not
//! produce, however often it is asked.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::compare::{canonical, without_names};
use crate::control::{Lane, Side};
use crate::program::Program;
use crate::weight::{self, Outcome};

/// How patient a repetition is: long enough for work that the kernel puts off to be done.
const PAUSE: Duration = Duration::from_millis(4);

/// How often what differs only at times is run again on each side: at least, and as long as the library alone
/// does something.
const TRIES: std::ops::Range<usize> = 24..120;
/// And for how long at most.
const TRYING: Duration = Duration::from_secs(4);

/// What a comparison came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same at once.
    Same,
    /// Not the same at first; run often, each line that one side does is also done by the other, or by the
    /// plain side alone.
    Unstable(Finding),
    /// Run often, the library does at times what the kernel alone was never seen to do, but too seldom to say
    /// that it never would.
    Suspicious(Finding),
    /// Run often, the library never does what the kernel does, or does what the kernel alone does not, too
    /// often for chance.
    Different(Finding),
}

/// One outcome of each side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Without the library.
    pub plain: Vec<String>,
    /// Under it.
    pub library: Vec<String>,
    /// The first step that hung in a run under the library, and in none without: in a hurry a step hangs that
    /// a patient run waits for.
    pub hung: Option<usize>,
}

impl Finding {
    fn new(plain: Vec<String>, library: Vec<String>, hung: Option<usize>) -> Self {
        Self { plain, library, hung }
    }
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
        self.repeat(program, repetitions, PAUSE)
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
            let hung = hung(&plain, &library);
            return Ok(Verdict::Different(Finding::new(plain.swap_remove(0), library.swap_remove(0), hung)));
        }
        // What hangs takes long each time, and is hardly chance.
        let hangs = library.iter().flatten().any(|line| line.contains("hangs"));
        for _ in 0..if hangs { repetitions.min(1) } else { repetitions } {
            plain.push(self.run_plain(program, patience)?);
            library.push(self.run_other(program, patience));
            if library.iter().any(|outcome| plain.contains(outcome)) {
                return if patience.is_zero() {
                    Ok(Verdict::Unstable(first(plain, library)))
                } else {
                    self.weigh(program, (plain, library))
                };
            }
        }
        let hung = hung(&plain, &library);
        let last = |outcomes: Vec<Vec<String>>| outcomes.into_iter().next_back().unwrap_or_default();
        Ok(Verdict::Different(Finding::new(last(plain), last(library), hung)))
    }

    /// Both sides have done the same once: is what they do alike as often, line by line?
    fn weigh(&mut self, program: &Program, before: (Vec<Outcome>, Vec<Outcome>)) -> Result<Verdict> {
        let (mut plain, mut library) = before;
        let (seen_plain, seen_library) = (plain.len(), library.len());
        // Two sockets get the same port by chance once in some thousand programs, on either side.
        let nameless =
            |outcomes: &[Outcome]| outcomes.iter().map(|one| without_names(one)).collect::<Vec<_>>();
        let end = Instant::now() + TRYING;
        for tries in 1.. {
            // In a hurry as often as not: patience hides what comes late.
            let patience = if tries % 2 == 0 { Duration::ZERO } else { PAUSE };
            plain.push(self.run_plain(program, patience)?);
            library.push(self.run_other(program, patience));
            // What made this program be looked at is no evidence: chance has made it so.
            let again = weight::of_library_alone(&plain[seen_plain..], &library[seen_library..]);
            if let Some((strange, times)) = again
                && weight::chance(times, tries) < weight::HARDLY
            {
                let hung = hung(&plain, &library);
                let library = library.swap_remove(seen_library + strange);
                return Ok(Verdict::Different(Finding::new(plain.swap_remove(0), library, hung)));
            }
            if tries < TRIES.start && Instant::now() < end {
                continue;
            }
            let Some((strange, _)) = weight::of_library_alone(&nameless(&plain), &nameless(&library)) else {
                break;
            };
            if tries >= TRIES.end || Instant::now() >= end {
                let hung = hung(&plain, &library);
                let library = library.swap_remove(strange);
                return Ok(Verdict::Suspicious(Finding::new(plain.swap_remove(0), library, hung)));
            }
        }
        Ok(Verdict::Unstable(first(plain, library)))
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

/// What was seen first, which is why anybody looked.
fn first(mut plain: Vec<Outcome>, mut library: Vec<Outcome>) -> Finding {
    let hung = hung(&plain, &library);
    Finding::new(plain.swap_remove(0), library.swap_remove(0), hung)
}

/// The first step that hangs in a run under the library, and in none without.
fn hung(plain: &[Outcome], library: &[Outcome]) -> Option<usize> {
    let first = |runs: &[Outcome]| {
        let hangs = |run: &Outcome| run.iter().position(|line| line.starts_with("hangs"));
        runs.iter().filter_map(hangs).min()
    };
    let at = first(library)?;
    first(plain).is_none().then_some(at)
}

/// A race that lost something, or does not end.
fn breaks_a_promise(outcome: &[String]) -> bool {
    outcome.iter().any(|line| line.starts_with("broken: "))
}
