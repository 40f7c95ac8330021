//! The classic two lines of `intr_bench`.

use crate::stats::digits;

/// Mean times in µs; `step_ns` is what the clock resolves of a round trip: no digit below is
/// printed.
pub fn render(one_way_us: f64, round_trip_us: f64, step_ns: f64) -> String {
    let show = |us: f64, step_ns: f64| format!("{:>12}", digits::show(us, step_ns, 1000.0, 3));
    format!(
        "Average unidirectional interrupt time : {} us.\nAverage round trip     interrupt time : {} us.\n",
        show(one_way_us, step_ns / 2.0),
        show(round_trip_us, step_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_lines() {
        let want = "Average unidirectional interrupt time :        2.515 us.\n\
                    Average round trip     interrupt time :        5.030 us.\n";
        assert_eq!(render(2.515, 5.030, 1.0), want);
    }

    #[test]
    fn a_coarse_clock_prints_fewer_digits() {
        assert!(render(2.515, 5.03, 20.0).ends_with("          5.0 us.\n"));
    }
}
