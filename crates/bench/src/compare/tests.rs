use serde_json::json;

use super::{verify::values_of, *};
use crate::{
    figure::{Cause, Figure, Figures, Missing, ReferenceKind, Stat, tests::spec},
    quantity::Quantity,
    rng::Rng,
    stats::paired::Block,
    verdict::Goal,
};

/// Blocks of `ours × baseline` and a baseline that jumps fourfold now and then; both scatter by a
/// few percent.
fn noisy(seed: u64, n: usize, ours: f64) -> Vec<Block> {
    let mut rng = Rng::new(seed);
    let mut about = move |value: f64| value * (0.97 + 0.06 * (rng.next_u64() as f64 / u64::MAX as f64));
    (0..n)
        .map(|i| {
            let baseline = if i as u64 % 7 < seed % 7 { 160.0 } else { 40.0 };
            Block { ours: about(baseline * ours), reference: about(baseline) }
        })
        .collect()
}

fn figure(id: &str, blocks: Vec<Block>) -> Figure {
    let spec = crate::figure::Spec { id: id.to_owned(), ..spec(Stat::P50, Goal::at_most(1.1)) };
    Figure::of(spec, 99, blocks, vec![], 1).unwrap()
}

fn document(figures: Vec<Figure>) -> Value {
    let env = Env { kernel: "6.1".into(), ..Default::default() };
    let all = Figures { schema: crate::figure::SCHEMA.into(), env, figures, missing: vec![], partial: false };
    serde_json::to_value(all).unwrap()
}

fn compare(old: &Value, new: &Value) -> Comparison {
    values(("old.json", old), ("new.json", new), &Options::default()).unwrap()
}

fn judged(old: f64, new: f64) -> Judgement {
    let of = |seed, ours| document(vec![figure("a.b", noisy(seed, 60, ours))]);
    compare(&of(1, old), &of(5, new)).figures[0].judgement
}

#[test]
fn the_ratio_to_the_baseline_is_compared_not_the_time() {
    // The baselines of the two runs jump at other times, so that the medians of the times are far
    // apart.
    let of = |seed, ours| document(vec![figure("a.b", noisy(seed, 60, ours))]);
    let comparison = compare(&of(1, 1.0), &of(5, 1.0));
    let change = &comparison.figures[0];
    assert!(change.new / change.old > 2.0, "{change:?}");
    assert_eq!((change.basis, change.judgement), (Basis::Ratio, Judgement::Same));
    assert!(change.change_ci95.unwrap().low < 1.0 && change.change_ci95.unwrap().high > 1.0);
    assert_eq!((comparison.verdict, comparison.exit_status()), (Verdict::Pass, 0));
    assert_eq!(judged(1.0, 1.2), Judgement::Worse);
    assert_eq!(judged(1.2, 1.0), Judgement::Better);
    assert_eq!(judged(1.0, 1.02), Judgement::Same);
}

#[test]
fn a_measurement_is_the_same_as_itself_however_short_it_was() {
    let few = document(vec![figure("a.b", noisy(1, 4, 1.0))]);
    let comparison = compare(&few, &few);
    assert_eq!((comparison.figures[0].judgement, comparison.exit_status()), (Judgement::Same, 0));
    assert_eq!(comparison.figures[0].change_ci95, Some(Interval::point(1.0)));
    // Another run that was as short says nothing.
    let other = document(vec![figure("a.b", noisy(2, 4, 1.0))]);
    assert_eq!(compare(&few, &other).figures[0].judgement, Judgement::Inconclusive);
}

