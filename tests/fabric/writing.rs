//! What commands write: whole or not at all, in the place of nothing that others wrote, and nothing that
//! makes no sense.

use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::Watchdog;

use crate::harness::Place;

fn names(place: &Place, dir: &str) -> Vec<String> {
    let Ok(all) = std::fs::read_dir(place.path(dir)) else { return Vec::new() };
    let mut names: Vec<String> = all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dump_replaces_its_own_files_alone() {
    let _watchdog = Watchdog::usual("dumps of others");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    place.done(&["route", "net.toml", "--dump", "t"]);
    assert_eq!(
        names(&place, "t"),
        [
            "opensm-lfts.dump",
            "opensm-subnet.lst",
            "opensm.fdbs",
            "opensm.mcfdbs",
            "opensm.psl",
            "opensm.slvl",
            "tieline.sha256"
        ]
    );
    place.done(&["route", "net.toml", "--engine", "minhop", "--dump", "t"]);
    // OpenSM's own dumps: the same names and the same form.
    std::fs::create_dir(place.path("osm")).unwrap();
    std::fs::copy(place.path("t/opensm.fdbs"), place.path("osm/opensm.fdbs")).unwrap();
    let (status, _, err) = place.run(&["route", "net.toml", "--dump", "osm"]);
    assert!(status == 2 && err.contains("osm/opensm.fdbs") && err.contains("not replaced"), "{status} {err}");
    assert_eq!(names(&place, "osm"), ["opensm.fdbs"]);
    // The folder is examined before the work begins, which here would fail.
    let (status, _, err) = place.run(&["route", "net.toml", "--root", "nobody", "--dump", "osm"]);
    assert!(status == 2 && err.contains("not replaced"), "{status} {err}");
    place.write("victim", "mine");
    std::fs::create_dir(place.path("link")).unwrap();
    symlink(place.path("victim"), place.path("link/opensm.psl")).unwrap();
    let (status, _, err) = place.run(&["route", "net.toml", "--dump", "link"]);
    assert!(status == 4 && err.contains("symbolic link") && err.contains("--dump"), "{status} {err}");
    assert_eq!((place.read("victim"), names(&place, "link").len()), ("mine".into(), 1));
}

#[test]
fn a_dump_that_is_interrupted_leaves_nothing() {
    let watchdog = Watchdog::usual("interrupted dumps");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "16", "3"]);
    for after in [100, 400, 700, 1_000, 1_500, 2_500] {
        let mut route = place.command(&["route", "net.toml", "--engine", "minhop", "--dump", "t", "--quiet"]);
        let mut route = route.stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        kill_process(Pid::from_raw(route.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap_or_default();
        route.wait().unwrap();
        let there = names(&place, "t");
        assert!(
            there.is_empty() || there.len() == 7 && !there.iter().any(|name| name.contains("part")),
            "{there:?}"
        );
        watchdog.progress();
    }
}

#[test]
fn tables_that_need_vls_are_said_to_be_unsafe_in_opensm() {
    let _watchdog = Watchdog::usual("lanes and OpenSM");
    let place = Place::new();
    place.done(&["generate", "net.toml", "torus", "5x5"]);
    place.done(&["generate", "tree.toml", "fattree", "4", "2"]);
    let (status, _, err) = place.run(&["route", "net.toml", "--dump", "t"]);
    assert!(status == 0 && err.contains("knows no SLs") && err.contains("updown"), "{err}");
    assert!(place.read("t/opensm-lfts.dump").contains("# WARNING"));
    for words in [
        &["route", "net.toml", "--engine", "updown", "--dump", "u"][..],
        &["route", "tree.toml", "--dump", "v"],
    ] {
        let (status, _, err) = place.run(words);
        assert!(status == 0 && !err.contains("SLs"), "{err}");
    }
}

#[test]
fn a_conversion_replaces_neither_its_input_nor_what_others_wrote() {
    let _watchdog = Watchdog::usual("conversions");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    let net = place.read("net.toml");
    for same in ["same.toml", "same.svg"] {
        symlink(place.path("net.toml"), place.path(same)).unwrap();
    }
    for words in [
        &["convert", "net.toml", "net.toml"][..],
        &["convert", "net.toml", "./same.toml", "--to", "ibsim"],
        &["draw", "net.toml", "same.svg"],
    ] {
        let (status, _, err) = place.run(words);
        assert!(status == 2 && err.contains("is the file that is read"), "{words:?}: {status} {err}");
    }
    assert_eq!(place.read("net.toml"), net);
    // A topology that somebody else has written.
    let others = net.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    place.write("plan.toml", &others);
    let (status, _, err) = place.run(&["convert", "net.toml", "plan.toml"]);
    assert!(status == 2 && err.contains("not a fabric that tieline wrote"), "{status} {err}");
    assert_eq!(place.read("plan.toml"), others);
    place.done(&["convert", "plan.toml", "net.toml"]);
    assert_eq!(place.read("net.toml"), net);
}

#[test]
fn slurm_gets_names_of_hosts_or_nothing() {
    let _watchdog = Watchdog::usual("names for Slurm");
    let place = Place::new();
    place.done(&["generate", "net.topo", "fattree", "4", "2"]);
    let dump = place.read("net.topo");
    let named = |name: &dyn Fn(usize) -> String| {
        (0..8).fold(dump.clone(), |dump, at| dump.replace(&format!("host{at:05}"), &name(at)))
    };
    place.write("mt.topo", &named(&|_| "MT25408 ConnectX Mellanox Technologies".into()));
    for form in ["slurm-conf", "slurm-yaml"] {
        let (status, out, err) = place.run(&["convert", "mt.topo", "-", "--to", form]);
        assert!(status == 2 && err.contains("MT25408") && err.contains("rdma-ndd"), "{status} {err}");
        assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{err}");
    }
    place.write(
        "some.topo",
        &named(&|at| if at < 3 { "ubuntu mlx5_0".into() } else { format!("n{at} mlx5_0") }),
    );
    let (status, out, err) = place.run(&["convert", "some.topo", "-", "--to", "slurm-conf"]);
    assert!(status == 0 && err.contains("3 CAs") && err.contains("`ubuntu mlx5_0`"), "{status} {err}");
    assert!(out.contains("Nodes=n3\n") && !out.contains("ubuntu"), "{out}");
    place.write("rails.topo", &named(&|at| format!("n{} mlx5_{}", at % 2, at / 2)));
    let (status, out, err) = place.run(&["convert", "rails.topo", "-", "--to", "slurm-conf"]);
    assert!(status == 0 && err.contains("2 hosts have CAs at several switches"), "{status} {err}");
    assert!(out.contains("Nodes=n[0-1]\n") && out.lines().count() == 2, "{out}");
    let (_, _, err) = place.run(&["convert", "net.topo", "-", "--to", "slurm-conf"]);
    assert_eq!(err, "");
}

#[test]
fn names_that_would_turn_a_terminal_around_come_out_as_text() {
    let _watchdog = Watchdog::usual("hidden characters");
    let place = Place::new();
    place.write(
        "net.toml",
        "tieline-topology = 1\nnodes = [{ name = \"a\\u009B31m\\u0085\\u202Eb\\u2066\", kind = \"switch\", ports = 4 }]\n",
    );
    for form in ["toml", "snapshot", "dot", "ibnetdiscover", "ibsim", "svg"] {
        let out = place.done(&["convert", "net.toml", "-", "--to", form]);
        assert!(!out.contains(['\u{9b}', '\u{85}', '\u{202e}', '\u{2066}']), "{form}: {out:?}");
        assert!(out.contains("31m"), "{form}: {out:?}");
    }
}

#[test]
fn engines_of_others_and_names_of_sockets_say_what_would_be_right() {
    let _watchdog = Watchdog::usual("engines of others");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    for (engine, near) in [("sssp", "layered"), ("lash", "layered"), ("nue", "layered"), ("dnup", "updown")] {
        let (status, _, err) = place.run(&["route", "net.toml", "--engine", engine]);
        assert!(status == 2 && err.contains(&format!("the nearest is `{near}`")), "{err}");
    }
    let (status, _, err) = place.run(&["serve", "net.toml", "--name", ""]);
    assert!(status == 2 && err.contains("--name is empty"), "{status} {err}");
    let (status, _, err) = place.run(&["serve", "net.toml", "--name", &"x".repeat(200)]);
    assert!(status == 2 && err.contains("at most 80"), "{status} {err}");
    place.write("links", "CA: host HCA-1:\n      0x01  1  1[  ] ==( 4X 25.78125 Gbps Active/ LinkUp)==>\n");
    let (status, _, err) = place.run(&["route", "links"]);
    assert!(status == 2 && err.contains("iblinkinfo") && err.len() < 300, "{status} {err}");
}
