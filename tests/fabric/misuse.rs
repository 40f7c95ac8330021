//! Wrong words, files that are none, disks that are full, readers that go away: a status and a next step,
//! never a panic.

use std::process::Stdio;

use tieline_tests::Watchdog;

use crate::harness::Place;

fn refused(place: &Place, words: &[&str], status: i32, says: &str) {
    let (got, out, err) = place.run(words);
    assert_eq!(got, status, "{words:?}: {out}{err}");
    assert!(err.contains(says), "{words:?}: {err}");
    assert!(!err.contains("panicked"), "{words:?}: {err}");
}

#[test]
fn wrong_words_say_what_would_be_right() {
    let _watchdog = Watchdog::usual("wrong words");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    for (words, says) in [
        (&["route", "net.toml", "--engine", "best"][..], "fattree"),
        (&["route", "net.toml", "--without", "nobody"], "net.toml, --without: nothing here is named"),
        (&["route", "net.toml", "--root", "nobody"], "net.toml, --root: nothing here is named"),
        (
            &["route", "net.toml", "--without", "leaf000/x"],
            "`x` is not a port number of `leaf000`: give 1 to 4",
        ),
        (&["route", "net.toml", "--engine", "torus-2QoS"], "--engine torus-2QoS, which is `grid` here: "),
        (
            &["convert", "net.toml", "x.toml", "--as-form", "opa"],
            "(XML with `<LinkSummary>` and `<Link>`): leave",
        ),
        (&["route", "net.toml", "--without", "leaf000/77"], "has no port 77"),
        (&["drain", "net.toml", "leaf"], "net.toml: nothing here is named `leaf`: give a"),
        (&["drain", "net.toml", "leaf"], "; similar: `leaf000`"),
        (&["route"], "--ibsim"),
        (&["convert", "net.toml", "net.what"], "--to"),
        (&["convert", "net.toml", "net.what", "--to", "poetry"], "slurm-conf"),
        (&["generate", "x.toml", "cube", "3"], "hypercube"),
        (&["generate", "x.toml", "fattree", "4"], "give fattree RADIX LEVELS"),
        (&["generate", "x.toml", "fattree", "8", "2", "--hosts", "8"], "give 1 to 7"),
        (&["route", "net.toml", "--engine", "grid", "--vls", "2"], "layered"),
        (&["generate", "x.toml", "fattree", "8", "-1"], "-1"),
        (&["generate", "x.toml", "fattree", "1000", "2"], "254"),
        (&["generate", "x.toml", "torus", "4x4", "--rate", "fast"], "4xHDR"),
        (
            &["generate", "x.toml", "torus", "4x4", "--rate", "3xHDR"],
            "--rate `3xHDR`: there is no such link: give width and speed, as in 4xHDR, of the widths 1x, 2x, 4x, 8x and 12x",
        ),
        (&["generate", "x.toml", "torus", "4x4", "--rate", "?xHDR"], "there is no such link"),
        (&["generate", "x.toml", "torus", "4x4", "--rate", "4xZDR"], "NDR, XDR"),
        (&["observe", "--from", "net.toml", "--threshold", "joy=1"], "SymbolErrorCounter"),
        (&["observe", "--from", "net.toml", "--worst", "weather"], "integrity"),
        (
            &["observe", "--from", "net.toml", "--route", "host00000", "host99"],
            "net.toml, --route: nothing here is named",
        ),
        (&["observe", "--from", "net.toml", "--worst", "integrity"], "counters"),
        (&["observe", "--from", "net.toml", "--ibsim", "x"], "cannot be combined with"),
        (&["check", "net.toml"], "--lfts"),
        (&["observe", "--cluster", "x"], "belongs to no cluster"),
        (&["generate", "x.toml", "dragonfly", "4", "--hosts", "9"], "--hosts does not apply to dragonfly"),
        (
            &["generate", "x.toml", "pgft", "4,4", "1,2", "1,1", "--hosts", "9"],
            "--hosts does not apply to pgft",
        ),
        (&["draw", "net.toml", "x.png"], "name x.svg"),
        (&["convert", "net.toml", "-"], "standard output has no extension"),
    ] {
        refused(&place, words, 2, says);
    }
}

#[test]
fn files_that_are_none_are_named() {
    let _watchdog = Watchdog::usual("bad files");
    let place = Place::new();
    refused(&place, &["observe", "--from", "missing"], 2, "missing");
    place.write("poem", "shall I compare thee\n");
    refused(&place, &["observe", "--from", "poem"], 2, "poem");
    // What is in it goes into no log.
    let (_, out, err) = place.run(&["observe", "--from", "poem", "--json"]);
    assert!(!out.contains("compare thee") && !err.contains("compare thee"), "{out}{err}");
    place.write("empty", "");
    refused(&place, &["route", "empty"], 2, "empty");
    place.write("wrong.json", "{\"schema\":\"tieline.verify/1\"}");
    refused(&place, &["observe", "--from", "wrong.json"], 2, "tieline.verify/1");
    place.write("cut.json", "{\"schema\":\"tieline.fabric.snapshot/1\",\"taken\":1,\"no");
    refused(&place, &["observe", "--from", "cut.json"], 2, "truncated");
    std::fs::write(place.path("bytes"), [0xff, 0xfe, 0, 1, 2]).unwrap();
    refused(&place, &["serve", "bytes"], 2, "bytes");
    refused(&place, &["observe", "--ibsim", "nobody-serves-this"], 4, "nobody-serves-this");
}

