use super::*;

pub(crate) fn spec(stat: Stat, goal: Goal) -> Spec {
    Spec {
        id: "scipp.half_rtt.4B".to_owned(),
        unit: "ns",
        stat,
        size_bytes: Some(4),
        cpus: vec![0, 1],
        path: "shm".to_owned(),
        kind: ReferenceKind::Baseline,
        reference: "one cache line, both ways".to_owned(),
        version: String::new(),
        argv: vec!["tieline".to_owned(), "bench".to_owned(), "limits".to_owned()],
        goal,
        distribution: None,
        notes: Vec::new(),
    }
}

pub(crate) fn blocks(n: usize, ours: f64, reference: f64) -> Vec<Block> {
    (0..n)
        .map(|i| {
            let placement = if i % 3 == 0 { 4.0 } else { 1.0 };
            Block { ours: ours * placement, reference: reference * placement }
        })
        .collect()
}

#[test]
fn passes_and_fails() {
    let goal = Goal::at_most(1.1);
    let good = Figure::of(spec(Stat::P50, goal), 99, blocks(30, 42.0, 40.0), vec![], 1).unwrap();
    assert_eq!((good.verdict, good.value, good.reference.value, good.n), (Verdict::Pass, 42.0, 40.0, 99));
    assert!((good.ratio.value - 1.05).abs() < 1e-12 && good.doubt().is_none());
    let bad = Figure::of(spec(Stat::P50, goal), 99, blocks(30, 60.0, 40.0), vec![], 1).unwrap();
    assert_eq!(bad.verdict, Verdict::Fail);
    assert!(Figure::of(spec(Stat::P50, goal), 0, vec![], vec![], 1).is_none());
}

#[test]
fn doubts_are_named() {
    let goal = Goal::at_most(1.1);
    let few = Figure::of(spec(Stat::P50, goal), 9, blocks(29, 40.0, 40.0), vec![], 1).unwrap();
    assert!(few.verdict == Verdict::Inconclusive && few.doubt().unwrap().contains("29 undisturbed"));
    let moved = vec![Disturbed { ours: 1.0, reference: 1.0, moved: 2.0 }; 31];
    let noisy = Figure::of(spec(Stat::P50, goal), 9, blocks(31, 40.0, 40.0), moved, 1).unwrap();
    assert!(noisy.verdict == Verdict::Inconclusive && noisy.doubt().unwrap().contains("quieter"));
    assert_eq!(noisy.disturbed_blocks, 31);
    let mut near = blocks(40, 44.0, 40.0);
    near.iter_mut().enumerate().for_each(|(i, b)| b.ours *= 0.98 + 0.001 * i as f64);
    let near = Figure::of(spec(Stat::P50, goal), 9, near, vec![], 1).unwrap();
    assert!(near.verdict == Verdict::Inconclusive && near.doubt().unwrap().contains("straddles"));
}

#[test]
fn a_goal_that_is_kept_without_rings_is_no_pass() {
    let figure = |ours: f64, share| {
        let spec = spec(Stat::P50, Goal::at_most(1.1));
        Figure::of(spec, 99, blocks(30, ours, 40.0), vec![], 1).unwrap().with_rings(share)
    };
    let through = figure(42.0, 0.851);
    assert_eq!((through.verdict, through.doubt()), (Verdict::Pass, None));
    for share in [0.85, 0.123, 0.0] {
        let kept = figure(42.0, share);
        let doubt = kept.doubt().unwrap();
        let said = format!("{:.1} % of the bytes went through rings", share * 100.0);
        assert!(kept.verdict == Verdict::Inconclusive && doubt.starts_with(&said), "{doubt}");
    }
    // What is missed is missed, and the share says why.
    let missed = figure(60.0, 0.0);
    assert!(missed.verdict == Verdict::Fail && missed.doubt().unwrap().starts_with("0.0 %"));
    let json = serde_json::to_value(&through).unwrap();
    assert_eq!(json["rings_share"], 0.851);
}

#[test]
fn the_worst_reading_decides() {
    let goal = Goal::at_most(1.0);
    let run = vec![Block { ours: 5.0, reference: 8.0 }, Block { ours: 7.0, reference: 8.0 }];
    let figure = Figure::of(spec(Stat::Max, goal), 2, run, vec![], 1).unwrap();
    assert_eq!((figure.value, figure.ratio.value, figure.verdict), (7.0, 0.875, Verdict::Pass));
}

