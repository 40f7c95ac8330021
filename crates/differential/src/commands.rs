//! The commands.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser as _;
use differential::campaign::{Plan, Summary};
use differential::compare::side_by_side;
use differential::control::Side;
use differential::judge::{Finding, Judge, Verdict};
use differential::program::Program;
use differential::share::{Counting, Share};
use differential::sys::{process, ring};
use differential::{campaign, generate, known, shrink};
use shm::sync::{AtomicBool, Ordering};

use crate::args::{Cli, Command, Replay, Run, Show, Shrink, Under};
use crate::output::{note, print};

const DONE: u8 = 0;
const DIFFERS: u8 = 1;
const MISUSED: u8 = 2;
const INTERRUPTED: u8 = 3;
const CANNOT: u8 = 4;

/// How long a difference may take to be made small, if nobody says.
const SHRINK_LIMIT: Duration = Duration::from_secs(30);

/// Parses the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Run(words) => run(&words),
        Command::Replay(words) => replay(&words),
        Command::Shrink(words) => shrink_file(&words),
        Command::Show(words) => show(&words),
    };
    ExitCode::from(done.unwrap_or_else(|error| {
        note(&format!("differential: {error:#}\n"));
        error.downcast_ref::<Misuse>().map_or(CANNOT, |_| MISUSED)
    }))
}

