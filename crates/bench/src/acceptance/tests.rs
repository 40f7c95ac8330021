use super::*;
use crate::{
    cluster::{ClusterTest, ControlError, Running},
    progress::Quiet,
    verdict::Verdict,
};

/// A cluster that cannot be started, and counts the attempts.
#[derive(Default)]
struct Broken {
    ups: Vec<usize>,
    hosts: Vec<usize>,
    downs: usize,
}

impl ClusterControl for Broken {
    fn up(&mut self, nodes: usize) -> std::result::Result<Running, ControlError> {
        self.ups.push(nodes);
        Err("the socket directory is not writable".into())
    }

    fn up_hosts(&mut self, hosts: usize) -> std::result::Result<Running, ControlError> {
        self.hosts.push(hosts);
        Err("the socket directory of the hosts is not writable".into())
    }

    fn test(&mut self, _: ClusterTest) -> std::result::Result<f64, ControlError> {
        Err("nothing is up".into())
    }

    fn down(&mut self) -> std::result::Result<(), ControlError> {
        self.downs += 1;
        Ok(())
    }
}

fn options(only: &[&str]) -> Options {
    let only = only.iter().map(|name| (*name).to_owned()).collect();
    Options { only, max_time: Duration::from_millis(100), ..Options::default() }
}

#[test]
fn what_cannot_be_measured_is_missing_and_fails() {
    let mut broken = Broken::default();
    let all =
        run(&options(&["put.1MiB", "put.64MiB", "manager", "up", "hosts"]), Some(&mut broken), &mut Quiet)
            .unwrap();
    assert!(all.figures.is_empty());
    let ids: Vec<&str> = all.missing.iter().map(|missing| missing.id.as_str()).collect();
    let want = [
        "put.1MiB.hot",
        "put.1MiB.cold",
        "put.64MiB.hot",
        "put.64MiB.cold",
        "manager.idle",
        "manager.idle.pss",
        "up.64",
        "up.64.pss",
        "hosts.verify.quick.4",
        "hosts.idle",
        "hosts.verify.quick.16",
        "hosts.up.64",
        "hosts.up.64.pss",
    ];
    assert_eq!(ids, want);
    assert!(
        all.missing.iter().all(|missing| missing.reason.contains("the socket directory")),
        "{:?}",
        all.missing
    );
    assert_eq!(all.verdict(), Verdict::Fail);
    // What was begun is ended, even if it failed.
    assert_eq!((broken.ups, broken.hosts, broken.downs), (vec![2, 9, 64], vec![4, 16, 64], 6));
}

#[test]
fn without_a_cluster_the_reason_says_so() {
    let all = run(&options(&["connect_map", "up"]), None, &mut Quiet).unwrap();
    assert_eq!(all.missing.len(), 3);
    assert!(all.missing[0].reason.contains("connect_map needs a cluster"), "{:?}", all.missing);
    assert!(matches!(run(&options(&["nothing"]), None, &mut Quiet), Err(BenchError::UnknownId { .. })));
}

#[test]
fn a_figure_without_a_cluster_is_measured() {
    if crate::cpus::pair(None, "test").is_err() {
        println!("skipped: needs two processors");
        return;
    }
    let mut told = Vec::new();
    // On a busy machine it may take a while until one block is undisturbed.
    let options = Options { max_time: Duration::from_secs(10), ..options(&["ring.record.8B.batch16"]) };
    let all = run(&options, None, &mut |what: &str, _: f64| told.push(what.to_owned())).unwrap();
    assert!(all.missing.is_empty(), "{:?}", all.missing);
    let figure = &all.figures[0];
    assert_eq!(
        (figure.id.as_str(), figure.unit.as_str(), figure.size_bytes),
        ("ring.record.8B.batch16", "M/s", Some(8))
    );
    assert!(figure.value > 0.0 && figure.reference.value > 0.0 && !figure.blocks.is_empty());
    assert!(figure.reference.name.contains("rtrb"), "{}", figure.reference.name);
    assert_eq!(told, ["ring.record.8B.batch16"]);
    assert_eq!((all.schema.as_str(), all.env.seed), (SCHEMA, 1));
    assert!(all.env.elapsed_s > 0.0 && all.env.clock.step_ns > 0.0);
}

/// Where it can be measured at all: a run of a few blocks.
#[test]
fn figures_of_the_link_between_hosts_are_measured_beside_a_bare_loop() {
    let ids = ["ofi.echo.8B", "ofi.put.8B", "ofi.put.64KiB"];
    let options = Options { max_time: Duration::from_millis(500), ..options(&ids) };
    let all = run(&options, None, &mut Quiet).unwrap();
    if let Some(missing) = all.missing.first() {
        // Another reason is a fault; other tests may disturb every block.
        let known = [
            "need root",
            "install",
            "two processors",
            "offers no",
            "`./run build` builds it",
            "no undisturbed block",
        ];
        assert!(known.iter().any(|known| missing.reason.contains(known)), "{:?}", all.missing);
        return println!("skipped: {}", missing.reason);
    }
    let measured: Vec<&str> = all.figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(measured, ids);
    for figure in &all.figures {
        assert_eq!((figure.path.as_str(), figure.cpus.len()), ("ofi", 2));
        assert!(figure.value > 0.0 && figure.reference.value > 0.0, "{figure:?}");
        assert!(figure.reference.name.contains("bare loop"), "{}", figure.reference.name);
        assert!(!figure.reference.version.is_empty(), "libfabric's version");
        let beside = ["TCP socket", "owner's thread", "iperf3"];
        assert!(figure.notes.iter().any(|note| beside.iter().any(|what| note.contains(what))), "{figure:?}");
    }
}
