//! The C API of message queues: the header, C programs, and a peer that dies.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use tieline_tests::{Cluster, Watchdog};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The library under test. It is built as a dependency of this test, and lies beside it.
fn libraries() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(
        folder.join("libtieline_mq.so").is_file(),
        "libtieline_mq.so is not built: run `cargo build -p messages-c`"
    );
    folder
}

/// Compiles a program that uses the library, as strictly as any program may ask.
fn compile(source: &str) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages");
    std::fs::create_dir_all(&made).unwrap();
    let program = made.join(Path::new(source).file_stem().unwrap());
    // Once: another test may be running it.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compiled.insert(program.clone()) {
        return program;
    }
    must(
        Command::new("cc")
            .args(["-O1", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pthread"])
            .arg("-I")
            .arg(top().join("include/tieline"))
            .arg(top().join(source))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(libraries())
            .arg("-ltieline_mq")
            // The old kind of tag comes before LD_LIBRARY_PATH, in which cargo may name a folder with an
            // older library.
            .arg(format!("-Wl,--disable-new-dtags,-rpath,{}", libraries().display())),
    );
    program
}

fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{errors}", output.status);
    out.into_owned()
}

fn program(cluster: &Cluster, path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(path);
    cluster.set_environment(&mut command);
    command.args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn the_header_is_clean_c_and_cpp() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages-header");
    std::fs::create_dir_all(&made).unwrap();
    let standards = [("cc", "c", "-std=c99"), ("cc", "c", "-std=c17"), ("c++", "cc", "-std=c++11")];
    for (at, (compiler, language, standard)) in standards.into_iter().enumerate() {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("SKIPPED: {compiler} is not installed");
            continue;
        }
        let source = made.join(format!("only{at}.{language}"));
        std::fs::write(
            &source,
            "#include <tieline_mq.h>\n#include <tieline_mq.h>\nint main(void) { return 0; }\n",
        )
        .unwrap();
        must(
            Command::new(compiler)
                .args([standard, "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only"])
                .arg("-I")
                .arg(top().join("include/tieline"))
                .arg(&source),
        );
    }
}

#[test]
fn each_function_does_what_the_header_says() {
    let _watchdog = Watchdog::usual("all functions");
    let cluster = Cluster::up(2).unwrap();
    let all = compile("tests/messages/c/all.c");
    assert_eq!(must(&mut program(&cluster, &all, &["4", "8"])), "all done\n");
}

#[test]
fn a_cancelled_thread_ends_behind_its_call_and_the_queue_works_on() {
    let _watchdog = Watchdog::usual("cancelled threads");
    let cluster = Cluster::up(2).unwrap();
    let cancelled = compile("tests/messages/c/cancelled_thread.c");
    assert_eq!(must(&mut program(&cluster, &cancelled, &["4", "8"])), "all cancelled\n");
}

/// What each member of a group prints.
fn group(members: usize, more: &[&str]) -> Vec<String> {
    let cluster = Cluster::up(1).unwrap();
    let path = compile("tests/messages/c/group.c");
    let started: Vec<_> = (0..members)
        .map(|rank| {
            let (rank, members) = (rank.to_string(), members.to_string());
            let mut command = program(&cluster, &path, &["4", &rank, &members]);
            command.args(more).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let outputs = started.into_iter().map(|child| child.wait_with_output().unwrap());
    outputs.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).collect()
}

#[test]
fn the_environment_chooses_the_ways_of_messages_for_programs_that_do_not() {
    let _watchdog = Watchdog::usual("settings of the environment");
    let cluster = Cluster::up(2).unwrap();
    let ping_pong = compile("examples/messages/ping_pong.c");
    let run = |name, value, arguments: &[&str]| {
        let mut command = program(&cluster, &ping_pong, arguments);
        command.env(name, value).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for (name, value) in [
        ("TIELINE_MQ_FETCH", "read"),
        ("TIELINE_MQ_FETCH", "in-parts"),
        ("TIELINE_MQ_EAGER_MAX_BYTES", "0"),
        ("TIELINE_MQ_RING_BYTES", "4096"),
        ("TIELINE_MQ_RING_BYTES", "1000000"),
    ] {
        for length in ["8", "100000"] {
            let second = run(name, value, &["8", "1", "4", "1", "second", length, "50"]);
            let first = run(name, value, &["4", "1", "8", "1", "first", length, "50"]);
            for end in [first, second] {
                let output = end.wait_with_output().unwrap();
                assert!(output.status.success(), "{name}={value}, {length} bytes: {output:?}");
            }
        }
    }
    let output = run("TIELINE_MQ_FETCH", "dma", &["4", "1", "8", "1", "first", "8", "50"]).wait_with_output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("variable TIELINE_MQ_FETCH: `dma` is not"),
        "{errors}"
    );
}

#[test]
fn members_of_a_group_get_the_same() {
    let _watchdog = Watchdog::usual("groups");
    for members in [1, 2, 5] {
        assert_eq!(group(members, &[]), vec!["all equal\n"; members]);
    }
}

#[test]
fn a_member_that_ends_is_noticed_by_all_others() {
    let _watchdog = Watchdog::usual("a member that ends");
    assert_eq!(group(4, &["fails"]), ["noticed\n", "noticed\n", "noticed\n", ""]);
}

#[test]
fn two_programs_exchange_messages_and_a_killed_one_is_noticed() {
    let _watchdog = Watchdog::usual("two programs");
    let cluster = Cluster::up(2).unwrap();
    let ping_pong = compile("examples/messages/ping_pong.c");
    for length in ["0", "8", "8192", "100000"] {
        let second = program(&cluster, &ping_pong, &["8", "1", "4", "1", "second", length, "200"]).spawn();
        let first = must(&mut program(&cluster, &ping_pong, &["4", "1", "8", "1", "first", length, "200"]));
        assert!(first.starts_with(&format!("{length} bytes: half a round trip takes")), "{first}");
        assert!(second.unwrap().wait().unwrap().success());
    }
    let first = program(&cluster, &ping_pong, &["4", "2", "8", "2", "first", "8", "2000000000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut second =
        program(&cluster, &ping_pong, &["8", "2", "4", "2", "second", "8", "2000000000"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    second.kill().unwrap();
    second.wait().unwrap();
    let output = first.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("is gone"), "{errors}");
}

/// As in containers whose seccomp filter refuses them: messages come all the same, by the other way, and a
/// wait that cannot sleep looks.
#[test]
fn messages_come_where_the_kernel_refuses_a_call() {
    let _watchdog = Watchdog::usual("refused system calls");
    let cluster = Cluster::up(2).unwrap();
    let refused = compile("tests/messages/c/refused.c");
    for (call, came) in
        [("process_vm_readv", "read 0, in parts 5\n"), ("futex_waitv", "read 5, in parts 0\n")]
    {
        let mut sender = program(&cluster, &refused, &["8", "1", "4", "1", "send"]).spawn().unwrap();
        assert_eq!(must(&mut program(&cluster, &refused, &["4", "1", "8", "1", call])), came, "{call}");
        assert!(sender.wait().unwrap().success());
    }
}

#[test]
fn without_a_cluster_the_error_says_what_to_start() {
    let empty = Cluster::empty().unwrap();
    let output = program(&empty, &compile("examples/messages/ping_pong.c"), &["4", "1", "8", "1", "first"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1)
            && errors.contains("tieline_mq_open: ")
            && errors.contains("tieline up"),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
}
