//! Routes on paper: tables are good on every shape, faults are survived, what is cut off is named.

use tieline_tests::Watchdog;

use crate::harness::Place;

#[test]
fn every_shape_gets_good_tables() {
    let _watchdog = Watchdog::usual("shapes");
    let place = Place::new();
    for (name, words) in [
        ("tree.toml", &["fattree", "8", "3"][..]),
        ("fly.toml", &["dragonfly", "2"]),
        ("torus.toml", &["torus", "4x4x3", "--hosts", "2"]),
        ("mesh.toml", &["mesh", "5x4"]),
        ("hyperx.toml", &["hyperx", "4x4", "--hosts", "2"]),
        ("cube.toml", &["hypercube", "4"]),
    ] {
        place.done(&[&["generate", name], words].concat());
        let (status, report) = place.json(&["route", name]);
        assert_eq!((status, &report["check"]["good"]), (0, &true.into()), "{name}: {report:#}");
        assert_eq!(report["schema"], "tieline.fabric.route/1");
        assert_eq!(report["quality"]["lost"], 0, "{name}");
    }
    // Without VLs that end its cycles a torus waits for itself, which the exit status says.
    let (status, report) = place.json(&["route", "torus.toml", "--engine", "minhop"]);
    assert_eq!((status, &report["check"]["good"]), (1, &false.into()), "{report:#}");
    assert!(!report["check"]["credit_loop"].as_array().unwrap().is_empty());
}

#[test]
fn faults_are_survived_and_what_is_cut_off_is_named() {
    let _watchdog = Watchdog::usual("faults on paper");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "8", "2"]);
    let (status, report) =
        place.json(&["route", "net.toml", "--without", "leaf000/5", "--without", "spine001"]);
    assert_eq!((status, &report["check"]["lost"]), (0, &0.into()), "{report:#}");
    let (status, report) = place.json(&["drain", "net.toml", "leaf000/5"]);
    assert_eq!((status, &report["judged"]["good"]), (0, &true.into()), "{report:#}");
    assert!(report["entries"].as_u64().unwrap() > 0 && report["cut_off"].as_array().unwrap().is_empty());
    // A host that is taken out on purpose is not partitioned; one that loses its only switch is.
    let (status, report) = place.json(&["drain", "net.toml", "host00003"]);
    assert_eq!((status, report["cut_off"].as_array().unwrap().len()), (0, 0), "{report:#}");
    let (status, report) = place.json(&["drain", "net.toml", "leaf000"]);
    assert_eq!(status, 1, "{report:#}");
    assert!(report["cut_off"][0].as_str().unwrap().starts_with("host0000"), "{report:#}");
    let (status, report) = place.json(&["drain", "net.toml", "spine000"]);
    assert_eq!(status, 0, "{report:#}");
    // All spines at once: no host is alone, and the fabric is in pieces.
    let spines: Vec<String> = (0..4).map(|number| format!("spine{number:03}")).collect();
    let words: Vec<&str> =
        ["drain", "net.toml"].into_iter().chain(spines.iter().map(String::as_str)).collect();
    let (status, report) = place.json(&words);
    assert_eq!((status, &report["judged"]["good"]), (1, &false.into()), "{report:#}");
    assert!(report["judged"]["cut"].as_u64().unwrap() > 0, "{report:#}");
    let (status, report) = place.json(&["compare", "net.toml", "net.toml"]);
    assert_eq!((status, &report["a"]["quality"]), (0, &report["b"]["quality"]));
}

#[test]
fn tables_that_were_dumped_are_read_again_and_compared() {
    let _watchdog = Watchdog::usual("dumped tables");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "8", "2"]);
    place.done(&["route", "net.toml", "--dump", "tables"]);
    place.done(&["route", "net.toml", "--engine", "minhop", "--dump", "others"]);
    place.done(&["convert", "tables/opensm-subnet.lst", "net.lst"]);
    let net = ["--net", "tables/opensm-subnet.lst"];
    let same = [&["diff"], &net[..], &["tables/opensm.fdbs", "tables/opensm.fdbs"]].concat();
    assert_eq!(place.json(&same).0, 0);
    let (status, good) = place.json(&["check", "tables/opensm-subnet.lst", "--lfts", "tables/opensm.fdbs"]);
    assert_eq!((status, &good["good"]), (0, &true.into()), "{good:#}");
    // One entry that leads nowhere.
    let text = place.read("tables/opensm.fdbs");
    let line = text.lines().find(|line| line.starts_with("0x00") && line.contains(": 005")).unwrap();
    place.write("bad.fdbs", &text.replacen(line, &line.replace(": 005", ": 008"), 1));
    let other = [&["diff"], &net[..], &["tables/opensm.fdbs", "bad.fdbs"]].concat();
    let (status, difference) = place.json(&other);
    assert_eq!((status, &difference["changed"]), (1, &1.into()), "{difference:#}");
    assert_eq!(difference["entries"][0]["after"], 8);
}

