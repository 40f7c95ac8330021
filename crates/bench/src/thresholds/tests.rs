use super::*;
use crate::{
    env::Env,
    figure::{
        Figure, Figures, Stat,
        tests::{blocks, spec},
    },
    results::Document,
    verdict::Verdict,
};

fn parse(text: &str) -> Thresholds {
    Thresholds::parse("limits.toml", text).unwrap()
}

#[test]
fn the_built_in_ones_are_a_file_that_reads_back() {
    let builtin = Thresholds::builtin();
    let text = builtin.to_toml();
    let back = parse(&text);
    assert_eq!(back.entries.len(), catalogue::ALL.len());
    for (ours, theirs) in builtin.entries.iter().zip(&back.entries) {
        assert_eq!(
            (&ours.pattern, &ours.ratio, &ours.value),
            (&theirs.pattern, &theirs.ratio, &theirs.value)
        );
    }
    assert!(text.contains("[\"connect_map\"]\nupper = \"200000 ns\"\n"), "{text}");
    assert!(text.contains("[\"scipp.half_rtt.4B\"]\nupper_ratio = 1.05\n"), "{text}");
}

#[test]
fn the_figures_of_each_tool_have_names() {
    let all = ids::known();
    let dimension = |name: &str| all.iter().find(|(id, _)| id == name).map(|(_, dimension)| *dimension);
    for (names, expected) in [
        (&["scipp.half_rtt.4B", "scipp.half_rtt.4B.own", "scipp.half_rtt.4B.put"][..], Dimension::Time),
        (&["scibench2.64B"], Dimension::Bandwidth),
        (&["dma.64B", "jitter.rtt.p99.put", "pt2pt.latency.8B", "pt2pt.alltoall.8B"], Dimension::Time),
        (&["pt2pt.put.8B", "pt2pt.get-bw.1MiB", "pt2pt.fetch-add.8B"], Dimension::Time),
    ] {
        for name in names {
            assert_eq!(dimension(name), Some(expected), "{name}");
        }
    }
    assert_eq!(dimension("dma.64B.put"), None);
}

