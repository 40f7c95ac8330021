//! A command that is interrupted while it has a cluster of its own takes it away and ends with the signal's
//! status.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tieline_tests::{Cluster, Watchdog};

fn left_in(cluster: &Cluster) -> Vec<String> {
    std::fs::read_dir(cluster.runtime_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// Processes that were started for this runtime directory.
fn running_for(cluster: &Cluster) -> Vec<String> {
    let wanted = cluster.runtime_dir().to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|line| line.contains(&wanted))
        .collect()
}

fn interrupted(arguments: &[&str], after: Duration, signal: Signal, group: bool) {
    let cluster = Cluster::empty().unwrap();
    let mut command = cluster.command(arguments).unwrap();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    std::thread::sleep(after);
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    // It may have ended by itself, if it was quick.
    let _ = if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    let status = child.wait().unwrap();
    let wanted = signal.as_raw();
    // Before the command has a cluster there is nothing to do, and the signal itself ends it.
    let ended = status.signal() == Some(wanted) || status.code() == Some(128 + wanted);
    let finished = status.code().is_some_and(|code| matches!(code, 0 | 1 | 3)) && after.as_millis() >= 1000;
    assert!(ended || finished, "{arguments:?} after {after:?}, signal {wanted}, group {group}: {status:?}");
    assert_eq!(left_in(&cluster), Vec::<String>::new(), "{arguments:?} after {after:?}");
    assert_eq!(running_for(&cluster), Vec::<String>::new(), "{arguments:?} after {after:?}");
}

/// Early times hit the start of managers, later ones the work.
const TIMES_MS: [u64; 6] = [5, 8, 12, 20, 100, 1000];

fn at_all_times(arguments: &[&str], watchdog: &Watchdog) {
    for (at, ms) in TIMES_MS.into_iter().enumerate() {
        let signal = [Signal::INT, Signal::TERM, Signal::HUP][at % 3];
        interrupted(arguments, Duration::from_millis(ms), signal, false);
        // As from a keyboard: its managers get it too.
        interrupted(arguments, Duration::from_millis(ms), [Signal::TERM, Signal::INT][at % 2], true);
        watchdog.progress();
    }
}

/// From when the first manager has a file until all are up; from a keyboard the managers get the signal, too.
#[test]
fn an_up_that_is_interrupted_leaves_nothing() {
    let watchdog = Watchdog::usual("up interrupted");
    let mut interrupted = 0;
    for (signal, group, pause_ms) in [
        (Signal::INT, true, 0),
        (Signal::INT, false, 0),
        (Signal::TERM, false, 20),
        (Signal::HUP, true, 20),
        (Signal::INT, true, 60),
        (Signal::TERM, true, 5),
    ] {
        let cluster = Cluster::empty().unwrap();
        let mut command = cluster.command(&["up", "--nodes", "60"]).unwrap();
        command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().unwrap();
        while !cluster.cluster_dir().join("node-4.log").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        let pid = Pid::from_child(&child);
        let _ = if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
        let output = child.wait_with_output().unwrap();
        watchdog.progress();
        if output.status.success() {
            // It was faster: the cluster is its result.
            continue;
        }
        interrupted += 1;
        assert_eq!(output.status.code(), Some(128 + signal.as_raw()), "{output:?}");
        assert_eq!(left_in(&cluster), Vec::<String>::new(), "{signal:?}, {group}, {pause_ms} ms: {output:?}");
        assert_eq!(running_for(&cluster), Vec::<String>::new(), "{signal:?}, {group}, {pause_ms} ms");
    }
    assert!(interrupted > 0, "each was up before its signal came");
}

#[test]
fn verify_leaves_nothing() {
    let watchdog = Watchdog::usual("verify interrupted");
    at_all_times(&["verify", "--nodes", "9"], &watchdog);
}

#[test]
fn a_benchmark_leaves_nothing() {
    let watchdog = Watchdog::usual("scipp interrupted");
    at_all_times(&["bench", "scipp"], &watchdog);
}

#[test]
fn acceptance_leaves_nothing_and_starts_no_further_cluster() {
    let watchdog = Watchdog::new("acceptance interrupted", Duration::from_secs(300));
    at_all_times(&["bench", "acceptance", "--only", "up.64", "manager.idle"], &watchdog);
    at_all_times(&["bench", "acceptance", "--only", "connect_map"], &watchdog);
}

/// A library that sends a command a signal as soon as that has put a handler for it in place.
fn early(folder: &Path) -> PathBuf {
    let library = folder.join("early.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/c/early.c");
    let output =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn a_signal_that_comes_with_its_handler_is_not_lost() {
    let watchdog = Watchdog::usual("signals while handlers are put in place");
    let folder = tempfile::tempdir().unwrap();
    let library = early(folder.path());
    let running = Cluster::up(2).unwrap();
    let none = Cluster::empty().unwrap();
    for (cluster, arguments) in [
        (&none, &["bench", "acceptance", "--only", "connect_map"][..]),
        (&none, &["bench", "scipp"]),
        (&none, &["verify", "--nodes", "2"]),
        (&running, &["verify", "--running"]),
        (&running, &["conntest", "--time", "60"]),
        (&running, &["cable"]),
        (&running, &["link", "flap", "4", "8", "--count", "1000"]),
        (&none, &["node", "run", "--id", "4"]),
    ] {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let mut command = cluster.command(arguments).unwrap();
            command.env("LD_PRELOAD", &library).env("TEST_SIGNAL", signal.as_raw().to_string());
            let output = command.output().unwrap();
            // A manager ends well when it is asked to.
            let wanted = if arguments[0] == "node" { 0 } else { 128 + signal.as_raw() };
            assert_eq!(output.status.code(), Some(wanted), "{arguments:?}, {signal:?}: {output:?}");
            watchdog.progress();
        }
    }
    assert_eq!(left_in(&none), Vec::<String>::new());
}

/// The step waits for round trips between two processors, which may take as long as others let it.
#[test]
fn a_signal_while_round_trips_are_measured_ends_it_with_what_there_is() {
    let watchdog = Watchdog::usual("verify interrupted in scipp");
    for own in [false, true] {
        let cluster = if own { Cluster::empty().unwrap() } else { Cluster::up(2).unwrap() };
        let words: &[&str] = if own { &["verify", "--nodes", "2"] } else { &["verify", "--running"] };
        let mut command = cluster.command(&[words, &["--quick"]].concat()).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut progress = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("scipp: nodes") {
            said.clear();
            assert_ne!(progress.read_line(&mut said).unwrap(), 0, "it ended before the step");
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let drain = std::thread::spawn(move || std::io::copy(&mut progress, &mut std::io::sink()));
        let output = child.wait_with_output().unwrap();
        drain.join().unwrap().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        // A test that is held up itself may be late, and the step over.
        assert!(out.contains("PARTIAL: ended early by a signal, in or after the step `"), "{out}");
        assert!(out.contains("\npairs "), "what was measured is printed: {out}");
        if own {
            assert_eq!(left_in(&cluster), Vec::<String>::new());
        }
        watchdog.progress();
    }
}

#[test]
fn a_second_signal_does_not_wait_and_what_was_finished_is_printed() {
    let _watchdog = Watchdog::usual("verify interrupted twice");
    for json in [false, true] {
        let cluster = Cluster::empty().unwrap();
        let mut command = cluster.command(&["verify", "--nodes", "3", "--thorough"]).unwrap();
        if json {
            command.arg("--json");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        // Two signals while steps are done that take a minute; where the first comes too early, it ends the
        // command by itself.
        std::thread::sleep(Duration::from_millis(2000));
        for _ in 0..2 {
            let _ = kill_process(pid, Signal::INT);
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut out = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut out).unwrap();
        let status = child.wait().unwrap();
        assert!(status.code() == Some(130) || status.signal() == Some(2), "{status:?} {out}");
        // Before anything was measured there is nothing to print.
        if json && !out.is_empty() {
            let document: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert!(document["partial"].is_string() && document["steps"].is_array(), "{out}");
        } else if !out.is_empty() {
            assert!(out.contains("PARTIAL: ended") && out.contains("up        PASS"), "{out}");
        }
        assert_eq!(left_in(&cluster), Vec::<String>::new());
        assert_eq!(running_for(&cluster), Vec::<String>::new());
    }
}
