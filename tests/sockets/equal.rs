//! Programs with the library and without: output, errors and end are equal.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use tieline_tests::Watchdog;

use crate::built::{library, made, must, program};

/// What a program says and how it ends.
fn run(
    program: &Path,
    arguments: &[&str],
    preloaded: &[&Path],
    variables: &[(&str, &str)],
) -> (String, String, String) {
    let mut command = Command::new(program);
    command.env_remove("TIELINE_SOCKETS_STATISTICS").envs(variables.iter().copied());
    command.args(arguments).stdin(Stdio::null()).current_dir(made());
    if !preloaded.is_empty() {
        let list: Vec<OsString> = preloaded.iter().map(|it| it.as_os_str().to_owned()).collect();
        command.env("LD_PRELOAD", list.join(OsString::from(":").as_os_str()));
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.to_string())
}

/// Runs it plain and with the library, and compares.
fn equal(name: &str, before: &[&Path], behind: &[&Path]) -> String {
    equal_with(name, &program(name, &format!("{name}.c"), &[]), before, behind, &[])
}

fn equal_with(
    name: &str,
    program: &Path,
    before: &[&Path],
    behind: &[&Path],
    variables: &[(&str, &str)],
) -> String {
    let plain = run(program, &[], &[before, behind].concat(), variables);
    let inside = run(program, &[], &[before, &[library()], behind].concat(), variables);
    assert!(plain.0.lines().count() > 1, "{name} said too little: {plain:?}");
    for (at, (a, b)) in plain.0.lines().zip(inside.0.lines()).enumerate() {
        assert_eq!(a, b, "{name}, line {}: left plain, right with the library", at + 1);
    }
    assert_eq!(plain, inside, "{name}");
    plain.0
}

#[test]
fn every_call_and_its_errors() {
    let _watchdog = Watchdog::usual("all calls");
    let said = equal("calls", &[], &[]);
    assert!(said.contains("== limits"), "it did not come to its end: {said}");
}

#[test]
fn numbers_that_become_something_else() {
    let _watchdog = Watchdog::usual("descriptors");
    let said = equal("descriptors", &[], &[]);
    assert!(!said.contains("lost"), "{said}");
}

#[test]
fn what_a_call_was_given_may_be_gone_when_it_is_back() {
    let _watchdog = Watchdog::usual("taken");
    let said = equal("taken", &[], &[]);
    assert!(said.starts_with("sent: 160000\n") && said.contains("EFAULT"), "{said}");
}

#[test]
fn children_of_all_kinds() {
    let _watchdog = Watchdog::usual("processes");
    let said = equal("processes", &[], &[]);
    assert!(said.contains("executed again: 1 q") && said.contains("forkpty: ended"), "{said}");
}

#[test]
fn every_call_that_waits_is_interrupted_and_cancelled() {
    let _watchdog = Watchdog::usual("signals");
    let said = equal("signals", &[], &[]);
    assert_eq!(said.matches("EINTR, handled 1").count(), 15, "{said}");
    assert_eq!(said.matches("cancelled").count(), 38, "{said}");
}

#[test]
fn a_program_that_gives_up_rights() {
    let _watchdog = Watchdog::usual("confined");
    // Counted in a file, which is looked for only after the rights are gone.
    let file = made().join("confined.statistics");
    sockets_rules::statistics::create(&file, true).unwrap();
    let variables = [("TIELINE_SOCKETS_STATISTICS", file.to_str().unwrap())];
    let confined = program("confined", "confined.c", &[]);
    let plain = run(&confined, &[], &[], &[]);
    let inside = run(&confined, &[], &[library()], &variables);
    assert_eq!(plain, inside);
    assert!(plain.0.contains("filter: 400"), "{plain:?}");
}

#[test]
fn filters_that_kill_at_calls_that_the_program_does_not_make() {
    let _watchdog = Watchdog::usual("filters");
    let file = made().join("filters.statistics");
    sockets_rules::statistics::create(&file, true).unwrap();
    let variables = [("TIELINE_SOCKETS_STATISTICS", file.to_str().unwrap())];
    let said = equal_with("filters", &program("filters", "filters.c", &[]), &[], &[], &variables);
    // By itself, in the process whose child did, and as the one that was executed, once without /proc.
    assert_eq!(said.matches("write(pair[0], \"fg\", 2): 2\n").count(), 4, "{said}");
    assert!(said.contains("dispatched: 0\n") || said.contains("no dispatch here\n"), "{said}");
    assert!(said.contains("strict: 0\n") && said.contains("executed under a filter"), "{said}");
}

