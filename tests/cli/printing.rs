//! Where results and errors go, and what happens when they cannot go there.

use std::fs::OpenOptions;
use std::process::Stdio;

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
        (&["up", "--json", "--nodes", "0"], 2, "1..=256"),
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
        // Whoever wants no output is served, however it was thrown away.
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
