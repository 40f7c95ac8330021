//! Where results and errors go, and what happens when they cannot go there.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use tieline_tests::cluster::tieline_binary;
use tieline_tests::{Cluster, Watchdog};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: `{text}`"))
}

#[test]
fn with_json_an_error_is_an_object_on_standard_output() {
    let _watchdog = Watchdog::usual("errors as JSON");
    let cluster = Cluster::empty().unwrap();
    for (arguments, expected, word) in [
        (&["status", "--json"][..], 4, "tieline up"),
        (&["--json", "query"], 4, "tieline up"),
        (&["diag", "--json", "--node", "5"], 2, "multiple of 4"),
        (&["up", "--json", "--nodes", "0"], 2, "from 1 to 256"),
        (&["down", "--json", "--node", "4"], 2, "takes no --node"),
        (&["frobnicate", "--json"], 2, "frobnicate"),
        (&["bench", "acceptance", "--json", "--only", "nothing"], 2, "nothing"),
    ] {
        let (status, out, err) = cluster.run(arguments).unwrap();
        assert_eq!(status, expected, "{arguments:?}: {err}");
        let error = json(&out);
        assert_eq!((&error["schema"], &error["status"]), (&"tieline.error/1".into(), &expected.into()));
        assert!(error["error"].as_str().unwrap().contains(word) && !err.is_empty(), "{arguments:?}: {out}");
        let without: Vec<&str> = arguments.iter().copied().filter(|argument| *argument != "--json").collect();
        let (_, out, _) = cluster.run(&without).unwrap();
        assert_eq!(out, "", "{without:?}");
    }
}

#[test]
fn results_name_their_form() {
    let _watchdog = Watchdog::usual("schemas");
    let cluster = Cluster::up(1).unwrap();
    for (arguments, schema) in [
        (&["status"][..], "tieline.status/1"),
        (&["node", "status", "--node", "4"], "tieline.status/1"),
        (&["query"], "tieline.query/1"),
        (&["cable"], "tieline.cable/1"),
        (&["cable", "--generate"], "tieline.plan/1"),
        (&["diag"], "tieline.diag/1"),
        (&["diag", "--node", "4"], "tieline.diag/1"),
        (&["clusters"], "tieline.clusters/1"),
        (&["up", "--nodes", "1"], "tieline.up/1"),
        (&["node", "restart", "--node", "4"], "tieline.node/1"),
        (&["down"], "tieline.down/1"),
    ] {
        let (status, out, err) = cluster.run(&[arguments, &["--json"]].concat()).unwrap();
        // One node has no link whose cables could be judged.
        let wanted = if arguments == ["cable"] { 3 } else { 0 };
        assert!(status == wanted && json(&out)["schema"] == schema, "{arguments:?}: {out}{err}");
    }
}

const PRINTING: [&[&str]; 12] = [
    &["--help"],
    &["--version"],
    &["up", "--help"],
    &["status"],
    &["status", "--json"],
    &["query"],
    &["cable"],
    &["cable", "--generate"],
    &["diag"],
    &["clusters"],
    &["bench", "acceptance", "--list"],
    &["bench", "scipp", "--size", "4", "--json", "--quiet"],
];