#[test]
fn both_tolerances_must_be_exceeded() {
    let of = |ours: f64| document(vec![figure("a.b", vec![Block { ours, reference: 10.0 }; 30])]);
    let with = |text: &str| Options {
        tolerance: Tolerance::default().with(Quantity::parse(text).unwrap()),
        ..Options::default()
    };
    let judged =
        |options: &Options| values(("o", &of(10.0)), ("n", &of(11.0)), options).unwrap().figures[0].judgement;
    // 10 %, but only 1 ns: not beyond the default of 2 ns.
    assert_eq!(judged(&Options::default()), Judgement::Same);
    assert_eq!(judged(&with("0.5ns")), Judgement::Worse);
    // 1 ns is beyond 0.5 ns, but 10 % is not beyond 20 %.
    let mut loose = with("0.5ns");
    loose.tolerance.relative = 0.2;
    assert_eq!(judged(&loose), Judgement::Same);
}

#[test]
fn bandwidth_should_be_large() {
    let of = |ours: f64| {
        let spec = crate::figure::Spec {
            unit: "GB/s",
            kind: ReferenceKind::Rival,
            ..spec(Stat::P50, Goal::at_least(0.97))
        };
        let blocks = vec![Block { ours, reference: 10.0 }; 30];
        document(vec![Figure::of(spec, 9, blocks, vec![], 1).unwrap()])
    };
    assert_eq!(compare(&of(10.0), &of(8.0)).figures[0].judgement, Judgement::Worse);
    assert_eq!(compare(&of(8.0), &of(10.0)).figures[0].judgement, Judgement::Better);
}

#[test]
fn without_a_common_reference_values_are_compared_and_chance_is_ruled_out() {
    let of = |seed, ours: f64, reference: &str| {
        let mut rng = Rng::new(seed);
        let blocks = (0..40)
            .map(|_| Block {
                ours: ours * (0.9 + 0.2 * rng.next_u64() as f64 / u64::MAX as f64),
                reference: 7.0,
            })
            .collect();
        let spec = crate::figure::Spec { reference: reference.into(), ..spec(Stat::P50, Goal::at_most(1.1)) };
        document(vec![Figure::of(spec, 9, blocks, vec![], 1).unwrap()])
    };
    let worse = compare(&of(1, 100.0, "kernel a"), &of(2, 130.0, "kernel b"));
    let change = &worse.figures[0];
    assert_eq!((change.basis, change.judgement), (Basis::Value, Judgement::Worse));
    assert!(change.chance.unwrap() < 0.01 && change.beside.is_none(), "{change:?}");
    assert_eq!(worse.exit_status(), 1);
    let same = compare(&of(1, 100.0, "kernel a"), &of(2, 100.0, "kernel b"));
    assert!(same.figures[0].chance.unwrap() > 0.05, "{:?}", same.figures[0]);
    assert_ne!(same.figures[0].judgement, Judgement::Worse);
}

/// Two runs of the same thing, over and over: no more than a few are called changed.
#[test]
fn what_has_not_changed_is_not_called_changed() {
    let changed = (0..200)
        .filter(|seed| {
            let of = |seed, factor| document(vec![figure("a.b", noisy(seed, 30, factor))]);
            let comparison = compare(&of(*seed, 1.0), &of(seed + 1000, 1.0));
            matches!(comparison.figures[0].judgement, Judgement::Worse | Judgement::Better)
        })
        .count();
    assert_eq!(changed, 0);
}

#[test]
fn too_few_blocks_say_nothing() {
    let few = document(vec![figure("a.b", noisy(1, 9, 1.0))]);
    let many = document(vec![figure("a.b", noisy(1, 60, 2.0))]);
    for (old, new, word) in [(&few, &many, "before: only 9"), (&many, &few, "only 9")] {
        let comparison = compare(old, new);
        let why = comparison.figures[0].why.as_deref().unwrap();
        assert!(why.starts_with(word), "{why}");
        assert_eq!((comparison.verdict, comparison.exit_status()), (Verdict::Inconclusive, 3));
    }
}

#[test]
fn a_largest_reading_is_compared_as_it_is() {
    let of = |ours: f64| {
        let spec = crate::figure::Spec { unit: "MB", ..spec(Stat::Max, Goal::at_most(1.0)) };
        let blocks = vec![Block { ours: 1.0, reference: 8.0 }, Block { ours, reference: 8.0 }];
        document(vec![Figure::of(spec, 2, blocks, vec![], 1).unwrap()])
    };
    let change = &compare(&of(2.0), &of(4.0)).figures[0];
    assert_eq!((change.judgement, change.change), (Judgement::Worse, Some(2.0)));
    assert_eq!(compare(&of(2.0), &of(2.05)).figures[0].judgement, Judgement::Same);
}

