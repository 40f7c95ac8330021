//! `tieline sockets`: what processes do with their connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::Value;
use tieline_tests::Watchdog;

use crate::built::made;
use crate::launcher::tieline;

/// What a command prints as JSON, in a runtime directory of this test.
fn asked(runtime: &str, arguments: &[&str]) -> Value {
    let mut command = tieline(arguments);
    let output = command.arg("--json").env("TIELINE_RUNTIME_DIR", made().join(runtime)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_connection_is_shown_with_its_ends_and_bytes_and_the_reason() {
    let _watchdog = Watchdog::usual("statistics");
    if !std::path::Path::new("/bin/bash").exists() {
        println!("SKIPPED: no bash");
        return;
    }
    let runtime = "runtime-shown";
    let _ = std::fs::remove_dir_all(made().join(runtime));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Told when to continue; the bytes go through a descriptor of the shell itself.
    let script = format!(
        "exec 5<>/dev/tcp/127.0.0.1/{port}; read -u 5 -r x; echo said; read -r y; exec 5>&-; echo closed; read -r z"
    );
    let mut command = tieline(&["run", "--", "/bin/bash", "-c", &script]);
    command.env("TIELINE_RUNTIME_DIR", made().join(runtime)).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = command.spawn().unwrap();
    let mut orders = shell.stdin.take().unwrap();
    let mut says = BufReader::new(shell.stdout.take().unwrap());
    let (mut far, _): (TcpStream, _) = listener.accept().unwrap();
    far.write_all(b"0123456789\n").unwrap();
    let mut line = String::new();
    says.read_line(&mut line).unwrap();
    let stat = asked(runtime, &["sockets", "stat"]);
    let process = &stat["processes"][0];
    assert_eq!(
        (&process["pid"], &process["name"]),
        (&Value::from(shell.id()), &Value::from("bash")),
        "{stat:#}"
    );
    let open = &process["open"][0];
    assert_eq!(
        (&open["fd"], &open["reason"]),
        (&Value::from(5), &Value::from("started without --rings")),
        "{stat:#}"
    );
    assert_eq!(open["remote"], format!("127.0.0.1:{port}"), "{stat:#}");
    assert_eq!(process["moved"]["bytes_in"], 11, "{stat:#}");
    // The shell reads one by one; from the tenth on the connection has a record, in which those before stand,
    // too.
    assert_eq!(
        (&open["moved"]["bytes_in"], &open["moved"]["bytes_out"]),
        (&Value::from(11), &Value::from(0)),
        "{stat:#}"
    );
    let counted = |what: &str| {
        let mut reasons = stat["reasons"].as_array().unwrap().iter();
        reasons.find(|one| one["what"] == what).map(|one| one["count"].clone())
    };
    assert_eq!(counted("started without --rings"), Some(Value::from(1)), "{stat:#}");
    assert_eq!(counted("not yet"), Some(Value::from(0)), "{stat:#}");
    assert_eq!(process["bytes_past_kernel"], 0);
    orders.write_all(b"\n").unwrap();
    line.clear();
    says.read_line(&mut line).unwrap();
    let closed = asked(runtime, &["sockets", "status"]);
    assert_eq!(closed["processes"][0]["open"].as_array().map(Vec::len), Some(0), "{closed:#}");
    assert_eq!(closed["processes"][0]["moved"]["bytes_in"], 11, "{closed:#}");
    let mut of_one = tieline(&["sockets", "stat", "--pid", "1", "--json"]);
    let of_one = of_one.env("TIELINE_RUNTIME_DIR", made().join(runtime)).output().unwrap();
    assert_eq!(of_one.status.code(), Some(4), "{of_one:?}");
    drop(orders);
    shell.wait().unwrap();
    assert_eq!(asked(runtime, &["sockets", "status"])["processes"].as_array().map(Vec::len), Some(0));
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn a_file_of_its_own_keeps_those_that_have_ended() {
    let _watchdog = Watchdog::usual("statistics file");
    let file = made().join("kept.statistics");
    let file = file.to_str().unwrap();
    let descriptors = crate::built::program("descriptors", "descriptors.c", &[]);
    let ran = tieline(&["run", "--stats", file, "--", descriptors.to_str().unwrap()]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let stat = asked("runtime", &["sockets", "stat", "--from", file]);
    let process = &stat["processes"][0];
    assert_eq!(process["running"], false, "{stat:#}");
    assert!(process["connections"].as_u64().unwrap() > 8, "{stat:#}");
    let notes: Vec<&str> =
        process["notes"].as_array().unwrap().iter().filter_map(|it| it["what"].as_str()).collect();
    for note in ["descriptor copied", "closed in bulk", "descriptor received", "stream on a descriptor"] {
        assert!(notes.contains(&note), "{note}: {stat:#}");
    }
    // The next run begins anew.
    let again = tieline(&["run", "--stats", file, "--", "true"]).output().unwrap();
    assert!(again.status.success(), "{again:?}");
    assert_eq!(
        asked("runtime", &["sockets", "stat", "--from", file])["processes"].as_array().map(Vec::len),
        Some(0)
    );
}

#[test]
fn bytes_of_connections_that_are_open_at_the_end_are_not_lost() {
    let _watchdog = Watchdog::usual("bytes at the end");
    let ends = crate::built::program("ends", "ends.c", &[]);
    // However a program leaves: by itself, past its destructors, or into another program.
    for way in ["return", "exit", "_exit", "exec", "syscall", "failed"] {
        let file = made().join(format!("ends-{way}.statistics"));
        let file = file.to_str().unwrap();
        let ran = tieline(&["run", "--stats", file, "--", ends.to_str().unwrap(), way]).output().unwrap();
        assert!(ran.status.success(), "{way}: {ran:?}");
        let stat = asked("runtime", &["sockets", "stat", "--from", file]);
        let moved = &stat["processes"][0]["moved"];
        // Ten thousand through an open connection, three through one with few uses; each has two ends here.
        let wanted = Value::from(10_003);
        assert_eq!((&moved["bytes_in"], &moved["bytes_out"]), (&wanted, &wanted), "{way}: {stat:#}");
        assert_eq!(stat["processes"][0]["connections"], 4, "{way}: {stat:#}");
    }
}

/// What a child inherits, what is used seldom, what was used before another program was executed, several
/// numbers for one.
#[test]
fn what_was_moved_is_what_is_told() {
    let _watchdog = Watchdog::usual("what was moved");
    let moves = crate::built::program("moves", "moves.c", &[]);
    for (way, processes, connections, bytes_in, bytes_out) in [
        ("inherited", 2, 3 + 1, 100 + 50_000, 100 + 50_000),
        ("seldom", 1, 200, 400, 400),
        ("executed", 1, 4, 2_000 + 1_000, 2_000 + 1_000),
        ("copied", 1, 2, 3_000, 3_000),
        ("shut", 1, 2, 1_000, 1_000),
    ] {
        let file = made().join(format!("moves-{way}.statistics"));
        let file = file.to_str().unwrap();
        let ran = tieline(&["run", "--stats", file, "--", moves.to_str().unwrap(), way]).output().unwrap();
        assert!(ran.status.success(), "{way}: {ran:?}");
        let stat = asked("runtime", &["sockets", "stat", "--from", file]);
        let all = stat["processes"].as_array().unwrap();
        let sum = |of: &dyn Fn(&Value) -> &Value| all.iter().filter_map(|it| of(it).as_u64()).sum::<u64>();
        let found = (
            all.len(),
            sum(&|it| &it["connections"]),
            sum(&|it| &it["moved"]["bytes_in"]),
            sum(&|it| &it["moved"]["bytes_out"]),
        );
        assert_eq!(found, (processes, connections, bytes_in, bytes_out), "{way}: {stat:#}");
    }
}

#[test]
fn what_is_no_file_of_statistics_is_refused_and_left_alone() {
    let _watchdog = Watchdog::usual("foreign files");
    let file = made().join("letter.txt");
    std::fs::write(&file, "dear reader").unwrap();
    let name = file.to_str().unwrap();
    for words in [&["run", "--stats", name, "--", "true"][..], &["sockets", "stat", "--from", name]] {
        let output = tieline(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("not a statistics file"), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "dear reader");
}

#[test]
fn a_damaged_file_harms_no_program() {
    let _watchdog = Watchdog::usual("damaged statistics");
    let descriptors = crate::built::program("descriptors", "descriptors.c", &[]);
    let file = made().join("damaged.statistics");
    let _ = std::fs::remove_file(&file);
    sockets_rules::statistics::create(&file, true).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let mut taken = whole.clone();
    // All slots belong to a process that runs.
    for slot in 0..sockets_rules::layout::SLOTS {
        let at = 8 * (sockets_rules::layout::OWNERS + slot);
        taken[at..at + 8].copy_from_slice(&1_u64.to_le_bytes());
    }
    let scribbled = [&whole[..8], &vec![0xff; whole.len() - 8]].concat();
    for contents in [&whole[..1000], &[], &taken, &scribbled, &vec![0; whole.len()]] {
        std::fs::write(&file, contents).unwrap();
        let mut command = std::process::Command::new(&descriptors);
        command.env("LD_PRELOAD", crate::built::library()).env("TIELINE_SOCKETS_STATISTICS", &file);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
