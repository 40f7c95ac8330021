use std::collections::VecDeque;

use serde_json::json;

use super::*;
use crate::{
    acceptance::catalogue::{Kind, Sisci},
    figure::{Cause, Figure, Figures, Missing, Stat, tests::spec},
    results::Beside,
    rng::Rng,
    stats::paired::Block,
    verdict::Goal,
};

/// What stands beside a figure, in which order its runs say what.
const BASELINE: &str = "a line";

/// Both builds as scripts: each side's next readings, `None` for a failure. The last one is said
/// for ever.
struct Script {
    sides: [VecDeque<Option<Reading>>; 2],
    order: Vec<usize>,
}

impl Measures for Script {
    fn measure(&mut self, side: usize, _entry: &Entry) -> std::result::Result<Reading, NoReading> {
        self.order.push(side);
        let next = if self.sides[side].len() > 1 { self.sides[side].pop_front() } else { None };
        let next = next.or_else(|| self.sides[side].front().cloned()).flatten();
        next.ok_or_else(|| NoReading::Failed("the socket is taken".to_owned()))
    }
}

/// A time that costs so many times a baseline.
fn time(baseline: f64, times: f64) -> Reading {
    let beside = Beside { name: BASELINE.to_owned(), value: baseline, ratio: times, ratio_ci95: None };
    Reading {
        unit: "ns".to_owned(),
        small_is_good: true,
        value: baseline * times,
        beside: Some(beside),
        is_disturbed: false,
    }
}

/// A rate with a constant goal.
fn rate(value: f64) -> Reading {
    Reading { unit: "M/s".to_owned(), small_is_good: false, beside: None, value, is_disturbed: false }
}

/// Readings about a value, each off by at most such a share.
fn about(seed: u64, scatter: f64, make: impl Fn(f64) -> Reading) -> VecDeque<Option<Reading>> {
    let mut rng = Rng::new(seed);
    let mut off = move || 1.0 + scatter * (2.0 * (rng.next_u64() as f64 / u64::MAX as f64) - 1.0);
    (0..200).map(|_| Some(make(off()))).collect()
}

fn options() -> Options {
    let named = |name: &str| Named { name: name.to_owned(), program: name.into() };
    Options {
        builds: [named("before"), named("now")],
        only: Vec::new(),
        cpus: None,
        limits: Limits::default(),
        missing_ok: false,
        argv: Vec::new(),
    }
}

fn compare_of(id: &str, before: VecDeque<Option<Reading>>, now: VecDeque<Option<Reading>>) -> Comparison {
    compare_told(id, before, now, &mut Quiet)
}

fn compare_told(
    id: &str,
    before: VecDeque<Option<Reading>>,
    now: VecDeque<Option<Reading>>,
    progress: &mut dyn Progress,
) -> Comparison {
    let plan = Plan::of(&[id.to_owned()], &[id.to_owned()]).unwrap();
    measure(&options(), plan, &mut Script { sides: [before, now], order: Vec::new() }, progress).unwrap()
}

fn outcome(before: VecDeque<Option<Reading>>, now: VecDeque<Option<Reading>>) -> (Outcome, u8) {
    let all = compare_of("intr.spinning", before, now);
    (all.figures[0].outcome, all.exit_status())
}

#[test]
fn the_same_build_is_no_worse_than_itself() {
    for seed in 0..50 {
        let side = |seed| about(seed, 0.02, |off| rate(100.0 * off));
        assert_eq!(outcome(side(seed), side(seed + 1000)), (Outcome::NoWorse, 0), "seed {seed}");
    }
}

#[test]
fn a_loss_is_found_and_a_gain_too() {
    for seed in 0..50 {
        let side = |seed, value: f64| about(seed, 0.01, move |off| rate(value * off));
        assert_eq!(outcome(side(seed, 100.0), side(seed + 99, 93.0)), (Outcome::Worse, 1), "seed {seed}");
        assert_eq!(outcome(side(seed, 100.0), side(seed + 99, 107.0)), (Outcome::Better, 0), "seed {seed}");
        // A loss that the rule allows.
        assert_eq!(outcome(side(seed, 100.0), side(seed + 99, 99.0)), (Outcome::NoWorse, 0), "seed {seed}");
    }
}

