//! The classic table of `scipp`, column for column.

use std::fmt::Write as _;

use super::table::NOTHING;
use crate::stats::digits;

/// One size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Message size in bytes.
    pub size_bytes: u64,
    /// Polls that found nothing.
    pub retries: u64,
    /// Round trip.
    pub rtt_us: f64,
    /// The resolution of a round trip, by the clock and the batch: no digit below it is printed.
    pub step_ns: f64,
}

/// The table with its title.
pub fn render(rows: &[Row]) -> String {
    let mut text =
        String::from("Ping Pong data transfer:\n  size       retries  latency (usec)  latency/2 (usec)\n");
    for row in rows {
        let rtt = digits::show(row.rtt_us, row.step_ns, 1000.0, 3);
        let half = digits::show(row.rtt_us / 2.0, row.step_ns / 2.0, 1000.0, 3);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:>6}{:>14}{rtt:>16}{half:>18}", row.size_bytes, row.retries);
    }
    if rows.is_empty() {
        text.push_str(NOTHING);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of the published table, from its own figures.
    #[test]
    fn published_lines() {
        let row = |size_bytes, retries, rtt_us| Row { size_bytes, retries, rtt_us, step_ns: 1.0 };
        let text =
            render(&[row(0, 248, 1.391), row(4, 495, 1.258), row(128, 515, 1.309), row(8192, 1106, 3.854)]);
        let want = "\
Ping Pong data transfer:
  size       retries  latency (usec)  latency/2 (usec)
     0           248           1.391             0.696
     4           495           1.258             0.629
   128           515           1.309             0.654
  8192          1106           3.854             1.927
";
        // The published half of 1.391 is cut, not rounded: 0.695.
        assert_eq!(text, want);
    }

    #[test]
    fn a_run_that_was_ended_before_its_first_size() {
        assert!(render(&[]).ends_with("latency/2 (usec)\n(nothing measured)\n"));
    }

    #[test]
    fn a_coarse_clock_prints_fewer_digits() {
        let text = render(&[Row { size_bytes: 4, retries: 1, rtt_us: 0.129, step_ns: 10.0 }]);
        assert!(text.ends_with("     4             1            0.13              0.06\n"), "{text}");
    }
}
