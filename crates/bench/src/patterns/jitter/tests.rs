use super::{explain::Cause, series::tests::made, *};

fn head() -> Head {
    Head {
        env: Env::default(),
        nodes: [4, 8],
        cpus: [0, 1],
        processes: 1,
        path: "shm".into(),
        mechanism: Mechanism::Stores,
        load_threads: 0,
        partial: false,
        asked_s: 6.0,
    }
}

fn report(trips: usize, stall_ns: impl Fn(f64) -> f64) -> Report {
    let timer = Timer::new().unwrap();
    let trace = made(&timer, trips, stall_ns);
    let seen = Seen::of(&timer, &trace).unwrap();
    judge(head(), &timer, (&trace, Poll::Paused), &seen, Vec::new())
}

/// A stall that is due at each multiple of `period` hits the round trip in progress.
fn at_each(period_ns: f64, height_ns: f64, at_ns: f64) -> f64 {
    let into = (at_ns + 260_000.0) % period_ns;
    if into < 260_000.0 { height_ns } else { 0.0 }
}

/// The published case: round trips of 260 µs, a spike of 70 µs each 10 ms.
#[test]
fn a_tick_is_named_with_period_and_height() {
    let report = report(12_000, |at| at_each(10e6, 70_000.0, at));
    let named = &report.periods[0];
    assert!((named.period.period_ns / 10e6 - 1.0).abs() < 0.005, "{named:?}");
    assert!((named.period.height_ns / 70_000.0 - 1.0).abs() < 0.15, "{named:?}");
    // Of 9.996 ms it says 10.00 ms.
    assert!(named.name.contains("every 10.0") && named.name.contains("100 Hz"), "{}", named.name);
    let text = report.to_text();
    assert!(text.contains("periodic: ") && text.contains("12000 round trips"), "{text}");
}

#[test]
fn a_stall_each_second_and_a_tick_are_both_named() {
    let report = report(30_000, |at| at_each(10e6, 70_000.0, at) + at_each(1e9, 5e6, at));
    let named =
        |period_ns: f64| report.periods.iter().any(|p| (p.period.period_ns / period_ns - 1.0).abs() < 0.005);
    assert!(named(10e6) && named(1e9), "{:?}", report.periods);
    assert!(report.to_text().contains("runs by the clock"), "{}", report.to_text());
}

#[test]
fn a_quiet_run_says_so() {
    let report = report(10_000, |_| 0.0);
    assert!(report.periods.is_empty() && report.spikes.is_empty() && report.causes.is_empty());
    assert!(report.to_text().contains("none of them periodic"), "{}", report.to_text());
    assert_eq!((report.kept.every, report.kept.ended_early), (1, false));
}

/// The names in the JSON are a promise; nothing is lost on the way.
#[test]
fn form() {
    let report = report(3000, |at| if at > 300e6 && at < 300.26e6 { 3e6 } else { 0.0 });
    assert_eq!(report.spikes[0].cause, Cause::Unexplained);
    let json = serde_json::to_value(&report).unwrap();
    for name in ["kept", "rtt", "threshold_ns", "spikes", "periods", "causes", "idle", "plot", "distribution"]
    {
        assert!(!json[name].is_null(), "{name}");
    }
    assert!(json["plot"].as_array().unwrap().len() <= 2000);
    assert_eq!(json["distribution"][0].as_array().unwrap().len(), 2);
    assert_eq!(json["spikes"][0]["cause"], "unexplained");
    let back: Report = serde_json::from_value(json.clone()).unwrap();
    assert_eq!((back.plot.len(), back.spikes.len()), (report.plot.len(), report.spikes.len()));
    assert_eq!(back.distribution.len(), report.distribution.len());
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let base = Options::default();
    for options in [
        Options { seconds: 0.0, ..base.clone() },
        Options { seconds: f64::NAN, ..base.clone() },
        Options { seconds: 1e9, ..base.clone() },
        Options { idle_seconds: -1.0, ..base.clone() },
        Options { memory_bytes: usize::MAX, ..base.clone() },
        Options { placement: Placement::Given([0, 9_999_999]), ..base },
    ] {
        assert!(matches!(options.check(), Err(BenchError::Usage(text)) if !text.is_empty()), "{options:?}");
    }
}

#[test]
fn times_have_their_unit() {
    let shown = [5.0, 999.6, 1500.0, 999_980.0, 1e7, 999_999_000.0, 2e9].map(report::time);
    assert_eq!(shown, ["5.00 ns", "1.00 us", "1.50 us", "1.00 ms", "10.0 ms", "1.00 s", "2.00 s"]);
}