#[test]
fn vls_that_were_dumped_end_a_credit_loop_that_one_vl_has() {
    let _watchdog = Watchdog::usual("dumped lanes");
    let place = Place::new();
    place.done(&["generate", "net.toml", "torus", "5x5"]);
    place.done(&["route", "net.toml", "--dump", "t"]);
    let fdbs = ["check", "t/opensm-subnet.lst", "--lfts", "t/opensm.fdbs"];
    let (status, report) = place.json(&fdbs);
    assert_eq!((status, &report["lanes_assumed"]), (3, &true.into()), "{report:#}");
    let (_, out, _) = place.run(&fdbs);
    assert!(out.contains("assuming 1 VL"), "{out}");
    let vls = [&fdbs[..], &["--sl", "t/opensm.psl", "--sl2vl", "t/opensm.slvl"]].concat();
    let (status, report) = place.json(&vls);
    assert_eq!((status, &report["lanes_assumed"]), (0, &false.into()), "{report:#}");
    assert!(report["lanes"].as_u64().unwrap() > 1, "{report:#}");
    place.write("bad.psl", "0x1 1 1\n");
    let (status, _, err) = place.run(&[&fdbs[..], &["--sl", "bad.psl"]].concat());
    assert!(status == 2 && err.contains("bad.psl: line 1"), "{err}");
}

/// What OpenSM calls an engine is understood, and so is the option for VLs under its former name.
#[test]
fn names_of_opensm_and_the_former_option_are_understood() {
    let _watchdog = Watchdog::usual("other names");
    let place = Place::new();
    place.done(&["generate", "tree.toml", "fattree", "4", "2"]);
    place.done(&["generate", "torus.toml", "torus", "5x5"]);
    for (file, theirs, ours) in [
        ("tree.toml", "updn", "updown"),
        ("tree.toml", "ftree", "fattree"),
        ("tree.toml", "dfsssp", "layered"),
        ("torus.toml", "torus-2QoS", "grid"),
        ("torus.toml", "dor", "grid"),
    ] {
        let (status, report) = place.json(&["route", file, "--engine", theirs]);
        assert_eq!((status, &report["engine"]), (0, &ours.into()), "{theirs}: {report:#}");
    }
    for option in ["--vls", "--lanes"] {
        let (status, _, err) = place.run(&["route", "torus.toml", "--engine", "grid", option, "2"]);
        assert!(status == 2 && err.contains("needs 3 VLs"), "{option}: {err}");
        let (status, out, _) = place.run(&["route", "tree.toml", option, "1"]);
        assert!(status == 0 && out.contains("on 1 VL\n"), "{option}: {out}");
    }
}

/// Words of the field are printed; keys and kinds in JSON stay as they were.
#[test]
fn kinds_are_printed_in_the_words_of_the_field_and_stay_in_json() {
    let _watchdog = Watchdog::usual("printed kinds");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    let net = place.read("net.toml");
    let apart: String =
        net.lines().filter(|line| !line.contains("to = [\"spine")).map(|line| format!("{line}\n")).collect();
    place.write("apart.toml", &apart);
    let (status, report) = place.json(&["observe", "--from", "apart.toml"]);
    assert_eq!((status, &report["counts"]["cut"]), (1, &1.into()), "{report:#}");
    let (_, out, _) = place.run(&["observe", "--from", "apart.toml"]);
    assert!(out.contains("FAILED partitioned: the fabric is in 4 components"), "{out}");
    assert!(out.contains("8 CAs, 6 switches, 8 links"), "{out}");
}

#[test]
fn a_root_that_is_a_host_is_refused_by_name() {
    let _watchdog = Watchdog::usual("roots");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    for (root, status) in [("host00001", 2), ("nobody", 2), ("spine000", 0)] {
        let (found, out, err) = place.run(&["route", "net.toml", "--engine", "updown", "--root", root]);
        assert!(found == status && (status == 0 || err.contains(root)), "{root}: {out}{err}");
    }
}
