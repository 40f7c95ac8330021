//! What `tieline run` starts, and with what: the same as env(1), which starts programs as a shell does.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tieline_tests::Watchdog;
use tieline_tests::cluster::commands_binary;

use crate::built::{library, made, program, put, tieline_as_built};
use crate::launcher::tieline;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder of files of all kinds, and how each is called.
fn kinds() -> (PathBuf, Vec<OsString>) {
    let folder = made().join("kinds");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let program = std::fs::read("/bin/true").unwrap();
    let long = format!("#!/{}\necho long", "a".repeat(300));
    let mut files: Vec<(String, Vec<u8>, u32)> = [
        ("empty", &b""[..], 0o755),
        ("text", b"echo text $@; exit 4", 0o755),
        ("no-interpreter", b"#!\necho none $@\n", 0o755),
        ("blank-interpreter", b"#! \t \necho blank $@\n", 0o755),
        ("missing-interpreter", b"#!/nowhere/x\n", 0o755),
        ("return", b"#!/bin/sh\r\necho x\n", 0o755),
        ("pipe-interpreter", b"#!./pipe\n", 0o755),
        ("folder-interpreter", b"#!/bin\n", 0o755),
        ("device-interpreter", b"#!/dev/null\n", 0o755),
        ("closed-interpreter", b"#!./closed\n", 0o755),
        ("long-interpreter", long.as_bytes(), 0o755),
        ("zero", b"#!/bin/echo\0x y\n", 0o755),
        ("one-line", b"#!/bin/cat", 0o755),
        ("closed", &program, 0o644),
        ("unreadable", &program, 0o711),
        ("head", &program[..4], 0o755),
        ("header", &program[..70], 0o755),
        ("bytes", b"\x00\x01\x02\xff\xfe", 0o755),
        ("depth1", b"#!/bin/echo 1 a", 0o755),
    ]
    .map(|(name, bytes, mode)| (name.to_owned(), bytes.to_vec(), mode))
    .into();
    for depth in 2..8 {
        let line = format!("#!./depth{} {depth} b\n", depth - 1);
        files.push((format!("depth{depth}"), line.into_bytes(), 0o755));
    }
    for (name, bytes, mode) in &files {
        tieline_tests::executable::write(&folder.join(name), bytes, *mode).unwrap();
    }
    std::os::unix::fs::symlink("loop", folder.join("loop")).unwrap();
    crate::built::must(Command::new("mkfifo").args(["-m", "755"]).arg(folder.join("pipe")));
    let mut names: Vec<OsString> = files.iter().map(|(name, ..)| format!("./{name}").into()).collect();
    let long = "n".repeat(256);
    let others = [
        "./loop",
        "./loop/x",
        "./pipe",
        "./nothing",
        "./text/x",
        ".",
        "..",
        "/",
        "/etc",
        "/dev/null",
        "",
        "nothing",
    ];
    names.extend(others.map(OsString::from));
    names.extend(["text", "closed", "depth4", "echo", &long].map(OsString::from));
    names.push(format!("./{long}").into());
    (folder, names)
}

/// The exit status and what was printed; what a shell says of a text that is no script names it, and is left
/// out.
fn ended(command: &mut Command, folder: &Path, search: Option<&str>) -> (Option<i32>, String) {
    command.current_dir(folder).stdin(Stdio::null());
    match search {
        Some(path) => command.env("PATH", path),
        None => command.env_remove("PATH"),
    };
    let output = command.output().unwrap();
    (output.status.code(), text(&output.stdout))
}

#[test]
fn what_starts_and_what_does_not_is_as_with_env() {
    let _watchdog = Watchdog::usual("what starts");
    let (folder, names) = kinds();
    for search in
        [Some("/usr/bin:/bin:."), Some(""), Some(":/nowhere:/etc/passwd"), Some("/nowhere:/etc/passwd"), None]
    {
        for name in &names {
            let plain = ended(Command::new("/usr/bin/env").arg(name).args(["x", "y z"]), &folder, search);
            let inside = ended(tieline(&["run", "--"]).arg(name).args(["x", "y z"]), &folder, search);
            assert_eq!(inside, plain, "{name:?} in {search:?}");
        }
    }
}

