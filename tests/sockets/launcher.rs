//! `tieline run`: it becomes the program, which finds everything as if it had been started plainly.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tieline_tests::Watchdog;

use crate::built::{library, made, must, program, put, tieline_as_built};

pub(crate) fn tieline(arguments: &[&str]) -> Command {
    let mut command = Command::new(tieline_as_built());
    command.args(arguments).stdin(Stdio::null());
    command.env("TIELINE_SOCKETS_LIBRARY", library()).env("TIELINE_RUNTIME_DIR", made().join("runtime"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = tieline(arguments).output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn the_programs_end_is_the_commands_end() {
    let _watchdog = Watchdog::usual("ends of programs");
    assert_eq!(
        run(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]),
        (Some(7), "out\n".into(), "err\n".into())
    );
    let killed = tieline(&["run", "sh", "-c", "kill -9 $$"]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(9));
    // The process is the same one.
    let (_, out, _) = run(&["run", "sh", "-c", "readlink /proc/$$/exe"]);
    assert!(!out.contains("tieline") && out.starts_with('/'), "{out}");
}

#[test]
fn what_cannot_be_started_says_so_as_env_does() {
    let _watchdog = Watchdog::usual("programs that cannot start");
    for (words, status, says) in [
        (
            &["run", "no-such-program"][..],
            127,
            "no-such-program: not found in PATH: install it, or give its path",
        ),
        (&["run", ""], 127, "the program's name is empty: name a program"),
        (&["run", "/nowhere/program"], 127, "/nowhere/program: no such file"),
        (&["run", "/etc/passwd"], 126, "not executable"),
        (&["run", "/etc"], 126, "/etc is a directory: name a program"),
        (&["run", "/etc/passwd/x"], 126, "Not a directory"),
        (&["run"], 2, "usage: tieline run"),
        (&["run", "--no-such-option", "ls"], 2, "no-such-option"),
        (&["run", "--stats", "/nowhere/x", "ls"], 4, "/nowhere/x"),
        (&["run", "--node", "4", "ls"], 2, "--node"),
    ] {
        let (ended, out, err) = run(words);
        assert_eq!((ended, out.as_str()), (Some(status), ""), "{words:?}: {err}");
        assert!(err.contains(says), "{words:?}: {err}");
    }
    let mut without = tieline(&["run", "true"]);
    let output = without.env("TIELINE_SOCKETS_LIBRARY", "/nowhere/l.so").output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("TIELINE_SOCKETS_LIBRARY"), "{output:?}");
}

#[test]
fn a_program_that_cannot_be_entered_is_named_and_runs_plain() {
    let _watchdog = Watchdog::usual("static programs");
    let source = made().join("static.c");
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { return write(1, \"plain\\n\", 6) != 6; }")
        .unwrap();
    let program = made().join("static");
    let compiled = Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success());
    let program = program.to_str().unwrap();
    let (status, out, err) = run(&["run", program]);
    assert_eq!((status, out.as_str()), (Some(0), "plain\n"), "{err}");
    assert!(err.contains("linked statically"), "{err}");
    let (status, out, err) = run(&["run", "--strict", program]);
    assert_eq!((status, out.as_str()), (Some(4), ""), "{err}");
    assert!(err.contains("linked statically") && err.contains("--strict"), "{err}");
}

#[test]
fn children_have_it_or_not() {
    let _watchdog = Watchdog::usual("children");
    let shows = [
        "sh",
        "-c",
        "env | grep -cE 'LD_PRELOAD|TIELINE_SOCKETS_S'; grep -c libtieline-sockets /proc/self/maps",
    ];
    let (_, with, _) = run(&[&["run"], &shows[..]].concat());
    let counts: Vec<u32> = with.lines().map(|line| line.parse().unwrap()).collect();
    assert!(counts[0] == 2 && counts[1] > 0, "{with}");
    let (_, without, _) = run(&[&["run", "--no-children"], &shows[..]].concat());
    assert_eq!(without, "0\n0\n");
    // The program itself has it.
    let (_, own, _) = run(&["run", "--no-children", "grep", "-c", "libtieline-sockets", "/proc/self/maps"]);
    assert!(own.trim().parse::<u32>().unwrap() > 0, "{own}");
    // What else is loaded stays, in the program and in its children.
    let allocator = program("allocator.so", "allocator.c", &["-shared", "-fPIC"]);
    let list = format!("LD_PRELOAD={}", allocator.display());
    let both = ["run", "--no-children", "sh", "-c", "env | grep LD_PRELOAD"];
    let output = tieline(&both).env("LD_PRELOAD", &allocator).output().unwrap();
    assert_eq!(text(&output.stdout).trim(), list);
}

/// What a program finds of what it was started with.
fn found(command: &mut Command, before: &str) -> String {
    // A shell in between sets things up that a test cannot.
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("{before}; exec {}", words.join(" "))).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let output = shell.current_dir(made()).output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_program_finds_what_it_would_have_found() {
    let _watchdog = Watchdog::usual("what a program finds");
    let shows = program("inherited", "inherited.c", &[]);
    let shows = shows.to_str().unwrap();
    for before in [
        "true",
        "exec <&-",
        "exec 0<&- 2>&-",
        "trap '' PIPE HUP",
        "ulimit -n 20",
        "umask 077",
        "exec 7</dev/null 8>/dev/null",
    ] {
        let plain = found(&mut Command::new(shows), before);
        let inside = found(&mut tieline(&["run", "--strict", "--", shows]), before);
        assert!(plain.contains("SIGPIPE"), "{plain}");
        assert_eq!(plain, inside, "{before}");
    }
    // Its own name is as it was called.
    let mut renamed = tieline(&["run", shows]);
    renamed.arg0("dis_ssocks_run").args(["x"]);
    assert!(Path::new(shows).exists());
}

#[test]
fn the_classic_name_is_the_same_command() {
    let _watchdog = Watchdog::usual("classic name");
    let mut classic = Command::new(tieline_as_built());
    classic.arg0("dis_ssocks_run").args(["sh", "-c", "grep -c libtieline-sockets /proc/self/maps; exit 5"]);
    classic.env("TIELINE_SOCKETS_LIBRARY", library()).env("TIELINE_RUNTIME_DIR", made().join("runtime"));
    let output = classic.output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_ne!(text(&output.stdout).trim(), "0");
}

#[test]
fn without_a_place_for_statistics_it_runs_all_the_same() {
    let _watchdog = Watchdog::usual("no runtime directory");
    for folder in ["/proc/nowhere", "/dev/null/x"] {
        let mut command = tieline(&["run", "--verbose", "--", "echo", "runs"]);
        let output = command.env("TIELINE_RUNTIME_DIR", folder).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "runs\n"));
        assert!(text(&output.stderr).contains("nothing is counted"), "{output:?}");
    }
}

