//! The command as its users meet it: right, wrong, with something to find, interrupted, and with its helpers
//! killed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::zombie_processes, reason = "who starts a long run waits for it")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use differential::control::{Lane, Side};
use differential::program::Program;

/// Runs it to its end.
fn differential(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_differential")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of this test alone.
fn file(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn a_seed_is_shown_replayed_and_counted() {
    let shown = differential(&["show", "5"]);
    assert_eq!(shown.status.code(), Some(0));
    let path = file("seed-5", &text(&shown.stdout));
    let path = path.to_str().unwrap();
    assert_eq!(differential(&["show", path]).stdout, shown.stdout);
    let replayed = differential(&["replay", path]);
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stdout));
    assert!(text(&replayed.stdout).contains("differs") && text(&replayed.stdout).contains("= 3"));
    let run = differential(&["run", "--programs", "20", "--seed", "5", "--json", "--quiet"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let value: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((value["programs"].as_u64(), value["seed"].as_u64()), (Some(20), Some(5)));
    assert_eq!(value["different"], serde_json::json!([]));
}

#[test]
fn what_differs_is_saved_small_and_replayed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("found-{}", std::process::id()));
    let library = common::planted("").preload.unwrap();
    let under = ["--preload", library.to_str().unwrap(), "--env", "DIFFERENTIAL_PLANT=dup-loses-nonblock"];
    let with = |words: &[&str]| differential(&[words, &under].concat());
    let run = with(&[
        "run",
        "--programs",
        "2000",
        "--enough",
        "1",
        "--quiet",
        "--json",
        "--save",
        folder.to_str().unwrap(),
    ]);
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stderr));
    let value: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let saved = value["saved"][0].as_str().expect("a file is saved").to_owned();
    assert!(std::fs::read_to_string(&saved).unwrap().contains("# What differed, of seed-"));
    let replayed = with(&["replay", &saved]);
    assert_eq!(replayed.status.code(), Some(1), "{}", text(&replayed.stdout));
    assert!(text(&replayed.stdout).lines().any(|line| line.starts_with('!')));
    let again = with(&["shrink", &saved, "--seconds", "20"]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stderr));
    let small = Program::parse(&text(&again.stdout)).unwrap();
    // A connection of TCP is six calls, and another actor's is one more.
    assert!(small.steps.len() <= 10, "{}", small.text());
    // Without the library there is nothing to see.
    assert_eq!(differential(&["replay", &saved]).status.code(), Some(0));
    let none = differential(&["shrink", &saved]);
    assert_eq!((none.status.code(), none.stdout.len()), (Some(0), 0), "{}", text(&none.stderr));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn wrong_usage_is_named_with_its_line() {
    let bad = |name: &str, line: &str| {
        file(name, &format!("tieline-differential 1\na0 epoll_create to=s0 with=-\n{line}\n"))
    };
    for (path, said) in [
        (bad("call", "a0 sockett to=s0"), "line 3: there is no call `sockett`"),
        (bad("argument", "a0 close fd=x"), "line 3: `fd=x` of `close` is not understood"),
        (bad("lacks", "a0 close"), "line 3: `close` lacks the argument `fd`"),
        (bad("slot", "a0 close fd=s99"), "line 3: `s99` is too large"),
        (bad("actor", "a9 close fd=s1"), "line 3: `a9` is too large"),
        (file("head", "something\n"), "this is no program"),
        (PathBuf::from("/nowhere/at/all"), "/nowhere/at/all"),
    ] {
        for verb in ["replay", "shrink", "show"] {
            let output = differential(&[verb, path.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(2), "{verb} {}: {}", path.display(), text(&output.stderr));
            assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        }
    }
    for arguments in [
        &["run", "--preload", "/nowhere.so"][..],
        &["run", "--env", "x"],
        &["walk"],
        &["run", "--jobs", "0"],
        &["run", "--focus", "nothing"],
    ] {
        assert_eq!(differential(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_file_that_is_no_library_is_no_side() {
    // The dynamic linker ignores what it cannot preload, and says so where nobody looks.
    let path = file("text", "no library");
    let output = differential(&["run", "--programs", "3", "--quiet", "--preload", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("is not loaded"), "{}", text(&output.stderr));
}

/// A long run, once it has started its servers.
fn long_run() -> (Child, Vec<u32>) {
    let child = Command::new(env!("CARGO_BIN_EXE_differential"))
        .args(["run", "--programs", "1000000", "--json", "--quiet", "--jobs", "2"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    loop {
        let servers = children(child.id());
        // Two jobs with two sides each.
        if servers.len() == 4 {
            return (child, servers);
        }
        assert!(start.elapsed() < Duration::from_secs(60), "only {servers:?} were started");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes whose parent this is.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    all.filter(|pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let behind = stat.rsplit(')').next().unwrap_or("").split_whitespace().nth(1).map(str::to_owned);
        behind == Some(parent.to_string())
    })
    .collect()
}

/// Waits until none of these is there any more, nor a child of one.
fn are_gone(pids: &[u32]) {
    let start = Instant::now();
    while let Some(pid) = pids.iter().find(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(start.elapsed() < Duration::from_secs(60), "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal, if the process is still there.
fn signal(pid: u32, signal: i32) {
    Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

#[test]
fn interrupted_it_says_what_it_did_and_leaves_nobody() {
    let (child, servers) = long_run();
    signal(child.id(), 2);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value["programs"].as_u64().unwrap() < 1_000_000);
    are_gone(&servers);
}

#[test]
fn what_was_found_before_a_signal_is_saved_whole() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("interrupted-{}", std::process::id()));
    let library = common::planted("").preload.unwrap();
    let mut patience = Duration::from_secs(1);
    let value = loop {
        let mut run = Command::new(env!("CARGO_BIN_EXE_differential"));
        run.args(["run", "--programs", "1000000", "--enough", "1000000", "--json", "--quiet"]);
        run.arg("--save").arg(&folder).arg("--preload").arg(&library);
        run.args(["--env", "DIFFERENTIAL_PLANT=dup-loses-nonblock"]);
        let child = run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(patience);
        signal(child.id(), 15);
        let output = child.wait_with_output().unwrap();
        // Before it has found anything, the status is another one, or none at all if the signal came very
        // early.
        if output.status.code() == Some(1) {
            break serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
        }
        assert!(patience < Duration::from_secs(60), "nothing is found: {}", text(&output.stderr));
        patience *= 2;
    };
    let found = value["different"].as_array().unwrap();
    assert!(!found.is_empty());
    for seed in found {
        let seed = seed.as_u64().unwrap();
        let saved = std::fs::read_to_string(folder.join(format!("seed-{seed}.txt"))).unwrap();
        let shown = text(&differential(&["show", &seed.to_string()]).stdout);
        assert!(saved.starts_with(&shown), "{saved}\nis not the whole program:\n{shown}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn killed_it_takes_its_servers_with_it() {
    let (mut child, servers) = long_run();
    let programs: Vec<u32> = servers.iter().flat_map(|server| children(*server)).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    are_gone(&servers);
    are_gone(&programs);
}

#[test]
fn a_server_that_is_killed_is_told_or_replaced_and_nothing_hangs() {
    let (child, servers) = long_run();
    signal(servers[0], 9);
    // Killed on the plain side, which then cannot run, it ends this; on the other side it is replaced.
    std::thread::sleep(Duration::from_secs(1));
    signal(child.id(), 2);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    match output.status.code() {
        Some(4) => assert!(said.contains("the server ended"), "{said}"),
        status => assert_eq!(status, Some(3), "{said}"),
    }
    are_gone(&servers);
}

#[test]
fn lanes_that_are_over_leave_no_memory_and_no_descriptor() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let side = Side { executor: env!("CARGO_BIN_EXE_differential").into(), ..Side::default() };
    let program = differential::generate::program(3);
    drop(Lane::new(side.clone(), 0).unwrap());
    let before = open();
    let mut logs = Vec::new();
    for _ in 0..20 {
        logs.push(Lane::new(side.clone(), 0).unwrap().run(&program, Duration::ZERO).unwrap().results.len());
    }
    assert_eq!(logs, [program.steps.len(); 20]);
    // Other tests of this binary may have a few open at this moment.
    assert!(open() < before + 15, "{before} descriptors became {}", open());
}