#[test]
fn a_program_is_handed_what_it_would_have_been_handed() {
    let _watchdog = Watchdog::usual("what a program is handed");
    let handed = program("handed", "handed.c", &[]);
    let shown = |more: &[&std::ffi::OsStr]| {
        let mut command = tieline(&[]);
        let mut oddly = Command::new(&handed);
        oddly.arg("oddly").args(more).arg(&handed).stdin(Stdio::null()).env_remove("LD_PRELOAD");
        oddly.envs(
            command.env_remove("LD_PRELOAD").get_envs().filter_map(|(name, value)| Some((name, value?))),
        );
        // Where a descriptor stands is as it was left.
        let Output { status, stdout, stderr } = oddly.output().unwrap();
        assert!(status.success() && stderr.is_empty(), "{} {}", text(&stdout), text(&stderr));
        text(&stdout)
    };
    let plain = shown(&[]);
    let binary = tieline_as_built();
    for options in [&["--strict"][..], &["--quiet", "--strict"]] {
        let words = [&["run"], options, &["--"]].concat();
        let words: Vec<&std::ffi::OsStr> =
            std::iter::once(binary.as_os_str()).chain(words.iter().map(std::ffi::OsStr::new)).collect();
        let inside = shown(&words);
        let ours = ["LD_PRELOAD=", "ASAN_OPTIONS=", "TIELINE_SOCKETS_STATISTICS="];
        let others = |shown: &str| {
            let is_ours =
                |line: &str| line.starts_with("variable") && ours.iter().any(|name| line.contains(name));
            shown.lines().filter(|line| !is_ours(line)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(inside.contains("variable 8 ") && inside.contains(" NOEQUALS"), "{inside}");
        assert!(inside.contains(&format!("LD_PRELOAD={}", library().display())), "{inside}");
        assert_eq!(others(&inside), others(&plain));
    }
}

/// A copy of the binary as an installation in `folder` has it, with the library.
fn installed(folder: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(folder);
    for name in ["bin", "lib64", "libexec/tieline"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    let binary = folder.join("bin/tieline");
    put(tieline_as_built(), &binary);
    put(&commands_binary().unwrap(), &folder.join("libexec/tieline/tieline-commands"));
    std::fs::copy(library(), folder.join("lib64/libtieline-sockets.so")).unwrap();
    binary
}

#[test]
fn without_proc_it_runs_with_the_library() {
    let _watchdog = Watchdog::usual("no /proc");
    let binary = installed(&made().join("no-proc"));
    let shell = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "-r", "sh", "-c", script, "sh"]).arg(&binary).stdin(Stdio::null());
        unshare.env_remove("TIELINE_SOCKETS_LIBRARY").env("TIELINE_RUNTIME_DIR", made().join("runtime"));
        unshare.output().unwrap()
    };
    if !shell("umount -l /proc").status.success() {
        println!("SKIPPED: no mounts of one's own here");
        return;
    }
    let output =
        shell("umount -l /proc; cd /; exec \"$1\" run --strict -- sh -c 'echo $LD_PRELOAD; ls /proc'");
    assert!(output.status.success(), "{output:?}");
    let library = made().join("no-proc/lib64/libtieline-sockets.so");
    assert_eq!(text(&output.stdout).trim(), library.to_str().unwrap(), "{output:?}");
    // By a relative link, as an installation's classic names are.
    let _ = std::fs::remove_file(made().join("no-proc/bin/dis_ssocks_run"));
    std::os::unix::fs::symlink("tieline", made().join("no-proc/bin/dis_ssocks_run")).unwrap();
    let output =
        shell("umount -l /proc; cd \"${1%/*}\"; exec ./dis_ssocks_run --strict -- sh -c 'echo $LD_PRELOAD'");
    assert_eq!(text(&output.stdout).trim(), library.to_str().unwrap(), "{output:?}");
}