/// An error in what the user gave.
#[derive(Debug)]
struct Misuse(String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// The plain side, and the other.
fn sides(under: &Under) -> Result<(Side, Side)> {
    let executor = std::env::current_exe().context("this program's own file")?;
    let plain = Side { executor, ..Side::default() };
    let mut library = plain.clone();
    for pair in &under.env {
        let (key, value) =
            pair.split_once('=').with_context(|| Misuse(format!("--env {pair}: not NAME=VALUE")))?;
        library.environment.push((key.to_owned(), value.to_owned()));
    }
    if let Some(path) = &under.preload {
        let path = path.canonicalize().with_context(|| Misuse(format!("--preload {}", path.display())))?;
        library.preload = Some(path);
    }
    Ok((plain, library))
}

fn judge(under: &Under) -> Result<Judge> {
    let (plain, library) = sides(under)?;
    let cpu = process::processors()[0];
    process::sleep_exactly();
    Judge::new(plain, library, cpu)
}

/// Larger files are not read: the longest program that is made is a thousandth of that.
const PROGRAM_BYTES_MAX: u64 = 16 << 20;

fn read(file: &Path) -> Result<Program> {
    let text = user_files::read_regular(file, PROGRAM_BYTES_MAX)
        .with_context(|| Misuse(format!("{}", file.display())))?;
    Program::parse(&text).with_context(|| Misuse(format!("{}", file.display())))
}

/// Becomes true with Ctrl-C and its kin; a second one ends at once, and what was started ends with this
/// process.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    // A handler stands a moment before it knows what is registered with it: a signal in that moment would be
    // lost.
    let _later = shm::process::SignalsBlocked::here();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn run(words: &Run) -> Result<u8> {
    let (plain, mut library) = sides(&words.under)?;
    let counting = if words.share { Some(Counting::begin(&mut library)?) } else { None };
    let families = generate::families();
    if let Some(wrong) = words.focus.iter().find(|name| !families.contains(&name.as_str())) {
        return Err(Misuse(format!("--focus {wrong}: the families are {}", families.join(" "))).into());
    }
    let plan = Plan {
        plain,
        library,
        seed: words.seed,
        programs: words.programs,
        jobs: words.jobs.map_or(2 * process::processors().len(), usize::from),
        repetitions: words.under.repetitions,
        enough: words.enough.max(1),
        focus: words.focus.clone(),
        without: words.without.clone(),
        known: words.known,
    };
    let stop = stop_on_signal()?;
    let start = Instant::now();
    let told = Mutex::new(Instant::now());
    let loud = !words.quiet && std::io::stderr().is_terminal();
    let progress = |summary: &Summary| {
        let Ok(mut told) = told.lock() else { return };
        if loud && told.elapsed() > Duration::from_millis(500) {
            *told = Instant::now();
            note(&format!("\r{} ", line(summary, words, start)));
        }
    };
    let summary = campaign::run(&plan, &stop, &progress)?;
    if loud {
        note("\n");
    }
    let interrupted = stop.load(Ordering::SeqCst);
    if !summary.own_network && !words.quiet {
        note("differential: no network namespace of its own: ports are shared with the whole machine\n");
    }
    if !ring::is_allowed() && !words.quiet {
        note("differential: this kernel refuses io_uring: requests by rings are refused on both sides\n");
    }
    let share = counting.map(|counting| counting.share()).transpose()?;
    let saved = report(words, &plan, &summary, &stop)?;
    print(&if words.json {
        json(words, &summary, &saved, start, share)
    } else {
        let told = share.map_or_else(String::new, |share| format!("; {share}"));
        format!("{}{told}\n", line(&summary, words, start))
    })?;
    Ok(match () {
        () if !summary.different.is_empty()
            || words.strict && !(summary.unstable.is_empty() && summary.suspicious.is_empty()) =>
        {
            DIFFERS
        }
        () if interrupted => INTERRUPTED,
        () => DONE,
    })
}

fn line(summary: &Summary, words: &Run, start: Instant) -> String {
    let rate = summary.ran as f64 / start.elapsed().as_secs_f64();
    let known = match summary.known.len() {
        0 => String::new(),
        count => format!(", {count} as is known ({})", summary.known_by_name()),
    };
    format!(
        "{} of {} programs, {} calls, {rate:.0} programs a second: {} different, {} suspicious, {} unstable{known}",
        summary.ran,
        words.programs,
        summary.steps,
        summary.different.len(),
        summary.suspicious.len(),
        summary.unstable.len()
    )
}

/// Makes each difference small, prints it, and saves it if wanted. After a signal nothing is run any more:
/// what was found is saved as it is.
fn report(words: &Run, plan: &Plan, summary: &Summary, stop: &AtomicBool) -> Result<Vec<String>> {
    let mut saved = Vec::new();
    for (seed, finding) in &summary.unstable {
        note(&format!(
            "seed {seed} is unstable:\n{}",
            differing(&generate::focused(*seed, &words.focus), finding)
        ));
    }
    for (seed, finding) in &summary.suspicious {
        let program = generate::focused(*seed, &words.focus);
        note(&format!("seed {seed} is suspicious:\n{}", differing(&program, finding)));
        if let Some(folder) = &words.save {
            // Whole: what shows at times cannot be made small.
            let told = side_by_side(&program, &finding.plain, &finding.library);
            saved.push(save(folder, &format!("suspicious-{seed}"), &program, &told)?);
        }
    }
    for (seed, known, finding) in &summary.known {
        let program = generate::focused(*seed, &words.focus);
        note(&format!(
            "seed {seed} differs as is known, {}: {}\n",
            known.name,
            known::line(&program, finding)
        ));
    }
    let mut judge = None;
    for (seed, finding) in &summary.different {
        let whole = generate::focused(*seed, &words.focus);
        let (program, finding) = if stop.load(Ordering::SeqCst) {
            (whole, finding.clone())
        } else {
            let judge = match &mut judge {
                Some(judge) => judge,
                none => none.insert(Judge::new(
                    plan.plain.clone(),
                    plan.library.clone(),
                    process::processors()[0],
                )?),
            };
            made_small(judge, words, &whole, finding, stop)?
        };
        let told = side_by_side(&program, &finding.plain, &finding.library);
        note(&format!("seed {seed} differs:\n{told}\n"));
        if let Some(folder) = &words.save {
            saved.push(save(folder, &format!("seed-{seed}"), &program, &told)?);
        }
    }
    Ok(saved)
}

/// What is needed of a program to differ, and what it came to; the whole program if a signal comes meanwhile.
fn made_small(
    judge: &mut Judge,
    words: &Run,
    whole: &Program,
    finding: &Finding,
    stop: &AtomicBool,
) -> Result<(Program, Finding)> {
    let wanted = |program: &Program, finding: &Finding| !words.known || known::of(program, finding).is_none();
    let shrunk = shrink::shrink(judge, whole, SHRINK_LIMIT, stop, wanted)
        .and_then(|small| Ok((judge.compare(&small, words.under.repetitions)?, small)));
    match shrunk {
        Ok((Verdict::Different(finding), small)) => Ok((small, finding)),
        // The sides may have ended by the same signal.
        Err(error) if !stop.load(Ordering::SeqCst) => Err(error),
        _ => Ok((whole.clone(), finding.clone())),
    }
}

/// Only the lines that differ.
fn differing(program: &Program, finding: &Finding) -> String {
    let found = differential::compare::differences(&finding.plain, &finding.library);
    found
        .iter()
        .map(|one| {
            let what = differential::program::described(program, one.at);
            format!("!   {what}\n  plain   {}\n  library {}\n", one.one, one.other)
        })
        .collect()
}

fn save(folder: &Path, name: &str, program: &Program, told: &str) -> Result<String> {
    std::fs::create_dir_all(folder).with_context(|| format!("the folder {}", folder.display()))?;
    let file = folder.join(format!("{name}.txt"));
    let comment: String = told.lines().map(|line| format!("# {line}\n")).collect();
    std::fs::write(&file, format!("{}\n# What differed, of {name}:\n{comment}", program.text()))
        .with_context(|| format!("{}", file.display()))?;
    Ok(file.display().to_string())
}

fn json(words: &Run, summary: &Summary, saved: &[String], start: Instant, share: Option<Share>) -> String {
    let seeds = |found: &[(u64, Finding)]| found.iter().map(|(seed, _)| *seed).collect::<Vec<_>>();
    let value = serde_json::json!({
        "schema": "tieline.differential/1",
        "preload": words.under.preload,
        "seed": words.seed,
        "programs": summary.ran,
        "wanted": words.programs,
        "calls": summary.steps,
        "programs_with": summary.calls,
        "seconds": start.elapsed().as_secs_f64(),
        "different": seeds(&summary.different),
        "suspicious": seeds(&summary.suspicious),
        "unstable": seeds(&summary.unstable),
        "known": summary.known.iter().map(|(seed, known, _)| (known.name, *seed)).collect::<Vec<_>>(),
        "saved": saved,
        "own_network": summary.own_network,
        "bytes_written": share.map(|share| share.bytes),
        "bytes_through_memory": share.map(|share| share.through_memory),
        "bytes_handed_back": share.map(|share| share.handed_back),
        "bytes_while_reader_slept": share.map(|share| share.reader_slept),
    });
    format!("{value:#}\n")
}

fn replay(words: &Replay) -> Result<u8> {
    let program = read(&words.file)?;
    let verdict = judge(&words.under)?.compare(&program, words.under.repetitions)?;
    let (said, status, finding) = match verdict {
        Verdict::Same => {
            let (plain, _) = sides(&words.under)?;
            let log = differential::control::Lane::new(plain, 0)?.run(&program, Duration::ZERO)?;
            let lines = differential::compare::canonical(&log);
            ("nothing differs", DONE, Finding { plain: lines.clone(), library: lines, hung: None })
        }
        Verdict::Suspicious(finding) => {
            ("does at times under the library what was never seen without it", DIFFERS, finding)
        }
        Verdict::Unstable(finding) => ("differs at times, and then on either side", DONE, finding),
        Verdict::Different(finding) => ("differs", DIFFERS, finding),
    };
    let known = known::of(&program, &finding).map_or_else(String::new, |known| {
        format!(", as is known of rings: {} ({})", known.name, known.reason)
    });
    print(&format!("{}{said}{known}\n", side_by_side(&program, &finding.plain, &finding.library)))?;
    Ok(status)
}

fn shrink_file(words: &Shrink) -> Result<u8> {
    let program = read(&words.file)?;
    let stop = stop_on_signal()?;
    let mut judge = judge(&words.under)?;
    if !matches!(judge.compare(&program, words.under.repetitions)?, Verdict::Different(_)) {
        note("differential: this program does not differ, so there is nothing to make small\n");
        return Ok(DONE);
    }
    let limit = Duration::from_secs(words.seconds);
    let small = shrink::shrink(&mut judge, &program, limit, &stop, |_, _| true)?;
    print(&small.text())?;
    Ok(DIFFERS)
}

fn show(words: &Show) -> Result<u8> {
    let program = match words.what.parse() {
        Ok(seed) => generate::program(seed),
        Err(_) => read(Path::new(&words.what))?,
    };
    print(&program.text())?;
    Ok(DONE)
}
