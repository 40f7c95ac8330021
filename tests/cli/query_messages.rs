//! `tieline query --messages`: the settings of message queues, and what was measured.

use tieline_tests::{Cluster, Watchdog};

fn run(cluster: &Cluster, more: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = cluster.command(&[&["query", "--messages", "--quiet"], more].concat()).unwrap();
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn json(cluster: &Cluster, variables: &[(&str, &str)]) -> serde_json::Value {
    let (status, out, err) = run(cluster, &["--json"], variables);
    assert_eq!(status, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn each_way_of_a_message_is_measured_by_its_size() {
    let _watchdog = Watchdog::usual("ways of messages");
    let cluster = Cluster::empty().unwrap();
    let shown = json(&cluster, &[]);
    assert_eq!(
        (&shown["schema"], &shown["settings"]["fetch"]),
        (&"tieline.query-messages/1".into(), &"measured".into())
    );
    assert_eq!(
        (&shown["settings"]["eager_max_bytes"], &shown["environment"]),
        (&8192.into(), &serde_json::json!([]))
    );
    assert_eq!(shown["settings"]["measures_eager"], true);
    assert_eq!(shown["settings"]["eager_trial_max_bytes"], 16384);
    let provider = &shown["provider"];
    assert_eq!(
        ["eager_max_bytes", "eager_trial_max_bytes", "ring_bytes"].map(|name| provider[name].as_u64()),
        [Some(16384), Some(32768), Some(262_144)]
    );
    let Some(rows) = shown["measured"]["rows"].as_array() else {
        // One processor.
        assert!(shown["problem"].as_str().unwrap().contains("two processors"), "{shown}");
        return;
    };
    let has = |row: &serde_json::Value, way: &str| row[way].as_f64().is_some_and(|ns| ns > 0.0);
    for row in rows {
        let fits = row["size_bytes"].as_u64().unwrap() <= 8192;
        assert!(has(row, "eager_ns") == fits && has(row, "in_parts_ns") && has(row, "chosen_ns"), "{row}");
        assert_eq!(has(row, "read_ns"), shown["measured"]["is_read_allowed"] == true, "{row}");
    }
    let (status, out, err) = run(&cluster, &[], &[("TIELINE_MQ_RING_BYTES", "65536")]);
    assert_eq!((status, err.as_str()), (0, ""));
    for line in [
        "Eager messages     : up to 8 KiB; up to half of the ring where that is measured to cost less\n",
        "Ring of each peer  : 64 KiB (environment)\n",
        "Longer messages    : the faster way, measured",
        "libfabric provider : eager up to 16 KiB, up to 32 KiB where that is measured to cost less; rings of 256 KiB\n",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert_eq!(
        out.lines().filter(|line| line.contains("KiB ") || line.contains("MiB ")).count(),
        11,
        "{out}"
    );
    // Nothing is left of it.
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0);
}

#[test]
fn the_environment_is_shown_and_what_is_wrong_in_it_is_named() {
    let _watchdog = Watchdog::usual("variables of message queues");
    let cluster = Cluster::empty().unwrap();
    let variables = [("TIELINE_MQ_EAGER_MAX_BYTES", "100"), ("TIELINE_MQ_FETCH", "in-parts")];
    let shown = json(&cluster, &variables);
    assert_eq!(
        (&shown["settings"]["eager_max_bytes"], &shown["settings"]["fetch"]),
        (&100.into(), &"in-parts".into())
    );
    assert_eq!(shown["settings"]["measures_eager"], false);
    assert_eq!(shown["environment"], serde_json::json!(["TIELINE_MQ_EAGER_MAX_BYTES", "TIELINE_MQ_FETCH"]));
    for (more, variables, named) in [
        (
            &[][..],
            &[("TIELINE_MQ_FETCH", "dma")][..],
            "variable TIELINE_MQ_FETCH: `dma` is not measured, read or in-parts",
        ),
        (&["--node", "4"], &[], "takes no --node"),
        (&["--brief"], &[], "--messages cannot be combined with --brief"),
    ] {
        let (status, out, err) = run(&cluster, more, variables);
        assert!(status == 2 && out.is_empty() && err.contains(named), "{more:?}: {status} {out}{err}");
    }
}