/// The names in the JSON are a promise.
#[test]
fn form() {
    let figure =
        Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 99, blocks(31, 42.0, 40.0), vec![], 1).unwrap();
    let json = serde_json::to_value(&figure).unwrap();
    let names: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let mut want = [
        "id",
        "unit",
        "stat",
        "n",
        "value",
        "ci95",
        "size_bytes",
        "cpus",
        "path",
        "reference",
        "ratio",
        "goal",
        "blocks",
        "disturbed_blocks",
        "disturbed",
        "verdict",
        "distribution",
        "notes",
    ];
    want.sort_unstable();
    assert_eq!(names, want);
    assert_eq!(json["stat"], "p50");
    assert_eq!(json["reference"]["kind"], "floor");
    assert_eq!(json["goal"], serde_json::json!({"op": "<=", "limit": 1.1}));
    assert_eq!(json["blocks"][1], serde_json::json!([42.0, 40.0]));
    assert_eq!(json["ratio"]["ci95"].as_array().unwrap().len(), 2);
    assert_eq!(json["verdict"], "PASS");
    let back: Figure = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&back).unwrap(), json);
}

/// Every field that can appear is described, by its name in code font.
#[test]
fn described() {
    fn names(value: &serde_json::Value, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    into.push(name.clone());
                    names(value, into);
                }
            }
            serde_json::Value::Array(items) => items.iter().take(1).for_each(|item| names(item, into)),
            _ => {}
        }
    }
    let mut samples = crate::stats::Samples::new(false).unwrap();
    (0..20_000).for_each(|n| samples.record_ns(f64::from(n)));
    let with_tails = Spec { distribution: samples.summary(), ..spec(Stat::P50, Goal::at_most(1.1)) };
    let figure = Figure::of(with_tails, 99, blocks(31, 42.0, 40.0), vec![], 1).unwrap().with_rings(1.0);
    let missing = vec![Missing { id: "x".to_owned(), reason: "y".to_owned(), cause: Cause::TooFewCpus }];
    let env = Env { versions: Default::default(), ..Env::default() };
    let all = Figures { schema: SCHEMA.to_owned(), env, figures: vec![figure], missing, partial: false };
    let mut all_names = Vec::new();
    names(&serde_json::to_value(&all).unwrap(), &mut all_names);
    let text = include_str!("../../../../docs/schema.md");
    let words: std::collections::HashSet<&str> =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let absent: Vec<&String> = all_names.iter().filter(|name| !words.contains(name.as_str())).collect();
    assert!(absent.is_empty() && all_names.len() > 50, "{absent:?} of {all_names:?}");
}

#[test]
fn missing_is_no_pass() {
    let figure =
        Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 99, blocks(31, 42.0, 40.0), vec![], 1).unwrap();
    let mut all = Figures {
        schema: SCHEMA.to_owned(),
        env: Env::default(),
        figures: vec![figure],
        missing: vec![],
        partial: false,
    };
    assert_eq!((all.verdict(), all.exit_status()), (Verdict::Pass, 0));
    all.missing.push(Missing {
        id: "up.64".to_owned(),
        reason: "no cluster".to_owned(),
        cause: Cause::Other,
    });
    assert_eq!((all.verdict(), all.exit_status()), (Verdict::Fail, 1));
    let measured = all.figures.clone();
    all.figures.clear();
    assert_eq!(all.exit_status(), 4);
    // Whatever the words are.
    all.missing[0].cause = Cause::TooFewCpus;
    assert_eq!((all.verdict(), all.exit_status()), (Verdict::Inconclusive, 3));
    all.figures = measured;
    assert_eq!((all.verdict(), all.exit_status()), (Verdict::Inconclusive, 3));
    // A run that was ended before it asked has not found a fault.
    all.missing[0].cause = Cause::EndedEarly;
    assert_eq!((all.verdict(), all.exit_status()), (Verdict::Inconclusive, 3));
    let other = Missing { id: "x".into(), reason: "needs two processors".into(), cause: Cause::Other };
    all.missing.push(other);
    assert_eq!((all.verdict(), all.exit_status(), all.lacks_only_cpus()), (Verdict::Fail, 1, false));
}

#[test]
fn a_cause_that_is_not_known_is_another() {
    let read = |text: &str| serde_json::from_str::<Missing>(text).unwrap().cause;
    assert_eq!(read(r#"{"id": "x", "reason": "y"}"#), Cause::Other);
    assert_eq!(read(r#"{"id": "x", "reason": "y", "cause": "full_moon"}"#), Cause::Other);
    assert_eq!(read(r#"{"id": "x", "reason": "y", "cause": "too_few_cpus"}"#), Cause::TooFewCpus);
}
