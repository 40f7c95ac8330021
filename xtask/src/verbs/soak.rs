//! `./run soak`: the long tests.

use std::path::Path;
use std::process::Command;

use super::{Outcome, Stop, misused, must, pass_on, release, say, status_of};

const USAGE: &str = "usage: ./run soak [--minutes N] [--judgements N [--busy N]] [--programs N]";
const MAX: u64 = 9_999_999;

/// How much of each part.
#[derive(Debug, PartialEq, Eq)]
struct Amounts {
    minutes: u64,
    judgements: u64,
    busy: u64,
    programs: u64,
}

impl Default for Amounts {
    fn default() -> Self {
        Self { minutes: 10, judgements: 100, busy: 0, programs: 100_000 }
    }
}

impl Amounts {
    /// From the command line; none if it asks for help.
    fn read(options: &[&str]) -> Outcome<Option<Self>> {
        let mut amounts = Self::default();
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let (name, given) =
                word.split_once('=').map_or((*word, None), |(name, value)| (name, Some(value)));
            let amount = match name {
                "--minutes" => &mut amounts.minutes,
                "--judgements" => &mut amounts.judgements,
                "--busy" => &mut amounts.busy,
                "--programs" => &mut amounts.programs,
                "-h" | "--help" if given.is_none() => return Ok(None),
                _ => return misused(format!("soak: unknown argument {word}; {USAGE}")),
            };
            let Some(value) = given.or_else(|| words.next().copied()) else {
                return misused(format!("soak: {name} needs a number"));
            };
            *amount = number(value).ok_or_else(|| {
                Stop::Misused(format!("soak: {name} needs a number from 0 to {MAX}, not '{value}'"))
            })?;
        }
        if amounts.minutes + amounts.judgements + amounts.programs == 0 {
            return misused(
                "soak: all parts are left out, so nothing would be tested; \
                 give one of --minutes, --judgements and --programs more than 0",
            );
        }
        if amounts.busy > 0 && amounts.judgements == 0 {
            return misused("soak: --busy needs --judgements N, which it runs beside");
        }
        Ok(Some(amounts))
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|number| plain && *number <= MAX)
}

/// Kills at random moments, judgements, random socket programs: as much of each as the command line asks for.
pub fn run(options: &[&str], target: &Path) -> Outcome {
    let Some(amounts) = Amounts::read(options)? else {
        say(&format!(
            "{USAGE}; default: --minutes 10 --judgements 100 --busy 0 --programs 100000; 0 leaves a part out"
        ));
        return Ok(());
    };
    let mut tests = Vec::new();
    if amounts.minutes > 0 {
        tests.extend(["--test", "crash"]);
    }
    if amounts.judgements > 0 {
        tests.extend(["--test", "judgement"]);
    }
    if !tests.is_empty() {
        release::build(target)?;
        must(
            cargo_test(&amounts).args(&tests).arg("--no-run"),
            "the soak tests do not build; the reason stands above. Nothing was run.",
        )?;
        succeeds(cargo_test(&amounts).args(&tests).args(["--", "--nocapture", "--test-threads=1"]))?;
    }
    // Rings: random sizes, kills and demotions, every byte checked.
    if amounts.minutes > 0 {
        succeeds(cargo_test(&amounts).args(["--test", "sockets", "killed::", "--", "--nocapture"]))?;
        // Between hosts in namespaces, where this user may make them.
        succeeds(cargo_test(&amounts).args(["--test", "hosts", "killed::", "--", "--nocapture"]))?;
    }
    if amounts.programs == 0 { Ok(()) } else { differential(amounts.programs, target) }
}

/// The short form is among the ordinary tests; these variables make it long, for each kind of death in turn.
fn cargo_test(amounts: &Amounts) -> Command {
    let seconds = (amounts.minutes * 60).to_string();
    let mut command = Command::new("cargo");
    command
        .args(["test", "--release", "--locked", "--package", "tieline-tests"])
        .env("TIELINE_SOAK_SECONDS", &seconds)
        .env("TIELINE_RINGS_SOAK_SECONDS", &seconds)
        .env("TIELINE_HOSTS_SOAK_SECONDS", &seconds)
        .env("TIELINE_JUDGEMENT_RUNS", amounts.judgements.to_string());
    if amounts.busy > 0 {
        command.env("TIELINE_JUDGEMENT_BUSY", amounts.busy.to_string());
    }
    command
}

fn succeeds(command: &mut Command) -> Outcome {
    if status_of(command)?.success() { Ok(()) } else { Err(Stop::Status(1)) }
}

/// Random programs of socket calls, plain and under the library.
fn differential(programs: u64, target: &Path) -> Outcome {
    must(
        Command::new("cargo").args(["build", "--release", "--locked", "--package", "differential"]),
        "the differential test does not build; the reason stands above.",
    )?;
    release::sockets_library(target)?;
    let seed = std::env::var("TIELINE_DIFFERENTIAL_SEED").unwrap_or_else(|_| "1".to_owned());
    let command = |programs: u64, folder: &str, more: &[&str]| {
        let mut command = Command::new(target.join("release/differential"));
        command.args(["run", "--programs", &programs.to_string(), "--seed", &seed, "--save"]);
        command.arg(target.join(folder)).args(more);
        command.arg("--preload").arg(target.join("release/libtieline-sockets.so"));
        command
    };
    pass_on(&mut command(programs, "differential", &[]))?;
    // A tenth as many with a ring on each connection: nothing may differ but as is known
    // (docs/differential.md).
    let rings = ["--known", "--share", "--enough", "1000", "--env", "TIELINE_SOCKETS_RINGS=2"];
    pass_on(&mut command(programs.div_ceil(10), "differential-rings", &rings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_that_leave_something_to_test() {
        let read = |words: &[&str]| Amounts::read(words);
        assert_eq!(read(&[]).unwrap(), Some(Amounts::default()));
        assert_eq!(read(&["--minutes", "1", "--help"]).unwrap(), None);
        let all = read(&["--minutes=0", "--judgements", "2", "--busy=3", "--programs", "9999999"]).unwrap();
        assert_eq!(all, Some(Amounts { minutes: 0, judgements: 2, busy: 3, programs: MAX }));
        for (words, says) in [
            (&["--minutes"][..], "--minutes needs a number"),
            (&["--minutes", "-1"], "from 0 to 9999999, not '-1'"),
            (&["--programs=01"], "not '01'"),
            (&["--programs", "10000000"], "not '10000000'"),
            (&["--hours", "1"], "unknown argument --hours"),
            (&["--minutes=0", "--judgements=0", "--programs=0"], "nothing would be tested"),
            (&["--busy=1", "--judgements=0"], "--busy needs --judgements"),
        ] {
            let stop = read(words).unwrap_err();
            assert!(matches!(&stop, Stop::Misused(text) if text.contains(says)), "{words:?}: {stop:?}");
        }
    }
}
