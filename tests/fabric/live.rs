//! Commands on a live fabric besides `observe`; fabrics in pieces; cycles that VLs may break.

use serde_json::Value;
use tieline_tests::Watchdog;

use crate::harness::{Place, Served, kinds, text};

#[test]
fn drain_and_check_take_the_live_fabric() {
    let _watchdog = Watchdog::usual("a live drain");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "8", "2"]);
    let served = Served::start(&place, "net.toml", &[]);
    let (status, report) = place.json(&["drain", "--ibsim", &served.name, "spine000"]);
    assert_eq!((status, &report["judged"]["good"]), (0, &true.into()), "{report:#}");
    // A host that is taken out on purpose is not partitioned; one that loses its only switch is.
    let (status, report) = place.json(&["drain", "host00003", "--ibsim", &served.name]);
    assert_eq!((status, report["cut_off"].as_array().unwrap().len()), (0, 0), "{report:#}");
    let (status, report) = place.json(&["drain", "leaf000", "--ibsim", &served.name]);
    assert_eq!(status, 1, "{report:#}");
    assert!(report["cut_off"][0].as_str().unwrap().starts_with("host0000"), "{report:#}");
    assert_eq!(place.json(&["check", "--ibsim", &served.name]).0, 0);
    let (status, _, err) = place.run(&["drain", "net.toml"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("taken out"), "{err}");
}

#[test]
fn a_fabric_in_pieces_fails_from_a_file_and_from_a_snapshot() {
    let _watchdog = Watchdog::usual("islands");
    let place = Place::new();
    place.done(&["generate", "one.toml", "fattree", "4", "2"]);
    place.done(&["convert", "one.toml", "one.net"]);
    let one = place.read("one.net");
    // The same once more under other names: two islands.
    let other = one.replace("host", "HOST").replace("leaf", "LEAF").replace("spine", "SPINE");
    let other: String =
        other.lines().filter(|line| !line.contains("guid=")).map(|line| format!("{line}\n")).collect();
    place.write("two.net", &format!("{one}\n{other}"));
    let (status, report) = place.json(&["observe", "--from", "two.net"]);
    assert_eq!((status, &report["verdict"]), (1, &"FAIL".into()), "{report:#}");
    let said = text(&report, "cut");
    assert!(said.contains("2 components") && said.contains("leaf000") && said.contains("LEAF000"), "{said}");
    place.done(&["convert", "two.net", "two.json"]);
    assert_eq!(place.json(&["observe", "--from", "two.json"]).0, 1);
    assert_eq!(place.json(&["observe", "--from", "one.net"]).0, 0);
}

#[test]
fn a_cycle_of_a_live_torus_is_not_judged_where_vls_may_break_it() {
    let _watchdog = Watchdog::usual("a live torus");
    let place = Place::new();
    place.done(&["generate", "net.toml", "torus", "6x6", "--hosts", "1"]);
    let served = Served::start(&place, "net.toml", &[]);
    let (status, report) = place.json(&served.observe(&["--save", "torus.json"]));
    assert_eq!(
        (status, &report["verdict"], kinds(&report)),
        (3, &"INCONCLUSIVE".into(), vec!["credit loop"]),
        "{report:#}"
    );
    let said = text(&report, "credit loop");
    assert!(said.contains("VLs in use: 0, 1, 2, 3, 4, 5, 6, 7") && said.contains("not judged"), "{said}");
    // The snapshot says the same, and so does `check` of both.
    let (status, again) = place.json(&["observe", "--from", "torus.json"]);
    assert_eq!((status, text(&again, "credit loop")), (3, said));
    let (status, checked) = place.json(&["check", "torus.json"]);
    assert_eq!((status, &checked["good"]), (3, &false.into()), "{checked:#}");
    assert!(checked["not_judged"].as_str().unwrap().contains("VLs in use"), "{checked:#}");
    assert_eq!(place.run(&["check", "--ibsim", &served.name]).0, 3);
}

#[test]
fn a_watch_says_links_that_went_and_came() {
    let _watchdog = Watchdog::usual("a watch of links");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    let mut served = Served::start(&place, "net.toml", &[]);
    let words = served.observe(&["--watch", "1", "--times", "2", "--json", "--quiet"]);
    let mut watching = place.command(&words).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "}"));
    served.tell("unlink leaf001 3");
    let looks: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let changed: Vec<&Value> = looks.iter().flat_map(|look| look["links"].as_array().unwrap()).collect();
    assert_eq!(changed.len(), 1, "{looks:?}");
    assert!(changed[0][0].as_str().unwrap().contains("leaf001/3"), "{changed:?}");
    assert!(changed[0][2].as_str().unwrap().contains("Down"), "{changed:?}");
    watching.wait().unwrap();
}

#[test]
fn descriptions_do_not_control_a_terminal() {
    let _watchdog = Watchdog::usual("evil names");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    let mut served = Served::start(&place, "net.toml", &[]);
    served.tell("describe leaf000 \"a\u{1b}[2J\u{202e}b\u{9b}31m\u{2028}c\u{2066}\"");
    served.tell("describe host00001 \"\u{1b}]0;owned\u{7}\"");
    served.tell("counter host00002 1 symbol_errors 99");
    let plain = |c: char| {
        let order = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c == '\n' || !c.is_control() && !order
    };
    for more in
        [&["--nodes", "--links"][..], &["--route", "host00002", "nobody"], &["--save", "evil.json", "--json"]]
    {
        let (_, out, err) = place.run(&served.observe(more));
        assert!(out.chars().chain(err.chars()).all(plain), "{more:?}: {out:?} {err:?}");
    }
    for words in [
        &["observe", "--from", "evil.json", "--nodes"][..],
        &["route", "evil.json"],
        &["drain", "evil.json", "spine000"],
        &["check", "evil.json"],
    ] {
        let (_, out, err) = place.run(words);
        assert!(out.chars().chain(err.chars()).all(plain), "{words:?}: {out:?} {err:?}");
    }
}