#[test]
fn times_are_turned_so_that_above_1_is_better() {
    let side = |times: f64| VecDeque::from([Some(time(40.0, times))]);
    let all = compare_of("intr.spinning", side(2.0), side(2.2));
    let figure = &all.figures[0];
    assert_eq!((figure.outcome, figure.basis, figure.series.len()), (Outcome::Worse, Basis::Ratio, 2));
    let first = &figure.series[0];
    assert!((first.ratio.unwrap() - 2.0 / 2.2).abs() < 1e-9, "{first:?}");
    assert_eq!((first.before, first.now.unwrap().round()), (Some(80.0), 88.0));
    assert_eq!(compare_of("intr.spinning", side(2.2), side(2.0)).figures[0].outcome, Outcome::Better);
}

#[test]
fn a_processor_that_moves_between_two_runs_cancels_where_the_machine_stands_beside() {
    // A line costs four times as much in every third run, at other times for each side.
    let side = |times: f64, turn: usize| {
        let of = |n: usize| Some(time(if n % 3 == turn { 160.0 } else { 40.0 }, times));
        (0..100).map(of).collect::<VecDeque<_>>()
    };
    assert_eq!(outcome(side(2.0, 0), side(2.0, 1)), (Outcome::NoWorse, 0));
    assert_eq!(outcome(side(2.0, 0), side(2.1, 1)), (Outcome::Worse, 1));
}

#[test]
fn what_is_beside_our_own_or_beside_something_else_is_compared_by_its_value() {
    let side = |value: f64| VecDeque::from([Some(time(value, 1.0))]);
    // Both became slower together: the ratio to each other says nothing of it.
    for id in ["sisci.pingpong", "sisci.scale"] {
        let all = compare_of(id, side(100.0), side(120.0));
        assert_eq!((all.figures[0].basis, all.figures[0].outcome), (Basis::Value, Outcome::Worse), "{id}");
    }
    let entry = catalogue::select(&["sisci.scale".to_owned()]).unwrap()[0];
    assert!(matches!(entry.kind, Kind::Sisci(Sisci::Scale { .. })));
    let mut other = time(100.0, 1.0);
    other.beside.as_mut().unwrap().name = "two lines".to_owned();
    let all = compare_of("intr.spinning", side(100.0), VecDeque::from([Some(other)]));
    assert_eq!(all.figures[0].basis, Basis::Value);
    // The best of several rivals has now this name, now that one.
    let rivals = |from: usize| -> VecDeque<Option<Reading>> {
        let of = |n: usize| {
            let mut reading = time(100.0, 1.0);
            reading.beside.as_mut().unwrap().name = format!("copy {}", (n + from) % 3);
            Some(reading)
        };
        (0..100).map(of).collect()
    };
    assert_eq!(compare_of("put.1MiB.hot", rivals(0), rivals(1)).figures[0].basis, Basis::Ratio);
}

#[test]
fn a_baseline_that_differs_between_the_builds_is_said() {
    let all = compare_of(
        "intr.spinning",
        VecDeque::from([Some(time(40.0, 2.0))]),
        VecDeque::from([Some(time(60.0, 2.0))]),
    );
    let why = all.figures[0].why.clone().unwrap();
    assert!(all.figures[0].outcome == Outcome::NoWorse && why.contains("1.500"), "{why}");
}

#[test]
fn it_is_worse_only_if_it_is_so_twice() {
    // The first six rounds of now are slow, as beside another load; then it is as before.
    let before = VecDeque::from([Some(rate(100.0))]);
    let now: VecDeque<_> = (0..20).map(|n| Some(rate(if n < 6 { 90.0 } else { 100.0 }))).collect();
    let all = compare_of("ring.record.8B.single", before, now);
    let figure = &all.figures[0];
    assert_eq!((figure.series.len(), figure.outcome, all.exit_status()), (2, Outcome::NoWorse, 0));
    assert!(figure.why.clone().unwrap().contains("the second was not"), "{:?}", figure.why);
    let text = all.to_text();
    assert!(text.contains("once more") && text.ends_with("verdict: PASS\n"), "{text}");
}

#[test]
fn noise_decides_nothing_and_never_says_worse() {
    let mut inconclusive = 0;
    for seed in 0..100 {
        let side = |seed| about(seed, 0.6, |off| rate(100.0 * off));
        let (outcome, status) = outcome(side(seed), side(seed + 1000));
        assert_ne!(outcome, Outcome::Worse, "seed {seed}");
        inconclusive += u32::from(outcome == Outcome::Inconclusive && status == 3);
    }
    assert!(inconclusive > 90, "{inconclusive}");
}