#[test]
fn an_installation_in_a_folder_with_a_space_or_a_colon_works() {
    let _watchdog = Watchdog::usual("odd folders");
    for name in ["with a space", "with:a:colon", "with $LIB"] {
        let binary = installed(&made().join(name));
        let run = |runtime: &Path, options: &[&str]| {
            let mut command = Command::new(&binary);
            command.arg("run").args(options).args(["grep", "-c", "libtieline-sockets", "/proc/self/maps"]);
            command
                .env_remove("TIELINE_SOCKETS_LIBRARY")
                .env("TIELINE_RUNTIME_DIR", runtime)
                .stdin(Stdio::null());
            command.output().unwrap()
        };
        let output = run(&made().join("runtime-odd"), &["--strict"]);
        assert!(output.status.success() && text(&output.stdout).trim() != "0", "{name}: {output:?}");
        // Where there can be no link to it.
        let output = run(&made().join("also with a space"), &[]);
        assert_eq!(text(&output.stdout).trim(), "0", "{name}: {output:?}");
        assert!(text(&output.stderr).contains("dollar sign"), "{name}: {output:?}");
        assert_eq!(run(&made().join("also with a space"), &["--strict"]).status.code(), Some(4), "{name}");
    }
}

#[test]
fn a_library_that_is_not_there_is_named_once() {
    let _watchdog = Watchdog::usual("missing libraries");
    let list = "/nowhere/first.so /nowhere/second.so nowhere.so";
    let output = tieline(&["run", "--strict", "true"]).env("LD_PRELOAD", list).output().unwrap();
    let err = text(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    for name in ["/nowhere/first.so", "/nowhere/second.so", "'nowhere.so"] {
        assert_eq!(err.matches(name).count(), 1, "{name}: {err}");
    }
}

#[test]
fn the_dynamic_linker_as_a_command_is_entered_if_its_program_can_be() {
    let _watchdog = Watchdog::usual("the dynamic linker");
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let resolved = std::fs::canonicalize(loader).unwrap();
    let link = made().join("another name");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&resolved, &link).unwrap();
    for loader in [Path::new(loader), &resolved, &link] {
        let mut command = tieline(&["run", "--strict"]);
        let counts = ["/bin/grep", "-c", "libtieline-sockets", "/proc/self/maps"];
        let output = command.arg(loader).args(["--argv0", "x"]).args(counts).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).trim() != "0", "{loader:?}: {output:?}");
        // The command itself by the same way.
        let binary = installed(&made().join("by-hand"));
        let mut command = Command::new(loader);
        command.arg(binary).args(["run", "--strict"]).args(counts).stdin(Stdio::null());
        command.env_remove("TIELINE_SOCKETS_LIBRARY").env("TIELINE_RUNTIME_DIR", made().join("runtime"));
        let output = command.output().unwrap();
        assert!(output.status.success() && text(&output.stdout).trim() != "0", "{loader:?}: {output:?}");
    }
}

#[test]
fn an_environment_without_room_for_the_library_is_handed_on_plain() {
    let _watchdog = Watchdog::usual("long environments");
    // The kernel's limit for one text is 128 KiB: the list is as long as it may be.
    let list = format!("{}:libc.so.6", "x".repeat(128 * 1024 - 22));
    let mut command = tieline(&["run", "sh", "-c", "echo ${#LD_PRELOAD}"]);
    let output = command.env("LD_PRELOAD", &list).output().unwrap();
    assert_eq!(text(&output.stdout).trim(), list.len().to_string(), "{}", text(&output.stderr).len());
    assert!(text(&output.stderr).contains("the library's name does not fit in"));
}

#[test]
fn under_a_low_limit_of_memory_it_runs_plain() {
    let _watchdog = Watchdog::usual("low limits");
    let command = tieline(&[]);
    let binary = tieline_as_built();
    let run = |limit: &str, options: &str| {
        let script = format!(
            "ulimit {limit}; exec \"$0\" run {options} -- grep -c libtieline-sockets /proc/self/maps"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(binary).stdin(Stdio::null());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.output().unwrap()
    };
    let output = run("-d 4000", "");
    assert_eq!(text(&output.stdout), "0\n", "{output:?}");
    assert!(text(&output.stderr).contains("the limit of its memory"), "{output:?}");
    assert_eq!(run("-d 4000", "--strict").status.code(), Some(4));
    // With a little more it is entered.
    for limit in ["-d 20000", "-v 40000", "-s 64"] {
        let output = run(limit, "--strict");
        assert!(output.status.success() && text(&output.stdout) != "0\n", "{limit}: {output:?}");
    } // As long as there is nothing to say.
    let script = "ulimit -v 10000; exec \"$0\" run --strict -- true";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(binary).stdin(Stdio::null());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
