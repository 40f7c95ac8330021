//! `tieline fabric manage`: brings a bare fabric up, repairs it, stands by and takes over.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tieline_tests::Watchdog;

use crate::harness::{Place, Served};

/// A manager that stays, and what it prints; it ends with its test.
struct Manager {
    process: Child,
    lines: Receiver<Value>,
}

impl Manager {
    fn start(place: &Place, served: &Served, node: &str, more: &[&str]) -> Self {
        let words = ["manage", "--ibsim", &served.name, "--at", node, "--json", "--quiet"];
        let mut process = place.command(&[&words[..], more].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if tell.send(value).is_err() {
                    break;
                }
            }
        });
        Self { process, lines }
    }

    /// The next line of which this is true; those before it are passed over.
    fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) if is_it(&line) => return line,
                Ok(line) => before.push(line),
                Err(error) => panic!("{what}: {error}: {before:?}"),
            }
        }
    }

    fn until_state(&self, state: &str) -> Value {
        self.until(state, |line| line["event"] == "role" && line["state"] == state)
    }

    fn until_up(&self) -> Value {
        let up = self.until("a bring-up", |line| line["event"] == "brought_up");
        assert_eq!((&up["active_links"], &up["failed_sets"]), (&up["links"], &0.into()), "{up:#}");
        up
    }

    fn signal(&mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn bare(place: &Place) -> Served {
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    Served::start(place, "net.toml", &["--bare"])
}

#[test]
fn a_bare_fabric_is_brought_up_and_repaired() {
    let _watchdog = Watchdog::usual("manage");
    let place = Place::new();
    let mut served = bare(&place);
    let mut manager = Manager::start(&place, &served, "host00000", &["--state", "lids.txt"]);
    let role = manager.until_state("master");
    assert_eq!(role["schema"], "tieline.fabric.manage/1");
    let up = manager.until_up();
    assert_eq!((&up["nodes"], &up["links"]), (&14.into(), &16.into()), "{up:#}");
    assert_eq!(place.read("lids.txt").lines().count(), 15);
    let (status, report) = place.json(&served.observe(&["--plan", "net.toml"]));
    assert_eq!((status, report["findings"].as_array().unwrap().len()), (0, 0), "{report:#}");
    served.tell("unlink leaf000 3");
    let down = manager.until("a repair", |line| line["event"] == "repaired");
    assert_eq!((down["down"].as_array().unwrap().len(), &down["lost_pairs"]), (1, &0.into()), "{down:#}");
    served.tell("relink leaf000 3");
    let up = manager.until("the cable", |line| line["up"].as_array().is_some_and(|up| !up.is_empty()));
    assert_eq!(up["active_links"], 16, "{up:#}");
    assert_eq!(manager.signal(Signal::INT), Some(130));
}

/// Before anything is set.
#[test]
fn a_file_of_lids_that_cannot_be_used_is_named_first() {
    let _watchdog = Watchdog::usual("files of LIDs");
    let place = Place::new();
    let served = bare(&place);
    place.write("poem", "shall I compare thee\n");
    for (file, status, says) in [
        (
            "none/lids.txt",
            4,
            "none/lids.txt cannot be written: No such file or directory: name a file in a directory that can be",
        ),
        ("poem/lids.txt", 2, "poem/lids.txt cannot be read: Not a directory: "),
        (".", 2, ". cannot be read: it is not a regular file: "),
        ("poem", 2, "poem, line 1: it is not `tieline.fabric.lids/1`: correct the line, or remove the file"),
    ] {
        let (got, out, err) = place.run(&["manage", "--ibsim", &served.name, "--once", "--state", file]);
        assert!(got == status && out.is_empty() && err.contains(says), "{file}: {got} {out}{err}");
        assert_eq!(err.lines().count(), 1, "{file}: {err}");
    }
    let (_, report) = place.json(&served.observe(&[]));
    assert!(report["summary"]["managers"].as_array().is_none_or(Vec::is_empty), "{report:#}");
    assert_eq!(place.read("poem"), "shall I compare thee\n");
}

#[test]
fn the_standby_takes_over_from_a_master_that_is_killed_and_sets_no_table() {
    let _watchdog = Watchdog::usual("failover");
    let place = Place::new();
    let served = bare(&place);
    let mut first = Manager::start(&place, &served, "host00000", &["--priority", "3", "--poll", "100"]);
    first.until_up();
    let second = Manager::start(&place, &served, "host00005", &["--priority", "1", "--poll", "100"]);
    let role = second.until_state("standby");
    assert!(role["why"].as_str().unwrap().starts_with("host00000/1 (GUID 0x"), "{role}");
    first.signal(Signal::KILL);
    let role = second.until_state("discovering");
    assert!(role["why"].as_str().unwrap().ends_with("does not respond"), "{role}");
    second.until_state("master");
    let up = second.until_up();
    assert_eq!(up["sets"]["lft_blocks"], 0, "{up:#}");
    assert!(up["sets"]["port_info"].as_u64().unwrap() > 0, "the ports get the LID of their new manager");
}

#[test]
fn the_one_of_the_higher_priority_is_handed_over_to() {
    let _watchdog = Watchdog::usual("handover");
    let place = Place::new();
    let served = bare(&place);
    let first = Manager::start(&place, &served, "host00000", &[]);
    first.until_up();
    let second = Manager::start(&place, &served, "spine001", &["--priority", "5"]);
    let role = first.until_state("standby");
    assert!(role["why"].as_str().unwrap().starts_with("handed over to spine001"), "{role}");
    second.until_state("master");
    second.until_up();
    // One that is to be the only one refuses to start, and says what to do.
    let (status, _, err) =
        place.run(&["manage", "--ibsim", &served.name, "--at", "host00003", "--once", "--quiet"]);
    assert_eq!(status, 4, "{err}");
    assert!(err.contains("another subnet manager is at spine001") && err.contains("stop it first"), "{err}");
}

#[test]
fn a_master_with_another_key_is_an_error_in_one_line() {
    let _watchdog = Watchdog::usual("key");
    let place = Place::new();
    let served = bare(&place);
    let first = Manager::start(&place, &served, "host00000", &[]);
    first.until_up();
    let (status, _, err) =
        place.run(&["manage", "--ibsim", &served.name, "--at", "host00003", "--sm-key", "7", "--quiet"]);
    assert_eq!((status, err.lines().count()), (4, 1), "{err}");
    assert!(err.contains("its SM_Key is another one") && err.contains("stop it first"), "{err}");
}

#[test]
fn partitions_are_read_from_a_file_of_opensm_and_written() {
    let _watchdog = Watchdog::usual("partitions");
    let place = Place::new();
    let served = bare(&place);
    place.write(
        "parts.conf",
        "Default=0x7fff, ipoib, mtu=5: ALL=full;\nA=0x8005: ALL_CAS=limited, nonsense;\n",
    );
    let words = ["manage", "--ibsim", &served.name, "--once", "--partitions", "parts.conf"];
    let (status, out, err) = place.run(&[&words[..], &["--json"]].concat());
    let up: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!((status, &up["sets"]["pkey_blocks"]), (0, &8.into()), "{out}{err}");
    assert!(err.contains("parts.conf, line 1, partition Default: `mtu=5` has no effect here"), "{err}");
    assert!(err.contains("parts.conf, line 2, partition A: `nonsense` has no effect here"), "{err}");
    let (_, again, _) = place.run(&[&words[..], &["--json", "--quiet"]].concat());
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["sets"]["pkey_blocks"], 0, "{again:#}");
    // What is not of the form is an error in one line, and nothing is set.
    for (text, says) in
        [("A=1 ALL;", "parts.conf, line 1: a definition has no `:`"), ("A: ALL;", "has no key")]
    {
        place.write("parts.conf", text);
        let (status, _, err) = place.run(&[&words[..], &["--quiet"]].concat());
        assert_eq!((status, err.lines().count()), (2, 1), "{err}");
        assert!(err.contains(says) && err.contains("write it as NAME=KEY"), "{err}");
    }
    let (status, _, err) =
        place.run(&["manage", "--ibsim", &served.name, "--once", "--partitions", "none.conf"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("none.conf cannot be read"), "{err}");
}

/// What the fabric has after a fault: all links active, and all routes there.
fn is_whole(place: &Place, served: &Served) {
    let (status, report) = place.json(&served.observe(&[]));
    assert_eq!((status, report["findings"].as_array().unwrap().len()), (0, 0), "{report:#}");
}

#[test]
fn nodes_that_start_anew_or_are_replaced_get_all_they_need() {
    let _watchdog = Watchdog::usual("reboots");
    let place = Place::new();
    let mut served = bare(&place);
    let manager = Manager::start(&place, &served, "host00000", &["--sweep", "1", "--quarantine", "0"]);
    manager.until_up();
    served.tell("reboot spine001");
    let up = manager.until_up();
    assert!(up["sets"]["lft_blocks"].as_u64().unwrap() > 0, "{up:#}");
    is_whole(&place, &served);
    served.tell("guid leaf002 0xabcdef");
    let up = manager.until_up();
    assert_eq!((&up["links"], &up["lost_pairs"]), (&16.into(), &0.into()), "{up:#}");
    is_whole(&place, &served);
    served.tell("reboot host00005");
    manager.until("a repair", |line| line["active_links"] == 16);
    is_whole(&place, &served);
}

#[test]
fn a_switch_that_does_not_take_sets_is_named_and_brought_up_when_it_does() {
    let _watchdog = Watchdog::usual("refusals");
    for (how, says) in [("refuse", "refused"), ("ignore", "not answered")] {
        let place = Place::new();
        let mut served = bare(&place);
        served.tell(&format!("sets leaf001 {how}"));
        let more = ["--sweep", "1", "--timeout", "50", "--retries", "1"];
        let manager = Manager::start(&place, &served, "host00000", &more);
        let up = manager.until("a bring-up", |line| line["event"] == "brought_up");
        assert!(up["failed_sets"].as_u64().unwrap() > 0 && up["active_links"] != 16, "{up:#}");
        let findings = up["findings"].as_array().unwrap();
        let of_leaf =
            |one: &Value| one.as_str().is_some_and(|text| text.contains("leaf001") && text.contains(says));
        assert!(findings.iter().any(of_leaf), "{up:#}");
        served.tell("sets leaf001 take");
        let up =
            manager.until("another one", |line| line["event"] == "brought_up" && line["failed_sets"] == 0);
        assert_eq!(up["active_links"], 16, "{up:#}");
        is_whole(&place, &served);
    }
}

#[test]
fn a_fabric_whose_mads_come_twice_late_and_changed_comes_up_and_is_repaired() {
    let _watchdog = Watchdog::usual("harm");
    let place = Place::new();
    let mut served = bare(&place);
    for node in ["leaf000", "leaf001", "leaf003"] {
        for port in 3..=4 {
            served.tell(&format!("double {node} {port} 100"));
            served.tell(&format!("garble {node} {port} 30"));
            served.tell(&format!("delay {node} {port} 2"));
        }
    }
    let more = ["--sweep", "1", "--timeout", "100", "--retries", "9"];
    let manager = Manager::start(&place, &served, "host00000", &more);
    let good =
        |line: &Value| line["active_links"] == 16 && line["lost_pairs"] == 0 && line["failed_sets"] == 0;
    manager.until("a bring-up", |line| line["event"] == "brought_up" && good(line));
    served.tell("unlink leaf002 3");
    manager.until("a repair", |line| line["links"] == 15 && line["active_links"] == 15);
    served.tell("relink leaf002 3");
    manager.until("the cable", good);
    for node in ["leaf000", "leaf001", "leaf003"] {
        for port in 3..=4 {
            for harm in ["double", "garble", "delay"] {
                served.tell(&format!("{harm} {node} {port} 0"));
            }
        }
    }
    // What a changed Set has set wrongly is known by its response, and set again.
    is_whole(&place, &served);
}