#[test]
fn what_is_missing_fails_unless_that_is_allowed() {
    let steady = || noisy(1, 60, 1.0);
    let old = document(vec![figure("a.b", steady()), figure("up.64", steady())]);
    let mut new = document(vec![figure("a.b", steady()), figure("new.one", steady())]);
    let missing = Missing { id: "up.64".into(), reason: "no processes left".into(), cause: Cause::Other };
    new["missing"] = json!([missing]);
    let comparison = compare(&old, &new);
    assert_eq!(comparison.exit_status(), 1);
    assert_eq!(
        comparison.missing,
        [OneSided { id: "up.64".into(), reason: Some("no processes left".into()), disturbed: false }]
    );
    assert_eq!(comparison.added[0].id, "new.one");
    let text = comparison.to_text();
    assert!(text.contains("up.64: not in new.json (no processes left): counts as a failure"), "{text}");
    assert!(text.contains("new.one: not in old.json") && text.ends_with("verdict: FAIL\n"), "{text}");
    let options = Options { missing_ok: true, ..Options::default() };
    let allowed = values(("old.json", &old), ("new.json", &new), &options).unwrap();
    assert!(allowed.exit_status() == 0 && allowed.to_text().contains(": allowed"), "{}", allowed.to_text());
}

#[test]
fn another_machine_is_said_in_the_head() {
    let old = document(vec![figure("a.b", noisy(1, 60, 1.0))]);
    let mut new = old.clone();
    assert!(compare(&old, &new).to_text().contains("same machine, placement and versions"));
    new["env"]["kernel"] = "6.18".into();
    new["env"]["versions"] = json!({"tieline": "9.9.9"});
    new["figures"][0]["cpus"] = json!([2, 3]);
    new["partial"] = true.into();
    let comparison = compare(&old, &new);
    let what: Vec<&str> = comparison.differences.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(what, ["kernel", "version of tieline", "placement"]);
    let text = comparison.to_text();
    let head: Vec<&str> = text.lines().take(5).collect();
    assert!(head.contains(&"not the same: kernel: 6.1 before, 6.18 now"), "{text}");
    assert!(text.contains("[2, 3] over shm now") && text.contains("new.json is partial"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_an_error_that_names_it() {
    let good = document(vec![figure("a.b", noisy(1, 60, 1.0))]);
    let text = |old: &Value, new: &Value| {
        values(("old.json", old), ("new.json", new), &Options::default()).unwrap_err().to_string()
    };
    let wrong = text(&good, &json!({"schema": "other/1"}));
    assert!(
        wrong.contains("new.json") && wrong.contains("other/1") && wrong.contains("tieline.figures/1"),
        "{wrong}"
    );
    assert!(text(&json!([1]), &good).contains("missing"));
    let empty = text(&good, &document(vec![]));
    assert!(empty.contains("new.json") && empty.contains("nothing to compare"), "{empty}");
    let mut broken = good.clone();
    broken["figures"][0]["value"] = "fast".into();
    assert!(text(&broken, &good).starts_with("old.json: tieline.figures/1: "), "{}", text(&broken, &good));
    let env = json!(Env::default());
    let rows = json!([{"size_bytes": 64, "entry_ns": 3.0, "ratio": 1.0, "reference_ns": 3.0}]);
    let other = json!({"schema": "tieline.dma/1", "env": env, "rows": rows});
    assert!(text(&good, &other).contains("two results of the same command"));
    assert!(text(&json!({"schema": "tieline.dma/1", "rows": rows}), &good).contains("`env`"));
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = std::env::temp_dir().join(format!("tieline-compare-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (half, none) = (dir.join("half.json"), dir.join("none.json"));
    std::fs::write(&half, "{\"schema\":\n").unwrap();
    let error = |old: &Path, new: &Path| files(old, new, &Options::default()).unwrap_err().to_string();
    let not_json = error(&half, &half);
    assert!(not_json.contains("half.json, line 2") && not_json.contains("with --json"), "{not_json}");
    let unreadable = error(&none, &half);
    assert!(unreadable.contains("none.json cannot be read"), "{unreadable}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_verification_is_compared_section_by_section() {
    let pair = |ratio: f64| {
        json!({"pair": [4, 8], "latency": {"p50_ns": 80.0 * ratio, "ratio": ratio,
               "ratio_ci95": [ratio * 0.99, ratio * 1.01], "verdict": "PASS"}, "block": null})
    };
    let of = |ours: f64, ratio: f64| {
        json!({"schema": "tieline.verify/1", "benchmarks": [document(vec![figure("a.b", noisy(1, 60, ours))])],
               "pairs": {"pairs": [pair(ratio)], "error": null, "partial": false}})
    };
    let go = |old: &Value, new: &Value| {
        values_of(("old.json", old), ("new.json", new), &Options::default()).unwrap()
    };
    let same = go(&of(1.0, 1.0), &of(1.0, 1.0));
    let names: Vec<&str> = same.sections.iter().map(|section| section.name.as_str()).collect();
    assert_eq!((names, same.verdict), (vec!["tieline.figures/1", "pairs"], Verdict::Pass));
    let slow_pair = go(&of(1.0, 1.0), &of(1.0, 1.5));
    assert_eq!((slow_pair.sections[0].verdict, slow_pair.verdict), (Verdict::Pass, Verdict::Fail));
    assert!(slow_pair.to_text().contains("pairs.4-8.half_rtt"), "{}", slow_pair.to_text());
    assert_eq!(go(&of(1.0, 1.0), &of(1.5, 1.0)).sections[0].verdict, Verdict::Fail);
    let mut unread = of(1.0, 1.0);
    unread["pairs"]["pairs"][0]["latency"] = Value::Null;
    let disturbed = go(&of(1.0, 1.0), &unread);
    assert_eq!(disturbed.verdict, Verdict::Inconclusive, "not measured is not worse");
    let text = disturbed.to_text();
    assert!(
        text.contains("pairs.4-8.half_rtt: not in") && text.contains("too few undisturbed readings"),
        "{text}"
    );
    let mut gone_pair = of(1.0, 1.0);
    gone_pair["pairs"]["pairs"][0]["pair"] = json!([4, 12]);
    assert_eq!(go(&of(1.0, 1.0), &gone_pair).verdict, Verdict::Fail, "a pair that is gone is");
    for (old_busy, new_busy) in [(false, true), (true, false)] {
        let (mut old, mut new) = (of(1.0, 1.0), of(1.5, 1.5));
        let reason = json!("the machine was busy: other work used 80 % of the 2 processors (in pairs)");
        for (document, _) in
            [(&mut old, old_busy), (&mut new, new_busy)].into_iter().filter(|(_, busy)| *busy)
        {
            document["busy"] = reason.clone();
        }
        let beside_work = go(&old, &new);
        assert_eq!(beside_work.verdict, Verdict::Inconclusive);
        assert!(beside_work.to_text().contains("other work used 80 %"), "{}", beside_work.to_text());
    }
    let mut without = of(1.0, 1.0);
    without["benchmarks"] = json!([]);
    let gone = go(&of(1.0, 1.0), &without);
    assert_eq!(
        (gone.sections[0].error.as_deref(), gone.verdict),
        (Some("it is not there now"), Verdict::Fail)
    );
    let nothing = json!({"schema": "tieline.verify/1"});
    assert!(values_of(("old.json", &nothing), ("new.json", &nothing), &Options::default()).is_err());
    assert!(values_of(("old.json", &json!({})), ("new.json", &nothing), &Options::default()).is_err());
}
