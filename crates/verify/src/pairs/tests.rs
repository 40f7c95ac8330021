//! What pairs come to: samples, speed beside other work, what could not be read.

use super::*;

pub(super) fn report(measured: u32, pairs_in_all: usize) -> PairsReport {
    let figures = |number| PairFigures {
        pair: [4, 4 * (number + 2)].map(|id| NodeId::new(id).unwrap()),
        latency: None,
        block: None,
        again: Vec::new(),
        bandwidth_bytes_per_s: None,
        stalls: 0,
        problems: Vec::new(),
        verdict: Verdict::Pass,
    };
    PairsReport {
        pairs: (0..measured).map(figures).collect(),
        pairs_in_all,
        block_bytes: BLOCK_BYTES as u64,
        copy_ns: None,
        rounds: 1,
        second_pass: Vec::new(),
        load: Load::default(),
        suspects: Vec::new(),
        verdict: Verdict::Pass,
        error: None,
        obstacles: Vec::new(),
        partial: false,
    }
}

/// Of four nodes, where the first pair is bad by speed.
fn slow(load: Load) -> PairsReport {
    let nodes = [4, 8, 12, 16].map(|id| NodeId::new(id).unwrap());
    let target = Target { runtime_dir: None, cluster: None, nodes: nodes.into() };
    let mut report = PairsReport { load, ..report(3, 3) };
    report.pairs[0].verdict = Verdict::Fail;
    report.pairs[0].problems.push("latency: slow".into());
    finish(&target, &mut report);
    report
}

#[test]
fn a_slow_pair_is_a_suspect_unless_the_machine_was_busy() {
    let quiet = slow(Load { processors: 2, others_percent: Some(2.0), waited_percent: Some(1.0) });
    assert_eq!((quiet.verdict, quiet.suspects.len()), (Verdict::Fail, 1));
    for busy in [(Some(60.0), Some(1.0)), (Some(1.0), Some(30.0)), (None, Some(30.0))] {
        let load = Load { processors: 2, others_percent: busy.0, waited_percent: busy.1 };
        let report = slow(load);
        assert_eq!((report.verdict, report.suspects.len()), (Verdict::Inconclusive, 0), "{busy:?}");
        assert_eq!(report.pairs[0].problems, ["latency: slow"], "what was seen is kept");
    }
}

#[test]
fn who_was_kept_waiting_has_not_watched_and_does_not_pass() {
    let nodes = [4, 8].map(|id| NodeId::new(id).unwrap());
    let target = Target { runtime_dir: None, cluster: None, nodes: nodes.into() };
    let verdict = |load| {
        let mut report = PairsReport { load, ..report(1, 1) };
        finish(&target, &mut report);
        report.verdict
    };
    let of = |others, waited| Load { processors: 64, others_percent: others, waited_percent: waited };
    assert_eq!(verdict(of(Some(50.0), Some(0.0))), Verdict::Pass, "the test's own processors were free");
    assert_eq!(verdict(of(Some(50.0), Some(50.0))), Verdict::Inconclusive);
}

#[test]
fn what_a_machine_gave_too_seldom_is_in_doubt() {
    let mut figures = report(1, 1).pairs.remove(0);
    figures.doubt("latency");
    assert_eq!(figures.verdict, Verdict::Inconclusive);
    let readings = Readings { round_trips: true, ..Readings::default() };
    assert!(readings.lacks_latency((0, 1), None) && !readings.lacks_latency((1, 0), None));
    assert!(!Readings::default().lacks_latency((0, 1), None), "one processor: it was not tried");
}

#[test]
fn a_sample_is_called_one_and_the_whole_is_not() {
    let sample = report(40, 380);
    assert!(sample.summary().starts_with("40 of 380 pairs (a sample"), "{}", sample.summary());
    assert_eq!(sample.links_each(20), 2);
    let whole = report(6, 6);
    assert!(whole.summary().starts_with("6 pairs,"), "{}", whole.summary());
    assert_eq!(whole.links_each(3), 2);
}
