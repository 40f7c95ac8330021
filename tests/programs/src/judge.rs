//! One case, plain and under the library.

use std::path::Path;

use anyhow::Context;
use bench::stats::paired::{Block, Centre, MIN_BLOCKS, PairedRatio, RESAMPLES};
use serde::Serialize;

use crate::{
    case::{Case, NO_PACKAGE, Need, Session},
    room::{Mode, Room},
    running,
};

/// What goes with the library must reach at least this share of what goes without.
pub(crate) const RATIO_MIN: f64 = 0.97;
const SEED: u64 = 0x70726f67;

/// What came of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Verdict {
    /// The same results, and fast enough or too few blocks to say that it is not.
    Pass,
    /// A difference, an error under the library alone, or certainly too slow.
    Fail,
    /// It does not work plain either, or something is missing here.
    NotTried,
}

/// A case's result.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) verdict: Verdict,
    /// Why it is no pass.
    pub(crate) reason: Option<String>,
    /// Lines that were compared.
    pub(crate) lines: usize,
    /// What is known to have gone over tieline.
    pub(crate) carried: Option<String>,
    pub(crate) unit: &'static str,
    /// Ours is with the library, the reference is plain.
    pub(crate) speed: Option<PairedRatio>,
    pub(crate) blocks: Vec<Block>,
}

impl Outcome {
    fn new(case: &Case, verdict: Verdict, reason: Option<String>) -> Self {
        let (name, what) = (case.name, case.what);
        let carried = None;
        Self { name, what, verdict, reason, lines: 0, carried, unit: "", speed: None, blocks: Vec::new() }
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::NotTried => "not tried",
        };
        let mut line = format!("{verdict}: {} lines the same", self.lines);
        if let Some(carried) = &self.carried {
            line += &format!("; over tieline {carried}");
        }
        if let Some(speed) = self.speed {
            let interval = speed
                .shown_ratio_ci95()
                .map_or(String::new(), |ci| format!(" ({:.3} … {:.3})", ci.low, ci.high));
            line += &format!(
                "; {:.0} {} by {:.0}: {:.3}{interval}",
                speed.ours, self.unit, speed.reference, speed.ratio
            );
        }
        if let Some(reason) = &self.reason {
            line += &format!("; {reason}");
        }
        line
    }
}

/// How trying ends.
type Tried<T> = Result<T, Trouble>;

/// Which side an error belongs to.
enum Trouble {
    Plain(anyhow::Error),
    Library(anyhow::Error),
}

/// Tries a case.
pub(crate) fn judge(case: &Case, tieline: &Path, blocks: u32, seconds: u32) -> Outcome {
    let missing = crate::report::missing(case);
    if !missing.is_empty() {
        let reason = format!("missing here: {}", names(&missing));
        return Outcome::new(case, Verdict::NotTried, Some(reason));
    }
    let mut outcome = Outcome::new(case, Verdict::Pass, None);
    match both(case, tieline, blocks, seconds, &mut outcome) {
        Ok(()) => {}
        Err(Trouble::Plain(error)) => {
            outcome.verdict = Verdict::NotTried;
            outcome.reason = Some(format!("plain: {error:#}"));
        }
        Err(Trouble::Library(error)) => {
            outcome.verdict = Verdict::Fail;
            outcome.reason = Some(format!("{}: {error:#}", case.over.name()));
        }
    }
    outcome
}

/// Programs, and the Debian packages that bring them.
fn names(missing: &[Need]) -> String {
    let (built, packaged): (Vec<_>, Vec<_>) = missing.iter().partition(|(_, package)| *package == NO_PACKAGE);
    let list = |needs: &[&Need], which: usize| {
        needs.iter().map(|(program, package)| [*program, *package][which]).collect::<Vec<_>>().join(", ")
    };
    let mut all = Vec::new();
    if !packaged.is_empty() {
        all.push(format!("{} (Debian: {})", list(&packaged, 0), list(&packaged, 1)));
    }
    if !built.is_empty() {
        let next = "no package has it: build it from its source, docs/mpi.md, and put it into PATH";
        all.push(format!("{} ({next})", list(&built, 0)));
    }
    all.join("; ")
}

fn both(case: &Case, tieline: &Path, blocks: u32, seconds: u32, outcome: &mut Outcome) -> Tried<()> {
    let open = |mode| (case.open)(Room::new(mode)?).context("start");
    let mut plain = open(Mode::Plain).map_err(Trouble::Plain)?;
    let mut library = open(Mode::over(case.over, tieline)).map_err(Trouble::Library)?;
    let expected = plain.check().context("check").map_err(Trouble::Plain)?;
    let said = library.check().context("check").map_err(Trouble::Library)?;
    if let Some(difference) = difference(&expected, &said) {
        return Err(Trouble::Library(anyhow::anyhow!(difference)));
    }
    outcome.lines = expected.len();
    outcome.carried = library.carried();
    outcome.unit = plain.unit();
    for number in 0..blocks {
        let block = block(number, &mut *plain, &mut *library, seconds)?;
        let Some(block) = block else { return Ok(()) };
        outcome.blocks.push(block);
    }
    outcome.speed = PairedRatio::of(&outcome.blocks, Centre::Median, RESAMPLES, SEED);
    let slow = outcome.speed.filter(|speed| speed.ratio_ci95.high < RATIO_MIN && speed.blocks >= MIN_BLOCKS);
    if slow.is_some() {
        outcome.verdict = Verdict::Fail;
        outcome.reason = Some(format!("slower than {RATIO_MIN} of plain"));
    }
    Ok(())
}

/// One load of each, in turns first.
fn block(
    number: u32,
    plain: &mut dyn Session,
    library: &mut dyn Session,
    seconds: u32,
) -> Tried<Option<Block>> {
    running::check_interrupted().map_err(Trouble::Plain)?;
    let load = |session: &mut dyn Session| session.load(seconds).context("load");
    let (reference, ours) = if number.is_multiple_of(2) {
        let reference = load(plain).map_err(Trouble::Plain)?;
        (reference, load(library).map_err(Trouble::Library)?)
    } else {
        let ours = load(library).map_err(Trouble::Library)?;
        (load(plain).map_err(Trouble::Plain)?, ours)
    };
    Ok(reference.zip(ours).map(|(reference, ours)| Block { ours, reference }))
}

/// The first line that differs.
fn difference(expected: &[String], said: &[String]) -> Option<String> {
    let at = (0..expected.len().max(said.len())).find(|at| expected.get(*at) != said.get(*at))?;
    let line = |lines: &[String]| lines.get(at).map_or("nothing".to_owned(), |line| format!("`{line}`"));
    Some(format!("line {}: {}, but plain {}", at + 1, line(said), line(expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_brings_it() {
        let package = names(&[("a", "x"), ("b", "y")]);
        assert_eq!(package, "a, b (Debian: x, y)");
        let built = names(&[("a", "x"), ("c", NO_PACKAGE)]);
        assert!(built.starts_with("a (Debian: x); c (no package has it: build it"), "{built}");
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(&lines("a\nb"), &lines("a\nb")), None);
        assert_eq!(difference(&lines("a\nb"), &lines("a\nc")).unwrap(), "line 2: `c`, but plain `b`");
        assert_eq!(difference(&lines("a\nb"), &lines("a")).unwrap(), "line 2: nothing, but plain `b`");
        assert_eq!(difference(&lines(""), &lines("a")).unwrap(), "line 1: `a`, but plain nothing");
    }
}