/// A dump without tables is no dump of empty tables, which would pass.
#[test]
fn what_is_no_dump_of_tables_is_refused_with_its_line() {
    let _watchdog = Watchdog::usual("bad dumps");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    place.done(&["route", "net.toml", "--dump", "tables"]);
    place.write("brace", "{\n");
    place.write("empty", "");
    let whole = place.read("tables/opensm.fdbs");
    place.write("more", &format!("{whole}junk\n"));
    let line = format!("line {}", whole.lines().count() + 1);
    for (file, says) in [("brace", "line 1"), ("empty", "no forwarding tables"), ("more", line.as_str())] {
        for command in ["check", "quality"] {
            refused(&place, &[command, "net.toml", "--lfts", file], 2, says);
        }
        refused(&place, &["diff", "--net", "net.toml", file, file], 2, says);
    }
    // What is in a file that is no dump goes into no log.
    let (_, _, err) = place.run(&["check", "net.toml", "--lfts", "more"]);
    assert!(err.contains("opensm.fdbs") && !err.contains("junk"), "{err}");
    place.done(&["check", "tables/opensm-subnet.lst", "--lfts", "tables/opensm.fdbs"]);
    place.done(&["diff", "--net", "tables/opensm-subnet.lst", "tables/opensm.fdbs", "tables/opensm.fdbs"]);
    // LIDs that are made up are not those of the tables.
    for command in ["check", "quality"] {
        refused(&place, &[command, "net.toml", "--lfts", "tables/opensm.fdbs"], 2, "opensm-subnet.lst");
    }
}

/// Nothing that is not a fabric is replaced, and no file is taken for a socket that was left.
#[test]
fn files_of_others_are_not_replaced() {
    let _watchdog = Watchdog::usual("files of others");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    place.write("keep", "precious\n");
    place.write("README.toml", "# A topology, one might think\nof = 1\n");
    refused(&place, &["generate", "keep", "torus", "2x2", "--to", "toml"], 2, "exists and is not a");
    refused(&place, &["convert", "net.toml", "README.toml"], 2, "exists and is not a");
    refused(
        &place,
        &["draw", "net.toml", "keep"],
        2,
        "keep exists and is not a drawing that tieline wrote, so it is not replaced: give another OUT, or remove it",
    );
    refused(&place, &["serve", "net.toml", "--name", "keeps", "--control", "keep"], 4, "keep");
    assert_eq!(place.read("keep"), "precious\n");
    // Whatever form a fabric has, another one may take its place; and that of nothing.
    for form in
        ["ibnetdiscover", "ibsim", "lst", "toml", "dot", "slurm-conf", "slurm-yaml", "svg", "snapshot"]
    {
        place.done(&["convert", "net.toml", "out", "--to", form]);
    }
    place.write("out", "");
    place.done(&["generate", "out", "torus", "2x2", "--to", "toml"]);
}

#[test]
fn a_full_disk_and_a_reader_that_goes_away() {
    let _watchdog = Watchdog::usual("full disk");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "8", "2"]);
    refused(&place, &["convert", "net.toml", "/dev/full", "--to", "ibsim"], 4, "/dev/full");
    refused(&place, &["observe", "--from", "net.toml", "--save", "/dev/full"], 4, "--save");
    refused(&place, &["observe", "--from", "net.toml", "--html", "/nowhere/x.html"], 4, "--html");
    refused(
        &place,
        &["route", "net.toml", "--dump", "net.toml"],
        2,
        "net.toml is not a directory: name another directory with --dump",
    );
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = place.command(&["route", "net.toml"]).stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(4));
    // A file of somebody else is not replaced.
    place.write("mine.json", "precious");
    refused(&place, &["observe", "--from", "net.toml", "--save", "mine.json"], 2, "mine.json");
    assert_eq!(place.read("mine.json"), "precious");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status =
        place.command(&["observe", "--from", "net.toml", "--links"]).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_name_of_two_hosts_is_said_to_be_one_of_two() {
    let _watchdog = Watchdog::usual("names of two");
    let place = Place::new();
    place.done(&["generate", "net.topo", "fattree", "4", "2"]);
    let dump = place.read("net.topo").replace("host00001", "host00000");
    place.write("twins.topo", &dump);
    refused(&place, &["observe", "--from", "twins.topo", "--route", "host00000", "host00002"], 2, "2 nodes");
    let guid = dump.lines().find(|line| line.starts_with("caguid=")).unwrap().trim_start_matches("caguid=");
    let (status, report) = place.json(&["observe", "--from", "twins.topo", "--route", guid, "host00002"]);
    assert_eq!(status, 0, "{report:#}");
    assert_eq!(report["route"]["by_tables"], false);
}
