//! `tieline verify` ended by SIGINT or SIGTERM at random moments: it begins no further step, prints what was
//! finished, has the signal's status, and leaves nothing behind.
//!
//! `TIELINE_VERIFY_SIGNALS=50 cargo test -p tieline-tests --test cli verify_signals -- --nocapture` tries so
//! many moments, and prints the longest time from a signal to the end.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tieline_tests::{Cluster, Random, Watchdog};

/// Moments of a usual run: half of them with a cluster of the test's own, half with one that runs.
const MOMENTS: usize = 6;

/// Of the last step nothing more is said, and it is done whatever comes.
const LAST: &str = "closing";
const STEPS: [&str; 10] =
    ["up", "status", "diag", "cable", "names", "exchange", "load", "pairs", "scipp", LAST];

/// What is run, and in which runtime directory.
struct Tried {
    cluster: Cluster,
    words: &'static [&'static str],
}

impl Tried {
    fn of(own: bool) -> Self {
        if own {
            return Self {
                cluster: Cluster::empty().unwrap(),
                words: &["verify", "--nodes", "3", "--quick"],
            };
        }
        Self { cluster: Cluster::up(3).unwrap(), words: &["verify", "--running", "--quick"] }
    }

    fn start(&self) -> Run {
        let mut command: Command = self.cluster.command(self.words).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let progress = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || hear(progress, &tell));
        Run { child, lines }
    }

    /// What is in the runtime directory, in any depth.
    fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.cluster.runtime_dir().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
                found.insert(entry.path().display().to_string());
            }
        }
        found
    }

    /// Processes that were started for this runtime directory.
    fn processes(&self) -> BTreeSet<String> {
        started_for(self.cluster.runtime_dir())
    }
}

fn started_for(dir: &Path) -> BTreeSet<String> {
    let wanted = dir.to_string_lossy().into_owned();
    let said =
        |entry: std::fs::DirEntry, file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_string_lossy().into_owned();
            let line = String::from_utf8_lossy(&said(entry, "cmdline")).replace('\0', " ");
            line.contains(&wanted).then(|| format!("{pid} {line}"))
        })
        .collect()
}

fn hear(mut progress: BufReader<std::process::ChildStderr>, tell: &Sender<String>) {
    let mut line = String::new();
    while progress.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        // A receiver that has gone away wants to hear no more.
        drop(tell.send(std::mem::take(&mut line)));
    }
}

/// One that is under way.
struct Run {
    child: Child,
    lines: Receiver<String>,
}

/// What came of it.
struct Ended {
    code: Option<i32>,
    out: String,
    took: Duration,
}

impl Run {
    /// The step that is being done, as far as was said.
    fn under_way(&self) -> Option<&'static str> {
        let said: Vec<String> = self.lines.try_iter().collect();
        let begun = |step: &&&str| said.iter().any(|line| line.trim_end() == **step);
        STEPS.iter().rev().find(begun).copied()
    }

    fn end(mut self) -> Ended {
        let start = Instant::now();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        Ended { code: status.code().or_else(|| signal.map(|signal| -signal)), out, took: start.elapsed() }
    }
}

/// The steps of a result, in order.
fn steps_of(out: &str) -> Vec<&'static str> {
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let is_one = |line: &&str| {
        ["PASS", "FAIL", "INCONCLUSIVE"].contains(&line.split_whitespace().nth(1).unwrap_or(""))
    };
    let names = out.lines().filter(is_one).filter_map(first);
    names.filter_map(|name| STEPS.iter().find(|step| **step == name).copied()).collect()
}

fn expected(own: bool) -> &'static [&'static str] {
    if own { &STEPS } else { &STEPS[1..] }
}

