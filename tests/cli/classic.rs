//! Classic names and options.

use std::process::{Command, Output};

use tieline_tests::{Cluster, Watchdog};

/// Calls the binary by another name.
fn call(cluster: &Cluster, name: &str, arguments: &[&str]) -> Output {
    let links = tempfile::tempdir().unwrap();
    let link = links.path().join(name);
    std::os::unix::fs::symlink(tieline_tests::cluster::tieline_binary().unwrap(), &link).unwrap();
    let mut command = Command::new(link);
    cluster.set_environment(&mut command);
    command.args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn classic_names_are_links_to_the_binary() {
    let _watchdog = Watchdog::usual("classic names");
    let cluster = Cluster::up(1).unwrap();
    let host = cluster.attach(0).unwrap().info().host;
    for (name, arguments, words) in [
        ("query", &[][..], "Local node-id      : 4"),
        ("disinfo", &[], "Local node-id      : 4"),
        ("dis_diag", &["-V", "9"], "COUNTERS OF THE MANAGER"),
        ("dis_diag", &["-V", "0"], "TEST RESULT: *PASSED*"),
        ("dis_diag", &["-clear"], "TEST RESULT: *PASSED*"),
        ("dis_diag", &["-prod"], "dis_diag discovered 0 error(s)."),
        ("scipp", &["-help"], "half the round trip"),
        ("sciconntest", &["-help"], "--throttle"),
    ] {
        let output = call(&cluster, name, arguments);
        assert!(output.status.success() && text(&output).contains(words), "{name}: {}", text(&output));
    }
    for arguments in [&["get-nodeid"][..], &["get-nodeid", "-hostname", &host]] {
        let output = call(&cluster, "disinfo", arguments);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "4\n", "{}", text(&output));
    }
    let output = call(&cluster, "disinfo", &["get-nodeid", "-hostname", "nowhere.invalid"]);
    assert!(
        output.status.code() == Some(4) && text(&output).contains("nowhere.invalid"),
        "{}",
        text(&output)
    );
    let output = call(&cluster, "dis_config", &["-gn"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Card 1 - NodeId:  4\n", "{}", text(&output));
    let output = call(&cluster, "dis_diag", &["-V", "10"]);
    assert!(output.status.code() == Some(2) && text(&output).contains("from 0 to 9"), "{}", text(&output));
}

#[test]
fn a_program_that_asks_for_a_host_is_told_its_peer() {
    let _watchdog = Watchdog::usual("disinfo on one host");
    let cluster = Cluster::up(2).unwrap();
    let host = cluster.attach(0).unwrap().info().host;
    for (own, peer) in [("4", "8\n"), ("8", "4\n")] {
        for name in [host.clone(), format!("{host}_a0")] {
            let arguments = ["get-nodeid", "-hostname", &name, "--node", own];
            let output = call(&cluster, "disinfo", &arguments);
            assert_eq!(String::from_utf8_lossy(&output.stdout), peer, "{}", text(&output));
        }
    }
    let output = call(&cluster, "disinfo", &["get-nodeid", "-hostname", &host]);
    assert!(output.status.code() == Some(2) && text(&output).contains("TIELINE_NODE"), "{}", text(&output));
}

#[test]
fn clearing_sets_the_counters_to_zero() {
    let _watchdog = Watchdog::usual("diag --clear");
    let cluster = Cluster::up(1).unwrap();
    let attaches = || {
        let (_, out, err) = cluster.run(&["diag", "--json"]).unwrap();
        let report: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        report["nodes"][0]["counters"]["attaches"].as_u64().unwrap()
    };
    let mut before = 0;
    for _ in 0..4 {
        before = attaches();
    }
    let (status, ..) = cluster.run(&["diag", "--clear"]).unwrap();
    assert_eq!(status, 0);
    let after = attaches();
    assert!(after < before, "{before} attaches before, {after} after");
}

#[test]
fn scipp_takes_classic_options_and_leaves_json_in_a_file() {
    let _watchdog = Watchdog::usual("scipp -size");
    let cluster = Cluster::up(2).unwrap();
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("scipp.json");
    let (status, out, err) =
        cluster.run(&["bench", "scipp", "-size", "64", "-rn", "8", "-json", file.to_str().unwrap()]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((report["rows"].as_array().unwrap().len(), &report["rows"][0]["size_bytes"]), (1, &64.into()));
    let (status, _, err) = cluster.run(&["bench", "scipp", "-size", "9000"]).unwrap();
    assert!(status == 2 && err.contains("8192"), "{err}");
}