#[test]
fn a_child_that_was_built_with_a_sanitizer_starts() {
    let _watchdog = Watchdog::usual("sanitized children");
    let source = made().join("sanitized.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"child\"); return 0; }").unwrap();
    let path = made().join("sanitized");
    let built = Command::new("cc").arg("-fsanitize=address").arg(&source).arg("-o").arg(&path).output();
    if !built.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no runtime for -fsanitize=address");
        return;
    }
    let script = format!("echo parent; ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 {}", path.display());
    let expected = (Some(0), "parent\nchild\n".to_owned(), String::new());
    assert_eq!(run(&["run", "sh", "-c", &script]), expected);
}

#[test]
fn where_no_long_file_may_be_written_the_program_runs_uncounted() {
    let _watchdog = Watchdog::usual("short files");
    let folder = made().join("short");
    let mut command = tieline(&["run", "echo", "runs"]);
    let limited = format!("ulimit -f 0; exec {} run echo runs", command.get_program().display());
    let _ = std::fs::remove_dir_all(&folder);
    let mut shell = Command::new("sh");
    shell.args(["-c", &limited]).stdin(Stdio::null());
    for (name, value) in command.env("TIELINE_RUNTIME_DIR", &folder).get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let output = shell.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "runs\n".into()), "{output:?}");
}

#[test]
fn what_starts_a_program_is_one_small_file() {
    let _watchdog = Watchdog::usual("the launcher alone");
    let folder = made().join("alone");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let alone = folder.join("tieline");
    put(tieline_as_built(), &alone);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&alone);
        command.args(arguments).env("TIELINE_SOCKETS_LIBRARY", library());
        command.env("TIELINE_RUNTIME_DIR", folder.join("runtime")).stdin(Stdio::null()).output().unwrap()
    };
    // The first start makes what is counted in, and so does each with a file of its own.
    let stats = folder.join("stats");
    let shows = ["sh", "-c", "echo $TIELINE_SOCKETS_STATISTICS"];
    for (options, counted) in [
        (
            &["run", "--strict", "--rings"][..],
            folder.join(format!("runtime/sockets-{}", rustix::process::geteuid().as_raw())),
        ),
        (&["run", "--stats", stats.to_str().unwrap(), "--"], stats.clone()),
    ] {
        let output = run(&[options, &shows].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(text(&output.stdout).trim(), counted.to_str().unwrap());
        assert!(counted.is_file());
    }
    // All else is the commands', of which it says where they belong.
    for words in [&["status"][..], &["run", "--help"], &["run", "no-such-program"], &[]] {
        let output = run(words);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(4), ""), "{words:?}");
        assert!(text(&output.stderr).contains("tieline-commands"), "{output:?}");
    }
}

#[test]
fn the_dynamic_linker_starts_the_program_and_not_the_command() {
    let _watchdog = Watchdog::usual("the dynamic linker's variables");
    let headers = must(Command::new("readelf").arg("-lW").arg(tieline_as_built()));
    assert!(headers.contains("LOAD") && !headers.contains("INTERP"), "{headers}");
    let traced = tieline(&["run", "true"]).env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    assert!(text(&traced.stdout).contains("libtieline-sockets.so"), "{traced:?}");
    let source = made().join("begun.c");
    let says = "#include <unistd.h>\n__attribute__((constructor)) static void begun(void) { if (write(1, \"begun\\n\", 6)) {} }\n";
    std::fs::write(&source, says).unwrap();
    let begun = made().join("begun.so");
    must(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&begun).arg(&source));
    let output = tieline(&["run", "--strict", "true"]).env("LD_PRELOAD", &begun).output().unwrap();
    assert_eq!(text(&output.stdout), "begun\n", "{output:?}");
}
