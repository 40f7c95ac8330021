//! Benchmarks that wait: each ends at once at a signal, and none waits long for a server that does nothing.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

/// A run whose standard error is read line by line.
fn start(cluster: &Cluster, arguments: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = cluster.command(arguments).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let err = BufReader::new(child.stderr.take().unwrap());
    (child, err)
}

/// Reads until a line has the word; gives all that was read.
fn until(err: &mut BufReader<ChildStderr>, word: &str) -> String {
    let mut read = String::new();
    while !read.contains(word) {
        assert!(err.read_line(&mut read).unwrap() > 0, "no `{word}` in: {read}");
    }
    read
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Status, standard output and the rest of standard error.
fn end(mut child: Child, mut err: BufReader<ChildStderr>) -> (Option<i32>, String, String) {
    let (mut out, mut rest) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    err.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code(), out, rest)
}

#[test]
fn jitter_ends_at_once_also_while_it_watches_idle_processors() {
    let _watchdog = Watchdog::usual("jitter interrupted");
    let cluster = Cluster::up(2).unwrap();
    for (which, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for (arguments, word) in [
            // Without the question whether to end it would be an hour.
            (["--idle-seconds", "3600", "--seconds", "0.1"], "noise of idle"),
            (["--idle-seconds", "0", "--seconds", "3600"], "round trips"),
        ] {
            let call = [&["bench", "jitter", "--memory", "8M"], &arguments[..]].concat();
            let (child, mut err) = start(&cluster, &call);
            until(&mut err, word);
            signal(&child, which);
            let (code, out, rest) = end(child, err);
            assert_eq!(code, Some(status), "{call:?}: {out}{rest}");
            assert!(rest.contains("the result is partial") && !out.is_empty(), "{call:?}: {out}{rest}");
        }
    }
}

fn ends(cluster: &Cluster, tool: &str, long: &[&str]) -> (Child, Child, BufReader<ChildStderr>) {
    let call = ["bench", tool, "--server", "--rn", "8", "--node", "4"];
    let mut server = cluster.command(&call).unwrap();
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let call = ["bench", tool, "--client", "--rn", "4", "--node", "8"];
    let (client, err) = start(cluster, &[&call[..], long].concat());
    (server, client, err)
}

const LONG: [(&str, &[&str], &str); 2] = [
    ("jitter", &["--seconds", "3600", "--idle-seconds", "0", "--memory", "8M"], "round trips"),
    ("scipp", &[], "%"),
];

#[test]
fn a_server_that_is_stopped_is_given_up_and_named() {
    let _watchdog = Watchdog::usual("stopped servers");
    for (tool, long, begun) in LONG {
        let cluster = Cluster::up(2).unwrap();
        let (mut server, client, mut err) = ends(&cluster, tool, long);
        until(&mut err, begun);
        signal(&server, Signal::STOP);
        let (code, out, rest) = end(client, err);
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!((code, out.as_str()), (Some(4), ""), "{tool}: {rest}");
        for said in ["waiting for the server on node 4", "the server on node 4 has not responded for 10 s"] {
            assert!(rest.contains(said), "{tool}: {rest}");
        }
    }
}

#[test]
fn a_client_that_waits_in_vain_can_be_ended() {
    let _watchdog = Watchdog::usual("clients interrupted");
    for (tool, long, begun) in LONG {
        let cluster = Cluster::up(2).unwrap();
        let (mut server, client, mut err) = ends(&cluster, tool, long);
        until(&mut err, begun);
        signal(&server, Signal::STOP);
        until(&mut err, "waiting for the server on node 4");
        signal(&client, Signal::INT);
        let (code, _, rest) = end(client, err);
        server.kill().unwrap();
        server.wait().unwrap();
        // On a machine so busy that the client waited before the server was stopped, it is ended with what it
        // has measured.
        let is_told = ["while the server on node 4 did not", "the result is partial"]
            .iter()
            .any(|word| rest.contains(word));
        assert!(code == Some(130) && is_told, "{tool}: {rest}");
        // And while there is no server yet.
        let (client, mut err) = start(&cluster, &["bench", tool, "--client", "--rn", "4", "--node", "8"]);
        until(&mut err, "waiting for the server on node 4 to start");
        signal(&client, Signal::INT);
        let (code, _, rest) = end(client, err);
        assert!(code == Some(130) && rest.contains("while the server on node 4 did not"), "{tool}: {rest}");
    }
}
