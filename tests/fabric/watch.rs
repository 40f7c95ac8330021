//! `--watch` says only what differs; signals end what runs.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tieline_tests::Watchdog;

use crate::harness::{Place, Served};

#[test]
fn a_watch_says_what_grew_and_nothing_else() {
    let _watchdog = Watchdog::usual("watch");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    let mut served = Served::start(&place, "net.toml", &[]);
    let words = served.observe(&["--watch", "1", "--times", "2", "--json", "--quiet"]);
    let mut watching = place.command(&words).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // Until the first look has been printed the counter is as before; the report itself is many lines.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let mut report = String::new();
    for line in lines.by_ref().map(Result::unwrap) {
        report.push_str(&line);
        if line == "}" {
            break;
        }
    }
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["verdict"], "PASS");
    served.tell("counter leaf000 1 discards 7");
    let looks: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(looks.len(), 2, "{looks:?}");
    let grown: Vec<&Value> = looks.iter().flat_map(|look| look["grown"].as_array().unwrap()).collect();
    assert_eq!(grown.len(), 1, "{looks:?}");
    assert_eq!((&grown[0][0], &grown[0][1]["discards"]), (&"leaf000/1".into(), &7.into()));
    watching.wait().unwrap();
}

#[test]
fn a_server_ends_by_the_line_quit_or_by_a_signal_and_leaves_nothing() {
    let _watchdog = Watchdog::usual("ends");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    let mut served = Served::start(&place, "net.toml", &[]);
    let socket = place.path(&format!("{}.ctl", served.name));
    assert!(socket.exists());
    served.tell("quit");
    assert_eq!(served.wait(), 0);
    assert!(!socket.exists());
    let served = Served::start(&place, "net.toml", &[]);
    let socket = place.path(&format!("{}.ctl", served.name));
    let pid = Pid::from_raw(served.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(served.wait(), 130);
    assert!(!socket.exists());
}
