//! Dumps as they come: swapped cables beside a plan, noise, Windows line ends, cables that one end alone
//! mentions.

use tieline_tests::Watchdog;

use crate::harness::{Place, kinds, text};

fn place() -> Place {
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "8", "2"]);
    place.done(&["convert", "net.toml", "net.net"]);
    place
}

#[test]
fn swapped_cables_are_one_finding_that_names_both() {
    let _watchdog = Watchdog::usual("swapped cables");
    let place = place();
    let net = place.read("net.toml");
    let (one, other) = ("to = [\"spine000\", 1]", "to = [\"spine001\", 2]");
    assert!(net.contains(one) && net.contains(other), "{net}");
    let exchanged = net.replace(one, "\u{1}").replace(other, one).replace('\u{1}', other);
    place.write("swapped.toml", &exchanged);
    let (status, report) = place.json(&["observe", "--from", "swapped.toml", "--plan", "net.toml"]);
    assert_eq!((status, kinds(&report)), (1, vec!["swapped"]), "{report:#}");
    let said = text(&report, "swapped");
    for place in ["leaf000/5", "leaf001/6", "spine000/1", "spine001/2"] {
        assert!(said.contains(place), "{said}");
    }
}

/// A topology has neither counters nor tables: that nothing is wrong with it says nothing about them.
#[test]
fn what_was_not_read_is_named_beside_nothing_is_wrong() {
    let _watchdog = Watchdog::usual("a topology alone");
    let place = place();
    let (status, out, err) = place.run(&["observe", "--from", "net.toml"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(
        out.contains("nothing is wrong in what was read; not checked: counters, forwarding tables (LFTs)"),
        "{out}"
    );
}

#[test]
fn windows_line_ends_and_noise_change_only_the_anomalies() {
    let _watchdog = Watchdog::usual("noise");
    let place = place();
    place.done(&["convert", "net.toml", "net.topo"]);
    let dump = place.read("net.topo");
    place.write("windows.topo", &dump.replace('\n', "\r\n"));
    let (status, report) = place.json(&["observe", "--from", "windows.topo", "--plan", "net.toml"]);
    assert_eq!((status, kinds(&report)), (0, vec![]), "{report:#}");
    let mut noisy = String::new();
    for (number, line) in dump.lines().enumerate() {
        noisy.push_str(line);
        noisy.push('\n');
        for more in 0..200 {
            noisy.push_str(&format!("# warning {number} {more}: somebody else's log \u{7}\n"));
        }
    }
    place.write("noisy.topo", &noisy);
    let (status, report) = place.json(&["observe", "--from", "noisy.topo", "--plan", "net.toml"]);
    assert_eq!(status, 0, "{report:#}");
    assert!(kinds(&report).iter().all(|kind| *kind == "doubt"), "{report:#}");
    assert_eq!(report["summary"]["links"], 64);
}

#[test]
fn a_cable_that_one_end_alone_reports_is_an_anomaly() {
    let _watchdog = Watchdog::usual("one-way");
    let place = place();
    place.done(&["convert", "net.toml", "net.topo"]);
    let dump = place.read("net.topo");
    let line = dump.lines().find(|line| line.starts_with('[') && line.contains("spine")).unwrap();
    place.write("one-way.topo", &dump.replacen(&format!("{line}\n"), "", 1));
    let (status, report) = place.json(&["observe", "--from", "one-way.topo"]);
    assert_eq!(status, 1, "{report:#}");
    assert!(text(&report, "doubt").contains("cable with one end"), "{report:#}");
}

#[test]
fn forms_turn_into_each_other_and_stay_the_same_fabric() {
    let _watchdog = Watchdog::usual("forms");
    let place = place();
    for name in ["a.topo", "b.lst", "c.toml", "d.json", "e.net"] {
        place.done(&["convert", "net.toml", name]);
        let (status, report) = place.json(&["observe", "--from", name, "--plan", "net.toml"]);
        assert_eq!((status, kinds(&report)), (0, vec![]), "{name}: {report:#}");
    }
    place.done(&["convert", "net.toml", "topology.conf"]);
    assert!(place.read("topology.conf").contains("SwitchName="));
    place.done(&["convert", "net.toml", "topology.yaml"]);
    assert!(place.read("topology.yaml").contains("topology: tree"));
    place.done(&["convert", "net.toml", "g.dot"]);
    place.done(&["draw", "net.toml", "net.svg"]);
    assert!(place.read("net.svg").contains("<svg"));
    let printed = place.done(&["convert", "net.toml", "-", "--to", "ibsim"]);
    assert_eq!(printed, place.read("net.net"));
}

const BARE: &str = r#"tieline-topology = 1
nodes = [
  { name = "a", kind = "switch", ports = 4 },
  { name = "b", kind = "switch", ports = 4 },
  { name = "h1", kind = "host", ports = 1 },
  { name = "h2\u001B[2J\u202E", kind = "host", ports = 1 },
  { name = "alone", kind = "host", ports = 1 },
]
links = [
  { from = ["a", 1], to = ["b", 1], rate = "4xHDR" },
  { from = ["a", 2], to = ["h1", 1], rate = "4xHDR" },
  { from = ["b", 2], to = ["h2\u001B[2J\u202E", 1], rate = "4xHDR" },
]
"#;

#[test]
fn fabrics_without_guids_are_compared_and_converted_without_a_loss() {
    let _watchdog = Watchdog::usual("without GUIDs");
    let place = Place::new();
    place.write("bare.toml", BARE);
    place.write("other.toml", &BARE.replace("[\"a\", 2]", "[\"a\", 3]"));
    let (status, _) = place.json(&["diff", "bare.toml", "bare.toml"]);
    assert_eq!(status, 0);
    let (status, report) = place.json(&["diff", "bare.toml", "other.toml"]);
    assert_eq!((status, report["fabric"].as_array().unwrap().len()), (1, 2), "{report:#}");
    place.write(
        "none.toml",
        "tieline-topology = 1\nnodes = [{ name = \"a\", kind = \"switch\", ports = 4 }]\n",
    );
    let (status, out, _) = place.run(&["diff", "bare.toml", "none.toml"]);
    assert!(status == 1 && out.contains("h2\\u{1b}[2J\\u{202e}"), "{out}");
    assert!(!out.contains(['\u{1b}', '\u{202e}']));
    for (name, count) in [("out.lst", 4), ("out.topo", 5)] {
        let (status, _, err) = place.run(&["convert", "bare.toml", name]);
        assert!(status == 0 && err.contains("5 nodes have no GUID"), "{err}");
        assert_eq!(err.contains("1 node without a cable"), name == "out.lst", "{err}");
        let (_, report) = place.json(&["observe", "--from", name]);
        assert_eq!(
            (&report["summary"]["links"], kinds(&report).contains(&"doubt")),
            (&3.into(), false),
            "{report:#}"
        );
        let nodes =
            report["summary"]["hosts"].as_u64().unwrap() + report["summary"]["switches"].as_u64().unwrap();
        assert_eq!(nodes, count, "{name}");
    }
}