#[test]
fn a_full_disk_is_4_with_the_reason() {
    let _watchdog = Watchdog::usual("/dev/full");
    let cluster = Cluster::up(1).unwrap();
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    for arguments in PRINTING.iter().chain([&&["down"][..]]) {
        let output = cluster.command(arguments).unwrap().stdout(full()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(4) && err.contains("standard output"), "{arguments:?}: {err}");
    }
    // What cannot be said changes nothing about what is done.
    for (arguments, expected) in
        [(&["up", "--nodes", "1"][..], 0), (&["query", "--node", "5"], 2), (&["status"], 0)]
    {
        let status =
            cluster.command(arguments).unwrap().stdout(Stdio::null()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn a_closed_standard_output_is_4_with_the_reason() {
    let _watchdog = Watchdog::usual("closed output");
    let cluster = Cluster::up(2).unwrap();
    let verify = ["verify", "--health"];
    for arguments in PRINTING.iter().chain([&&verify[..]]).map(|arguments| with_node(arguments)) {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "exec \"$@\" >&-", "sh"]).arg(tieline_binary().unwrap()).args(&arguments);
        cluster.set_environment(&mut command);
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {err}");
        assert!(err.contains("standard output: it is closed"), "{arguments:?}: {err}");
        // A process that wants no output is served, however it was thrown away.
        let null = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let status = cluster.command(&["status"]).unwrap().stdout(null).status().unwrap();
        assert_eq!(status.code(), Some(0));
    }
}

/// One of two nodes, where one has to be named.
fn with_node<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let node: &[&str] = if arguments == ["query"] { &["--node", "4"] } else { &[] };
    [arguments, node].concat()
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let _watchdog = Watchdog::usual("closed pipe");
    let cluster = Cluster::up(2).unwrap();
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = cluster.command(&with_node(arguments)).unwrap().stdout(writer).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(0) && !err.contains("pipe"),
            "{arguments:?}: {:?} {err}",
            output.status
        );
    }
}

/// What a command prints on a terminal that is so wide.
fn on_a_terminal(
    cluster: &Cluster,
    arguments: &[&str],
    columns: u16,
    environment: &[(&str, &str)],
) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = OpenOptions::new().read(true).write(true).open(path).unwrap();
    tcsetwinsize(&theirs, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = cluster.command(arguments).unwrap();
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command.envs(environment.iter().copied()).stdout(theirs.try_clone().unwrap()).stderr(Stdio::null());
    // Nothing here has the other end but the command, so that its end is seen.
    let mut child = command.spawn().unwrap();
    drop((command, theirs));
    let mut text = Vec::new();
    // Nobody having the terminal is an error (EIO) behind all that was printed.
    drop(File::from(ours).read_to_end(&mut text));
    child.wait().unwrap();
    String::from_utf8(text).unwrap().replace("\r\n", "\n")
}

#[test]
fn on_a_terminal_verdicts_have_colour_and_lines_fit() {
    let _watchdog = Watchdog::usual("a terminal");
    let cluster = Cluster::up(2).unwrap();
    let plain = [("NO_COLOR", "1")];
    let wide = on_a_terminal(&cluster, &["cable"], 200, &[]);
    assert!(wide.contains("*\x1b[1m\x1b[32mPASSED\x1b[0m*"), "{wide:?}");
    for (what, environment) in [("NO_COLOR", &plain[..]), ("a terminal without", &[("TERM", "dumb")])] {
        let text = on_a_terminal(&cluster, &["cable"], 200, environment);
        assert!(text.contains("*PASSED*") && !text.contains('\x1b'), "{what}: {text:?}");
    }
    for arguments in [&["cable"][..], &["status"], &["link", "list"], &["diag"], &["query"], &["clusters"]] {
        let words = |text: &str| text.split_whitespace().count();
        let narrow = on_a_terminal(&cluster, arguments, 40, &plain);
        let wide = on_a_terminal(&cluster, arguments, 1000, &plain);
        let too_long = |line: &&str| line.chars().count() > 40 && line.split_whitespace().count() > 1;
        assert_eq!(narrow.lines().find(too_long), None, "{arguments:?}");
        assert_eq!(words(&narrow), words(&wide), "{arguments:?}");
    }
    let file = on_a_terminal(&cluster, &["cable", "--generate"], 20, &[]);
    assert_eq!(file, cluster.run(&["cable", "--generate"]).unwrap().1, "a file stays as it is");
    let json = on_a_terminal(&cluster, &["cable", "--json"], 20, &[]);
    assert_eq!(self::json(&json)["verdict"], "PASS");
}