#[test]
fn an_interval_that_could_not_find_a_loss_does_not_rule_it_out() {
    // Each build has two rhythms, of which now takes the slow one more often.
    let now: VecDeque<_> = (0..12).map(|n| Some(rate(if n % 2 == 0 { 60.0 } else { 101.0 }))).collect();
    let all = compare_of("ring.record.8B.single", VecDeque::from([Some(rate(100.0))]), now);
    let figure = &all.figures[0];
    let interval = figure.series[0].ratio_ci95.unwrap();
    assert!(interval.low < 0.7 && interval.high < 1.0 / LEAST, "{interval:?}");
    assert_eq!(figure.outcome, Outcome::Inconclusive, "{:?}", figure.why);
}

#[test]
fn disturbed_rounds_are_set_apart_and_too_many_decide_nothing() {
    let side = |of_ten: usize, value: f64| -> VecDeque<Option<Reading>> {
        let of = |n: usize| Some(Reading { is_disturbed: n % 10 < of_ten, ..rate(value) });
        (0..100).map(of).collect()
    };
    let some = compare_of("ring.record.8B.single", side(2, 100.0), side(0, 100.0));
    let series = &some.figures[0].series[0];
    assert_eq!((series.disturbed.len(), series.rounds.len()), (2, 6));
    assert_eq!(some.figures[0].outcome, Outcome::NoWorse);
    // Slow, but only while the machine was disturbed.
    let all = compare_of("ring.record.8B.single", side(0, 100.0), side(10, 50.0));
    let figure = &all.figures[0];
    assert_eq!((figure.outcome, all.exit_status()), (Outcome::Inconclusive, 3));
    assert!(figure.why.clone().unwrap().contains("only 0 undisturbed rounds"), "{:?}", figure.why);
    let half = compare_of("ring.record.8B.single", side(0, 100.0), side(5, 50.0));
    assert_eq!((half.figures[0].outcome, half.figures[0].series.len()), (Outcome::Inconclusive, 1));
}

#[test]
fn rounds_alternate_and_end_when_the_interval_is_narrow() {
    let entry = catalogue::select(&["ring.record.8B.single".to_owned()]).unwrap()[0];
    let go = |scatter: f64| {
        let side = |seed| about(seed, scatter, |off| rate(100.0 * off));
        let mut script = Script { sides: [side(1), side(2)], order: Vec::new() };
        let series = series::measure(&entry, Limits { rounds_max: 20 }, &mut script, &mut |_, _| false);
        (series.rounds.len(), script.order)
    };
    let (rounds, order) = go(0.001);
    assert_eq!((rounds, &order[..8]), (6, &[0, 1, 1, 0, 0, 1, 1, 0][..]));
    assert_eq!(go(0.3).0, 20);
}

#[test]
fn a_build_that_does_not_measure_it_is_named() {
    let good = || VecDeque::from([Some(rate(100.0))]);
    let never = || VecDeque::from([None]);
    let all = compare_of("ring.record.8B.single", good(), never());
    assert_eq!((all.figures[0].outcome, all.exit_status()), (Outcome::Worse, 1));
    let why = all.figures[0].why.clone().unwrap();
    assert!(why.contains("now") && why.contains("the socket is taken"), "{why}");
    // One failure among good runs is no verdict.
    let once = (0..20).map(|n| (n != 2).then(|| rate(100.0))).collect();
    assert_eq!(outcome(good(), once), (Outcome::NoWorse, 0));
    let plan = Plan::of(&["up.64".to_owned()], &["up.64".to_owned()]).unwrap();
    let mut script = Script { sides: [never(), never()], order: Vec::new() };
    let error = measure(&options(), plan, &mut script, &mut Quiet).unwrap_err();
    assert!(matches!(&error, BenchError::Build { reason } if reason.contains("taken")), "{error}");
}

#[test]
fn nothing_by_nothing_is_the_same() {
    let idle =
        |ms: f64| VecDeque::from([Some(Reading { unit: "ms/min".into(), small_is_good: true, ..rate(ms) })]);
    let of = |before, now| compare_of("sockets.idle10k", idle(before), idle(now)).figures[0].outcome;
    assert_eq!(of(0.0, 0.0), Outcome::NoWorse);
    assert_eq!(of(0.0, 0.5), Outcome::NoWorse);
    assert_eq!(of(0.0, 500.0), Outcome::Worse);
    assert_eq!(of(500.0, 0.0), Outcome::Better);
    let all = compare_of("sockets.idle10k", idle(0.0), idle(500.0));
    let text = serde_json::to_string(&all).unwrap();
    assert!(!text.contains("\"ratio\":null"), "{text}");
}

