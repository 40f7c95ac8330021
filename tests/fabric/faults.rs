//! Faults that were planted in a served fabric, or between a plan and what is there, are found and named;
//! nothing is said against a good one.

use tieline_tests::Watchdog;

use crate::harness::{Place, Served, kinds, text};

fn tree() -> Place {
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "8", "2"]);
    place
}

#[test]
fn nothing_is_said_against_a_good_fabric() {
    let _watchdog = Watchdog::usual("a good fabric");
    let place = tree();
    let served = Served::start(&place, "net.toml", &[]);
    let words = served.observe(&["--plan", "net.toml", "--save", "good.json", "--html", "good.html"]);
    let (status, report) = place.json(&words);
    assert_eq!((status, &report["verdict"]), (0, &"PASS".into()), "{report:#}");
    assert_eq!(report["schema"], "tieline.fabric.observe/1");
    assert_eq!(kinds(&report), Vec::<&str>::new(), "{report:#}");
    let summary = &report["summary"];
    assert_eq!(
        (&summary["hosts"], &summary["switches"], &summary["links"]),
        (&32.into(), &12.into(), &64.into())
    );
    assert!(summary["shape"].as_str().unwrap().contains("tree of 2 levels"), "{summary:#}");
    assert_eq!((&report["routes"]["lost"], &summary["counted"]), (&0.into(), &128.into()));
    // The snapshot says the same of itself.
    let (status, again) =
        place.json(&["observe", "--from", "good.json", "--plan", "net.toml", "--since", "good.json"]);
    assert_eq!((status, kinds(&again)), (0, vec![]), "{again:#}");
    let said = place.done(&["observe", "--from", "good.json", "--since", "good.json"]);
    assert!(said.contains("\nchanges since good.json: none\n"), "{said}");
    assert_eq!(again["summary"], report["summary"]);
    let page = place.read("good.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && page.contains("PASSED"));
    assert!(!page.contains("<script") && !page.contains("src=\"http") && !page.contains("href=\"http"));
}

#[test]
fn a_cable_that_was_pulled_is_gone_from_the_plan_the_snapshot_and_the_tables() {
    let _watchdog = Watchdog::usual("a pulled cable");
    let place = tree();
    let mut served = Served::start(&place, "net.toml", &[]);
    place.done(&served.observe(&["--save", "before.json"]));
    served.tell("unlink leaf000 5");
    let (status, report) =
        place.json(&served.observe(&["--plan", "net.toml", "--since", "before.json", "--save", "now.json"]));
    assert_eq!(status, 1, "{report:#}");
    assert_eq!(text(&report, "missing"), "the cable from leaf000/5 to spine000/1 is missing");
    assert!(text(&report, "link gone").contains("leaf000/5 to spine000/1"), "{report:#}");
    assert!(text(&report, "unreachable").contains("the forwarding tables have no route for"), "{report:#}");
    // The tables that are there still lead into it.
    let (status, checked) = place.json(&["check", "now.json"]);
    assert_eq!((status, &checked["good"]), (1, &false.into()), "{checked:#}");
    let (status, difference) = place.json(&["diff", "before.json", "now.json"]);
    assert_eq!((status, difference["fabric"].as_array().unwrap().len()), (1, 1), "{difference:#}");
    // A process that pulls a cable changes no table.
    assert_eq!((&difference["tables_compared"], &difference["changed"]), (&true.into(), &0.into()));
    served.tell("relink leaf000 5");
    let (_, report) = place.json(&served.observe(&["--plan", "net.toml"]));
    assert!(!kinds(&report).contains(&"missing"), "{report:#}");
}

/// One cause is said, by every command that looks, and not all that cannot be seen because of it.
#[test]
fn a_host_whose_own_cable_is_out_says_so() {
    let _watchdog = Watchdog::usual("the own cable");
    let place = tree();
    let mut served = Served::start(&place, "net.toml", &[]);
    place.done(&served.observe(&["--save", "before.json"]));
    served.tell("unlink host00000 1");
    let since = served.observe(&["--plan", "net.toml", "--since", "before.json"]);
    let watch = served.observe(&["--watch", "1", "--times", "1"]);
    let live = ["--ibsim", &served.name];
    for words in [
        since,
        watch,
        served.observe(&[]),
        [&["check"], &live[..]].concat(),
        [&["drain", "spine000"], &live[..]].concat(),
        [&["route"], &live[..]].concat(),
        [&["quality"], &live[..]].concat(),
    ] {
        let (status, out, err) = place.run(&words);
        assert_eq!(status, 4, "{words:?}: {out}{err}");
        assert!(err.contains("This port (host00000/1) has no link: nothing beyond it can be seen."), "{err}");
        assert_eq!(out, "", "{words:?}");
    }
    served.tell("relink host00000 1");
    let (_, report) = place.json(&served.observe(&["--plan", "net.toml"]));
    assert_eq!(report["summary"]["hosts"], 32, "{report:#}");
}

/// The same while it is watched: reported once, and nothing about the nodes that cannot be asked.
#[test]
fn a_watch_says_that_the_own_cable_was_pulled_and_nothing_else() {
    let _watchdog = Watchdog::usual("the own cable, watched");
    let place = tree();
    let mut served = Served::start(&place, "net.toml", &[]);
    let words = served.observe(&["--watch", "1", "--times", "3", "--quiet"]);
    let mut watching = place.command(&words).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    // The last line of the report; what follows are looks.
    let is_last = |line: &String| line.starts_with("RESULT");
    let report: Vec<String> = lines.by_ref().map(Result::unwrap).take_while(|line| !is_last(line)).collect();
    served.tell("unlink host00000 1");
    let looks: Vec<String> = lines.map(Result::unwrap).filter(|line| !line.is_empty()).collect();
    let said = "This port (host00000/1) has no link: nothing beyond it can be seen";
    assert!(looks.len() == 1 && looks[0].ends_with(said), "{looks:?}, behind {report:?}");
    watching.wait().unwrap();
}

#[test]
fn counters_over_their_limit_are_named_and_ranked() {
    let _watchdog = Watchdog::usual("counters");
    let place = tree();
    let mut served = Served::start(&place, "net.toml", &[]);
    place.done(&served.observe(&["--save", "before.json"]));
    served.tell("counter leaf001 2 symbol_errors 99");
    served.tell("counter spine000 1 symbol_errors 3");
    let (status, report) = place.json(&served.observe(&["--worst", "integrity", "--save", "now.json"]));
    assert_eq!((status, kinds(&report)), (1, vec!["errors"]), "{report:#}");
    assert!(
        text(&report, "errors").starts_with("leaf001/2")
            && text(&report, "errors").contains("SymbolErrorCounter 99")
    );
    assert_eq!(report["worst"]["ports"][0][0], "leaf001/2");
    assert_eq!(report["worst"]["ports"][1], serde_json::json!(["spine000/1", 3]));
    // The snapshot says the same, the limit decides, and so does the time since when.
    let from = |more: &[&str]| place.json(&[&["observe", "--from", "now.json"], more].concat());
    assert_eq!(from(&["--threshold", "symbol_errors=99"]).0, 0);
    assert_eq!(from(&["--threshold", "symbol_errors=98"]).0, 1);
    assert_eq!(kinds(&from(&["--since", "before.json"]).1), vec!["errors"]);
    assert_eq!(from(&["--since", "now.json"]).0, 0);
    // The specification's name is understood too, and is what people read.
    assert_eq!(from(&["--threshold", "SymbolErrorCounter=99"]).0, 0);
    let (_, said, _) = place.run(&["observe", "--from", "now.json", "--worst", "symbol_errors"]);
    assert!(
        said.contains("leaf001/2 (to") && said.contains("highest counters, SymbolErrorCounter:"),
        "{said}"
    );
    // Reading never clears.
    let (_, again) = place.json(&served.observe(&[]));
    assert_eq!(kinds(&again), vec!["errors"]);
}

#[test]
fn a_silent_switch_is_an_anomaly_and_the_rest_is_reported() {
    let _watchdog = Watchdog::usual("a silent switch");
    let place = tree();
    let mut served = Served::start(&place, "net.toml", &[]);
    // All that comes to it by any of its cables is lost.
    for port in 1..=8 {
        served.tell(&format!("lose spine001 {port} 1000"));
    }
    let (status, report) = place.json(&served.observe(&["--no-counters", "--no-tables"]));
    assert_eq!(status, 1, "{report:#}");
    assert!(text(&report, "doubt").contains("the node behind it"), "{report:#}");
    assert_eq!(report["summary"]["switches"], 11, "{report:#}");
    assert_eq!(report["summary"]["hosts"], 32, "{report:#}");
}

#[test]
fn a_fabric_without_a_manager_is_said_to_have_none() {
    let _watchdog = Watchdog::usual("no manager");
    let place = tree();
    let served = Served::start(&place, "net.toml", &["--bare"]);
    let (status, report) = place.json(&served.observe(&[]));
    assert_eq!(status, 1, "{report:#}");
    assert!(text(&report, "not active").contains("no subnet manager"), "{report:#}");
    assert!(text(&report, "not counted").contains("has no LID"), "{report:#}");
}

#[test]
fn links_that_run_slower_than_others_are_named() {
    let _watchdog = Watchdog::usual("slow links");
    let place = tree();
    place.done(&["convert", "net.toml", "net.topo"]);
    let dump = place.read("net.topo");
    let mut seen = 0;
    let slow: String = dump
        .lines()
        .map(|line| {
            let uplink = line.contains("spine000\"") && line.starts_with('[') && line.contains("4xHDR");
            seen += usize::from(uplink);
            let line = if uplink && seen == 1 { line.replace("4xHDR", "1xHDR") } else { line.to_owned() };
            line + "\n"
        })
        .collect();
    assert!(seen > 0, "{dump}");
    place.write("slow.topo", &slow);
    let (_, report) = place.json(&["observe", "--from", "slow.topo", "--plan", "net.toml"]);
    let found = kinds(&report);
    assert!(found.contains(&"slow") || found.contains(&"doubt"), "{report:#}");
}