#[test]
fn a_library_with_functions_of_its_own_under_these_names() {
    let _watchdog = Watchdog::usual("foreign");
    // Its own name, another file's name, no own name and named by its path, and one that begins as the C
    // library's.
    for (file, own_name, by_path) in [
        ("libforeign.so", Some("libforeign.so"), false),
        ("libforeign-renamed.so", Some("libforeign-renamed.so.1"), false),
        ("libforeign-nameless.so", None, true),
        ("libc-client.so.2007", Some("libc-client.so.2007"), false),
    ] {
        let own_name = own_name.map(|name| format!("-Wl,-soname,{name}"));
        let mut flags = vec!["-shared", "-fPIC", "-DLIBRARY"];
        flags.extend(own_name.as_deref());
        let library = program(file, "foreign.c", &flags);
        if file == "libforeign-renamed.so" {
            let _ = std::fs::remove_file(made().join("libforeign-renamed.so.1"));
            std::os::unix::fs::symlink(file, made().join("libforeign-renamed.so.1")).unwrap();
        }
        let path = library.to_str().unwrap();
        let by_name = format!("-l:{file}");
        let folder = format!("-L{}", made().display());
        let needs = if by_path { vec![path] } else { vec![&*folder, &*by_name, "-Wl,-rpath,$ORIGIN"] };
        let name = format!("foreign-of-{file}");
        let foreign = program(&name, "foreign.c", &needs);
        let said = equal_with(&name, &foreign, &[], &[], &[]);
        assert!(said.starts_with("123 321 891\n10 20015998343868 -5\n7 3 10 4 21\n7\n7.5\n0\n"), "{said}");
    }
}

#[test]
fn called_while_the_loader_relocates() {
    let _watchdog = Watchdog::usual("resolver");
    let shared = ["-shared", "-fPIC"];
    let resolver = program("libresolver.so", "resolver.c", &[&shared[..], &["-DRESOLVER"]].concat());
    let resolver = resolver.to_str().unwrap();
    let between = program(
        "libbetween.so",
        "resolver.c",
        &[&shared[..], &["-DBETWEEN", resolver, "-Wl,-rpath,$ORIGIN"]].concat(),
    );
    let between = between.to_str().unwrap();
    let resolved = program("resolved", "resolver.c", &[between, resolver, "-Wl,-rpath,$ORIGIN"]);
    let said = equal_with("resolver", &resolved, &[], &[], &[]);
    assert!(said.starts_with("chosen: 11\n"), "{said}");
}

#[test]
fn beside_libraries_with_either_table_of_names() {
    let _watchdog = Watchdog::usual("tables of names");
    for style in ["sysv", "gnu", "both"] {
        let hash = format!("-Wl,--hash-style={style}");
        let interposer =
            program(&format!("interposer-{style}.so"), "interposer.c", &["-shared", "-fPIC", &hash]);
        for (before, behind) in [(&[][..], &[&*interposer][..]), (&[&*interposer], &[])] {
            let name = "descriptors";
            let program = program(name, "descriptors.c", &[]);
            let all = |ours: &[&Path]| run(&program, &[], &[before, ours, behind].concat(), &[]);
            let (plain, inside) = (all(&[]), all(&[library()]));
            assert!(plain.1.contains("write\n"), "it is not called");
            assert_eq!(plain, inside, "{style}");
        }
    }
}

#[test]
fn children_of_another_c_library() {
    let _watchdog = Watchdog::usual("musl");
    if !Path::new("/usr/bin/musl-gcc").exists() {
        println!("SKIPPED: no musl-gcc");
        return;
    }
    let program = made().join("other-c-library");
    let source = crate::built::top().join("tests/sockets/c/plain.c");
    must(Command::new("musl-gcc").args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(source));
    // As a child: it inherits what is to be preloaded, from a launcher that does not know of it.
    let said = equal_with("plain", &program, &[], &[], &[]);
    assert!(said.contains("vfork: 0") && said.contains("stream: hello"), "{said}");
    let file = made().join("other.statistics");
    sockets_rules::statistics::create(&file, true).unwrap();
    let variables = [("TIELINE_SOCKETS_STATISTICS", file.to_str().unwrap())];
    let counted = run(&program, &[], &[library()], &variables);
    assert_eq!(counted.0, said);
    assert!(sockets_rules::statistics::read(&file).unwrap().iter().any(|it| it.connections > 0));
}