#[test]
fn a_name_wins_over_a_pattern_and_a_long_pattern_over_a_short_one() {
    let all = parse(
        "[\"*\"]\nupper_ratio = 9\n[\"scipp.*\"]\nupper_ratio = 2.0\n[\"scipp.half_rtt.4B\"]\nupper = \"1 us\"\ntarget = \"0.1us\"\n",
    );
    let found = |id: &str| all.find(id).unwrap().pattern.clone();
    assert_eq!(
        ["scipp.half_rtt.4B", "scipp.half_rtt.4B.own", "put.1MiB.hot"].map(found),
        ["scipp.half_rtt.4B", "scipp.*", "*"]
    );
    let exact = all.find("scipp.half_rtt.4B").unwrap();
    assert_eq!((exact.line, exact.value.upper, exact.value.target), (5, Some(1000.0), Some(100.0)));
    assert!(parse("").find("put.1MiB.hot").is_none());
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_was_expected() {
    for (text, line, words) in [
        ("[\"put.*\"\n", 1, &["not TOML"][..]),
        (
            "\n[\"scip.half_rtt.4B\"]\nupper_ratio = 1.0",
            2,
            &["`scip.half_rtt.4B`", "did you mean `scipp.half_rtt.4B`"],
        ),
        ("[\"nothing*\"]\nupper_ratio = 1.0", 1, &["`nothing*`", "none matches"]),
        ("[scipp.half_rtt]\nupper_ratio = 1.0", 1, &["quoted name"]),
        ("upper_ratio = 1.0", 1, &["`upper_ratio` is not a table", "lower_ratio"]),
        ("[\"put.*\"]\nupper_raito = 1.0", 2, &["`upper_raito`", "expected target_ratio"]),
        ("[\"put.*\"]\nupper_ratio = \"fast\"", 2, &["`upper_ratio`", "number above 0"]),
        ("[\"put.*\"]\nupper_ratio = -1.0", 2, &["number above 0"]),
        ("[\"put.*\"]\nupper_ratio = nan", 2, &["number above 0"]),
        ("[\"put.*\"]\nlower = 10", 2, &["number and a unit"]),
        ("[\"put.*\"]\nlower = \"10 XB/s\"", 2, &["`10 XB/s`", "GB/s"]),
        ("[\"put.*\"]\nlower = \"10 ns\"", 1, &["given in ns", "put.16MiB.cold", "GB/s"]),
        ("[\"put.*\"]\nlower = \"10 GB/s\"\nupper = \"10 ns\"", 3, &["expected a unit like"]),
        ("[\"put.*\"]\ntarget_ratio = 1.0", 1, &["judges nothing"]),
        ("[\"put.*\"]\n", 1, &["judges nothing"]),
        (
            "[\"put.*\"]\nlower_ratio = 2.0\nupper_ratio = 1.0",
            1,
            &["lower_ratio ≤ target_ratio ≤ upper_ratio"],
        ),
    ] {
        let error = Thresholds::parse("limits.toml", text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("limits.toml, line {line}: ")), "{text}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
    let unreadable = Thresholds::read(Path::new("/nonexistent/x.toml")).unwrap_err().to_string();
    assert!(
        unreadable.contains("/nonexistent/x.toml") && unreadable.contains("bench thresholds"),
        "{unreadable}"
    );
}

fn figures(ours: f64, n: usize) -> Figures {
    let figure =
        Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 9, blocks(n, ours, 40.0), vec![], 1).unwrap();
    Figures {
        schema: crate::figure::SCHEMA.into(),
        env: Env::default(),
        figures: vec![figure],
        missing: vec![],
        partial: false,
    }
}

fn applied(ours: f64, text: &str) -> (Verdict, f64) {
    let mut all = figures(ours, 60);
    parse(text).apply(&mut all);
    (all.figures[0].verdict, all.figures[0].goal.limit)
}

#[test]
fn a_file_overrides_the_goal_of_a_figure() {
    assert_eq!(figures(42.0, 60).figures[0].verdict, Verdict::Pass);
    let strict = "[\"scipp.half_rtt.4B\"]\nupper_ratio = 1.02";
    assert_eq!(applied(42.0, strict), (Verdict::Fail, 1.02));
    assert_eq!(applied(60.0, "[\"scipp.*\"]\nupper_ratio = 2.0"), (Verdict::Pass, 2.0));
    // Absolute: the ratio no longer matters.
    assert_eq!(applied(60.0, "[\"scipp.*\"]\nupper = \"1us\"").0, Verdict::Pass);
    assert_eq!(applied(42.0, "[\"scipp.*\"]\nupper = \"10ns\"").0, Verdict::Fail);
    // Too good to be true is out of bounds as well.
    assert_eq!(applied(42.0, "[\"scipp.*\"]\nlower_ratio = 1.5").0, Verdict::Fail);
    // Both must hold.
    assert_eq!(applied(42.0, "[\"scipp.*\"]\nupper_ratio = 2.0\nupper = \"10ns\"").0, Verdict::Fail);
    // What nothing is said of keeps its own.
    assert_eq!(applied(42.0, "[\"put.*\"]\nlower_ratio = 0.5"), (Verdict::Pass, 1.1));
    let mut few = figures(42.0, 12);
    parse("[\"scipp.*\"]\nupper_ratio = 2.0").apply(&mut few);
    assert_eq!(few.figures[0].verdict, Verdict::Inconclusive);
    assert!(
        few.to_text().contains("12 undisturbed blocks") && few.to_text().contains("ratio at most 2"),
        "{}",
        few.to_text()
    );
    let json = serde_json::to_value(&few).unwrap();
    let back: Figures = serde_json::from_value(json).unwrap();
    assert_eq!(back.figures[0].judged.as_ref().unwrap().by, "scipp.*");
}

#[test]
fn a_table_is_judged_and_what_has_no_ratio_says_so() {
    let rows: Vec<serde_json::Value> = vec![serde_json::json!({"size_bytes": 64, "bandwidth_gb_s": 3.0})];
    let value = serde_json::json!({"schema": "tieline.scibench2/1", "env": Env::default(), "rows": rows});
    let document = Document::of("x", &value).unwrap();
    let verdict = |text: &str| parse(text).judge(&document);
    assert_eq!(verdict("[\"scibench2.64B\"]\nlower = \"2 GB/s\"").verdict, Verdict::Pass);
    assert_eq!(verdict("[\"scibench2.*\"]\nlower = \"4000 MB/s\"").verdict, Verdict::Fail);
    let none = verdict("[\"scibench2.*\"]\nlower_ratio = 0.9");
    assert!(
        none.verdict == Verdict::Fail && none.to_text().contains("compared with nothing"),
        "{}",
        none.to_text()
    );
    let other = verdict("[\"dma.*\"]\nupper_ratio = 2.0");
    assert!(
        other.verdict == Verdict::Fail && other.to_text().contains("nothing that was measured"),
        "{}",
        other.to_text()
    );
}

#[test]
fn a_file_for_something_else_is_refused_before_anything_is_measured() {
    let all = parse("[\"dma.*\"]\nupper_ratio = 2.0");
    all.expect_some("dma", "dma.").unwrap();
    let error = all.expect_some("scipp", "scipp.").unwrap_err().to_string();
    assert!(error.contains("limits.toml") && error.contains("scipp") && error.contains("dma.*"), "{error}");
    assert!(parse("").expect_some("scipp", "scipp.").unwrap_err().to_string().contains("none"));
    parse("[\"*\"]\nupper_ratio = 2.0").expect_some("scipp", "scipp.").unwrap();
}