#[test]
fn figures_of_one_build_are_named() {
    let known = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let plan = Plan::of(&known(&["put"]), &known(&["put.1MiB.hot", "put.gone", "gone.other"])).unwrap();
    assert_eq!(plan.both.iter().map(|entry| entry.id).collect::<Vec<_>>(), ["put.1MiB.hot"]);
    assert_eq!((plan.not_before.len(), plan.not_before[0].as_str()), (7, "put.1MiB.cold"));
    assert_eq!(plan.not_now, ["put.gone"]);
    assert!(Plan::of(&known(&["put.1MB.hot"]), &[]).unwrap_err().to_string().contains("`put.1MiB.hot`"));
    let go = |missing_ok| {
        let mut script =
            Script { sides: [[Some(rate(1.0))].into(), [Some(rate(1.0))].into()], order: vec![] };
        measure(&Options { missing_ok, ..options() }, plan.clone(), &mut script, &mut Quiet).unwrap()
    };
    let all = go(false);
    assert_eq!(all.exit_status(), 1);
    assert!(all.to_text().contains("put.4MiB.hot: not in before\n"), "{}", all.to_text());
    assert!(all.to_text().contains("put.gone: not in now: counts as a failure\n"), "{}", all.to_text());
    assert_eq!(go(true).exit_status(), 0);
    // Nothing that both have: nothing can be said, and nothing is wrong.
    let plan = Plan::of(&known(&["put.1MiB.hot"]), &[]).unwrap();
    let mut script = Script { sides: [VecDeque::new(), VecDeque::new()], order: Vec::new() };
    let none = measure(&options(), plan, &mut script, &mut Quiet).unwrap();
    assert_eq!((none.exit_status(), none.not_before.len()), (3, 1));
}

/// Ends the run after so many steps.
struct Ends(std::sync::atomic::AtomicUsize, usize);

impl Progress for Ends {
    fn tell(&mut self, _what: &str, _share: f64) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn stop(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed) > self.1
    }
}

#[test]
fn ended_early_it_keeps_what_it_has_and_says_so() {
    let side = |value| VecDeque::from([Some(rate(value))]);
    let ended = |after| {
        let mut progress = Ends(0.into(), after);
        compare_told("ring.record.8B.single", side(100.0), side(80.0), &mut progress)
    };
    let early = ended(3);
    assert!(early.partial && early.exit_status() == 3);
    assert_eq!(early.figures[0].series[0].rounds.len(), 3);
    assert!(early.to_text().contains("PARTIAL"), "{}", early.to_text());
    // Between the first and the second series: not worse yet.
    let between = ended(6);
    assert_eq!((between.partial, between.figures[0].outcome), (true, Outcome::Inconclusive));
    let why = between.figures[0].why.clone().unwrap();
    assert!(why.contains("wholly below 0.97") && why.contains("ended"), "{why}");
}

#[test]
fn answers_are_read_as_acceptance_writes_them() {
    let blocks: Vec<Block> = (0..40).map(|_| Block { ours: 88.0, reference: 80.0 }).collect();
    let spec = crate::figure::Spec { id: "a.b".to_owned(), ..spec(Stat::P50, Goal::at_most(1.2)) };
    let figure = Figure::of(spec, 40, blocks, vec![], 1).unwrap();
    let missing = Missing { id: "c.d".into(), reason: "no such program".into(), cause: Cause::Other };
    let all = Figures {
        schema: crate::figure::SCHEMA.into(),
        env: Env::default(),
        figures: vec![figure],
        missing: vec![missing],
        partial: true,
    };
    let text = serde_json::to_string(&all).unwrap();
    let reading = build::reading("a.b", &text).unwrap();
    assert_eq!((reading.value, reading.is_disturbed, reading.small_is_good), (88.0, false, true));
    assert_eq!(build::reading("c.d", &text).unwrap_err(), "no such program");
    assert!(build::reading("e.f", &text).unwrap_err().contains("e.f"));
    for wrong in ["", "{}", "[1]", &json!({"schema": "tieline.figures/1"}).to_string()] {
        assert!(build::reading("a.b", wrong).is_err(), "{wrong}");
    }
}
