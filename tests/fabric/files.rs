//! Dumps as they come: swapped cables beside a plan, noise, Windows line ends, cables that one end alone speaks of.

use tieline_tests::Watchdog;

use crate::harness::{Place, kinds, text};

fn place() -> Place {
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "8", "2"]);
    place.done(&["convert", "net.toml", "net.net"]);
    place
}

/// The net with two cables of leaves to spines exchanged at the spines' ends.
fn swapped(net: &str) -> String {
    let exchanged = |line: &str, at: &str| -> Option<String> {
        let rest = |to: &str, port: &str| line.replacen(at, &format!("\"{to}\"[{port}]"), 1);
        line.contains(at).then(|| match at {
            "\"spine000\"[1]" => rest("spine001", "2"),
            _ => rest("spine000", "1"),
        })
    };
    let mut out = String::new();
    for line in net.lines() {
        let new = ["\"spine000\"[1]", "\"spine001\"[2]"].iter().find_map(|at| exchanged(line, at));
        out.push_str(&new.unwrap_or_else(|| line.to_owned()));
        out.push('\n');
    }
    out
}

#[test]
fn swapped_cables_are_one_finding_that_names_both() {
    let _watchdog = Watchdog::usual("swapped cables");
    let place = place();
    let toml = place.read("net.toml");
    // In our own form a cable is one line, so that an exchange is one of two words.
    let pairs: Vec<&str> =
        toml.lines().filter(|line| line.contains("spine000") && line.contains("leaf000")).collect();
    let others: Vec<&str> =
        toml.lines().filter(|line| line.contains("spine001") && line.contains("leaf001")).collect();
    if let (Some(a), Some(b)) = (pairs.first(), others.first()) {
        let (new_a, new_b) = (a.replace("leaf000", "\u{1}"), b.replace("leaf001", "leaf000"));
        let new_a = new_a.replace('\u{1}', "leaf001");
        let text_of = toml.replacen(a, "\u{2}", 1).replacen(b, &new_b, 1).replacen('\u{2}', &new_a, 1);
        place.write("swapped.toml", &text_of);
        let (status, report) = place.json(&["observe", "--from", "swapped.toml", "--plan", "net.toml"]);
        assert_eq!((status, kinds(&report)), (1, vec!["swapped"]), "{report:#}");
        assert!(text(&report, "swapped").contains("are swapped"), "{report:#}");
        return;
    }
    place.write("swapped.net", &swapped(&place.read("net.net")));
    let (status, report) = place.json(&["observe", "--from", "swapped.net", "--plan", "net.toml"]);
    assert_eq!(status, 1, "{report:#}");
    assert!(kinds(&report).contains(&"swapped"), "{report:#}");
}

#[test]
fn windows_line_ends_and_noise_change_nothing_but_what_is_doubted() {
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
fn a_cable_that_one_end_alone_speaks_of_is_doubted() {
    let _watchdog = Watchdog::usual("one-way");
    let place = place();
    place.done(&["convert", "net.toml", "net.topo"]);
    let dump = place.read("net.topo");
    let line = dump.lines().find(|line| line.starts_with('[') && line.contains("spine")).unwrap();
    place.write("one-way.topo", &dump.replacen(&format!("{line}\n"), "", 1));
    let (status, report) = place.json(&["observe", "--from", "one-way.topo"]);
    assert_eq!(status, 1, "{report:#}");
    assert!(text(&report, "doubt").contains("one-way"), "{report:#}");
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