#[test]
fn threads_that_race() {
    let _watchdog = Watchdog::usual("threads");
    assert!(equal("threads", &[], &[]).starts_with("wrong: 0\nwrong: 0\n"));
}

#[test]
fn ten_thousand_connections() {
    let _watchdog = Watchdog::usual("connections");
    let said = equal("many", &[], &[]);
    assert!(said.contains("answered: 1, wrong: 0\n") && said.contains("copied: 1"), "{said}");
    println!("{said}");
}

#[test]
fn before_the_first_constructor_and_after_the_last_destructor() {
    let _watchdog = Watchdog::usual("early");
    equal("early", &[], &[]);
}

#[test]
fn beside_an_allocator_that_makes_calls() {
    let _watchdog = Watchdog::usual("allocator");
    let allocator = program("allocator.so", "allocator.c", &["-shared", "-fPIC"]);
    for name in ["early", "calls", "threads"] {
        equal(name, &[&allocator], &[]);
        equal(name, &[], &[&allocator]);
    }
}

#[test]
fn fortified_and_sanitized_programs() {
    let _watchdog = Watchdog::usual("sanitizers");
    let fortified = program("calls-fortified", "calls.c", &["-O2", "-D_FORTIFY_SOURCE=2"]);
    equal_with("calls-fortified", &fortified, &[], &[], &[]);
    let kinds = [("thread", "threads"), ("undefined", "descriptors"), ("address", "descriptors")];
    for (kind, name) in kinds {
        let flag = format!("-fsanitize={kind}");
        if !links(&flag) {
            println!("SKIPPED: no runtime for {flag}");
            continue;
        }
        let sanitized = program(&format!("{name}-{kind}"), &format!("{name}.c"), &[&flag]);
        // Its runtime wants to be loaded first, as the launcher has it.
        let runtime = must(Command::new("cc").arg("-print-file-name=libasan.so"));
        let runtime = std::fs::canonicalize(runtime.trim());
        let first = if kind == "address" { vec![runtime.unwrap()] } else { vec![] };
        let first: Vec<&Path> = first.iter().map(AsRef::as_ref).collect();
        let options = [("ASAN_OPTIONS", "detect_leaks=0"), ("TSAN_OPTIONS", "report_bugs=0")];
        equal_with(name, &sanitized, &first, &[], &options);
    }
}

fn links(flag: &str) -> bool {
    let source = made().join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let made = Command::new("cc").arg(flag).arg(&source).arg("-o").arg(made().join("empty")).output();
    made.is_ok_and(|output| output.status.success())
}

#[test]
fn programs_of_every_day() {
    let _watchdog = Watchdog::usual("programs");
    for (program, arguments) in [
        (
            "/bin/sh",
            &["-c", "echo a | cat; (exit 3); echo $?; exec 5>&1; echo b >&5; exec 5>&-; ls /proc/self/fd"][..],
        ),
        (
            "/bin/bash",
            &[
                "-c",
                "exec 7<>/dev/null; read -t 0.01 x <&7; echo $?; cat <(echo sub) <<<here -; coproc cat; echo x >&${COPROC[1]}; read y <&${COPROC[0]}; echo $y",
            ],
        ),
        ("/usr/bin/env", &["-i", "/bin/echo", "clean"]),
        (
            "/bin/sh",
            &[
                "-c",
                "exec <&- >&- 2>&-; exec /bin/sh -c 'exec 9>out; echo 0 >&9; ls -l /proc/self/fd | wc -l >&9'",
            ],
        ),
        (
            "/bin/sh",
            &["-c", "cat out; ulimit -n 4; cat /proc/self/comm; ulimit -v 200000; cat /proc/self/comm"],
        ),
    ] {
        if !Path::new(program).exists() {
            println!("SKIPPED: no {program}");
            continue;
        }
        let plain = run(Path::new(program), arguments, &[], &[]);
        assert_eq!(plain, run(Path::new(program), arguments, &[library()], &[]), "{arguments:?}");
    }
}