/// What was finished before is there, in order; nothing was begun after the step that the signal came in.
fn check(own: bool, under_way: Option<&str>, ended: &Ended, signal: Signal, what: &str) {
    let Ended { code, out, .. } = ended;
    if *code == Some(-signal.as_raw()) {
        // Before the command was ready for it, the signal ended it by itself.
        assert!(out.is_empty() && under_way.is_none(), "{what}: {out}");
        return;
    }
    assert_eq!(*code, Some(128 + signal.as_raw()), "{what}: {out}");
    let (all, steps) = (expected(own), steps_of(out));
    let finished = under_way.and_then(|step| all.iter().position(|one| *one == step)).unwrap_or(0);
    assert!(
        steps.len() >= finished,
        "{what}: {under_way:?} had begun, so what comes before it is done: {out}"
    );
    let Some(rest) = out.split("PARTIAL: ended early by a signal, in or after the step `").nth(1) else {
        assert_eq!(steps, all, "{what}: only what was whole already is not called partial: {out}");
        return;
    };
    let (last, _) = rest.split_once('`').unwrap();
    let at = all.iter().position(|step| *step == last).unwrap();
    assert!(at >= finished, "{what}: the signal came in `{under_way:?}`, and not before: {out}");
    let mut wanted: Vec<&str> = all[..=at].to_vec();
    // A first and a last look at the managers are taken in any case: they take no time.
    for always in ["status", LAST] {
        if !wanted.contains(&always) {
            wanted.push(always);
        }
    }
    assert_eq!(steps, wanted, "{what}: no further step begins after the signal: {out}");
    assert!(out.contains("VERDICT: INCONCLUSIVE"), "{what}: nothing is wrong with what was tested: {out}");
}

#[test]
fn at_random_moments() {
    let watchdog = Watchdog::usual("verify ended at random moments");
    let given = std::env::var("TIELINE_VERIFY_SIGNALS").ok().and_then(|text| text.parse::<usize>().ok());
    let mut random = Random::new("verify ended at random moments");
    let (mut longest, mut partial) = (Duration::ZERO, 0);
    for own in [false, true] {
        let tried = Tried::of(own);
        let before = (tried.files(), tried.processes());
        // How long it takes by itself says which moments there are.
        let whole = tried.start().end();
        watchdog.progress();
        for number in 0..given.unwrap_or(MOMENTS) / 2 {
            let moment = whole.took.mul_f64(random.below(950) as f64 / 1000.0);
            let signal = [Signal::INT, Signal::TERM][random.below(2)];
            let what = format!("own {own}, number {number}, {signal:?} after {} ms", moment.as_millis());
            let run = tried.start();
            std::thread::sleep(moment);
            let under_way = run.under_way();
            let pid = Pid::from_child(&run.child);
            let _ = kill_process(pid, signal);
            let ended = run.end();
            if matches!(ended.code, Some(0 | 1 | 3)) {
                // The signal came when all was done but the last look.
                assert_eq!(steps_of(&ended.out), expected(own), "{what}: {}", ended.out);
                assert!(!ended.out.contains("PARTIAL"), "{what}: {}", ended.out);
            } else {
                check(own, under_way, &ended, signal, &what);
                partial += usize::from(ended.out.contains("PARTIAL"));
                longest = longest.max(ended.took);
            }
            assert_eq!((tried.files(), tried.processes()), before, "{what}: nothing is left behind");
            println!("{what}, in {under_way:?}: {:?} after {} ms", ended.code, ended.took.as_millis());
            watchdog.progress();
        }
        let (status, out, err) = tried.cluster.run(&["status"]).unwrap();
        assert_eq!(status, if own { 4 } else { 0 }, "what ran goes on running: {out}{err}");
    }
    assert!(partial > 0, "no signal came while it ran");
    println!("longest from a signal to the end: {} ms", longest.as_millis());
}

/// A terminal sends Ctrl-C to the managers that are being started, too, which end sooner than the command
/// does.
#[test]
fn by_a_terminal_while_managers_start() {
    let watchdog = Watchdog::usual("verify ended by a terminal while managers start");
    let cluster = Cluster::empty().unwrap();
    let tried = Tried { cluster, words: &["verify", "--nodes", "24", "--quick"] };
    let mut while_starting = 0;
    for round in 0..8 {
        let mut command = tried.cluster.command(tried.words).unwrap();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
        let log = |name: &String| name.ends_with(&format!("node-{}.log", 8 + 4 * round));
        while !tried.files().iter().any(log) {
            std::thread::yield_now();
        }
        kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert_eq!(ended.status.code(), Some(130), "{said}");
        assert!(said.contains("ended early by a signal") && !said.contains("ended at its start"), "{said}");
        while_starting +=
            usize::from(said.contains("nothing was tested: run `tieline verify --nodes 24 --quick`"));
        watchdog.progress();
    }
    assert!(while_starting > 0, "no signal came while managers started");
}
